/* memoir.h — file of a rank's error feedback, so that the next process of the rank sends the same bytes.
 *
 * At the end of each step, before anybody is told of it, what the step has changed is written to the rank's file as the
 * state with which the next step begins. A process that dies leaves the file; the one that is started in its place is
 * told which step to play again, and reads the state of that step. Where there is none (another machine, no file, an
 * older step than is kept, another generation of the deployment) feedback begins at zero, and that is said.
 *
 *   file     records, one after the other; the first has everything, the others what one step has changed
 *   bytes    record
 *   8 8      MEMOIR_MAGIC, generation
 *   4 4      rank, 1: everything is in it, 0: what has changed since the record before
 *   8 8      step that begins with this state, bytes of the body
 *   8        XXH3 of all but this
 *   …        body: pieces (feedback.h)
 *
 * When what has changed is larger than everything, by MEMOIR_SLACK bytes, a new file is begun, and the one before it is
 * kept beside it (PATH.old): so at least the last two steps are there, and the files have a bound. A
 * record that was not written to its end is as if it was not there: its step was not over. It is memory of this
 * machine: nothing waits for a disk.
 *
 * A file of another format stays as it is: that is said, with both numbers, and nothing is kept.
 *
 * Ownership   it owns the feedbacks. Threads: none. A fault of the file is printed on stderr once, and ends the saving, not the worker. */
#pragma once
#include "kv/worker/feedback.h"

#define MEMOIR_MAGIC UINT64_C(0x3159524149444d4d) /* "MMDIARY1": format 1 */
enum { MEMOIR_HEAD = 48, MEMOIR_SLACK = 1 << 16 };

typedef struct memoir memoir;

typedef struct memoir_look {
    uint64_t bytes, forgotten; /* of all tables, as in feedback_look */
    uint64_t begun_empty;      /* how often a step began without the state that it should have had */
} memoir_look;

memoir *memoir_create(uint64_t bytes_max); /* of the rests of keys of a table; 0: FEEDBACK_BYTES_MAX */
void memoir_destroy(memoir *memoir);       /* the file stays */

/* Where it is kept; NULL: nowhere. Copied. Nothing was pushed yet. */
void memoir_keep(memoir *memoir, const char *path);

/* The rank goes on with this step. What is here is of that step, or comes from the file, or is empty. */
void memoir_begin(memoir *memoir, uint32_t rank, uint64_t generation, uint64_t step);
/* The state with which the next step begins: what is here. */
void memoir_end(memoir *memoir, uint64_t next_step);

feedback *memoir_of(memoir *memoir, uint32_t table);         /* of a table that is pushed to */
feedback *memoir_find(const memoir *memoir, uint32_t table); /* NULL: nothing was pushed to it */
void memoir_drop(memoir *memoir, uint32_t table);            /* it is gone */
memoir_look memoir_look_at(const memoir *memoir);

/* For tests and fuzzing: takes the state of that step from the bytes of a file. False: it is not in them, and there is
 * no feedback then. */
bool memoir_read(memoir *memoir, span file, uint32_t rank, uint64_t generation, uint64_t step);
