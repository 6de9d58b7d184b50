/* task_shape.c — see task_state.h: the shapes of tasks, found by the resources they need, freed when not in use.
 *
 * A program may use any number of distinct needs in its life: each placement group is one. So shapes that are not in
 * use are freed: when a new shape would make them more than `shapes_most`, which is twice as many as were in use the
 * last time. They are freed nowhere else, because the end of a task may come while its shape is being walked. */
#include <stdlib.h>

#include "base/alloc.h"
#include "runtime/task_state.h"

enum { SHAPES_LEAST = 16 }; /* fewer than this are not worth looking for those not in use */

static void unlink_shape(tasks *tasks, shape *gone) {
    shape *first = map_get(&tasks->shapes_by_need, gone->hash);
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

static bool in_use(const shape *shape) {
    return shape->open != 0 || shape->requests != 0 || !list_empty(&shape->leases) || shape == shape->tasks->usual;
}

static void free_unused(tasks *tasks) {
    list_for_each (at, &tasks->shapes) {
        shape *shape = container_of(at, struct shape, place);
        if (in_use(shape)) continue;
        unlink_shape(tasks, shape);
        free(shape);
    }
    tasks->shapes_most = tasks->shape_count < SHAPES_LEAST / 2 ? SHAPES_LEAST : tasks->shape_count * 2;
}

shape *task_shape_find(tasks *tasks, const resources *need) {
    uint64_t hash = resources_hash(need);
    for (shape *at = map_get(&tasks->shapes_by_need, hash); at != NULL; at = at->same)
        if (resources_equal(&at->need, need)) return at;
    if (tasks->shape_count >= tasks->shapes_most) free_unused(tasks);
    shape *shape = XNEW(struct shape, .tasks = tasks, .hash = hash, .need = *need, .service_us = TASK_SERVICE_US_FIRST);
    list_init(&shape->queue);
    list_init(&shape->leases);
    list_push_back(&tasks->shapes, &shape->place);
    shape->same = map_put(&tasks->shapes_by_need, hash, shape);
    tasks->shape_count++;
    return shape;
}

void task_shapes_fini(tasks *tasks) {
    list_for_each (at, &tasks->shapes) {
        shape *shape = container_of(at, struct shape, place);
        while (!list_empty(&shape->leases)) task_lease_free(container_of(shape->leases.next, lease, place));
        free(shape);
    }
    map_fini(&tasks->shapes_by_need);
}
