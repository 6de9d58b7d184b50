/* kv_request_range.c — see kv_request.h: the rows of a range of keys. */
#include "base/error.h"
#include "kv/client/kv_request_internal.h"

typedef unsigned long long ull;

static mr_status check(const kv_worker *worker, const kv_request *request) {
    const table_info *table = request->table;
    const table_schema *schema = &table->table.schema;
    MR_TRY(kv_request_check(worker, request, false));
    if (schema->kind != TABLE_SCHEMA_SPARSE || !schema->ordered)
        return error_set(MR_INVALID, "table '%s' has no ranges: only ordered sparse tables have", table->table.name);
    if (request->first > request->last || request->first < schema->first_key || request->last > schema->last_key)
        return error_set(MR_INVALID, "keys %llu to %llu: table '%s' has %llu to %llu", (ull)request->first,
                         (ull)request->last, table->table.name, (ull)schema->first_key, (ull)schema->last_key);
    if (request->found_count == NULL || (request->count != 0 && (request->found == NULL || request->to == NULL)))
        return error_set(MR_INVALID, "mr_ps_pull_range: keys, values or count is NULL");
    size_t most = SIZE_MAX / 2 / (kv_request_row(request) + sizeof(uint64_t));
    if (request->count > most)
        return error_set(MR_TOO_LARGE, "mr_ps_pull_range: room for %zu rows; the limit is %zu", request->count, most);
    return MR_OK;
}

/* Asks each slot for one row more than there is room for, to detect a longer range, or for as many rows as an answer
 * has; then for those that follow (slot_queue.h). */
static mr_status ask_slots(kv_request_builder *builder, uint32_t first, uint32_t last, gather *gather) {
    const kv_request *request = builder->request;
    size_t row = kv_request_row(request) + sizeof(uint64_t), rows = KV_REQUEST_RANGE / row;
    if (rows > request->count) rows = request->count + 1;
    for (uint32_t slot = first; slot <= last; slot++) {
        scatter part = {.ticket = builder->ticket,
                        .kind = SCATTER_RANGE,
                        .count = (uint32_t)rows,
                        .table = request->table->id,
                        .gather = gather,
                        .piece = slot - first};
        payload_room room;
        MR_TRY(kv_request_ask(builder, slot, PAYLOAD_GET_RANGE, rows * row, &part, &room));
        room.range[0] = request->first;
        room.range[1] = request->last;
    }
    return MR_OK;
}

mr_status kv_request_range(kv_worker *worker, const kv_request *request, uint64_t *ticket) {
    kv_request_builder builder = {.worker = worker, .request = request};
    MR_TRY(check(worker, request));
    uint32_t first = slot_placement_slot(&request->table->placement, request->first),
             last = slot_placement_slot(&request->table->placement, request->last);
    const gather_rows rows = {request->table->table.schema.dim, kv_request_pulled(request), request->dtype};
    gather *gather;
    MR_TRY(gather_create(last - first + 1, rows, request->last, request->found, request->to, request->count,
                         request->found_count, &gather));
    mr_status status = kv_request_begin(&builder, ticket);
    if (status != MR_OK) {
        gather_destroy(gather);
        return status;
    }
    builder.ticket->memory = gather;
    builder.ticket->release = gather_destroy;
    kv_request_end(&builder, ask_slots(&builder, first, last, gather));
    return MR_OK;
}
