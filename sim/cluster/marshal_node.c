/* marshal_node.c — see marshal_node.h. */
#include "sim/cluster/marshal_node.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "sim/citizen.h"

typedef struct process {
    citizen citizen;
    const marshal_seat *seat;
    const sim_node *node;
    marshal *marshal;
} process;

static void take_bytes(void *context, link_id link, span bytes) {
    process *process = context;
    letter letter;
    if (citizen_take(&process->citizen, bytes, &letter))
        (void)marshal_take(process->marshal, &letter, citizen_now_us(&process->citizen));
}

static void send_letter(void *context, const char *address, const letter *letter) {
    citizen_send(&((process *)context)->citizen, address, letter);
}

static void on_decided(void *context, const roster *roster) {
    const process *process = context;
    process->seat->on_decided(process->seat->context, process->node, roster);
}

static void *start(sim_node *node, const env *env, void *argument) {
    static const mail_handlers handlers = {.on_letter = take_bytes};
    process *process = xcalloc(1, sizeof *process);
    process->seat = argument;
    process->node = node;
    citizen_open(&process->citizen, node, env, &handlers, process, true, process->seat->book);
    marshal_options options = {.coordinator = citizen_coordinator(&process->citizen),
                               .sizes = process->seat->sizes,
                               .part_count = process->seat->part_count,
                               .send = send_letter,
                               .on_decided = on_decided,
                               .context = process};
    process->marshal = marshal_create(&options, citizen_now_us(&process->citizen));
    return process;
}

static void stop(void *state) {
    process *process = state;
    citizen_hush(&process->citizen);
    marshal_destroy(process->marshal);
    citizen_close(&process->citizen);
    free(process);
}

static int64_t next_us(void *state) {
    process *process = state;
    int64_t asks_us = remote_next_us(process->citizen.remote), next_us = marshal_next_us(process->marshal);
    return asks_us < next_us ? asks_us : next_us;
}

static void tick(void *state, int64_t now_us) {
    process *process = state;
    remote_tick(process->citizen.remote, now_us);
    if (now_us >= marshal_next_us(process->marshal)) marshal_tick(process->marshal, now_us);
}

const sim_program marshal_node_program = {"marshal", start, stop, next_us, tick};
