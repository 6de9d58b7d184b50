/* deployment_end.h — notices, in a process that waits for it, that a parameter server was stopped.
 *
 *   running ── STOPPED (control_wire.h) ──► announced ── no process listens at the addresses of the scheduler and of
 *      ▲                                     │   ▲        any server of the newest cluster map ──► over
 *      └─── another scheduler is there ──────┘   └── a server or a scheduler is there again ───────┘
 *
 * An announced stop is not enough: a scheduler may be started again while its servers serve, and a request that they
 * can still answer must not fail. Dead processes without an announcement are not enough either: each of them may be
 * started again, and requests wait for that. So only what was stopped on purpose and is gone fails its requests at
 * once.
 *
 * Not pure: it opens links. Threads: that of the messenger. */
#pragma once
#include "base/error.h"
#include "cluster/control_message.h"
#include "cluster/messenger.h"
#include "ps/cluster_map.h"

typedef struct deployment_end { /* zero-initialized: running */
    const char *scheduler;      /* address, borrowed; NULL: no stop was announced */
    uint64_t process;           /* the scheduler that announced its stop (messenger_process_at) */
    uint64_t view;              /* newest cluster map of that scheduler: an older one may lack servers that serve */
    int64_t probe_us;           /* time of the next attempt to reach the processes */
    char how[ERROR_TEXT_MAX / 2];
} deployment_end;

/* Takes the announcement of the scheduler at this address. */
void deployment_end_take(deployment_end *end, const messenger *messenger, const char *scheduler,
                         const control_message *stopped);

int64_t deployment_end_next_us(const deployment_end *end);
void deployment_end_tick(deployment_end *end, messenger *messenger, const cluster_map *map, int64_t now_us);

/* MR_PEER_DIED: the deployment was stopped and is gone; the error names the deployment, how it ended, and the next
 * step. MR_OK: otherwise, and as long as the map is older than the scheduler's. A map of NULL is for a process that
 * waits for the scheduler alone. */
MR_MUST mr_status deployment_end_check(const deployment_end *end, const messenger *messenger, const cluster_map *map);
