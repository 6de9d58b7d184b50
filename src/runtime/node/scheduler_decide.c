/* scheduler_decide.c — see scheduler.h: decisions. A decision visits the waiting clients and all leases: few, even with
 * a thousand workers. Tested by src/runtime/node/scheduler_test.c. */
#include <stdlib.h>

#include "base/alloc.h"
#include "base/mutation.h"
#include "runtime/node/scheduler_internal.h"

/* An idle worker for the client, but never the client itself: a worker whose task has left tasks of its own is a
 * client, too. */
static worker *idle_worker(const scheduler *scheduler, const client *client) {
    const program *program = client->program;
    list_for_each_item (worker, &program->idle, struct worker, place)
        if (worker->id != client->id) return worker;
    if (!MUTATED("no-idle-check")) return NULL;
    map_for_each (slot, &scheduler->workers) {
        worker *worker = slot.value;
        if (worker->program == program && worker->lease == NULL && !worker->kept) return worker;
    }
    return NULL;
}

/* ---- Counts of remaining resources. A count begins with all free (and returning) resources of each pool, set when the
 * count first uses the pool. */

/* Free resources, and resources of reclaimed leases that clients will return. */
static resources coming(const scheduler *scheduler, const pool *pool) {
    resources coming = pool->free;
    list_for_each_item (lease, &scheduler->leases, struct granted_lease, place)
        if (lease->pool == pool && lease->reclaimed && !lease->worker->blocked) resources_give(&coming, &lease->need);
    return coming;
}

typedef enum counting { FREE, FREE_AND_COMING } counting;

static void begin_count(scheduler *scheduler) { scheduler->count++; }

static resources *left_in(const scheduler *scheduler, pool *pool, counting what) {
    if (pool->counted == scheduler->count) return &pool->left;
    pool->counted = scheduler->count;
    pool->left = what == FREE ? pool->free : coming(scheduler, pool);
    return &pool->left;
}

/* Pool for the request: of all suitable bundles the first that has room, else the first that can ever have room. */
static pool *pool_of(scheduler *scheduler, const request *request, counting what) {
    group *group = request->group;
    if (group == NULL || request->places) return &scheduler->machine;
    if (request->need.bundle != 0) return &group->bundles[request->need.bundle - 1];
    pool *best = NULL;
    for (uint32_t i = 0; i < group->count; i++) {
        pool *pool = &group->bundles[i];
        if (resources_fit(&request->need, left_in(scheduler, pool, what))) return pool;
        if (best == NULL && resources_fit(&request->need, &pool->total)) best = pool;
    }
    return best != NULL ? best : &group->bundles[0];
}

static bool can_be_met(const request *request) {
    return request->group == NULL || (request->places ? !request->group->never : request->group->placed);
}

/* If the request fits into the remaining resources, takes them and returns true. */
static bool count_in(scheduler *scheduler, const request *request, counting what) {
    if (!can_be_met(request)) return false;
    resources *left = left_in(scheduler, pool_of(scheduler, request, what), what);
    if (!resources_fit(&request->need, left)) return false;
    resources_take(left, &request->need);
    return true;
}

static bool would_fit(scheduler *scheduler, const request *request) {
    return can_be_met(request) &&
           resources_fit(&request->need, left_in(scheduler, pool_of(scheduler, request, FREE), FREE));
}

/* ---- Choice of the next request. */

static bool share_a_kind(const resources *a, const resources *b) {
    for (uint32_t i = 0; i < a->count; i++)
        if (resources_milli(b, a->items[i].name) > 0) return true;
    return false;
}

typedef struct share { /* numbers of leases */
    uint32_t program, client;
} share;

/* Whether the lease takes from a pool that can meet the request. */
static bool same_ground(const granted_lease *lease, const request *request) {
    const group *group = request->places ? NULL : request->group;
    if (lease->pool->group != group) return false;
    return group == NULL || request->need.bundle == 0 || lease->pool == &group->bundles[request->need.bundle - 1];
}

/* Leases of a client and of its whole program that take some of `need` from a pool that can meet the request; `left`:
 * without reclaimed leases. Leases of blocked workers do not count, since their resources are released. */
static share share_of(const scheduler *scheduler, const client *client, const request *request, const resources *need,
                      bool left) {
    share share = {0};
    list_for_each_item (lease, &scheduler->leases, struct granted_lease, place) {
        if (lease->client->program != client->program || lease->worker->blocked || (left && lease->reclaimed)) continue;
        if (!same_ground(lease, request) || !share_a_kind(&lease->need, need)) continue;
        share.program++;
        share.client += lease->client == client;
    }
    return share;
}

static bool has_none(const scheduler *scheduler, const request *request) {
    return request->client->lease_count == 0 ||
           share_of(scheduler, request->client, request, &request->need, false).client == 0;
}

/* Whether the request fits if all leases are returned. Actors and placed groups stay. */
static bool can_come(const request *request, const pool *pool) {
    return can_be_met(request) && resources_fit(&request->need, &pool->beside_actors);
}

static bool is_the_machines(const request *request) { return request->group == NULL || request->places; }

/* The oldest request that was passed SCHEDULER_PATIENCE times and whose client has none of the resources. */
static request *due_request(const scheduler *scheduler) {
    request *due = NULL;
    if (MUTATED("no-patience")) return NULL;
    list_for_each_item (client, &scheduler->asking, struct client, place) {
        list_for_each_item (request, &client->requests, struct request, place) {
            if (request->passed < SCHEDULER_PATIENCE || (due != NULL && request->order > due->order)) continue;
            if (has_none(scheduler, request) && can_come(request, &scheduler->machine)) due = request;
        }
    }
    return due;
}

/* The client's first request that fits and needs no worker or has one; NULL: none. */
static request *first_fitting(scheduler *scheduler, const client *client, const worker *worker) {
    list_for_each_item (request, &client->requests, struct request, place)
        if ((worker != NULL || request->places) && would_fit(scheduler, request)) return request;
    return NULL;
}

static bool comes_before(const scheduler *scheduler, const request *a, const request *b) {
    share one = share_of(scheduler, a->client, a, &a->need, false),
          other = share_of(scheduler, b->client, b, &b->need, false);
    if (MUTATED("no-shares")) return a->order < b->order;
    if (one.program != other.program) return one.program < other.program;
    return one.client != other.client ? one.client < other.client : a->order < b->order;
}

static void note_passed(scheduler *scheduler, const request *granted) {
    if (!is_the_machines(granted)) return;
    list_for_each_item (client, &scheduler->asking, struct client, place) {
        list_for_each_item (request, &client->requests, struct request, place) {
            if (request->order >= granted->order) break;
            if (is_the_machines(request) && has_none(scheduler, request)) request->passed++;
        }
    }
}

static request *best_request(scheduler *scheduler, worker **idle) {
    request *best = NULL, *due = due_request(scheduler);
    begin_count(scheduler);
    if (due != NULL) {
        *idle = idle_worker(scheduler, due->client);
        if ((*idle != NULL || due->places) && would_fit(scheduler, due)) return due;
        resources_take(left_in(scheduler, &scheduler->machine, FREE), &due->need); /* reserved for `due` */
    }
    list_for_each_item (client, &scheduler->asking, struct client, place) {
        worker *worker = idle_worker(scheduler, client);
        request *request = first_fitting(scheduler, client, worker);
        if (request == NULL || (best != NULL && !comes_before(scheduler, request, best))) continue;
        best = request;
        *idle = worker;
    }
    return best;
}

/* Moves the resources of the request from the machine to its group. */
static void place(scheduler *scheduler, request *request, scheduler_decision *out) {
    resources_take(&scheduler->machine.free, &request->need);
    resources_take(&scheduler->machine.beside_actors, &request->need);
    request->group->placed = true;
    *out = (scheduler_decision){.verb = SCHEDULER_PLACED, .client = request->client->id, .ticket = request->ticket};
    scheduler_drop_request(scheduler, request);
}

static bool decide_grant(scheduler *scheduler, scheduler_decision *out) {
    worker *idle = NULL;
    request *best = best_request(scheduler, &idle);
    if (best == NULL) return false;
    note_passed(scheduler, best);
    if (best->places) {
        place(scheduler, best, out);
        return true;
    }
    granted_lease *lease = XNEW(struct granted_lease, .id = scheduler->next_lease++, .client = best->client,
                                .worker = idle, .need = best->need, .pool = pool_of(scheduler, best, FREE));
    list_push_back(&scheduler->leases, &lease->place);
    map_put(&scheduler->leases_by_id, lease->id, lease);
    idle->lease = lease;
    scheduler_settle(idle);
    best->client->lease_count++;
    resources_take(&lease->pool->free, &best->need);
    *out = (scheduler_decision){.verb = SCHEDULER_GRANT,
                                .client = best->client->id,
                                .ticket = best->ticket,
                                .lease = lease->id,
                                .worker = idle->id,
                                .program = idle->program->number};
    scheduler_drop_request(scheduler, best);
    return true;
}

/* Whether the due request lacks only a worker: no worker is idle, or only the client itself. All other requests wait
 * for it. */
static bool due_lacks_worker(const scheduler *scheduler, const program *program) {
    const request *due = due_request(scheduler);
    if (due == NULL || due->places || due->client->program != program || program->starting > 0) return false;
    return idle_worker(scheduler, due->client) == NULL && resources_fit(&due->need, &scheduler->machine.free);
}

/* Whether to start a worker of the program: for `prestart`, for the due request, or since more requests fit now than
 * workers are idle or starting. */
static bool wants_more(scheduler *scheduler, const program *program) {
    if (!program->ended && program->workers + program->starting < scheduler->prestart) return true;
    if (due_lacks_worker(scheduler, program)) return true;
    begin_count(scheduler);
    uint32_t ready = program->idle_count + program->starting, count = 0;
    list_for_each_item (client, &scheduler->asking, struct client, place) {
        if (client->program != program) continue;
        const worker *itself = map_get(&scheduler->workers, client->id);
        uint32_t useless = itself != NULL && itself->is_idle ? 1 : 0;
        list_for_each_item (request, &client->requests, struct request, place) {
            if (request->places || !count_in(scheduler, request, FREE)) continue;
            if (++count + useless > ready) return true;
        }
    }
    return false;
}

/* Starts a worker of the program with the fewest starting workers, so that no program waits for many starts of
 * another. */
static bool decide_spawn(scheduler *scheduler, scheduler_decision *out) {
    if (scheduler->starting >= SCHEDULER_STARTING_MAX) return false;
    program *best = NULL;
    list_for_each_item (program, &scheduler->programs, struct program, place) {
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
    const worker *worker = container_of(first, struct worker, place);
    if (worker->evicted && MUTATED("no-group-end")) return false;
    *out = (scheduler_decision){.verb = SCHEDULER_END, .worker = worker->id, .evicted = worker->evicted};
    return true;
}

static bool decide_refuse(scheduler *scheduler, scheduler_decision *out) {
    list *first = MUTATED("no-refuse") ? NULL : list_pop_front(&scheduler->refused);
    if (first == NULL) return false;
    request *request = container_of(first, struct request, place);
    *out = (scheduler_decision){.verb = SCHEDULER_REFUSE, .client = request->client->id, .ticket = request->ticket};
    free(request);
    return true;
}

/* The kinds in the request's need that `coming` does not cover. */
static resources lacking(const request *request, const resources *coming) {
    resources lacking = {0};
    for (uint32_t i = 0; i < request->need.count; i++) {
        const resource *item = &request->need.items[i];
        if (resources_milli(coming, item->name) < item->milli) lacking.items[lacking.count++] = *item;
    }
    return lacking;
}

/* The client's share of `lack`, including earlier requests that free and returning resources will meet. */
static share share_to_come(const scheduler *scheduler, const request *request, const resources *lack) {
    share share = share_of(scheduler, request->client, request, lack, false);
    list_for_each_item (earlier, &request->client->requests, const struct request, place) {
        if (earlier == request) break;
        bool counts = earlier->comes && share_a_kind(&earlier->need, lack);
        share.program += counts;
        share.client += counts;
    }
    return share;
}

/* The lease to reclaim: of the program with most leases, there of the client with most. Another program must have more
 * than the requesting program will have; a client of the same program, more than the requesting client will have. */
static granted_lease *lease_to_reclaim(const scheduler *scheduler, const request *request, const pool *pool,
                                       const resources *lack, share will_have) {
    granted_lease *best = NULL;
    share most = {0};
    list_for_each_item (lease, &scheduler->leases, struct granted_lease, place) {
        if (lease->client == request->client || lease->reclaimed || lease->worker->blocked) continue;
        if (lease->pool != pool || !share_a_kind(&lease->need, lack)) continue;
        share left = share_of(scheduler, lease->client, request, lack, true);
        bool ours = lease->client->program == request->client->program;
        if (ours ? left.client <= will_have.client : left.program <= will_have.program) continue;
        bool more = left.program != most.program ? left.program > most.program : left.client > most.client;
        if (best != NULL && !more) continue;
        best = lease;
        most = left;
    }
    return best;
}

/* Reclaims leases until the returning resources are enough for each waiting client alone. If two clients count on the
 * same resources, the one that does not get them reclaims again. */
static bool decide_reclaim(scheduler *scheduler, scheduler_decision *out) {
    if (list_empty(&scheduler->leases) || MUTATED("no-reclaim")) return false;
    const request *due = due_request(scheduler);
    list_for_each_item (client, &scheduler->asking, struct client, place) {
        begin_count(scheduler);
        list_for_each_item (request, &client->requests, struct request, place) {
            request->comes = count_in(scheduler, request, FREE_AND_COMING);
            if (request->comes || !can_be_met(request)) continue;
            pool *pool = pool_of(scheduler, request, FREE_AND_COMING);
            const resources lack = lacking(request, left_in(scheduler, pool, FREE_AND_COMING));
            share will_have = request == due ? (share){0} : share_to_come(scheduler, request, &lack);
            granted_lease *lease = lease_to_reclaim(scheduler, request, pool, &lack, will_have);
            if (lease == NULL || !can_come(request, pool)) continue;
            lease->reclaimed = true;
            *out = (scheduler_decision){.verb = SCHEDULER_RECLAIM, .client = lease->client->id, .lease = lease->id};
            return true;
        }
    }
    return false;
}

bool scheduler_next(scheduler *scheduler, scheduler_decision *out) {
    return decide_end(scheduler, out) || decide_refuse(scheduler, out) || decide_grant(scheduler, out) ||
           decide_spawn(scheduler, out) || decide_reclaim(scheduler, out);
}
