/* feedback_file.h — file of a rank's error feedback, so that the next process of the rank sends the same bytes.
 *
 * At the end of each step, before anybody is told of it, what the step has changed is written to the rank's file as the
 * state with which the next step begins. A process that dies leaves the file; the one that is started in its place is
 * told which step to play again, and reads the state of that step. Where there is none (another machine, no file, an
 * older step than is kept, another generation of the deployment) feedback begins at zero, and that is said.
 *
 *   file     records, one after the other; the first has everything, the others what one step has changed
 *   bytes    record
 *   8 8  FEEDBACK_FILE_MAGIC, generation
 *   4 4      rank, 1: everything is in it, 0: what has changed since the record before
 *   8 8      step that begins with this state, bytes of the body
 *   8        XXH3 of all but this
 *   …        body: pieces (error_feedback.h)
 *
 * When what has changed is larger than everything, by FEEDBACK_FILE_SLACK bytes, a new file is begun, and the one
 * before it is kept beside it (PATH.old): so at least the last two steps are there, and the files have a bound. A
 * record that was not written to its end is as if it was not there: its step was not over. It is memory of this
 * machine: nothing waits for a disk.
 *
 * A file of another format stays as it is: that is said, with both numbers, and nothing is kept.
 *
 * Ownership   it owns the feedbacks. Threads: none. A fault of the file is printed on stderr once, and ends the saving,
 *             not the worker. */
#pragma once
#include "kv/client/error_feedback.h"

#define FEEDBACK_FILE_MAGIC UINT64_C(0x3159524149444d4d) /* "MMDIARY1": format 1 */
enum { FEEDBACK_FILE_HEAD = 48, FEEDBACK_FILE_SLACK = 1 << 16 };

typedef struct feedback_file feedback_file;

typedef struct feedback_file_look {
    uint64_t bytes, forgotten; /* of all tables, as in error_feedback_look */
    uint64_t begun_empty;      /* how often a step began without the state that it should have had */
} feedback_file_look;

/* of the rests of keys of a table; 0: ERROR_FEEDBACK_BYTES_MAX */
feedback_file *feedback_file_create(uint64_t bytes_max);
void feedback_file_destroy(feedback_file *file); /* the file stays */

/* Where it is kept; NULL: nowhere. Copied. Nothing was pushed yet. */
void feedback_file_keep(feedback_file *file, const char *path);

/* The rank goes on with this step. What is here is of that step, or comes from the file, or is empty. */
void feedback_file_begin(feedback_file *file, uint32_t rank, uint64_t generation, uint64_t step);
/* The state with which the next step begins: what is here. */
void feedback_file_end(feedback_file *file, uint64_t next_step);

error_feedback *feedback_file_of(feedback_file *file, uint32_t table);         /* of a table that is pushed to */
error_feedback *feedback_file_find(const feedback_file *file, uint32_t table); /* NULL: nothing was pushed to it */
void feedback_file_drop(feedback_file *file, uint32_t table);                  /* it is gone */
feedback_file_look feedback_file_look_at(const feedback_file *file);

/* For tests and fuzzing: takes the state of that step from the bytes of a file. False: it is not in them, and there is
 * no feedback then. */
bool feedback_file_read(feedback_file *feedback_file, span file, uint32_t rank, uint64_t generation, uint64_t step);
