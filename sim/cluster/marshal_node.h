/* marshal_node.h — the process of a marshal (cluster/marshal.h) as a simulated node. */
#pragma once
#include "cluster/marshal.h"
#include "sim/witness.h"

typedef struct marshal_seat { /* the argument */
    const uint64_t *sizes;    /* of the parts of the data */
    size_t part_count;
    witness_book *book; /* NULL: what it asks of the coordinator is not written down */
    void (*on_decided)(void *context, const sim_node *node, const roster *roster);
    void *context;
} marshal_seat;

extern const sim_program marshal_node_program;
