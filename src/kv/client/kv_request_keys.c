/* kv_request_keys.c — see kv_request.h: requests about lists of keys. Tested by tests/ps_key_lists_test.c. */
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/plural.h"
#include "kv/client/kv_request_internal.h"
#include "net/dtype_convert.h"

enum { GATHERED_MAX = 4096 }; /* vectors of unknown lengths in one query */

static bool has_rows(const table_info *table) { return table->table.schema.kind == TABLE_SCHEMA_SPARSE; }

/* ---- Checks. */

static mr_status check_lengths(const kv_request *request) {
    const table_info *table = request->table;
    uint32_t dim = table->table.schema.dim;
    if (has_rows(table) && request->vectors != NULL)
        return error_set(MR_INVALID, "mr_ps_pull_vectors: table '%s' has rows of %u value%s; use mr_ps_pull",
                         table->table.name, dim, plural(dim));
    if (!has_rows(table) && request->lengths == NULL && request->vectors == NULL)
        return error_set(MR_INVALID, "table '%s' has vectors: lengths must not be NULL", table->table.name);
    for (size_t i = 0; request->lengths != NULL && has_rows(table) && i < request->count; i++)
        if (request->lengths[i] != dim)
            return error_set(MR_INVALID, "lengths[%zu] is %u: rows of table '%s' have %u value%s", i,
                             request->lengths[i], table->table.name, dim, plural(dim));
    return MR_OK;
}

static bool has_values(const kv_request *request) {
    bool found = has_rows(request->table);
    for (size_t i = 0; !found && request->lengths != NULL && i < request->count; i++) found = request->lengths[i] != 0;
    return found;
}

static mr_status check_memory(const kv_request *request) {
    if (request->count == 0) return MR_OK;
    if (request->keys == NULL) return error_set(MR_INVALID, "keys is NULL, count is %zu", request->count);
    bool receives = !request->pulls || request->to != NULL || request->vectors != NULL;
    if ((!request->pushes || request->values != NULL) && receives) return MR_OK;
    return has_values(request) ? error_set(MR_INVALID, "the values of %zu keys are NULL", request->count) : MR_OK;
}

/* Computes the byte offset of the values of each key, and the end of the last. */
static void add_up(const kv_request *request, uint64_t *offsets) {
    uint64_t at = 0;
    for (size_t i = 0; i < request->count; i++) {
        offsets[i] = at;
        at += (uint64_t)request->lengths[i] * kv_request_item(request);
    }
    offsets[request->count] = at;
}

static mr_status measure(kv_worker *worker, const kv_request *request) {
    if (has_rows(request->table) || request->vectors != NULL) return MR_OK;
    MR_TRY(alloc_try_grow(&worker->offsets, &worker->offset_room, request->count + 1, sizeof *worker->offsets));
    add_up(request, worker->offsets);
    return MR_OK;
}

static mr_status prepare(kv_worker *worker, const kv_request *request) {
    MR_TRY(kv_request_check(worker, request, false));
    if (request->count > SPLITTER_KEYS_MAX)
        return error_set(MR_TOO_LARGE, "%zu keys in one request: the limit is %d", request->count, SPLITTER_KEYS_MAX);
    MR_TRY(check_lengths(request));
    MR_TRY(splitter_keys(&worker->splitter, &request->table->placement, request->keys, request->count));
    return measure(worker, request);
}

/* ---- Sections: as many keys as fit, at least one. */

static size_t value_bytes(const kv_request_builder *builder, const splitter_run *run, uint32_t i) {
    if (has_rows(builder->request->table)) return kv_request_row(builder->request);
    const uint64_t *offset = &builder->worker->offsets[run->places[i]];
    return offset[1] - offset[0];
}

static splitter_run cut(const kv_request_builder *builder, const splitter_run *run, uint32_t from, size_t *bytes) {
    splitter_run section = {.slot = run->slot, .places = run->places + from};
    *bytes = 0;
    if (builder->request->vectors != NULL) { /* a query of its own: the size of the answer is unknown */
        section.count = run->count - from < GATHERED_MAX ? run->count - from : GATHERED_MAX;
        *bytes = SLOT_QUEUE_ANSWER;
        return section;
    }
    if (has_rows(builder->request->table)) {
        size_t row = kv_request_row(builder->request);
        uint32_t most = (uint32_t)(KV_REQUEST_SECTION / row), left = run->count - from;
        if (most == 0) most = 1;
        section.count = left < most ? left : most;
        *bytes = section.count * row;
        return section;
    }
    for (uint32_t i = from; i < run->count; i++) {
        size_t more = value_bytes(builder, run, i);
        if (section.count != 0 && *bytes + more > KV_REQUEST_SECTION) break;
        *bytes += more;
        section.count++;
    }
    return section;
}

/* ---- Pushes. */

static payload_op push_op(const kv_request *request) {
    if (has_rows(request->table)) return request->set ? PAYLOAD_SET_ROWS : PAYLOAD_ADD_ROWS;
    return request->set ? PAYLOAD_SET_VECTORS : PAYLOAD_ADD_VECTORS;
}

/* Rejects a vector that would not fit an answer beside others; rows are smaller, and arrays are split. */
static mr_status check_section(const kv_request_builder *builder, const splitter_run *section, size_t bytes) {
    if (bytes <= KV_REQUEST_VECTOR_MAX) return MR_OK;
    return error_set(MR_TOO_LARGE, "the vector of key %llu has %zu bytes; the limit is %d",
                     (unsigned long long)builder->request->keys[section->places[0]], bytes, KV_REQUEST_VECTOR_MAX);
}

static mr_status check_push(kv_request_builder *builder) {
    const kv_request *request = builder->request;
    size_t values = has_rows(request->table) ? request->count * request->table->table.schema.dim
                                             : builder->worker->offsets[request->count] / kv_request_item(request);
    MR_TRY(kv_request_check_finite(builder, values));
    for (uint32_t i = 0; !builder->left_out && i < builder->worker->splitter.touch_count; i++) {
        splitter_run run = splitter_at(&builder->worker->splitter, i);
        size_t sections = 0, bytes = 0, more;
        for (uint32_t from = 0; from < run.count; sections++) {
            splitter_run section = cut(builder, &run, from, &more);
            size_t size = payload_section_size(push_op(request), section.count,
                                               kv_request_value_bytes(request, more / kv_request_item(request)));
            MR_TRY(check_section(builder, &section, size));
            bytes += size;
            from += section.count;
        }
        MR_TRY(kv_request_check_room(builder->worker, run.slot, sections, bytes));
    }
    return MR_OK;
}

static void convert_rows(const kv_request *request, const splitter_run *run, uint8_t *to) {
    uint32_t dim = request->table->table.schema.dim;
    size_t row = kv_request_row(request), wire_row = dim * mr_dtype_size(kv_request_pushed(request));
    for (uint32_t i = 0; i < run->count; i++, to += wire_row)
        kv_request_write(request, (const uint8_t *)request->values + run->places[i] * row, dim, to);
}

/* Rows of usual sizes are copied by a few instructions. */
#define COPY_ROWS(size)                       \
    for (uint32_t i = 0; i < run->count; i++) \
    memcpy(to + (size_t)i * (size), from + (size_t)run->places[i] * (size), (size))

static void copy_rows(const kv_request *request, const splitter_run *run, uint8_t *to) {
    const uint8_t *from = request->values;
    size_t row = kv_request_row(request);
    switch (row) {
    case 4: COPY_ROWS(4); break;
    case 16: COPY_ROWS(16); break;
    case 64: COPY_ROWS(64); break;
    case 256: COPY_ROWS(256); break;
    default: COPY_ROWS(row); break;
    }
}

static void copy_vectors(const kv_request_builder *builder, const splitter_run *run, uint8_t *to) {
    const kv_request *request = builder->request;
    const uint64_t *offsets = builder->worker->offsets;
    size_t item = kv_request_item(request), wire_item = mr_dtype_size(kv_request_pushed(request));
    for (uint32_t i = 0; i < run->count; i++) {
        uint32_t place = run->places[i];
        size_t count = (offsets[place + 1] - offsets[place]) / item;
        kv_request_write(request, (const uint8_t *)request->values + offsets[place], count, to);
        to += count * wire_item;
    }
}

static void copy_keys(const kv_request *request, const splitter_run *run, uint64_t *keys) {
    for (uint32_t i = 0; i < run->count; i++) keys[i] = request->keys[run->places[i]];
}

/* Whether the keys are consecutive rows: then only the first key is sent. The keys ascend strictly. */
static bool is_run(const kv_request *request, const splitter_run *run) {
    const uint64_t *keys = request->keys;
    return has_rows(request->table) && run->count > 1 &&
           keys[run->places[run->count - 1]] - keys[run->places[0]] == run->count - 1;
}

/* A list that was pulled before is sent with its hash to be cached, and afterwards as its hash only. A query that may
 * be repeated (reader_pull.h) has all keys. */
static key_list_cache_item *name_keys(kv_request_builder *builder, const splitter_run *run) {
    kv_worker *worker = builder->worker;
    builder->names = 0;
    if (builder->run || builder->pull != NULL || run->count < KEY_LIST_CACHE_LEAST ||
        push_encoder_reserve(&worker->encoder, 0, run->count, 0) != MR_OK)
        return NULL;
    copy_keys(builder->request, run, worker->encoder.keys);
    key_list_cache_name name = key_list_cache_name_of(worker->encoder.keys, run->count);
    key_list_cache_item *item = key_list_cache_find(&worker->cache, name, run->count);
    if (item == NULL) {
        uint64_t *pulled = &worker->pulled[name.low % KV_WORKER_NAMES];
        bool again = *pulled == name.low;
        *pulled = name.low;
        if (again) item = key_list_cache_keep(&worker->cache, name, worker->encoder.keys, run->count);
    }
    if (item == NULL) return NULL;
    builder->names = item->known != 0 ? PAYLOAD_KNOWN : PAYLOAD_LISTED;
    key_list_cache_hold(item);
    return item;
}

static void write_keys(const kv_request_builder *builder, const splitter_run *run, uint64_t *keys) {
    if (builder->run)
        keys[0] = builder->request->keys[run->places[0]];
    else
        copy_keys(builder->request, run, keys);
}

static void copy_lengths(const kv_request *request, const splitter_run *run, uint32_t *lengths) {
    for (uint32_t i = 0; i < run->count; i++) lengths[i] = request->lengths[run->places[i]];
}

static mr_status push_plain(kv_request_builder *builder, const splitter_run *run, size_t bytes, payload_room *room) {
    const kv_request *request = builder->request;
    size_t sent = kv_request_value_bytes(request, bytes / kv_request_item(request));
    MR_TRY(kv_request_add(builder, run->slot, push_op(request), run->count, sent, room));
    if (room->keys == NULL) return MR_OK;
    if (!has_rows(request->table))
        copy_vectors(builder, run, room->values);
    else if (kv_request_pushed(request) == request->dtype)
        copy_rows(request, run, room->values);
    else
        convert_rows(request, run, room->values);
    return MR_OK;
}

/* Copies the values of a section, consecutive, as floats. */
static void gather_floats(const kv_request_builder *builder, const splitter_run *run, float *to) {
    const kv_request *request = builder->request;
    for (uint32_t i = 0; i < run->count; i++) {
        size_t place = run->places[i], count = value_bytes(builder, run, i) / kv_request_item(request);
        size_t offset = has_rows(request->table) ? place * kv_request_row(request) : builder->worker->offsets[place];
        dtype_convert(request->dtype, (const uint8_t *)request->values + offset, MR_F32, count, to);
        to += count;
    }
}

static mr_status push_coded(kv_request_builder *builder, const splitter_run *run, size_t bytes, payload_room *room) {
    const kv_request *request = builder->request;
    const table_info *table = request->table;
    push_encoder *encoder = &builder->worker->encoder;
    size_t items = bytes / kv_request_item(request);
    MR_TRY(push_encoder_reserve(encoder, items, run->count, kv_request_value_bytes(request, items)));
    copy_keys(request, run, encoder->keys);
    if (!has_rows(table)) copy_lengths(request, run, encoder->lengths);
    gather_floats(builder, run, encoder->values);
    const error_feedback_keys keys = {.keys = encoder->keys,
                                      .lengths = has_rows(table) ? NULL : encoder->lengths,
                                      .count = run->count,
                                      .dim = table->table.schema.dim};
    const kv_request_section section = {.slot = run->slot,
                                        .op = push_op(request),
                                        .count = run->count,
                                        .place = encoder->keys[0],
                                        .values = encoder->values,
                                        .rests = encoder->rests,
                                        .items = items};
    error_feedback *feedback = feedback_file_of(encoder->file, table->id);
    error_feedback_read(feedback, &keys, encoder->rests);
    if (kv_request_may_undo(request)) MR_TRY(feedback_undo_keys(&encoder->undo, table->id, &keys, encoder->rests));
    MR_TRY(kv_request_add_coded(builder, &section, room));
    error_feedback_write(feedback, &keys, encoder->rests);
    return MR_OK;
}

static mr_status push_run(kv_request_builder *builder, const splitter_run *run) {
    const kv_request *request = builder->request;
    bool coded = kv_request_is_coded(request);
    for (uint32_t from = 0; from < run->count;) {
        size_t bytes;
        payload_room room;
        splitter_run section = cut(builder, run, from, &bytes);
        builder->run = is_run(request, &section);
        MR_TRY(coded ? push_coded(builder, &section, bytes, &room) : push_plain(builder, &section, bytes, &room));
        from += section.count;
        if (room.keys == NULL) continue;
        write_keys(builder, &section, room.keys);
        if (room.lengths != NULL) copy_lengths(request, &section, room.lengths);
        MR_TRY(kv_request_seal(builder, payload_section_size(push_op(request), section.count, bytes)));
    }
    return MR_OK;
}

/* ---- Pulls. */

/* Allocates the destinations of the answers, owned by the ticket. */
static mr_status remember(kv_request_builder *builder, uint32_t **places, const uint64_t **offsets) {
    size_t count = builder->request->count, words = has_rows(builder->request->table) ? 0 : count + 1;
    MR_TRY(alloc_try(words * sizeof **offsets + (count + 1) * sizeof **places, &builder->ticket->memory));
    uint64_t *memory = builder->ticket->memory;
    *offsets = words == 0 ? NULL : memory;
    *places = (uint32_t *)(void *)(memory + words);
    if (words != 0) memcpy(memory, builder->worker->offsets, words * sizeof *memory);
    return MR_OK;
}

/* Same, for vectors of unknown lengths. */
static mr_status gather_vectors(kv_request_builder *builder, uint32_t **places) {
    const kv_request *request = builder->request;
    vector_gather *gather;
    MR_TRY(vector_gather_create(request->keys, request->count, kv_request_pulled(request), request->dtype,
                                request->vectors, &gather));
    builder->ticket->memory = gather;
    builder->ticket->release = vector_gather_destroy;
    *places = vector_gather_places(gather);
    return MR_OK;
}

static mr_status pull_run(kv_request_builder *builder, const splitter_run *run, const uint32_t *places,
                          const uint64_t *offsets) {
    const table_info *table = builder->request->table;
    bool rows = has_rows(table), gathers = builder->request->vectors != NULL;
    for (uint32_t from = 0; from < run->count;) {
        size_t bytes;
        payload_room room;
        splitter_run section = cut(builder, run, from, &bytes);
        builder->run = is_run(builder->request, &section);
        scatter part = {.ticket = builder->ticket,
                        .kind = rows      ? SCATTER_ROWS
                                : gathers ? SCATTER_GATHER
                                          : SCATTER_VECTORS,
                        .vectors = gathers ? builder->ticket->memory : NULL,
                        .table = table->id,
                        .count = section.count,
                        .places = places + from,
                        .offsets = offsets,
                        .to = builder->request->to,
                        .bytes = kv_request_row(builder->request)};
        part.list = name_keys(builder, &section);
        mr_status status =
            kv_request_ask(builder, run->slot, rows ? PAYLOAD_GET_ROWS : PAYLOAD_GET_VECTORS, bytes, &part, &room);
        if (status != MR_OK && part.list != NULL) key_list_cache_release(part.list);
        MR_TRY(status);
        if (builder->names == PAYLOAD_KNOWN) {
            room.keys[0] = part.list->name.low;
            room.keys[1] = part.list->name.high;
        } else {
            write_keys(builder, &section, room.keys);
        }
        from += section.count;
    }
    return MR_OK;
}

/* ---- Push and pull. */

/* Drops the residuals of assigned keys. */
static void forget_rests(const kv_request_builder *builder) {
    const kv_request *request = builder->request;
    error_feedback *feedback = feedback_file_find(builder->worker->encoder.file, request->table->id);
    if (request->set && feedback != NULL) error_feedback_forget(feedback, request->keys, request->count);
}

static mr_status push_all(kv_request_builder *builder) {
    forget_rests(builder);
    for (uint32_t i = 0; i < builder->worker->splitter.touch_count; i++) {
        splitter_run run = splitter_at(&builder->worker->splitter, i);
        MR_TRY(push_run(builder, &run));
    }
    return MR_OK;
}

static mr_status pull_all(kv_request_builder *builder) {
    uint32_t *places;
    const uint64_t *offsets = NULL;
    MR_TRY(builder->request->vectors != NULL ? gather_vectors(builder, &places) : remember(builder, &places, &offsets));
    for (uint32_t i = 0; i < builder->worker->splitter.touch_count; i++) {
        splitter_run run = splitter_at(&builder->worker->splitter, i);
        memcpy(places, run.places, run.count * sizeof *places);
        MR_TRY(pull_run(builder, &run, places, offsets));
        places += run.count;
    }
    return MR_OK;
}

/* ---- One row: the frequent small request. */

static mr_status push_row(kv_request_builder *builder, const splitter_run *run) {
    const kv_request *request = builder->request;
    void *values;
    if (table_info_is_lossy(request->table)) {
        forget_rests(builder);
        return push_run(builder, run);
    }
    MR_TRY(kv_request_add_row(builder, run->slot, push_op(request), request->keys[0], &values));
    if (values != NULL) kv_request_write(request, request->values, request->table->table.schema.dim, values);
    return MR_OK;
}

static mr_status pull_row(kv_request_builder *builder, uint32_t slot) {
    static const uint32_t place = 0;
    const kv_request *request = builder->request;
    payload_room room;
    scatter part = {.ticket = builder->ticket,
                    .kind = SCATTER_ROWS,
                    .count = 1,
                    .places = &place,
                    .to = request->to,
                    .bytes = kv_request_row(request)};
    MR_TRY(kv_request_ask(builder, slot, PAYLOAD_GET_ROWS, part.bytes, &part, &room));
    room.keys[0] = request->keys[0];
    return MR_OK;
}

static mr_status travel_alone(kv_request_builder *builder, uint64_t *ticket) {
    static const uint32_t place = 0;
    const kv_request *request = builder->request;
    const table_info *table = request->table;
    MR_TRY(kv_request_check(builder->worker, request, false));
    if (request->lengths != NULL || request->vectors != NULL) MR_TRY(check_lengths(request));
    MR_TRY(splitter_check(&table->placement, request->keys, 1));
    splitter_run run = {.slot = slot_placement_slot(&table->placement, request->keys[0]), .count = 1, .places = &place};
    if (request->pushes) {
        MR_TRY(kv_request_check_finite(builder, table->table.schema.dim));
        size_t bytes = kv_request_value_bytes(request, table->table.schema.dim);
        MR_TRY(kv_request_check_room(builder->worker, run.slot, 1, payload_section_size(push_op(request), 1, bytes)));
    }
    MR_TRY(kv_request_begin(builder, ticket));
    mr_status status = request->pushes && !builder->left_out ? push_row(builder, &run) : MR_OK;
    if (status == MR_OK && request->pulls) status = pull_row(builder, run.slot);
    kv_request_end(builder, status);
    return MR_OK;
}

/* A request that runs out of memory may have been sent in part; its ticket then has the error. */
mr_status kv_request_keys(kv_worker *worker, const kv_request *request, uint64_t *ticket) {
    kv_request_builder builder = {.worker = worker, .request = request, .after = request->pushes && request->pulls};
    MR_TRY(check_memory(request));
    if (request->count == 1 && has_rows(request->table)) return travel_alone(&builder, ticket);
    MR_TRY(prepare(worker, request));
    if (request->pushes) MR_TRY(check_push(&builder));
    MR_TRY(kv_request_begin(&builder, ticket));
    mr_status status = request->pushes && !builder.left_out ? push_all(&builder) : MR_OK;
    if (status == MR_OK && request->pulls) status = pull_all(&builder);
    kv_request_end(&builder, status);
    return MR_OK;
}
