/* bundle.c — see bundle.h. */
#include "runtime/refs/bundle.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"
#include "runtime/refs/cargo.h"

enum { HEADER = 8, ENTRY = 8, ALIGN = 8, KIND_MASK = 7, PLANS_FEW = 4 };

typedef struct entry { /* as it lies in the table */
    uint32_t where, size;
} entry;
_Static_assert(sizeof(entry) == ENTRY, "layout");

typedef struct places { /* of a parcel */
    uint64_t parcel_offset, parcel_size, region_offset, region_size;
} places;
_Static_assert(sizeof(places) == 32, "layout");

static size_t align_up(size_t size, size_t to) { return (size + to - 1) / to * to; }

/* ---- Memory. Aligned by hand: cheaper than an aligned allocation, and most bundles are small. */

mr_status bundle_room(size_t size, bundle **out) {
    _Static_assert(sizeof(bundle) <= 64, "bundle_of counts on it");
    if (size > SIZE_MAX - 192) return error_set(MR_TOO_LARGE, "arguments or results of %zu bytes are too large", size);
    void *memory = NULL;
    MR_TRY(alloc_try_resize(&memory, size + 64 + 63));
    bundle *made = (bundle *)(align_up((size_t)(uintptr_t)memory, 64));
    *made = (bundle){.refs = 1, .size = size, .room = size, .bytes = (uint8_t *)made + 64, .memory = memory};
    *out = made;
    return MR_OK;
}

void bundle_spares_fini(bundle_spares *spares) {
    while (spares->count > 0) bundle_unref(spares->kept[--spares->count]);
}

bool bundle_spares_keep(bundle_spares *spares, bundle *bundle) {
    if (bundle->refs != 1 || bundle->cargo != NULL || bundle->room > BUNDLE_SPARE_BYTES) return false;
    uint32_t smallest = 0;
    for (uint32_t i = 1; i < spares->count; i++)
        if (spares->kept[i]->room < spares->kept[smallest]->room) smallest = i;
    if (spares->count < BUNDLE_SPARES_MAX) {
        spares->kept[spares->count++] = bundle;
        return true;
    }
    if (spares->kept[smallest]->room >= bundle->room) return false;
    bundle_unref(spares->kept[smallest]);
    spares->kept[smallest] = bundle;
    return true;
}

mr_status bundle_spares_room(bundle_spares *spares, size_t size, bundle **out) {
    uint32_t at = spares->count; /* the newest first: it may be in the cache */
    while (at > 0 && spares->kept[at - 1]->room < size) at--;
    if (at == 0) return bundle_room(size, out);
    bundle *used = spares->kept[at - 1];
    spares->kept[at - 1] = spares->kept[--spares->count];
    used->size = size;
    used->count = used->hidden = 0;
    *out = used;
    return MR_OK;
}

bundle *bundle_ref(bundle *bundle) {
    bundle->refs++;
    return bundle;
}

void bundle_unref(bundle *bundle) {
    if (bundle == NULL) return;
    MR_ASSERT(bundle->refs > 0);
    if (--bundle->refs > 0) return;
    cargo_free(bundle->cargo);
    free(bundle->memory);
}

/* ---- Reading. */

static entry read_entry(const uint8_t *bytes, uint32_t index) {
    entry entry;
    memcpy(&entry, bytes + HEADER + (size_t)ENTRY * index, sizeof entry);
    return entry;
}

static bool inside(uint64_t offset, uint64_t size, uint64_t align, uint64_t all) {
    return offset % align == 0 && offset <= all && size <= all - offset;
}

static bool entry_lies_in(const uint8_t *bytes, size_t size, entry entry) {
    uint32_t kind = entry.where & KIND_MASK, offset = entry.where & ~(uint32_t)KIND_MASK;
    if (kind > BUNDLE_STORED || !inside(offset, entry.size, ALIGN, size)) return false;
    if (kind != BUNDLE_PARCEL) return true;
    places places;
    if (entry.size != sizeof places) return false;
    memcpy(&places, bytes + offset, sizeof places);
    return inside(places.parcel_offset, places.parcel_size, VALUE_ALIGN, size) &&
           inside(places.region_offset, places.region_size, VALUE_BUFFER_ALIGN, size);
}

mr_status bundle_open(span bytes, bundle_view *out) {
    uint32_t header[2];
    if (bytes.size < HEADER)
        return error_set(MR_CORRUPT, "malformed values: %zu bytes, at least %d", bytes.size, HEADER);
    memcpy(header, bytes.data, sizeof header);
    uint32_t count = header[0], hidden = header[1];
    if (count > BUNDLE_VALUES_MAX || hidden > BUNDLE_VALUES_MAX || (bytes.size - HEADER) / ENTRY < count + hidden)
        return error_set(MR_CORRUPT, "malformed values: %u values do not fit into %zu bytes", count + hidden,
                         bytes.size);
    uint32_t kinds = 0;
    for (uint32_t i = 0; i < count + hidden; i++) {
        entry entry = read_entry(bytes.data, i);
        if (!entry_lies_in(bytes.data, bytes.size, entry))
            return error_set(MR_CORRUPT, "malformed values: value %u is not inside the %zu bytes", i, bytes.size);
        kinds |= entry.where & KIND_MASK;
    }
    *out = (bundle_view){.bytes = bytes.data,
                         .size = bytes.size,
                         .count = count,
                         .hidden = hidden,
                         .plain = kinds == BUNDLE_PLAIN && hidden == 0};
    return MR_OK;
}

bool bundle_one_plain(span bytes, span *value) {
    struct {
        uint32_t count, zero;
        entry entry;
    } first;
    if (bytes.size < sizeof first) return false;
    memcpy(&first, bytes.data, sizeof first);
    if (first.count != 1 || first.zero != 0 || !inside(first.entry.where, first.entry.size, ALIGN, bytes.size))
        return false;
    *value = span_of(bytes.data + first.entry.where, first.entry.size);
    return true;
}

mr_status bundle_check(bundle *bundle) {
    bundle_view view;
    MR_TRY(bundle_open(span_of(bundle->bytes, bundle->size), &view));
    bundle->count = view.count;
    bundle->hidden = view.hidden;
    return MR_OK;
}

bundle_entry bundle_view_entry(const bundle_view *view, uint32_t index) {
    MR_ASSERT(index < view->count + view->hidden);
    entry entry = read_entry(view->bytes, index);
    const uint8_t *at = view->bytes + (entry.where & ~(uint32_t)KIND_MASK);
    bundle_kind kind = (bundle_kind)(entry.where & KIND_MASK);
    if (kind != BUNDLE_PARCEL) return (bundle_entry){.kind = kind, .bytes = span_of(at, entry.size)};
    places places;
    memcpy(&places, at, sizeof places);
    return (bundle_entry){.kind = kind,
                          .bytes = span_of(view->bytes + places.parcel_offset, (size_t)places.parcel_size),
                          .region = span_of(view->bytes + places.region_offset, (size_t)places.region_size)};
}

bundle_entry bundle_value(const bundle *bundle, uint32_t index) {
    bundle_view view = {.bytes = bundle->bytes, .size = bundle->size, .count = bundle->count, .hidden = bundle->hidden};
    return bundle_view_entry(&view, index);
}

mr_status bundle_entry_open(const bundle_entry *entry, value_doc *doc, mr_value *root) {
    if (entry->kind == BUNDLE_STORED) return error_set(MR_CORRUPT, "malformed value: it refers to the object store");
    return entry->kind == BUNDLE_PLAIN ? value_open_plain(doc, entry->bytes, root)
                                       : value_open(doc, entry->bytes, entry->region, root);
}

/* ---- Packing small values: one after the other, straight into their place. */

static size_t pack_one_small(const bundle_item *item, uint8_t *out, size_t room) {
    if (item->arg == NULL) {
        if (item->entry.kind != BUNDLE_PLAIN || item->entry.bytes.size > room) return 0;
        if (item->from != NULL && cargo_refers(item->from, item->index)) return 0;
        memcpy(out, item->entry.bytes.data, item->entry.bytes.size);
        return item->entry.bytes.size;
    }
    size_t size = room >= VALUE_SCALAR_MAX ? value_write_scalar(item->arg, out) : 0;
    if (size == 0) size = value_write_text(item->arg, BUNDLE_OUT_OF_LINE, out, room);
    if (size != 0) return size;
    value_plan plan;
    if (value_measure(item->arg, BUNDLE_OUT_OF_LINE, &plan) != MR_OK) return 0;
    if (plan.buffer_count != 0 || plan.has_refs || plan.value_size > room) return 0;
    value_write_plain(item->arg, &plan, out);
    return plan.value_size;
}

void bundle_hide(bundle *bundle, uint32_t hidden) {
    MR_ASSERT(bundle->hidden == 0 && hidden <= bundle->count);
    bundle->count -= hidden;
    bundle->hidden = hidden;
    uint32_t header[2] = {bundle->count, hidden};
    memcpy(bundle->bytes, header, sizeof header);
}

static void write_header(uint8_t *out, size_t count) {
    uint32_t header[2] = {(uint32_t)count, 0};
    memcpy(out, header, sizeof header);
}

size_t bundle_pack_scalar(const mr_arg *arg, uint8_t out[BUNDLE_SCALAR_MAX]) {
    enum { AT = HEADER + ENTRY };
    _Static_assert(AT + VALUE_SCALAR_MAX <= BUNDLE_SCALAR_MAX, "a scalar fits");
    _Static_assert(AT + 2 * sizeof(uint64_t) == BUNDLE_SCALAR_MAX, "and so does a short text");
    _Static_assert(BUNDLE_BYTE_ENTRY == (AT | BUNDLE_PLAIN | UINT64_C(1) << 32), "a byte lies where a scalar does");
    size_t size = bundle_pack_byte(arg, out);
    if (size != 0) return size;
    uint64_t words[BUNDLE_SCALAR_MAX / sizeof(uint64_t)] = {1}; /* one value; no old bytes travel */
    size = value_write_short(arg, &words[2]);
    if (size == 0) {
        uint8_t scalar[BUNDLE_SCALAR_MAX - AT] = {0};
        size = value_write_scalar(arg, scalar);
        if (size == 0) return 0;
        memcpy(&words[2], scalar, sizeof scalar);
    }
    words[1] = AT | BUNDLE_PLAIN | (uint64_t)size << 32;
    bytes_copy_words(out, words, sizeof words);
    return align_up(AT + size, ALIGN);
}

size_t bundle_pack_small(const bundle_item *items, size_t count, uint8_t *out, size_t room) {
    if (count > (room - HEADER) / (ENTRY + ALIGN)) return 0;
    size_t at = HEADER + ENTRY * count;
    for (size_t i = 0; i < count; i++) {
        if (at >= room) return 0;
        size_t size = pack_one_small(&items[i], out + at, room - at);
        if (size == 0 || align_up(at + size, ALIGN) > room) return 0;
        entry entry = {(uint32_t)at | BUNDLE_PLAIN, (uint32_t)size};
        memcpy(out + HEADER + ENTRY * i, &entry, sizeof entry);
        memset(out + at + size, 0, align_up(at + size, ALIGN) - (at + size)); /* no old bytes travel */
        at = align_up(at + size, ALIGN);
    }
    write_header(out, count);
    return at;
}

size_t bundle_small_size(const bundle_item *items, size_t count) {
    if (count > BUNDLE_INLINE_MAX / (ENTRY + ALIGN)) return 0;
    size_t size = HEADER + ENTRY * count, apart = 0, pieces = 0;
    for (size_t i = 0; i < count; i++) {
        value_plan plan;
        if (value_measure(items[i].arg, BUNDLE_OUT_OF_LINE, &plan) != MR_OK) return 0;
        if (plan.buffer_count != 0 || plan.has_refs || plan.value_size > BUNDLE_PLAIN_MAX) return 0;
        size += align_up(plan.value_size, ALIGN);
        apart += plan.apart_size;
        pieces += plan.apart_count;
        if (size > BUNDLE_SPREAD_MAX) return 0;
    }
    bool spreads = size - apart <= BUNDLE_SPREAD_REST && pieces <= BUNDLE_SPREAD_LONG;
    return size <= BUNDLE_INLINE_MAX || spreads ? size : 0;
}

static void add_piece(bundle_spread *spread, span piece) {
    if (piece.size > 0) spread->pieces[spread->count++] = piece;
}

void bundle_spread_init(bundle_spread *spread, const bundle_item *items, size_t count) {
    uint8_t *rest = spread->rest;
    size_t at = HEADER + ENTRY * count; /* in the bundle, */
    size_t end = at, given = 0;         /* and in `rest`: what is written, and what pieces have */
    spread->count = 0;
    write_header(rest, count);
    for (size_t i = 0; i < count; i++) {
        value_plan plan;
        value_apart apart[BUNDLE_SPREAD_LONG];
        mr_status status = value_measure(items[i].arg, BUNDLE_OUT_OF_LINE, &plan);
        MR_ASSERT(status == MR_OK && plan.apart_count <= BUNDLE_SPREAD_LONG);
        size_t padding = align_up(plan.value_size, ALIGN) - plan.value_size;
        MR_ASSERT(end + plan.value_size - plan.apart_size + padding <= sizeof spread->rest);
        value_write_apart(items[i].arg, &plan, rest + end, apart);
        for (uint32_t k = 0; k < plan.apart_count; k++) {
            add_piece(spread, span_of(rest + given, end + apart[k].at - given));
            add_piece(spread, apart[k].data);
            given = end + apart[k].at;
        }
        entry entry = {(uint32_t)at | BUNDLE_PLAIN, plan.value_size};
        memcpy(rest + HEADER + ENTRY * i, &entry, sizeof entry);
        end += plan.value_size - plan.apart_size;
        memset(rest + end, 0, padding);
        end += padding;
        at += plan.value_size + padding;
    }
    add_piece(spread, span_of(rest + given, end - given));
}

/* ---- Packing anything: measure, lay out, write. */

typedef struct plan { /* of one value */
    bundle_kind kind;
    value_plan value;
    value_buffer *buffers; /* owned; of an argument with buffers */
    size_t at, size;       /* what the entry points to */
    places places;         /* of a parcel */
} plan;

static mr_status measure(const bundle_item *item, size_t index, plan *plan) {
    if (item->arg == NULL) {
        plan->kind = item->entry.kind;
        plan->size = item->entry.bytes.size;
        plan->places.parcel_size = item->entry.bytes.size;
        plan->places.region_size = item->entry.region.size;
    } else {
        size_t least = item->fill != NULL ? VALUE_DRAFT : BUNDLE_OUT_OF_LINE;
        mr_status status = value_measure(item->arg, least, &plan->value);
        if (status == MR_TOO_LARGE && item->fill == NULL)
            status = value_measure(item->arg, BUNDLE_OUT_OF_LINE_LEAST, &plan->value);
        if (status != MR_OK) return error_wrap(status, "argument %zu", index);
        plan->kind =
            plan->value.buffer_count == 0 && plan->value.value_size <= BUNDLE_PLAIN_MAX ? BUNDLE_PLAIN : BUNDLE_PARCEL;
        plan->size = plan->value.value_size;
        plan->places.parcel_size = plan->value.size;
        if (plan->value.buffer_count > 0)
            MR_TRY(alloc_try(plan->value.buffer_count * sizeof *plan->buffers, &plan->buffers));
    }
    if (plan->kind == BUNDLE_PARCEL) plan->size = sizeof(places);
    return MR_OK;
}

/* Table, what it points to, and the parcels. Returns where they end. */
static size_t lay_out_parcels(plan *plans, size_t count, size_t *pointed_end) {
    size_t at = HEADER + ENTRY * count;
    for (size_t i = 0; i < count; i++) {
        plans[i].at = at;
        at = align_up(at + plans[i].size, ALIGN);
    }
    *pointed_end = at;
    for (size_t i = 0; i < count; i++) {
        if (plans[i].kind != BUNDLE_PARCEL) continue;
        plans[i].places.parcel_offset = at;
        at = align_up(at + (size_t)plans[i].places.parcel_size, VALUE_ALIGN);
    }
    return at;
}

static size_t lay_out_regions(plan *plans, size_t count, size_t at) {
    for (size_t i = 0; i < count; i++) {
        places *places = &plans[i].places;
        if (plans[i].kind != BUNDLE_PARCEL) continue;
        if (plans[i].buffers != NULL)
            places->region_size = value_body_size(plans[i].buffers, plans[i].value.buffer_count);
        if (places->region_size == 0) continue; /* an empty one lies at 0 */
        at = align_up(at, VALUE_BUFFER_ALIGN);
        places->region_offset = at;
        at += (size_t)places->region_size;
    }
    return at;
}

/* Gaps are zeroed: whatever lay in our memory before is nobody's business. */
static uint8_t *place_after(uint8_t *bytes, size_t *end, uint64_t offset, uint64_t size) {
    memset(bytes + *end, 0, (size_t)offset - *end);
    *end = (size_t)(offset + size);
    return bytes + offset;
}

/* Plain values and names; the places of parcels are written when they are known. */
static void write_pointed(const bundle_item *items, const plan *plans, size_t count, size_t pointed_end,
                          uint8_t *bytes) {
    size_t end = HEADER + ENTRY * count;
    for (size_t i = 0; i < count; i++) {
        uint8_t *place = place_after(bytes, &end, plans[i].at, plans[i].size);
        if (plans[i].kind == BUNDLE_PARCEL) continue;
        if (items[i].arg != NULL)
            value_write_plain(items[i].arg, &plans[i].value, place);
        else if (plans[i].size > 0)
            memcpy(place, items[i].entry.bytes.data, plans[i].size);
    }
    place_after(bytes, &end, pointed_end, 0);
}

static void write_parcels(const bundle_item *items, plan *plans, size_t count, size_t end, size_t parcels_end,
                          uint8_t *bytes) {
    for (size_t i = 0; i < count; i++) {
        if (plans[i].kind != BUNDLE_PARCEL) continue;
        uint8_t *place = place_after(bytes, &end, plans[i].places.parcel_offset, plans[i].places.parcel_size);
        if (items[i].arg != NULL)
            value_write(items[i].arg, &plans[i].value, place, plans[i].buffers);
        else
            memcpy(place, items[i].entry.bytes.data, items[i].entry.bytes.size);
    }
    place_after(bytes, &end, parcels_end, 0);
}

static void write_regions(const bundle_item *items, plan *plans, size_t count, size_t end, uint8_t *bytes) {
    for (size_t i = 0; i < count; i++) {
        const places *places = &plans[i].places;
        if (plans[i].kind != BUNDLE_PARCEL || places->region_size == 0) continue;
        uint8_t *place = place_after(bytes, &end, places->region_offset, places->region_size);
        if (items[i].arg != NULL)
            value_body_write(plans[i].buffers, plans[i].value.buffer_count, place);
        else
            memcpy(place, items[i].entry.region.data, items[i].entry.region.size);
    }
}

static void write_table(const plan *plans, size_t count, uint8_t *bytes) {
    write_header(bytes, count);
    for (size_t i = 0; i < count; i++) {
        entry entry = {(uint32_t)plans[i].at | (uint32_t)plans[i].kind, (uint32_t)plans[i].size};
        memcpy(bytes + HEADER + ENTRY * i, &entry, sizeof entry);
        if (plans[i].kind == BUNDLE_PARCEL) memcpy(bytes + plans[i].at, &plans[i].places, sizeof plans[i].places);
    }
}

/* Tensors that had no data get it where they lie. */
static mr_status fill_in(const bundle_fill *fill, const plan *plan, uint8_t *bytes) {
    size_t count = 0;
    void **places;
    MR_TRY(alloc_try((plan->value.buffer_count + 1) * sizeof(void *), &places));
    for (uint32_t i = 0; i < plan->value.buffer_count; i++)
        if (plan->buffers[i].data == NULL)
            places[count++] = bytes + plan->places.region_offset + plan->buffers[i].offset;
    mr_status status = fill->fn(fill->user, places, count);
    free(places);
    return status;
}

/* The sizes of regions are known only when values have been written: with buffers, everything before the regions goes
 * into a first piece, which is copied. */
static mr_status pack(const bundle_item *items, plan *plans, size_t count, bundle_room_fn *room, void *context) {
    bool buffers = false;
    for (size_t i = 0; i < count; i++) {
        MR_TRY(measure(&items[i], i, &plans[i]));
        buffers |= plans[i].buffers != NULL;
    }
    size_t pointed_end, parcels_end = lay_out_parcels(plans, count, &pointed_end);
    if (pointed_end > UINT32_MAX)
        return error_set(MR_TOO_LARGE,
                         "%zu values of %zu bytes are too large for one call: at most %u bytes without buffers", count,
                         pointed_end, UINT32_MAX);
    void *first = NULL;
    if (buffers) {
        MR_TRY(alloc_try_aligned(64, align_up(parcels_end, 64), &first));
        write_parcels(items, plans, count, pointed_end, parcels_end, first);
    }
    uint8_t *bytes = NULL;
    mr_status status = room(context, lay_out_regions(plans, count, parcels_end), &bytes);
    if (bytes != NULL) {
        if (buffers)
            memcpy(bytes + pointed_end, (uint8_t *)first + pointed_end, parcels_end - pointed_end);
        else
            write_parcels(items, plans, count, pointed_end, parcels_end, bytes);
        write_pointed(items, plans, count, pointed_end, bytes);
        write_table(plans, count, bytes);
        write_regions(items, plans, count, parcels_end, bytes);
        for (size_t i = 0; i < count && status == MR_OK; i++)
            if (items[i].fill != NULL) status = fill_in(items[i].fill, &plans[i], bytes);
    }
    free(first);
    return status;
}

mr_status bundle_write(const bundle_item *items, size_t count, bundle_room_fn *room, void *context) {
    if (count > BUNDLE_VALUES_MAX)
        return error_set(MR_TOO_LARGE, "%zu values in one call exceed the limit of %d", count, BUNDLE_VALUES_MAX);
    plan few[PLANS_FEW] = {0}, *plans = few;
    if (count > PLANS_FEW) MR_TRY(alloc_try(count * sizeof(plan), &plans));
    mr_status status = pack(items, plans, count, room, context);
    for (size_t i = 0; i < count; i++) free(plans[i].buffers);
    if (plans != few) free(plans);
    return status;
}

static mr_status room_of_own(void *context, size_t size, uint8_t **out) {
    bundle **made = context;
    MR_TRY(bundle_room(size, made));
    *out = (*made)->bytes;
    return MR_OK;
}

mr_status bundle_create(const bundle_item *items, size_t count, bundle **out) {
    bundle *made = NULL;
    mr_status status = bundle_write(items, count, room_of_own, &made);
    if (status != MR_OK) {
        bundle_unref(made);
        return status;
    }
    made->count = (uint32_t)count;
    *out = made;
    return MR_OK;
}
