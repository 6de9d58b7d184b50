/* feedback_file.h — file of a rank's error feedback, so that the next process of the rank sends the same bytes.
 *
 * At the end of each step, before the step's end is reported, the changes of the step are written to the rank's file as
 * the state with which the next step begins. A process that dies leaves the file. Its replacement gets the step to
 * replay from the servers, and reads the state of that step. If there is no such state (another machine, no file, a
 * step older than the kept ones, another generation of the deployment) the feedback begins at zero, and a line is
 * printed.
 *
 *   file     records, one after the other; the first has everything, the others the changes of one step
 *   bytes    record
 *   8 8  FEEDBACK_FILE_MAGIC, generation
 *   4 4      rank, 1: all residuals, 0: the changes since the previous record
 *   8 8      step that begins with this state, bytes of the body
 *   8        XXH3 of everything except this field
 *   …        body: pieces (error_feedback.h)
 *
 * When the change records exceed the first record by FEEDBACK_FILE_SLACK bytes, a new file is begun, and the previous
 * one is kept as PATH.old. So at least the last two steps are kept, and the size of the files is bounded. An incomplete
 * record counts as missing: its step had not ended. The file survives the process, not a crash of the machine: there is
 * no fsync.
 *
 * A file of another format is left unchanged: a line with both format numbers is printed, and the feedback is not
 * saved.
 *
 * Ownership   a feedback_file owns the feedbacks. Threads: none. A file error is printed on stderr once, and stops the
 *             saving; the worker continues. */
#pragma once
#include "kv/client/error_feedback.h"

#define FEEDBACK_FILE_MAGIC UINT64_C(0x3159524149444d4d) /* "MMDIARY1": format 1 */
enum { FEEDBACK_FILE_HEAD = 48, FEEDBACK_FILE_SLACK = 1 << 16 };

typedef struct feedback_file feedback_file;

typedef struct feedback_file_look {
    uint64_t bytes, forgotten; /* sum over all tables, as in error_feedback_look */
    uint64_t begun_empty;      /* steps that began without the state they needed */
} feedback_file_look;

/* `bytes_max`: limit of the residuals of one table's keys; 0: ERROR_FEEDBACK_BYTES_MAX. */
feedback_file *feedback_file_create(uint64_t bytes_max);
void feedback_file_destroy(feedback_file *file); /* the file on disk stays */

/* Sets the path of the file (copied); NULL: the feedback is not saved. Called before the first push. */
void feedback_file_keep(feedback_file *file, const char *path);

/* The rank continues with this step. Keeps the current state if it belongs to the step; else reads it from the file, or
 * begins empty. */
void feedback_file_begin(feedback_file *file, uint32_t rank, uint64_t generation, uint64_t step);
/* The current state is the one with which `next_step` begins. */
void feedback_file_end(feedback_file *file, uint64_t next_step);

error_feedback *feedback_file_of(feedback_file *file, uint32_t table);         /* created on first use */
error_feedback *feedback_file_find(const feedback_file *file, uint32_t table); /* NULL: the table has no feedback yet */
void feedback_file_drop(feedback_file *file, uint32_t table);                  /* the table was dropped */
feedback_file_look feedback_file_look_at(const feedback_file *file);

/* For tests and fuzzing: reads the state of that step from the bytes of a file. False: the bytes do not have it, and
 * the feedback is empty. */
bool feedback_file_read(feedback_file *feedback_file, span file, uint32_t rank, uint64_t generation, uint64_t step);
