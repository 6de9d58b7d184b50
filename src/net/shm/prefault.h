/* prefault.h — prefaulting of arena pages ahead of use, and their return when idle.
 *
 *   0          top            backed                     size
 *   |##########|==============|..........................|
 *     allocated  backed, ready   no pages yet
 *
 * A helper thread moves `backed` ahead of use: about a quarter of the used bytes, at least PREFAULT_AHEAD_MIN. The
 * owner (one thread), which allocates memory, calls prefault_need first. Below the known watermark that is a
 * comparison; above, the call backs the missing pages itself. When much more is backed than was used for a while, the
 * helper returns the tail to the machine.
 *
 * An owner that cannot wait calls prefault_reach instead: the helper then backs the missing pages, and the owner
 * retries.
 *
 * Threads  The two threads share `want` (the owner's target for the watermark), `backed` (the watermark) and a mutex
 *          that is held for one step of at most PREFAULT_STEP bytes. The owner waits for at most two steps, and only
 *          if it is ahead of the helper. The helper never punches below `want`, and the owner, which alone changes
 *          `want`, allocates nothing above it: no extent in use is punched. */
#pragma once
#include "net/shm/arena.h"

enum {
    PREFAULT_AHEAD_MIN = 16 << 20,
    PREFAULT_AHEAD_MAX = 256 << 20,
    PREFAULT_STEP = 2 << 20,
    PREFAULT_SPARE = 64 << 20,           /* this much beyond the target may stay backed permanently */
    PREFAULT_PATIENCE_US = 10 * 1000000, /* how long a tail must have been unused before it is returned */
};

typedef struct prefault prefault;

/* Everything below `from` must be backed already. The arena is borrowed until prefault_stop. MR_IO: the thread cannot
 * be started. */
MR_MUST mr_status prefault_start(arena *arena, uint64_t from, prefault **out);
void prefault_stop(prefault *prefault); /* joins the helper; backed pages stay backed */

/* ---- The owner's side. */

/* On MR_OK everything below `end` is backed, until prefault_trim is called with a lower top. MR_NOMEM: the machine has
 * no more memory; nothing changed. */
MR_MUST mr_status prefault_need(prefault *prefault, uint64_t end);

/* The same without a long wait: MR_BUSY if more than a step is missing; the helper backs the pages. */
MR_MUST mr_status prefault_reach(prefault *prefault, uint64_t end);

/* `top` is the end of the extents in use. Must be called from time to time; returns the latest time for the next call,
 * CLOCK_NEVER_US if there is nothing to return. */
int64_t prefault_trim(prefault *prefault, uint64_t top, int64_t now_us);

uint64_t prefault_backed(const prefault *prefault);
void prefault_settle(prefault *prefault); /* waits until the helper is idle; for tests */
