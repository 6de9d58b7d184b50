/* school.c — see school.h: its scheduler and its servers. */
#include "sim/kv/school.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "kv/kv_server.h"

#define AGAIN_US INT64_C(50000)

/* A process that cannot begin, since its disk does not do what it should, is started again. */
typedef struct process {
    const env *env;
    school_seat *seat;
    scheduler *scheduler; /* one of these two */
    kv_server *server;
    int64_t again_us;
} process;

static process *create(const env *env, void *argument) {
    process *process = xcalloc(1, sizeof *process);
    process->env = env;
    process->seat = argument;
    return process;
}

static van *van_of(const process *process) {
    if (process->server != NULL) return kv_server_van(process->server);
    return process->scheduler == NULL ? NULL : scheduler_van(process->scheduler);
}

static void open_scheduler(process *process) {
    scheduler_options options = process->seat->school->scheduler;
    options.env = process->env;
    process->again_us = clock_now_us(process->env->clock) + AGAIN_US;
    if (scheduler_open(&options, &process->scheduler) != MR_OK)
        process->scheduler = NULL;
    else
        sim_node_serve(process->seat->node, &mail_events, van_mail(van_of(process)));
}

static void *start_scheduler(sim_node *node, const env *env, void *argument) {
    process *process = create(env, argument);
    process->seat->node = node;
    open_scheduler(process);
    return process;
}

static void *start_server(sim_node *node, const env *env, void *argument) {
    const uint64_t memory = UINT64_C(1) << 34;
    process *process = create(env, argument);
    postoffice_options options = {
        .scheduler = SCHOOL_SCHEDULER, .listen = sim_node_name(node), .number = process->seat->number, .env = env};
    if (kv_server_open(&options, memory, &process->server) != MR_OK) {
        sim_violation(process->seat->school->sim, "server %u cannot begin", process->seat->number);
        process->server = NULL;
        return process;
    }
    sim_node_serve(node, &mail_events, van_mail(van_of(process)));
    return process;
}

static void stop(void *state) {
    process *process = state;
    scheduler_close(process->scheduler);
    kv_server_close(process->server);
    free(process);
}

static int64_t next_us(void *state) {
    process *process = state;
    van *van = van_of(process);
    return van == NULL ? process->again_us : van_due_us(van);
}

static void tick(void *state, int64_t now_us) {
    process *process = state;
    van *van = van_of(process);
    if (van != NULL)
        van_turn(van);
    else if (process->seat->school->scheduler_seat.node == process->seat->node)
        open_scheduler(process);
}

const sim_program school_scheduler_program = {"scheduler", start_scheduler, stop, next_us, tick};
const sim_program school_server_program = {"server", start_server, stop, next_us, tick};

static void add(school *school, school_seat *seat, const char *name, uint32_t number, const sim_program *program) {
    *seat = (school_seat){.school = school, .number = number};
    seat->node = sim_node_add(school->sim, name, program, seat);
}

void school_build(school *school) {
    char name[SIM_NAME_MAX];
    school->diet.sim = school->sim;
    school->scheduler.listen = SCHOOL_SCHEDULER;
    school->scheduler.folder = "";
    school->scheduler.rank_count = school->lesson.workers = school->workers;
    add(school, &school->scheduler_seat, SCHOOL_SCHEDULER, 0, &school_scheduler_program);
    for (uint32_t i = 0; i < school->servers; i++) {
        snprintf(name, sizeof name, "tcp:10.0.1.%u:1", i % SCHOOL_SERVERS_MAX);
        add(school, &school->server_seats[i], name, i, &school_server_program);
    }
    for (uint32_t i = 0; i < school->workers; i++) {
        snprintf(name, sizeof name, "tcp:10.0.2.%u:1", i % SCHOOL_WORKERS_MAX);
        add(school, &school->worker_seats[i], name, i, &school_worker_program);
    }
    for (size_t i = 0; i < sim_node_count(school->sim); i++) sim_node_start(sim_node_at(school->sim, i));
}

bool school_is_done(const school *school) {
    for (uint32_t i = 0; i < school->workers; i++)
        if (!school->done[i]) return false;
    return true;
}

uint32_t school_why(const school *school, char *text, size_t size) {
    uint32_t rank = 0;
    while (rank < school->workers && school->done[rank]) rank++;
    if (rank < school->workers) school_pupil_why(&school->worker_seats[rank], text, size);
    return rank;
}
