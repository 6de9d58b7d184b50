/* ps_checkpoints.c — see ps_cluster.h: the process with the checkpoint store. */
#include <stdlib.h>

#include "base/alloc.h"
#include "sim/ps/ps_cluster.h"
#include "sim/sim_process.h"

typedef struct process {
    ps_cluster *cluster;
    sim_process process;
    checkpoint_store *store;
    uint64_t told; /* the newest checkpoint that the checker knows from this process */
} process;

static void send_bytes(void *context, const char *address, span bytes) {
    messenger_send(((process *)context)->process.messenger, address, bytes);
}

static void take_bytes(void *context, link_id link, span bytes) {
    process *process = context;
    ps_coverage_batch(&process->cluster->coverage, bytes);
    checkpoint_store_take_bytes(process->store, bytes, NULL);
}

/* Tells the checker of the newest checkpoint, once. While the store cannot read its disk it has none. */
static void tell_checker(process *process, const checkpoint_store *store) {
    ps_cluster *cluster = process->cluster;
    uint64_t newest = checkpoint_store_newest(store), lsn[PS_SLOTS_MAX] = {0};
    if (newest == 0 || newest == process->told) return;
    process->told = newest;
    for (uint32_t i = 0; i < cluster->slot_count; i++) lsn[i] = checkpoint_store_lsn(store, i);
    ps_checker_saved(&cluster->ps_checker, newest, lsn);
    if (cluster->pause_us != 0) ps_checker_exact(&cluster->ps_checker, newest);
}

static void on_whole(void *context, const checkpoint_store *store) { tell_checker(context, store); }

static void *start(sim_node *node, const env *env, void *argument) {
    static const messenger_handlers handlers = {.on_message = take_bytes};
    process *process = xcalloc(1, sizeof *process);
    checkpoint_store_options options = {.address = sim_node_name(node),
                                        .controller = "director",
                                        .disk = env->disk,
                                        .piece = ((ps_process *)argument)->cluster->piece,
                                        .room = 10 * ((ps_process *)argument)->cluster->piece,
                                        .exact = ((ps_process *)argument)->cluster->pause_us != 0,
                                        .send = send_bytes,
                                        .on_whole = on_whole,
                                        .context = process};
    process->cluster = ((ps_process *)argument)->cluster;
    sim_process_open(&process->process, node, env, &handlers, process, false, NULL);
    process->store = checkpoint_store_create(&options, sim_process_now_us(&process->process));
    return process;
}

static void stop(void *state) {
    process *process = state;
    checkpoint_store_destroy(process->store);
    sim_process_close(&process->process);
    free(process);
}

static int64_t next_us(void *state) { return checkpoint_store_next_us(((process *)state)->store); }
/* The first tick reads the disk: the process before may have completed a checkpoint without a report. */
static void tick(void *state, int64_t now_us) {
    checkpoint_store_tick(((process *)state)->store, now_us);
    tell_checker(state, ((process *)state)->store);
}

const sim_program ps_checkpoints_program = {"depot", start, stop, next_us, tick};

const checkpoint_store *ps_checkpoints_of(const ps_process *site) {
    const process *process = sim_node_state(site->node);
    return process == NULL ? NULL : process->store;
}
