/* group_processes.c — see group_processes.h. */
#include "sim/cluster/group_processes.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "cluster/group_consumer.h"
#include "cluster/incarnation.h"
#include "sim/sim_process.h"

#define WORK_US INT64_C(150000)        /* maximal duration of a step */
enum { BATCH_MAX = 3, STEPS_MAX = 3 }; /* maximal items per step, maximal steps per claim */

typedef struct process {
    sim_process process;
    group_process *group_process;
    group_consumer *consumer;
    incarnation_acquire *acquire;
    uint64_t incarnation; /* 0: none */
    uint64_t step;        /* next step of its rank */
    int64_t work_us;      /* earliest time of the next step */
} process;

static int64_t now_of(const process *process) { return sim_process_now_us(&process->process); }

static void send_message(void *context, const char *address, const control_message *message) {
    sim_process_send(&((process *)context)->process, address, message);
}

/* ---- Actions of a member: a function of the consumer group. */

/* Reports all steps before the next one as over, and claims batches for further steps in the same message. */
static void wish(process *process) {
    const consumer_group *group = group_consumer_group(process->consumer);
    rng *rng = process->process.env->rng;
    consumer_group_wish wish = {.rank = process->group_process->id,
                                .step = process->step,
                                .past = {.over = process->step, .since = process->step},
                                .birth = group->birth};
    if (batch_claims_find(&group->claims, wish.rank, wish.step) == NULL) {
        wish.count = 1 + (uint32_t)rng_below(rng, STEPS_MAX);
        wish.batch = 1 + rng_below(rng, BATCH_MAX);
    }
    bool taken = group_consumer_wish(process->consumer, &wish);
    MR_ASSERT(taken);
}

static void work(process *process) {
    const consumer_group *group = group_consumer_group(process->consumer);
    uint32_t rank = process->group_process->id;
    uint64_t over = batch_claims_over(&group->claims, rank);
    if (process->step < over) process->step = over;
    const batch_claim *claim = batch_claims_find(&group->claims, rank, process->step);
    if (claim == NULL && group_consumer_wish_of(process->consumer, rank) == NULL) wish(process);
    if (claim == NULL || now_of(process) < process->work_us) return;
    batch_claims_piece piece = batch_claims_piece_of(claim, process->step);
    group_checker_did(&process->group_process->cluster->checker, rank, process->step, &piece);
    process->step++;
    process->work_us = now_of(process) + rng_between(process->process.env->rng, 1000, WORK_US);
    wish(process);
}

static bool is_over(const process *process) {
    return group_consumer_group(process->consumer)->epoch >= process->group_process->cluster->epochs;
}

static void on_enrolled(void *context, uint64_t incarnation) {
    process *process = context;
    process->incarnation = incarnation;
    group_consumer_begin(process->consumer, incarnation, now_of(process));
}

static void begin_acquire(process *process) {
    if (process->acquire != NULL) incarnation_acquire_destroy(process->acquire);
    process->incarnation = 0;
    uint32_t member = process->group_process->id * INCARNATION_ACQUIRE_KEYS; /* all members use one key */
    process->acquire = incarnation_acquire_create(sim_process_metadata(&process->process), process->process.env->rng,
                                                  member, now_of(process), on_enrolled, process);
}

static void act(process *process) {
    const consumer_group *group = group_consumer_group(process->consumer);
    const consumer_group_member *self = consumer_group_find(group, process->group_process->id);
    if (process->incarnation != 0 && group_consumer_is_out(process->consumer)) {
        sim_count(process->group_process->cluster->sim, "taken out", 1);
        begin_acquire(process); /* takes another incarnation */
    }
    bool is_in = self != NULL && self->incarnation == process->incarnation;
    if (is_in && !is_over(process) && process->group_process->role == CONSUMER_GROUP_WORKER) work(process);
}

static void on_group(void *context, const consumer_group *group) {
    process *process = context;
    group_checker_knows(&process->group_process->cluster->checker, process->group_process->node, group);
    act(process);
}

bool group_done(const group_process *site) {
    const process *process = sim_node_state(site->node);
    return process != NULL && is_over(process);
}

/* ---- Starting, ticking, stopping. */

static void take_bytes(void *context, link_id link, span bytes) {
    process *process = context;
    control_message message;
    if (sim_process_take(&process->process, bytes, &message)) (void)group_consumer_take(process->consumer, &message);
}

static void *start(sim_node *node, const env *env, void *argument) {
    static const messenger_handlers handlers = {.on_message = take_bytes};
    process *process = xcalloc(1, sizeof *process);
    process->group_process = argument;
    sim_process_open(&process->process, node, env, &handlers, process, true, &process->group_process->cluster->book);
    group_consumer_options options = {.id = process->group_process->id,
                                      .role = process->group_process->role,
                                      .address = sim_node_name(node),
                                      .leader = "marshal",
                                      .send = send_message,
                                      .on_group = on_group,
                                      .context = process};
    process->consumer = group_consumer_create(&options);
    begin_acquire(process);
    return process;
}

static void stop(void *state) {
    process *process = state;
    sim_process_hush(&process->process);
    group_consumer_destroy(process->consumer);
    incarnation_acquire_destroy(process->acquire);
    sim_process_close(&process->process);
    free(process);
}

static int64_t earlier(int64_t a, int64_t b) { return a < b ? a : b; }

static int64_t next_us(void *state) {
    process *process = state;
    int64_t next_us =
        earlier(metadata_remote_next_us(process->process.remote), group_consumer_next_us(process->consumer));
    return earlier(next_us, incarnation_acquire_next_us(process->acquire));
}

/* A member checks for work at each heartbeat. */
static void tick(void *state, int64_t now_us) {
    process *process = state;
    metadata_remote_tick(process->process.remote, now_us);
    incarnation_acquire_tick(process->acquire, now_us);
    if (now_us < group_consumer_next_us(process->consumer)) return;
    act(process);
    group_consumer_tick(process->consumer, now_us);
}

const sim_program group_member_program = {"member", start, stop, next_us, tick};

void group_decided(void *context, const sim_node *node, const consumer_group *group) {
    group_cluster *cluster = context;
    group_checker_knows(&cluster->checker, node, group);
    group_checker_decided(&cluster->checker, group);
}
