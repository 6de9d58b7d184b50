/* sim_group_leader.h — the process of a group leader (cluster/group_leader.h) as a simulated node. */
#pragma once
#include "cluster/group_leader.h"
#include "sim/history_recorder.h"

typedef struct leader_site { /* argument of the program */
    const uint64_t *sizes;   /* sizes of the shards of the data */
    size_t part_count;
    history_recorder_book *book; /* NULL: its requests to the metadata store are not recorded */
    void (*on_decided)(void *context, const sim_node *node, const consumer_group *group);
    void *context;
} leader_site;

extern const sim_program sim_group_leader_program;
