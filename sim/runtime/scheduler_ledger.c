/* scheduler_ledger.c — see scheduler_ledger.h. */
#include "sim/runtime/scheduler_ledger.h"

#include <inttypes.h>
#include <string.h>

#include "base/assert.h"

void scheduler_ledger_init(scheduler_ledger *ledger, sim *sim, const resources *total, uint32_t prestart) {
    *ledger = (scheduler_ledger){
        .sim = sim, .scheduler = scheduler_create(total, prestart), .total = *total, .prestart = prestart};
}

void scheduler_ledger_fini(scheduler_ledger *ledger) { scheduler_destroy(ledger->scheduler); }

/* ---- Finding. */

static ledger_client *client_of(scheduler_ledger *ledger, uint64_t id) {
    for (size_t i = 0; i < ledger->client_count; i++)
        if (ledger->clients[i].id == id) return &ledger->clients[i];
    MR_UNREACHABLE();
}

static ledger_worker *worker_of(scheduler_ledger *ledger, uint64_t id) {
    for (size_t i = 0; i < ledger->worker_count; i++)
        if (ledger->workers[i].id == id) return &ledger->workers[i];
    return NULL;
}

static ledger_worker *leased(scheduler_ledger *ledger, uint64_t client, uint64_t lease) {
    for (size_t i = 0; i < ledger->worker_count; i++)
        if (ledger->workers[i].lease == lease && ledger->workers[i].client == client) return &ledger->workers[i];
    return NULL;
}

static ledger_request *request_of(scheduler_ledger *ledger, uint64_t client, uint64_t ticket) {
    for (size_t i = 0; i < ledger->request_count; i++)
        if (ledger->requests[i].client == client && ledger->requests[i].ticket == ticket) return &ledger->requests[i];
    return NULL;
}

const ledger_worker *scheduler_ledger_worker(const scheduler_ledger *ledger, uint64_t worker) {
    return worker_of((scheduler_ledger *)(uintptr_t)ledger, worker);
}

bool scheduler_ledger_waits(const scheduler_ledger *ledger, uint64_t client, uint64_t ticket) {
    return request_of((scheduler_ledger *)(uintptr_t)ledger, client, ticket) != NULL;
}

static bool is_idle(const ledger_worker *worker) {
    return worker->lease == 0 && !worker->kept && !worker->blocked && !worker->spent;
}

static uint32_t idle_count(const scheduler_ledger *ledger, uint32_t program) {
    uint32_t count = 0;
    for (size_t i = 0; i < ledger->worker_count; i++)
        count += ledger->workers[i].program == program && is_idle(&ledger->workers[i]);
    return count;
}

static ledger_group *group_of(scheduler_ledger *ledger, uint64_t id) {
    for (size_t i = 0; i < LEDGER_GROUPS_MAX; i++)
        if (ledger->groups[i].id == id && id != 0) return &ledger->groups[i];
    return NULL;
}

const ledger_group *scheduler_ledger_group(const scheduler_ledger *ledger, uint64_t group) {
    return group_of((scheduler_ledger *)(uintptr_t)ledger, group);
}

static bool is_the_machines(const ledger_request *request) { return request->need.group == 0; }

/* Of what the machine has besides groups. */
static bool takes_of(const ledger_worker *worker, const resources *need) {
    if (worker->need.group != 0) return false;
    for (uint32_t k = 0; k < need->count && worker->lease != 0 && !worker->blocked; k++)
        if (resources_milli(&worker->need, need->items[k].name) > 0) return true;
    return false;
}

/* How many leases the client has that take of what is needed. */
static uint32_t share_of(const scheduler_ledger *ledger, uint64_t client, const resources *need) {
    uint32_t count = 0;
    for (size_t i = 0; i < ledger->worker_count; i++)
        count += ledger->workers[i].client == client && takes_of(&ledger->workers[i], need);
    return count;
}

/* The same of all clients of a program, whose workers they have. */
static uint32_t program_share_of(const scheduler_ledger *ledger, uint32_t program, const resources *need) {
    uint32_t count = 0;
    for (size_t i = 0; i < ledger->worker_count; i++)
        count += ledger->workers[i].program == program && takes_of(&ledger->workers[i], need);
    return count;
}

/* Whether it could be met at all. */
static bool can_be_met(const scheduler_ledger *ledger, const ledger_request *request) {
    const ledger_group *group = scheduler_ledger_group(ledger, request->places);
    return group == NULL || !group->never;
}

static void drop_request(scheduler_ledger *ledger, ledger_request *request) {
    size_t at = (size_t)(request - ledger->requests);
    memmove(request, request + 1, (--ledger->request_count - at) * sizeof *request);
}

static void end_lease(ledger_worker *worker) {
    worker->lease = worker->client = 0;
    worker->asked = false;
    worker->need = (resources){0};
}

static void drop_worker(scheduler_ledger *ledger, ledger_worker *worker) {
    *worker = ledger->workers[--ledger->worker_count];
}

/* ---- The books against what the scheduler shows. */

static bool has_something(const ledger_worker *worker) { return worker->lease != 0 || worker->kept; }

static resources free_now(const scheduler_ledger *ledger, bool beside_actors) {
    resources left = ledger->total;
    for (size_t i = 0; i < ledger->worker_count; i++) {
        const ledger_worker *worker = &ledger->workers[i];
        bool takes = beside_actors ? worker->kept : has_something(worker) && !worker->blocked;
        if (takes && worker->need.group == 0) resources_take(&left, &worker->need);
    }
    for (const ledger_group *group = ledger->groups; group < ledger->groups + LEDGER_GROUPS_MAX; group++)
        for (uint32_t i = 0; group->id != 0 && group->placed && i < group->count; i++)
            resources_take(&left, &group->bundles[i]);
    return left;
}

static resources free_in(const scheduler_ledger *ledger, const ledger_group *group, uint32_t bundle) {
    resources left = group->bundles[bundle];
    for (size_t i = 0; i < ledger->worker_count; i++) {
        const ledger_worker *worker = &ledger->workers[i];
        if (has_something(worker) && !worker->blocked && worker->need.group == group->id &&
            worker->need.bundle == bundle + 1)
            resources_take(&left, &worker->need);
    }
    return left;
}

/* The bundle that it is met from, counted from 1; 0: none has room. */
static uint32_t bundle_for(const scheduler_ledger *ledger, const resources *need) {
    const ledger_group *group = scheduler_ledger_group(ledger, need->group);
    for (uint32_t i = 0; group != NULL && group->placed && i < group->count; i++) {
        resources left = free_in(ledger, group, i);
        if ((need->bundle == 0 || need->bundle == i + 1) && resources_fit(need, &left)) return i + 1;
    }
    return 0;
}

static void check_counts(scheduler_ledger *ledger, const scheduler_stats *stats) {
    uint32_t idle = 0, leases = 0, starting = 0;
    for (size_t i = 0; i < ledger->worker_count; i++) {
        idle += is_idle(&ledger->workers[i]);
        leases += ledger->workers[i].lease != 0;
    }
    for (size_t i = 0; i < LEDGER_PROGRAMS_MAX; i++) starting += ledger->starting[i];
    if (stats->clients != ledger->client_count)
        sim_violation(ledger->sim, "%u clients, but %zu are there", stats->clients, ledger->client_count);
    if (stats->workers != ledger->worker_count)
        sim_violation(ledger->sim, "%u workers, but %zu are there", stats->workers, ledger->worker_count);
    if (stats->leases != leases) sim_violation(ledger->sim, "%u leases, but there are %u", stats->leases, leases);
    if (stats->idle != idle) sim_violation(ledger->sim, "%u idle workers, but there are %u", stats->idle, idle);
    if (stats->waiting != ledger->request_count)
        sim_violation(ledger->sim, "%u requests wait, but it should be %zu", stats->waiting, ledger->request_count);
    if (stats->starting != starting)
        sim_violation(ledger->sim, "%u workers start, but it should be %u", stats->starting, starting);
}

static void check(scheduler_ledger *ledger) {
    scheduler_stats stats = scheduler_stats_now(ledger->scheduler);
    check_counts(ledger, &stats);
    resources left = free_now(ledger, false);
    for (uint32_t i = 0; i < ledger->total.count; i++) {
        const resource *kind = &ledger->total.items[i];
        int64_t is = resources_milli(&stats.free, kind->name), be = resources_milli(&left, kind->name);
        if (is != be || is > kind->milli)
            sim_violation(ledger->sim, "%" PRId64 " thousandths of %s are free, of %" PRId64 "; it should be %" PRId64,
                          is, kind->name, kind->milli, be);
    }
    if (!sim_failed(ledger->sim)) scheduler_check(ledger->scheduler);
}

/* ---- Events. */

void scheduler_ledger_client_add(scheduler_ledger *ledger, uint64_t client, uint32_t program) {
    MR_ASSERT(ledger->client_count < LEDGER_CLIENTS_MAX && program < LEDGER_PROGRAMS_MAX);
    ledger->clients[ledger->client_count++] = (ledger_client){client, program};
    scheduler_client_add(ledger->scheduler, client, program);
    check(ledger);
}

void scheduler_ledger_client_gone(scheduler_ledger *ledger, uint64_t id) {
    ledger_client *client = client_of(ledger, id);
    *client = ledger->clients[--ledger->client_count];
    for (size_t i = ledger->request_count; i-- > 0;)
        if (ledger->requests[i].client == id) drop_request(ledger, &ledger->requests[i]);
    for (size_t i = ledger->refused_count; i-- > 0;)
        if (ledger->refused[i].client == id) ledger->refused[i] = ledger->refused[--ledger->refused_count];
    for (size_t i = 0; i < ledger->worker_count; i++) {
        if (ledger->workers[i].lease == 0 || ledger->workers[i].client != id) continue;
        end_lease(&ledger->workers[i]);
        ledger->workers[i].spent = true;
    }
    scheduler_client_gone(ledger->scheduler, id);
    check(ledger);
}

void scheduler_ledger_worker_add(scheduler_ledger *ledger, uint64_t worker, uint32_t program) {
    MR_ASSERT(ledger->worker_count < LEDGER_WORKERS_MAX && ledger->starting[program] > 0);
    ledger->starting[program]--;
    ledger->workers[ledger->worker_count++] = (ledger_worker){.id = worker, .program = program};
    scheduler_worker_add(ledger->scheduler, worker, program);
    check(ledger);
}

void scheduler_ledger_worker_gone(scheduler_ledger *ledger, uint64_t id) {
    ledger_worker *worker = worker_of(ledger, id);
    if (worker != NULL) drop_worker(ledger, worker);
    scheduler_worker_gone(ledger->scheduler, id);
    check(ledger);
}

void scheduler_ledger_spawn_failed(scheduler_ledger *ledger, uint32_t program) {
    MR_ASSERT(ledger->starting[program] > 0);
    ledger->starting[program]--;
    scheduler_spawn_failed(ledger->scheduler, program);
    check(ledger);
}

void scheduler_ledger_request(scheduler_ledger *ledger, uint64_t client, uint64_t ticket, const resources *need) {
    MR_ASSERT(ledger->request_count < LEDGER_REQUESTS_MAX);
    ledger->requests[ledger->request_count++] = (ledger_request){client, ticket, *need, sim_now_us(ledger->sim), 0, 0};
    scheduler_request(ledger->scheduler, client, ticket, need);
    check(ledger);
}

void scheduler_ledger_cancel(scheduler_ledger *ledger, uint64_t client, uint64_t ticket) {
    ledger_request *request = request_of(ledger, client, ticket);
    if (request != NULL) drop_request(ledger, request);
    for (size_t i = ledger->refused_count; i-- > 0;)
        if (ledger->refused[i].client == client && ledger->refused[i].ticket == ticket)
            ledger->refused[i] = ledger->refused[--ledger->refused_count];
    scheduler_cancel(ledger->scheduler, client, ticket);
    check(ledger);
}

bool scheduler_ledger_release(scheduler_ledger *ledger, uint64_t client, uint64_t lease, bool keep_worker) {
    ledger_worker *worker = leased(ledger, client, lease);
    if (worker != NULL) {
        end_lease(worker);
        worker->spent = !keep_worker;
    }
    mr_status status = scheduler_release(ledger->scheduler, client, lease, keep_worker);
    if (status != (worker != NULL ? MR_OK : MR_NOT_FOUND))
        sim_violation(ledger->sim, "lease %" PRIu64 " of client %" PRIu64 " is released with %s", lease, client,
                      mr_status_name(status));
    check(ledger);
    return worker != NULL;
}

void scheduler_ledger_block(scheduler_ledger *ledger, uint64_t id, bool blocked) {
    ledger_worker *worker = worker_of(ledger, id);
    if (worker != NULL) worker->blocked = blocked;
    scheduler_block(ledger->scheduler, id, blocked);
    check(ledger);
}

void scheduler_ledger_keep(scheduler_ledger *ledger, uint64_t client, uint64_t lease, const resources *from_now_on) {
    ledger_worker *worker = leased(ledger, client, lease);
    MR_ASSERT(worker != NULL);
    uint32_t bundle = worker->need.bundle;
    end_lease(worker);
    worker->kept = true;
    worker->need = *from_now_on;
    worker->need.bundle = bundle; /* that it was met from */
    mr_status status = scheduler_keep(ledger->scheduler, client, lease, from_now_on);
    if (status != MR_OK) sim_violation(ledger->sim, "lease %" PRIu64 " cannot be kept", lease);
    check(ledger);
}

bool scheduler_ledger_group_add(scheduler_ledger *ledger, uint64_t id, const resources *bundles, uint32_t count,
                                const scheduler_place *place) {
    ledger_group *group = ledger->groups;
    while (group < ledger->groups + LEDGER_GROUPS_MAX && group->id != 0) group++;
    if (group == ledger->groups + LEDGER_GROUPS_MAX || ledger->request_count == LEDGER_REQUESTS_MAX) return false;
    *group = (ledger_group){.id = id, .never = place->apart && count > 1, .count = count};
    ledger_request *request = &ledger->requests[ledger->request_count++];
    *request = (ledger_request){place->client, place->ticket, {0}, sim_now_us(ledger->sim), 0, id};
    for (uint32_t i = 0; i < count; i++) {
        group->bundles[i] = bundles[i];
        if (resources_add(&request->need, &bundles[i]) != MR_OK) MR_UNREACHABLE();
    }
    mr_status status = scheduler_group_add(ledger->scheduler, id, bundles, count, place);
    if (status != MR_OK) sim_violation(ledger->sim, "a group cannot be made: %s", mr_last_error());
    check(ledger);
    return true;
}

void scheduler_ledger_group_remove(scheduler_ledger *ledger, uint64_t id) {
    ledger_group *group = group_of(ledger, id);
    if (group == NULL) return;
    for (size_t i = ledger->request_count; i-- > 0;) {
        if (ledger->requests[i].need.group != id && ledger->requests[i].places != id) continue;
        ledger->refused[ledger->refused_count++] = ledger->requests[i];
        drop_request(ledger, &ledger->requests[i]);
    }
    for (size_t i = 0; i < ledger->worker_count; i++) {
        if (!has_something(&ledger->workers[i]) || ledger->workers[i].need.group != id) continue;
        end_lease(&ledger->workers[i]);
        ledger->workers[i].spent = true;
    }
    group->id = 0;
    scheduler_group_remove(ledger->scheduler, id);
    check(ledger);
}

/* ---- Decisions. */

static const ledger_request *due(const scheduler_ledger *ledger) {
    resources most = free_now(ledger, true);
    for (const ledger_request *at = ledger->requests; at < ledger->requests + ledger->request_count; at++)
        if (at->passed >= SCHEDULER_PATIENCE && resources_fit(&at->need, &most) && can_be_met(ledger, at) &&
            share_of(ledger, at->client, &at->need) == 0)
            return at;
    return NULL;
}

/* Whatever it has asked for in a group may come first. */
static bool is_first_fitting(const scheduler_ledger *ledger, const ledger_request *request, const resources *left) {
    for (const ledger_request *at = ledger->requests; at < request; at++)
        if (at->client == request->client && (!is_the_machines(at) || resources_fit(&at->need, left))) return false;
    return true;
}

/* Only those are compared that could have had it: what they need is free, and not kept for another, and a worker of
 * their program is idle. */
static void check_fairness(scheduler_ledger *ledger, const ledger_request *granted, resources left) {
    const ledger_request *first = due(ledger);
    if (first == granted) return;
    if (first != NULL) resources_take(&left, &first->need);
    if (!resources_fit(&granted->need, &left))
        sim_violation(ledger->sim, "ticket %" PRIu64 " is granted what is kept for another", granted->ticket);
    uint32_t has = share_of(ledger, granted->client, &granted->need);
    uint32_t program = client_of(ledger, granted->client)->program;
    uint32_t program_has = program_share_of(ledger, program, &granted->need);
    for (const ledger_request *other = ledger->requests; other < ledger->requests + ledger->request_count; other++) {
        if (other == granted || !is_the_machines(other) || !resources_fit(&other->need, &left)) continue;
        uint32_t others_program = client_of(ledger, other->client)->program;
        if (other->places != 0 ? !can_be_met(ledger, other) : idle_count(ledger, others_program) == 0) continue;
        uint32_t others = share_of(ledger, other->client, &other->need);
        uint32_t program_others = program_share_of(ledger, others_program, &other->need);
        bool same = other->client == granted->client;
        bool richer = program_others != program_has ? program_others > program_has : others > has;
        bool equal = program_others == program_has && others == has;
        if (same ? other > granted : richer || (equal && other > granted)) continue;
        if (!same && !is_first_fitting(ledger, other, &left)) continue;
        sim_violation(ledger->sim,
                      "client %" PRIu64 " (%u leases, its program %u) is granted ticket %" PRIu64 " before %" PRIu64
                      " of client %" PRIu64 " (%u leases, its program %u)",
                      granted->client, has, program_has, granted->ticket, other->ticket, other->client, others,
                      program_others);
        return;
    }
}

static void note_passed(scheduler_ledger *ledger, const ledger_request *granted) {
    for (ledger_request *at = ledger->requests; at < granted; at++)
        at->passed += is_the_machines(at) && share_of(ledger, at->client, &at->need) == 0;
}

/* What is not a group's own affair. */
static void check_turn(scheduler_ledger *ledger, const ledger_request *request) {
    resources left = free_now(ledger, false);
    if (!resources_fit(&request->need, &left))
        sim_violation(ledger->sim, "ticket %" PRIu64 " is granted what is not free", request->ticket);
    check_fairness(ledger, request, left);
    note_passed(ledger, request);
}

static void take_grant(scheduler_ledger *ledger, const scheduler_decision *decision) {
    ledger_request *request = request_of(ledger, decision->client, decision->ticket);
    ledger_worker *worker = worker_of(ledger, decision->worker);
    if (request == NULL || worker == NULL) {
        sim_violation(ledger->sim, "ticket %" PRIu64 " of client %" PRIu64 " is granted worker %" PRIu64 ": no such %s",
                      decision->ticket, decision->client, decision->worker, request == NULL ? "request" : "worker");
        return;
    }
    uint32_t bundle = bundle_for(ledger, &request->need);
    if (!is_the_machines(request) && bundle == 0)
        sim_violation(ledger->sim, "ticket %" PRIu64 " is granted what its group has not free", decision->ticket);
    if (!is_idle(worker) || worker->program != client_of(ledger, decision->client)->program)
        sim_violation(ledger->sim, "ticket %" PRIu64 " is granted worker %" PRIu64 ", which is not idle for it",
                      decision->ticket, decision->worker);
    if (is_the_machines(request)) check_turn(ledger, request);
    worker->lease = decision->lease;
    worker->client = decision->client;
    worker->need = request->need;
    worker->need.bundle = bundle;
    drop_request(ledger, request);
}

static void take_placed(scheduler_ledger *ledger, const scheduler_decision *decision) {
    ledger_request *request = request_of(ledger, decision->client, decision->ticket);
    ledger_group *group = request == NULL ? NULL : group_of(ledger, request->places);
    if (group == NULL || group->never) {
        sim_violation(ledger->sim, "ticket %" PRIu64 " is placed, but there is no such group, or never can be",
                      decision->ticket);
        return;
    }
    check_turn(ledger, request);
    group->placed = true;
    drop_request(ledger, request);
}

static void take_refuse(scheduler_ledger *ledger, const scheduler_decision *decision) {
    for (size_t i = 0; i < ledger->refused_count; i++) {
        if (ledger->refused[i].client != decision->client || ledger->refused[i].ticket != decision->ticket) continue;
        ledger->refused[i] = ledger->refused[--ledger->refused_count];
        return;
    }
    sim_violation(ledger->sim, "ticket %" PRIu64 " of client %" PRIu64 " is refused for nothing", decision->ticket,
                  decision->client);
}

static void take_spawn(scheduler_ledger *ledger, const scheduler_decision *decision) {
    uint32_t waiting = 0, workers = 0, program = decision->program;
    for (size_t i = 0; i < ledger->request_count; i++)
        waiting += client_of(ledger, ledger->requests[i].client)->program == program && ledger->requests[i].places == 0;
    for (size_t i = 0; i < ledger->worker_count; i++)
        workers += ledger->workers[i].program == program && !ledger->workers[i].kept && !ledger->workers[i].spent;
    uint32_t starting = ledger->starting[program];
    if (idle_count(ledger, program) + starting >= waiting && workers + starting >= ledger->prestart)
        sim_violation(ledger->sim, "a worker of program %u is started for nobody", program);
    ledger->starting[program]++;
}

static void take_end(scheduler_ledger *ledger, const scheduler_decision *decision) {
    ledger_worker *worker = worker_of(ledger, decision->worker);
    if (worker == NULL || !worker->spent || worker->told)
        sim_violation(ledger->sim, "worker %" PRIu64 " is to end %s", decision->worker,
                      worker == NULL  ? "and is gone"
                      : worker->spent ? "twice"
                                      : "for nothing");
    else
        worker->told = true;
}

static void take_reclaim(scheduler_ledger *ledger, const scheduler_decision *decision) {
    ledger_worker *worker = leased(ledger, decision->client, decision->lease);
    if (worker == NULL || worker->asked || ledger->request_count == 0)
        sim_violation(ledger->sim, "client %" PRIu64 " is asked for lease %" PRIu64 " %s", decision->client,
                      decision->lease, worker == NULL ? "which it has not" : "for nothing");
    else
        worker->asked = true;
}

bool scheduler_ledger_next(scheduler_ledger *ledger, scheduler_decision *out) {
    if (sim_failed(ledger->sim) || !scheduler_next(ledger->scheduler, out)) return false;
    switch (out->verb) {
    case SCHEDULER_GRANT: take_grant(ledger, out); break;
    case SCHEDULER_SPAWN: take_spawn(ledger, out); break;
    case SCHEDULER_RECLAIM: take_reclaim(ledger, out); break;
    case SCHEDULER_END: take_end(ledger, out); break;
    case SCHEDULER_PLACED: take_placed(ledger, out); break;
    case SCHEDULER_REFUSE: take_refuse(ledger, out); break;
    }
    if (!sim_failed(ledger->sim)) check(ledger);
    return !sim_failed(ledger->sim);
}

void scheduler_ledger_check_refused(scheduler_ledger *ledger) {
    if (ledger->refused_count > 0)
        sim_violation(ledger->sim, "the group of ticket %" PRIu64 " was removed, but its client is not told",
                      ledger->refused[0].ticket);
}

void scheduler_ledger_check_waiting(scheduler_ledger *ledger, int64_t since_us, int64_t longest_us) {
    resources most = free_now(ledger, true);
    int64_t now_us = sim_now_us(ledger->sim);
    for (ledger_request *at = ledger->requests; at < ledger->requests + ledger->request_count; at++) {
        bool fits = is_the_machines(at) && can_be_met(ledger, at) && resources_fit(&at->need, &most);
        if (at->since_us < since_us || !fits) at->since_us = now_us;
        if (longest_us > 0 && share_of(ledger, at->client, &at->need) > 0) at->since_us = now_us;
        if (now_us - at->since_us <= longest_us || !fits) continue;
        char text[128];
        resources_text(&at->need, text, sizeof text);
        sim_violation(ledger->sim, "ticket %" PRIu64 " of client %" PRIu64 " waits for %s since %" PRId64 " us",
                      at->ticket, at->client, text, at->since_us);
        return;
    }
}
