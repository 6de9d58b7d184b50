/* scheduling_class.c — see task_internal.h: scheduling classes of tasks, found by the resources they need
 * and whether they may be retried, freed when not in use.
 *
 * A program may use any number of distinct needs in its life: each placement group is one. So unused classes are freed:
 * when a new class would exceed `shapes_most`, which is twice the number in use the last time. Classes are freed
 * nowhere else, because a task may end while its class is being iterated. */
#include <stdlib.h>

#include "base/alloc.h"
#include "runtime/client/task_internal.h"

enum { SHAPES_LEAST = 16 }; /* with fewer classes, unused ones are not freed */

static void unlink_shape(tasks *tasks, scheduling_class *gone) {
    scheduling_class *first = map_get(&tasks->shapes_by_need, gone->hash);
    if (first != gone) {
        while (first->same != gone) first = first->same;
        first->same = gone->same;
    } else if (gone->same != NULL) {
        map_put(&tasks->shapes_by_need, gone->hash, gone->same);
    } else {
        map_remove(&tasks->shapes_by_need, gone->hash);
    }
    list_remove(&gone->place);
    tasks->shape_count--;
}

static bool in_use(const scheduling_class *class) {
    return class->open != 0 || class->requests != 0 || !list_empty(&class->leases) ||
           class == class->tasks->usual[class->retriable];
}

static void free_unused(tasks *tasks) {
    list_for_each (at, &tasks->shapes) {
        scheduling_class *class = container_of(at, struct scheduling_class, place);
        if (in_use(class)) continue;
        unlink_shape(tasks, class);
        free(class);
    }
    tasks->shapes_most = tasks->shape_count < SHAPES_LEAST / 2 ? SHAPES_LEAST : tasks->shape_count * 2;
}

scheduling_class *scheduling_class_find(tasks *tasks, const resources *need, bool retriable) {
    uint64_t hash = resources_hash(need) ^ retriable;
    for (scheduling_class *at = map_get(&tasks->shapes_by_need, hash); at != NULL; at = at->same)
        if (at->retriable == retriable && resources_equal(&at->need, need)) return at;
    if (tasks->shape_count >= tasks->shapes_most) free_unused(tasks);
    scheduling_class *class = XNEW(struct scheduling_class, .tasks = tasks, .hash = hash, .need = *need,
                                   .retriable = retriable, .service_us = TASK_SERVICE_US_FIRST);
    list_init(&class->queue);
    list_init(&class->leases);
    list_push_back(&tasks->shapes, &class->place);
    class->same = map_put(&tasks->shapes_by_need, hash, class);
    tasks->shape_count++;
    return class;
}

void task_shapes_fini(tasks *tasks) {
    list_for_each (at, &tasks->shapes) {
        scheduling_class *class = container_of(at, struct scheduling_class, place);
        while (!list_empty(&class->leases)) task_lease_free(container_of(class->leases.next, lease, place));
        free(class);
    }
    map_fini(&tasks->shapes_by_need);
}
