/* scheduler_host.c — see scheduler_host.h. */
#include "sim/runtime/scheduler_host.h"

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
    TELL_STEP,      /* a worker: what it runs goes on */
    TELL_DEATH,     /* the node: process */
    TELL_SPAWNED,   /* the node: program */
    TELL_UNSPAWNED, /* the node: program */
    TELL_CREATED,   /* the node: actor, start, whether it was said before the process died */
    TELL_UNCREATED,
} tell_kind;

typedef struct tale { /* something on its way to somebody */
    list place;
    host *host;
    tell_kind kind;
    uint64_t to, a, b, c;
} tale;

static void arrive(void *context, uint64_t unused);

static void tell_after(host *host, int64_t delay_us, tale what) {
    tale *sent = xmalloc(sizeof *sent);
    *sent = what;
    sent->host = host;
    list_push_back(&host->tales, &sent->place);
    sim_after(host->sim, delay_us, arrive, sent, 0);
}

/* To a process: in order. */
static void tell(host *host, tale what) {
    host_process *to = host_process_of(host, what.to);
    int64_t now_us = sim_now_us(host->sim), at_us = now_us + rng_between(sim_rng(host->sim), 1, TELL_US);
    if (at_us <= to->told_us) at_us = to->told_us + 1;
    to->told_us = at_us;
    tell_after(host, at_us - now_us, what);
}

/* ---- Processes. */

host_process *host_process_of(host *host, uint64_t id) {
    MR_ASSERT(id >= FIRST_PROCESS && id - FIRST_PROCESS < host->process_count);
    return &host->processes[id - FIRST_PROCESS];
}

static host_process *process_add(host *host, uint32_t program, bool is_worker) {
    MR_ASSERT(host->process_count < HOST_PROCESSES_MAX);
    host_process *process = &host->processes[host->process_count++];
    *process = (host_process){.id = FIRST_PROCESS + host->process_count - 1,
                              .program = program,
                              .alive = true,
                              .joined = true,
                              .is_worker = is_worker};
    scheduler_ledger_client_add(&host->scheduler, process->id, program);
    return process;
}

host_process *host_driver(host *host, uint32_t program) { return process_add(host, program, false); }

size_t host_alive_count(const host *host) {
    size_t count = 0;
    for (size_t i = 0; i < host->process_count; i++) count += host->processes[i].alive;
    return count;
}

void host_end(host *host, host_process *process) {
    if (!process->alive) return;
    process->alive = false;
    sim_note(host->sim, NULL, "process %" PRIu64 " ends", process->id);
    sim_count(host->sim, process->is_worker ? "workers lost" : "drivers lost", 1);
    tell_after(host, rng_between(sim_rng(host->sim), 1, 2 * TELL_US), (tale){.kind = TELL_DEATH, .to = process->id});
}

/* ---- A client. */

static bool has_group(const host *host, const resources *need) {
    return need->group == 0 || scheduler_group_fits(host->scheduler.scheduler, need) == MR_OK;
}

static void ask(host *host, host_process *client, size_t index) {
    host_shape *shape = &client->shapes[index];
    if (!has_group(host, &shape->need)) shape->backlog = 0; /* whoever waits for it is told */
    while (shape->requested < REQUESTS && shape->requested < shape->backlog &&
           client->lease_count + shape->requested < LEASES_WANTED) {
        size_t place = 0;
        while (shape->tickets[place] != 0) place++;
        shape->tickets[place] = host->next_ticket++;
        shape->cancelled[place] = false;
        shape->requested++;
        scheduler_ledger_request(&host->scheduler, client->id, shape->tickets[place], &shape->need);
    }
}

static void ask_all(host *host, host_process *client) {
    for (size_t i = 0; i < client->shape_count; i++) ask(host, client, i);
}

void host_add_work(host *host, host_process *process, size_t shape, uint32_t count) {
    process->shapes[shape].backlog += count;
    ask_all(host, process);
    host_decide(host);
}

void host_drop_work(host *host, host_process *process) {
    for (size_t i = 0; i < process->shape_count; i++) {
        host_shape *shape = &process->shapes[i];
        shape->backlog = 0;
        for (size_t place = 0; place < REQUESTS; place++) {
            if (shape->tickets[place] == 0 || shape->cancelled[place]) continue;
            if (scheduler_ledger_waits(&host->scheduler, process->id, shape->tickets[place])) {
                scheduler_ledger_cancel(&host->scheduler, process->id, shape->tickets[place]);
                shape->tickets[place] = 0;
                shape->requested--;
            } else { /* the grant is on its way */
                scheduler_ledger_cancel(&host->scheduler, process->id, shape->tickets[place]);
                shape->cancelled[place] = true;
            }
        }
    }
    host_decide(host);
}

static host_lease *lease_of(host_process *client, uint64_t id) {
    for (size_t i = 0; i < client->lease_count; i++)
        if (client->leases[i].id == id) return &client->leases[i];
    return NULL;
}

static void drop_lease(host_process *client, host_lease *lease) { *lease = client->leases[--client->lease_count]; }

static void give_back(host *host, host_process *client, host_lease *lease) {
    bool keep = !host->faulty || !rng_chance(sim_rng(host->sim), 0.05);
    scheduler_ledger_release(&host->scheduler, client->id, lease->id, keep);
    drop_lease(client, lease);
}

/* The lease gets the next job, or goes back. */
static void use_lease(host *host, host_process *client, host_lease *lease) {
    host_shape *shape = &client->shapes[lease->shape];
    if (shape->backlog == 0 || lease->reclaimed) {
        give_back(host, client, lease);
        ask_all(host, client);
        return;
    }
    shape->backlog--;
    lease->running = true;
    tell(host, (tale){.kind = TELL_JOB, .to = lease->worker, .a = client->id, .b = lease->id});
}

static void granted(host *host, host_process *client, uint64_t ticket, uint64_t id, uint64_t worker) {
    for (size_t i = 0; i < client->shape_count; i++) {
        host_shape *shape = &client->shapes[i];
        for (size_t place = 0; place < REQUESTS; place++) {
            if (shape->tickets[place] != ticket) continue;
            shape->tickets[place] = 0;
            shape->requested--;
            MR_ASSERT(client->lease_count < HOST_LEASES_MAX);
            host_lease *lease = &client->leases[client->lease_count++];
            *lease = (host_lease){.id = id, .worker = worker, .shape = i};
            if (shape->cancelled[place]) sim_count(host->sim, "grants that crossed", 1);
            use_lease(host, client, lease);
            return;
        }
    }
    MR_UNREACHABLE();
}

static void go_on(host *host, host_process *worker);

/* A job that this client waited for is done; what a worker waited for lets its own job go on. */
static void job_done(host *host, host_process *client, uint64_t id) {
    host_lease *lease = lease_of(client, id);
    if (lease == NULL) return;
    lease->running = false;
    sim_count(host->sim, "jobs", 1);
    bool resumes = client->is_worker;
    use_lease(host, client, lease);
    if (resumes) go_on(host, client);
}

/* A worker whose job waits for another one that will never run. */
static void go_on_without(host *host, host_process *client) {
    const host_shape *shape = &client->shapes[0];
    if (client->blocked && shape->backlog + shape->requested == 0 && client->lease_count == 0) go_on(host, client);
}

static void job_lost(host *host, host_process *client, uint64_t id) {
    host_lease *lease = lease_of(client, id);
    if (lease == NULL) return;
    client->shapes[lease->shape].backlog += lease->running;
    drop_lease(client, lease);
    ask_all(host, client);
    go_on_without(host, client);
}

static void refused(host *host, host_process *client, uint64_t ticket) {
    for (size_t i = 0; i < client->shape_count; i++) {
        host_shape *shape = &client->shapes[i];
        for (size_t place = 0; place < REQUESTS; place++) {
            if (shape->tickets[place] != ticket) continue;
            shape->tickets[place] = 0;
            shape->requested--;
            shape->backlog = 0;
        }
    }
    go_on_without(host, client);
}

static void reclaimed(host *host, host_process *client, uint64_t id) {
    host_lease *lease = lease_of(client, id);
    if (lease == NULL) return; /* it went back meanwhile */
    lease->reclaimed = true;
    if (!lease->running) use_lease(host, client, lease);
}

/* ---- A worker. */

static void begin_job(host *host, host_process *worker) {
    int64_t takes_us = rng_between(sim_rng(host->sim), 1, host->job_us);
    tell_after(host, takes_us, (tale){.kind = TELL_STEP, .to = worker->id});
}

static void take_job(host *host, host_process *worker, uint64_t owner, uint64_t lease) {
    if (lease == 0 && worker->job_count >= HOST_JOBS_MAX / 2) return; /* nobody waits for a call to an actor */
    MR_ASSERT(worker->job_count < HOST_JOBS_MAX);
    worker->jobs[worker->job_count++] = (host_job){owner, lease};
    if (worker->job_count == 1) begin_job(host, worker);
}

static void end_job(host *host, host_process *worker) {
    host_job job = worker->jobs[0];
    memmove(worker->jobs, worker->jobs + 1, --worker->job_count * sizeof *worker->jobs);
    if (job.lease != 0 && host_process_of(host, job.owner)->alive)
        tell(host, (tale){.kind = TELL_DONE, .to = job.owner, .a = job.lease});
    if (worker->job_count > 0) begin_job(host, worker);
}

static const resources *draw_need(host *host) {
    const host_process *other = &host->processes[rng_below(sim_rng(host->sim), host->program_count)]; /* a driver */
    return &other->shapes[rng_below(sim_rng(host->sim), other->shape_count)].need;
}

/* Half way: the job ends, or needs another one first. */
static void step(host *host, host_process *worker) {
    if (host_alive_count(host) >= HOST_ALIVE_MAX || !rng_chance(sim_rng(host->sim), host->nesting)) {
        end_job(host, worker);
        return;
    }
    worker->shape_count = 1;
    worker->shapes[0] = (host_shape){.need = *draw_need(host), .backlog = 1};
    if (scheduler_impossible(host->scheduler.scheduler, &worker->shapes[0].need) ||
        !has_group(host, &worker->shapes[0].need)) {
        worker->shapes[0].backlog = 0;
        end_job(host, worker);
        return;
    }
    sim_count(host->sim, "nested", 1);
    worker->blocked = true;
    scheduler_ledger_block(&host->scheduler, worker->id, true);
    ask(host, worker, 0);
}

static void go_on(host *host, host_process *worker) {
    worker->blocked = false;
    scheduler_ledger_block(&host->scheduler, worker->id, false);
    end_job(host, worker);
}

/* ---- The node. */

static void end_groups(host *host, const host_process *owner) {
    for (host_group *group = host->groups; group < host->groups + HOST_GROUPS_MAX; group++) {
        const ledger_group *known = scheduler_ledger_group(&host->scheduler, group->id);
        if (known != NULL && group->owner == owner->id && !(group->detached && known->placed))
            host_group_remove(host, group);
    }
}

static void member_gone(host *host, host_process *process) {
    process->joined = false;
    end_groups(host, process);
    scheduler_ledger_client_gone(&host->scheduler, process->id);
    if (process->is_worker) scheduler_ledger_worker_gone(&host->scheduler, process->id);
    actor_ledger_process_gone(&host->actors, process->id);
    for (size_t i = 0; i < host->process_count; i++) {
        host_process *other = &host->processes[i];
        for (size_t k = 0; k < other->lease_count && other->alive; k++)
            if (other->leases[k].worker == process->id)
                tell(host, (tale){.kind = TELL_LOST, .to = other->id, .a = other->leases[k].id});
    }
}

static void spawned(host *host, uint32_t program) {
    host_process *worker = process_add(host, program, true);
    scheduler_ledger_worker_add(&host->scheduler, worker->id, program);
}

static void spawn(host *host, uint32_t program) {
    bool fails = host->faulty && rng_chance(sim_rng(host->sim), host->spawn_failures);
    sim_count(host->sim, fails ? "starts that failed" : "starts", 1);
    tell_after(host, rng_between(sim_rng(host->sim), 1, SPAWN_US),
               (tale){.kind = fails ? TELL_UNSPAWNED : TELL_SPAWNED, .a = program});
}

static void grant(host *host, const scheduler_decision *decision) {
    if (decision->client >= FIRST_PROCESS) {
        tell(host, (tale){.kind = TELL_GRANTED,
                          .to = decision->client,
                          .a = decision->ticket,
                          .b = decision->lease,
                          .c = decision->worker});
        return;
    }
    node_actor *actor = node_actor_ticket(&host->actors.book, decision->ticket);
    if (actor == NULL) {
        sim_violation(host->sim, "a worker is granted to an actor that does not wait");
        return;
    }
    scheduler_ledger_keep(&host->scheduler, decision->client, decision->lease, &actor->need);
    actor_ledger_granted(&host->actors, decision->ticket, decision->worker);
}

void host_decide(host *host) {
    scheduler_decision decision;
    while (scheduler_ledger_next(&host->scheduler, &decision)) {
        switch (decision.verb) {
        case SCHEDULER_GRANT: grant(host, &decision); break;
        case SCHEDULER_SPAWN: spawn(host, decision.program); break;
        case SCHEDULER_RECLAIM:
            sim_count(host->sim, "reclaims", 1);
            tell(host, (tale){.kind = TELL_RECLAIM, .to = decision.client, .a = decision.lease});
            break;
        case SCHEDULER_END:
            sim_count(host->sim, "workers ended", 1);
            host_end(host, host_process_of(host, decision.worker));
            break;
        case SCHEDULER_PLACED: sim_count(host->sim, "groups placed", 1); break;
        case SCHEDULER_REFUSE:
            sim_count(host->sim, "refused", 1);
            if (decision.client >= FIRST_PROCESS)
                tell(host, (tale){.kind = TELL_REFUSED, .to = decision.client, .a = decision.ticket});
            break;
        }
    }
    if (!sim_failed(host->sim)) scheduler_ledger_check_refused(&host->scheduler);
}

/* ---- Groups. */

void host_group_add(host *host, host_process *driver, const resources *bundles, uint32_t count, bool apart,
                    bool detached) {
    for (host_group *group = host->groups; group < host->groups + HOST_GROUPS_MAX; group++) {
        if (group->id != 0) continue;
        *group = (host_group){.id = ++host->next_group, .owner = driver->id, .detached = detached};
        scheduler_place place = {.client = driver->program, .ticket = host->next_ticket++, .apart = apart};
        if (!scheduler_ledger_group_add(&host->scheduler, group->id, bundles, count, &place)) group->id = 0;
        break;
    }
    host_decide(host);
}

void host_group_remove(host *host, host_group *group) {
    if (group->id == 0) return;
    actor_ledger_evict(&host->actors, group->id);
    scheduler_ledger_group_remove(&host->scheduler, group->id);
    group->id = 0;
    host_decide(host);
}

void host_use_group(host *host, host_process *process, size_t index, const host_group *group, const resources *need) {
    host_shape *shape = &process->shapes[index];
    if (group->id == 0 || shape->backlog + shape->requested > 0) return;
    shape->need = *need;
    shape->need.group = group->id;
}

static uint64_t actor_request(void *context, node_actor *actor) {
    host *host = context;
    uint64_t ticket = host->next_ticket++;
    uint32_t program = host->actors.entries[actor_ledger_index(actor->id)].program;
    scheduler_ledger_request(&host->scheduler, program, ticket, &actor->need);
    return ticket;
}

static void actor_forget(void *context, node_actor *actor, uint64_t ticket) {
    host *host = context;
    for (uint32_t program = 1; program <= host->program_count; program++)
        if (scheduler_ledger_waits(&host->scheduler, program, ticket))
            scheduler_ledger_cancel(&host->scheduler, program, ticket);
}

static void actor_start(void *context, node_actor *actor) {
    host *host = context;
    bool fails = rng_chance(sim_rng(host->sim), host->creation_failures);
    tale tale = {.kind = fails ? TELL_UNCREATED : TELL_CREATED,
                 .to = actor->process,
                 .a = actor_ledger_index(actor->id),
                 .b = actor->starts,
                 .c = host->faulty && rng_chance(sim_rng(host->sim), 0.5)}; /* even if it is dead by then */
    tell_after(host, rng_between(sim_rng(host->sim), 1, SPAWN_US), tale);
}

static void actor_kill(void *context, uint64_t process) {
    host *host = context;
    host_end(host, host_process_of(host, process));
}

static void actor_tell(void *context, call_token token, node_actor *actor) {
    sim_count(((host *)context)->sim, "told", 1);
}

static void actor_died(void *context, node_actor *actor) { sim_count(((host *)context)->sim, "deaths of actors", 1); }

static const node_actor_ops actor_ops = {.request = actor_request,
                                         .forget = actor_forget,
                                         .start = actor_start,
                                         .kill = actor_kill,
                                         .dismiss = actor_kill, /* and it goes at once */
                                         .tell = actor_tell,
                                         .died = actor_died}; /* no arguments that need anything */

void host_call_actor(host *host, size_t index) {
    const actor_entry *entry = &host->actors.entries[index];
    if (entry->state == NODE_ACTOR_ALIVE) tell(host, (tale){.kind = TELL_JOB, .to = entry->process});
}

/* ---- What arrives. */

static void at_node(host *host, const tale *tale) {
    switch (tale->kind) {
    case TELL_DEATH: member_gone(host, host_process_of(host, tale->to)); break;
    case TELL_SPAWNED: spawned(host, (uint32_t)tale->a); break;
    case TELL_UNSPAWNED: scheduler_ledger_spawn_failed(&host->scheduler, (uint32_t)tale->a); break;
    case TELL_CREATED:
    case TELL_UNCREATED:
        if (host_process_of(host, tale->to)->alive || tale->c != 0)
            actor_ledger_created(&host->actors, (size_t)tale->a, (uint32_t)tale->b, tale->kind == TELL_UNCREATED);
        break;
    default: MR_UNREACHABLE();
    }
}

static void at_process(host *host, host_process *to, const tale *tale) {
    switch (tale->kind) {
    case TELL_GRANTED: granted(host, to, tale->a, tale->b, tale->c); break;
    case TELL_RECLAIM: reclaimed(host, to, tale->a); break;
    case TELL_DONE: job_done(host, to, tale->a); break;
    case TELL_LOST: job_lost(host, to, tale->a); break;
    case TELL_REFUSED: refused(host, to, tale->a); break;
    case TELL_JOB: take_job(host, to, tale->a, tale->b); break;
    case TELL_STEP: step(host, to); break;
    default: MR_UNREACHABLE();
    }
}

/* A job for a worker that is dead is lost, and its owner learns it. */
static void at_nobody(host *host, const tale *tale) {
    if (tale->kind == TELL_JOB && tale->b != 0 && host_process_of(host, tale->a)->alive)
        tell(host, (struct tale){.kind = TELL_LOST, .to = tale->a, .a = tale->b});
}

static void arrive(void *context, uint64_t unused) {
    tale *tale = context;
    host *host = tale->host;
    journal_record(sim_journal(host->sim), sim_now_us(host->sim), (uint32_t)tale->to, JOURNAL_NOTE,
                   (uint64_t)tale->kind, tale->a);
    if (tale->kind >= TELL_DEATH)
        at_node(host, tale);
    else if (host_process_of(host, tale->to)->alive)
        at_process(host, host_process_of(host, tale->to), tale);
    else
        at_nobody(host, tale);
    list_remove(&tale->place);
    free(tale);
    host_decide(host);
}

/* ---- Life. */

void host_init(host *host, sim *sim, const resources *total, uint32_t prestart, uint32_t program_count) {
    *host = (struct host){.sim = sim, .total = *total, .program_count = program_count, .next_ticket = 1};
    list_init(&host->tales);
    host->processes = xcalloc(HOST_PROCESSES_MAX, sizeof *host->processes);
    scheduler_ledger_init(&host->scheduler, sim, total, prestart);
    actor_ledger_init(&host->actors, sim, &actor_ops, host);
    for (uint32_t program = 1; program <= program_count; program++)
        scheduler_ledger_client_add(&host->scheduler, program, program);
}

void host_fini(host *host) {
    actor_ledger_fini(&host->actors);
    scheduler_ledger_fini(&host->scheduler);
    for (list *at; (at = list_pop_front(&host->tales)) != NULL;) free(container_of(at, tale, place));
    free(host->processes);
}

bool host_is_at_rest(const host *host, char *why, size_t size) {
    if (host->scheduler.request_count != 0) return snprintf(why, size, "a request waits"), false;
    for (size_t i = 0; i < host->process_count; i++) {
        const host_process *process = &host->processes[i];
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
