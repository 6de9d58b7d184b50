/* value_pack.c — see value_pack.h. */
#include "runtime/refs/value_pack.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"
#include "runtime/refs/attachment.h"

enum { HEADER = 8, ENTRY = 8, ALIGN = 8, KIND_MASK = 7, PLANS_FEW = 4 };

typedef struct entry { /* entry of the table */
    uint32_t where, size;
} entry;
_Static_assert(sizeof(entry) == ENTRY, "layout");

typedef struct places { /* location of a payload and its region */
    uint64_t payload_offset, payload_size, region_offset, region_size;
} places;
_Static_assert(sizeof(places) == 32, "layout");

static size_t align_up(size_t size, size_t to) { return (size + to - 1) / to * to; }

/* ---- Memory. Aligned by hand: cheaper than an aligned allocation, and most value packs are small. */

mr_status value_pack_room(size_t size, value_pack **out) {
    _Static_assert(sizeof(value_pack) <= 64, "wire_body_pack counts on it");
    if (size > SIZE_MAX - 192) return error_set(MR_TOO_LARGE, "arguments or results of %zu bytes are too large", size);
    void *memory = NULL;
    MR_TRY(alloc_try_resize(&memory, size + 64 + 63));
    value_pack *made = (value_pack *)(align_up((size_t)(uintptr_t)memory, 64));
    *made = (value_pack){.refs = 1, .size = size, .room = size, .bytes = (uint8_t *)made + 64, .memory = memory};
    *out = made;
    return MR_OK;
}

void value_pack_spares_fini(value_pack_spares *spares) {
    while (spares->count > 0) value_pack_unref(spares->kept[--spares->count]);
}

bool value_pack_spares_keep(value_pack_spares *spares, value_pack *pack) {
    if (pack->refs != 1 || pack->attachment != NULL || pack->room > VALUE_PACK_SPARE_BYTES) return false;
    uint32_t smallest = 0;
    for (uint32_t i = 1; i < spares->count; i++)
        if (spares->kept[i]->room < spares->kept[smallest]->room) smallest = i;
    if (spares->count < VALUE_PACK_SPARES_MAX) {
        spares->kept[spares->count++] = pack;
        return true;
    }
    if (spares->kept[smallest]->room >= pack->room) return false;
    value_pack_unref(spares->kept[smallest]);
    spares->kept[smallest] = pack;
    return true;
}

mr_status value_pack_spares_room(value_pack_spares *spares, size_t size, value_pack **out) {
    uint32_t at = spares->count; /* the newest first, which may be in the cache */
    while (at > 0 && spares->kept[at - 1]->room < size) at--;
    if (at == 0) return value_pack_room(size, out);
    value_pack *used = spares->kept[at - 1];
    spares->kept[at - 1] = spares->kept[--spares->count];
    used->size = size;
    used->count = used->hidden = 0;
    *out = used;
    return MR_OK;
}

void value_pack_unref(value_pack *pack) {
    if (pack == NULL) return;
    MR_ASSERT(pack->refs > 0);
    if (--pack->refs > 0) return;
    attachment_free(pack->attachment);
    free(pack->memory);
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
    if (kind > VALUE_PACK_STORED || !inside(offset, entry.size, ALIGN, size)) return false;
    if (kind != VALUE_PACK_PAYLOAD) return true;
    places places;
    if (entry.size != sizeof places) return false;
    memcpy(&places, bytes + offset, sizeof places);
    return inside(places.payload_offset, places.payload_size, VALUE_ALIGN, size) &&
           inside(places.region_offset, places.region_size, VALUE_BUFFER_ALIGN, size);
}

mr_status value_pack_open(span bytes, value_pack_view *out) {
    uint32_t header[2];
    if (bytes.size < HEADER)
        return error_set(MR_CORRUPT, "malformed values: %zu bytes, at least %d", bytes.size, HEADER);
    memcpy(header, bytes.data, sizeof header);
    uint32_t count = header[0], hidden = header[1];
    if (count > VALUE_PACK_VALUES_MAX || hidden > VALUE_PACK_VALUES_MAX ||
        (bytes.size - HEADER) / ENTRY < count + hidden)
        return error_set(MR_CORRUPT, "malformed values: %u values do not fit into %zu bytes", count + hidden,
                         bytes.size);
    uint32_t kinds = 0;
    for (uint32_t i = 0; i < count + hidden; i++) {
        entry entry = read_entry(bytes.data, i);
        if (!entry_lies_in(bytes.data, bytes.size, entry))
            return error_set(MR_CORRUPT, "malformed values: value %u is not inside the %zu bytes", i, bytes.size);
        kinds |= entry.where & KIND_MASK;
    }
    *out = (value_pack_view){.bytes = bytes.data,
                             .size = bytes.size,
                             .count = count,
                             .hidden = hidden,
                             .plain = kinds == VALUE_PACK_PLAIN && hidden == 0};
    return MR_OK;
}

bool value_pack_one_plain(span bytes, span *value) {
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

mr_status value_pack_check(value_pack *pack, value_pack_view *view) {
    MR_TRY(value_pack_open(span_of(pack->bytes, pack->size), view));
    pack->count = view->count;
    pack->hidden = view->hidden;
    return MR_OK;
}

value_pack_entry value_pack_view_entry(const value_pack_view *view, uint32_t index) {
    MR_ASSERT(index < view->count + view->hidden);
    entry entry = read_entry(view->bytes, index);
    const uint8_t *at = view->bytes + (entry.where & ~(uint32_t)KIND_MASK);
    value_pack_kind kind = (value_pack_kind)(entry.where & KIND_MASK);
    if (kind != VALUE_PACK_PAYLOAD) return (value_pack_entry){.kind = kind, .bytes = span_of(at, entry.size)};
    places places;
    memcpy(&places, at, sizeof places);
    return (value_pack_entry){.kind = kind,
                              .bytes = span_of(view->bytes + places.payload_offset, (size_t)places.payload_size),
                              .region = span_of(view->bytes + places.region_offset, (size_t)places.region_size)};
}

value_pack_entry value_pack_value(const value_pack *pack, uint32_t index) {
    value_pack_view view = {.bytes = pack->bytes, .size = pack->size, .count = pack->count, .hidden = pack->hidden};
    return value_pack_view_entry(&view, index);
}

mr_status value_pack_entry_open(const value_pack_entry *entry, value_doc *doc, mr_value *root) {
    if (entry->kind == VALUE_PACK_STORED)
        return error_set(MR_CORRUPT, "malformed value of %zu bytes: it refers to the object store", entry->bytes.size);
    return entry->kind == VALUE_PACK_PLAIN ? value_open_plain(doc, entry->bytes, root)
                                           : value_open(doc, entry->bytes, entry->region, root);
}

/* ---- Packing small values: one after the other, straight into their place. */

static size_t pack_one_small(const value_pack_item *item, uint8_t *out, size_t room) {
    if (item->arg == NULL) {
        if (item->entry.kind != VALUE_PACK_PLAIN || item->entry.bytes.size > room) return 0;
        if (item->from != NULL && attachment_refers(item->from, item->index)) return 0;
        memcpy(out, item->entry.bytes.data, item->entry.bytes.size);
        return item->entry.bytes.size;
    }
    size_t size = room >= VALUE_SCALAR_MAX ? value_write_scalar(item->arg, out) : 0;
    if (size == 0) size = value_write_text(item->arg, VALUE_PACK_OUT_OF_LINE, out, room);
    if (size != 0) return size;
    value_plan plan;
    if (value_measure(item->arg, VALUE_PACK_OUT_OF_LINE, &plan) != MR_OK) return 0;
    if (plan.buffer_count != 0 || plan.has_refs || plan.value_size > room) return 0;
    value_write_plain(item->arg, &plan, out);
    return plan.value_size;
}

static void write_header(uint8_t *out, size_t count, uint32_t hidden) {
    uint32_t header[2] = {(uint32_t)count, hidden};
    memcpy(out, header, sizeof header);
}

void value_pack_hide(value_pack *pack, uint32_t hidden) {
    MR_ASSERT(pack->hidden == 0 && hidden <= pack->count);
    pack->count -= hidden;
    pack->hidden = hidden;
    write_header(pack->bytes, pack->count, hidden);
}

size_t value_pack_pack_scalar(const mr_arg *arg, uint8_t out[VALUE_PACK_SCALAR_MAX]) {
    enum { AT = HEADER + ENTRY };
    _Static_assert(AT + VALUE_SCALAR_MAX <= VALUE_PACK_SCALAR_MAX, "a scalar fits");
    _Static_assert(AT + 2 * sizeof(uint64_t) == VALUE_PACK_SCALAR_MAX, "and so does a short text");
    _Static_assert(VALUE_PACK_BYTE_ENTRY == (AT | VALUE_PACK_PLAIN | UINT64_C(1) << 32),
                   "a byte lies where a scalar does");
    size_t size = value_pack_pack_byte(arg, out);
    if (size != 0) return size;
    uint64_t words[VALUE_PACK_SCALAR_MAX / sizeof(uint64_t)] = {1}; /* count 1; zeroed, so that no old bytes are sent */
    size = value_write_short(arg, &words[2]);
    if (size == 0) {
        uint8_t scalar[VALUE_PACK_SCALAR_MAX - AT] = {0};
        size = value_write_scalar(arg, scalar);
        if (size == 0) return 0;
        memcpy(&words[2], scalar, sizeof scalar);
    }
    words[1] = AT | VALUE_PACK_PLAIN | (uint64_t)size << 32;
    bytes_copy_words(out, words, sizeof words);
    return align_up(AT + size, ALIGN);
}

size_t value_pack_pack_small(const value_pack_item *items, size_t count, uint8_t *out, size_t room) {
    if (count > (room - HEADER) / (ENTRY + ALIGN)) return 0;
    size_t at = HEADER + ENTRY * count;
    for (size_t i = 0; i < count; i++) {
        if (at >= room) return 0;
        size_t size = pack_one_small(&items[i], out + at, room - at);
        if (size == 0 || align_up(at + size, ALIGN) > room) return 0;
        entry entry = {(uint32_t)at | VALUE_PACK_PLAIN, (uint32_t)size};
        memcpy(out + HEADER + ENTRY * i, &entry, sizeof entry);
        memset(out + at + size, 0, align_up(at + size, ALIGN) - (at + size)); /* no old bytes are sent */
        at = align_up(at + size, ALIGN);
    }
    write_header(out, count, 0);
    return at;
}

size_t value_pack_small_size(const value_pack_item *items, size_t count) {
    if (count > VALUE_PACK_INLINE_MAX / (ENTRY + ALIGN)) return 0;
    size_t size = HEADER + ENTRY * count, apart = 0, pieces = 0;
    for (size_t i = 0; i < count; i++) {
        value_plan plan;
        if (value_measure(items[i].arg, VALUE_PACK_OUT_OF_LINE, &plan) != MR_OK) return 0;
        if (plan.buffer_count != 0 || plan.has_refs || plan.value_size > VALUE_PACK_PLAIN_MAX) return 0;
        size += align_up(plan.value_size, ALIGN);
        apart += plan.apart_size;
        pieces += plan.apart_count;
        if (size > VALUE_PACK_SPREAD_MAX) return 0;
    }
    bool spreads = size - apart <= VALUE_PACK_SPREAD_REST && pieces <= VALUE_PACK_SPREAD_LONG;
    return size <= VALUE_PACK_INLINE_MAX || spreads ? size : 0;
}

static void add_piece(value_pack_spread *spread, span piece) {
    if (piece.size > 0) spread->pieces[spread->count++] = piece;
}

void value_pack_spread_init(value_pack_spread *spread, const value_pack_item *items, size_t count) {
    uint8_t *rest = spread->rest;
    size_t at = HEADER + ENTRY * count; /* offset in the value pack */
    size_t end = at, given = 0;         /* offsets in `rest`: end of the written bytes, end of the bytes in pieces */
    spread->count = 0;
    write_header(rest, count, 0);
    for (size_t i = 0; i < count; i++) {
        value_plan plan;
        value_apart apart[VALUE_PACK_SPREAD_LONG];
        mr_status status = value_measure(items[i].arg, VALUE_PACK_OUT_OF_LINE, &plan);
        MR_ASSERT(status == MR_OK && plan.apart_count <= VALUE_PACK_SPREAD_LONG);
        size_t padding = align_up(plan.value_size, ALIGN) - plan.value_size;
        MR_ASSERT(end + plan.value_size - plan.apart_size + padding <= sizeof spread->rest);
        value_write_apart(items[i].arg, &plan, rest + end, apart);
        for (uint32_t k = 0; k < plan.apart_count; k++) {
            add_piece(spread, span_of(rest + given, end + apart[k].at - given));
            add_piece(spread, apart[k].data);
            given = end + apart[k].at;
        }
        entry entry = {(uint32_t)at | VALUE_PACK_PLAIN, plan.value_size};
        memcpy(rest + HEADER + ENTRY * i, &entry, sizeof entry);
        end += plan.value_size - plan.apart_size;
        memset(rest + end, 0, padding);
        end += padding;
        at += plan.value_size + padding;
    }
    add_piece(spread, span_of(rest + given, end - given));
}

/* ---- Packing of any values: measure, lay out, write. */

typedef struct plan { /* layout of one value */
    value_pack_kind kind;
    value_plan value;
    value_buffer *buffers; /* owned; NULL: no buffers */
    size_t at, size;       /* target of the entry */
    places places;         /* set for a payload */
} plan;

static mr_status measure(const value_pack_item *item, size_t index, plan *plan) {
    if (item->arg == NULL) {
        plan->kind = item->entry.kind;
        plan->size = item->entry.bytes.size;
        plan->places.payload_size = item->entry.bytes.size;
        plan->places.region_size = item->entry.region.size;
    } else {
        size_t least = item->fill != NULL ? VALUE_DRAFT : VALUE_PACK_OUT_OF_LINE;
        mr_status status = value_measure(item->arg, least, &plan->value);
        if (status == MR_TOO_LARGE && item->fill == NULL)
            status = value_measure(item->arg, VALUE_PACK_OUT_OF_LINE_LEAST, &plan->value);
        if (status != MR_OK) return error_wrap(status, "argument %zu", index);
        plan->kind = plan->value.buffer_count == 0 && plan->value.value_size <= VALUE_PACK_PLAIN_MAX
                         ? VALUE_PACK_PLAIN
                         : VALUE_PACK_PAYLOAD;
        plan->size = plan->value.value_size;
        plan->places.payload_size = plan->value.size;
        if (plan->value.buffer_count > 0)
            MR_TRY(alloc_try(plan->value.buffer_count * sizeof *plan->buffers, &plan->buffers));
    }
    if (plan->kind == VALUE_PACK_PAYLOAD) plan->size = sizeof(places);
    return MR_OK;
}

/* Lays out what follows the table: targets of entries, then payloads. Returns the end of the payloads. */
static size_t lay_out_payloads(plan *plans, size_t count, size_t *pointed_end) {
    size_t at = HEADER + ENTRY * count;
    for (size_t i = 0; i < count; i++) {
        plans[i].at = at;
        at = align_up(at + plans[i].size, ALIGN);
    }
    *pointed_end = at;
    for (size_t i = 0; i < count; i++) {
        if (plans[i].kind != VALUE_PACK_PAYLOAD) continue;
        plans[i].places.payload_offset = at;
        at = align_up(at + (size_t)plans[i].places.payload_size, VALUE_ALIGN);
    }
    return at;
}

static size_t lay_out_regions(plan *plans, size_t count, size_t at) {
    for (size_t i = 0; i < count; i++) {
        places *places = &plans[i].places;
        if (plans[i].kind != VALUE_PACK_PAYLOAD) continue;
        if (plans[i].buffers != NULL)
            places->region_size = value_body_size(plans[i].buffers, plans[i].value.buffer_count);
        if (places->region_size == 0) continue; /* an empty region has offset 0 */
        at = align_up(at, VALUE_BUFFER_ALIGN);
        places->region_offset = at;
        at += (size_t)places->region_size;
    }
    return at;
}

/* Gaps are zeroed: old memory contents must not leave the process. */
static uint8_t *place_after(uint8_t *bytes, size_t *end, uint64_t offset, uint64_t size) {
    memset(bytes + *end, 0, (size_t)offset - *end);
    *end = (size_t)(offset + size);
    return bytes + offset;
}

/* Writes plain values and names; write_table writes the places of payloads. */
static void write_pointed(const value_pack_item *items, const plan *plans, size_t count, size_t pointed_end,
                          uint8_t *bytes) {
    size_t end = HEADER + ENTRY * count;
    for (size_t i = 0; i < count; i++) {
        uint8_t *place = place_after(bytes, &end, plans[i].at, plans[i].size);
        if (plans[i].kind == VALUE_PACK_PAYLOAD) continue;
        if (items[i].arg != NULL)
            value_write_plain(items[i].arg, &plans[i].value, place);
        else if (plans[i].size > 0)
            memcpy(place, items[i].entry.bytes.data, plans[i].size);
    }
    place_after(bytes, &end, pointed_end, 0);
}

static void write_payloads(const value_pack_item *items, plan *plans, size_t count, size_t end, size_t payloads_end,
                           uint8_t *bytes) {
    for (size_t i = 0; i < count; i++) {
        if (plans[i].kind != VALUE_PACK_PAYLOAD) continue;
        uint8_t *place = place_after(bytes, &end, plans[i].places.payload_offset, plans[i].places.payload_size);
        if (items[i].arg != NULL)
            value_write(items[i].arg, &plans[i].value, place, plans[i].buffers);
        else
            memcpy(place, items[i].entry.bytes.data, items[i].entry.bytes.size);
    }
    place_after(bytes, &end, payloads_end, 0);
}

static void write_regions(const value_pack_item *items, plan *plans, size_t count, size_t end, uint8_t *bytes) {
    for (size_t i = 0; i < count; i++) {
        const places *places = &plans[i].places;
        if (plans[i].kind != VALUE_PACK_PAYLOAD || places->region_size == 0) continue;
        uint8_t *place = place_after(bytes, &end, places->region_offset, places->region_size);
        if (items[i].arg != NULL)
            value_body_write(plans[i].buffers, plans[i].value.buffer_count, place);
        else
            memcpy(place, items[i].entry.region.data, items[i].entry.region.size);
    }
}

static void write_table(const plan *plans, size_t count, uint8_t *bytes) {
    write_header(bytes, count, 0);
    for (size_t i = 0; i < count; i++) {
        entry entry = {(uint32_t)plans[i].at | (uint32_t)plans[i].kind, (uint32_t)plans[i].size};
        memcpy(bytes + HEADER + ENTRY * i, &entry, sizeof entry);
        if (plans[i].kind == VALUE_PACK_PAYLOAD) memcpy(bytes + plans[i].at, &plans[i].places, sizeof plans[i].places);
    }
}

/* Calls the fill function with the addresses of tensors without data. */
static mr_status fill_in(const value_pack_fill *fill, const plan *plan, uint8_t *bytes) {
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

/* The sizes of regions are known only when values have been written: with buffers, all bytes before the regions are
 * written to temporary memory, and then copied. */
static mr_status pack(const value_pack_item *items, plan *plans, size_t count, value_pack_room_fn *room,
                      void *context) {
    bool buffers = false;
    for (size_t i = 0; i < count; i++) {
        MR_TRY(measure(&items[i], i, &plans[i]));
        buffers |= plans[i].buffers != NULL;
    }
    size_t pointed_end, payloads_end = lay_out_payloads(plans, count, &pointed_end);
    if (pointed_end > UINT32_MAX)
        return error_set(MR_TOO_LARGE,
                         "%zu values of %zu bytes are too large for one call: at most %u bytes without buffers", count,
                         pointed_end, UINT32_MAX);
    void *first = NULL;
    if (buffers) {
        MR_TRY(alloc_try_aligned(64, align_up(payloads_end, 64), &first));
        write_payloads(items, plans, count, pointed_end, payloads_end, first);
    }
    uint8_t *bytes = NULL;
    mr_status status = room(context, lay_out_regions(plans, count, payloads_end), &bytes);
    if (bytes != NULL) {
        if (buffers)
            memcpy(bytes + pointed_end, (uint8_t *)first + pointed_end, payloads_end - pointed_end);
        else
            write_payloads(items, plans, count, pointed_end, payloads_end, bytes);
        write_pointed(items, plans, count, pointed_end, bytes);
        write_table(plans, count, bytes);
        write_regions(items, plans, count, payloads_end, bytes);
        for (size_t i = 0; i < count && status == MR_OK; i++)
            if (items[i].fill != NULL) status = fill_in(items[i].fill, &plans[i], bytes);
    }
    free(first);
    return status;
}

mr_status value_pack_write(const value_pack_item *items, size_t count, value_pack_room_fn *room, void *context) {
    if (count > VALUE_PACK_VALUES_MAX)
        return error_set(MR_TOO_LARGE, "%zu values in one call exceed the limit of %d", count, VALUE_PACK_VALUES_MAX);
    plan few[PLANS_FEW] = {0}, *plans = few;
    if (count > PLANS_FEW) MR_TRY(alloc_try(count * sizeof(plan), &plans));
    mr_status status = pack(items, plans, count, room, context);
    for (size_t i = 0; i < count; i++) free(plans[i].buffers);
    if (plans != few) free(plans);
    return status;
}

static mr_status room_of_own(void *context, size_t size, uint8_t **out) {
    value_pack **made = context;
    MR_TRY(value_pack_room(size, made));
    *out = (*made)->bytes;
    return MR_OK;
}

mr_status value_pack_create(const value_pack_item *items, size_t count, value_pack **out) {
    value_pack *made = NULL;
    mr_status status = value_pack_write(items, count, room_of_own, &made);
    if (status != MR_OK) {
        value_pack_unref(made);
        return status;
    }
    made->count = (uint32_t)count;
    *out = made;
    return MR_OK;
}
