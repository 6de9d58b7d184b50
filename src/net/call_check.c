/* call_check.c — calls_check: asserts the invariants of call_core.h, by their numbers. */
#include "net/call_core.h"

typedef struct sums { /* over all records */
    size_t waiting, kept_bytes;
} sums;

static void check_record(const call_link *link, const call_record *record, uint32_t place, sums *sums) {
    bool waits = record->state == CALL_WAITING, unsent = !list_empty(&record->unsent);
    MR_ASSERT(record->link == link && call_place(record->number) == place);          /* 1 */
    MR_ASSERT(!waits || (record->done != NULL && record->number >= CALL_WINDOW));    /* 1 */
    MR_ASSERT(!heap_holds(&record->timer) || (waits && record->timed));              /* 2 */
    MR_ASSERT(!unsent || record->state == CALL_TELLING || (waits && record->timed)); /* 2 */
    MR_ASSERT(record->kept == NULL || (waits && record->timed));                     /* 2 */
    sums->waiting += waits;
    sums->kept_bytes += record->kept == NULL ? 0 : record->kept_size;
}

static void check_link(const call_link *link, sums *sums) {
    size_t before = sums->waiting;
    for (uint32_t i = 0; i < link->places.count; i++) check_record(link, call_places_at(&link->places, i), i, sums);
    MR_ASSERT(link->arriving == NULL ||
              (link->arriving->link == link && link->arriving->state == CALL_WAITING)); /* 3 */
    MR_ASSERT(!link->over || sums->waiting == before);                                  /* 4 */
    uint32_t unused = 0;
    for (uint32_t at = link->places.free; at != 0; at = call_places_at(&link->places, at - 1)->next_free) {
        MR_ASSERT(call_places_at(&link->places, at - 1)->state == CALL_FREE && unused < link->places.count); /* 5 */
        unused++;
    }
}

void calls_check(const calls *calls) {
    sums sums = {0};
    if (calls->depth != 0) return; /* further up the stack a link is being worked on */
    map_for_each (slot, &calls->links) {
        const call_link *link = slot.value;
        MR_ASSERT(link->id.v == slot.key);
        check_link(link, &sums);
    }
    MR_ASSERT(sums.waiting == calls->open_count && sums.kept_bytes == calls->kept_bytes); /* 1, 2 */
    MR_ASSERT(calls->graves == NULL);
    MR_ASSERT(calls->recent == NULL || map_get(&calls->links, calls->recent->id.v) == calls->recent);
}
