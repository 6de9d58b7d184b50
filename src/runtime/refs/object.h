/* object.h — futures of a process: results of its tasks and calls, values that it put, and borrowed ones of other
 * processes that arrived inside values (borrow.h).
 *
 *   PENDING ── object_fulfil ──► READY    (a value of a value pack)
 *      └────── object_fail ────► FAILED       (a failure)
 *
 * An object is held by the program's references (mr_retain, mr_release), by the task that will make it, by views and
 * tasks that use it, and by value packs whose values refer to it. The program may use it while it has a reference or
 * while there is such a value pack. The release of an object may release any number of others that its value refers to:
 * by iteration, not recursion. A failure that the program has not read when its last reference is released, or that
 * arrives after that, is logged once. With the context's lock held. */
#pragma once
#include "base/assert.h"
#include "base/list.h"
#include "base/map.h"
#include "base/slab.h"
#include "miniray/value.h"
#include "runtime/refs/borrow.h"
#include "runtime/refs/failure.h"
#include "runtime/refs/value_pack.h"

typedef enum object_state { OBJECT_PENDING, OBJECT_READY, OBJECT_FAILED } object_state;

enum { OBJECT_SMALL = 32 };
#define OBJECT_INDEX(serial) ((uint32_t)((serial) & ((UINT32_C(1) << SLAB_INDEX_BITS) - 1)))

/* Id of an object in error texts, as `miniray why` takes it: "o4:17.1". */
#define OBJECT_ID "o%u:%u.%u"
#define OBJECT_ID_OF(ref) \
    (unsigned)(ref).word[0], OBJECT_INDEX((ref).word[1]), (unsigned)((ref).word[1] >> SLAB_INDEX_BITS)

typedef struct object {
    slab_place place;
    mr_ref ref;
    uint64_t uses; /* use count of this place: part of the reference, so that a stale one finds no object */
    uint32_t holds;
    uint8_t state;   /* object_state */
    bool seen;       /* the program has read the outcome, or its failure needs no log */
    bool printed;    /* the failure was logged, since it was not read */
    bool foreign;    /* borrowed from another process; see `borrowed_ref` */
    bool fetching;   /* a fetch of the outcome is pending */
    bool streams;    /* the object is the whole of a stream (stream_reader.h) */
    uint32_t names;  /* number of references that the program has */
    uint32_t inside; /* number of value packs whose values refer to the object */
    borrowed_ref borrowed_ref;
    value_pack_entry value;
    value_pack *owner; /* memory of the value; NULL: in `small` */
    uint32_t index;    /* index of the value in `owner` */
    /* the same value in the store, for other processes, if it is too large for a message; NULL: none */
    value_pack *stored;
    failure *failure;
    struct invocation *maker; /* invocation that makes it, while pending; borrowed */
    list waiters;             /* after the last release: place in objects.doomed */
    _Alignas(8) uint8_t small[OBJECT_SMALL];
} object;

/* Waiter for one object. Called once when the object is no longer pending; removed before. */
typedef struct object_waiter {
    list place;
    void (*fn)(struct object_waiter *waiter, object *object);
} object_waiter;

typedef struct objects {
    slab slab; /* elements: object; a reference's serial is an index in it, and its use count */
    uint64_t process;
    size_t count;                  /* number of objects */
    map owners;                    /* process → map of serial → borrowed object; owned */
    uint64_t recent_owner;         /* cache: process looked up last; 0: none yet */
    map *recent;                   /* its map */
    uint32_t recent_place;         /* cache: index of the object found last */
    list doomed;                   /* objects to be freed */
    bool dooming;                  /* `doomed` is being emptied */
    const struct objects_ops *ops; /* borrowed; NULL: no borrowed references */
    void *host;
    struct store_provider *provider; /* store of large values; borrowed, NULL: none */
    struct actor_handles *handles;   /* actor handles; borrowed, NULL: not kept */
} objects;

typedef struct objects_ops {                       /* operations on borrowed objects, and on streams */
    void (*wanted)(void *host, object *object);    /* a waiter was added; the object is not settled inside this call */
    void (*let_go)(void *host, object *object);    /* last hold released; freed afterwards */
    void (*abandoned)(void *host, object *object); /* the program has released its last reference to a stream */
} objects_ops;

void objects_init(objects *objects, uint64_t process);
void objects_fini(objects *objects); /* drops the program's references silently */

object *object_create(objects *objects, bool named); /* one hold: the maker's. NULL: no memory */
/* Whether the next object_create finds memory: then it can be called after the message was sent. */
static inline bool objects_ready(objects *objects) { return slab_ready(&objects->slab); }
/* Iterates over objects that the program has a reference to; *at begins with 0. NULL: no more. */
object *objects_next(const objects *objects, uint32_t *at);
static inline object *object_hold(object *object) {
    object->holds++;
    return object;
}
void object_dropped(objects *objects, object *object); /* last hold released */
static inline void object_drop(objects *objects, object *object) {
    MR_ASSERT(object->holds > 0);
    if (--object->holds == 0) object_dropped(objects, object);
}
static inline void object_name(object *object) { /* mr_retain */
    if (object->names++ == 0) object->holds++;
}
void object_unname(objects *objects, object *object); /* mr_release */

/* Returns the object of a reference received inside a value, with a hold; it is created if it is unknown and owned by
 * another process. NULL: an object of this process that is gone; or no memory. */
object *object_meet(objects *objects, mr_ref ref);
/* For an object of this process that is gone, and whose value was received with the reference: it is treated as
 * borrowed. */
object *object_meet_again(objects *objects, mr_ref ref);
/* Finds a borrowed object by the words of its reference; NULL: unknown. */
__attribute__((noinline)) object *object_known_of_others(objects *objects, uint64_t owner, uint64_t serial);
static inline void object_enclose(object *object) { /* holds the object for a value pack that refers to it */
    object->inside++;
    object->holds++;
}
void object_disclose(objects *objects, object *object);

/* ---- Finding. */

/* Finds any live object; borrowed, NULL: none. An own object is found by the index in its serial. The two words of a
 * reference are passed as two arguments: a struct would be stored word by word and loaded at once, and such a load
 * waits for all stores before it. */
static inline object *object_known(objects *objects, mr_ref ref) {
    uint64_t owner = ref.word[0], serial = ref.word[1];
    uint32_t index = OBJECT_INDEX(serial);
    if (owner == objects->process && index < objects->slab.count) {
        object *own = slab_at(&objects->slab, index);
        if (own->ref.word[1] == serial && own->holds > 0 && !own->foreign) return own;
    }
    return object_known_of_others(objects, owner, serial);
}

static inline object *object_find(objects *objects, mr_ref ref) { /* NULL: the program does not have it (any more) */
    object *object = object_known(objects, ref);
    return object != NULL && (object->names | object->inside) != 0 ? object : NULL;
}

/* Called when the program reads the outcome. The outcome of a borrowed object that is not `seen` was fetched only to be
 * kept. */
static inline void object_see(objects *objects, object *object) {
    bool tell = object->foreign && !object->seen;
    object->seen = true;
    if (tell) objects->ops->wanted(objects->host, object); /* the owner is informed */
}

static inline bool object_is_small(const value_pack_entry *value) {
    return value->kind == VALUE_PACK_PLAIN && value->bytes.size <= OBJECT_SMALL;
}

/* Fulfils the object with value `index` of a value pack, and takes a reference to that; a plain value of at most
 * OBJECT_SMALL bytes without references is copied instead. */
void object_fulfil(objects *objects, object *object, value_pack *values, uint32_t index);
/* Fulfils the object with a plain value of at most OBJECT_SMALL bytes in any memory, which is copied. */
void object_fulfil_small(objects *objects, object *object, span value);
void object_fail(objects *objects, object *object, failure *failure); /* takes a reference of its own */

void object_wait(objects *objects, object *object, object_waiter *waiter); /* the object must be pending */
/* no-op if the waiter was called */
static inline void object_unwait(object_waiter *waiter) { list_remove(&waiter->place); }
