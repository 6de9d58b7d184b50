/* drain.h — graceful drain of a server: its slots move to other servers before it ends.
 *
 *   here ── SIGTERM ──► leaving: LEAVE, again every DRAIN_AGAIN_US ──► the scheduler retires it (ps/controller.h)
 *                          ├── a cluster map has it in no chain, for DRAIN_GRACE_US: senders are redirected
 *                          │   meanwhile ──► over
 *                          ├── LEFT: no other server stays to take its slots ──► over
 *                          └── no answer for DRAIN_DEAF_US, the scheduler goes, too, or DRAIN_US have
 *                              passed ──► over
 *
 *   control message  stamp: view, id, incarnation
 *   LEAVE     0, number, incarnation
 *   LEFT      1: no other server stays, end; 0: the slots move
 *
 * Pure. */
#pragma once
#include "cluster/control_message.h"
#include "ps/cluster_map.h"

#define DRAIN_AGAIN_US INT64_C(100000)
#define DRAIN_GRACE_US INT64_C(300000)
#define DRAIN_DEAF_US  INT64_C(2000000)
#define DRAIN_US       INT64_C(60000000)

typedef struct drain { /* zero-initialized: the server stays */
    bool leaving, told_to_go;
    int64_t since_us, heard_us, empty_us; /* empty_us 0: it is in some chain */
    int64_t next_us;
} drain;

void drain_begin(drain *drain, int64_t now_us);
/* True: a message is to be sent now. `map` is the newest known cluster map. */
bool drain_tick(drain *drain, const cluster_map *map, uint32_t server, uint64_t incarnation, int64_t now_us);
void drain_take(drain *drain, const control_message *message, int64_t now_us); /* LEFT */
bool drain_is_over(const drain *drain, int64_t now_us);
