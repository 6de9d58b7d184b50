/* object.h — the futures of a process: what its tasks and calls will give, and what it put.
 *
 *   PENDING ── object_fulfil ──► READY        (a value of a bundle)
 *      └────── object_fail ────► FAILED       (a failure)
 *
 * An object is held by the program's reference (until mr_release), by the task that will make it, and by views and
 * tasks that use it. A failure that nobody has looked at when the last program's reference goes, or that comes when it
 * is gone already, is printed once. With the context's lock held. */
#pragma once
#include "base/list.h"
#include "base/map.h"
#include "miniray/value.h"
#include "runtime/bundle.h"
#include "runtime/failure.h"

typedef enum object_state { OBJECT_PENDING, OBJECT_READY, OBJECT_FAILED } object_state;

typedef struct object {
    mr_ref ref;
    uint32_t holds;
    object_state state;
    bool named; /* the program has a reference */
    bool seen;  /* the program has looked at the outcome */
    bundle *values;
    uint32_t index; /* in values */
    failure *failure;
    void *maker; /* the task that will make it, while it is pending; borrowed */
    list waiters;
} object;

/* Somebody who waits for one object. Called once when it is no longer pending; removed before. */
typedef struct object_waiter {
    list place;
    void (*fn)(struct object_waiter *waiter, object *object);
} object_waiter;

typedef struct objects {
    map by_serial; /* those with a program's reference */
    uint64_t process, next_serial;
    size_t count;        /* alive */
    struct shelf *shelf; /* where large values lie; borrowed, NULL: nowhere */
} objects;

void objects_init(objects *objects, uint64_t process);
void objects_fini(objects *objects); /* drops the program's references without a word */

object *object_create(objects *objects, bool named); /* one hold: the maker's */
object *object_find(objects *objects, mr_ref ref);   /* NULL: not ours, or released */
object *object_hold(object *object);
void object_drop(objects *objects, object *object);
void object_unname(objects *objects, object *object); /* mr_release */

void object_fulfil(objects *objects, object *object, bundle *values, uint32_t index); /* takes a reference of its own */
void object_fail(objects *objects, object *object, failure *failure);                 /* likewise */

void object_wait(object *object, object_waiter *waiter); /* the object must be pending */
void object_unwait(object_waiter *waiter);               /* no-op if it was called */
