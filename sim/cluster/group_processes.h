/* group_processes.h — the processes of the group scenario: a group leader, servers and workers.
 *
 * Each process has messages and a metadata store of its own; members take an incarnation before they begin, and another
 * one when they learn that they were removed. A worker holds the rank of its number: it claims batches of the data for
 * a few steps at a time, does the steps one after the other, and reports their ends. Servers are members without work.
 * All actions of a process follow from the newest consumer group that it knows. Actions and decisions are reported to
 * the checker. */
#pragma once
#include "sim/cluster/group_checker.h"
#include "sim/cluster/sim_group_leader.h"

typedef struct group_cluster group_cluster;

typedef struct group_process { /* one machine */
    group_cluster *cluster;
    sim_node *node;
    uint32_t id;
    uint8_t role;
} group_process;

struct group_cluster {
    sim *sim;
    leader_site leader;
    group_process processes[GROUP_SITES_MAX];
    uint32_t site_count, part_count;
    uint64_t sizes[GROUP_PARTS_MAX];
    uint64_t epochs; /* number of epochs to do */
    group_checker checker;
    history_recorder_book book; /* requests to the metadata store */
};

extern const sim_program group_member_program; /* the argument is a group_process */
void group_decided(void *context, const sim_node *node, const consumer_group *group); /* context: group_cluster */
/* the process knows that all epochs are over */
bool group_done(const group_process *process);
