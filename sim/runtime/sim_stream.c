/* sim_stream.c — see sim_stream.h. */
#include "sim/runtime/sim_stream.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/error.h"
#include "runtime/worker/stream_writer.h"
#include "runtime/worker/worker.h"

/* ---- Yielding. */

static mr_status give_item(sim_runtime *runtime, int64_t item) {
    stream_writer_value value;
    bool large = runtime->work->large && runtime->given % 2 == 0;
    uint8_t *bytes = large ? sim_runtime_large_of(item) : NULL;
    mr_arg arg = large ? mr_bytes(bytes, SIM_RUNTIME_LARGE) : mr_int(item);
    mr_status status = stream_writer_pack(runtime->call, &arg, &value);
    free(bytes);
    if (status != MR_OK) return status;
    status = stream_writer_give(&runtime->worker, runtime->call, &value);
    value_pack_unref(value.pack);
    return status;
}

static void given(sim_runtime *runtime) {
    runtime_work *work = runtime->work;
    runtime->given++;
    work->gave = true;
    sim_count(runtime->world->sim, "items", 1);
    if (runtime->given > work->taken + work->ahead)
        sim_violation(runtime->world->sim, "work %d gave %u items, but %u were taken and %u may wait",
                      (int)runtime_checker_number(&runtime->world->checker, work), runtime->given, work->taken,
                      work->ahead);
}

static void step(void *context, uint64_t unused) {
    sim_runtime *runtime = context;
    const runtime_work *work = runtime->work;
    if ((runtime->call->cancelled && !work->stubborn) || runtime->given == work->items) {
        runtime->then(runtime, 0);
        return;
    }
    mr_status status = give_item(runtime, runtime_work_item(work, runtime->given));
    if (status == MR_OK) {
        given(runtime);
    } else if (status == MR_CANCELLED) { /* the reader is gone: a stubborn body continues without it */
        runtime->then(runtime, 0);
        return;
    } else if (status == MR_CLOSED) { /* a reader may remain, and gets an error after these items */
        runtime->failed = MR_CLOSED;
        runtime->then(runtime, 0);
        return;
    } else if (status != MR_BUSY) {
        sim_violation(runtime->world->sim, "an item cannot be given: %s", mr_last_error());
    }
    sim_node_after(runtime->node, rng_between(sim_runtime_rng(runtime), 1, 1 + runtime->world->body_us / 4), step,
                   runtime, 0);
}

void sim_stream_give(sim_runtime *runtime, sim_fn *then) {
    runtime->given = 0;
    runtime->then = then;
    if (runtime->work != NULL && runtime->work->streams)
        step(runtime, 0);
    else
        then(runtime, 0);
}

/* ---- Taking. */

typedef struct taker {
    list place;
    object_waiter waiter; /* for the next item */
    sim_runtime *runtime;
    runtime_work *work;
    object *whole; /* the driver's reference */
    object *head;  /* held while it is waited for; NULL */
    int64_t pace_us;
    bool told; /* the failure was returned */
} taker;

static void taker_free(taker *taker) {
    if (taker->head != NULL) {
        object_unwait(&taker->waiter);
        object_drop(&taker->runtime->worker.objects, taker->head);
    }
    list_remove(&taker->place);
    free(taker);
}

static taker *taker_of(const sim_runtime *runtime, const runtime_work *work) {
    list_for_each (at, &runtime->takers) {
        taker *taker = container_of(at, struct taker, place);
        if (taker->work == work) return taker;
    }
    return NULL;
}

static void take_next(void *context, uint64_t number);

static void take_later(taker *taker) {
    sim_runtime *runtime = taker->runtime;
    int64_t number = runtime_checker_number(&runtime->world->checker, taker->work);
    sim_node_after(runtime->node, rng_between(sim_runtime_rng(runtime), 1, taker->pace_us), take_next, runtime,
                   (uint64_t)number);
}

static void came(object_waiter *waiter, object *head) {
    taker *taker = container_of(waiter, struct taker, waiter);
    taker->head = NULL;
    if (!taker->runtime->stopping) take_later(taker);
    object_drop(&taker->runtime->worker.objects, head);
}

static void check_item(taker *taker, const object *head) {
    runtime_work *work = taker->work;
    sim *sim = taker->runtime->world->sim;
    int number = (int)runtime_checker_number(&taker->runtime->world->checker, work);
    int64_t value = 0;
    mr_status status = sim_runtime_outcome(head, &value);
    bool lost = status == MR_OBJECT_LOST && taker->runtime->world->checker.large; /* lost with its producer */
    if (status != MR_OK && !lost) {
        if (taker->told) sim_violation(sim, "the stream of work %d fails twice", number);
        taker->told = true;
        return;
    }
    if (taker->told) sim_violation(sim, "the stream of work %d goes on after it has failed", number);
    if (work->taken >= work->items || (!lost && value != runtime_work_item(work, work->taken)))
        sim_violation(sim, "item %u of %u of work %d is not what it should be", work->taken, work->items, number);
    work->taken++;
    sim_count(sim, "items taken", 1);
}

/* Checks the end of the stream. */
static void check_end(const taker *taker) {
    const runtime_work *work = taker->work;
    sim *sim = taker->runtime->world->sim;
    int number = (int)runtime_checker_number(&taker->runtime->world->checker, work);
    if (!work->settled)
        sim_violation(sim, "the stream of work %d is over before the work is", number);
    else if (taker->told != (work->status != MR_OK))
        sim_violation(sim, "work %d ends with %s, which its stream does not say", number, mr_status_name(work->status));
    bool whole = work->status == MR_OK || (work->status == MR_INVALID && work->fails && work->ends > 0);
    if (whole && !work->cancelled && work->taken != work->items)
        sim_violation(sim, "%u of the %u items of work %d came, and it says that these are all", work->taken,
                      work->items, number);
    sim_count(sim, "streams", 1);
}

/* With large values more streams are dropped early, so that messages about items cross the items. */
static bool has_enough(sim_runtime *runtime, const runtime_work *work) {
    if (!runtime->world->checker.large || !rng_chance(sim_runtime_rng(runtime), 0.2)) return false;
    for (size_t i = 0; i < SIM_RUNTIME_KEPT; i++)
        if (runtime->kept[i] != NULL && &runtime->world->checker.works[runtime->kept_works[i]] == work)
            sim_runtime_drop(runtime, i);
    return true;
}

/* The taker may be gone by now. */
static void take_next(void *context, uint64_t number) {
    sim_runtime *runtime = context;
    objects *objects = &runtime->worker.objects;
    taker *taker = taker_of(runtime, runtime_checker_at(&runtime->world->checker, (int64_t)number));
    stream_reader *stream = taker == NULL ? NULL : stream_reader_find(&runtime->worker.readers, taker->whole);
    object *head;
    if (stream == NULL || stream_reader_head(stream, &head) != MR_OK) return;
    if (head->state == OBJECT_PENDING) {
        taker->head = object_hold(head);
        object_wait(objects, head, &taker->waiter);
        return;
    }
    if (head->state == OBJECT_FAILED && head->failure->code == MR_END) {
        check_end(taker);
        taker_free(taker);
        return;
    }
    head = stream_reader_take(stream);
    head->seen = true;
    check_item(taker, head);
    object_unname(objects, head);
    if (!has_enough(runtime, taker->work)) take_later(taker);
}

void sim_stream_take(sim_runtime *runtime, runtime_work *work, object *whole) {
    taker *taker = xcalloc(1, sizeof *taker);
    bool slow = rng_chance(sim_runtime_rng(runtime), 0.3);
    *taker = (struct taker){.waiter.fn = came,
                            .runtime = runtime,
                            .work = work,
                            .whole = whole,
                            .pace_us = slow ? runtime->world->body_us : 20};
    list_init(&taker->waiter.place);
    list_push_back(&runtime->takers, &taker->place);
    take_later(taker);
}

void sim_stream_drop(sim_runtime *runtime, const runtime_work *work) {
    taker *taker = taker_of(runtime, work);
    if (taker == NULL) return;
    if (!work->settled) sim_count(runtime->world->sim, "streams dropped", 1);
    taker_free(taker);
}

void sim_stream_drop_all(sim_runtime *runtime) {
    while (!list_empty(&runtime->takers)) taker_free(container_of(runtime->takers.next, taker, place));
}
