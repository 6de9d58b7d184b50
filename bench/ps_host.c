/* ps_host.c — see ps_host.h. */
#include "bench/ps_host.h"

#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

void ps_host_must(mr_status status, const char *what) {
    if (status != MR_OK) bench_fail("%s: %s", what, mr_last_error());
}

/* ---- The others. */

static void on_listening(void *context, const char *address) {
    const ps_host *host = context;
    char text[MR_PS_ADDRESS_MAX] = {0};
    snprintf(text, sizeof text, "%s", address);
    bench_ready(host->ready_fd, text, sizeof text);
}

static void be_scheduler(void *argument, int ready_fd) {
    ps_host *host = argument;
    host->ready_fd = ready_fd;
    const mr_ps_scheduler_options options =
        MR_OPTIONS(mr_ps_scheduler_options, .listen = host->address, .checkpoint_dir = host->folder,
                   .num_workers = host->options.ranks, .num_servers = host->options.servers,
                   .replicas = host->options.copies, .slots = host->options.slots,
                   .consistency = host->options.consistency, .on_listening = on_listening, .context = host);
    ps_host_must(mr_ps_run_scheduler(&options), "the scheduler");
}

static void be_server(void *argument, int ready_fd) {
    ps_host *host = argument;
    host->ready_fd = ready_fd;
    bench_pin(BENCH_TWO_CPUS, host->number + 1);
    const mr_ps_server_options options =
        MR_OPTIONS(mr_ps_server_options, .scheduler = host->address, .number = host->number + 1,
                   .on_listening = on_listening, .context = host);
    ps_host_must(mr_ps_run_server(&options), "a server");
}

/* ---- Ranks. */

static void connect_as(ps_host *host, uint32_t rank) {
    uint64_t step;
    ps_host_must(mr_ps_connect(host->address, (int)rank, PS_HOST_PATIENCE_US, &host->ps), "connecting");
    ps_host_must(mr_ps_table_create(host->ps, "table", host->table_options, PS_HOST_PATIENCE_US, &host->table),
                 "a table");
    if (host->options.ranks > 1) ps_host_meet(host, "begin");
    ps_host_must(mr_ps_begin(host->ps, PS_HOST_PATIENCE_US, &step), "a step");
    bench_pin(BENCH_TWO_CPUS, rank);
}

static void leave(ps_host *host) {
    mr_ps_table_free(host->table);
    mr_ps_close(host->ps);
}

static void be_rank(void *argument) {
    ps_host *host = argument;
    connect_as(host, host->number);
    host->options.rank(host, host->number, host->options.argument);
    leave(host);
}

void ps_host_next_step(const ps_host *host) {
    uint64_t step;
    ps_host_must(mr_ps_end(host->ps), "the end of a step");
    ps_host_must(mr_ps_begin(host->ps, PS_HOST_PATIENCE_US, &step), "a step");
}

void ps_host_meet(const ps_host *host, const char *name) {
    ps_host_must(mr_ps_barrier(host->ps, name, MR_PS_WORKERS, PS_HOST_PATIENCE_US), "a barrier");
}

/* ---- All of them. */

void ps_host_start_server(ps_host *host, uint32_t number) {
    char said[MR_PS_ADDRESS_MAX];
    host->number = number;
    host->server[number] = bench_server(be_server, host, said, sizeof said);
}

static uint32_t at_least_one(uint32_t count) { return count == 0 ? 1 : count; }

static void start_ranks(ps_host *host, uint32_t first) {
    for (uint32_t i = first; i < host->options.ranks; i++) {
        host->number = i;
        host->ranks[i] = bench_child(be_rank, host);
    }
}

static void start_servers(ps_host *host, const ps_host_options *options, const mr_ps_table_options *table) {
    *host = (ps_host){.options = *options, .table_options = table, .address = "tcp:127.0.0.1:0"};
    host->options.servers = at_least_one(options->servers);
    host->options.ranks = at_least_one(options->ranks);
    host->options.copies = at_least_one(options->copies);
    if (options->slots == 0) host->options.slots = PS_HOST_SLOTS;
    if (host->options.servers > PS_HOST_SERVERS_MAX || host->options.ranks > PS_HOST_RANKS_MAX)
        bench_fail("too many servers or ranks");
    bench_folder(host->folder);
    if (options->wire == LIMIT_UNIX && snprintf(host->address, sizeof host->address, "unix:%s/s", host->folder) > 48)
        bench_fail("$TMPDIR is too long for the path of a socket");
    host->scheduler = bench_server(be_scheduler, host, host->address, sizeof host->address);
    for (uint32_t i = 0; i < host->options.servers; i++) ps_host_start_server(host, i);
}

void ps_host_start(ps_host *host, const ps_host_options *options, const mr_ps_table_options *table) {
    start_servers(host, options, table);
    start_ranks(host, 1);
    connect_as(host, 0);
}

void ps_host_start_apart(ps_host *host, const ps_host_options *options, const mr_ps_table_options *table) {
    start_servers(host, options, table);
    start_ranks(host, 0);
}

void ps_host_stop(ps_host *host) {
    leave(host); /* no-ops if this process is none */
    for (uint32_t i = 0; i < host->options.ranks; i++)
        if (host->ranks[i] != 0) bench_join(host->ranks[i]);
    for (uint32_t i = 0; i < host->options.servers; i++) kill(host->server[i], SIGTERM);
    for (uint32_t i = 0; i < host->options.servers; i++) bench_join(host->server[i]);
    kill(host->scheduler, SIGTERM);
    bench_join(host->scheduler);
    DIR *folder = opendir(host->folder);
    for (struct dirent *item; folder != NULL && (item = readdir(folder)) != NULL;)
        if (item->d_name[0] != '.') unlinkat(dirfd(folder), item->d_name, 0);
    if (folder != NULL) closedir(folder);
    rmdir(host->folder);
}
