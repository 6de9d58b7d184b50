/* undertaker.h — a process that outlives its node, if only for a moment, so that nothing of it is left when it is
 * killed: neither what its tasks have started (stray.h) nor its files.
 *
 *   node ── undertaker_open ──► waits ── the node ends ──► ends the session, removes the files, ends
 *                                 └── undertaker_close: the node cleans up itself
 *
 * It is a child of the node and in the node's session, so that the session's number stays the node's while it is
 * needed. It has no descriptor but one, is in no one's way, and its environment does not say that it is the node. */
#pragma once
#include <stdbool.h>
#include <sys/types.h>

/* In a node, while it has one thread. `run` is the folder of the run, `hub` the path of its socket, which of a private
 * node is in it. -1: there is no process for it, and the node lives without. */
pid_t undertaker_open(const char *run, const char *hub, bool private);
void undertaker_close(pid_t undertaker); /* which is gone then; -1: no-op */
