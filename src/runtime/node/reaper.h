/* reaper.h — reaper of a process, such as a node: a child that outlives its parent for a moment. When the parent was
 * killed, the reaper removes what the parent would have removed. The reaper of a node also kills the processes that
 * tasks started (orphans.h).
 *
 *   parent ── reaper_open ──► waits ── the parent ends ──► calls the function, ends
 *                                   └── reaper_close: the parent cleans up itself
 *
 * The reaper is in the parent's POSIX session, so that the id of a node's session stays valid while it is needed. The
 * reaper has one descriptor only, and its environment has no role of a node. */
#pragma once
#include <stdbool.h>
#include <sys/types.h>

/* Cleans up after the process `parent`, which has ended. */
typedef void reaper_fn(pid_t parent, const void *context);

/* Call in a process that has one thread only. `context` is that of the process at this moment. Returns -1 if the fork
 * failed: the process runs without a reaper. */
pid_t reaper_open(reaper_fn *fn, const void *context);
void reaper_close(pid_t reaper); /* ends the reaper; -1: no-op */

typedef struct reaper_node {  /* files of a node */
    const char *run, *broker; /* session directory; path of the broker's socket */
    bool is_private;          /* the socket is in that directory */
} reaper_node;
reaper_fn reaper_end_node; /* context: reaper_node */
