/* tray.c — a model that a worker lends as a copy (miniray/model.h, mr_tray).
 *
 * A tray has a few places, each a region (region.h) with a head and room for a model (share.h). What is lent stays as
 * it is until the server has read it, which the head says: then the place is used again, by the next sync, while its
 * memory is still in the caches. A loan that no server ever reads (its sync failed before) keeps its place for good;
 * when all are kept, values are sent as ever.
 *
 *     IDLE ── written by the owner, lend ──► LENT ── read by the server, loan_close ──► IDLE */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/failpoint.h"
#include "runtime/context.h"
#include "train/deed.h"
#include "train/share.h"

enum { PLACES = 8, LEAST_BYTES = 64 * 1024, MOST_BYTES = 8 << 20 };

typedef struct place {
    region region;
    size_t room; /* bytes of a model; 0: there is no region */
    uint32_t ticket;
} place;

struct mr_tray {
    mr_context *mr; /* borrowed */
    place places[PLACES];
    deed deed; /* of the last loan */
    mr_arg loan[SHARE_LOAN_ITEMS];
};

mr_status mr_tray_open(mr_context *mr, mr_tray **out) {
    MR_TRY(context_check(mr, out));
    mr_tray *tray;
    MR_TRY(alloc_try(sizeof *tray, (void **)&tray));
    tray->mr = mr;
    *out = tray;
    return MR_OK;
}

void mr_tray_close(mr_tray *tray) {
    if (tray == NULL) return;
    for (size_t i = 0; i < PLACES; i++) region_close(&tray->places[i].region);
    deed_fini(&tray->deed);
    free(tray);
}

static share_head *head_of(const place *place) { return (share_head *)place->region.place.bytes; }

static bool is_idle(const place *place) { return (atomic_load(&head_of(place)->word) & 0xff) == SHARE_IDLE; }

/* A place for so many bytes: the first that is free. NULL: none is. */
static place *find_place(mr_tray *tray) {
    for (size_t i = 0; i < PLACES; i++)
        if (tray->places[i].room == 0 || is_idle(&tray->places[i])) return &tray->places[i];
    return NULL;
}

static mr_status make_room(const mr_tray *tray, place *place, size_t bytes) {
    if (place->room >= bytes) return MR_OK;
    region made;
    MR_TRY(region_open(tray->mr, share_tray_bytes(bytes), &made));
    region_close(&place->region);
    place->region = made;
    place->room = bytes;
    atomic_store(&head_of(place)->word, share_word(place->ticket, 0, SHARE_IDLE));
    return MR_OK;
}

static void fill(const place *place, const deed *deed) {
    uint8_t *to = place->region.place.bytes + SHARE_PAGE;
    for (size_t i = 0; i < deed->count; i++) {
        size_t bytes = deed->stretches[i].end - deed->stretches[i].from;
        if (bytes > 0) memcpy(to + deed->stretches[i].from, deed->sources[i], bytes);
    }
}

mr_status mr_tray_lend(mr_tray *tray, mr_arg weights, mr_arg *out) {
    if (tray == NULL || out == NULL) return error_set(MR_INVALID, "there is no tray, or no place for the loan");
    size_t bytes;
    MR_TRY(deed_pack(&tray->deed, &weights, &bytes));
    if (bytes < LEAST_BYTES || bytes > MOST_BYTES)
        return error_set(MR_INVALID, "%zu bytes are sent: a tray is for %d to %d", bytes, LEAST_BYTES, MOST_BYTES);
    place *place = find_place(tray);
    if (place == NULL) return error_set(MR_BUSY, "nobody has read what was lent before");
    MR_TRY(make_room(tray, place, bytes));
    fill(place, &tray->deed);
    place->ticket++;
    FAILPOINT("train.tray_filled");
    atomic_store(&head_of(place)->word, share_word(place->ticket, 0, SHARE_LENT));
    *out = share_loan(&place->region.name, place->ticket, SHARE_ON_TRAY, bytes, tray->deed.weights, tray->loan);
    return MR_OK;
}
