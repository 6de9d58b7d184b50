/* stream.c — see stream.h. */
#include "sim/runtime/stream.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/error.h"
#include "runtime/worker/worker.h"
#include "runtime/worker/yield.h"

/* ---- Giving. */

static mr_status give_item(party *party, int64_t item) {
    yield_value value;
    bool large = party->work->large && party->given % 2 == 0;
    uint8_t *bytes = large ? party_large_of(item) : NULL;
    mr_arg arg = large ? mr_bytes(bytes, PARTY_LARGE) : mr_int(item);
    mr_status status = yield_pack(party->call, &arg, &value);
    free(bytes);
    if (status != MR_OK) return status;
    status = yield_give(&party->client, party->call, &value);
    bundle_unref(value.bundle);
    return status;
}

static void given(party *party) {
    runtime_work *work = party->work;
    party->given++;
    work->gave = true;
    sim_count(party->world->sim, "items", 1);
    if (party->given > work->taken + work->ahead)
        sim_violation(party->world->sim, "work %d gave %u items, but %u were taken and %u may wait",
                      (int)runtime_ledger_number(&party->world->ledger, work), party->given, work->taken, work->ahead);
}

static void step(void *context, uint64_t unused) {
    party *party = context;
    const runtime_work *work = party->work;
    if ((party->call->cancelled && !work->stubborn) || party->given == work->items) {
        party->then(party, 0);
        return;
    }
    mr_status status = give_item(party, runtime_work_item(work, party->given));
    if (status == MR_OK) {
        given(party);
    } else if (status == MR_CANCELLED) { /* nobody takes any more: a stubborn body goes on without */
        party->then(party, 0);
        return;
    } else if (status == MR_CLOSED) { /* somebody may, and is told that these are not all */
        party->failed = MR_CLOSED;
        party->then(party, 0);
        return;
    } else if (status != MR_BUSY) {
        sim_violation(party->world->sim, "an item cannot be given: %s", mr_last_error());
    }
    sim_node_after(party->node, rng_between(party_rng(party), 1, 1 + party->world->body_us / 4), step, party, 0);
}

void stream_give(party *party, sim_fn *then) {
    party->given = 0;
    party->then = then;
    if (party->work != NULL && party->work->streams)
        step(party, 0);
    else
        then(party, 0);
}

/* ---- Taking. */

typedef struct taker {
    list place;
    object_waiter waiter; /* for the head */
    party *party;
    runtime_work *work;
    object *whole; /* the driver's own */
    object *head;  /* held while it is waited for; NULL */
    int64_t pace_us;
    bool told; /* of the failure */
} taker;

static void taker_free(taker *taker) {
    if (taker->head != NULL) {
        object_unwait(&taker->waiter);
        object_drop(&taker->party->client.objects, taker->head);
    }
    list_remove(&taker->place);
    free(taker);
}

static taker *taker_of(const party *party, const runtime_work *work) {
    list_for_each (at, &party->takers) {
        taker *taker = container_of(at, struct taker, place);
        if (taker->work == work) return taker;
    }
    return NULL;
}

static void take_next(void *context, uint64_t number);

static void take_later(taker *taker) {
    party *party = taker->party;
    int64_t number = runtime_ledger_number(&party->world->ledger, taker->work);
    sim_node_after(party->node, rng_between(party_rng(party), 1, taker->pace_us), take_next, party, (uint64_t)number);
}

static void came(object_waiter *waiter, object *head) {
    taker *taker = container_of(waiter, struct taker, waiter);
    taker->head = NULL;
    if (!taker->party->stopping) take_later(taker);
    object_drop(&taker->party->client.objects, head);
}

static void check_item(taker *taker, const object *head) {
    runtime_work *work = taker->work;
    sim *sim = taker->party->world->sim;
    int number = (int)runtime_ledger_number(&taker->party->world->ledger, work);
    int64_t value = 0;
    mr_status status = party_outcome(head, &value);
    bool lost = status == MR_OBJECT_LOST && taker->party->world->ledger.large; /* with the process that gave it */
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

/* No more results. */
static void check_end(const taker *taker) {
    const runtime_work *work = taker->work;
    sim *sim = taker->party->world->sim;
    int number = (int)runtime_ledger_number(&taker->party->world->ledger, work);
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

/* Where items travel by name, more streams are dropped on the way: what is said about them crosses what they give. */
static bool has_enough(party *party, const runtime_work *work) {
    if (!party->world->ledger.large || !rng_chance(party_rng(party), 0.2)) return false;
    for (size_t i = 0; i < PARTY_KEPT; i++)
        if (party->kept[i] != NULL && &party->world->ledger.works[party->kept_works[i]] == work) party_drop(party, i);
    return true;
}

/* Its taker may be gone since. */
static void take_next(void *context, uint64_t number) {
    party *party = context;
    objects *objects = &party->client.objects;
    taker *taker = taker_of(party, runtime_ledger_at(&party->world->ledger, (int64_t)number));
    flow *flow = taker == NULL ? NULL : flow_find(&party->client.flows, taker->whole);
    object *head;
    if (flow == NULL || flow_head(flow, &head) != MR_OK) return;
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
    head = flow_take(flow);
    head->seen = true;
    check_item(taker, head);
    object_unname(objects, head);
    if (!has_enough(party, taker->work)) take_later(taker);
}

void stream_take(party *party, runtime_work *work, object *whole) {
    taker *taker = xcalloc(1, sizeof *taker);
    bool slow = rng_chance(party_rng(party), 0.3);
    *taker = (struct taker){
        .waiter.fn = came, .party = party, .work = work, .whole = whole, .pace_us = slow ? party->world->body_us : 20};
    list_init(&taker->waiter.place);
    list_push_back(&party->takers, &taker->place);
    take_later(taker);
}

void stream_drop(party *party, const runtime_work *work) {
    taker *taker = taker_of(party, work);
    if (taker == NULL) return;
    if (!work->settled) sim_count(party->world->sim, "streams dropped", 1);
    taker_free(taker);
}

void stream_drop_all(party *party) {
    while (!list_empty(&party->takers)) taker_free(container_of(party->takers.next, taker, place));
}
