/* scheduler_bundles.c — see scheduler.h: placement groups. */
#include <stdlib.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"
#include "base/mutation.h"
#include "base/plural.h"
#include "runtime/node/scheduler_internal.h"

mr_status scheduler_group_add(scheduler *scheduler, uint64_t id, const resources *bundles, uint32_t count,
                              const scheduler_place *place) {
    client *client = map_get(&scheduler->clients, place->client);
    MR_ASSERT(id != 0 && count > 0 && client != NULL);
    if (map_get(&scheduler->groups, id) != NULL)
        return error_set(MR_EXISTS, "placement group %llx exists already", (unsigned long long)id);
    resources sum = {0};
    for (uint32_t i = 0; i < count; i++) MR_TRY(resources_add(&sum, &bundles[i]));
    group *group;
    MR_TRY(alloc_try(sizeof *group + count * sizeof(pool), &group));
    group->sum = sum;
    group->count = count;
    group->never = place->apart && count > 1;
    for (uint32_t i = 0; i < count; i++) {
        pool *pool = &group->bundles[i];
        pool->group = group;
        pool->total = pool->free = pool->beside_actors = bundles[i];
    }
    map_put(&scheduler->groups, id, group);
    request *request = XNEW(struct request, .client = client, .ticket = place->ticket, .order = scheduler->next_order++,
                            .need = MUTATED("part-place") ? bundles[0] : sum, .group = group, .places = true);
    scheduler_enqueue(scheduler, request);
    return MR_OK;
}

mr_status scheduler_group_fits(const scheduler *scheduler, const resources *need) {
    const group *group = map_get(&scheduler->groups, need->group);
    if (group == NULL)
        return error_set(MR_NOT_FOUND, "its placement group was removed, or never created (%llx)",
                         (unsigned long long)need->group);
    if (need->bundle > group->count)
        return error_set(MR_INVALID, "its placement group has %u bundle%s: there is no bundle %u", group->count,
                         plural(group->count), need->bundle);
    char wanted[256], has[256];
    for (uint32_t i = 0; i < group->count; i++)
        if ((need->bundle == 0 || need->bundle == i + 1) && resources_fit(need, &group->bundles[i].total)) return MR_OK;
    resources_text(need, wanted, sizeof wanted);
    resources_text(&group->bundles[need->bundle == 0 ? 0 : need->bundle - 1].total, has, sizeof has);
    return error_set(MR_INVALID, "it needs %s, but bundle %u of its placement group has %s", wanted,
                     need->bundle == 0 ? 1 : need->bundle, has);
}

/* ---- Removal. */

static void refuse_requests(scheduler *scheduler, const group *group) {
    list_for_each_item (client, &scheduler->asking, struct client, place) {
        list_for_each_item (request, &client->requests, struct request, place) {
            if (request->group != group) continue;
            bool last = client->requests.next == client->requests.prev;
            list_remove(&request->place);
            list_push_back(&scheduler->refused, &request->place);
            if (!last) continue;
            list_remove(&client->place);
            list_push_back(&scheduler->quiet, &client->place);
            break;
        }
    }
}

/* Ends the leases and actors of the group. Resources of an actor are free at once; its process ends later. */
static void evict(scheduler *scheduler, const group *group) {
    list_for_each_item (lease, &scheduler->leases, struct granted_lease, place) {
        if (lease->pool->group != group) continue;
        lease->worker->evicted = true;
        scheduler_spend(scheduler, lease->worker);
    }
    map_for_each (slot, &scheduler->workers) {
        worker *worker = slot.value;
        if (!worker->kept || worker->kept_pool->group != group) continue;
        if (!worker->blocked) resources_give(&worker->kept_pool->free, &worker->kept_need);
        resources_give(&worker->kept_pool->beside_actors, &worker->kept_need);
        worker->kept = false;
        worker->evicted = worker->spent = true;
        list_push_back(&scheduler->endings, &worker->place);
    }
}

void scheduler_group_remove(scheduler *scheduler, uint64_t id) {
    group *group = map_remove(&scheduler->groups, id);
    if (group == NULL) return;
    refuse_requests(scheduler, group);
    if (group->placed) {
        evict(scheduler, group);
        resources_give(&scheduler->machine.free, &group->sum);
        resources_give(&scheduler->machine.beside_actors, &group->sum);
    }
    free(group);
}
