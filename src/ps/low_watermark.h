/* low_watermark.h — low watermark of a rank: the step below which nothing can be replayed.
 *
 * A step that all slots have acknowledged is replayed only if the deployment goes back to a checkpoint from before it.
 * So a rank that has s acknowledged steps asks the scheduler:
 *
 *   rank ── s are acknowledged; which checkpoints may be without them? ──► scheduler: those up to b may be
 *   rank ◄── later: the oldest that is kept is k; k > b ──► steps before s are below the low watermark
 *
 * A checkpoint above b was begun when the answer was on its way, or later: it has all steps that were acknowledged
 * before the question. If none was ever begun (b is 0) the deployment can go back only to the empty state, and then
 * the data begin again as well (cluster/consumer_group.h). In rounds the version of a checkpoint is the number of steps
 * of each rank: no step from the version of k on is below the low watermark, for any b, because the round state is
 * asked first and its cut is reported later.
 *
 * Another generation goes back to a checkpoint: pending questions are dropped. Pure. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

typedef struct low_watermark { /* a zero-initialized watermark has no step below it */
    uint64_t over;             /* steps before this one are not replayed */
    uint64_t question, asked;  /* number of the last question, and the acknowledged steps at that time */
    bool waits; /* waits until the oldest checkpoint is above `bound`; then steps before `steps` are over */
    uint64_t steps, bound;
} low_watermark;

void low_watermark_restart(low_watermark *watermark); /* another generation, or another term */

/* Begins a question. Returns its number, which the answer repeats. */
uint64_t low_watermark_ask(low_watermark *watermark, uint64_t acknowledged);

/* Takes an answer. Checkpoints up to `bound` may lack the acknowledged steps; `oldest` is the first kept checkpoint
 * (0: none), with the steps before `version` of each rank; without rounds `version` is UINT64_MAX. Answers to earlier
 * questions are ignored. */
void low_watermark_hear(low_watermark *watermark, uint64_t question, uint64_t bound, uint64_t oldest, uint64_t version);
