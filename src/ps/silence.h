/* silence.h — which server to give up that is only silent, and may be alive on an overloaded machine.
 *
 * The kernel closes the links of a process that dies, at once, and refuses new ones. So a server that is silent while
 * its link is open, or whose link ended with a timeout, may be alive; then others soon seem silent, too. Silence alone
 * takes a server out of the chains at these times:
 *
 *   when it is suspected   if two sure replicas of each of its slots are left. So with three replicas a machine that
 *                          lost its power costs the ranks only the time until the suspicion
 *   `hold_us` later        in any case; pushes to its slots wait until then. If a server with one of two replicas were
 *                          taken out sooner, its slots would have one replica until another server is filled, and the
 *                          death of that replica would lose them. On an overloaded machine filling is slow, deaths
 *                          (for lack of memory) are likely, and the silent server is probably alive
 *   SILENCE_SPARE_US       pass at least between one server and the next (the caller's part)
 *
 * Pure. */
#pragma once
#include "ps/cluster_map.h"

#define SILENCE_SPARE_US INT64_C(1500000)
#define SILENCE_HOLD_US  INT64_C(5000000) /* hold_us of real processes */

typedef struct silence_server { /* sorted by id */
    uint32_t id;
    uint64_t incarnation;
    bool sure;         /* neither suspected nor doubted */
    bool silent;       /* it has replicas, is suspected, and its link did not break */
    bool given_up;     /* silence has taken it out of the chains */
    int64_t silent_us; /* time since which it is silent; 0: it is not */
} silence_server;

/* Returns the index of the server to give up now; `count`: none. Keeps the servers' silent_us. */
size_t silence_choose(const cluster_map *map, silence_server *servers, size_t count, int64_t hold_us, int64_t now_us);
