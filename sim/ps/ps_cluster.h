/* ps_cluster.h — the processes of the parameter scenario: a controller, servers, workers.
 *
 * Each process has a messenger and a metadata client of its own; a server and a worker take an incarnation from the
 * metadata store before they begin. A worker holds the ranks that the cluster map assigns to it: none, one or several
 * (ps_rank.h). Some seeds have a checkpoint store, some a group leader, whose consumer group provides the data of ranks
 * (ps_data_client.h).
 *
 * Servers whose number is not below server_count do nothing: they have not joined yet, or have left. */
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

typedef struct ps_process { /* one machine */
    ps_cluster *cluster;
    sim_node *node;
    uint32_t id; /* number of the server, or the worker */
} ps_process;

struct ps_cluster {
    sim *sim;
    sim_node *metadata;
    ps_process controller, checkpoints, servers[PS_SERVERS_MAX], workers[PS_WORKERS_MAX];
    uint32_t server_count, worker_count, rank_count, slot_count, steps;
    uint32_t server_sites, rank_sites; /* numbers after the next kill of all processes; ranks alternate */
    bool keeps;                        /* has a checkpoint store */
    int64_t hold_us;                   /* time for which a silent server is spared (ps/silence.h) */
    int64_t pause_us;                  /* pause of ranks that makes checkpoints exact; 0: no pause */
    bool reckless;                     /* servers may crash with the last replica */
    uint32_t mark_rounds, kill_rounds; /* how often a checkpoint is requested, and all processes are killed */
    uint32_t back_rounds;              /* how often a restore is requested */
    uint32_t lose_rounds;              /* how often the metadata store loses its disk */
    bool rots;                         /* one file of the checkpoint store is damaged once */
    uint32_t value_slots;              /* with rounds, one more slot is the round state */
    uint32_t items;                    /* per push; pushed one by one or as batches */
    double order_chance;               /* probability that a rank joins or leaves at the end of a step */
    double leave_chance;               /* outside rounds: probability that a rank leaves at the end of a step */
    uint32_t quits;                    /* outside rounds: one bit per rank that leaves for good in the middle */
    double fresh_chance;               /* probability that a pull must be fresh */
    uint64_t rank_bytes, link_bytes;   /* credit; 0: no bound */
    size_t piece;                      /* bytes of the pieces of large messages; 0: no message is large */
    uint32_t pulls_max;                /* pulls of a rank in flight; 0: no bound */
    float_machine_context machine;     /* BSP: rounds may need norms */
    bool spreads;                      /* pulls go to any replica; else to the read replicas, if any */
    cluster_map_rounds rounds;
    int64_t balance_us;   /* interval of load balancing; 0: never */
    uint32_t pin_rounds;  /* how often slots are pinned to other servers */
    uint32_t drop_rounds; /* how often a rank is dropped */
    uint8_t copies;
    consistency consistency;
    bool mixed;      /* half of the slots have rounds, whatever `consistency` is */
    bool varied;     /* each pull outside rounds has a bound of its own */
    uint32_t idle;   /* if mixed: one bit per rank that only adds empty contributions to rounds, at its own pace */
    int64_t pace_us; /* mean time between two steps */
    slot_placement_pin pins[PS_SLOTS_MAX];
    size_t pin_count;
    bool fed; /* ranks take their data from a consumer group: */
    leader_site leader;
    uint64_t sizes[PS_PARTS_MAX];
    ps_data_checker checker;
    ps_checker ps_checker;
    ps_coverage coverage;
    history_recorder_book book;              /* requests to the metadata store */
    cluster_map newest;                      /* newest map that a process knows as decided */
    cluster_map proposals[PS_PROPOSALS_MAX]; /* maps that may yet be decided, or are */
    size_t proposal_count;
    uint64_t left_generation; /* the generation that ends when all servers die at the end of the run */
};

static inline bool ps_has_rounds(const ps_cluster *cluster) {
    return cluster->mixed || cluster->consistency.kind == CONSISTENCY_BSP;
}

/* The bound of SSP counts all ranks: if slots with a bound exist beside rounds, all ranks must be in all rounds. */
static inline bool ps_bounds_rounds(const ps_cluster *cluster) {
    return cluster->mixed && (cluster->varied || cluster->consistency.kind == CONSISTENCY_SSP);
}

/* The argument is a ps_process. */
extern const sim_program ps_controller_program, ps_server_program, ps_worker_program, ps_checkpoints_program;

/* NULL: the process is down */
const slot_server *ps_server_of(const ps_process *process);
/* NULL: the process is down */
const checkpoint_store *ps_checkpoints_of(const ps_process *process);
/* NULL: the process is down */
controller *ps_controller_of(const ps_process *process);
/* see ps_rank_told */
void ps_tell(const ps_process *process, const cluster_map *known, const uint64_t own[PS_SLOTS_MAX]);
/* the worker has unacknowledged pushes; false also if it is down */
bool ps_pushes(const ps_process *process);
uint64_t ps_term(const ps_cluster *cluster, uint32_t rank); /* in the newest cluster map; 0: none yet */
/* the rank has done all steps, all are acknowledged */
bool ps_cluster_rank_done(const ps_cluster *cluster, uint32_t rank);
