/* store_client_check.c — store_client_check: asserts the invariants of client_internal.h, by their numbers. Bytes that
 * other processes write into shared memory are not checked. */
#include "base/assert.h"
#include "store/client_internal.h"

typedef struct sums { /* over all records */
    size_t held, viewed, made, idle;
    uint64_t idle_bytes, own_bytes;
} sums;

static void check_object(const store_client_object *object, sums *sums) {
    bool held = object->holds > 0;
    MR_ASSERT(held == (object->entry != NULL));                                /* 1 */
    MR_ASSERT((object->views > 0) == (object->data != NULL));                  /* 1 */
    MR_ASSERT(object->views == 0 || held);                                     /* 1 */
    MR_ASSERT(held || object->made);                                           /* 2 */
    MR_ASSERT(object->made || (object->block == NULL && object->own == NULL)); /* 3 */
    MR_ASSERT(object->block == NULL || object->own == NULL);                   /* 3 */
    sums->held += held;
    sums->viewed += object->views > 0;
    sums->made += object->made && held;
    sums->idle += !held;
    sums->idle_bytes += held ? 0 : object->size;
    sums->own_bytes += object->own == NULL ? 0 : object->own->extent.size;
}

/* Returns the bytes in stretches; *empty is the bytes in empty stretches. */
static uint64_t stretch_bytes(const block_allocator *allocator, uint64_t *empty) {
    uint64_t bytes = 0;
    list_for_each (at, &allocator->stretches) {
        const stretch *stretch = container_of(at, struct stretch, place);
        bytes += stretch->extent.size;
        *empty += stretch_is_empty(stretch) ? stretch->extent.size : 0;
    }
    block_allocator_check(allocator);
    return bytes;
}

static size_t length(const list *head) {
    size_t count = 0;
    list_for_each (at, head) count++;
    return count;
}

void store_client_check(const store_client *store) {
    sums sums = {0};
    map_for_each (found, &store->by_slot) {
        const store_client_object *object = found.value;
        MR_ASSERT(object->ref.slot == found.key); /* 1 */
        check_object(object, &sums);
    }
    MR_ASSERT(sums.viewed == store->viewed);                                           /* 1 */
    MR_ASSERT(sums.idle == store->idle_count && sums.idle_bytes == store->idle_bytes); /* 2 */
    MR_ASSERT(length(&store->idle) == sums.idle && length(&store->made) == sums.made); /* 2 */
    uint64_t empty = 0, bytes = stretch_bytes(&store->small, &empty) + stretch_bytes(&store->pages, &empty);
    list_for_each (at, &store->spare) {
        const own_stretch *own = container_of(at, own_stretch, place);
        bytes += own->extent.size;
        empty += own->extent.size;
    }
    MR_ASSERT(bytes + sums.own_bytes == store->leased && empty == store->spare_bytes); /* 4 */
    MR_ASSERT(store->free_slot_count <= store->slot_capacity);                         /* 5 */
    MR_ASSERT(store->holds.free_count + sums.held == store->holds.capacity);           /* 5 */
}
