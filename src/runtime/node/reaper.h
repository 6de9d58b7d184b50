/* reaper.h — reaper of a node: a process that outlives the node for a moment, and when the node was killed removes
 * what is left of it: processes that its tasks started (orphans.h), and files.
 *
 *   node ── reaper_open ──► waits ── the node ends ──► ends the session, removes the files, ends
 *                                 └── reaper_close: the node cleans up itself
 *
 * It is a child of the node and in the node's session, so that the session's number stays the node's while it is
 * needed. It has one descriptor only, and its environment does not say that it is the node. */
#pragma once
#include <stdbool.h>
#include <sys/types.h>

/* In a node, while it has one thread. `run` is the folder of the run, `broker` the path of its socket, which of a
 * private node is in it. -1: there is no process for it, and the node lives without. */
pid_t reaper_open(const char *run, const char *broker, bool private);
void reaper_close(pid_t reaper); /* which is gone then; -1: no-op */
