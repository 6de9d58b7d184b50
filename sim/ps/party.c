/* party.c — see party.h. */
#include "sim/ps/party.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/mutation.h"
#include "cluster/enrol.h"
#include "sim/ps/feed.h"
#include "sim/ps/role.h"

typedef struct process {
    citizen citizen;
    ps_seat *seat;
    server *server; /* one of these three */
    player *player;
    director *director;
    ps_role *roles[PS_RANKS_MAX]; /* of a player, owned; NULL: it does not play that rank */
    ps_feed *feed;                /* of a worker; NULL: its ranks need no data */
    enrol *enrol;                 /* of a server or a worker */
} process;

static int64_t now_of(const process *process) { return citizen_now_us(&process->citizen); }

/* ---- What all have. */

static void send_bytes(void *context, const char *address, span bytes) {
    mail_send(((process *)context)->citizen.mail, address, bytes);
}

static void take_bytes(void *context, link_id link, span bytes) {
    process *process = context;
    uint32_t magic = 0;
    if (bytes.size >= sizeof magic) memcpy(&magic, bytes.data, sizeof magic);
    if (magic != PART_MAGIC) {
        letter letter;
        if (citizen_take(&process->citizen, bytes, &letter) && process->feed != NULL)
            ps_feed_take(process->feed, &letter);
        return;
    }
    ps_tally_batch(&process->seat->world->tally, bytes);
    if (process->server != NULL) server_take_bale(process->server, bytes, NULL);
    if (process->server != NULL) ps_ledger_holds(&process->seat->world->ledger, process->seat->node, process->server);
    if (process->director != NULL) director_take(process->director, bytes, now_of(process));
    if (process->player != NULL) player_take(process->player, bytes);
    for (uint32_t i = 0; i < PS_RANKS_MAX; i++)
        if (process->roles[i] != NULL) ps_role_take(process->roles[i], bytes);
    if (process->player != NULL) player_say(process->player);
}

static void on_broken(void *context, const char *address, const cause *why) {
    process *process = context;
    if (process->director != NULL) director_broken(process->director, address, now_of(process));
}

static void on_enrolled(void *context, uint64_t incarnation) {
    process *process = context;
    if (process->server != NULL) server_begin(process->server, incarnation, now_of(process));
    if (process->player != NULL) player_begin(process->player, incarnation, now_of(process));
    if (process->feed != NULL) ps_feed_begin(process->feed, incarnation);
}

static void begin_enrol(process *process) {
    process->enrol = enrol_create(citizen_coordinator(&process->citizen), process->citizen.env->rng, process->seat->id,
                                  now_of(process), on_enrolled, process);
}

static void on_replaced(void *context, uint64_t incarnation) {
    process *process = context;
    if (MUTATED("no-above")) return;
    sim_note(process->seat->world->sim, process->seat->node, "enrols once more");
    sim_count(process->seat->world->sim, "enrolled again", 1);
    enrol_again(process->enrol, incarnation, now_of(process));
}

static process *start(sim_node *node, const env *env, void *argument) {
    static const mail_handlers handlers = {.on_letter = take_bytes, .on_broken = on_broken};
    process *process = xcalloc(1, sizeof *process);
    process->seat = argument;
    citizen_open(&process->citizen, node, env, &handlers, process, true, &process->seat->world->book);
    return process;
}

static void stop(void *state) {
    process *process = state;
    citizen_hush(&process->citizen);
    if (process->server != NULL) server_destroy(process->server);
    for (uint32_t i = 0; i < PS_RANKS_MAX; i++)
        if (process->roles[i] != NULL) ps_role_end(process->roles[i]);
    if (process->player != NULL) player_destroy(process->player);
    if (process->director != NULL) director_destroy(process->director);
    if (process->enrol != NULL) enrol_destroy(process->enrol);
    if (process->feed != NULL) ps_feed_destroy(process->feed);
    citizen_close(&process->citizen);
    free(process);
}

static int64_t earlier(int64_t a, int64_t b) { return a < b ? a : b; }

static int64_t next_us(void *state) {
    process *process = state;
    int64_t next_us = remote_next_us(process->citizen.remote);
    if (process->enrol != NULL) next_us = earlier(next_us, enrol_next_us(process->enrol));
    if (process->server != NULL) next_us = earlier(next_us, server_next_us(process->server));
    if (process->director != NULL) next_us = earlier(next_us, director_next_us(process->director));
    if (process->player != NULL) next_us = earlier(next_us, player_next_us(process->player));
    if (process->feed != NULL) next_us = earlier(next_us, ps_feed_next_us(process->feed));
    for (uint32_t i = 0; i < PS_RANKS_MAX; i++)
        if (process->roles[i] != NULL) next_us = earlier(next_us, ps_role_next_us(process->roles[i]));
    return next_us;
}

static void tick(void *state, int64_t now_us) {
    process *process = state;
    remote_tick(process->citizen.remote, now_us);
    if (process->enrol != NULL) enrol_tick(process->enrol, now_us);
    if (process->server != NULL && now_us >= server_next_us(process->server)) server_tick(process->server, now_us);
    if (process->director != NULL && now_us >= director_next_us(process->director))
        director_tick(process->director, now_us);
    if (process->player != NULL && now_us >= player_next_us(process->player)) player_tick(process->player, now_us);
    if (process->feed != NULL && now_us >= ps_feed_next_us(process->feed)) ps_feed_tick(process->feed, now_us);
    for (uint32_t i = 0; i < PS_RANKS_MAX; i++)
        if (process->roles[i] != NULL) ps_role_tick(process->roles[i], now_us);
}

/* ---- A server. */

static void on_applied(void *context, const replica *replica, const tape_entry *entry) {
    process *process = context;
    process->seat->world->tally.entries[entry->kind]++;
    ps_ledger_applied(&process->seat->world->ledger, process->seat->node, replica, entry);
}

static void on_loaded(void *context, const replica *replica) {
    process *process = context;
    ps_ledger_loaded(&process->seat->world->ledger, process->seat->node, replica);
}

static void *server_start(sim_node *node, const env *env, void *argument) {
    process *process = start(node, env, argument);
    server_options options = {.id = process->seat->id,
                              .address = sim_node_name(node),
                              .director = "director",
                              .depot = process->seat->world->keeps ? "depot" : NULL,
                              .values = &float_machine_ops,
                              .values_context = &process->seat->world->machine,
                              .rank_bytes = process->seat->world->rank_bytes,
                              .link_bytes = process->seat->world->link_bytes,
                              .send = send_bytes,
                              .on_applied = on_applied,
                              .on_loaded = on_loaded,
                              .on_replaced = on_replaced,
                              .context = process};
    process->server = server_create(&options);
    if (process->seat->id < process->seat->world->server_count) begin_enrol(process);
    return process;
}

const sim_program ps_server_program = {"server", server_start, stop, next_us, tick};

const server *ps_server_of(const ps_seat *seat) {
    const process *process = sim_node_state(seat->node);
    return process == NULL ? NULL : process->server;
}

/* ---- The director. */

/* What may yet be decided: whoever asks which copies must live looks at these, too. */
static void on_propose(void *context, const chart *chart) {
    ps_world *world = ((process *)context)->seat->world;
    size_t kept = 0;
    for (size_t i = 0; i < world->proposal_count; i++) {
        if (world->proposals[i].number <= world->newest.number)
            chart_fini(&world->proposals[i]);
        else
            world->proposals[kept++] = world->proposals[i];
    }
    for (size_t i = kept; i < world->proposal_count; i++) world->proposals[i] = (struct chart){0};
    world->proposal_count = kept;
    MR_ASSERT(kept < PS_PROPOSALS_MAX);
    chart_copy(&world->proposals[world->proposal_count++], chart);
}

static void check_chart(ps_world *world, const chart *chart) {
    for (uint32_t i = 0; i < chart->slot_count; i++)
        for (size_t k = 0; k < chart->slots[i].count; k++) {
            const chart_member *member = &chart->slots[i].chain[k];
            const ps_seat *seat = &world->servers[member->server];
            const server *server = ps_server_of(seat);
            if (server == NULL || server_incarnation(server) != member->incarnation) continue;
            if (server_chart(server)->number > chart->number) continue;
            ps_ledger_member(&world->ledger, seat->node, &chart->slots[i], i, member, chart->birth,
                             server_replica(server, i));
        }
}

static void on_decided(void *context, const chart *chart) {
    process *process = context;
    ps_world *world = process->seat->world;
    if (chart->number <= world->newest.number) return;
    chart_copy(&world->newest, chart);
    ps_ledger_decided(&world->ledger, chart);
    sim_count(world->sim, "charts", 1);
    sim_note(world->sim, process->seat->node, "knows chart %d", (int)(chart->number & 0xffffff));
    check_chart(world, chart);
}

static void on_checkpoint(void *context, uint64_t checkpoint) {
    process *process = context;
    sim_note(process->seat->world->sim, process->seat->node, "checkpoint %d is whole", (int)checkpoint);
    sim_count(process->seat->world->sim, "checkpoints", 1);
    ps_ledger_whole(&process->seat->world->ledger, checkpoint);
}

static void *director_start(sim_node *node, const env *env, void *argument) {
    process *process = start(node, env, argument);
    ps_world *world = process->seat->world;
    director_options options = {.address = sim_node_name(node),
                                .depot = world->keeps ? "depot" : NULL,
                                .restores = world->keeps,
                                .pause_us = world->pause_us,
                                .on_checkpoint = on_checkpoint,
                                .coordinator = citizen_coordinator(&process->citizen),
                                .rng = env->rng,
                                .consistency = world->consistency,
                                .mixed = world->mixed,
                                .copies = world->copies,
                                .rounds = world->rounds,
                                .rank_count = world->rank_count,
                                .slot_count = world->slot_count,
                                .balance = {.decide_us = world->balance_us},
                                .first_servers = world->server_count > 1 ? world->server_count - 1 : 1,
                                .send = send_bytes,
                                .on_propose = on_propose,
                                .on_decided = on_decided,
                                .context = process};
    process->director = director_create(&options, clock_now_us(env->clock));
    director_pin(process->director, world->pins, world->pin_count);
    return process;
}

const sim_program ps_director_program = {"director", director_start, stop, next_us, tick};

director *ps_director_of(const ps_seat *seat) {
    const process *process = sim_node_state(seat->node);
    return process == NULL ? NULL : process->director;
}

/* ---- A worker: it plays the ranks that the chart gives it. */

static void on_begin(void *context, uint32_t rank, uint64_t stint) {
    process *process = context;
    sim_count(process->seat->world->sim, "stints", 1);
    process->roles[rank] = ps_role_begin(process->seat, process->citizen.env, process->player, process->feed, rank,
                                         stint, send_bytes, process);
}

static void on_end(void *context, uint32_t rank) {
    process *process = context;
    ps_role_end(process->roles[rank]);
    process->roles[rank] = NULL;
}

static bool stands(void *context, uint32_t rank, uint64_t *step) {
    return ps_role_stands(((process *)context)->roles[rank], step);
}

static void *worker_start(sim_node *node, const env *env, void *argument) {
    process *process = start(node, env, argument);
    player_options options = {.worker = process->seat->id,
                              .address = sim_node_name(node),
                              .director = "director",
                              .send = send_bytes,
                              .on_begin = on_begin,
                              .on_end = on_end,
                              .on_replaced = on_replaced,
                              .stands = stands,
                              .context = process};
    process->player = player_create(&options);
    if (process->seat->world->fed) process->feed = ps_feed_create(process->seat, &process->citizen);
    begin_enrol(process);
    return process;
}

const sim_program ps_worker_program = {"worker", worker_start, stop, next_us, tick};

uint64_t ps_stint(const ps_world *world, uint32_t rank) {
    return rank < world->newest.rank_count ? world->newest.players[rank].since : 0;
}

void ps_tell(const ps_seat *seat, const chart *known, const uint64_t own[PS_SLOTS_MAX]) {
    process *process = sim_node_state(seat->node);
    for (uint32_t i = 0; process != NULL && i < PS_RANKS_MAX; i++)
        if (process->roles[i] != NULL) ps_role_told(process->roles[i], known, own);
}

bool ps_pushes(const ps_seat *seat) {
    const process *process = sim_node_state(seat->node);
    for (uint32_t i = 0; process != NULL && i < PS_RANKS_MAX; i++)
        if (process->roles[i] != NULL && ps_role_pushes(process->roles[i])) return true;
    return false;
}

bool ps_rank_done(const ps_world *world, uint32_t rank) {
    for (uint32_t i = 0; i < world->worker_count; i++) {
        const process *process = sim_node_state(world->workers[i].node);
        const ps_role *role = process == NULL ? NULL : process->roles[rank];
        if (role != NULL && ps_role_stint(role) == ps_stint(world, rank)) return ps_role_done(role);
    }
    return false;
}
