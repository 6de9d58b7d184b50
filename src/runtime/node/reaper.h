/* reaper.h — reaper of a node: a process that outlives the node for a moment, and when the node was killed removes
 * what is left of it: processes that its tasks started (orphans.h), and files.
 *
 *   node ── reaper_open ──► waits ── the node ends ──► ends the session, removes the files, ends
 *                                 └── reaper_close: the node cleans up itself
 *
 * The reaper is a child of the node and in the node's POSIX session, so that the session id stays valid while it is
 * needed. The reaper has one descriptor only, and its environment has no role of a node. */
#pragma once
#include <stdbool.h>
#include <sys/types.h>

/* In a node, while it has one thread. `run` is the session directory, `broker` the path of its socket, for a private
 * node in that directory. -1: the fork failed, and the node runs without a reaper. */
pid_t reaper_open(const char *run, const char *broker, bool private);
void reaper_close(pid_t reaper); /* ends the reaper; -1: no-op */
