/* ps_bench_cluster.c — see ps_bench_cluster.h. */
#include "bench/ps_bench_cluster.h"

#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

void ps_bench_cluster_must(mr_status status, const char *what) {
    if (status != MR_OK) bench_fail("%s: %s", what, mr_last_error());
}

/* ---- Scheduler and servers. */

static void on_listening(void *context, const char *address) {
    const ps_bench_cluster *cluster = context;
    char text[MR_PS_ADDRESS_MAX] = {0};
    snprintf(text, sizeof text, "%s", address);
    bench_ready(cluster->ready_fd, text, sizeof text);
}

static void be_scheduler(void *argument, int ready_fd) {
    ps_bench_cluster *cluster = argument;
    cluster->ready_fd = ready_fd;
    const mr_ps_scheduler_options options =
        MR_OPTIONS(mr_ps_scheduler_options, .listen = cluster->address, .checkpoint_dir = cluster->folder,
                   .num_workers = cluster->options.ranks, .num_servers = cluster->options.servers,
                   .replicas = cluster->options.copies, .slots = cluster->options.slots,
                   .consistency = cluster->options.consistency, .on_listening = on_listening, .context = cluster);
    ps_bench_cluster_must(mr_ps_run_scheduler(&options), "the scheduler");
}

static void be_server(void *argument, int ready_fd) {
    ps_bench_cluster *cluster = argument;
    cluster->ready_fd = ready_fd;
    bench_pin(BENCH_TWO_CPUS, cluster->number + 1);
    const mr_ps_server_options options =
        MR_OPTIONS(mr_ps_server_options, .scheduler = cluster->address, .number = cluster->number + 1,
                   .on_listening = on_listening, .context = cluster);
    ps_bench_cluster_must(mr_ps_run_server(&options), "a server");
}

/* ---- Ranks. */

static void connect_as(ps_bench_cluster *cluster, uint32_t rank) {
    uint64_t step;
    ps_bench_cluster_must(mr_ps_connect(cluster->address, (int)rank, PS_BENCH_CLUSTER_PATIENCE_US, &cluster->ps),
                          "connecting");
    ps_bench_cluster_must(
        mr_ps_table_create(cluster->ps, "table", cluster->table_options, PS_BENCH_CLUSTER_PATIENCE_US, &cluster->table),
        "a table");
    if (cluster->options.ranks > 1) ps_bench_cluster_meet(cluster, "begin");
    ps_bench_cluster_must(mr_ps_begin(cluster->ps, PS_BENCH_CLUSTER_PATIENCE_US, &step), "a step");
    bench_pin(BENCH_TWO_CPUS, rank);
}

static void leave(ps_bench_cluster *cluster) {
    mr_ps_table_free(cluster->table);
    mr_ps_close(cluster->ps);
}

static void be_rank(void *argument) {
    ps_bench_cluster *cluster = argument;
    connect_as(cluster, cluster->number);
    cluster->options.rank(cluster, cluster->number, cluster->options.argument);
    leave(cluster);
}

void ps_bench_cluster_next_step(const ps_bench_cluster *cluster) {
    uint64_t step;
    ps_bench_cluster_must(mr_ps_end(cluster->ps), "the end of a step");
    ps_bench_cluster_must(mr_ps_begin(cluster->ps, PS_BENCH_CLUSTER_PATIENCE_US, &step), "a step");
}

void ps_bench_cluster_meet(const ps_bench_cluster *cluster, const char *name) {
    ps_bench_cluster_must(mr_ps_barrier(cluster->ps, name, MR_PS_WORKERS, PS_BENCH_CLUSTER_PATIENCE_US), "a barrier");
}

/* ---- The whole deployment. */

void ps_bench_cluster_start_server(ps_bench_cluster *cluster, uint32_t number) {
    char said[MR_PS_ADDRESS_MAX];
    cluster->number = number;
    cluster->server[number] = bench_server(be_server, cluster, said, sizeof said);
}

static uint32_t at_least_one(uint32_t count) { return count == 0 ? 1 : count; }

static void start_ranks(ps_bench_cluster *cluster, uint32_t first) {
    for (uint32_t i = first; i < cluster->options.ranks; i++) {
        cluster->number = i;
        cluster->ranks[i] = bench_child(be_rank, cluster);
    }
}

static void start_servers(ps_bench_cluster *cluster, const ps_bench_cluster_options *options,
                          const mr_ps_table_options *table) {
    *cluster = (ps_bench_cluster){.options = *options, .table_options = table, .address = "tcp:127.0.0.1:0"};
    cluster->options.servers = at_least_one(options->servers);
    cluster->options.ranks = at_least_one(options->ranks);
    cluster->options.copies = at_least_one(options->copies);
    if (options->slots == 0) cluster->options.slots = PS_BENCH_CLUSTER_SLOTS;
    if (cluster->options.servers > PS_BENCH_CLUSTER_SERVERS_MAX || cluster->options.ranks > PS_BENCH_CLUSTER_RANKS_MAX)
        bench_fail("too many servers or ranks");
    bench_folder(cluster->folder);
    if (options->wire == LIMIT_UNIX &&
        snprintf(cluster->address, sizeof cluster->address, "unix:%s/s", cluster->folder) > 48)
        bench_fail("$TMPDIR is too long for the path of a socket");
    cluster->scheduler = bench_server(be_scheduler, cluster, cluster->address, sizeof cluster->address);
    for (uint32_t i = 0; i < cluster->options.servers; i++) ps_bench_cluster_start_server(cluster, i);
}

void ps_bench_cluster_start(ps_bench_cluster *cluster, const ps_bench_cluster_options *options,
                            const mr_ps_table_options *table) {
    start_servers(cluster, options, table);
    start_ranks(cluster, 1);
    connect_as(cluster, 0);
}

void ps_bench_cluster_start_apart(ps_bench_cluster *cluster, const ps_bench_cluster_options *options,
                                  const mr_ps_table_options *table) {
    start_servers(cluster, options, table);
    start_ranks(cluster, 0);
}

void ps_bench_cluster_stop(ps_bench_cluster *cluster) {
    leave(cluster); /* no-op if this process is no rank */
    for (uint32_t i = 0; i < cluster->options.ranks; i++)
        if (cluster->ranks[i] != 0) bench_join(cluster->ranks[i]);
    for (uint32_t i = 0; i < cluster->options.servers; i++) kill(cluster->server[i], SIGTERM);
    for (uint32_t i = 0; i < cluster->options.servers; i++) bench_join(cluster->server[i]);
    kill(cluster->scheduler, SIGTERM);
    bench_join(cluster->scheduler);
    DIR *folder = opendir(cluster->folder);
    for (struct dirent *item; folder != NULL && (item = readdir(folder)) != NULL;)
        if (item->d_name[0] != '.') unlinkat(dirfd(folder), item->d_name, 0);
    if (folder != NULL) closedir(folder);
    rmdir(cluster->folder);
}
