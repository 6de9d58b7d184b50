/* feedback_file.h — file of a rank's error feedback, so that the next process of the rank sends the same bytes.
 *
 * At the end of each step, before the step's end is reported, the changes of the step are written to the rank's file as
 * the state with which the next step begins. A process that dies leaves the file; its replacement is told which step to
 * replay, and reads the state of that step. Where there is none (another machine, no file, an older step than is kept,
 * another generation of the deployment) feedback begins at zero, with a message.
 *
 *   file     records, one after the other; the first has everything, the others the changes of one step
 *   bytes    record
 *   8 8  FEEDBACK_FILE_MAGIC, generation
 *   4 4      rank, 1: everything is in it, 0: the changes since the record before
 *   8 8      step that begins with this state, bytes of the body
 *   8        XXH3 of all but this
 *   …        body: pieces (error_feedback.h)
 *
 * When the changes are larger than everything, by FEEDBACK_FILE_SLACK bytes, a new file is begun, and the one before it
 * is kept beside it (PATH.old): so at least the last two steps are there, and the files have a bound. An incomplete
 * record counts as missing: its step was not over. The file survives the process, not the machine: nothing waits for a
 * disk.
 *
 * A file of another format is left unchanged: a message has both numbers, and nothing is kept.
 *
 * Ownership   it owns the feedbacks. Threads: none. A file error is printed on stderr once, and ends the saving,
 *             not the worker. */
#pragma once
#include "kv/client/error_feedback.h"

#define FEEDBACK_FILE_MAGIC UINT64_C(0x3159524149444d4d) /* "MMDIARY1": format 1 */
enum { FEEDBACK_FILE_HEAD = 48, FEEDBACK_FILE_SLACK = 1 << 16 };

typedef struct feedback_file feedback_file;

typedef struct feedback_file_look {
    uint64_t bytes, forgotten; /* of all tables, as in error_feedback_look */
    uint64_t begun_empty;      /* how often a step began without the state that it needed */
} feedback_file_look;

/* of the residuals of keys of a table; 0: ERROR_FEEDBACK_BYTES_MAX */
feedback_file *feedback_file_create(uint64_t bytes_max);
void feedback_file_destroy(feedback_file *file); /* the file stays */

/* Path of the file; NULL: none. Copied. Nothing was pushed yet. */
void feedback_file_keep(feedback_file *file, const char *path);

/* The rank goes on with this step. The state is that of the step, or comes from the file, or is empty. */
void feedback_file_begin(feedback_file *file, uint32_t rank, uint64_t generation, uint64_t step);
/* The present state is the one with which the next step begins. */
void feedback_file_end(feedback_file *file, uint64_t next_step);

error_feedback *feedback_file_of(feedback_file *file, uint32_t table);         /* of a table that is pushed to */
error_feedback *feedback_file_find(const feedback_file *file, uint32_t table); /* NULL: nothing was pushed to it */
void feedback_file_drop(feedback_file *file, uint32_t table);                  /* the table was dropped */
feedback_file_look feedback_file_look_at(const feedback_file *file);

/* For tests and fuzzing: takes the state of that step from the bytes of a file. False: not in them, and the feedback is
 * empty. */
bool feedback_file_read(feedback_file *feedback_file, span file, uint32_t rank, uint64_t generation, uint64_t step);
