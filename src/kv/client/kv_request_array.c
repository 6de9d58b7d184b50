/* kv_request_array.c — see kv_request.h: requests about arrays of a dense table. Tested by tests/ps_tables_test.c. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "kv/client/kv_request_internal.h"
#include "net/dtype_convert.h"

typedef struct stretch { /* part of one block */
    uint32_t slot, count;
    uint64_t at;  /* begin in the request, in items */
    size_t bytes; /* bytes of the caller's values */
    payload_place place;
} stretch;

/* The stretch of the request that begins with item `at`, limited to one section. */
static stretch stretch_at(const kv_request *request, uint64_t at) {
    const table_info *table = request->table;
    const dense_table_plan *plan = &table->arrays[request->array].plan;
    uint64_t item = request->first + at, left = request->count - at,
             most = KV_REQUEST_SECTION / kv_request_item(request);
    uint32_t block = (uint32_t)(item / plan->block), first = (uint32_t)(item % plan->block);
    payload_place place = {request->array, block, dense_table_count(plan, block), first};
    uint64_t count = place.items - first;
    if (count > left) count = left;
    if (count > most) count = most;
    return (stretch){table_info_block_slot(table, request->array, block), (uint32_t)count, at,
                     count * kv_request_item(request), place};
}

static mr_status check(const kv_worker *worker, const kv_request *request) {
    const table_info *table = request->table;
    MR_TRY(kv_request_check(worker, request, true));
    if (request->array >= table->table.array_count)
        return error_set(MR_INVALID, "table '%s' has no array %u: it has %u, the first is array 0", table->table.name,
                         request->array, table->table.array_count);
    uint64_t items = table->arrays[request->array].plan.items;
    if (request->first > items || request->count > items - request->first)
        return error_set(MR_INVALID, "items %llu and %zu more: array '%s' has %llu", (unsigned long long)request->first,
                         request->count, table->table.arrays[request->array].name, (unsigned long long)items);
    return MR_OK;
}

typedef struct load { /* push volume of one slot */
    size_t sections, bytes;
} load;

static mr_status check_rooms(kv_worker *worker, const kv_request *request) {
    load *loads = xcalloc(worker->slot_count, sizeof *loads);
    mr_status status = MR_OK;
    for (uint64_t at = 0; at < request->count;) {
        stretch stretch = stretch_at(request, at);
        loads[stretch.slot].sections++;
        loads[stretch.slot].bytes +=
            payload_section_size(PAYLOAD_ADD_BLOCK, stretch.count, kv_request_value_bytes(request, stretch.count));
        at += stretch.count;
    }
    for (uint32_t i = 0; i < worker->slot_count && status == MR_OK; i++)
        if (loads[i].sections != 0) status = kv_request_check_room(worker, i, loads[i].sections, loads[i].bytes);
    free(loads);
    return status;
}

static const uint8_t *values_of(const kv_request *request, const stretch *stretch) {
    return (const uint8_t *)request->values + stretch->at * kv_request_item(request);
}

static payload_op push_op(const kv_request *request) { return request->set ? PAYLOAD_SET_BLOCK : PAYLOAD_ADD_BLOCK; }

static mr_status push_plain(kv_request_builder *builder, const stretch *stretch, payload_room *room) {
    const kv_request *request = builder->request;
    size_t bytes = kv_request_value_bytes(request, stretch->count);
    MR_TRY(kv_request_add(builder, stretch->slot, push_op(request), stretch->count, bytes, room));
    if (room->values != NULL) kv_request_write(request, values_of(request, stretch), stretch->count, room->values);
    return MR_OK;
}

static mr_status push_coded(kv_request_builder *builder, const stretch *stretch, payload_room *room) {
    const kv_request *request = builder->request;
    const table_info *table = request->table;
    push_encoder *encoder = &builder->worker->encoder;
    kv_request_section section = {.slot = stretch->slot,
                                  .op = PAYLOAD_ADD_BLOCK,
                                  .count = stretch->count,
                                  .place = request->first + stretch->at,
                                  .items = stretch->count};
    MR_TRY(push_encoder_reserve(encoder, stretch->count, 0, kv_request_value_bytes(request, stretch->count)));
    MR_TRY(error_feedback_stretch(feedback_file_of(encoder->file, table->id), request->array,
                                  table->arrays[request->array].plan.items, section.place, stretch->count,
                                  &section.rests));
    if (kv_request_may_undo(request))
        MR_TRY(feedback_undo_stretch(&encoder->undo, table->id, request->array,
                                     table->arrays[request->array].plan.items, section.place, stretch->count,
                                     section.rests));
    dtype_convert(request->dtype, values_of(request, stretch), MR_F32, stretch->count, encoder->values);
    section.values = encoder->values;
    return kv_request_add_coded(builder, &section, room);
}

/* Drops the residuals of assigned items. */
static void forget_rests(const kv_request_builder *builder) {
    const kv_request *request = builder->request;
    error_feedback *feedback = feedback_file_find(builder->worker->encoder.file, request->table->id);
    if (request->set && feedback != NULL)
        error_feedback_clear(feedback, request->array, request->first, request->count);
}

/* Whether the values are sent as they are in the caller's memory. */
static bool is_sent_as_is(const kv_request *request) {
    return !kv_request_is_coded(request) && kv_request_pushed(request) == request->dtype;
}

/* Whether the server can read the stretch in place: large stretches outside rounds only. In rounds values are first
 * added up with those of other ranks, so they are sent. */
static bool lies_in_map_view(const kv_request_builder *builder, const stretch *stretch, payload_afar *out) {
    const kv_request *request = builder->request;
    van *van = kv_worker_van(builder->worker);
    const char *head = kv_worker_head(builder->worker, stretch->slot);
    bool rounds = builder->worker->queues[stretch->slot].holds;
    bool stored = request->dtype == dtype_convert_stored(request->table->table.schema.dtype);
    if (stretch->bytes < KV_REQUEST_SEEN || !stored || rounds) return false;
    *out = (payload_afar){.process = van_process(van)};
    return van_export(van) != NULL && head != NULL &&
           shm_export_holds(van_export(van), values_of(request, stretch), stretch->bytes, &out->offset) &&
           out->offset % kv_request_item(request) == 0 && van_is_seen(van, head);
}

/* Whether the stretch is sent without a copy: large stretches outside rounds only. In rounds the pushes to a slot are
 * one payload, so they are copied. */
static bool can_lend(const kv_request_builder *builder, const stretch *stretch) {
    return stretch->bytes >= KV_REQUEST_BORROWED && stretch->bytes % PAYLOAD_ALIGN == 0 &&
           !builder->worker->queues[stretch->slot].holds &&
           builder->request->table->table.schema.press == COMPRESSOR_STORED;
}

static mr_status push_copied(kv_request_builder *builder, const stretch *stretch, bool coded) {
    payload_room room;
    MR_TRY(coded ? push_coded(builder, stretch, &room) : push_plain(builder, stretch, &room));
    if (room.place == NULL) return MR_OK;
    *room.place = stretch->place;
    return kv_request_seal(builder, payload_section_size(PAYLOAD_ADD_BLOCK, stretch->count, stretch->bytes));
}

/* Pushes all stretches; the first parts are sent while the rest is split. */
static mr_status push_all(kv_request_builder *builder) {
    const kv_request *request = builder->request;
    bool coded = kv_request_is_coded(request), as_is = is_sent_as_is(request);
    payload_op op = push_op(request);
    size_t written = 0;
    forget_rests(builder);
    for (uint64_t at = 0; at < request->count;) {
        stretch stretch = stretch_at(request, at);
        payload_afar afar;
        at += stretch.count;
        if (as_is && lies_in_map_view(builder, &stretch, &afar)) {
            MR_TRY(kv_request_add_afar(builder, stretch.slot, op, stretch.count, stretch.bytes, &afar, &stretch.place));
            continue;
        }
        if (as_is && can_lend(builder, &stretch))
            MR_TRY(kv_request_add_borrowed(builder, stretch.slot, op, stretch.count,
                                           span_of(values_of(request, &stretch), stretch.bytes), &stretch.place));
        else
            MR_TRY(push_copied(builder, &stretch, coded));
        written += stretch.bytes;
        if (written < KV_REQUEST_SHIP) continue;
        kv_worker_ship(builder->worker);
        written = 0;
    }
    return MR_OK;
}

static bool sees_head(const kv_worker *worker, uint32_t slot) {
    const char *head = kv_worker_head(worker, slot);
    return head != NULL && van_sees(kv_worker_van(worker), head) != 0;
}

static mr_status pull_all(kv_request_builder *builder) {
    const kv_request *request = builder->request;
    size_t item = kv_request_item(request);
    mr_dtype precision = table_schema_precision(&request->table->table.schema);
    for (uint64_t at = 0; at < request->count;) {
        stretch stretch = stretch_at(request, at);
        payload_room room;
        scatter part = {.ticket = builder->ticket,
                        .kind = SCATTER_BLOCK,
                        .count = stretch.count,
                        .to = (uint8_t *)request->to + stretch.at * item,
                        .bytes = stretch.bytes,
                        .precision = precision,
                        .streams = request->count * item >= KV_REQUEST_STREAMED,
                        .table = request->table->id,
                        .place = stretch.place};
        if (part.bytes >= KV_REQUEST_SEEN && sees_head(builder->worker, stretch.slot))
            part.map_view = &builder->worker->map_view;
        MR_TRY(kv_request_ask(builder, stretch.slot, PAYLOAD_GET_BLOCK, part.bytes, &part, &room));
        *room.place = part.place;
        at += stretch.count;
    }
    return MR_OK;
}

mr_status kv_request_array(kv_worker *worker, const kv_request *request, uint64_t *ticket) {
    bool pushes = request->pushes, pulls = request->pulls;
    kv_request_builder builder = {.worker = worker, .request = request, .after = pushes && pulls};
    MR_TRY(check(worker, request));
    if (request->count != 0 && ((pushes && request->values == NULL) || (pulls && request->to == NULL)))
        return error_set(MR_INVALID, "the values of %zu items are NULL", request->count);
    if (pushes) MR_TRY(kv_request_check_finite(&builder, request->count));
    pushes = pushes && !builder.left_out;
    if (pushes) MR_TRY(check_rooms(worker, request));
    MR_TRY(kv_request_begin(&builder, ticket));
    mr_status status = pushes ? push_all(&builder) : MR_OK;
    if (status == MR_OK && pulls) status = pull_all(&builder);
    kv_request_end(&builder, status);
    return MR_OK;
}
