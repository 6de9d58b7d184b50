/* scale_processes.h — the processes of a large parameter cluster: a controller, servers, workers that play a rank which
 * uses a few slots.
 *
 * Nothing goes wrong here but what the world (scale_cluster.h) does to them; what matters is what everything costs. All
 * that they say to each other is counted. Incarnations come from the world, one for each process that starts. */
#pragma once
#include "ps/controller.h"
#include "ps/rank.h"
#include "ps/rank_agent.h"
#include "ps/slot_server.h"
#include "sim/sim.h"

enum { SCALE_TOUCHES = 2 };

typedef struct scale_counts { /* of all processes together */
    uint64_t messages, bytes;
    uint64_t maps; /* that were decided: writes of the metadata store */
} scale_counts;

typedef struct scale_process { /* a machine, and what outlives its process */
    sim_node *node;
    uint32_t id; /* of the server, or the worker and its rank */
    scale_counts *counts;
    uint64_t *incarnations;
    map_cache *cache; /* all cluster maps of the world */
    const struct scale_size *size;
    /* Of a rank. */
    bool ready; /* its slots have said their clocks */
    uint32_t touches[SCALE_TOUCHES];
    uint64_t acknowledged[SCALE_TOUCHES]; /* the last name */
    int64_t waited_us;                    /* the longest time for one step */
} scale_process;

typedef struct scale_size {
    uint32_t servers, ranks, slots;
    uint8_t copies;
    int64_t balance_us; /* so often the controller balances load; 0: never */
} scale_size;

extern const sim_program scale_controller_program, scale_server_program, scale_worker_program; /* argument: a seat */

controller *scale_controller_of(const scale_process *process);
const slot_server *scale_server_of(const scale_process *process); /* NULL: it is down */
const rank *scale_rank_of(const scale_process *process);          /* NULL: it holds none yet */
