/* group_party.c — see group_party.h. */
#include "sim/cluster/group_party.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "cluster/attendee.h"
#include "cluster/enrol.h"
#include "sim/citizen.h"

#define WORK_US INT64_C(150000)        /* for a piece, at most */
enum { BATCH_MAX = 3, STEPS_MAX = 3 }; /* items of a step, steps of a claim */

typedef struct process {
    citizen citizen;
    group_seat *seat;
    attendee *attendee;
    enrol *enrol;
    uint64_t incarnation; /* 0: none */
    uint64_t step;        /* of its rank, the next one */
    int64_t work_us;      /* not before */
} process;

static int64_t now_of(const process *process) { return citizen_now_us(&process->citizen); }

static void send_letter(void *context, const char *address, const letter *letter) {
    citizen_send(&((process *)context)->citizen, address, letter);
}

/* ---- What a member does: a function of the roster. */

/* The step that is next is over when it has been done: what is behind it may be claimed with that. */
static void wish(process *process) {
    const roster *roster = attendee_roster(process->attendee);
    rng *rng = process->citizen.env->rng;
    roster_wish wish = {.rank = process->seat->id,
                        .step = process->step,
                        .past = {.over = process->step, .since = process->step},
                        .birth = roster->birth};
    if (claims_find(&roster->claims, wish.rank, wish.step) == NULL) {
        wish.count = 1 + (uint32_t)rng_below(rng, STEPS_MAX);
        wish.batch = 1 + rng_below(rng, BATCH_MAX);
    }
    bool taken = attendee_wish(process->attendee, &wish);
    MR_ASSERT(taken);
}

static void work(process *process) {
    const roster *roster = attendee_roster(process->attendee);
    uint32_t rank = process->seat->id;
    uint64_t over = claims_over(&roster->claims, rank);
    if (process->step < over) process->step = over;
    const claim *claim = claims_find(&roster->claims, rank, process->step);
    if (claim == NULL && attendee_wish_of(process->attendee, rank) == NULL) wish(process);
    if (claim == NULL || now_of(process) < process->work_us) return;
    claims_piece piece = claims_piece_of(claim, process->step);
    group_ledger_did(&process->seat->world->ledger, rank, process->step, &piece);
    process->step++;
    process->work_us = now_of(process) + rng_between(process->citizen.env->rng, 1000, WORK_US);
    wish(process);
}

static bool is_over(const process *process) {
    return attendee_roster(process->attendee)->epoch >= process->seat->world->epochs;
}

static void on_enrolled(void *context, uint64_t incarnation) {
    process *process = context;
    process->incarnation = incarnation;
    attendee_begin(process->attendee, incarnation, now_of(process));
}

static void begin_enrol(process *process) {
    if (process->enrol != NULL) enrol_destroy(process->enrol);
    process->incarnation = 0;
    uint32_t member = process->seat->id * ENROL_KEYS; /* all are in each other's way */
    process->enrol = enrol_create(citizen_coordinator(&process->citizen), process->citizen.env->rng, member,
                                  now_of(process), on_enrolled, process);
}

static void act(process *process) {
    const roster *roster = attendee_roster(process->attendee);
    const roster_member *self = roster_find(roster, process->seat->id);
    if (process->incarnation != 0 && attendee_is_out(process->attendee)) {
        sim_count(process->seat->world->sim, "taken out", 1);
        begin_enrol(process); /* takes another */
    }
    bool is_in = self != NULL && self->incarnation == process->incarnation;
    if (is_in && !is_over(process) && process->seat->role == ROSTER_WORKER) work(process);
}

static void on_roster(void *context, const roster *roster) {
    process *process = context;
    group_ledger_knows(&process->seat->world->ledger, process->seat->node, roster);
    act(process);
}

bool group_done(const group_seat *seat) {
    const process *process = sim_node_state(seat->node);
    return process != NULL && is_over(process);
}

/* ---- Life. */

static void take_bytes(void *context, link_id link, span bytes) {
    process *process = context;
    letter letter;
    if (citizen_take(&process->citizen, bytes, &letter)) (void)attendee_take(process->attendee, &letter);
}

static void *start(sim_node *node, const env *env, void *argument) {
    static const mail_handlers handlers = {.on_letter = take_bytes};
    process *process = xcalloc(1, sizeof *process);
    process->seat = argument;
    citizen_open(&process->citizen, node, env, &handlers, process, true, &process->seat->world->book);
    attendee_options options = {.id = process->seat->id,
                                .role = process->seat->role,
                                .address = sim_node_name(node),
                                .marshal = "marshal",
                                .send = send_letter,
                                .on_roster = on_roster,
                                .context = process};
    process->attendee = attendee_create(&options);
    begin_enrol(process);
    return process;
}

static void stop(void *state) {
    process *process = state;
    citizen_hush(&process->citizen);
    attendee_destroy(process->attendee);
    enrol_destroy(process->enrol);
    citizen_close(&process->citizen);
    free(process);
}

static int64_t earlier(int64_t a, int64_t b) { return a < b ? a : b; }

static int64_t next_us(void *state) {
    process *process = state;
    int64_t next_us = earlier(remote_next_us(process->citizen.remote), attendee_next_us(process->attendee));
    return earlier(next_us, enrol_next_us(process->enrol));
}

/* A beat is also when it looks whether there is something to do. */
static void tick(void *state, int64_t now_us) {
    process *process = state;
    remote_tick(process->citizen.remote, now_us);
    enrol_tick(process->enrol, now_us);
    if (now_us < attendee_next_us(process->attendee)) return;
    act(process);
    attendee_tick(process->attendee, now_us);
}

const sim_program group_member_program = {"member", start, stop, next_us, tick};

void group_decided(void *context, const sim_node *node, const roster *roster) {
    group_world *world = context;
    group_ledger_knows(&world->ledger, node, roster);
    group_ledger_decided(&world->ledger, roster);
}
