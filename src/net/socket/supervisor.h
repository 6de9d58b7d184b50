/* supervisor.h — supervisor of a deployment: the process with which all its processes end. It is the node, if scheduler
 * and servers are actors, or `miniray ps local`.
 *
 * A deployment has a directory of its own, with the scheduler's socket and the file "supervisor": the name of the
 * supervisor for errors, a line feed, and its identity (process_identity.h). The directory is removed after the
 * supervisor, also when it was killed; it is renamed first, so that it is there with the file, or not at all.
 *
 * Other processes find the file by the scheduler's address, and watch the supervisor: a wait for a deployment that has
 * ended ends at once, with the cause. Where there is no such file (tcp, a scheduler that was started by hand), or the
 * supervisor is in another pid namespace, waits time out.
 *
 * Threads  none: a watch belongs to the thread of its loop. */
#pragma once
#include <sys/types.h>

#include "miniray/status.h"
#include "net/event_loop.h"

#define SUPERVISOR_DIR_PREFIX "ps-" /* six random characters follow, of mkdtemp */

/* Writes the file into the directory. */
MR_MUST mr_status supervisor_write(const char *directory, pid_t process, const char *name);

/* Watches the supervisor of the deployment whose scheduler is at `address`. */
typedef struct supervisor_watch supervisor_watch;
/* A loop of NULL: supervisor_watch_check is about the moment of this call. */
supervisor_watch *supervisor_watch_open(event_loop *loop, const char *address);
void supervisor_watch_close(supervisor_watch *watch); /* NULL is a no-op */
/* MR_PEER_DIED: the deployment has ended; the error has the supervisor and its end. MR_OK: it runs, or is unknown. */
MR_MUST mr_status supervisor_watch_check(const supervisor_watch *watch);
