/* object.c — see object.h. */
#include "runtime/object.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/assert.h"

void objects_init(objects *objects, uint64_t process) {
    *objects = (struct objects){.process = process, .next_serial = 1};
}

/* A reference that the program never gave back is no fault at its end. */
void objects_fini(objects *objects) {
    map_slot slot;
    while (map_next(&objects->by_serial, 0, &slot) != 0) {
        object *object = slot.value;
        object->seen = true;
        object_unname(objects, object);
    }
    map_fini(&objects->by_serial);
}

object *object_create(objects *objects, bool named) {
    object *object = xcalloc(1, sizeof *object);
    object->ref = (mr_ref){{objects->process, objects->next_serial++}};
    object->holds = 1;
    object->named = named;
    list_init(&object->waiters);
    objects->count++;
    if (named) {
        object->holds++;
        map_put(&objects->by_serial, object->ref.word[1], object);
    }
    return object;
}

object *object_find(objects *objects, mr_ref ref) {
    return ref.word[0] == objects->process ? map_get(&objects->by_serial, ref.word[1]) : NULL;
}

object *object_hold(object *object) {
    object->holds++;
    return object;
}

void object_drop(objects *objects, object *object) {
    MR_ASSERT(object->holds > 0);
    if (--object->holds > 0) return;
    MR_ASSERT(list_empty(&object->waiters));
    bundle_unref(object->values);
    failure_unref(object->failure);
    free(object);
    objects->count--;
}

/* Nobody will ask for it any more. What was cancelled, or ended with the runtime itself, is no news. */
static void print_unseen(object *object) {
    if (object->state != OBJECT_FAILED || object->seen) return;
    if (object->failure->code == MR_CANCELLED || object->failure->code == MR_CLOSED) return;
    char text[1024];
    failure_text(object->failure, text, sizeof text);
    fprintf(stderr, "miniray: nobody asked for this result, which failed: %s\n", text);
    object->seen = true;
}

void object_unname(objects *objects, object *object) {
    if (!object->named) return;
    object->named = false;
    map_remove(&objects->by_serial, object->ref.word[1]);
    print_unseen(object);
    object_drop(objects, object);
}

static void settle(objects *objects, object *object) {
    object->maker = NULL;
    object_hold(object); /* a waiter may drop the last one */
    for (list *at; (at = list_pop_front(&object->waiters)) != NULL;) {
        object_waiter *waiter = container_of(at, object_waiter, place);
        waiter->fn(waiter, object);
    }
    if (!object->named) print_unseen(object);
    object_drop(objects, object);
}

void object_fulfil(objects *objects, object *object, bundle *values, uint32_t index) {
    MR_ASSERT(object->state == OBJECT_PENDING && index < values->count);
    object->state = OBJECT_READY;
    object->values = bundle_ref(values);
    object->index = index;
    settle(objects, object);
}

void object_fail(objects *objects, object *object, failure *failure) {
    MR_ASSERT(object->state == OBJECT_PENDING);
    object->state = OBJECT_FAILED;
    object->failure = failure_ref(failure);
    settle(objects, object);
}

void object_wait(object *object, object_waiter *waiter) {
    MR_ASSERT(object->state == OBJECT_PENDING);
    list_push_back(&object->waiters, &waiter->place);
}

void object_unwait(object_waiter *waiter) { list_remove(&waiter->place); }
