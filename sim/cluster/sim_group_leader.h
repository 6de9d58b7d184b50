/* sim_group_leader.h — the process of a group leader (cluster/group_leader.h) as a simulated node. */
#pragma once
#include "cluster/group_leader.h"
#include "sim/history_recorder.h"

typedef struct leader_site { /* the argument */
    const uint64_t *sizes;   /* of the parts of the data */
    size_t part_count;
    history_recorder_book *book; /* NULL: what it asks of the metadata store is not written down */
    void (*on_decided)(void *context, const sim_node *node, const consumer_group *group);
    void *context;
} leader_site;

extern const sim_program sim_group_leader_program;
