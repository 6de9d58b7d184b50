/* model_copy.c — export of a model as a copy in shared memory (miniray/model.h, mr_model_copy).
 *
 * A model copy has PLACES places, each a region (store_region.h) with a head and memory for a model (shared_model.h).
 * An exported copy stays unchanged until its head has the state READ; then the next sync of the same caller reuses the
 * place, whose memory is still in the caches. Other callers get other places while some are free: a copy exported to
 * one of them stays, because its server may die, be restarted and read the copy again.
 *
 *  IDLE ── copied by the owner, lend ──► EXPORTED ── read by the server, model_access_close ──► READ ──► IDLE
 *
 * A copy whose sync fails before the server reads it, or whose caller dies, stays EXPORTED. Calls of one caller are in
 * order, and a sync ends with calls to its workers, so a caller that requests weights again does not wait for its
 * earlier sync. When no place is free, or there is no memory for one, the oldest copy exported to the same caller, or
 * to a caller that is gone, is revoked. Only a sync whose list has the same worker many times can need more copies than
 * there are places; these are copies of the same model, and the last one is returned again. A slow server may still
 * read a revoked copy: the ticket shows that (model_access_check), and its sync fails, for which no process waits.
 * Tested by tests/model_copy_test.c. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/cpu.h"
#include "base/error.h"
#include "base/failpoint.h"
#include "runtime/process/context.h"
#include "runtime/worker/call.h"
#include "train/model_layout.h"
#include "train/shared_model.h"

enum { PLACES = 8, LEAST_BYTES = 64 * 1024, MOST_BYTES = 8 << 20, ALL_BYTES = 2 * MOST_BYTES };

typedef struct place {
    store_region region;
    size_t room; /* bytes for a model; 0: no region. The sum over all places is at most ALL_BYTES */
    uint32_t ticket;
    link_id caller;  /* caller of the last export; 0: this process itself */
    uint64_t number; /* of the last export; 0: none */
} place;

struct mr_model_copy {
    mr_context *mr; /* borrowed */
    place places[PLACES];
    uint64_t loans;      /* count of exports */
    model_layout layout; /* of the last export */
    mr_arg loan[SHARED_MODEL_LOAN_ITEMS];
};

mr_status mr_model_copy_open(mr_context *mr, mr_model_copy **out) {
    MR_TRY(context_check(mr, out));
    mr_model_copy *model_copy;
    MR_TRY(alloc_try(sizeof *model_copy, &model_copy));
    model_copy->mr = mr;
    *out = model_copy;
    return MR_OK;
}

void mr_model_copy_close(mr_model_copy *model_copy) {
    if (model_copy == NULL) return;
    for (size_t i = 0; i < PLACES; i++) store_region_close(&model_copy->places[i].region);
    model_layout_fini(&model_copy->layout);
    free(model_copy);
}

static shared_model_head *head_of(const place *place) { return (shared_model_head *)place->region.place.bytes; }

static bool is_unread(const place *place) {
    return place->room != 0 && shared_model_state_of(atomic_load(&head_of(place)->word)) == SHARED_MODEL_EXPORTED;
}

/* A place that is not EXPORTED: of this caller, else an unused one, else the oldest of other callers. NULL: none. */
static place *find_free(mr_model_copy *model_copy, link_id caller) {
    place *found = NULL;
    for (size_t i = 0; i < PLACES; i++) {
        place *at = &model_copy->places[i];
        if (is_unread(at)) continue;
        if (at->room != 0 && at->caller.v == caller.v) return at;
        if (found == NULL || at->number < found->number) found = at; /* number 0: an unused place */
    }
    return found;
}

static bool is_gone(const mr_model_copy *model_copy, link_id caller) {
    if (caller.v == 0) return false;
    context_lock(model_copy->mr);
    bool gone = !rpc_has_link(model_copy->mr->worker.rpc, caller);
    context_unlock(model_copy->mr);
    return gone;
}

static bool is_over(const mr_model_copy *model_copy, const place *place,
                    link_id caller) { /* no sync waits for the copy */
    return place->caller.v == caller.v || is_gone(model_copy, place->caller);
}

/* Of unread copies: *last is the last one exported to this caller, *over the oldest that no sync waits for. NULL: none.
 */
static void look_through(mr_model_copy *model_copy, link_id caller, place **last, place **over) {
    *last = *over = NULL;
    for (size_t i = 0; i < PLACES; i++) {
        place *at = &model_copy->places[i];
        if (!is_unread(at)) continue;
        if (at->caller.v == caller.v && (*last == NULL || at->number > (*last)->number)) *last = at;
        if ((*over == NULL || at->number < (*over)->number) && is_over(model_copy, at, caller)) *over = at;
    }
}

static void drop(place *place) { /* the ticket stays: tickets of a place are never reused */
    store_region_close(&place->region);
    place->room = 0;
}

/* The oldest place but `but` whose memory may be freed: it is not EXPORTED, or (or_over) no sync waits for it. */
static place *find_spare(mr_model_copy *model_copy, link_id caller, const place *but, bool or_over) {
    place *found = NULL;
    for (size_t i = 0; i < PLACES; i++) {
        place *at = &model_copy->places[i];
        if (at == but || at->room == 0 || (found != NULL && at->number > found->number)) continue;
        if (!is_unread(at) || (or_over && is_over(model_copy, at, caller))) found = at;
    }
    return found;
}

/* Whether this place may have so many bytes. Frees the memory of other places if that is necessary and possible. */
static bool fits(mr_model_copy *model_copy, link_id caller, const place *place, size_t bytes, bool or_over) {
    size_t all = bytes;
    for (size_t i = 0; i < PLACES; i++)
        if (&model_copy->places[i] != place) all += model_copy->places[i].room;
    while (place->room < bytes && all > ALL_BYTES) {
        struct place *spare = find_spare(model_copy, caller, place, or_over);
        if (spare == NULL) return false;
        all -= spare->room;
        drop(spare);
    }
    return true;
}

static mr_status make_room(const mr_model_copy *model_copy, place *place, size_t bytes) {
    if (place->room >= bytes) return MR_OK;
    drop(place); /* a server that still reads the region has a hold */
    MR_TRY(store_region_open(model_copy->mr, shared_model_copy_bytes(bytes), &place->region));
    place->room = bytes;
    return MR_OK;
}

/* Revokes the copy: the new ticket tells a reader that the bytes are not the exported ones any more. */
static void take_back(place *place) {
    atomic_store(&head_of(place)->word, shared_model_word(++place->ticket, 0, SHARED_MODEL_IDLE));
    cpu_fence();
}

static uint8_t *model_of(const place *place) { return place->region.place.bytes + SHARED_MODEL_PAGE; }

static void fill(const place *place, const model_layout *layout) {
    for (size_t i = 0; i < layout->count; i++) {
        size_t bytes = layout->stretches[i].end - layout->stretches[i].from;
        if (bytes > 0) memcpy(model_of(place) + layout->stretches[i].from, layout->sources[i], bytes);
    }
}

static bool is_filled(const place *place, const model_layout *layout, size_t bytes) {
    bool same = place->room >= bytes;
    for (size_t i = 0; same && i < layout->count; i++) {
        size_t size = layout->stretches[i].end - layout->stretches[i].from;
        same = size == 0 || memcmp(model_of(place) + layout->stretches[i].from, layout->sources[i], size) == 0;
    }
    return same;
}

static mr_status lend(mr_model_copy *model_copy, place *place, link_id caller, size_t bytes) {
    MR_TRY(make_room(model_copy, place, bytes));
    take_back(place);
    fill(place, &model_copy->layout);
    place->caller = caller;
    place->number = ++model_copy->loans;
    FAILPOINT("train.tray_filled");
    atomic_store(&head_of(place)->word, shared_model_word(place->ticket, 0, SHARED_MODEL_EXPORTED));
    return MR_OK;
}

/* The place for the copy, or (*is_exported) the place that already contains it. NULL: none. */
static place *choose(mr_model_copy *model_copy, link_id caller, size_t bytes, bool *is_exported) {
    place *free = find_free(model_copy, caller), *last, *over;
    *is_exported = false;
    if (free != NULL && fits(model_copy, caller, free, bytes, false)) return free;
    look_through(model_copy, caller, &last, &over);
    *is_exported = last != NULL && is_filled(last, &model_copy->layout, bytes);
    if (*is_exported) return last;
    return over != NULL && fits(model_copy, caller, over, bytes, true) ? over : NULL;
}

mr_status mr_model_copy_export(mr_model_copy *model_copy, mr_call *call, mr_arg weights, mr_arg *out) {
    if (model_copy == NULL || call == NULL || out == NULL)
        return error_set(MR_INVALID, "mr_model_copy_export: copy, call or out is NULL");
    size_t bytes;
    MR_TRY(model_layout_pack(&model_copy->layout, &weights, &bytes));
    if (bytes < LEAST_BYTES || bytes > MOST_BYTES)
        return error_set(MR_INVALID, "a model copy of %zu bytes: expected %d to %d; send it by value", bytes,
                         LEAST_BYTES, MOST_BYTES);
    link_id caller = call->token.link;
    bool is_exported;
    place *place = choose(model_copy, caller, bytes, &is_exported);
    if (place == NULL)
        return error_set(MR_BUSY, "no free memory for a model copy of %zu bytes: earlier copies are not read yet",
                         bytes);
    if (!is_exported) MR_TRY(lend(model_copy, place, caller, bytes));
    mr_yield_cpu(model_copy->mr);
    *out = shared_model_loan(&place->region.name, place->ticket, SHARED_MODEL_IS_COPY, bytes,
                             model_copy->layout.weights, model_copy->loan);
    return MR_OK;
}
