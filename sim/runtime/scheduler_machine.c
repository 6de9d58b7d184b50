/* scheduler_machine.c — see scheduler_machine.h. */
#include "sim/runtime/scheduler_machine.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"

enum { FIRST_PROCESS = 100, TELL_US = 300, SPAWN_US = 2000, REQUESTS = 3, LEASES_WANTED = 8 };

typedef enum tell_kind {
    TELL_GRANTED,   /* a client: ticket, lease, worker */
    TELL_RECLAIM,   /* a client: lease */
    TELL_DONE,      /* a client: lease */
    TELL_LOST,      /* a client: lease */
    TELL_REFUSED,   /* a client: ticket */
    TELL_JOB,       /* a worker: owner, lease */
    TELL_STEP,      /* a worker: its job continues */
    TELL_DEATH,     /* the node: process */
    TELL_SPAWNED,   /* the node: program */
    TELL_UNSPAWNED, /* the node: program */
    TELL_CREATED,   /* the node: actor, start, whether the report precedes the death of the process */
    TELL_UNCREATED,
} tell_kind;

typedef struct notice { /* a message in flight */
    list place;
    machine *machine;
    tell_kind kind;
    uint64_t to, a, b, c;
} notice;

static void arrive(void *context, uint64_t unused);

static void tell_after(machine *machine, int64_t delay_us, notice what) {
    notice *sent = xmalloc(sizeof *sent);
    *sent = what;
    sent->machine = machine;
    list_push_back(&machine->notices, &sent->place);
    sim_after(machine->sim, delay_us, arrive, sent, 0);
}

/* Sends a message to a process: in order. */
static void tell(machine *machine, notice what) {
    machine_process *to = machine_process_of(machine, what.to);
    int64_t now_us = sim_now_us(machine->sim), at_us = now_us + rng_between(sim_rng(machine->sim), 1, TELL_US);
    if (at_us <= to->told_us) at_us = to->told_us + 1;
    to->told_us = at_us;
    tell_after(machine, at_us - now_us, what);
}

/* ---- Processes. */

machine_process *machine_process_of(machine *machine, uint64_t id) {
    MR_ASSERT(id >= FIRST_PROCESS && id - FIRST_PROCESS < machine->process_count);
    return &machine->processes[id - FIRST_PROCESS];
}

static machine_process *process_add(machine *machine, uint32_t program, bool is_worker) {
    MR_ASSERT(machine->process_count < MACHINE_PROCESSES_MAX);
    machine_process *process = &machine->processes[machine->process_count++];
    *process = (machine_process){.id = FIRST_PROCESS + machine->process_count - 1,
                                 .program = program,
                                 .alive = true,
                                 .joined = true,
                                 .is_worker = is_worker};
    scheduler_checker_client_add(&machine->scheduler, process->id, program);
    return process;
}

machine_process *machine_driver(machine *machine, uint32_t program) { return process_add(machine, program, false); }

size_t machine_alive_count(const machine *machine) {
    size_t count = 0;
    for (size_t i = 0; i < machine->process_count; i++) count += machine->processes[i].alive;
    return count;
}

void machine_end(machine *machine, machine_process *process) {
    if (!process->alive) return;
    process->alive = false;
    sim_note(machine->sim, NULL, "process %" PRIu64 " ends", process->id);
    sim_count(machine->sim, process->is_worker ? "workers lost" : "drivers lost", 1);
    tell_after(machine, rng_between(sim_rng(machine->sim), 1, 2 * TELL_US),
               (notice){.kind = TELL_DEATH, .to = process->id});
}

/* ---- A client. */

static bool has_group(const machine *machine, const resources *need) {
    return need->group == 0 || scheduler_group_fits(machine->scheduler.scheduler, need) == MR_OK;
}

static void ask(machine *machine, machine_process *client, size_t index) {
    machine_shape *shape = &client->shapes[index];
    if (!has_group(machine, &shape->need)) shape->backlog = 0; /* its waiting clients are notified */
    while (shape->requested < REQUESTS && shape->requested < shape->backlog &&
           client->lease_count + shape->requested < LEASES_WANTED) {
        size_t place = 0;
        while (shape->tickets[place] != 0) place++;
        shape->tickets[place] = machine->next_ticket++;
        shape->cancelled[place] = false;
        shape->requested++;
        scheduler_checker_request(&machine->scheduler, client->id, shape->tickets[place], &shape->need);
    }
}

static void ask_all(machine *machine, machine_process *client) {
    for (size_t i = 0; i < client->shape_count; i++) ask(machine, client, i);
}

void machine_add_work(machine *machine, machine_process *process, size_t shape, uint32_t count) {
    process->shapes[shape].backlog += count;
    ask_all(machine, process);
    machine_decide(machine);
}

void machine_drop_work(machine *machine, machine_process *process) {
    for (size_t i = 0; i < process->shape_count; i++) {
        machine_shape *shape = &process->shapes[i];
        shape->backlog = 0;
        for (size_t place = 0; place < REQUESTS; place++) {
            if (shape->tickets[place] == 0 || shape->cancelled[place]) continue;
            if (scheduler_checker_waits(&machine->scheduler, process->id, shape->tickets[place])) {
                scheduler_checker_cancel(&machine->scheduler, process->id, shape->tickets[place]);
                shape->tickets[place] = 0;
                shape->requested--;
            } else { /* the grant is in flight */
                scheduler_checker_cancel(&machine->scheduler, process->id, shape->tickets[place]);
                shape->cancelled[place] = true;
            }
        }
    }
    machine_decide(machine);
}

static machine_lease *lease_of(machine_process *client, uint64_t id) {
    for (size_t i = 0; i < client->lease_count; i++)
        if (client->leases[i].id == id) return &client->leases[i];
    return NULL;
}

static void drop_lease(machine_process *client, machine_lease *lease) {
    *lease = client->leases[--client->lease_count];
}

static void give_back(machine *machine, machine_process *client, machine_lease *lease) {
    bool keep = !machine->faulty || !rng_chance(sim_rng(machine->sim), 0.05);
    scheduler_checker_release(&machine->scheduler, client->id, lease->id, keep);
    drop_lease(client, lease);
}

/* Gives the lease the next job, or returns it. */
static void use_lease(machine *machine, machine_process *client, machine_lease *lease) {
    machine_shape *shape = &client->shapes[lease->shape];
    if (shape->backlog == 0 || lease->reclaimed) {
        give_back(machine, client, lease);
        ask_all(machine, client);
        return;
    }
    shape->backlog--;
    lease->running = true;
    tell(machine, (notice){.kind = TELL_JOB, .to = lease->worker, .a = client->id, .b = lease->id});
}

static void granted(machine *machine, machine_process *client, uint64_t ticket, uint64_t id, uint64_t worker) {
    for (size_t i = 0; i < client->shape_count; i++) {
        machine_shape *shape = &client->shapes[i];
        for (size_t place = 0; place < REQUESTS; place++) {
            if (shape->tickets[place] != ticket) continue;
            shape->tickets[place] = 0;
            shape->requested--;
            MR_ASSERT(client->lease_count < MACHINE_LEASES_MAX);
            machine_lease *lease = &client->leases[client->lease_count++];
            *lease = (machine_lease){.id = id, .worker = worker, .shape = i};
            if (shape->cancelled[place]) sim_count(machine->sim, "grants that crossed", 1);
            use_lease(machine, client, lease);
            return;
        }
    }
    MR_UNREACHABLE();
}

static void go_on(machine *machine, machine_process *worker);

/* A job that this client waited for is done; if the client is a worker, its own job continues. */
static void job_done(machine *machine, machine_process *client, uint64_t id) {
    machine_lease *lease = lease_of(client, id);
    if (lease == NULL) return;
    lease->running = false;
    sim_count(machine->sim, "jobs", 1);
    bool resumes = client->is_worker;
    use_lease(machine, client, lease);
    if (resumes) go_on(machine, client);
}

/* The job of this worker waits for another job that will never run: it continues without that job. */
static void go_on_without(machine *machine, machine_process *client) {
    const machine_shape *shape = &client->shapes[0];
    if (client->blocked && shape->backlog + shape->requested == 0 && client->lease_count == 0) go_on(machine, client);
}

static void job_lost(machine *machine, machine_process *client, uint64_t id) {
    machine_lease *lease = lease_of(client, id);
    if (lease == NULL) return;
    client->shapes[lease->shape].backlog += lease->running;
    drop_lease(client, lease);
    ask_all(machine, client);
    go_on_without(machine, client);
}

static void refused(machine *machine, machine_process *client, uint64_t ticket) {
    for (size_t i = 0; i < client->shape_count; i++) {
        machine_shape *shape = &client->shapes[i];
        for (size_t place = 0; place < REQUESTS; place++) {
            if (shape->tickets[place] != ticket) continue;
            shape->tickets[place] = 0;
            shape->requested--;
            shape->backlog = 0;
        }
    }
    go_on_without(machine, client);
}

static void reclaimed(machine *machine, machine_process *client, uint64_t id) {
    machine_lease *lease = lease_of(client, id);
    if (lease == NULL) return; /* the lease was returned meanwhile */
    lease->reclaimed = true;
    if (!lease->running) use_lease(machine, client, lease);
}

/* ---- A worker. */

static void begin_job(machine *machine, machine_process *worker) {
    int64_t takes_us = rng_between(sim_rng(machine->sim), 1, machine->job_us);
    tell_after(machine, takes_us, (notice){.kind = TELL_STEP, .to = worker->id});
}

static void take_job(machine *machine, machine_process *worker, uint64_t owner, uint64_t lease) {
    if (lease == 0 && worker->job_count >= MACHINE_JOBS_MAX / 2) return; /* no process waits for an actor call */
    MR_ASSERT(worker->job_count < MACHINE_JOBS_MAX);
    worker->jobs[worker->job_count++] = (machine_job){owner, lease};
    if (worker->job_count == 1) begin_job(machine, worker);
}

static void end_job(machine *machine, machine_process *worker) {
    machine_job job = worker->jobs[0];
    memmove(worker->jobs, worker->jobs + 1, --worker->job_count * sizeof *worker->jobs);
    if (job.lease != 0 && machine_process_of(machine, job.owner)->alive)
        tell(machine, (notice){.kind = TELL_DONE, .to = job.owner, .a = job.lease});
    if (worker->job_count > 0) begin_job(machine, worker);
}

static const resources *draw_need(machine *machine) {
    /* a driver */
    const machine_process *other = &machine->processes[rng_below(sim_rng(machine->sim), machine->program_count)];
    return &other->shapes[rng_below(sim_rng(machine->sim), other->shape_count)].need;
}

/* Half of the job is done: the job ends, or needs another one first. */
static void step(machine *machine, machine_process *worker) {
    if (machine_alive_count(machine) >= MACHINE_ALIVE_MAX || !rng_chance(sim_rng(machine->sim), machine->nesting)) {
        end_job(machine, worker);
        return;
    }
    worker->shape_count = 1;
    worker->shapes[0] = (machine_shape){.need = *draw_need(machine), .backlog = 1};
    if (scheduler_impossible(machine->scheduler.scheduler, &worker->shapes[0].need) ||
        !has_group(machine, &worker->shapes[0].need)) {
        worker->shapes[0].backlog = 0;
        end_job(machine, worker);
        return;
    }
    sim_count(machine->sim, "nested", 1);
    worker->blocked = true;
    scheduler_checker_block(&machine->scheduler, worker->id, true);
    ask(machine, worker, 0);
}

static void go_on(machine *machine, machine_process *worker) {
    worker->blocked = false;
    scheduler_checker_block(&machine->scheduler, worker->id, false);
    end_job(machine, worker);
}

/* ---- The node. */

static void end_groups(machine *machine, const machine_process *owner) {
    for (machine_group *group = machine->groups; group < machine->groups + MACHINE_GROUPS_MAX; group++) {
        const checker_group *known = scheduler_checker_group(&machine->scheduler, group->id);
        if (known != NULL && group->owner == owner->id && !(group->detached && known->placed))
            machine_group_remove(machine, group);
    }
}

static void member_gone(machine *machine, machine_process *process) {
    process->joined = false;
    end_groups(machine, process);
    scheduler_checker_client_gone(&machine->scheduler, process->id);
    if (process->is_worker) scheduler_checker_worker_gone(&machine->scheduler, process->id);
    actor_checker_process_gone(&machine->actors, process->id);
    for (size_t i = 0; i < machine->process_count; i++) {
        machine_process *other = &machine->processes[i];
        for (size_t k = 0; k < other->lease_count && other->alive; k++)
            if (other->leases[k].worker == process->id)
                tell(machine, (notice){.kind = TELL_LOST, .to = other->id, .a = other->leases[k].id});
    }
}

static void spawned(machine *machine, uint32_t program) {
    machine_process *worker = process_add(machine, program, true);
    scheduler_checker_worker_add(&machine->scheduler, worker->id, program);
}

static void spawn(machine *machine, uint32_t program) {
    bool fails = machine->faulty && rng_chance(sim_rng(machine->sim), machine->spawn_failures);
    sim_count(machine->sim, fails ? "starts that failed" : "starts", 1);
    tell_after(machine, rng_between(sim_rng(machine->sim), 1, SPAWN_US),
               (notice){.kind = fails ? TELL_UNSPAWNED : TELL_SPAWNED, .a = program});
}

static void grant(machine *machine, const scheduler_decision *decision) {
    if (decision->client >= FIRST_PROCESS) {
        tell(machine, (notice){.kind = TELL_GRANTED,
                               .to = decision->client,
                               .a = decision->ticket,
                               .b = decision->lease,
                               .c = decision->worker});
        return;
    }
    node_actor *actor = node_actor_ticket(&machine->actors.book, decision->ticket);
    if (actor == NULL) {
        sim_violation(machine->sim, "a worker is granted to an actor that does not wait");
        return;
    }
    scheduler_checker_keep(&machine->scheduler, decision->client, decision->lease, &actor->need);
    actor_checker_granted(&machine->actors, decision->ticket, decision->worker);
}

void machine_decide(machine *machine) {
    scheduler_decision decision;
    while (scheduler_checker_next(&machine->scheduler, &decision)) {
        switch (decision.verb) {
        case SCHEDULER_GRANT: grant(machine, &decision); break;
        case SCHEDULER_SPAWN: spawn(machine, decision.program); break;
        case SCHEDULER_RECLAIM:
            sim_count(machine->sim, "reclaims", 1);
            tell(machine, (notice){.kind = TELL_RECLAIM, .to = decision.client, .a = decision.lease});
            break;
        case SCHEDULER_END:
            sim_count(machine->sim, "workers ended", 1);
            machine_end(machine, machine_process_of(machine, decision.worker));
            break;
        case SCHEDULER_PLACED: sim_count(machine->sim, "groups placed", 1); break;
        case SCHEDULER_REFUSE:
            sim_count(machine->sim, "refused", 1);
            if (decision.client >= FIRST_PROCESS)
                tell(machine, (notice){.kind = TELL_REFUSED, .to = decision.client, .a = decision.ticket});
            break;
        }
    }
    if (!sim_failed(machine->sim)) scheduler_checker_check_refused(&machine->scheduler);
}

/* ---- Placement groups. */

void machine_group_add(machine *machine, machine_process *driver, const resources *bundles, uint32_t count, bool apart,
                       bool detached) {
    for (machine_group *group = machine->groups; group < machine->groups + MACHINE_GROUPS_MAX; group++) {
        if (group->id != 0) continue;
        *group = (machine_group){.id = ++machine->next_group, .owner = driver->id, .detached = detached};
        scheduler_place place = {.client = driver->program, .ticket = machine->next_ticket++, .apart = apart};
        if (!scheduler_checker_group_add(&machine->scheduler, group->id, bundles, count, &place)) group->id = 0;
        break;
    }
    machine_decide(machine);
}

void machine_group_remove(machine *machine, machine_group *group) {
    if (group->id == 0) return;
    actor_checker_evict(&machine->actors, group->id);
    scheduler_checker_group_remove(&machine->scheduler, group->id);
    group->id = 0;
    machine_decide(machine);
}

void machine_use_group(machine *machine, machine_process *process, size_t index, const machine_group *group,
                       const resources *need) {
    machine_shape *shape = &process->shapes[index];
    if (group->id == 0 || shape->backlog + shape->requested > 0) return;
    shape->need = *need;
    shape->need.group = group->id;
}

static uint64_t actor_request(void *context, node_actor *actor) {
    machine *machine = context;
    uint64_t ticket = machine->next_ticket++;
    uint32_t program = machine->actors.entries[actor_checker_index(actor->id)].program;
    scheduler_checker_request(&machine->scheduler, program, ticket, &actor->need);
    return ticket;
}

static void actor_forget(void *context, node_actor *actor, uint64_t ticket) {
    machine *machine = context;
    for (uint32_t program = 1; program <= machine->program_count; program++)
        if (scheduler_checker_waits(&machine->scheduler, program, ticket))
            scheduler_checker_cancel(&machine->scheduler, program, ticket);
}

static void actor_start(void *context, node_actor *actor) {
    machine *machine = context;
    bool fails = rng_chance(sim_rng(machine->sim), machine->creation_failures);
    notice notice = {.kind = fails ? TELL_UNCREATED : TELL_CREATED,
                     .to = actor->process,
                     .a = actor_checker_index(actor->id),
                     .b = actor->starts,
                     .c = machine->faulty && rng_chance(sim_rng(machine->sim), 0.5)}; /* even if it is dead by then */
    tell_after(machine, rng_between(sim_rng(machine->sim), 1, SPAWN_US), notice);
}

static void actor_kill(void *context, uint64_t process) {
    machine *machine = context;
    machine_end(machine, machine_process_of(machine, process));
}

static void actor_tell(void *context, rpc_call_token token, node_actor *actor) {
    sim_count(((machine *)context)->sim, "told", 1);
}

static void actor_died(void *context, node_actor *actor) {
    sim_count(((machine *)context)->sim, "deaths of actors", 1);
}

static const node_actor_ops actor_ops = {.request = actor_request,
                                         .forget = actor_forget,
                                         .start = actor_start,
                                         .kill = actor_kill,
                                         .dismiss = actor_kill, /* the process ends at once */
                                         .tell = actor_tell,
                                         .died = actor_died}; /* no arguments that hold resources */

void machine_call_actor(machine *machine, size_t index) {
    const actor_entry *entry = &machine->actors.entries[index];
    if (entry->state == NODE_ACTOR_ALIVE) tell(machine, (notice){.kind = TELL_JOB, .to = entry->process});
}

/* ---- Receiving. */

static void at_node(machine *machine, const notice *notice) {
    switch (notice->kind) {
    case TELL_DEATH: member_gone(machine, machine_process_of(machine, notice->to)); break;
    case TELL_SPAWNED: spawned(machine, (uint32_t)notice->a); break;
    case TELL_UNSPAWNED: scheduler_checker_spawn_failed(&machine->scheduler, (uint32_t)notice->a); break;
    case TELL_CREATED:
    case TELL_UNCREATED:
        if (machine_process_of(machine, notice->to)->alive || notice->c != 0)
            actor_checker_created(&machine->actors, (size_t)notice->a, (uint32_t)notice->b,
                                  notice->kind == TELL_UNCREATED);
        break;
    default: MR_UNREACHABLE();
    }
}

static void at_process(machine *machine, machine_process *to, const notice *notice) {
    switch (notice->kind) {
    case TELL_GRANTED: granted(machine, to, notice->a, notice->b, notice->c); break;
    case TELL_RECLAIM: reclaimed(machine, to, notice->a); break;
    case TELL_DONE: job_done(machine, to, notice->a); break;
    case TELL_LOST: job_lost(machine, to, notice->a); break;
    case TELL_REFUSED: refused(machine, to, notice->a); break;
    case TELL_JOB: take_job(machine, to, notice->a, notice->b); break;
    case TELL_STEP: step(machine, to); break;
    default: MR_UNREACHABLE();
    }
}

/* A job for a dead worker is lost, and its owner is notified. */
static void at_nobody(machine *machine, const notice *notice) {
    if (notice->kind == TELL_JOB && notice->b != 0 && machine_process_of(machine, notice->a)->alive)
        tell(machine, (struct notice){.kind = TELL_LOST, .to = notice->a, .a = notice->b});
}

static void arrive(void *context, uint64_t unused) {
    notice *notice = context;
    machine *machine = notice->machine;
    sim_trace_record(sim_get_trace(machine->sim), sim_now_us(machine->sim), (uint32_t)notice->to, SIM_TRACE_NOTE,
                     (uint64_t)notice->kind, notice->a);
    if (notice->kind >= TELL_DEATH)
        at_node(machine, notice);
    else if (machine_process_of(machine, notice->to)->alive)
        at_process(machine, machine_process_of(machine, notice->to), notice);
    else
        at_nobody(machine, notice);
    list_remove(&notice->place);
    free(notice);
    machine_decide(machine);
}

/* ---- Creating and destroying. */

void machine_init(machine *machine, sim *sim, const resources *total, uint32_t prestart, uint32_t program_count) {
    *machine = (struct machine){.sim = sim, .total = *total, .program_count = program_count, .next_ticket = 1};
    list_init(&machine->notices);
    machine->processes = xcalloc(MACHINE_PROCESSES_MAX, sizeof *machine->processes);
    scheduler_checker_init(&machine->scheduler, sim, total, prestart);
    actor_checker_init(&machine->actors, sim, &actor_ops, machine);
    for (uint32_t program = 1; program <= program_count; program++)
        scheduler_checker_client_add(&machine->scheduler, program, program);
}

void machine_fini(machine *machine) {
    actor_checker_fini(&machine->actors);
    scheduler_checker_fini(&machine->scheduler);
    for (list *at; (at = list_pop_front(&machine->notices)) != NULL;) free(container_of(at, notice, place));
    free(machine->processes);
}

bool machine_is_at_rest(const machine *machine, char *why, size_t size) {
    if (machine->scheduler.request_count != 0) return snprintf(why, size, "a request waits"), false;
    for (size_t i = 0; i < machine->process_count; i++) {
        const machine_process *process = &machine->processes[i];
        if (!process->alive && process->joined)
            return snprintf(why, size, "the node does not know that process %" PRIu64 " is gone", process->id), false;
        if (!process->alive) continue;
        uint32_t work = 0;
        for (size_t k = 0; k < process->shape_count; k++)
            work += process->shapes[k].backlog + process->shapes[k].requested;
        if (process->lease_count + process->job_count + work == 0) continue;
        snprintf(why, size, "process %" PRIu64 " has %zu leases, %zu jobs, %u to do", process->id, process->lease_count,
                 process->job_count, work);
        return false;
    }
    return true;
}
