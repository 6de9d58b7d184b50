/* ps_cluster.h — the processes of the parameter scenario: a controller, servers, workers.
 *
 * Each has messages and a metadata store of its own; a server and a worker take an incarnation from the metadata store
 * before they begin. A worker holds the ranks that the cluster map gives it: none, one or several (ps_rank.h). Some
 * seeds have a checkpoint store, some a group leader, from whose consumer group ranks have their data
 * (ps_data_client.h). Servers whose number is not below that of the world do nothing: they have not come yet, or have
 * gone.
 */
#pragma once
#include "ps/checkpoint_store.h"
#include "ps/controller.h"
#include "ps/rank.h"
#include "ps/rank_agent.h"
#include "ps/slot_server.h"
#include "sim/cluster/sim_group_leader.h"
#include "sim/ps/ps_checker.h"
#include "sim/ps/ps_coverage.h"
#include "sim/ps/ps_data_checker.h"

enum { PS_SERVERS_MAX = 8, PS_WORKERS_MAX = PS_RANKS_MAX + 2, PS_PROPOSALS_MAX = 64 };

typedef struct ps_cluster ps_cluster;

typedef struct ps_process { /* a machine */
    ps_cluster *cluster;
    sim_node *node;
    uint32_t id; /* of the server, or the worker */
} ps_process;

struct ps_cluster {
    sim *sim;
    sim_node *metadata;
    ps_process controller, checkpoints, servers[PS_SERVERS_MAX], workers[PS_WORKERS_MAX];
    uint32_t server_count, worker_count, rank_count, slot_count, steps;
    uint32_t server_sites, rank_sites; /* how many there are when all is back; ranks by turns */
    bool keeps;                        /* checkpoints */
    int64_t pause_us;                  /* for which ranks stand still, so that they are exact; 0: they do not */
    bool reckless;                     /* servers may crash with the last copy */
    uint32_t mark_rounds, kill_rounds; /* how often one is wanted, and everything killed */
    uint32_t back_rounds;              /* and how often somebody goes back */
    uint32_t lose_rounds;              /* and how often the metadata store loses its disk */
    bool rots;                         /* something on the checkpoint store's disk changes by itself, once */
    uint32_t value_slots;              /* where there are rounds there is a round state, too */
    uint32_t items;                    /* of a push, that go one by one or as batches */
    double order_chance;               /* that a rank joins or leaves at the end of a step */
    double fresh_chance;               /* that a pull must be fresh */
    uint64_t rank_bytes, link_bytes;   /* of credit; 0: no bound */
    uint32_t pulls_max;                /* of a rank at a time; 0: no bound */
    float_machine_context machine;     /* of BSP: rounds may need norms */
    bool spreads;                      /* pulls go to any copy; else to one of those for reading, if there are */
    cluster_map_rounds rounds;
    int64_t balance_us;   /* how often load is balanced; 0: never */
    uint32_t pin_rounds;  /* how often slots are wanted elsewhere */
    uint32_t drop_rounds; /* and ranks given up */
    uint8_t copies;
    consistency consistency;
    bool mixed;      /* half of the slots have rounds, whatever that is */
    bool varied;     /* each pull outside rounds has a bound of its own */
    uint32_t idle;   /* of a mixed one, a bit for each rank that has nothing to do with rounds and goes its own pace */
    int64_t pace_us; /* between two steps, on average */
    slot_placement_pin pins[PS_SLOTS_MAX];
    size_t pin_count;
    bool fed; /* ranks take their data from a consumer group: */
    leader_site leader;
    uint64_t sizes[PS_PARTS_MAX];
    ps_data_checker checker;
    ps_checker ps_checker;
    ps_coverage coverage;
    history_recorder_book book;              /* what was asked of the metadata store */
    cluster_map newest;                      /* that any process knows to be decided */
    cluster_map proposals[PS_PROPOSALS_MAX]; /* that may yet be decided, or are */
    size_t proposal_count;
};

static inline bool ps_has_rounds(const ps_cluster *cluster) {
    return cluster->mixed || cluster->consistency.kind == CONSISTENCY_BSP;
}

/* A bound counts all ranks: no rank may be left out of rounds beside which there is one. */
static inline bool ps_bounds_rounds(const ps_cluster *cluster) {
    return cluster->mixed && (cluster->varied || cluster->consistency.kind == CONSISTENCY_SSP);
}

/* The argument is a ps_process. */
extern const sim_program ps_controller_program, ps_server_program, ps_worker_program, ps_checkpoints_program;

/* NULL: it is down */
const slot_server *ps_server_of(const ps_process *process);
/* NULL: it is down */
const checkpoint_store *ps_checkpoints_of(const ps_process *process);
/* NULL: it is down */
controller *ps_controller_of(const ps_process *process);
/* see ps_rank_told */
void ps_tell(const ps_process *process, const cluster_map *known, const uint64_t own[PS_SLOTS_MAX]);
/* a worker that has pushed what is not acknowledged; false: it is down, too */
bool ps_pushes(const ps_process *process);
uint64_t ps_term(const ps_cluster *cluster, uint32_t rank); /* of the newest cluster map; 0: none yet */
/* the rank has done all steps, all is acknowledged */
bool ps_cluster_rank_done(const ps_cluster *cluster, uint32_t rank);
