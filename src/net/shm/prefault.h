/* prefault.h — prefaulting of arena pages ahead of use, and their return when idle.
 *
 *   0          top            backed                     size
 *   |##########|==============|..........................|
 *    handed out  backed, ready   no pages yet
 *
 * A helper thread moves `backed` ahead of use: about a quarter of the used bytes, at least PREFAULT_AHEAD_MIN. The
 * owner (one thread), which hands out memory, asks prefault_need first. Below the known watermark that is a
 * comparison; above, it backs the missing pages itself. When much more is backed than was used for a while, the helper
 * gives the tail back to the machine.
 *
 * An owner that cannot wait asks prefault_reach instead: the helper then backs the missing pages, and the owner asks
 * again.
 *
 * Threads  The two meet at one place, the struct's `want` (where the owner wants the watermark), `backed` (where it is)
 *          and a mutex that is held for one step of at most PREFAULT_STEP bytes. The owner waits for at most two
 *          steps, and only if it has outrun the helper. The helper never goes below `want`, and the owner, which alone
 *          moves `want`, hands out nothing above it: so no extent in use is punched out. */
#pragma once
#include "net/shm/arena.h"

enum {
    PREFAULT_AHEAD_MIN = 16 << 20,
    PREFAULT_AHEAD_MAX = 256 << 20,
    PREFAULT_STEP = 2 << 20,
    PREFAULT_SPARE = 64 << 20,           /* this much more than is wanted ahead may stay for ever */
    PREFAULT_PATIENCE_US = 10 * 1000000, /* how long a tail must have been of no use before it goes */
};

typedef struct prefault prefault;

/* Everything below `from` is backed already. The arena is borrowed until prefault_stop. MR_IO: no thread to be had. */
MR_MUST mr_status prefault_start(arena *arena, uint64_t from, prefault **out);
void prefault_stop(prefault *prefault); /* joins the helper; backed pages stay backed */

/* ---- The owner's side. */

/* On MR_OK everything below `end` is backed and stays so until prefault_trim is called with a top below it. MR_NOMEM:
 * the machine has no more; nothing changed. */
MR_MUST mr_status prefault_need(prefault *prefault, uint64_t end);

/* The same without waiting for long: MR_BUSY if more than a step is missing; the helper backs it. */
MR_MUST mr_status prefault_reach(prefault *prefault, uint64_t end);

/* `top` is the end of the extents in use. To be called from time to time; returns when to call again at the latest,
 * CLOCK_NEVER_US if there is nothing to give back. */
int64_t prefault_trim(prefault *prefault, uint64_t top, int64_t now_us);

uint64_t prefault_backed(const prefault *prefault);
void prefault_settle(prefault *prefault); /* waits until the helper has nothing left to do; for tests */
