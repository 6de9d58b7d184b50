/* errand_array.c — see errand.h: errands about arrays of a dense table. Tested by tests/ps_tables_test.c. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "kv/worker/errand_core.h"

typedef struct stretch { /* of one block */
    uint32_t slot, block, first, count;
    uint64_t at; /* where it begins in the request, in items */
} stretch;

/* The stretch of the request that begins with its item `at`: at most what one section carries. */
static stretch stretch_at(const errand *errand, uint64_t at) {
    const sheet *sheet = errand->sheet;
    const dense_plan *plan = &sheet->arrays[errand->array].plan;
    uint64_t item = errand->first + at, left = errand->count - at, most = ERRAND_SECTION / sheet->item;
    stretch stretch = {.block = (uint32_t)(item / plan->block), .first = (uint32_t)(item % plan->block), .at = at};
    uint64_t count = dense_count(plan, stretch.block) - stretch.first;
    if (count > left) count = left;
    stretch.count = (uint32_t)(count < most ? count : most);
    stretch.slot = sheet_block_slot(sheet, errand->array, stretch.block);
    return stretch;
}

static mr_status check(const customer *customer, const errand *errand) {
    const sheet *sheet = errand->sheet;
    MR_TRY(errand_check(customer, errand, true));
    if (errand->array >= sheet->table.array_count)
        return error_set(MR_INVALID, "table '%s' has no array %u: it has %u, counted from 0", sheet->table.name,
                         errand->array, sheet->table.array_count);
    uint64_t items = sheet->arrays[errand->array].plan.items;
    if (errand->first > items || errand->count > items - errand->first)
        return error_set(MR_INVALID, "items %llu and %zu more: array '%s' has %llu", (unsigned long long)errand->first,
                         errand->count, sheet->table.arrays[errand->array].name, (unsigned long long)items);
    return MR_OK;
}

typedef struct load { /* of one slot */
    size_t sections, bytes;
} load;

static mr_status check_rooms(customer *customer, const errand *errand) {
    load *loads = xcalloc(customer->slot_count, sizeof *loads);
    mr_status status = MR_OK;
    for (uint64_t at = 0; at < errand->count;) {
        stretch stretch = stretch_at(errand, at);
        loads[stretch.slot].sections++;
        loads[stretch.slot].bytes +=
            parcel_section_size(PARCEL_ADD_BLOCK, stretch.count, errand_value_bytes(errand, stretch.count));
        at += stretch.count;
    }
    for (uint32_t i = 0; i < customer->slot_count && status == MR_OK; i++)
        if (loads[i].sections != 0) status = errand_check_room(customer, i, loads[i].sections, loads[i].bytes);
    free(loads);
    return status;
}

static parcel_place place_of(const errand *errand, const stretch *stretch) {
    const dense_plan *plan = &errand->sheet->arrays[errand->array].plan;
    return (parcel_place){errand->array, stretch->block, dense_count(plan, stretch->block), stretch->first};
}

static mr_status push_plain(trip *trip, const stretch *stretch, parcel_room *room) {
    const errand *errand = trip->errand;
    size_t item = errand->sheet->item;
    parcel_op op = errand->set ? PARCEL_SET_BLOCK : PARCEL_ADD_BLOCK;
    MR_TRY(errand_add(trip, stretch->slot, op, stretch->count, stretch->count * item, room));
    if (room->values != NULL)
        memcpy(room->values, (const uint8_t *)errand->values + stretch->at * item, stretch->count * item);
    return MR_OK;
}

static mr_status push_coded(trip *trip, const stretch *stretch, parcel_room *room) {
    const errand *errand = trip->errand;
    const sheet *sheet = errand->sheet;
    coder *coder = &trip->customer->coder;
    const uint8_t *from = (const uint8_t *)errand->values + stretch->at * sheet->item;
    errand_section section = {.slot = stretch->slot,
                              .op = PARCEL_ADD_BLOCK,
                              .count = stretch->count,
                              .place = errand->first + stretch->at,
                              .items = stretch->count};
    MR_TRY(coder_reserve(coder, stretch->count, 0, errand_value_bytes(errand, stretch->count)));
    MR_TRY(feedback_stretch(memoir_of(coder->memoir, sheet->id), errand->array, sheet->arrays[errand->array].plan.items,
                            section.place, stretch->count, &section.rests));
    errand_floats(errand, from, stretch->count, coder->values);
    section.values = coder->values;
    return errand_add_coded(trip, &section, room);
}

/* What was lost of items that are set does not come any more. */
static void forget_rests(const trip *trip) {
    const errand *errand = trip->errand;
    feedback *feedback = memoir_find(trip->customer->coder.memoir, errand->sheet->id);
    if (errand->set && feedback != NULL) feedback_clear(feedback, errand->array, errand->first, errand->count);
}

/* Large stretches of values that the server can read where they lie. In rounds they are added up first, with those of
 * others, so they are sent. */
static bool lies_in_sight(const trip *trip, const stretch *stretch, parcel_afar *out) {
    const errand *errand = trip->errand;
    van *van = customer_van(trip->customer);
    size_t item = errand->sheet->item, bytes = stretch->count * item;
    mr_dtype dtype = errand->sheet->table.definition.dtype;
    const char *head = customer_head(trip->customer, stretch->slot);
    bool rounds = trip->customer->chutes[stretch->slot].holds;
    if (bytes < ERRAND_SEEN || (dtype != MR_F32 && dtype != MR_I64) || rounds) return false;
    *out = (parcel_afar){.process = van_process(van)};
    return van_glass(van) != NULL && head != NULL &&
           glass_holds(van_glass(van), (const uint8_t *)errand->values + stretch->at * item, bytes, &out->offset) &&
           out->offset % item == 0 && van_is_seen(van, head);
}

static mr_status push_afar(trip *trip, const stretch *stretch, const parcel_afar *afar) {
    const errand *errand = trip->errand;
    parcel_op op = errand->set ? PARCEL_SET_BLOCK : PARCEL_ADD_BLOCK;
    parcel_place place = place_of(errand, stretch);
    return errand_add_afar(trip, stretch->slot, op, stretch->count, stretch->count * errand->sheet->item, afar, &place);
}

/* Large stretches of values that travel as they are. In rounds what was pushed to a slot is one parcel, so it is
 * copied. */
static bool can_lend(const trip *trip, const stretch *stretch) {
    const errand *errand = trip->errand;
    size_t bytes = stretch->count * errand->sheet->item;
    return bytes >= ERRAND_LENT && bytes % PARCEL_ALIGN == 0 && !trip->customer->chutes[stretch->slot].holds &&
           errand->sheet->table.definition.press == PRESS_STORED;
}

static mr_status push_lent(trip *trip, const stretch *stretch) {
    const errand *errand = trip->errand;
    size_t item = errand->sheet->item;
    parcel_op op = errand->set ? PARCEL_SET_BLOCK : PARCEL_ADD_BLOCK;
    parcel_place place = place_of(errand, stretch);
    span values = span_of((const uint8_t *)errand->values + stretch->at * item, stretch->count * item);
    return errand_add_lent(trip, stretch->slot, op, stretch->count, values, &place);
}

static mr_status push_copied(trip *trip, const stretch *stretch, bool coded) {
    size_t item = trip->errand->sheet->item;
    parcel_room room;
    MR_TRY(coded ? push_coded(trip, stretch, &room) : push_plain(trip, stretch, &room));
    if (room.place == NULL) return MR_OK;
    *room.place = place_of(trip->errand, stretch);
    return errand_seal(trip, parcel_section_size(PARCEL_ADD_BLOCK, stretch->count, stretch->count * item));
}

/* What was cut goes while the rest is. */
static mr_status push_all(trip *trip) {
    const errand *errand = trip->errand;
    bool coded = errand_is_coded(errand);
    size_t item = errand->sheet->item, written = 0;
    forget_rests(trip);
    for (uint64_t at = 0; at < errand->count;) {
        stretch stretch = stretch_at(errand, at);
        parcel_afar afar;
        at += stretch.count;
        if (!coded && lies_in_sight(trip, &stretch, &afar)) {
            MR_TRY(push_afar(trip, &stretch, &afar));
            continue;
        }
        if (!coded && can_lend(trip, &stretch))
            MR_TRY(push_lent(trip, &stretch));
        else
            MR_TRY(push_copied(trip, &stretch, coded));
        written += stretch.count * item;
        if (written < ERRAND_SHIP) continue;
        customer_ship(trip->customer);
        written = 0;
    }
    return MR_OK;
}

static bool sees_head(const customer *customer, uint32_t slot) {
    const char *head = customer_head(customer, slot);
    return head != NULL && van_sees(customer_van(customer), head) != 0;
}

static mr_status pull_all(trip *trip) {
    const errand *errand = trip->errand;
    size_t item = errand->sheet->item;
    for (uint64_t at = 0; at < errand->count;) {
        stretch stretch = stretch_at(errand, at);
        parcel_room room;
        scatter part = {.ticket = trip->ticket,
                        .kind = SCATTER_BLOCK,
                        .count = stretch.count,
                        .to = (uint8_t *)errand->to + stretch.at * item,
                        .bytes = stretch.count * item,
                        .item = item,
                        .streams = errand->count * item >= ERRAND_STREAMED,
                        .table = errand->sheet->id,
                        .place = place_of(errand, &stretch)};
        if (part.bytes >= ERRAND_SEEN && sees_head(trip->customer, stretch.slot)) part.sight = &trip->customer->sight;
        MR_TRY(errand_ask(trip, stretch.slot, PARCEL_GET_BLOCK, part.bytes, &part, &room));
        *room.place = part.place;
        at += stretch.count;
    }
    return MR_OK;
}

mr_status errand_array(customer *customer, const errand *errand, uint64_t *ticket) {
    bool pushes = errand->pushes, pulls = errand->pulls;
    trip trip = {.customer = customer, .errand = errand, .after = pushes && pulls};
    MR_TRY(check(customer, errand));
    if (errand->count != 0 && ((pushes && errand->values == NULL) || (pulls && errand->to == NULL)))
        return error_set(MR_INVALID, "the values of %zu items are NULL", errand->count);
    if (pushes) MR_TRY(errand_check_finite(errand, errand->count));
    if (pushes) MR_TRY(check_rooms(customer, errand));
    MR_TRY(errand_begin(&trip, ticket));
    mr_status status = pushes ? push_all(&trip) : MR_OK;
    if (status == MR_OK && pulls) status = pull_all(&trip);
    tickets_end(&customer->tickets, trip.ticket, status);
    return MR_OK;
}
