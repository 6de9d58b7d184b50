/* group_scenario.c — a metadata store, a group leader, servers and workers: roles and shards of the data with faults.
 *
 * Each seed draws a cluster and its data. Workers claim the data epoch by epoch; faults of all kinds occur for a while;
 * they heal, and all epochs must be over within SETTLE_US. group_checker.h has the checks of each step. At the end all
 * requests to the metadata store must be linearizable (history_recorder.h): requests for incarnations, which all
 * members make at once, and for consumer groups. */
#include "sim/cluster/group_scenario.h"

#include <stdio.h>

#include "sim/cluster/group_processes.h"
#include "sim/cluster/sim_metadata.h"
#include "sim/faults.h"

#define FAULTS_US INT64_C(4000000)
#define SETTLE_US INT64_C(60000000)

static void add(group_cluster *cluster, group_process *process, const char *name, uint32_t id, uint8_t role) {
    *process = (group_process){.cluster = cluster, .id = id, .role = role};
    process->node = sim_node_add(cluster->sim, name, &group_member_program, process);
}

static void build(group_cluster *cluster) {
    rng *rng = sim_rng(cluster->sim);
    uint32_t workers = 1 + (uint32_t)rng_below(rng, 5), servers = (uint32_t)rng_below(rng, 3);
    cluster->site_count = workers + servers;
    cluster->part_count = 1 + (uint32_t)rng_below(rng, GROUP_PARTS_MAX);
    cluster->epochs = 1 + rng_below(rng, GROUP_EPOCHS_MAX);
    for (uint32_t i = 0; i < cluster->part_count; i++) cluster->sizes[i] = 1 + rng_below(rng, GROUP_ITEMS_MAX);
    (void)sim_node_add(cluster->sim, "keeper", &sim_metadata_program, NULL);
    cluster->leader = (leader_site){cluster->sizes, cluster->part_count, &cluster->book, group_decided, cluster};
    (void)sim_node_add(cluster->sim, "marshal", &sim_group_leader_program, &cluster->leader);
    for (uint32_t i = 0; i < cluster->site_count; i++) {
        char name[SIM_NAME_MAX];
        snprintf(name, sizeof name, i < workers ? "w%u" : "s%u", i);
        add(cluster, &cluster->processes[i], name, i, i < workers ? CONSUMER_GROUP_WORKER : CONSUMER_GROUP_SERVER);
    }
    for (size_t i = 0; i < sim_node_count(cluster->sim); i++) sim_node_start(sim_node_at(cluster->sim, i));
    sim_note(cluster->sim, NULL, "%u workers, %u servers, %u parts, %d epochs", workers, servers, cluster->part_count,
             (int)cluster->epochs);
}

static bool all_done(void *context) {
    const group_cluster *cluster = context;
    for (uint32_t i = 0; i < cluster->site_count; i++)
        if (!group_done(&cluster->processes[i])) return false;
    return true;
}

static void run(const scenario_options *options, scenario_result *result) {
    group_cluster cluster = {.sim = sim_create(options)};
    group_checker_init(&cluster.checker, cluster.sim);
    cluster.book.sim = cluster.sim;
    build(&cluster);
    fault_limits limits = {.allowed = FAULT_ALL, .until_us = FAULTS_US, .down_max = 1 + cluster.site_count / 2};
    faults *faults = faults_create(cluster.sim, &limits);
    bool settled = false;
    if (sim_run(cluster.sim, FAULTS_US + FAULTS_HEAL_US) &&
        sim_run_until(cluster.sim, sim_now_us(cluster.sim) + SETTLE_US, all_done, &cluster, &settled) && !settled)
        sim_violation(cluster.sim, "epoch %d of %d, %d s after the faults", (int)cluster.checker.group.epoch,
                      (int)cluster.epochs, (int)(SETTLE_US / 1000000));
    if (settled) history_recorder_check(&cluster.book);
    faults_destroy(faults);
    sim_finish(cluster.sim, result);
    history_recorder_book_fini(&cluster.book);
    group_checker_fini(&cluster.checker);
}

static const scenario_mutation mutations[] = {
    {"from-start", "a shard begins at its first batch again when its owner changes", 50},
    {"no-handover", "a shard stays with a worker that has left", 20},
    {"no-share", "a new worker gets only shards without an owner", 20},
    {"accept-two-decisions", "the metadata store accepts every compare-and-swap as if the version matched", 50},
    {"no-sync", "the metadata store answers before a change is on disk", 300},
    {0},
};

const scenario group_scenario = {"group", "consumer group and data shards: every batch once in an epoch", mutations,
                                 run};
