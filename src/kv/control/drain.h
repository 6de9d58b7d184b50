/* drain.h — graceful drain of a server: its slots move to other servers before it ends.
 *
 *   serving ─ SIGTERM ──► leaving: LEAVE, every DRAIN_AGAIN_US ──► the scheduler retires the server (ps/controller.h)
 *                          ├── the server is in no chain for DRAIN_GRACE_US, in which senders are
 *                          │   redirected ──► over
 *                          ├── LEFT: no other server stays to take its slots ──► over
 *                          └── no answer for DRAIN_DEAF_US, the scheduler ends too, or DRAIN_US have passed (since it
 *                              was last held) ──► over
 *
 *   control message  stamp: view, id, incarnation
 *   LEAVE     0, number, incarnation
 *   LEFT      DRAIN_GO: no other server stays, end; DRAIN_MOVES: the slots move; DRAIN_HELD: no other server stays, and
 *             the scheduler makes a last checkpoint (scheduler/final_checkpoint.h), whose time it bounds
 *
 * Pure. */
#pragma once
#include "cluster/control_message.h"
#include "ps/cluster_map.h"

#define DRAIN_AGAIN_US INT64_C(100000)
#define DRAIN_GRACE_US INT64_C(300000)
#define DRAIN_DEAF_US  INT64_C(2000000)
#define DRAIN_US       INT64_C(60000000)

enum { DRAIN_MOVES, DRAIN_GO, DRAIN_HELD };

typedef struct drain { /* zero-initialized: not draining */
    bool leaving, told_to_go;
    int64_t since_us, heard_us, empty_us; /* empty_us 0: the server is in some chain */
    int64_t next_us;
} drain;

void drain_begin(drain *drain, int64_t now_us);
/* True: LEAVE must be sent now. `map` is the newest known cluster map. */
bool drain_tick(drain *drain, const cluster_map *map, uint32_t server, uint64_t incarnation, int64_t now_us);
void drain_take(drain *drain, const control_message *message, int64_t now_us); /* handles LEFT */
bool drain_is_over(const drain *drain, int64_t now_us);
