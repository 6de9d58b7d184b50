/* scheduler.c — see scheduler.h. Decisions look at the clients that ask and at all leases: few, even where there are a
 * thousand workers. */
#include "runtime/scheduler.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"
#include "base/list.h"
#include "base/map.h"

typedef struct program {
    list place; /* in scheduler.programs */
    uint32_t number;
    uint32_t clients, starting;
    uint32_t workers; /* that are nobody's for good, and not to end */
    uint32_t others;  /* the rest of them */
    list idle;        /* of worker: those that wait longest behind, their caches are cold */
    uint32_t idle_count;
    bool barred, ended;
} program;

typedef struct client {
    list place; /* in scheduler.asking while it has requests, else in scheduler.quiet */
    uint64_t id;
    program *program;
    uint32_t lease_count;
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
    list place; /* in its program's idle while it is, in scheduler.endings before its END, else alone */
    uint64_t id;
    program *program;
    struct lease *lease; /* NULL: idle, kept or spent */
    bool kept;           /* an actor has it for good */
    bool blocked;        /* it waits inside a body: what it has taken is others' meanwhile */
    bool spent;          /* it is to end */
    bool is_idle;
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

struct scheduler {
    resources total, free;
    resources beside_actors; /* the total less what actors have for good */
    uint32_t prestart, starting;
    list asking, quiet; /* of client */
    list leases, programs, endings;
    map clients, workers, leases_by_id; /* by id */
    uint64_t next_lease, next_order;
    scheduler_mutations mutations;
};

scheduler *scheduler_create(const resources *total, uint32_t prestart) {
    scheduler *scheduler = xcalloc(1, sizeof *scheduler);
    scheduler->total = scheduler->free = scheduler->beside_actors = *total;
    scheduler->prestart = prestart;
    scheduler->next_lease = 1;
    list_init(&scheduler->asking);
    list_init(&scheduler->quiet);
    list_init(&scheduler->leases);
    list_init(&scheduler->programs);
    list_init(&scheduler->endings);
    return scheduler;
}

/* ---- Finding. */

static client *find_client(const scheduler *scheduler, uint64_t id) { return map_get(&scheduler->clients, id); }

static worker *find_worker(const scheduler *scheduler, uint64_t id) { return map_get(&scheduler->workers, id); }

static lease *find_lease(const scheduler *scheduler, uint64_t client, uint64_t id) {
    lease *lease = map_get(&scheduler->leases_by_id, id);
    return lease != NULL && lease->client->id == client ? lease : NULL;
}

static program *find_program(const scheduler *scheduler, uint32_t number) {
    list_for_each (at, &scheduler->programs) {
        program *program = container_of(at, struct program, place);
        if (program->number == number) return program;
    }
    return NULL;
}

static program *program_of(scheduler *scheduler, uint32_t number) {
    program *program = find_program(scheduler, number);
    if (program != NULL) return program;
    program = xcalloc(1, sizeof *program);
    program->number = number;
    list_init(&program->idle);
    list_push_back(&scheduler->programs, &program->place);
    return program;
}

/* Nothing is left of it, and nobody will speak of it. */
static void forget_if_over(program *program) {
    if (!program->ended || program->clients + program->workers + program->others + program->starting > 0) return;
    list_remove(&program->place);
    free(program);
}

/* One that blocks without a lease is still at work for a client that is gone. */
static bool can_be_granted(const worker *worker) {
    return worker->lease == NULL && !worker->kept && !worker->blocked && !worker->spent;
}

/* After a change of what can_be_granted looks at. */
static void settle(worker *worker) {
    program *program = worker->program;
    bool idle = can_be_granted(worker);
    if (idle == worker->is_idle) return;
    worker->is_idle = idle;
    program->idle_count += idle ? 1 : -1;
    if (idle)
        list_push_front(&program->idle, &worker->place);
    else
        list_remove(&worker->place);
}

/* One that the client can use: not itself, if it is a worker whose last task has left some of its own behind. */
static worker *idle_worker(const scheduler *scheduler, const client *client) {
    const program *program = client->program;
    list_for_each (at, &program->idle) {
        worker *worker = container_of(at, struct worker, place);
        if (worker->id != client->id) return worker;
    }
    map_slot slot;
    if (!scheduler->mutations.no_idle_check) return NULL;
    for (size_t at = 0; (at = map_next(&scheduler->workers, at, &slot)) != 0;) {
        worker *worker = slot.value;
        if (worker->program == program && worker->lease == NULL && !worker->kept) return worker;
    }
    return NULL;
}

/* ---- Ending things. */

static void drop_request(scheduler *scheduler, request *request) {
    client *client = request->client;
    list_remove(&request->place);
    free(request);
    if (!list_empty(&client->requests)) return;
    list_remove(&client->place);
    list_push_back(&scheduler->quiet, &client->place);
}

static void end_lease(scheduler *scheduler, lease *lease) {
    if (!lease->worker->blocked) resources_give(&scheduler->free, &lease->need);
    lease->client->lease_count--;
    lease->worker->lease = NULL;
    settle(lease->worker);
    map_remove(&scheduler->leases_by_id, lease->id);
    list_remove(&lease->place);
    free(lease);
}

static void drop_worker(scheduler *scheduler, worker *worker) {
    program *program = worker->program;
    if (worker->lease != NULL) end_lease(scheduler, worker->lease);
    if (worker->kept) resources_give(&scheduler->beside_actors, &worker->kept_need);
    if (worker->kept && !worker->blocked) resources_give(&scheduler->free, &worker->kept_need);
    if (worker->is_idle) program->idle_count--;
    if (worker->kept || worker->spent)
        program->others--;
    else
        program->workers--;
    list_remove(&worker->place);
    map_remove(&scheduler->workers, worker->id);
    free(worker);
    forget_if_over(program);
}

/* Its lease ends, and it is not used again: nobody knows what it still does. */
static void spend(scheduler *scheduler, worker *worker) {
    worker->spent = true;
    end_lease(scheduler, worker->lease);
    worker->program->workers--;
    worker->program->others++;
    list_push_back(&scheduler->endings, &worker->place);
}

void scheduler_destroy(scheduler *scheduler) {
    map_slot slot;
    while (map_next(&scheduler->clients, 0, &slot) != 0) scheduler_client_gone(scheduler, slot.key);
    while (map_next(&scheduler->workers, 0, &slot) != 0) drop_worker(scheduler, slot.value);
    for (list *at; (at = list_pop_front(&scheduler->programs)) != NULL;) free(container_of(at, program, place));
    map_fini(&scheduler->clients);
    map_fini(&scheduler->workers);
    map_fini(&scheduler->leases_by_id);
    free(scheduler);
}

/* ---- Events. */

void scheduler_client_add(scheduler *scheduler, uint64_t id, uint32_t program) {
    MR_ASSERT(find_client(scheduler, id) == NULL);
    client *client = xcalloc(1, sizeof *client);
    client->id = id;
    client->program = program_of(scheduler, program);
    client->program->clients++;
    list_init(&client->requests);
    list_push_back(&scheduler->quiet, &client->place);
    map_put(&scheduler->clients, id, client);
}

void scheduler_client_gone(scheduler *scheduler, uint64_t id) {
    client *client = find_client(scheduler, id);
    if (client == NULL) return;
    program *program = client->program;
    while (!list_empty(&client->requests)) drop_request(scheduler, container_of(client->requests.next, request, place));
    list_for_each (at, &scheduler->leases) {
        lease *lease = container_of(at, struct lease, place);
        if (lease->client == client) spend(scheduler, lease->worker);
    }
    map_remove(&scheduler->clients, id);
    list_remove(&client->place);
    free(client);
    program->clients--;
    forget_if_over(program);
}

void scheduler_program_ended(scheduler *scheduler, uint32_t number) {
    program *program = find_program(scheduler, number);
    if (program == NULL) return;
    program->ended = true;
    forget_if_over(program);
}

void scheduler_worker_add(scheduler *scheduler, uint64_t id, uint32_t number) {
    MR_ASSERT(find_worker(scheduler, id) == NULL);
    program *program = program_of(scheduler, number);
    worker *worker = xcalloc(1, sizeof *worker);
    worker->id = id;
    worker->program = program;
    worker->is_idle = true;
    program->workers++;
    program->idle_count++;
    list_push_back(&program->idle, &worker->place);
    map_put(&scheduler->workers, id, worker);
    scheduler_spawn_failed(scheduler, number); /* it is on its way no longer */
}

void scheduler_worker_gone(scheduler *scheduler, uint64_t id) {
    worker *worker = find_worker(scheduler, id);
    if (worker != NULL) drop_worker(scheduler, worker);
}

void scheduler_spawn_failed(scheduler *scheduler, uint32_t number) {
    program *program = find_program(scheduler, number);
    if (program == NULL || program->starting == 0) return;
    program->starting--;
    scheduler->starting--;
    forget_if_over(program);
}

void scheduler_bar(scheduler *scheduler, uint32_t number, bool barred) {
    program *program = find_program(scheduler, number);
    if (program != NULL) program->barred = barred;
}

void scheduler_request(scheduler *scheduler, uint64_t id, uint64_t ticket, const resources *need) {
    client *client = find_client(scheduler, id);
    MR_ASSERT(client != NULL);
    request *request = xcalloc(1, sizeof *request);
    *request = (struct request){.client = client, .ticket = ticket, .order = scheduler->next_order++, .need = *need};
    if (list_empty(&client->requests)) {
        list_remove(&client->place);
        list_push_back(&scheduler->asking, &client->place);
    }
    list_push_back(&client->requests, &request->place);
}

void scheduler_cancel(scheduler *scheduler, uint64_t id, uint64_t ticket) {
    client *client = find_client(scheduler, id);
    if (client == NULL) return;
    list_for_each (at, &client->requests) {
        request *request = container_of(at, struct request, place);
        if (request->ticket != ticket) continue;
        drop_request(scheduler, request);
        return;
    }
}

mr_status scheduler_release(scheduler *scheduler, uint64_t client, uint64_t id, bool keep_worker) {
    lease *lease = find_lease(scheduler, client, id);
    if (lease == NULL) return error_set(MR_NOT_FOUND, "no such lease");
    if (keep_worker)
        end_lease(scheduler, lease);
    else
        spend(scheduler, lease->worker);
    return MR_OK;
}

void scheduler_block(scheduler *scheduler, uint64_t id, bool blocked) {
    worker *worker = find_worker(scheduler, id);
    if (worker == NULL || worker->blocked == blocked) return;
    worker->blocked = blocked;
    settle(worker);
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
    settle(worker);
    worker->program->workers--;
    worker->program->others++;
    resources_take(&scheduler->beside_actors, from_now_on);
    if (!worker->blocked) resources_take(&scheduler->free, from_now_on);
    return MR_OK;
}

/* ---- Deciding. */

static bool share_a_kind(const resources *a, const resources *b) {
    for (uint32_t i = 0; i < a->count; i++)
        if (resources_milli(b, a->items[i].name) > 0) return true;
    return false;
}

typedef struct share { /* how many leases */
    uint32_t program, client;
} share;

/* How many leases a client and its whole program have that take of what is needed; `left`: without those that they were
 * asked for. */
static share share_of(const scheduler *scheduler, const client *client, const resources *need, bool left) {
    share share = {0};
    list_for_each (at, &scheduler->leases) {
        lease *lease = container_of(at, struct lease, place);
        if (lease->client->program != client->program || (left && lease->reclaimed)) continue;
        if (!share_a_kind(&lease->need, need)) continue;
        share.program++;
        share.client += lease->client == client;
    }
    return share;
}

static bool has_none(const scheduler *scheduler, const client *client, const resources *need) {
    return client->lease_count == 0 || share_of(scheduler, client, need, false).client == 0;
}

/* It would fit if only the actors were there, which stay. */
static bool can_come(const scheduler *scheduler, const request *request) {
    return resources_fit(&request->need, &scheduler->beside_actors);
}

/* The oldest of those that were passed too often, and have nothing yet. */
static request *due_request(const scheduler *scheduler) {
    request *due = NULL;
    if (scheduler->mutations.no_patience) return NULL;
    list_for_each (at, &scheduler->asking) {
        list_for_each (item, &container_of(at, client, place)->requests) {
            request *request = container_of(item, struct request, place);
            if (request->passed < SCHEDULER_PATIENCE || (due != NULL && request->order > due->order)) continue;
            if (has_none(scheduler, request->client, &request->need) && can_come(scheduler, request)) due = request;
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
    share one = share_of(scheduler, a->client, &a->need, false),
          other = share_of(scheduler, b->client, &b->need, false);
    if (scheduler->mutations.no_shares) return a->order < b->order;
    if (one.program != other.program) return one.program < other.program;
    return one.client != other.client ? one.client < other.client : a->order < b->order;
}

static void note_passed(scheduler *scheduler, const request *granted) {
    list_for_each (at, &scheduler->asking) {
        client *client = container_of(at, struct client, place);
        list_for_each (item, &client->requests) {
            request *request = container_of(item, struct request, place);
            if (request->order >= granted->order) break;
            if (has_none(scheduler, client, &request->need)) request->passed++;
        }
    }
}

static request *best_request(const scheduler *scheduler, worker **idle) {
    resources left = scheduler->free;
    request *best = NULL, *due = due_request(scheduler);
    if (due != NULL) {
        *idle = idle_worker(scheduler, due->client);
        if (*idle != NULL && resources_fit(&due->need, &left)) return due;
        resources_take(&left, &due->need); /* it is kept for it */
    }
    list_for_each (at, &scheduler->asking) {
        client *client = container_of(at, struct client, place);
        worker *worker = idle_worker(scheduler, client);
        if (worker == NULL) continue;
        request *request = first_fitting(client, &left);
        if (request == NULL || (best != NULL && !comes_before(scheduler, request, best))) continue;
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
    map_put(&scheduler->leases_by_id, lease->id, lease);
    idle->lease = lease;
    settle(idle);
    best->client->lease_count++;
    resources_take(&scheduler->free, &best->need);
    *out = (scheduler_decision){.verb = SCHEDULER_GRANT,
                                .client = best->client->id,
                                .ticket = best->ticket,
                                .lease = lease->id,
                                .worker = idle->id,
                                .program = idle->program->number};
    drop_request(scheduler, best);
    return true;
}

/* The due request waits for nothing but a worker: what is idle is its own client. All others wait for it. */
static bool due_lacks_worker(const scheduler *scheduler, const program *program) {
    const request *due = due_request(scheduler);
    if (due == NULL || due->client->program != program || program->starting > 0) return false;
    return idle_worker(scheduler, due->client) == NULL && resources_fit(&due->need, &scheduler->free);
}

/* True if more workers of a program than are idle or on their way could be put to use now. */
static bool wants_more(const scheduler *scheduler, const program *program) {
    if (!program->ended && program->workers + program->starting < scheduler->prestart) return true;
    if (due_lacks_worker(scheduler, program)) return true;
    resources left = scheduler->free;
    uint32_t ready = program->idle_count + program->starting, count = 0;
    list_for_each (at, &scheduler->asking) {
        client *client = container_of(at, struct client, place);
        if (client->program != program) continue;
        const worker *itself = map_get(&scheduler->workers, client->id);
        uint32_t useless = itself != NULL && itself->is_idle ? 1 : 0;
        list_for_each (item, &client->requests) {
            request *request = container_of(item, struct request, place);
            if (!resources_fit(&request->need, &left)) continue;
            resources_take(&left, &request->need);
            if (++count + useless > ready) return true;
        }
    }
    return false;
}

/* The program with the fewest on their way is next, so that none waits for another's thousand. */
static bool decide_spawn(scheduler *scheduler, scheduler_decision *out) {
    if (scheduler->starting >= SCHEDULER_STARTING_MAX) return false;
    program *best = NULL;
    list_for_each (at, &scheduler->programs) {
        program *program = container_of(at, struct program, place);
        if (program->clients == 0 || program->barred) continue;
        if (best != NULL && best->starting <= program->starting) continue;
        if (wants_more(scheduler, program)) best = program;
    }
    if (best == NULL) return false;
    best->starting++;
    scheduler->starting++;
    *out = (scheduler_decision){.verb = SCHEDULER_SPAWN, .program = best->number};
    return true;
}

static bool decide_end(scheduler *scheduler, scheduler_decision *out) {
    list *first = list_pop_front(&scheduler->endings);
    if (first == NULL) return false;
    *out = (scheduler_decision){.verb = SCHEDULER_END, .worker = container_of(first, worker, place)->id};
    return true;
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

/* The lease that is easiest to miss: of the program that keeps most, there of the client that does; of another program
 * only if that keeps more than ours will have, of our own only if the client does. */
static lease *lease_to_reclaim(const scheduler *scheduler, const request *request, const resources *coming,
                               share will_have) {
    lease *best = NULL;
    share most = {0};
    list_for_each (at, &scheduler->leases) {
        lease *lease = container_of(at, struct lease, place);
        if (lease->client == request->client || lease->reclaimed || lease->worker->blocked) continue;
        if (!helps(lease, request, coming)) continue;
        share left = share_of(scheduler, lease->client, &request->need, true);
        bool ours = lease->client->program == request->client->program;
        if (ours ? left.client <= will_have.client : left.program <= will_have.program) continue;
        bool more = left.program != most.program ? left.program > most.program : left.client > most.client;
        if (best != NULL && !more) continue;
        best = lease;
        most = left;
    }
    return best;
}

/* Leases are asked for until what comes would be enough for each client that waits; where two count on the same, the
 * one that does not get it asks again. */
static bool decide_reclaim(scheduler *scheduler, scheduler_decision *out) {
    if (list_empty(&scheduler->leases) || scheduler->mutations.no_reclaim) return false;
    const resources back = coming(scheduler);
    const request *due = due_request(scheduler);
    list_for_each (at, &scheduler->asking) {
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
            share will_have = {0};
            if (request != due) will_have = share_of(scheduler, client, &request->need, false);
            will_have.program += request == due ? 0 : will_get;
            will_have.client += request == due ? 0 : will_get;
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
    return decide_end(scheduler, out) || decide_grant(scheduler, out) || decide_spawn(scheduler, out) ||
           decide_reclaim(scheduler, out);
}

bool scheduler_impossible(const scheduler *scheduler, const resources *need) {
    return !resources_fit(need, &scheduler->total);
}

/* ---- Looking. */

scheduler_stats scheduler_stats_now(const scheduler *scheduler) {
    scheduler_stats stats = {.total = scheduler->total, .free = scheduler->free, .starting = scheduler->starting};
    stats.workers = (uint32_t)scheduler->workers.count;
    stats.clients = (uint32_t)scheduler->clients.count;
    stats.leases = (uint32_t)scheduler->leases_by_id.count;
    list_for_each (at, &scheduler->asking) {
        list_for_each (item, &container_of(at, client, place)->requests) stats.waiting++;
    }
    list_for_each (at, &scheduler->programs) stats.idle += container_of(at, program, place)->idle_count;
    return stats;
}

bool scheduler_program_runs(const scheduler *scheduler, uint32_t number) {
    const program *program = find_program(scheduler, number);
    return program != NULL && program->workers > 0;
}

static void check_client(const scheduler *scheduler, const client *client) {
    uint32_t leases = 0;
    list_for_each (item, &scheduler->leases) leases += container_of(item, lease, place)->client == client;
    MR_ASSERT(leases == client->lease_count);
}

static void check_program(const scheduler *scheduler, const program *program) {
    uint32_t clients = 0, workers = 0, others = 0, idle = 0;
    map_slot slot;
    for (size_t at = 0; (at = map_next(&scheduler->clients, at, &slot)) != 0;)
        clients += ((client *)slot.value)->program == program;
    for (size_t at = 0; (at = map_next(&scheduler->workers, at, &slot)) != 0;) {
        worker *worker = slot.value;
        if (worker->program != program) continue;
        MR_ASSERT(worker->is_idle == can_be_granted(worker));
        others += worker->kept || worker->spent;
        workers += !worker->kept && !worker->spent;
        idle += worker->is_idle;
    }
    MR_ASSERT(program->clients == clients && program->workers == workers);
    MR_ASSERT(program->others == others && program->idle_count == idle);
    MR_ASSERT(!program->ended || clients + workers + others + program->starting > 0);
}

static void check_resources(const scheduler *scheduler) {
    resources sum = scheduler->free, beside = scheduler->beside_actors;
    map_slot slot;
    list_for_each (at, &scheduler->leases) {
        lease *lease = container_of(at, struct lease, place);
        MR_ASSERT(lease->worker->lease == lease && !lease->worker->kept && !lease->worker->spent);
        if (!lease->worker->blocked) resources_give(&sum, &lease->need);
    }
    for (size_t at = 0; (at = map_next(&scheduler->workers, at, &slot)) != 0;) {
        worker *worker = slot.value;
        if (worker->kept) resources_give(&beside, &worker->kept_need);
        if (worker->kept && !worker->blocked) resources_give(&sum, &worker->kept_need);
    }
    MR_ASSERT(resources_equal(&sum, &scheduler->total) && resources_equal(&beside, &scheduler->total));
}

void scheduler_check(const scheduler *scheduler) {
    map_slot slot;
    uint32_t starting = 0;
    check_resources(scheduler);
    for (size_t at = 0; (at = map_next(&scheduler->clients, at, &slot)) != 0;) check_client(scheduler, slot.value);
    list_for_each (at, &scheduler->programs) {
        program *program = container_of(at, struct program, place);
        check_program(scheduler, program);
        starting += program->starting;
    }
    MR_ASSERT(starting == scheduler->starting && starting <= SCHEDULER_STARTING_MAX);
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
