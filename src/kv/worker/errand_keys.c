/* errand_keys.c — see errand.h: errands about lists of keys. Tested by tests/ps_lists_test.c. */
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "kv/worker/errand_core.h"

static bool has_rows(const sheet *sheet) { return sheet->table.definition.kind == DEFINITION_SPARSE; }

/* ---- What can be. */

static mr_status check_lengths(const errand *errand) {
    const sheet *sheet = errand->sheet;
    uint32_t dim = sheet->table.definition.dim;
    if (!has_rows(sheet) && errand->lengths == NULL)
        return error_set(MR_INVALID, "table '%s' has vectors: lengths must not be NULL", sheet->table.name);
    for (size_t i = 0; errand->lengths != NULL && has_rows(sheet) && i < errand->count; i++)
        if (errand->lengths[i] != dim)
            return error_set(MR_INVALID, "lengths[%zu] is %u: rows of table '%s' have %u values", i, errand->lengths[i],
                             sheet->table.name, dim);
    return MR_OK;
}

static bool has_values(const errand *errand) {
    bool found = has_rows(errand->sheet);
    for (size_t i = 0; !found && errand->lengths != NULL && i < errand->count; i++) found = errand->lengths[i] != 0;
    return found;
}

static mr_status check_memory(const errand *errand) {
    if (errand->count == 0) return MR_OK;
    if (errand->keys == NULL) return error_set(MR_INVALID, "keys is NULL, count is %zu", errand->count);
    if ((!errand->pushes || errand->values != NULL) && (!errand->pulls || errand->to != NULL)) return MR_OK;
    return has_values(errand) ? error_set(MR_INVALID, "the values of %zu keys are NULL", errand->count) : MR_OK;
}

/* Where the values of each key begin, in bytes, and where the last ones end. */
static void add_up(const errand *errand, uint64_t *offsets) {
    uint64_t at = 0;
    for (size_t i = 0; i < errand->count; i++) {
        offsets[i] = at;
        at += (uint64_t)errand->lengths[i] * errand->sheet->item;
    }
    offsets[errand->count] = at;
}

static mr_status measure(customer *customer, const errand *errand) {
    if (has_rows(errand->sheet)) return MR_OK;
    if (errand->count + 1 > customer->offset_room) {
        void *memory = customer->offsets;
        MR_TRY(alloc_try_resize(&memory, (errand->count + 1) * sizeof *customer->offsets));
        customer->offsets = memory;
        customer->offset_room = errand->count + 1;
    }
    add_up(errand, customer->offsets);
    return MR_OK;
}

static mr_status prepare(customer *customer, const errand *errand) {
    MR_TRY(errand_check(customer, errand, false));
    if (errand->count > SPLITTER_KEYS_MAX)
        return error_set(MR_TOO_LARGE, "%zu keys in one request: the limit is %d", errand->count, SPLITTER_KEYS_MAX);
    MR_TRY(check_lengths(errand));
    MR_TRY(splitter_keys(&customer->splitter, &errand->sheet->placement, errand->keys, errand->count));
    return measure(customer, errand);
}

/* ---- Sections: as many keys as their values fit into one, and at least one. */

static size_t value_bytes(const trip *trip, const splitter_run *run, uint32_t i) {
    if (has_rows(trip->errand->sheet)) return trip->errand->sheet->row;
    const uint64_t *offset = &trip->customer->offsets[run->places[i]];
    return offset[1] - offset[0];
}

static splitter_run cut(const trip *trip, const splitter_run *run, uint32_t from, size_t *bytes) {
    splitter_run section = {.slot = run->slot, .places = run->places + from};
    *bytes = 0;
    if (has_rows(trip->errand->sheet)) {
        uint32_t most = (uint32_t)(ERRAND_SECTION / trip->errand->sheet->row), left = run->count - from;
        if (most == 0) most = 1;
        section.count = left < most ? left : most;
        *bytes = section.count * trip->errand->sheet->row;
        return section;
    }
    for (uint32_t i = from; i < run->count; i++) {
        size_t more = value_bytes(trip, run, i);
        if (section.count != 0 && *bytes + more > ERRAND_SECTION) break;
        *bytes += more;
        section.count++;
    }
    return section;
}

/* ---- Pushes. */

static parcel_op push_op(const errand *errand) {
    if (has_rows(errand->sheet)) return errand->set ? PARCEL_SET_ROWS : PARCEL_ADD_ROWS;
    return errand->set ? PARCEL_SET_VECTORS : PARCEL_ADD_VECTORS;
}

/* Only a vector can be longer than what a server takes at once: rows are not, and arrays are cut. */
static mr_status check_section(const trip *trip, const splitter_run *section, size_t bytes) {
    if (bytes <= ERRAND_STEP_MAX) return MR_OK;
    return error_set(MR_TOO_LARGE, "the vector of key %llu has %zu bytes; the limit is %d",
                     (unsigned long long)trip->errand->keys[section->places[0]], bytes, ERRAND_STEP_MAX);
}

static mr_status check_push(trip *trip) {
    const errand *errand = trip->errand;
    size_t values = has_rows(errand->sheet) ? errand->count * errand->sheet->table.definition.dim
                                            : trip->customer->offsets[errand->count] / errand->sheet->item;
    MR_TRY(errand_check_finite(errand, values));
    for (uint32_t i = 0; i < trip->customer->splitter.touch_count; i++) {
        splitter_run run = splitter_at(&trip->customer->splitter, i);
        size_t sections = 0, bytes = 0, more;
        for (uint32_t from = 0; from < run.count; sections++) {
            splitter_run section = cut(trip, &run, from, &more);
            size_t size = parcel_section_size(push_op(errand), section.count,
                                              errand_value_bytes(errand, more / errand->sheet->item));
            MR_TRY(check_section(trip, &section, size));
            bytes += size;
            from += section.count;
        }
        MR_TRY(errand_check_room(trip->customer, run.slot, sections, bytes));
    }
    return MR_OK;
}

/* Sizes that are usual are copied by a few instructions. */
#define COPY_ROWS(size)                       \
    for (uint32_t i = 0; i < run->count; i++) \
    memcpy(to + (size_t)i * (size), from + (size_t)run->places[i] * (size), (size))

static void copy_rows(const errand *errand, const splitter_run *run, uint8_t *to) {
    const uint8_t *from = errand->values;
    size_t row = errand->sheet->row;
    switch (row) {
    case 4: COPY_ROWS(4); break;
    case 16: COPY_ROWS(16); break;
    case 64: COPY_ROWS(64); break;
    case 256: COPY_ROWS(256); break;
    default: COPY_ROWS(row); break;
    }
}

static void copy_vectors(const trip *trip, const splitter_run *run, uint8_t *to) {
    const uint64_t *offsets = trip->customer->offsets;
    for (uint32_t i = 0; i < run->count; i++) {
        uint32_t place = run->places[i];
        size_t size = offsets[place + 1] - offsets[place];
        if (size != 0) memcpy(to, (const uint8_t *)trip->errand->values + offsets[place], size);
        to += size;
    }
}

static void copy_keys(const errand *errand, const splitter_run *run, uint64_t *keys) {
    for (uint32_t i = 0; i < run->count; i++) keys[i] = errand->keys[run->places[i]];
}

/* Keys that are one after the other, of rows: only the first is sent. They ascend and are different. */
static bool is_run(const errand *errand, const splitter_run *run) {
    const uint64_t *keys = errand->keys;
    return has_rows(errand->sheet) && run->count > 1 &&
           keys[run->places[run->count - 1]] - keys[run->places[0]] == run->count - 1;
}

/* A list that was pulled before is sent to be remembered, and then by its name only. */
static lists_item *name_keys(trip *trip, const splitter_run *run) {
    customer *customer = trip->customer;
    trip->names = 0;
    if (trip->run || run->count < LISTS_LEAST || coder_reserve(&customer->coder, 0, run->count, 0) != MR_OK)
        return NULL;
    copy_keys(trip->errand, run, customer->coder.keys);
    lists_name name = lists_name_of(customer->coder.keys, run->count);
    lists_item *item = lists_find(&customer->lists, name, run->count);
    if (item == NULL) {
        uint64_t *pulled = &customer->pulled[name.low % CUSTOMER_NAMES];
        bool again = *pulled == name.low;
        *pulled = name.low;
        if (again) item = lists_keep(&customer->lists, name, customer->coder.keys, run->count);
    }
    if (item == NULL) return NULL;
    trip->names = item->known != 0 ? PARCEL_KNOWN : PARCEL_LISTED;
    lists_hold(item);
    return item;
}

static void write_name(const lists_item *item, uint64_t *name) {
    name[0] = item->name.low;
    name[1] = item->name.high;
}

static void write_keys(const trip *trip, const splitter_run *run, uint64_t *keys) {
    if (trip->run)
        keys[0] = trip->errand->keys[run->places[0]];
    else
        copy_keys(trip->errand, run, keys);
}

static void copy_lengths(const errand *errand, const splitter_run *run, uint32_t *lengths) {
    for (uint32_t i = 0; i < run->count; i++) lengths[i] = errand->lengths[run->places[i]];
}

static mr_status push_plain(trip *trip, const splitter_run *run, size_t bytes, parcel_room *room) {
    MR_TRY(errand_add(trip, run->slot, push_op(trip->errand), run->count, bytes, room));
    if (room->keys == NULL) return MR_OK;
    if (has_rows(trip->errand->sheet))
        copy_rows(trip->errand, run, room->values);
    else
        copy_vectors(trip, run, room->values);
    return MR_OK;
}

/* The values of a section, one after the other, as floats. */
static void gather_floats(const trip *trip, const splitter_run *run, float *to) {
    const errand *errand = trip->errand;
    const sheet *sheet = errand->sheet;
    for (uint32_t i = 0; i < run->count; i++) {
        size_t place = run->places[i], count = value_bytes(trip, run, i) / sheet->item;
        size_t offset = has_rows(sheet) ? place * sheet->row : trip->customer->offsets[place];
        errand_floats(errand, (const uint8_t *)errand->values + offset, count, to);
        to += count;
    }
}

static mr_status push_coded(trip *trip, const splitter_run *run, size_t bytes, parcel_room *room) {
    const errand *errand = trip->errand;
    const sheet *sheet = errand->sheet;
    coder *coder = &trip->customer->coder;
    size_t items = bytes / sheet->item;
    MR_TRY(coder_reserve(coder, items, run->count, errand_value_bytes(errand, items)));
    copy_keys(errand, run, coder->keys);
    if (!has_rows(sheet)) copy_lengths(errand, run, coder->lengths);
    gather_floats(trip, run, coder->values);
    const feedback_keys keys = {.keys = coder->keys,
                                .lengths = has_rows(sheet) ? NULL : coder->lengths,
                                .count = run->count,
                                .dim = sheet->table.definition.dim};
    const errand_section section = {.slot = run->slot,
                                    .op = push_op(errand),
                                    .count = run->count,
                                    .place = coder->keys[0],
                                    .values = coder->values,
                                    .rests = coder->rests,
                                    .items = items};
    feedback *feedback = memoir_of(coder->memoir, sheet->id);
    feedback_read(feedback, &keys, coder->rests);
    MR_TRY(errand_add_coded(trip, &section, room));
    feedback_write(feedback, &keys, coder->rests);
    return MR_OK;
}

static mr_status push_run(trip *trip, const splitter_run *run) {
    const errand *errand = trip->errand;
    bool coded = errand_is_coded(errand);
    for (uint32_t from = 0; from < run->count;) {
        size_t bytes;
        parcel_room room;
        splitter_run section = cut(trip, run, from, &bytes);
        trip->run = is_run(errand, &section);
        MR_TRY(coded ? push_coded(trip, &section, bytes, &room) : push_plain(trip, &section, bytes, &room));
        from += section.count;
        if (room.keys == NULL) continue;
        write_keys(trip, &section, room.keys);
        if (room.lengths != NULL) copy_lengths(errand, &section, room.lengths);
        MR_TRY(errand_seal(trip, parcel_section_size(push_op(errand), section.count, bytes)));
    }
    return MR_OK;
}

/* ---- Pulls. */

/* Where the answers go is the ticket's. */
static mr_status remember(trip *trip, uint32_t **places, const uint64_t **offsets) {
    size_t count = trip->errand->count, words = has_rows(trip->errand->sheet) ? 0 : count + 1;
    MR_TRY(alloc_try(words * sizeof **offsets + (count + 1) * sizeof **places, &trip->ticket->memory));
    uint64_t *memory = trip->ticket->memory;
    *offsets = words == 0 ? NULL : memory;
    *places = (uint32_t *)(void *)(memory + words);
    if (words != 0) memcpy(memory, trip->customer->offsets, words * sizeof *memory);
    return MR_OK;
}

static mr_status pull_run(trip *trip, const splitter_run *run, const uint32_t *places, const uint64_t *offsets) {
    const sheet *sheet = trip->errand->sheet;
    bool rows = has_rows(sheet);
    for (uint32_t from = 0; from < run->count;) {
        size_t bytes;
        parcel_room room;
        splitter_run section = cut(trip, run, from, &bytes);
        trip->run = is_run(trip->errand, &section);
        scatter part = {.ticket = trip->ticket,
                        .kind = rows ? SCATTER_ROWS : SCATTER_VECTORS,
                        .count = section.count,
                        .places = places + from,
                        .offsets = offsets,
                        .to = trip->errand->to,
                        .bytes = sheet->row,
                        .item = sheet->item};
        part.list = name_keys(trip, &section);
        mr_status status =
            errand_ask(trip, run->slot, rows ? PARCEL_GET_ROWS : PARCEL_GET_VECTORS, bytes, &part, &room);
        if (status != MR_OK && part.list != NULL) lists_release(part.list);
        MR_TRY(status);
        if (trip->names == PARCEL_KNOWN)
            write_name(part.list, room.keys);
        else
            write_keys(trip, &section, room.keys);
        from += section.count;
    }
    return MR_OK;
}

/* ---- Both. */

/* What was lost of keys that are set does not come any more. */
static void forget_rests(const trip *trip) {
    const errand *errand = trip->errand;
    feedback *feedback = memoir_find(trip->customer->coder.memoir, errand->sheet->id);
    if (errand->set && feedback != NULL) feedback_forget(feedback, errand->keys, errand->count);
}

static mr_status push_all(trip *trip) {
    forget_rests(trip);
    for (uint32_t i = 0; i < trip->customer->splitter.touch_count; i++) {
        splitter_run run = splitter_at(&trip->customer->splitter, i);
        MR_TRY(push_run(trip, &run));
    }
    return MR_OK;
}

static mr_status pull_all(trip *trip) {
    uint32_t *places;
    const uint64_t *offsets;
    MR_TRY(remember(trip, &places, &offsets));
    for (uint32_t i = 0; i < trip->customer->splitter.touch_count; i++) {
        splitter_run run = splitter_at(&trip->customer->splitter, i);
        memcpy(places, run.places, run.count * sizeof *places);
        MR_TRY(pull_run(trip, &run, places, offsets));
        places += run.count;
    }
    return MR_OK;
}

/* ---- One row: the small request, of which there are many. */

static mr_status push_row(trip *trip, const splitter_run *run) {
    const errand *errand = trip->errand;
    void *values;
    if (sheet_is_lossy(errand->sheet)) {
        forget_rests(trip);
        return push_run(trip, run);
    }
    MR_TRY(errand_add_row(trip, run->slot, push_op(errand), errand->keys[0], &values));
    if (values != NULL) memcpy(values, errand->values, errand->sheet->row);
    return MR_OK;
}

static mr_status pull_row(trip *trip, uint32_t slot) {
    static const uint32_t place = 0;
    const errand *errand = trip->errand;
    parcel_room room;
    scatter part = {.ticket = trip->ticket,
                    .kind = SCATTER_ROWS,
                    .count = 1,
                    .places = &place,
                    .to = errand->to,
                    .bytes = errand->sheet->row,
                    .item = errand->sheet->item};
    MR_TRY(errand_ask(trip, slot, PARCEL_GET_ROWS, errand->sheet->row, &part, &room));
    room.keys[0] = errand->keys[0];
    return MR_OK;
}

static mr_status travel_alone(trip *trip, uint64_t *ticket) {
    static const uint32_t place = 0;
    const errand *errand = trip->errand;
    const sheet *sheet = errand->sheet;
    MR_TRY(errand_check(trip->customer, errand, false));
    if (errand->lengths != NULL) MR_TRY(check_lengths(errand));
    MR_TRY(splitter_check(&sheet->placement, errand->keys, 1));
    splitter_run run = {.slot = placement_slot(&sheet->placement, errand->keys[0]), .count = 1, .places = &place};
    if (errand->pushes) {
        MR_TRY(errand_check_finite(errand, sheet->table.definition.dim));
        size_t bytes = errand_value_bytes(errand, sheet->table.definition.dim);
        MR_TRY(errand_check_room(trip->customer, run.slot, 1, parcel_section_size(push_op(errand), 1, bytes)));
    }
    MR_TRY(errand_begin(trip, ticket));
    mr_status status = errand->pushes ? push_row(trip, &run) : MR_OK;
    if (status == MR_OK && errand->pulls) status = pull_row(trip, run.slot);
    tickets_end(&trip->customer->tickets, trip->ticket, status);
    return MR_OK;
}

/* A request that fails for want of memory has gone in part: its ticket says so. */
mr_status errand_keys(customer *customer, const errand *errand, uint64_t *ticket) {
    trip trip = {.customer = customer, .errand = errand, .after = errand->pushes && errand->pulls};
    MR_TRY(check_memory(errand));
    if (errand->count == 1 && has_rows(errand->sheet)) return travel_alone(&trip, ticket);
    MR_TRY(prepare(customer, errand));
    if (errand->pushes) MR_TRY(check_push(&trip));
    MR_TRY(errand_begin(&trip, ticket));
    mr_status status = errand->pushes ? push_all(&trip) : MR_OK;
    if (status == MR_OK && errand->pulls) status = pull_all(&trip);
    tickets_end(&customer->tickets, trip.ticket, status);
    return MR_OK;
}
