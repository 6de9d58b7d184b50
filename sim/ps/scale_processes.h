/* scale_processes.h — the processes of a large parameter cluster: a controller, servers, and workers with one rank each
 * that uses a few slots.
 *
 * There are no faults except the changes made by scale_cluster.h; the test measures costs. All messages are counted.
 * The cluster hands out incarnations, one for each process that starts. */
#pragma once
#include "ps/controller.h"
#include "ps/rank.h"
#include "ps/rank_agent.h"
#include "ps/slot_server.h"
#include "sim/sim.h"

enum { SCALE_TOUCHES = 2 };

typedef struct scale_counts { /* totals of all processes */
    uint64_t messages, bytes;
    uint64_t maps; /* decided cluster maps: writes of the metadata store */
} scale_counts;

typedef struct scale_process { /* a machine, and the state that outlives its process */
    sim_node *node;
    uint32_t id; /* number of the server, or of the worker and its rank */
    scale_counts *counts;
    uint64_t *incarnations;
    map_cache *cache; /* all cluster maps of the simulation */
    const struct scale_size *size;
    /* State of a rank. */
    bool ready; /* its slots have reported their clocks */
    uint32_t touches[SCALE_TOUCHES];
    uint64_t acknowledged[SCALE_TOUCHES]; /* last acknowledged seq */
    int64_t waited_us;                    /* the longest time for one step */
} scale_process;

typedef struct scale_size {
    uint32_t servers, ranks, slots;
    uint8_t copies;
    int64_t balance_us; /* interval of load balancing; 0: never */
} scale_size;

extern const sim_program scale_controller_program, scale_server_program, scale_worker_program; /* a scale_process */

controller *scale_controller_of(const scale_process *process);
const slot_server *scale_server_of(const scale_process *process); /* NULL: the process is down */
const rank *scale_rank_of(const scale_process *process);          /* NULL: the worker holds no rank yet */
