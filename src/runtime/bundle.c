/* bundle.c — see bundle.h. */
#include "runtime/bundle.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"
#include "net/value.h"

enum { HEADER = 8, ENTRY = 32, PLANS_FEW = 4 };

typedef struct entry {
    uint64_t parcel_offset, parcel_size, region_offset, region_size;
} entry;
_Static_assert(sizeof(entry) == ENTRY, "layout");

static size_t align_up(size_t size, size_t to) { return (size + to - 1) / to * to; }

/* Aligned by hand: cheaper than an aligned allocation, and most bundles are small. */
mr_status bundle_room(size_t size, bundle **out) {
    _Static_assert(sizeof(bundle) <= 64, "bundle_of counts on it");
    if (size > SIZE_MAX - 192) return error_set(MR_TOO_LARGE, "values of %zu bytes are too large", size);
    void *memory = NULL;
    MR_TRY(alloc_try_resize(&memory, size + 64 + 63));
    bundle *made = (bundle *)(align_up((size_t)(uintptr_t)memory, 64));
    *made = (bundle){.refs = 1, .size = size, .bytes = (uint8_t *)made + 64, .memory = memory};
    *out = made;
    return MR_OK;
}

bundle *bundle_ref(bundle *bundle) {
    bundle->refs++;
    return bundle;
}

void bundle_unref(bundle *bundle) {
    if (bundle == NULL) return;
    MR_ASSERT(bundle->refs > 0);
    if (--bundle->refs == 0) free(bundle->memory);
}

static entry read_entry(const bundle *bundle, uint32_t index) {
    entry entry;
    memcpy(&entry, bundle->bytes + HEADER + (size_t)ENTRY * index, sizeof entry);
    return entry;
}

static bool inside(uint64_t offset, uint64_t size, uint64_t align, uint64_t all) {
    return offset % align == 0 && offset <= all && size <= all - offset;
}

mr_status bundle_check(bundle *bundle) {
    uint32_t count;
    if (bundle->size < HEADER) return error_set(MR_CORRUPT, "values of %zu bytes have no header", bundle->size);
    memcpy(&count, bundle->bytes, sizeof count);
    if (count > BUNDLE_VALUES_MAX || (bundle->size - HEADER) / ENTRY < count)
        return error_set(MR_CORRUPT, "%u values do not fit into %zu bytes", count, bundle->size);
    for (uint32_t i = 0; i < count; i++) {
        entry entry = read_entry(bundle, i);
        if (!inside(entry.parcel_offset, entry.parcel_size, VALUE_ALIGN, bundle->size) ||
            !inside(entry.region_offset, entry.region_size, VALUE_BUFFER_ALIGN, bundle->size))
            return error_set(MR_CORRUPT, "value %u does not lie in its %zu bytes", i, bundle->size);
    }
    bundle->count = count;
    return MR_OK;
}

void bundle_value(const bundle *bundle, uint32_t index, span *parcel, span *region) {
    MR_ASSERT(index < bundle->count);
    entry entry = read_entry(bundle, index);
    *parcel = span_of(bundle->bytes + entry.parcel_offset, (size_t)entry.parcel_size);
    *region = span_of(bundle->bytes + entry.region_offset, (size_t)entry.region_size);
}

/* ---- Packing. */

typedef struct plan { /* of one value */
    value_plan value;
    value_buffer *buffers; /* owned */
    span parcel, region;   /* of one that is copied */
    entry entry;
} plan;

static mr_status measure(const bundle_item *item, size_t index, plan *plan) {
    if (item->arg == NULL) {
        bundle_value(item->from, item->index, &plan->parcel, &plan->region);
        plan->entry.parcel_size = plan->parcel.size;
        plan->entry.region_size = plan->region.size;
        return MR_OK;
    }
    mr_status status = value_measure(item->arg, BUNDLE_OUT_OF_LINE, &plan->value);
    if (status != MR_OK) return error_wrap(status, "argument %zu", index);
    plan->entry.parcel_size = plan->value.size;
    void *buffers = NULL;
    if (plan->value.buffer_count > 0) MR_TRY(alloc_try(plan->value.buffer_count * sizeof *plan->buffers, &buffers));
    plan->buffers = buffers;
    return MR_OK;
}

static size_t lay_out_parcels(plan *plans, size_t count) {
    size_t at = HEADER + ENTRY * count;
    for (size_t i = 0; i < count; i++) {
        at = align_up(at, VALUE_ALIGN);
        plans[i].entry.parcel_offset = at;
        at += (size_t)plans[i].entry.parcel_size;
    }
    return at;
}

static size_t lay_out_regions(plan *plans, size_t count, size_t at) {
    for (size_t i = 0; i < count; i++) {
        if (plans[i].buffers != NULL)
            plans[i].entry.region_size = value_body_size(plans[i].buffers, plans[i].value.buffer_count);
        if (plans[i].entry.region_size == 0) continue; /* an empty one lies at 0 */
        at = align_up(at, VALUE_BUFFER_ALIGN);
        plans[i].entry.region_offset = at;
        at += (size_t)plans[i].entry.region_size;
    }
    return at;
}

/* Gaps are zeroed: whatever lay in our memory before is nobody's business. */
static uint8_t *place_after(uint8_t *bytes, size_t *end, uint64_t offset, uint64_t size) {
    memset(bytes + *end, 0, (size_t)offset - *end);
    *end = (size_t)(offset + size);
    return bytes + offset;
}

static void write_parcels(const bundle_item *items, plan *plans, size_t count, uint8_t *bytes) {
    size_t end = HEADER + ENTRY * count;
    for (size_t i = 0; i < count; i++) {
        uint8_t *place = place_after(bytes, &end, plans[i].entry.parcel_offset, plans[i].entry.parcel_size);
        if (items[i].arg != NULL)
            value_write(items[i].arg, &plans[i].value, place, plans[i].buffers);
        else
            memcpy(place, plans[i].parcel.data, plans[i].parcel.size);
    }
}

static void write_regions(const bundle_item *items, plan *plans, size_t count, size_t end, uint8_t *bytes) {
    for (size_t i = 0; i < count; i++) {
        if (plans[i].entry.region_size == 0) continue;
        uint8_t *place = place_after(bytes, &end, plans[i].entry.region_offset, plans[i].entry.region_size);
        if (items[i].arg != NULL)
            value_body_write(plans[i].buffers, plans[i].value.buffer_count, place);
        else
            memcpy(place, plans[i].region.data, plans[i].region.size);
    }
}

static void write_table(const plan *plans, size_t count, uint8_t *bytes) {
    uint32_t header[2] = {(uint32_t)count, 0};
    memcpy(bytes, header, sizeof header);
    for (size_t i = 0; i < count; i++) memcpy(bytes + HEADER + ENTRY * i, &plans[i].entry, sizeof plans[i].entry);
}

/* Without buffers every size is known before anything is written: straight into its place. */
static mr_status pack_small(const bundle_item *items, plan *plans, size_t count, size_t parcels_end, bundle **out) {
    bundle *made = NULL;
    mr_status status = bundle_room(lay_out_regions(plans, count, parcels_end), &made);
    if (made == NULL) return status;
    write_parcels(items, plans, count, made->bytes);
    *out = made;
    return MR_OK;
}

/* The sizes of regions are known only when values have been written: into a first piece, which is copied. */
static mr_status pack_large(const bundle_item *items, plan *plans, size_t count, size_t parcels_end, bundle **out) {
    void *parcels;
    MR_TRY(alloc_try_aligned(64, align_up(parcels_end, 64), &parcels));
    write_parcels(items, plans, count, parcels);
    bundle *made = NULL;
    mr_status status = bundle_room(lay_out_regions(plans, count, parcels_end), &made);
    if (made != NULL) memcpy(made->bytes, parcels, parcels_end);
    free(parcels);
    *out = made;
    return status;
}

static mr_status pack(const bundle_item *items, plan *plans, size_t count, bundle **out) {
    bool buffers = false;
    for (size_t i = 0; i < count; i++) {
        MR_TRY(measure(&items[i], i, &plans[i]));
        buffers |= plans[i].buffers != NULL;
    }
    size_t parcels_end = lay_out_parcels(plans, count);
    bundle *made = NULL;
    mr_status status = buffers ? pack_large(items, plans, count, parcels_end, &made)
                               : pack_small(items, plans, count, parcels_end, &made);
    if (made == NULL) return status;
    write_table(plans, count, made->bytes);
    write_regions(items, plans, count, parcels_end, made->bytes);
    made->count = (uint32_t)count;
    *out = made;
    return MR_OK;
}

mr_status bundle_create(const bundle_item *items, size_t count, bundle **out) {
    if (count > BUNDLE_VALUES_MAX)
        return error_set(MR_TOO_LARGE, "%zu values in one call are over the limit of %d", count, BUNDLE_VALUES_MAX);
    plan few[PLANS_FEW] = {0};
    void *plans = few;
    if (count > PLANS_FEW) MR_TRY(alloc_try(count * sizeof(plan), &plans));
    mr_status status = pack(items, plans, count, out);
    for (size_t i = 0; i < count; i++) free(((plan *)plans)[i].buffers);
    if (plans != few) free(plans);
    return status;
}
