/* orphans.h — orphans: processes that tasks started and left behind.
 *
 * A node is a session of its own, and each of its workers leads a group of it (boot_begin_worker); what a task starts
 * is in both, unless it takes care not to be. So it ends with its worker, whose group the node ends while the worker's
 * number is still its own; and if the node was killed, the rest of the session is ended by its reaper
 * (reaper.h), or by its program, whichever is first. */
#pragma once
#include <sys/types.h>

void orphans_end_group(pid_t leader);    /* with the leader, if it lives; before that is reaped */
#define ORPHANS_SPARED "miniray-end"     /* the name of the reaper, which must not be kept from its work */
void orphans_end_session(pid_t session); /* all of it but its leader and its reaper; the number must be its own */
int orphans_reap(pid_t child);           /* waits for its end; the status, as waitpid has it */
/* Waits for the end of a node that is our child, ends what is left of its session if it could not do so itself, and
 * reaps it. */
void orphans_bury(pid_t node);
