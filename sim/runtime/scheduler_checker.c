/* scheduler_checker.c — see scheduler_checker.h. */
#include "sim/runtime/scheduler_checker.h"

#include <inttypes.h>
#include <string.h>

#include "base/assert.h"

void scheduler_checker_init(scheduler_checker *checker, sim *sim, const resources *total, uint32_t prestart) {
    *checker = (scheduler_checker){
        .sim = sim, .scheduler = scheduler_create(total, prestart), .total = *total, .prestart = prestart};
}

void scheduler_checker_fini(scheduler_checker *checker) { scheduler_destroy(checker->scheduler); }

/* ---- Lookup. */

static checker_client *client_of(scheduler_checker *checker, uint64_t id) {
    for (size_t i = 0; i < checker->client_count; i++)
        if (checker->clients[i].id == id) return &checker->clients[i];
    MR_UNREACHABLE();
}

static checker_worker *worker_of(scheduler_checker *checker, uint64_t id) {
    for (size_t i = 0; i < checker->worker_count; i++)
        if (checker->workers[i].id == id) return &checker->workers[i];
    return NULL;
}

static checker_worker *leased(scheduler_checker *checker, uint64_t client, uint64_t lease) {
    for (size_t i = 0; i < checker->worker_count; i++)
        if (checker->workers[i].lease == lease && checker->workers[i].client == client) return &checker->workers[i];
    return NULL;
}

static checker_request *request_of(scheduler_checker *checker, uint64_t client, uint64_t ticket) {
    for (size_t i = 0; i < checker->request_count; i++)
        if (checker->requests[i].client == client && checker->requests[i].ticket == ticket)
            return &checker->requests[i];
    return NULL;
}

const checker_worker *scheduler_checker_worker(const scheduler_checker *checker, uint64_t worker) {
    return worker_of((scheduler_checker *)(uintptr_t)checker, worker);
}

bool scheduler_checker_waits(const scheduler_checker *checker, uint64_t client, uint64_t ticket) {
    return request_of((scheduler_checker *)(uintptr_t)checker, client, ticket) != NULL;
}

static bool is_idle(const checker_worker *worker) {
    return worker->lease == 0 && !worker->kept && !worker->blocked && !worker->spent;
}

static uint32_t idle_count(const scheduler_checker *checker, uint32_t program) {
    uint32_t count = 0;
    for (size_t i = 0; i < checker->worker_count; i++)
        count += checker->workers[i].program == program && is_idle(&checker->workers[i]);
    return count;
}

static checker_group *group_of(scheduler_checker *checker, uint64_t id) {
    for (size_t i = 0; i < CHECKER_GROUPS_MAX; i++)
        if (checker->groups[i].id == id && id != 0) return &checker->groups[i];
    return NULL;
}

const checker_group *scheduler_checker_group(const scheduler_checker *checker, uint64_t group) {
    return group_of((scheduler_checker *)(uintptr_t)checker, group);
}

static bool is_the_machines(const checker_request *request) { return request->need.group == 0; }

/* Whether the worker uses needed resources of the machine outside placement groups. */
static bool takes_of(const checker_worker *worker, const resources *need) {
    if (worker->need.group != 0) return false;
    for (uint32_t k = 0; k < need->count && worker->lease != 0 && !worker->blocked; k++)
        if (resources_milli(&worker->need, need->items[k].name) > 0) return true;
    return false;
}

/* Number of the client's leases that use a needed resource. */
static uint32_t share_of(const scheduler_checker *checker, uint64_t client, const resources *need) {
    uint32_t count = 0;
    for (size_t i = 0; i < checker->worker_count; i++)
        count += checker->workers[i].client == client && takes_of(&checker->workers[i], need);
    return count;
}

/* Number of such leases of all clients of a job. */
static uint32_t program_share_of(const scheduler_checker *checker, uint32_t program, const resources *need) {
    uint32_t count = 0;
    for (size_t i = 0; i < checker->worker_count; i++)
        count += checker->workers[i].program == program && takes_of(&checker->workers[i], need);
    return count;
}

/* Whether the request could ever be met. */
static bool can_be_met(const scheduler_checker *checker, const checker_request *request) {
    const checker_group *group = scheduler_checker_group(checker, request->places);
    return group == NULL || !group->never;
}

static void drop_request(scheduler_checker *checker, checker_request *request) {
    size_t at = (size_t)(request - checker->requests);
    memmove(request, request + 1, (--checker->request_count - at) * sizeof *request);
}

static void end_lease(checker_worker *worker) {
    worker->lease = worker->client = 0;
    worker->asked = false;
    worker->need = (resources){0};
}

static void drop_worker(scheduler_checker *checker, checker_worker *worker) {
    *worker = checker->workers[--checker->worker_count];
}

/* ---- The checker's records compared with the scheduler's state. */

static bool has_something(const checker_worker *worker) { return worker->lease != 0 || worker->kept; }

static resources free_now(const scheduler_checker *checker, bool beside_actors) {
    resources left = checker->total;
    for (size_t i = 0; i < checker->worker_count; i++) {
        const checker_worker *worker = &checker->workers[i];
        bool takes = beside_actors ? worker->kept : has_something(worker) && !worker->blocked;
        if (takes && worker->need.group == 0) resources_take(&left, &worker->need);
    }
    for (const checker_group *group = checker->groups; group < checker->groups + CHECKER_GROUPS_MAX; group++)
        for (uint32_t i = 0; group->id != 0 && group->placed && i < group->count; i++)
            resources_take(&left, &group->bundles[i]);
    return left;
}

static resources free_in(const scheduler_checker *checker, const checker_group *group, uint32_t bundle) {
    resources left = group->bundles[bundle];
    for (size_t i = 0; i < checker->worker_count; i++) {
        const checker_worker *worker = &checker->workers[i];
        if (has_something(worker) && !worker->blocked && worker->need.group == group->id &&
            worker->need.bundle == bundle + 1)
            resources_take(&left, &worker->need);
    }
    return left;
}

/* The bundle that meets the need, counted from 1; 0: none has room. */
static uint32_t bundle_for(const scheduler_checker *checker, const resources *need) {
    const checker_group *group = scheduler_checker_group(checker, need->group);
    for (uint32_t i = 0; group != NULL && group->placed && i < group->count; i++) {
        resources left = free_in(checker, group, i);
        if ((need->bundle == 0 || need->bundle == i + 1) && resources_fit(need, &left)) return i + 1;
    }
    return 0;
}

static void check_counts(scheduler_checker *checker, const scheduler_stats *stats) {
    uint32_t idle = 0, leases = 0, starting = 0;
    for (size_t i = 0; i < checker->worker_count; i++) {
        idle += is_idle(&checker->workers[i]);
        leases += checker->workers[i].lease != 0;
    }
    for (size_t i = 0; i < CHECKER_PROGRAMS_MAX; i++) starting += checker->starting[i];
    if (stats->clients != checker->client_count)
        sim_violation(checker->sim, "%u clients, but %zu are there", stats->clients, checker->client_count);
    if (stats->workers != checker->worker_count)
        sim_violation(checker->sim, "%u workers, but %zu are there", stats->workers, checker->worker_count);
    if (stats->leases != leases) sim_violation(checker->sim, "%u leases, but there are %u", stats->leases, leases);
    if (stats->idle != idle) sim_violation(checker->sim, "%u idle workers, but there are %u", stats->idle, idle);
    if (stats->waiting != checker->request_count)
        sim_violation(checker->sim, "%u requests wait, but it should be %zu", stats->waiting, checker->request_count);
    if (stats->starting != starting)
        sim_violation(checker->sim, "%u workers start, but it should be %u", stats->starting, starting);
}

static void check(scheduler_checker *checker) {
    scheduler_stats stats = scheduler_stats_now(checker->scheduler);
    check_counts(checker, &stats);
    resources left = free_now(checker, false);
    for (uint32_t i = 0; i < checker->total.count; i++) {
        const resource *kind = &checker->total.items[i];
        int64_t is = resources_milli(&stats.free, kind->name), be = resources_milli(&left, kind->name);
        if (is != be || is > kind->milli)
            sim_violation(checker->sim, "%" PRId64 " thousandths of %s are free, of %" PRId64 "; it should be %" PRId64,
                          is, kind->name, kind->milli, be);
    }
    if (!sim_failed(checker->sim)) scheduler_check(checker->scheduler);
}

/* ---- Events. */

void scheduler_checker_client_add(scheduler_checker *checker, uint64_t client, uint32_t program) {
    MR_ASSERT(checker->client_count < CHECKER_CLIENTS_MAX && program < CHECKER_PROGRAMS_MAX);
    checker->clients[checker->client_count++] = (checker_client){client, program};
    scheduler_client_add(checker->scheduler, client, program);
    check(checker);
}

void scheduler_checker_client_gone(scheduler_checker *checker, uint64_t id) {
    checker_client *client = client_of(checker, id);
    *client = checker->clients[--checker->client_count];
    for (size_t i = checker->request_count; i-- > 0;)
        if (checker->requests[i].client == id) drop_request(checker, &checker->requests[i]);
    for (size_t i = checker->refused_count; i-- > 0;)
        if (checker->refused[i].client == id) checker->refused[i] = checker->refused[--checker->refused_count];
    for (size_t i = 0; i < checker->worker_count; i++) {
        if (checker->workers[i].lease == 0 || checker->workers[i].client != id) continue;
        end_lease(&checker->workers[i]);
        checker->workers[i].spent = true;
    }
    scheduler_client_gone(checker->scheduler, id);
    check(checker);
}

void scheduler_checker_worker_add(scheduler_checker *checker, uint64_t worker, uint32_t program) {
    MR_ASSERT(checker->worker_count < CHECKER_WORKERS_MAX && checker->starting[program] > 0);
    checker->starting[program]--;
    checker->workers[checker->worker_count++] = (checker_worker){.id = worker, .program = program};
    scheduler_worker_add(checker->scheduler, worker, program);
    check(checker);
}

void scheduler_checker_worker_gone(scheduler_checker *checker, uint64_t id) {
    checker_worker *worker = worker_of(checker, id);
    if (worker != NULL) drop_worker(checker, worker);
    scheduler_worker_gone(checker->scheduler, id);
    check(checker);
}

void scheduler_checker_spawn_failed(scheduler_checker *checker, uint32_t program) {
    MR_ASSERT(checker->starting[program] > 0);
    checker->starting[program]--;
    scheduler_spawn_failed(checker->scheduler, program);
    check(checker);
}

void scheduler_checker_request(scheduler_checker *checker, uint64_t client, uint64_t ticket, const resources *need) {
    MR_ASSERT(checker->request_count < CHECKER_REQUESTS_MAX);
    checker->requests[checker->request_count++] =
        (checker_request){client, ticket, *need, sim_now_us(checker->sim), 0, 0};
    scheduler_request(checker->scheduler, client, ticket, need);
    check(checker);
}

void scheduler_checker_cancel(scheduler_checker *checker, uint64_t client, uint64_t ticket) {
    checker_request *request = request_of(checker, client, ticket);
    if (request != NULL) drop_request(checker, request);
    for (size_t i = checker->refused_count; i-- > 0;)
        if (checker->refused[i].client == client && checker->refused[i].ticket == ticket)
            checker->refused[i] = checker->refused[--checker->refused_count];
    scheduler_cancel(checker->scheduler, client, ticket);
    check(checker);
}

bool scheduler_checker_release(scheduler_checker *checker, uint64_t client, uint64_t lease, bool keep_worker) {
    checker_worker *worker = leased(checker, client, lease);
    if (worker != NULL) {
        end_lease(worker);
        worker->spent = !keep_worker;
    }
    mr_status status = scheduler_release(checker->scheduler, client, lease, keep_worker);
    if (status != (worker != NULL ? MR_OK : MR_NOT_FOUND))
        sim_violation(checker->sim, "lease %" PRIu64 " of client %" PRIu64 " is released with %s", lease, client,
                      mr_status_name(status));
    check(checker);
    return worker != NULL;
}

void scheduler_checker_block(scheduler_checker *checker, uint64_t id, bool blocked) {
    checker_worker *worker = worker_of(checker, id);
    if (worker != NULL) worker->blocked = blocked;
    scheduler_block(checker->scheduler, id, blocked);
    check(checker);
}

void scheduler_checker_keep(scheduler_checker *checker, uint64_t client, uint64_t lease, const resources *from_now_on) {
    checker_worker *worker = leased(checker, client, lease);
    MR_ASSERT(worker != NULL);
    uint32_t bundle = worker->need.bundle;
    end_lease(worker);
    worker->kept = true;
    worker->need = *from_now_on;
    worker->need.bundle = bundle; /* bundle that met the request */
    mr_status status = scheduler_keep(checker->scheduler, client, lease, from_now_on);
    if (status != MR_OK) sim_violation(checker->sim, "lease %" PRIu64 " cannot be kept", lease);
    check(checker);
}

bool scheduler_checker_group_add(scheduler_checker *checker, uint64_t id, const resources *bundles, uint32_t count,
                                 const scheduler_place *place) {
    checker_group *group = checker->groups;
    while (group < checker->groups + CHECKER_GROUPS_MAX && group->id != 0) group++;
    if (group == checker->groups + CHECKER_GROUPS_MAX || checker->request_count == CHECKER_REQUESTS_MAX) return false;
    *group = (checker_group){.id = id, .never = place->apart && count > 1, .count = count};
    checker_request *request = &checker->requests[checker->request_count++];
    *request = (checker_request){place->client, place->ticket, {0}, sim_now_us(checker->sim), 0, id};
    for (uint32_t i = 0; i < count; i++) {
        group->bundles[i] = bundles[i];
        if (resources_add(&request->need, &bundles[i]) != MR_OK) MR_UNREACHABLE();
    }
    mr_status status = scheduler_group_add(checker->scheduler, id, bundles, count, place);
    if (status != MR_OK) sim_violation(checker->sim, "a group cannot be made: %s", mr_last_error());
    check(checker);
    return true;
}

void scheduler_checker_group_remove(scheduler_checker *checker, uint64_t id) {
    checker_group *group = group_of(checker, id);
    if (group == NULL) return;
    for (size_t i = checker->request_count; i-- > 0;) {
        if (checker->requests[i].need.group != id && checker->requests[i].places != id) continue;
        checker->refused[checker->refused_count++] = checker->requests[i];
        drop_request(checker, &checker->requests[i]);
    }
    for (size_t i = 0; i < checker->worker_count; i++) {
        if (!has_something(&checker->workers[i]) || checker->workers[i].need.group != id) continue;
        end_lease(&checker->workers[i]);
        checker->workers[i].spent = true;
    }
    group->id = 0;
    scheduler_group_remove(checker->scheduler, id);
    check(checker);
}

/* ---- Decisions. */

static const checker_request *due(const scheduler_checker *checker) {
    resources most = free_now(checker, true);
    for (const checker_request *at = checker->requests; at < checker->requests + checker->request_count; at++)
        if (at->passed >= SCHEDULER_PATIENCE && resources_fit(&at->need, &most) && can_be_met(checker, at) &&
            share_of(checker, at->client, &at->need) == 0)
            return at;
    return NULL;
}

/* A client's requests in placement groups may be granted first. */
static bool is_first_fitting(const scheduler_checker *checker, const checker_request *request, const resources *left) {
    for (const checker_request *at = checker->requests; at < request; at++)
        if (at->client == request->client && (!is_the_machines(at) || resources_fit(&at->need, left))) return false;
    return true;
}

/* Compares only requests that could have been granted: their resources are free and not kept for another request, and a
 * worker of their job is idle. */
static void check_fairness(scheduler_checker *checker, const checker_request *granted, resources left) {
    const checker_request *first = due(checker);
    if (first == granted) return;
    if (first != NULL) resources_take(&left, &first->need);
    if (!resources_fit(&granted->need, &left))
        sim_violation(checker->sim, "ticket %" PRIu64 " is granted what is kept for another", granted->ticket);
    uint32_t has = share_of(checker, granted->client, &granted->need);
    uint32_t program = client_of(checker, granted->client)->program;
    uint32_t program_has = program_share_of(checker, program, &granted->need);
    for (const checker_request *other = checker->requests; other < checker->requests + checker->request_count;
         other++) {
        if (other == granted || !is_the_machines(other) || !resources_fit(&other->need, &left)) continue;
        uint32_t others_program = client_of(checker, other->client)->program;
        if (other->places != 0 ? !can_be_met(checker, other) : idle_count(checker, others_program) == 0) continue;
        uint32_t others = share_of(checker, other->client, &other->need);
        uint32_t program_others = program_share_of(checker, others_program, &other->need);
        bool same = other->client == granted->client;
        bool richer = program_others != program_has ? program_others > program_has : others > has;
        bool equal = program_others == program_has && others == has;
        if (same ? other > granted : richer || (equal && other > granted)) continue;
        if (!same && !is_first_fitting(checker, other, &left)) continue;
        sim_violation(checker->sim,
                      "client %" PRIu64 " (%u leases, its program %u) is granted ticket %" PRIu64 " before %" PRIu64
                      " of client %" PRIu64 " (%u leases, its program %u)",
                      granted->client, has, program_has, granted->ticket, other->ticket, other->client, others,
                      program_others);
        return;
    }
}

static void note_passed(scheduler_checker *checker, const checker_request *granted) {
    for (checker_request *at = checker->requests; at < granted; at++)
        at->passed += is_the_machines(at) && share_of(checker, at->client, &at->need) == 0;
}

/* Checks the order of requests outside placement groups. */
static void check_turn(scheduler_checker *checker, const checker_request *request) {
    resources left = free_now(checker, false);
    if (!resources_fit(&request->need, &left))
        sim_violation(checker->sim, "ticket %" PRIu64 " is granted what is not free", request->ticket);
    check_fairness(checker, request, left);
    note_passed(checker, request);
}

static void take_grant(scheduler_checker *checker, const scheduler_decision *decision) {
    checker_request *request = request_of(checker, decision->client, decision->ticket);
    checker_worker *worker = worker_of(checker, decision->worker);
    if (request == NULL || worker == NULL) {
        sim_violation(checker->sim,
                      "ticket %" PRIu64 " of client %" PRIu64 " is granted worker %" PRIu64 ": no such %s",
                      decision->ticket, decision->client, decision->worker, request == NULL ? "request" : "worker");
        return;
    }
    uint32_t bundle = bundle_for(checker, &request->need);
    if (!is_the_machines(request) && bundle == 0)
        sim_violation(checker->sim, "ticket %" PRIu64 " is granted what its group has not free", decision->ticket);
    if (!is_idle(worker) || worker->program != client_of(checker, decision->client)->program)
        sim_violation(checker->sim, "ticket %" PRIu64 " is granted worker %" PRIu64 ", which is not idle for it",
                      decision->ticket, decision->worker);
    if (is_the_machines(request)) check_turn(checker, request);
    worker->lease = decision->lease;
    worker->client = decision->client;
    worker->need = request->need;
    worker->need.bundle = bundle;
    drop_request(checker, request);
}

static void take_placed(scheduler_checker *checker, const scheduler_decision *decision) {
    checker_request *request = request_of(checker, decision->client, decision->ticket);
    checker_group *group = request == NULL ? NULL : group_of(checker, request->places);
    if (group == NULL || group->never) {
        sim_violation(checker->sim, "ticket %" PRIu64 " is placed, but there is no such group, or never can be",
                      decision->ticket);
        return;
    }
    check_turn(checker, request);
    group->placed = true;
    drop_request(checker, request);
}

static void take_refuse(scheduler_checker *checker, const scheduler_decision *decision) {
    for (size_t i = 0; i < checker->refused_count; i++) {
        if (checker->refused[i].client != decision->client || checker->refused[i].ticket != decision->ticket) continue;
        checker->refused[i] = checker->refused[--checker->refused_count];
        return;
    }
    sim_violation(checker->sim, "ticket %" PRIu64 " of client %" PRIu64 " is refused for nothing", decision->ticket,
                  decision->client);
}

static void take_spawn(scheduler_checker *checker, const scheduler_decision *decision) {
    uint32_t waiting = 0, workers = 0, program = decision->program;
    for (size_t i = 0; i < checker->request_count; i++)
        waiting +=
            client_of(checker, checker->requests[i].client)->program == program && checker->requests[i].places == 0;
    for (size_t i = 0; i < checker->worker_count; i++)
        workers += checker->workers[i].program == program && !checker->workers[i].kept && !checker->workers[i].spent;
    uint32_t starting = checker->starting[program];
    if (idle_count(checker, program) + starting >= waiting && workers + starting >= checker->prestart)
        sim_violation(checker->sim, "a worker of program %u is started for nobody", program);
    checker->starting[program]++;
}

static void take_end(scheduler_checker *checker, const scheduler_decision *decision) {
    checker_worker *worker = worker_of(checker, decision->worker);
    if (worker == NULL || !worker->spent || worker->told)
        sim_violation(checker->sim, "worker %" PRIu64 " is to end %s", decision->worker,
                      worker == NULL  ? "and is gone"
                      : worker->spent ? "twice"
                                      : "for nothing");
    else
        worker->told = true;
}

static void take_reclaim(scheduler_checker *checker, const scheduler_decision *decision) {
    checker_worker *worker = leased(checker, decision->client, decision->lease);
    if (worker == NULL || worker->asked || checker->request_count == 0)
        sim_violation(checker->sim, "client %" PRIu64 " is asked for lease %" PRIu64 " %s", decision->client,
                      decision->lease, worker == NULL ? "which it has not" : "for nothing");
    else
        worker->asked = true;
}

bool scheduler_checker_next(scheduler_checker *checker, scheduler_decision *out) {
    if (sim_failed(checker->sim) || !scheduler_next(checker->scheduler, out)) return false;
    switch (out->verb) {
    case SCHEDULER_GRANT: take_grant(checker, out); break;
    case SCHEDULER_SPAWN: take_spawn(checker, out); break;
    case SCHEDULER_RECLAIM: take_reclaim(checker, out); break;
    case SCHEDULER_END: take_end(checker, out); break;
    case SCHEDULER_PLACED: take_placed(checker, out); break;
    case SCHEDULER_REFUSE: take_refuse(checker, out); break;
    }
    if (!sim_failed(checker->sim)) check(checker);
    return !sim_failed(checker->sim);
}

void scheduler_checker_check_refused(scheduler_checker *checker) {
    if (checker->refused_count > 0)
        sim_violation(checker->sim, "the group of ticket %" PRIu64 " was removed, but its client is not told",
                      checker->refused[0].ticket);
}

void scheduler_checker_check_waiting(scheduler_checker *checker, int64_t since_us, int64_t longest_us) {
    resources most = free_now(checker, true);
    int64_t now_us = sim_now_us(checker->sim);
    for (checker_request *at = checker->requests; at < checker->requests + checker->request_count; at++) {
        bool fits = is_the_machines(at) && can_be_met(checker, at) && resources_fit(&at->need, &most);
        if (at->since_us < since_us || !fits) at->since_us = now_us;
        if (longest_us > 0 && share_of(checker, at->client, &at->need) > 0) at->since_us = now_us;
        if (now_us - at->since_us <= longest_us || !fits) continue;
        char text[128];
        resources_text(&at->need, text, sizeof text);
        sim_violation(checker->sim, "ticket %" PRIu64 " of client %" PRIu64 " waits for %s since %" PRId64 " us",
                      at->ticket, at->client, text, at->since_us);
        return;
    }
}
