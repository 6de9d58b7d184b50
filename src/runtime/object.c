/* object.c — see object.h. */
#include "runtime/object.h"

#include <stdio.h>
#include <string.h>

#include "base/assert.h"

#define SERIAL_INDEX(serial) ((uint32_t)((serial) & ((UINT32_C(1) << SLAB_INDEX_BITS) - 1)))
#define USES_MAX             (UINT64_MAX >> SLAB_INDEX_BITS)

void objects_init(objects *objects, uint64_t process) {
    *objects = (struct objects){.process = process};
    slab_init(&objects->slab, sizeof(object));
}

/* A reference that the program never gave back is no fault at its end. */
void objects_fini(objects *objects) {
    uint32_t at = 0;
    for (object *object; (object = objects_next(objects, &at)) != NULL;) {
        object->seen = true;
        object_unname(objects, object);
    }
    slab_fini(&objects->slab);
}

object *object_create(objects *objects, bool named) {
    object *object = slab_take(&objects->slab);
    if (object == NULL) return NULL;
    object->uses++;
    object->ref = (mr_ref){{objects->process, object->uses << SLAB_INDEX_BITS | object->place.index}};
    object->holds = named ? 2 : 1;
    object->state = OBJECT_PENDING;
    object->named = named;
    object->seen = false;
    object->owner = NULL;
    object->failure = NULL;
    object->maker = NULL;
    list_init(&object->waiters);
    objects->count++;
    return object;
}

object *object_find(objects *objects, mr_ref ref) {
    uint32_t index = SERIAL_INDEX(ref.word[1]);
    if (ref.word[0] != objects->process || index >= objects->slab.count) return NULL;
    object *object = slab_at(&objects->slab, index);
    return object->named && object->ref.word[1] == ref.word[1] ? object : NULL;
}

object *objects_next(const objects *objects, uint32_t *at) {
    while (*at < objects->slab.count) {
        object *object = slab_at(&objects->slab, (*at)++);
        if (object->named) return object;
    }
    return NULL;
}

object *object_hold(object *object) {
    object->holds++;
    return object;
}

void object_drop(objects *objects, object *object) {
    MR_ASSERT(object->holds > 0);
    if (--object->holds > 0) return;
    MR_ASSERT(list_empty(&object->waiters));
    bundle_unref(object->owner);
    failure_unref(object->failure);
    objects->count--;
    if (object->uses < USES_MAX) slab_give(&objects->slab, object); /* a place that is used up is not used again */
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

void object_fulfil_small(objects *objects, object *object, span value) {
    MR_ASSERT(object->state == OBJECT_PENDING && value.size <= OBJECT_SMALL);
    object->state = OBJECT_READY;
    if (value.size > 0) memcpy(object->small, value.data, value.size);
    object->value = (bundle_entry){.kind = BUNDLE_PLAIN, .bytes = span_of(object->small, value.size)};
    settle(objects, object);
}

void object_fulfil(objects *objects, object *object, bundle *values, uint32_t index) {
    MR_ASSERT(object->state == OBJECT_PENDING);
    bundle_entry value = bundle_value(values, index);
    if (object_is_small(&value)) {
        object_fulfil_small(objects, object, value.bytes);
        return;
    }
    object->state = OBJECT_READY;
    object->value = value;
    object->owner = bundle_ref(values);
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
