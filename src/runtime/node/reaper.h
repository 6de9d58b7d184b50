/* reaper.h — reaper of a node: a process that outlives the node for a moment. When the node was killed, the reaper
 * kills the processes that tasks started (orphans.h), and removes the node's files.
 *
 *   node ── reaper_open ──► waits ── the node ends ──► ends the session, removes the files, ends
 *                                 └── reaper_close: the node cleans up itself
 *
 * The reaper is a child of the node and in the node's POSIX session, so that the session id stays valid while it is
 * needed. The reaper has one descriptor only, and its environment has no role of a node. */
#pragma once
#include <stdbool.h>
#include <sys/types.h>

/* Call in a node that has one thread only. `run` is the session directory, `broker` the path of the broker's socket,
 * for a private node in that directory. Returns -1 if the fork failed: the node runs without a reaper. */
pid_t reaper_open(const char *run, const char *broker, bool private);
void reaper_close(pid_t reaper); /* ends the reaper; -1: no-op */
