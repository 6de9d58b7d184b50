/* scheduler.c — see scheduler.h. Machines have few workers and clients, so every decision simply looks at all of them.
 */
#include "runtime/scheduler.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"
#include "base/list.h"

typedef struct client {
    list place; /* in scheduler.clients */
    uint64_t id;
    uint32_t program, lease_count;
    list requests; /* in the order they came */
} client;

typedef struct request {
    list place;
    client *client;
    uint64_t ticket, order;
    uint32_t passed; /* grants to younger requests, while its client had nothing of what it needs */
    resources need;
} request;

typedef struct worker {
    list place; /* in scheduler.workers */
    uint64_t id;
    uint32_t program;
    struct lease *lease; /* NULL: idle, or kept */
    bool kept;           /* an actor has it for good */
    bool blocked;        /* it waits inside a body: what it has taken is others' meanwhile */
    resources kept_need;
} worker;

typedef struct lease {
    list place; /* in scheduler.leases */
    uint64_t id;
    client *client;
    worker *worker;
    resources need;
    bool reclaimed; /* its client was asked for it */
} lease;

typedef struct program { /* what is on its way */
    uint32_t number, starting, clients;
    bool barred;
} program;

struct scheduler {
    resources total, free;
    uint32_t prestart;
    list clients, workers, leases;
    program *programs; /* owned */
    size_t program_count;
    uint64_t next_lease, next_order;
    scheduler_mutations mutations;
};

scheduler *scheduler_create(const resources *total, uint32_t prestart) {
    scheduler *scheduler = xcalloc(1, sizeof *scheduler);
    scheduler->total = scheduler->free = *total;
    scheduler->prestart = prestart;
    scheduler->next_lease = 1;
    list_init(&scheduler->clients);
    list_init(&scheduler->workers);
    list_init(&scheduler->leases);
    return scheduler;
}

/* ---- Finding. */

static client *find_client(const scheduler *scheduler, uint64_t id) {
    list_for_each (at, &scheduler->clients) {
        client *client = container_of(at, struct client, place);
        if (client->id == id) return client;
    }
    return NULL;
}

static worker *find_worker(const scheduler *scheduler, uint64_t id) {
    list_for_each (at, &scheduler->workers) {
        worker *worker = container_of(at, struct worker, place);
        if (worker->id == id) return worker;
    }
    return NULL;
}

static lease *find_lease(const scheduler *scheduler, uint64_t client, uint64_t id) {
    list_for_each (at, &scheduler->leases) {
        lease *lease = container_of(at, struct lease, place);
        if (lease->id == id) return lease->client->id == client ? lease : NULL;
    }
    return NULL;
}

static program *program_of(scheduler *scheduler, uint32_t number) {
    for (size_t i = 0; i < scheduler->program_count; i++)
        if (scheduler->programs[i].number == number) return &scheduler->programs[i];
    scheduler->programs = xrealloc(scheduler->programs, (scheduler->program_count + 1) * sizeof *scheduler->programs);
    program *made = &scheduler->programs[scheduler->program_count++];
    *made = (program){.number = number};
    return made;
}

/* One that blocks without a lease is still at work for a client that is gone. */
static bool is_idle(const worker *worker) { return worker->lease == NULL && !worker->kept && !worker->blocked; }

static worker *idle_worker(const scheduler *scheduler, uint32_t program) {
    list_for_each (at, &scheduler->workers) {
        worker *worker = container_of(at, struct worker, place);
        bool idle = is_idle(worker) || (scheduler->mutations.no_idle_check && !worker->kept && worker->lease == NULL);
        if (worker->program == program && idle) return worker;
    }
    return NULL;
}

static uint32_t count_workers(const scheduler *scheduler, uint32_t program, bool idle_only) {
    uint32_t count = 0;
    list_for_each (at, &scheduler->workers) {
        worker *worker = container_of(at, struct worker, place);
        count += worker->program == program && !worker->kept && (!idle_only || is_idle(worker));
    }
    return count;
}

/* ---- Ending things. */

static void drop_request(request *request) {
    list_remove(&request->place);
    free(request);
}

static void end_lease(scheduler *scheduler, lease *lease) {
    if (!lease->worker->blocked) resources_give(&scheduler->free, &lease->need);
    lease->client->lease_count--;
    lease->worker->lease = NULL;
    list_remove(&lease->place);
    free(lease);
}

static void drop_worker(scheduler *scheduler, worker *worker) {
    if (worker->lease != NULL) end_lease(scheduler, worker->lease);
    if (worker->kept && !worker->blocked) resources_give(&scheduler->free, &worker->kept_need);
    list_remove(&worker->place);
    free(worker);
}

void scheduler_destroy(scheduler *scheduler) {
    while (!list_empty(&scheduler->workers))
        drop_worker(scheduler, container_of(scheduler->workers.next, worker, place));
    while (!list_empty(&scheduler->clients))
        scheduler_client_gone(scheduler, container_of(scheduler->clients.next, client, place)->id);
    free(scheduler->programs);
    free(scheduler);
}

/* ---- Events. */

void scheduler_client_add(scheduler *scheduler, uint64_t id, uint32_t program) {
    MR_ASSERT(find_client(scheduler, id) == NULL);
    client *client = xcalloc(1, sizeof *client);
    client->id = id;
    client->program = program;
    list_init(&client->requests);
    list_push_back(&scheduler->clients, &client->place);
    program_of(scheduler, program)->clients++;
}

void scheduler_client_gone(scheduler *scheduler, uint64_t id) {
    client *client = find_client(scheduler, id);
    if (client == NULL) return;
    while (!list_empty(&client->requests)) drop_request(container_of(client->requests.next, request, place));
    list_for_each (at, &scheduler->leases) {
        lease *lease = container_of(at, struct lease, place);
        if (lease->client == client) end_lease(scheduler, lease);
    }
    program_of(scheduler, client->program)->clients--;
    list_remove(&client->place);
    free(client);
}

void scheduler_worker_add(scheduler *scheduler, uint64_t id, uint32_t program) {
    MR_ASSERT(find_worker(scheduler, id) == NULL);
    struct program *kind = program_of(scheduler, program);
    if (kind->starting > 0) kind->starting--;
    worker *worker = xcalloc(1, sizeof *worker);
    worker->id = id;
    worker->program = program;
    list_push_back(&scheduler->workers, &worker->place);
}

void scheduler_worker_gone(scheduler *scheduler, uint64_t id) {
    worker *worker = find_worker(scheduler, id);
    if (worker != NULL) drop_worker(scheduler, worker);
}

void scheduler_spawn_failed(scheduler *scheduler, uint32_t program) {
    struct program *kind = program_of(scheduler, program);
    if (kind->starting > 0) kind->starting--;
}

void scheduler_bar(scheduler *scheduler, uint32_t program, bool barred) {
    program_of(scheduler, program)->barred = barred;
}

void scheduler_request(scheduler *scheduler, uint64_t id, uint64_t ticket, const resources *need) {
    client *client = find_client(scheduler, id);
    MR_ASSERT(client != NULL);
    request *request = xcalloc(1, sizeof *request);
    *request = (struct request){.client = client, .ticket = ticket, .order = scheduler->next_order++, .need = *need};
    list_push_back(&client->requests, &request->place);
}

void scheduler_cancel(scheduler *scheduler, uint64_t id, uint64_t ticket) {
    client *client = find_client(scheduler, id);
    if (client == NULL) return;
    list_for_each (at, &client->requests) {
        request *request = container_of(at, struct request, place);
        if (request->ticket == ticket) drop_request(request);
    }
}

mr_status scheduler_release(scheduler *scheduler, uint64_t client, uint64_t id, bool keep_worker) {
    lease *lease = find_lease(scheduler, client, id);
    if (lease == NULL) return error_set(MR_NOT_FOUND, "no such lease");
    worker *worker = lease->worker;
    end_lease(scheduler, lease);
    if (!keep_worker) drop_worker(scheduler, worker);
    return MR_OK;
}

void scheduler_block(scheduler *scheduler, uint64_t id, bool blocked) {
    worker *worker = find_worker(scheduler, id);
    if (worker == NULL || worker->blocked == blocked) return;
    worker->blocked = blocked;
    const resources *taken = worker->lease != NULL ? &worker->lease->need : worker->kept ? &worker->kept_need : NULL;
    if (taken == NULL || scheduler->mutations.no_lending) return;
    if (blocked)
        resources_give(&scheduler->free, taken);
    else
        resources_take(&scheduler->free, taken);
}

mr_status scheduler_keep(scheduler *scheduler, uint64_t client, uint64_t id, const resources *from_now_on) {
    lease *lease = find_lease(scheduler, client, id);
    if (lease == NULL) return error_set(MR_NOT_FOUND, "no such lease");
    worker *worker = lease->worker;
    end_lease(scheduler, lease);
    worker->kept = true;
    worker->kept_need = *from_now_on;
    if (!worker->blocked) resources_take(&scheduler->free, from_now_on);
    return MR_OK;
}

/* ---- Deciding. */

static bool share_a_kind(const resources *a, const resources *b) {
    for (uint32_t i = 0; i < a->count; i++)
        if (resources_milli(b, a->items[i].name) > 0) return true;
    return false;
}

/* How many leases the client has that take of what is needed. */
static uint32_t share_of(const scheduler *scheduler, const client *client, const resources *need) {
    uint32_t count = 0;
    if (client->lease_count == 0) return 0;
    list_for_each (at, &scheduler->leases) {
        lease *lease = container_of(at, struct lease, place);
        count += lease->client == client && share_a_kind(&lease->need, need);
    }
    return count;
}

/* It would fit if only the actors were there, which stay. */
static bool can_come(const scheduler *scheduler, const request *request) {
    resources most = scheduler->total;
    list_for_each (at, &scheduler->workers) {
        worker *worker = container_of(at, struct worker, place);
        if (worker->kept) resources_take(&most, &worker->kept_need);
    }
    return resources_fit(&request->need, &most);
}

/* The oldest of those that were passed too often, and have nothing yet. */
static request *due_request(const scheduler *scheduler) {
    request *due = NULL;
    if (scheduler->mutations.no_patience) return NULL;
    list_for_each (at, &scheduler->clients) {
        list_for_each (item, &container_of(at, client, place)->requests) {
            request *request = container_of(item, struct request, place);
            if (request->passed < SCHEDULER_PATIENCE || (due != NULL && request->order > due->order)) continue;
            if (share_of(scheduler, request->client, &request->need) == 0 && can_come(scheduler, request))
                due = request;
        }
    }
    return due;
}

/* The client's first request that fits what there is for it; NULL: none does. */
static request *first_fitting(const client *client, const resources *have) {
    list_for_each (at, &client->requests) {
        request *request = container_of(at, struct request, place);
        if (resources_fit(&request->need, have)) return request;
    }
    return NULL;
}

static bool comes_before(const scheduler *scheduler, const request *a, const request *b) {
    uint32_t share = share_of(scheduler, a->client, &a->need), other = share_of(scheduler, b->client, &b->need);
    return share != other && !scheduler->mutations.no_shares ? share < other : a->order < b->order;
}

static void note_passed(scheduler *scheduler, const request *granted) {
    list_for_each (at, &scheduler->clients) {
        client *client = container_of(at, struct client, place);
        list_for_each (item, &client->requests) {
            request *request = container_of(item, struct request, place);
            if (request->order < granted->order && share_of(scheduler, client, &request->need) == 0) request->passed++;
        }
    }
}

static request *best_request(const scheduler *scheduler, worker **idle) {
    resources left = scheduler->free;
    request *best = NULL, *due = due_request(scheduler);
    if (due != NULL) {
        *idle = idle_worker(scheduler, due->client->program);
        if (*idle != NULL && resources_fit(&due->need, &left)) return due;
        resources_take(&left, &due->need); /* it is kept for it */
    }
    list_for_each (at, &scheduler->clients) {
        client *client = container_of(at, struct client, place);
        request *request = first_fitting(client, &left);
        if (request == NULL || (best != NULL && !comes_before(scheduler, request, best))) continue;
        worker *worker = idle_worker(scheduler, client->program);
        if (worker == NULL) continue;
        best = request;
        *idle = worker;
    }
    return best;
}

static bool decide_grant(scheduler *scheduler, scheduler_decision *out) {
    worker *idle = NULL;
    request *best = best_request(scheduler, &idle);
    if (best == NULL) return false;
    note_passed(scheduler, best);
    lease *lease = xcalloc(1, sizeof *lease);
    *lease = (struct lease){.id = scheduler->next_lease++, .client = best->client, .worker = idle, .need = best->need};
    list_push_back(&scheduler->leases, &lease->place);
    idle->lease = lease;
    best->client->lease_count++;
    resources_take(&scheduler->free, &best->need);
    *out = (scheduler_decision){.verb = SCHEDULER_GRANT,
                                .client = best->client->id,
                                .ticket = best->ticket,
                                .lease = lease->id,
                                .worker = idle->id,
                                .program = idle->program};
    drop_request(best);
    return true;
}

/* How many workers of a program could be put to use now. */
static uint32_t wanted_workers(const scheduler *scheduler, uint32_t program) {
    resources left = scheduler->free;
    uint32_t count = 0;
    list_for_each (at, &scheduler->clients) {
        client *client = container_of(at, struct client, place);
        if (client->program != program) continue;
        list_for_each (item, &client->requests) {
            request *request = container_of(item, struct request, place);
            if (!resources_fit(&request->need, &left)) continue;
            resources_take(&left, &request->need);
            count++;
        }
    }
    return count;
}

static bool decide_spawn(scheduler *scheduler, scheduler_decision *out) {
    for (size_t i = 0; i < scheduler->program_count; i++) {
        program *program = &scheduler->programs[i];
        if (program->clients == 0 || program->barred) continue;
        bool few = count_workers(scheduler, program->number, false) + program->starting < scheduler->prestart;
        uint32_t ready = count_workers(scheduler, program->number, true) + program->starting;
        if (!few && wanted_workers(scheduler, program->number) <= ready) continue;
        program->starting++;
        *out = (scheduler_decision){.verb = SCHEDULER_SPAWN, .program = program->number};
        return true;
    }
    return false;
}

/* What is free, and what clients were asked for and will give back. */
static resources coming(const scheduler *scheduler) {
    resources coming = scheduler->free;
    list_for_each (at, &scheduler->leases) {
        lease *lease = container_of(at, struct lease, place);
        if (lease->reclaimed && !lease->worker->blocked) resources_give(&coming, &lease->need);
    }
    return coming;
}

static bool helps(const lease *lease, const request *request, const resources *coming) {
    for (uint32_t i = 0; i < request->need.count; i++) {
        const resource *item = &request->need.items[i];
        if (resources_milli(coming, item->name) < item->milli && resources_milli(&lease->need, item->name) > 0)
            return true;
    }
    return false;
}

/* How many leases that could help a client keeps. */
static uint32_t left_share(const scheduler *scheduler, const client *client, const request *request) {
    uint32_t count = 0;
    list_for_each (at, &scheduler->leases) {
        lease *lease = container_of(at, struct lease, place);
        count += lease->client == client && !lease->reclaimed && share_a_kind(&lease->need, &request->need);
    }
    return count;
}

/* The lease that is easiest to miss: of the client that keeps most of them, and more than `most`. */
static lease *lease_to_reclaim(const scheduler *scheduler, const request *request, const resources *coming,
                               uint32_t most) {
    lease *best = NULL;
    list_for_each (at, &scheduler->leases) {
        lease *lease = container_of(at, struct lease, place);
        if (lease->client == request->client || lease->reclaimed || lease->worker->blocked) continue;
        if (!helps(lease, request, coming)) continue;
        uint32_t share = left_share(scheduler, lease->client, request);
        if (share <= most) continue;
        best = lease;
        most = share;
    }
    return best;
}

/* Leases are asked for until what comes would be enough for each client that waits; where two count on the same, the
 * one that does not get it asks again. */
static bool decide_reclaim(scheduler *scheduler, scheduler_decision *out) {
    if (list_empty(&scheduler->leases) || scheduler->mutations.no_reclaim) return false;
    const resources back = coming(scheduler);
    const request *due = due_request(scheduler);
    list_for_each (at, &scheduler->clients) {
        client *client = container_of(at, struct client, place);
        resources left = back;
        uint32_t will_get = 0;
        list_for_each (item, &client->requests) {
            request *request = container_of(item, struct request, place);
            if (resources_fit(&request->need, &left)) {
                resources_take(&left, &request->need);
                will_get++;
                continue;
            }
            uint32_t will_have = request == due ? 0 : will_get + share_of(scheduler, client, &request->need);
            lease *lease = lease_to_reclaim(scheduler, request, &left, will_have);
            if (lease == NULL || !can_come(scheduler, request)) continue;
            lease->reclaimed = true;
            *out = (scheduler_decision){.verb = SCHEDULER_RECLAIM,
                                        .client = lease->client->id,
                                        .lease = lease->id,
                                        .worker = lease->worker->id};
            return true;
        }
    }
    return false;
}

bool scheduler_next(scheduler *scheduler, scheduler_decision *out) {
    return decide_grant(scheduler, out) || decide_spawn(scheduler, out) || decide_reclaim(scheduler, out);
}

bool scheduler_impossible(const scheduler *scheduler, const resources *need) {
    return !resources_fit(need, &scheduler->total);
}

/* ---- Looking. */

scheduler_stats scheduler_stats_now(const scheduler *scheduler) {
    scheduler_stats stats = {.total = scheduler->total, .free = scheduler->free};
    list_for_each (at, &scheduler->clients) {
        stats.clients++;
        list_for_each (item, &container_of(at, client, place)->requests) stats.waiting++;
    }
    list_for_each (at, &scheduler->workers) {
        stats.workers++;
        stats.idle += is_idle(container_of(at, worker, place));
    }
    list_for_each (at, &scheduler->leases) stats.leases++;
    for (size_t i = 0; i < scheduler->program_count; i++) stats.starting += scheduler->programs[i].starting;
    return stats;
}

void scheduler_check(const scheduler *scheduler) {
    resources sum = scheduler->free;
    list_for_each (at, &scheduler->leases) {
        lease *lease = container_of(at, struct lease, place);
        MR_ASSERT(lease->worker->lease == lease && !lease->worker->kept);
        if (!lease->worker->blocked) resources_give(&sum, &lease->need);
    }
    list_for_each (at, &scheduler->workers) {
        worker *worker = container_of(at, struct worker, place);
        if (worker->kept && !worker->blocked) resources_give(&sum, &worker->kept_need);
    }
    MR_ASSERT(resources_equal(&sum, &scheduler->total));
    list_for_each (at, &scheduler->clients) {
        client *client = container_of(at, struct client, place);
        uint32_t leases = 0;
        list_for_each (item, &scheduler->leases) {
            lease *lease = container_of(item, struct lease, place);
            leases += lease->client == client;
        }
        MR_ASSERT(leases == client->lease_count);
    }
}

void scheduler_mutate(scheduler *scheduler, scheduler_mutations mutations) { scheduler->mutations = mutations; }

scheduler_sight scheduler_see(const scheduler *scheduler, uint64_t process) {
    scheduler_sight sight = {0};
    const worker *worker = find_worker(scheduler, process);
    sight.blocked = worker != NULL && worker->blocked;
    const client *client = find_client(scheduler, process);
    if (worker != NULL && worker->kept) {
        sight.kept = true;
        sight.need = worker->kept_need;
    } else if (worker != NULL && worker->lease != NULL) {
        sight.client = worker->lease->client->id;
        sight.need = worker->lease->need;
    }
    if (client != NULL)
        list_for_each (at, &client->requests) sight.requests++;
    return sight;
}
