/* ps_party.c — see ps_party.h. */
#include "sim/ps_party.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "cluster/mail.h"
#include "cluster/remote.h"

#define INCARNATION_KEY "incarnation"
#define RETRY_US        INT64_C(100000)

typedef struct training { /* of a rank's process */
    ps_session session;
    bool begun, pulling, done;
    bool out;      /* of BSP: it is not in this round */
    bool peeks;    /* it looks, and does not push */
    uint64_t step; /* BSP: the version it works from */
    uint32_t missing;
    double shown[PS_SLOTS_MAX][FLOATS_WIDTH];
    int64_t next_us; /* not before */
} training;

typedef struct process {
    ps_seat *seat;
    const env *env;
    mail *mail;
    remote *remote;
    server *server; /* one of these three */
    rank *rank;
    director *director;
    uint64_t incarnation;
    bool asking;
    int64_t retry_us;
    training training;
} process;

static int64_t now_of(const process *process) { return clock_now_us(process->env->clock); }

/* ---- What all have. */

static void send_bytes(void *context, const char *address, span bytes) {
    mail_send(((process *)context)->mail, address, bytes);
}

static void train(process *process);

static void take_bytes(void *context, link_id link, span bytes) {
    process *process = context;
    uint32_t magic = 0;
    if (bytes.size >= sizeof magic) memcpy(&magic, bytes.data, sizeof magic);
    if (magic != PART_MAGIC) {
        letter letter;
        if (letter_decode(bytes, &letter) == MR_OK) (void)remote_take(process->remote, &letter);
        return;
    }
    if (process->server != NULL) server_take(process->server, bytes);
    if (process->director != NULL) director_take(process->director, bytes, now_of(process));
    if (process->rank != NULL) {
        rank_take(process->rank, bytes);
        train(process);
    }
}

static void on_incarnation(void *argument, const coordinator_answer *answer) {
    process *process = argument;
    process->asking = false;
    if (answer->status != MR_OK) {
        process->retry_us = now_of(process) + RETRY_US;
        return;
    }
    process->incarnation = answer->version;
    if (process->server != NULL) server_begin(process->server, answer->version, now_of(process));
    if (process->rank != NULL) rank_begin(process->rank, answer->version, now_of(process));
}

static void ask_incarnation(process *process) {
    process->asking = true;
    coordinator_put(remote_coordinator(process->remote), INCARNATION_KEY, (span){0}, on_incarnation, process);
}

static process *start(sim_node *node, const env *env, void *argument) {
    static const mail_handlers handlers = {.on_letter = take_bytes};
    process *process = xcalloc(1, sizeof *process);
    process->seat = argument;
    process->env = env;
    process->mail = mail_create(env, &handlers, process);
    process->remote = remote_create(env, process->mail, "keeper");
    sim_node_serve(node, &mail_events, process->mail);
    return process;
}

static void stop(void *state) {
    process *process = state;
    remote_destroy(process->remote);
    if (process->server != NULL) server_destroy(process->server);
    if (process->rank != NULL) rank_destroy(process->rank);
    if (process->director != NULL) director_destroy(process->director);
    mail_destroy(process->mail);
    free(process);
}

static int64_t earlier(int64_t a, int64_t b) { return a < b ? a : b; }

static int64_t next_us(void *state) {
    process *process = state;
    int64_t next_us = remote_next_us(process->remote);
    if (process->incarnation == 0 && !process->asking && process->director == NULL)
        next_us = earlier(next_us, process->retry_us);
    if (process->server != NULL) next_us = earlier(next_us, server_next_us(process->server));
    if (process->director != NULL) next_us = earlier(next_us, director_next_us(process->director));
    if (process->rank != NULL) next_us = earlier(next_us, rank_next_us(process->rank));
    if (process->rank != NULL && process->training.begun && !process->training.done && !process->training.pulling)
        next_us = earlier(next_us, process->training.next_us);
    return next_us;
}

static void tick(void *state, int64_t now_us) {
    process *process = state;
    remote_tick(process->remote, now_us);
    if (process->incarnation == 0 && !process->asking && process->director == NULL && now_us >= process->retry_us)
        ask_incarnation(process);
    if (process->server != NULL && now_us >= server_next_us(process->server)) server_tick(process->server, now_us);
    if (process->director != NULL && now_us >= director_next_us(process->director))
        director_tick(process->director, now_us);
    if (process->rank == NULL) return;
    if (now_us >= rank_next_us(process->rank)) rank_tick(process->rank, now_us);
    train(process);
}

/* ---- A server. */

static void on_applied(void *context, const replica *replica, const tape_entry *entry) {
    process *process = context;
    ps_ledger_applied(&process->seat->world->ledger, process->seat->node, replica, entry);
}

static void *server_start(sim_node *node, const env *env, void *argument) {
    process *process = start(node, env, argument);
    server_options options = {.id = process->seat->id,
                              .address = sim_node_name(node),
                              .director = "director",
                              .values = &floats_ops,
                              .mutations = &process->seat->world->mutations,
                              .send = send_bytes,
                              .on_applied = on_applied,
                              .context = process};
    process->server = server_create(&options);
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
    sim_count(world->sim, "charts", 1);
    sim_note(world->sim, process->seat->node, "knows chart %d", (int)(chart->number & 0xffffff));
    check_chart(world, chart);
}

static void *director_start(sim_node *node, const env *env, void *argument) {
    process *process = start(node, env, argument);
    ps_world *world = process->seat->world;
    director_options options = {.address = sim_node_name(node),
                                .coordinator = remote_coordinator(process->remote),
                                .rng = env->rng,
                                .consistency = world->consistency,
                                .copies = world->copies,
                                .rounds = world->rounds,
                                .rank_count = world->rank_count,
                                .slot_count = world->slot_count,
                                .first_servers = world->server_count > 1 ? world->server_count - 1 : 1,
                                .send = send_bytes,
                                .on_propose = on_propose,
                                .on_decided = on_decided,
                                .context = process,
                                .no_keep = sim_mutated(world->sim, "no-keep")};
    process->director = director_create(&options, clock_now_us(env->clock));
    director_pin(process->director, world->pins, world->pin_count);
    return process;
}

const sim_program ps_director_program = {"director", director_start, stop, next_us, tick};

director *ps_director_of(const ps_seat *seat) {
    const process *process = sim_node_state(seat->node);
    return process == NULL ? NULL : process->director;
}

/* ---- A rank. */

static bool in_rounds(const process *process) { return process->seat->world->consistency.kind == CONSISTENCY_BSP; }

/* Steps count from 1; rounds, and so versions, from 0. */
static uint64_t ended(const process *process) {
    return in_rounds(process) ? process->training.step : process->training.step - 1;
}

static void on_ready(void *context) {
    process *process = context;
    training *training = &process->training;
    uint64_t lowest = UINT64_MAX;
    for (uint32_t i = 0; i < process->seat->world->slot_count; i++) {
        uint64_t here =
            in_rounds(process) ? rank_version(process->rank, i) : name_ended(rank_clock(process->rank, i)) + 1;
        if (here < lowest) lowest = here;
    }
    training->begun = true;
    training->step = lowest;
    sim_note(process->seat->world->sim, process->seat->node, "resumes at step %d", (int)lowest);
}

static void on_pushed(void *context, uint32_t slot, uint64_t name, part_status status) {
    process *process = context;
    ps_ledger_pushed(&process->seat->world->ledger, &process->training.session, process->seat->id, slot, name, status);
}

static void on_round(void *context, const ledger_terms *terms) {
    process *process = context;
    training *training = &process->training;
    ps_ledger_round(&process->seat->world->ledger, terms);
    if (!training->pulling) return;
    training->out = !crowd_has(&terms->members, process->seat->id);
    if (training->missing > 0) training->missing--;
}

/* Others went on without it. */
static void on_gone(void *context, uint32_t slot, uint64_t version) {
    process *process = context;
    training *training = &process->training;
    sim_note(process->seat->world->sim, process->seat->node, "goes from step %d to %d", (int)training->step,
             (int)version);
    if (version > training->step) training->step = version;
    training->pulling = false;
    training->next_us = now_of(process);
}

static void on_ordered(void *context, tape_kind kind, bool done, uint64_t round) {
    process *process = context;
    sim_note(process->seat->world->sim, process->seat->node, "order %d: %d, from round %d", (int)kind, done,
             (int)round);
    sim_count(process->seat->world->sim, "orders", done);
}

static void on_pulled(void *context, uint32_t slot, uint64_t version, uint64_t lsn, span values) {
    process *process = context;
    training *training = &process->training;
    if (!training->pulling) return; /* it has gone on to another version */
    sim_count(process->seat->world->sim, "pulls", 1);
    ps_ledger_pulled(&process->seat->world->ledger, &training->session, process->seat->id, slot, ended(process),
                     version, lsn, values);
    if (values.size == PS_BYTES) memmove(training->shown[slot], values.data, PS_BYTES);
    if (training->missing > 0) training->missing--;
}

/* What it has is what it is shown. */
static void on_same(void *context, uint32_t slot, uint64_t lsn) {
    process *process = context;
    sim_count(process->seat->world->sim, "pulls of the same", 1);
    on_pulled(process, slot, 0, lsn, span_of(process->training.shown[slot], PS_BYTES));
}

/* Another rank learns what this one had acknowledged, and may count on it. */
static void tell_another(process *process) {
    const ps_world *world = process->seat->world;
    const ps_seat *other = &world->ranks[rng_below(process->env->rng, world->rank_count)];
    if (other != process->seat)
        rank_tell(process->rank, sim_node_name(other->node),
                  span_of(process->training.session.own, sizeof process->training.session.own));
}

static void on_told(void *context, span bytes) {
    process *process = context;
    uint64_t own[PS_SLOTS_MAX];
    MR_ASSERT(bytes.size == sizeof own);
    memcpy(own, bytes.data, sizeof own);
    for (size_t i = 0; i < PS_SLOTS_MAX; i++)
        if (own[i] > process->training.session.told[i]) process->training.session.told[i] = own[i];
}

static bool has_room(const process *process) {
    return rank_unacknowledged(process->rank) == 0 ||
           (!in_rounds(process) &&
            rank_unacknowledged(process->rank) + 2 * process->seat->world->slot_count <= RANK_WINDOW);
}

static void pull_all(process *process) {
    training *training = &process->training;
    tell_another(process);
    training->pulling = true;
    training->missing = process->seat->world->slot_count;
    for (uint32_t i = 0; i < process->seat->world->slot_count; i++) {
        bool fresh = !in_rounds(process) && rng_chance(process->env->rng, process->seat->world->fresh_chance);
        ps_ledger_asked(&process->seat->world->ledger, &training->session, i, fresh);
        if (fresh)
            rank_pull_fresh(process->rank, i, ended(process));
        else if (!in_rounds(process) && rng_chance(process->env->rng, 0.5))
            rank_pull_newer(process->rank, i, ended(process));
        else
            rank_pull(process->rank, i, ended(process));
    }
    rank_flush(process->rank);
}

static void push(process *process, uint32_t slot, uint64_t name, bool tick) {
    training *training = &process->training;
    double gradient[FLOATS_WIDTH];
    uint64_t shown = in_rounds(process) ? ps_ledger_shown_hash((const double(*)[FLOATS_WIDTH])training->shown,
                                                               process->seat->world->value_slots)
                                        : 0;
    ps_gradient(process->seat->id, training->step, slot, shown, gradient);
    mr_status status = rank_push(process->rank, slot, name, tick ? (span){0} : span_of(gradient, PS_BYTES));
    MR_ASSERT(status == MR_OK);
}

static void push_all(process *process) {
    training *training = &process->training;
    for (uint32_t i = 0; i < process->seat->world->slot_count; i++) {
        if (in_rounds(process)) {
            push(process, i, training->step + 1, i == process->seat->world->value_slots);
            continue;
        }
        if (ps_touches(process->seat->id, training->step, i)) push(process, i, name_of(training->step, 1), false);
        push(process, i, name_tick(training->step), true);
    }
    rank_flush(process->rank);
}

/* Now and then a rank leaves, and comes back. */
static void think_again(process *process) {
    if (in_rounds(process) && rng_chance(process->env->rng, process->seat->world->order_chance))
        rank_order(process->rank, process->training.out ? TAPE_JOIN : TAPE_LEAVE);
}

/* One thing after the other: to be shown, to push, to wait. */
static void train(process *process) {
    training *training = &process->training;
    const ps_world *world = process->seat->world;
    uint64_t last = in_rounds(process) ? world->steps - 1 : world->steps;
    if (!training->begun || training->done) return;
    if (training->pulling && training->missing == 0 && training->peeks) {
        training->pulling = training->peeks = false;
        training->next_us = now_of(process) + RETRY_US / 4;
    } else if (training->pulling && training->missing == 0) {
        training->pulling = false;
        think_again(process);
        if (!training->out) push_all(process);
        rank_flush(process->rank);
        training->step++;
        training->next_us = now_of(process) + rng_between(process->env->rng, 0, 2 * world->pace_us);
    }
    if (training->step > last) {
        training->done = rank_unacknowledged(process->rank) == 0;
        training->next_us = CLOCK_NEVER_US; /* the last acknowledgement wakes it */
    } else if (!training->pulling && now_of(process) >= training->next_us && has_room(process)) {
        pull_all(process);
    } else if (!training->pulling && now_of(process) >= training->next_us && !in_rounds(process) &&
               rng_chance(process->env->rng, world->fresh_chance)) {
        training->peeks = true;
        pull_all(process);
    } else if (!training->pulling && now_of(process) >= training->next_us) {
        training->next_us = now_of(process) + RETRY_US / 4;
    }
}

static void *rank_start(sim_node *node, const env *env, void *argument) {
    process *process = start(node, env, argument);
    rank_options options = {.rank = process->seat->id,
                            .spreads = process->seat->world->spreads,
                            .address = sim_node_name(node),
                            .director = "director",
                            .send = send_bytes,
                            .on_ready = on_ready,
                            .on_pushed = on_pushed,
                            .on_pulled = on_pulled,
                            .on_same = on_same,
                            .on_round = on_round,
                            .on_gone = on_gone,
                            .on_ordered = on_ordered,
                            .on_told = on_told,
                            .context = process};
    process->rank = rank_create(&options);
    return process;
}

const sim_program ps_rank_program = {"rank", rank_start, stop, next_us, tick};

uint64_t ps_rank_incarnation(const ps_seat *seat) {
    const process *process = sim_node_state(seat->node);
    return process == NULL ? 0 : process->incarnation;
}

bool ps_rank_done(const ps_seat *seat) {
    const process *process = sim_node_state(seat->node);
    return process != NULL && process->training.done;
}
