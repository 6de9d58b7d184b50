/* depot.c — see party.h: the process that keeps checkpoints. */
#include <stdlib.h>

#include "base/alloc.h"
#include "sim/citizen.h"
#include "sim/ps/party.h"

typedef struct process {
    ps_world *world;
    citizen citizen;
    depot *depot;
} process;

static void send_bytes(void *context, const char *address, span bytes) {
    mail_send(((process *)context)->citizen.mail, address, bytes);
}

static void take_bytes(void *context, link_id link, span bytes) {
    process *process = context;
    ps_tally_batch(&process->world->tally, bytes);
    depot_take_bale(process->depot, bytes, NULL);
}

static void on_whole(void *context, const depot *depot) {
    ps_world *world = ((process *)context)->world;
    for (uint32_t i = 0; i < world->slot_count; i++)
        ps_ledger_saved(&world->ledger, depot_newest(depot), i, depot_lsn(depot, i));
    if (world->pause_us != 0) ps_ledger_exact(&world->ledger, depot_newest(depot));
}

static void *start(sim_node *node, const env *env, void *argument) {
    static const mail_handlers handlers = {.on_letter = take_bytes};
    process *process = xcalloc(1, sizeof *process);
    depot_options options = {.address = sim_node_name(node),
                             .director = "director",
                             .disk = env->disk,
                             .exact = ((ps_seat *)argument)->world->pause_us != 0,
                             .send = send_bytes,
                             .on_whole = on_whole,
                             .context = process};
    process->world = ((ps_seat *)argument)->world;
    citizen_open(&process->citizen, node, env, &handlers, process, false, NULL);
    process->depot = depot_create(&options, citizen_now_us(&process->citizen));
    return process;
}

static void stop(void *state) {
    process *process = state;
    depot_destroy(process->depot);
    citizen_close(&process->citizen);
    free(process);
}

static int64_t next_us(void *state) { return depot_next_us(((process *)state)->depot); }
static void tick(void *state, int64_t now_us) { depot_tick(((process *)state)->depot, now_us); }

const sim_program ps_depot_program = {"depot", start, stop, next_us, tick};

const depot *ps_depot_of(const ps_seat *seat) {
    const process *process = sim_node_state(seat->node);
    return process == NULL ? NULL : process->depot;
}
