/* scheduler.c — see scheduler.h: events (clients, workers and requests that come and go). */
#include "runtime/node/scheduler.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"
#include "base/mutation.h"
#include "runtime/node/scheduler_internal.h"

scheduler *scheduler_create(const resources *total, uint32_t prestart) {
    scheduler *scheduler = xcalloc(1, sizeof *scheduler);
    scheduler->machine = (pool){.total = *total, .free = *total, .beside_actors = *total};
    scheduler->prestart = prestart;
    scheduler->next_lease = 1;
    list_init(&scheduler->asking);
    list_init(&scheduler->quiet);
    list_init(&scheduler->leases);
    list_init(&scheduler->programs);
    list_init(&scheduler->endings);
    list_init(&scheduler->refused);
    return scheduler;
}

/* ---- Lookup. */

static granted_lease *find_lease(const scheduler *scheduler, uint64_t client, uint64_t id) {
    granted_lease *lease = map_get(&scheduler->leases_by_id, id);
    return lease != NULL && lease->client->id == client ? lease : NULL;
}

program *scheduler_program_of(const scheduler *scheduler, uint32_t number) {
    list_for_each_item (program, &scheduler->programs, struct program, place)
        if (program->number == number) return program;
    return NULL;
}

static program *program_made(scheduler *scheduler, uint32_t number) {
    program *program = scheduler_program_of(scheduler, number);
    if (program != NULL) return program;
    program = XNEW(struct program, .number = number);
    list_init(&program->idle);
    list_push_back(&scheduler->programs, &program->place);
    return program;
}

/* Frees a program that has ended and has no clients, workers or starts left. */
static void forget_if_over(program *program) {
    if (!program->ended || program->clients + program->workers + program->others + program->starting > 0) return;
    list_remove(&program->place);
    free(program);
}

/* Whether the worker can get a lease. A blocked worker without a lease cannot: it still works for a client that is
 * gone. */
bool scheduler_can_grant(const worker *worker) {
    return worker->lease == NULL && !worker->kept && !worker->blocked && !worker->spent;
}

/* Updates the idle list; call after a change of what scheduler_can_grant reads. */
void scheduler_settle(worker *worker) {
    program *program = worker->program;
    bool idle = scheduler_can_grant(worker);
    if (idle == worker->is_idle) return;
    worker->is_idle = idle;
    program->idle_count += idle ? 1 : -1;
    if (idle)
        list_push_front(&program->idle, &worker->place);
    else
        list_remove(&worker->place);
}

/* ---- Ends of requests, leases and workers. */

void scheduler_drop_request(scheduler *scheduler, request *request) {
    client *client = request->client;
    list_remove(&request->place);
    free(request);
    if (!list_empty(&client->requests)) return;
    list_remove(&client->place);
    list_push_back(&scheduler->quiet, &client->place);
}

void scheduler_end_lease(scheduler *scheduler, granted_lease *lease) {
    if (!lease->worker->blocked) resources_give(&lease->pool->free, &lease->need);
    lease->client->lease_count--;
    lease->worker->lease = NULL;
    scheduler_settle(lease->worker);
    map_remove(&scheduler->leases_by_id, lease->id);
    list_remove(&lease->place);
    free(lease);
}

static void drop_worker(scheduler *scheduler, worker *worker) {
    program *program = worker->program;
    if (worker->lease != NULL) scheduler_end_lease(scheduler, worker->lease);
    if (worker->kept) resources_give(&worker->kept_pool->beside_actors, &worker->kept_need);
    if (worker->kept && !worker->blocked) resources_give(&worker->kept_pool->free, &worker->kept_need);
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

/* Ends the lease. The worker is not reused: its remaining work is unknown. */
void scheduler_spend(scheduler *scheduler, worker *worker) {
    worker->spent = true;
    scheduler_end_lease(scheduler, worker->lease);
    worker->program->workers--;
    worker->program->others++;
    list_push_back(&scheduler->endings, &worker->place);
}

void scheduler_destroy(scheduler *scheduler) {
    map_entry entry;
    while (map_next(&scheduler->clients, 0, &entry) != 0) scheduler_client_gone(scheduler, entry.key);
    while (map_next(&scheduler->workers, 0, &entry) != 0) drop_worker(scheduler, entry.value);
    for (list *at; (at = list_pop_front(&scheduler->programs)) != NULL;) free(container_of(at, program, place));
    map_fini(&scheduler->clients);
    map_fini(&scheduler->workers);
    map_fini(&scheduler->leases_by_id);
    for (list *at; (at = list_pop_front(&scheduler->refused)) != NULL;) free(container_of(at, request, place));
    for (map_entry at; map_next(&scheduler->groups, 0, &at) != 0;) free(map_remove(&scheduler->groups, at.key));
    map_fini(&scheduler->groups);
    free(scheduler);
}

/* ---- Events. */

void scheduler_client_add(scheduler *scheduler, uint64_t id, uint32_t program) {
    MR_ASSERT(map_get(&scheduler->clients, id) == NULL);
    client *client = XNEW(struct client, .id = id, .program = program_made(scheduler, program));
    client->program->clients++;
    list_init(&client->requests);
    list_push_back(&scheduler->quiet, &client->place);
    map_put(&scheduler->clients, id, client);
}

/* Frees the client's refused request with that ticket; NULL: all its refused requests. */
static void drop_refused(scheduler *scheduler, const client *client, const uint64_t *ticket) {
    list_for_each_item (request, &scheduler->refused, struct request, place) {
        if (request->client != client || (ticket != NULL && request->ticket != *ticket)) continue;
        list_remove(&request->place);
        free(request);
    }
}

void scheduler_client_gone(scheduler *scheduler, uint64_t id) {
    client *client = map_get(&scheduler->clients, id);
    if (client == NULL) return;
    program *program = client->program;
    while (!list_empty(&client->requests))
        scheduler_drop_request(scheduler, container_of(client->requests.next, request, place));
    drop_refused(scheduler, client, NULL);
    list_for_each_item (lease, &scheduler->leases, struct granted_lease, place)
        if (lease->client == client) scheduler_spend(scheduler, lease->worker);
    map_remove(&scheduler->clients, id);
    list_remove(&client->place);
    free(client);
    program->clients--;
    forget_if_over(program);
}

void scheduler_program_ended(scheduler *scheduler, uint32_t number) {
    program *program = scheduler_program_of(scheduler, number);
    if (program == NULL) return;
    program->ended = true;
    forget_if_over(program);
}

void scheduler_worker_add(scheduler *scheduler, uint64_t id, uint32_t number) {
    MR_ASSERT(map_get(&scheduler->workers, id) == NULL);
    program *program = program_made(scheduler, number);
    worker *worker = XNEW(struct worker, .id = id, .program = program, .is_idle = true);
    program->workers++;
    program->idle_count++;
    list_push_back(&program->idle, &worker->place);
    map_put(&scheduler->workers, id, worker);
    scheduler_spawn_failed(scheduler, number); /* the worker is no longer counted as starting */
}

void scheduler_worker_gone(scheduler *scheduler, uint64_t id) {
    worker *worker = map_get(&scheduler->workers, id);
    if (worker != NULL) drop_worker(scheduler, worker);
}

void scheduler_spawn_failed(scheduler *scheduler, uint32_t number) {
    program *program = scheduler_program_of(scheduler, number);
    if (program == NULL || program->starting == 0) return;
    program->starting--;
    scheduler->starting--;
    forget_if_over(program);
}

void scheduler_bar(scheduler *scheduler, uint32_t number, bool barred) {
    program *program = scheduler_program_of(scheduler, number);
    if (program != NULL) program->barred = barred;
}

void scheduler_request(scheduler *scheduler, uint64_t id, uint64_t ticket, const resources *need) {
    client *client = map_get(&scheduler->clients, id);
    MR_ASSERT(client != NULL);
    request *request = XNEW(struct request, .client = client, .ticket = ticket, .order = scheduler->next_order++,
                            .need = *need, .group = need->group == 0 ? NULL : map_get(&scheduler->groups, need->group));
    MR_ASSERT(need->group == 0 || request->group != NULL);
    scheduler_enqueue(scheduler, request);
}

void scheduler_enqueue(scheduler *scheduler, request *request) {
    client *client = request->client;
    if (list_empty(&client->requests)) {
        list_remove(&client->place);
        list_push_back(&scheduler->asking, &client->place);
    }
    list_push_back(&client->requests, &request->place);
}

void scheduler_cancel(scheduler *scheduler, uint64_t id, uint64_t ticket) {
    client *client = map_get(&scheduler->clients, id);
    if (client == NULL) return;
    list_for_each_item (request, &client->requests, struct request, place) {
        if (request->ticket != ticket) continue;
        scheduler_drop_request(scheduler, request);
        return;
    }
    drop_refused(scheduler, client, &ticket);
}

mr_status scheduler_release(scheduler *scheduler, uint64_t client, uint64_t id, bool keep_worker) {
    granted_lease *lease = find_lease(scheduler, client, id);
    if (lease == NULL) return error_set(MR_NOT_FOUND, "unknown worker lease %llu", (unsigned long long)id);
    if (keep_worker)
        scheduler_end_lease(scheduler, lease);
    else
        scheduler_spend(scheduler, lease->worker);
    return MR_OK;
}

void scheduler_block(scheduler *scheduler, uint64_t id, bool blocked) {
    worker *worker = map_get(&scheduler->workers, id);
    if (worker == NULL || worker->blocked == blocked) return;
    worker->blocked = blocked;
    scheduler_settle(worker);
    const resources *taken = worker->lease != NULL ? &worker->lease->need : worker->kept ? &worker->kept_need : NULL;
    if (taken == NULL || MUTATED("no-lending")) return;
    pool *pool = worker->lease != NULL ? worker->lease->pool : worker->kept_pool;
    if (blocked)
        resources_give(&pool->free, taken);
    else
        resources_take(&pool->free, taken);
}

mr_status scheduler_keep(scheduler *scheduler, uint64_t client, uint64_t id, const resources *from_now_on) {
    granted_lease *lease = find_lease(scheduler, client, id);
    if (lease == NULL) return error_set(MR_NOT_FOUND, "unknown worker lease %llu", (unsigned long long)id);
    worker *worker = lease->worker;
    pool *pool = lease->pool;
    scheduler_end_lease(scheduler, lease);
    worker->kept = true;
    worker->kept_need = *from_now_on;
    worker->kept_pool = pool;
    scheduler_settle(worker);
    worker->program->workers--;
    worker->program->others++;
    resources_take(&pool->beside_actors, from_now_on);
    if (!worker->blocked) resources_take(&pool->free, from_now_on);
    return MR_OK;
}
