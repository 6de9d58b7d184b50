/* scale_cluster.h — a large parameter cluster in one process, and the cost of a membership change.
 *
 * The cluster is built, ranks train, and then the membership changes; each change is watched until it has settled:
 * every slot lies where the ring of the present servers says, and every process knows that cluster map. */
#pragma once
#include "sim/ps/scale_processes.h"

enum { SCALE_CHANGES_MAX = 128 }; /* servers that come, and servers that go */

typedef struct scale_cost { /* of one change */
    int64_t settled_us;     /* how long it took */
    uint64_t maps;          /* writes of the metadata store */
    uint64_t moved;         /* copies that lie where they did not lie */
    uint64_t needless;      /* of those, without need: between two servers that stayed */
    double ideal;           /* what must move, or for those who come: their fair share */
    uint64_t messages, bytes;
} scale_cost;

typedef struct scale_cluster scale_cluster;

scale_cluster *scale_create(const scale_size *size, uint64_t seed);
void scale_destroy(scale_cluster *cluster);
bool scale_begin(scale_cluster *cluster); /* until all ranks are ready */

/* A while in which nothing changes: what it costs in one second. */
bool scale_rest(scale_cluster *cluster, scale_cost *cost);

/* So many at once. False: it did not settle within SCALE_SETTLE_US, or the simulation found a fault. */
#define SCALE_SETTLE_US INT64_C(10000000)
bool scale_join(scale_cluster *cluster, uint32_t count, scale_cost *cost);
bool scale_leave(scale_cluster *cluster, uint32_t count, scale_cost *cost);
bool scale_die(scale_cluster *cluster, uint32_t count, scale_cost *cost); /* without a word, no two of one chain */

/* Lets load be balanced for a while. `level`: what the fullest server carries, in shares, before and after; the cost is
 * ideal if no more copies move than balancer.h, which knows all, would move. */
typedef struct scale_balance {
    double before, after;
    scale_cost cost;
} scale_balance;
bool scale_let_balance(scale_cluster *cluster, int64_t for_us, scale_balance *out);

/* Everything that was acknowledged is in every full copy; the longest time that a rank has waited for a step. */
bool scale_check(scale_cluster *cluster, int64_t *waited_us);
