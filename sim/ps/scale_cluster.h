/* scale_cluster.h — a large parameter cluster in one process, and the cost of a membership change.
 *
 * The cluster is built, ranks train, and then the membership changes; each change is measured until it has settled:
 * every slot is on the servers that the hash ring of the present servers names, and every process knows that cluster
 * map. */
#pragma once
#include "sim/ps/scale_processes.h"

enum { SCALE_CHANGES_MAX = 128 }; /* servers that join or leave at once */

typedef struct scale_cost { /* cost of one change */
    int64_t settled_us;     /* time until it settled */
    uint64_t maps;          /* writes of the metadata store */
    uint64_t moved;         /* replicas on other servers than before */
    uint64_t needless;      /* of those, needless ones: moved between two servers that stayed */
    double ideal;           /* replicas that must move; for joining servers: their fair share */
    uint64_t messages, bytes;
} scale_cost;

typedef struct scale_cluster scale_cluster;

scale_cluster *scale_create(const scale_size *size, uint64_t seed);
void scale_destroy(scale_cluster *cluster);
bool scale_begin(scale_cluster *cluster); /* returns when all ranks are ready */

/* Lets time pass without a change: the cost of one second. */
bool scale_rest(scale_cluster *cluster, scale_cost *cost);

/* Changes of `count` servers at once. False: not settled within SCALE_SETTLE_US, or the simulation found a
 * violation. */
#define SCALE_SETTLE_US INT64_C(10000000)
bool scale_join(scale_cluster *cluster, uint32_t count, scale_cost *cost);
bool scale_leave(scale_cluster *cluster, uint32_t count, scale_cost *cost);
/* without notice, no two of one chain. `silent`: their machines lose power, so their links stay open */
bool scale_die(scale_cluster *cluster, uint32_t count, bool silent, scale_cost *cost);

/* Lets load be balanced for a while. `level`: load of the fullest server, in shares, before and after; `ideal` is the
 * number of replicas that balancer.h, with complete knowledge, would move. */
typedef struct scale_balance {
    double before, after;
    scale_cost cost;
} scale_balance;
bool scale_let_balance(scale_cluster *cluster, int64_t for_us, scale_balance *out);

/* Every acknowledged push is in every full replica. Sets the longest time that a rank has waited for a step. */
bool scale_check(scale_cluster *cluster, int64_t *waited_us);
