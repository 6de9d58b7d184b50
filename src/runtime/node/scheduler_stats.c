/* scheduler_stats.c — see scheduler.h: queries, and the check of the invariants. */
#include "base/assert.h"
#include "runtime/node/scheduler_internal.h"

bool scheduler_impossible(const scheduler *scheduler, const resources *need) {
    return need->group == 0 && !resources_fit(need, &scheduler->machine.total);
}

scheduler_stats scheduler_stats_now(const scheduler *scheduler) {
    scheduler_stats stats = {
        .total = scheduler->machine.total, .free = scheduler->machine.free, .starting = scheduler->starting};
    stats.workers = (uint32_t)scheduler->workers.count;
    stats.clients = (uint32_t)scheduler->clients.count;
    stats.leases = (uint32_t)scheduler->leases_by_id.count;
    list_for_each_item (client, &scheduler->asking, struct client, place)
        list_for_each (at, &client->requests) stats.waiting++;
    list_for_each_item (program, &scheduler->programs, struct program, place) stats.idle += program->idle_count;
    return stats;
}

bool scheduler_has_leases(const scheduler *scheduler) { return scheduler->leases_by_id.count > 0; }

bool scheduler_program_runs(const scheduler *scheduler, uint32_t number) {
    const program *program = scheduler_program_of(scheduler, number);
    return program != NULL && program->workers > 0;
}

bool scheduler_program_blocked(const scheduler *scheduler, uint32_t number) {
    const program *program = scheduler_program_of(scheduler, number);
    if (program == NULL || program->starting > 0) return false;
    uint32_t blocked = 0;
    map_for_each (slot, &scheduler->workers) {
        const worker *worker = slot.value;
        blocked += worker->program == program && worker->blocked && !worker->kept && !worker->spent;
    }
    return blocked == program->workers;
}

scheduler_snapshot scheduler_see(const scheduler *scheduler, uint64_t process) {
    scheduler_snapshot snapshot = {0};
    const worker *worker = map_get(&scheduler->workers, process);
    snapshot.blocked = worker != NULL && worker->blocked;
    const client *client = map_get(&scheduler->clients, process);
    if (worker != NULL && worker->kept) {
        snapshot.kept = true;
        snapshot.need = worker->kept_need;
    } else if (worker != NULL && worker->lease != NULL) {
        snapshot.client = worker->lease->client->id;
        snapshot.need = worker->lease->need;
    }
    if (client != NULL)
        list_for_each (at, &client->requests) snapshot.requests++;
    return snapshot;
}

/* ---- Invariants. */

static void check_client(const scheduler *scheduler, const client *client) {
    uint32_t leases = 0;
    list_for_each_item (lease, &scheduler->leases, struct granted_lease, place) leases += lease->client == client;
    MR_ASSERT(leases == client->lease_count);
}

static void check_program(const scheduler *scheduler, const program *program) {
    uint32_t clients = 0, workers = 0, others = 0, idle = 0;
    map_for_each (slot, &scheduler->clients) clients += ((client *)slot.value)->program == program;
    map_for_each (slot, &scheduler->workers) {
        worker *worker = slot.value;
        if (worker->program != program) continue;
        MR_ASSERT(worker->is_idle == scheduler_can_grant(worker));
        others += worker->kept || worker->spent;
        workers += !worker->kept && !worker->spent;
        idle += worker->is_idle;
    }
    MR_ASSERT(program->clients == clients && program->workers == workers);
    MR_ASSERT(program->others == others && program->idle_count == idle);
    MR_ASSERT(!program->ended || clients + workers + others + program->starting > 0);
}

static void check_pool(const scheduler *scheduler, const pool *pool) {
    resources sum = pool->free, beside = pool->beside_actors;
    map_entry entry;
    list_for_each_item (lease, &scheduler->leases, struct granted_lease, place) {
        MR_ASSERT(lease->worker->lease == lease && !lease->worker->kept && !lease->worker->spent);
        if (lease->pool == pool && !lease->worker->blocked) resources_give(&sum, &lease->need);
    }
    map_for_each (slot, &scheduler->workers) {
        worker *worker = slot.value;
        if (!worker->kept || worker->kept_pool != pool) continue;
        resources_give(&beside, &worker->kept_need);
        if (!worker->blocked) resources_give(&sum, &worker->kept_need);
    }
    for (size_t at = 0; pool->group == NULL && (at = map_next(&scheduler->groups, at, &entry)) != 0;) {
        const group *group = entry.value;
        if (group->placed) resources_give(&sum, &group->sum);
        if (group->placed) resources_give(&beside, &group->sum);
    }
    MR_ASSERT(resources_equal(&sum, &pool->total) && resources_equal(&beside, &pool->total));
}

static void check_resources(const scheduler *scheduler) {
    check_pool(scheduler, &scheduler->machine);
    map_for_each (slot, &scheduler->groups) {
        const group *group = slot.value;
        for (uint32_t i = 0; i < group->count; i++) check_pool(scheduler, &group->bundles[i]);
    }
}

void scheduler_check(const scheduler *scheduler) {
    uint32_t starting = 0;
    check_resources(scheduler);
    map_for_each (slot, &scheduler->clients) check_client(scheduler, slot.value);
    list_for_each_item (program, &scheduler->programs, struct program, place) {
        check_program(scheduler, program);
        starting += program->starting;
    }
    MR_ASSERT(starting == scheduler->starting && starting <= SCHEDULER_STARTING_MAX);
}
