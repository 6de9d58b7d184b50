/* errand_range.c — see errand.h: the rows of a range of keys. */
#include "base/error.h"
#include "kv/worker/errand_core.h"

typedef unsigned long long ull;

static mr_status check(const customer *customer, const errand *errand) {
    const sheet *sheet = errand->sheet;
    const definition *definition = &sheet->table.definition;
    MR_TRY(errand_check(customer, errand, false));
    if (definition->kind != DEFINITION_SPARSE || !definition->ordered)
        return error_set(MR_INVALID, "table '%s' has no ranges: only ordered sparse tables have", sheet->table.name);
    if (errand->first > errand->last || errand->first < definition->first_key || errand->last > definition->last_key)
        return error_set(MR_INVALID, "keys %llu to %llu: table '%s' has %llu to %llu", (ull)errand->first,
                         (ull)errand->last, sheet->table.name, (ull)definition->first_key, (ull)definition->last_key);
    if (errand->found_count == NULL || (errand->count != 0 && (errand->found == NULL || errand->to == NULL)))
        return error_set(MR_INVALID, "mr_ps_pull_range: keys, values or count is NULL");
    if (errand->count > ERRAND_RANGE_MAX / (sheet->row + sizeof(uint64_t)))
        return error_set(MR_TOO_LARGE, "room for %zu rows: a range of this table returns at most %zu at a time",
                         errand->count, ERRAND_RANGE_MAX / (sheet->row + sizeof(uint64_t)));
    return MR_OK;
}

/* A row more than there is room for tells that there are more. */
static mr_status ask_slots(trip *trip, uint32_t first, uint32_t last, gather *gather) {
    const errand *errand = trip->errand;
    size_t bytes = (errand->count + 1) * (errand->sheet->row + sizeof(uint64_t));
    for (uint32_t slot = first; slot <= last; slot++) {
        scatter part = {.ticket = trip->ticket,
                        .kind = SCATTER_RANGE,
                        .count = (uint32_t)errand->count + 1,
                        .gather = gather,
                        .piece = slot - first};
        parcel_room room;
        MR_TRY(errand_ask(trip, slot, PARCEL_GET_RANGE, bytes, &part, &room));
        room.range[0] = errand->first;
        room.range[1] = errand->last;
    }
    return MR_OK;
}

mr_status errand_range(customer *customer, const errand *errand, uint64_t *ticket) {
    trip trip = {.customer = customer, .errand = errand};
    MR_TRY(check(customer, errand));
    uint32_t first = placement_slot(&errand->sheet->placement, errand->first),
             last = placement_slot(&errand->sheet->placement, errand->last);
    gather *gather;
    MR_TRY(gather_create(last - first + 1, errand->sheet->row, errand->found, errand->to, errand->count,
                         errand->found_count, &gather));
    mr_status status = errand_begin(&trip, ticket);
    if (status != MR_OK) {
        gather_destroy(gather);
        return status;
    }
    trip.ticket->memory = gather;
    trip.ticket->release = gather_destroy;
    tickets_end(&customer->tickets, trip.ticket, ask_slots(&trip, first, last, gather));
    return MR_OK;
}
