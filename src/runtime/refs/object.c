/* object.c — see object.h. */
#include "runtime/refs/object.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "runtime/refs/attachment.h"

#define USES_MAX (UINT64_MAX >> SLAB_INDEX_BITS)

void objects_init(objects *objects, uint64_t process) {
    *objects = (struct objects){.process = process};
    slab_init(&objects->slab, sizeof(object));
    list_init(&objects->doomed);
}

/* References that the program has not released are released here, without logging failures. */
void objects_fini(objects *objects) {
    uint32_t at = 0;
    for (object *object; (object = objects_next(objects, &at)) != NULL;) {
        object->seen = true;
        object->names = 1;
        object_unname(objects, object);
    }
    map_for_each (slot, &objects->owners) {
        map_fini(slot.value);
        free(slot.value);
    }
    map_fini(&objects->owners);
    slab_fini(&objects->slab);
}

/* ---- Creation. */

static object *make(objects *objects) {
    object *object = slab_take(&objects->slab);
    if (object == NULL) return NULL;
    object->uses++;
    object->holds = 1;
    object->state = OBJECT_PENDING;
    object->names = 0;
    object->inside = 0;
    object->seen = object->printed = false;
    object->foreign = false;
    object->fetching = false;
    object->streams = false;
    object->owner = NULL;
    object->stored = NULL;
    object->failure = NULL;
    object->maker = NULL;
    list_init(&object->waiters);
    objects->count++;
    return object;
}

object *object_create(objects *objects, bool named) {
    object *object = make(objects);
    if (object == NULL) return NULL;
    object->ref = (mr_ref){{objects->process, object->uses << SLAB_INDEX_BITS | object->place.index}};
    if (named) object_name(object);
    return object;
}

/* Map of the known objects of a process; NULL: none so far. The last map is cached: lists of references mostly have one
 * owner. */
static map *map_of_owner(objects *objects, uint64_t owner) {
    if (objects->recent_owner == owner && objects->recent != NULL) return objects->recent;
    map *theirs = map_get(&objects->owners, owner);
    if (theirs != NULL) {
        objects->recent_owner = owner;
        objects->recent = theirs;
    }
    return theirs;
}

static object *make_foreign(objects *objects, mr_ref ref) {
    object *object = make(objects);
    if (object == NULL) return NULL;
    object->ref = ref;
    object->foreign = true;
    object->seen = true; /* its owner reports its failure */
    object->borrowed_ref = (borrowed_ref){.owner = ref.word[0], .serial = ref.word[1]};
    map *theirs = map_of_owner(objects, ref.word[0]);
    if (theirs == NULL) {
        theirs = xcalloc(1, sizeof *theirs);
        map_put(&objects->owners, ref.word[0], theirs);
    }
    map_put(theirs, ref.word[1], object);
    return object;
}

/* ---- Finding. */

/* References that arrived together were created one after the other, and are mostly looked up in that order or the
 * opposite one: the object is mostly a neighbour of the last one, which is found without a cache miss in a large
 * map. */
static object *neighbour(const objects *objects, uint64_t owner, uint64_t serial) {
    for (uint32_t step = 0; step < 2; step++) {
        uint32_t place = objects->recent_place + 1 - 2 * step;
        if (place >= objects->slab.count) continue;
        object *found = slab_at(&objects->slab, place);
        bool same = found->ref.word[1] == serial && found->ref.word[0] == owner;
        if (same && found->foreign && found->holds > 0) return found;
    }
    return NULL;
}

object *object_known_of_others(objects *objects, uint64_t owner, uint64_t serial) {
    object *object = neighbour(objects, owner, serial);
    if (object == NULL) {
        const map *theirs = map_of_owner(objects, owner);
        object = theirs == NULL ? NULL : map_get(theirs, serial);
    }
    if (object == NULL || object->holds == 0) return NULL;
    objects->recent_place = object->place.index;
    return object;
}

object *object_meet(objects *objects, mr_ref ref) {
    object *known = object_known(objects, ref);
    if (known != NULL) return object_hold(known);
    return ref.word[0] == objects->process || objects->ops == NULL ? NULL : make_foreign(objects, ref);
}

object *object_meet_again(objects *objects, mr_ref ref) {
    return objects->ops == NULL ? NULL : make_foreign(objects, ref);
}

object *objects_next(const objects *objects, uint32_t *at) {
    while (*at < objects->slab.count) {
        object *object = slab_at(&objects->slab, (*at)++);
        if (object->holds > 0 && object->names > 0) return object;
    }
    return NULL;
}

/* ---- Holding. */

/* Logs a failure that can no longer be read, unless it is due to a cancellation or the end of the runtime. */
static __attribute__((noinline, cold)) void print_failure(object *object) {
    if (object->seen || object->foreign || object->failure->code == MR_CANCELLED || object->failure->code == MR_CLOSED)
        return;
    char text[1024];
    failure_text(object->failure, text, sizeof text);
    fprintf(stderr, "miniray: a task failed, and its result was released without a get: %s\n", text);
    object->seen = object->printed = true;
}

static inline void print_unseen(object *object) {
    if (object->state == OBJECT_FAILED) print_failure(object);
}

/* The program has no reference to the object any more. */
static void forgotten(objects *objects, object *object) {
    print_unseen(object);
    if (object->streams) objects->ops->abandoned(objects->host, object);
}

static void give_back(objects *objects, object *object) {
    objects->count--;
    if (object->uses < USES_MAX) slab_give(&objects->slab, object); /* else the place is used up */
}

static void destroy(objects *objects, object *object) {
    if (object->foreign) {
        map *theirs = map_of_owner(objects, object->ref.word[0]);
        if (map_get(theirs, object->ref.word[1]) == object) map_remove(theirs, object->ref.word[1]);
        objects->ops->let_go(objects->host, object);
    }
    value_pack_unref(object->owner); /* may release other objects */
    value_pack_unref(object->stored);
    failure_unref(object->failure);
    give_back(objects, object);
}

/* Destroys an object that holds others or is borrowed, without recursion. */
static __attribute__((noinline)) void doom(objects *objects, object *object) {
    if (objects->dooming) {
        list_push_back(&objects->doomed, &object->waiters);
        return;
    }
    objects->dooming = true;
    destroy(objects, object);
    for (list *at; (at = list_pop_front(&objects->doomed)) != NULL;)
        destroy(objects, container_of(at, struct object, waiters));
    objects->dooming = false;
}

void object_dropped(objects *objects, object *object) {
    MR_ASSERT(list_empty(&object->waiters));
    if (object->owner == NULL && object->failure == NULL && !object->foreign)
        give_back(objects, object); /* a small value, the usual case */
    else
        doom(objects, object);
}

void object_unname(objects *objects, object *object) {
    if (object->names == 0 || --object->names > 0) return;
    if (object->inside == 0) forgotten(objects, object);
    object_drop(objects, object);
}

void object_disclose(objects *objects, object *object) {
    object->inside--;
    if ((object->inside | object->names) == 0) forgotten(objects, object);
    object_drop(objects, object);
}

/* ---- Settling. */

static void settle(objects *objects, object *object) {
    object->maker = NULL;
    if (list_empty(&object->waiters) && (object->names | object->inside) != 0) return;
    object_hold(object); /* a waiter may drop the last hold */
    for (list *at; (at = list_pop_front(&object->waiters)) != NULL;) {
        object_waiter *waiter = container_of(at, object_waiter, place);
        waiter->fn(waiter, object);
    }
    if ((object->names | object->inside) == 0) print_unseen(object);
    object_drop(objects, object);
}

void object_fulfil_small(objects *objects, object *object, span value) {
    MR_ASSERT(object->state == OBJECT_PENDING && value.size <= OBJECT_SMALL);
    object->state = OBJECT_READY;
    if (value.size == 1) /* the usual case, without a call of memcpy */
        object->small[0] = value.data[0];
    else if (value.size > 0)
        memcpy(object->small, value.data, value.size);
    object->value = (value_pack_entry){.kind = VALUE_PACK_PLAIN, .bytes = span_of(object->small, value.size)};
    settle(objects, object);
}

void object_fulfil(objects *objects, object *object, value_pack *values, uint32_t index) {
    MR_ASSERT(object->state == OBJECT_PENDING);
    value_pack_entry value = value_pack_value(values, index);
    if (object_is_small(&value) && !attachment_refers(values, index)) {
        object_fulfil_small(objects, object, value.bytes);
        return;
    }
    object->state = OBJECT_READY;
    object->value = value;
    object->owner = value_pack_ref(values);
    object->index = index;
    settle(objects, object);
}

void object_fail(objects *objects, object *object, failure *failure) {
    MR_ASSERT(object->state == OBJECT_PENDING);
    object->state = OBJECT_FAILED;
    object->failure = failure_ref(failure);
    settle(objects, object);
}

void object_wait(objects *objects, object *object, object_waiter *waiter) {
    MR_ASSERT(object->state == OBJECT_PENDING);
    list_push_back(&object->waiters, &waiter->place);
    if (object->foreign) objects->ops->wanted(objects->host, object);
}
