/* sim_group_leader.c — see sim_group_leader.h. */
#include "sim/cluster/sim_group_leader.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "sim/sim_process.h"

typedef struct process {
    sim_process process;
    const leader_site *site;
    const sim_node *node;
    group_leader *leader;
} process;

static void take_bytes(void *context, link_id link, span bytes) {
    process *process = context;
    control_message message;
    if (sim_process_take(&process->process, bytes, &message))
        (void)group_leader_take(process->leader, &message, sim_process_now_us(&process->process));
}

static void send_message(void *context, const char *address, const control_message *message) {
    sim_process_send(&((process *)context)->process, address, message);
}

static void on_decided(void *context, const consumer_group *group) {
    const process *process = context;
    process->site->on_decided(process->site->context, process->node, group);
}

static void *start(sim_node *node, const env *env, void *argument) {
    static const messenger_handlers handlers = {.on_message = take_bytes};
    process *process = xcalloc(1, sizeof *process);
    process->site = argument;
    process->node = node;
    sim_process_open(&process->process, node, env, &handlers, process, true, process->site->book);
    group_leader_options options = {.store = sim_process_metadata(&process->process),
                                    .sizes = process->site->sizes,
                                    .part_count = process->site->part_count,
                                    .send = send_message,
                                    .on_decided = on_decided,
                                    .context = process};
    process->leader = group_leader_create(&options, sim_process_now_us(&process->process));
    return process;
}

static void stop(void *state) {
    process *process = state;
    sim_process_hush(&process->process);
    group_leader_destroy(process->leader);
    sim_process_close(&process->process);
    free(process);
}

static int64_t next_us(void *state) {
    process *process = state;
    int64_t asks_us = metadata_remote_next_us(process->process.remote), next_us = group_leader_next_us(process->leader);
    return asks_us < next_us ? asks_us : next_us;
}

static void tick(void *state, int64_t now_us) {
    process *process = state;
    metadata_remote_tick(process->process.remote, now_us);
    if (now_us >= group_leader_next_us(process->leader)) group_leader_tick(process->leader, now_us);
}

const sim_program sim_group_leader_program = {"marshal", start, stop, next_us, tick};
