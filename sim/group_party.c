/* group_party.c — see group_party.h. */
#include "sim/group_party.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "cluster/attendee.h"
#include "cluster/enrol.h"
#include "cluster/mail.h"
#include "cluster/remote.h"

#define WORK_US INT64_C(150000) /* for a piece, at most */
enum { PIECE_MAX = 3 };

static const roster_barrier epoch_barrier = {.name = "epoch", .group = ROSTER_WORKER};
static const roster_barrier all_barrier = {.name = "all", .group = ROSTER_SERVER | ROSTER_WORKER, .strict = true};

typedef struct process {
    group_seat *seat;
    const env *env;
    mail *mail;
    remote *remote;
    witness witness;
    marshal *marshal; /* one of these two */
    attendee *attendee;
    enrol *enrol;         /* of a member */
    uint64_t incarnation; /* 0: none */
    bool waits;
    int64_t work_us, come_us; /* not before; come_us 0: not on its way to a barrier */
} process;

static int64_t now_of(const process *process) { return clock_now_us(process->env->clock); }

static void send_letter(void *context, const char *address, const letter *letter) {
    size_t size = letter_size(letter);
    uint8_t *bytes = xmalloc(size);
    writer writer = writer_of(bytes, size);
    letter_encode(letter, &writer);
    mail_send(((process *)context)->mail, address, span_of(bytes, size));
    free(bytes);
}

/* ---- What a member does: a function of the roster. */

static uint64_t round_of(const roster *roster, const roster_barrier *terms) {
    const roster_barrier *barrier = roster_barrier_of(roster, terms->name);
    return barrier == NULL ? 0 : barrier->round;
}

static void come(process *process, const roster_barrier *terms) {
    const roster *roster = attendee_roster(process->attendee);
    if (process->come_us == 0)
        process->come_us = now_of(process) + rng_between(process->env->rng, 0, process->seat->world->linger_us);
    if (now_of(process) < process->come_us) return;
    process->come_us = 0;
    attendee_come(process->attendee, terms);
    process->waits = true;
    group_ledger_came(&process->seat->world->ledger, process->seat->id, process->incarnation, terms->name,
                      round_of(roster, terms) + 1);
}

static void work(process *process) {
    const roster *roster = attendee_roster(process->attendee);
    size_t at = roster_work(roster, process->seat->id, process->incarnation);
    if (process->seat->role != ROSTER_WORKER || at == roster->part_count || attendee_reports(process->attendee)) return;
    if (now_of(process) < process->work_us) return;
    const roster_part *part = &roster->parts[at];
    uint64_t left = part->size - part->position, most = left < PIECE_MAX ? left : PIECE_MAX;
    uint64_t much = 1 + rng_below(process->env->rng, most);
    roster_piece piece = {(uint32_t)at, roster->epoch, part->position, part->position + much};
    attendee_report(process->attendee, &piece);
    group_ledger_did(&process->seat->world->ledger, process->seat->id, process->incarnation, &piece);
    process->work_us = now_of(process) + rng_between(process->env->rng, 1000, WORK_US);
}

static bool is_over(const process *process) {
    return round_of(attendee_roster(process->attendee), &all_barrier) >= process->seat->world->epochs;
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
    process->enrol = enrol_create(witness_coordinator(&process->witness), process->env->rng, member, now_of(process),
                                  on_enrolled, process);
}

static void act(process *process) {
    const roster *roster = attendee_roster(process->attendee);
    const roster_member *self = roster_find(roster, process->seat->id);
    if (process->incarnation != 0 && attendee_is_out(process->attendee)) {
        sim_count(process->seat->world->sim, "taken out", 1);
        begin_enrol(process); /* takes another */
        process->waits = false;
    }
    if (self == NULL || self->incarnation != process->incarnation || is_over(process)) return;
    if (process->waits && attendee_passed(process->attendee) == MR_BUSY) return;
    process->waits = false;
    uint64_t met = round_of(roster, &epoch_barrier);
    if (met > round_of(roster, &all_barrier))
        come(process, &all_barrier);
    else if (roster->epoch > met && process->seat->role == ROSTER_WORKER)
        come(process, &epoch_barrier);
    else
        work(process);
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

/* ---- What all have. */

static void take_bytes(void *context, link_id link, span bytes) {
    process *process = context;
    letter letter;
    if (letter_decode(bytes, &letter) != MR_OK || remote_take(process->remote, &letter)) return;
    if (process->marshal != NULL) (void)marshal_take(process->marshal, &letter, now_of(process));
    if (process->attendee != NULL) (void)attendee_take(process->attendee, &letter);
}

static process *start(sim_node *node, const env *env, void *argument) {
    static const mail_handlers handlers = {.on_letter = take_bytes};
    process *process = xcalloc(1, sizeof *process);
    process->seat = argument;
    process->env = env;
    process->mail = mail_create(env, &handlers, process);
    process->remote = remote_create(env, process->mail, "keeper");
    process->witness = (witness){remote_coordinator(process->remote), &process->seat->world->book};
    sim_node_serve(node, &mail_events, process->mail);
    return process;
}

static void stop(void *state) {
    process *process = state;
    remote_destroy(process->remote);
    if (process->marshal != NULL) marshal_destroy(process->marshal);
    if (process->attendee != NULL) attendee_destroy(process->attendee);
    if (process->enrol != NULL) enrol_destroy(process->enrol);
    mail_destroy(process->mail);
    free(process);
}

/* ---- A member. */

static void *member_start(sim_node *node, const env *env, void *argument) {
    process *process = start(node, env, argument);
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

static int64_t earlier(int64_t a, int64_t b) { return a < b ? a : b; }

static int64_t member_next_time(void *state) {
    process *process = state;
    int64_t next_us = earlier(remote_next_us(process->remote), attendee_next_us(process->attendee));
    return earlier(next_us, enrol_next_us(process->enrol));
}

/* A beat is also when it looks whether there is something to do. */
static void member_ticks(void *state, int64_t now_us) {
    process *process = state;
    remote_tick(process->remote, now_us);
    enrol_tick(process->enrol, now_us);
    if (now_us < attendee_next_us(process->attendee)) return;
    act(process);
    attendee_tick(process->attendee, now_us);
}

const sim_program group_member_program = {"member", member_start, stop, member_next_time, member_ticks};

/* ---- The marshal. */

static void on_decided(void *context, const roster *roster) {
    process *process = context;
    group_ledger_knows(&process->seat->world->ledger, process->seat->node, roster);
    group_ledger_decided(&process->seat->world->ledger, roster);
}

static void *marshal_start(sim_node *node, const env *env, void *argument) {
    process *process = start(node, env, argument);
    group_world *world = process->seat->world;
    marshal_options options = {.coordinator = witness_coordinator(&process->witness),
                               .sizes = world->sizes,
                               .part_count = world->part_count,
                               .send = send_letter,
                               .on_decided = on_decided,
                               .context = process,
                               .mutations = &world->mutations};
    process->marshal = marshal_create(&options, now_of(process));
    return process;
}

static int64_t marshal_next_time(void *state) {
    process *process = state;
    return earlier(remote_next_us(process->remote), marshal_next_us(process->marshal));
}

static void marshal_ticks(void *state, int64_t now_us) {
    process *process = state;
    remote_tick(process->remote, now_us);
    if (now_us >= marshal_next_us(process->marshal)) marshal_tick(process->marshal, now_us);
}

const sim_program group_marshal_program = {"marshal", marshal_start, stop, marshal_next_time, marshal_ticks};
