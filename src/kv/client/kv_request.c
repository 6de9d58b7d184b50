/* kv_request.c — see kv_request.h: the common part of all requests. Tested by tests/ps_tables_test.c. */
#include "kv/client/kv_request.h"

#include <string.h>

#include "base/error.h"
#include "kv/client/kv_request_internal.h"
#include "net/dtype_convert.h"
#include "ps/slot_server.h"

_Static_assert(KV_REQUEST_STEP_MAX + KV_REQUEST_STEP_REST <= SLOT_SERVER_PUSH_MAX,
               "what a step may push is taken by servers");

/* ---- The dtype on the wire. */

mr_dtype kv_request_pushed(const kv_request *request) {
    return request->set ? request->dtype : kv_request_pulled(request);
}

mr_dtype kv_request_pulled(const kv_request *request) {
    mr_dtype precision = table_schema_precision(&request->table->table.schema);
    return precision == MR_F16 || precision == MR_BF16 ? precision : request->dtype;
}

/* ---- Checks. */

static mr_status check_dtype(const kv_request *request) {
    const table_info *table = request->table;
    mr_dtype own = table->table.schema.dtype;
    if (dtype_convert_fits(request->dtype, own)) return MR_OK;
    return error_set(MR_INVALID, "values of %s: table '%s' has %s, for which a request may have %s",
                     mr_dtype_name(request->dtype), table->table.name, mr_dtype_name(own),
                     own == MR_I64 ? "int64 only" : "float32, float16 or bfloat16");
}

mr_status kv_request_check(const kv_worker *worker, const kv_request *request, bool has_arrays) {
    const table_info *table = request->table;
    bool reads =
        request->values == NULL && kv_worker_is_ready(worker) && !worker->session.begun && !worker->session.lost;
    if (!kv_worker_is_open(worker) && !reads) return error_set(MR_STALE, "no step is open: call mr_ps_begin first");
    if (table->dropped) return error_set(MR_NOT_FOUND, "table '%s' was dropped", table->table.name);
    if ((table->table.schema.kind == TABLE_SCHEMA_DENSE) != has_arrays)
        return error_set(MR_INVALID, "table '%s' has %s", table->table.name,
                         has_arrays ? "keys, no arrays" : "arrays, no keys");
    MR_TRY(check_dtype(request));
    const cluster_map *map = rank_map(worker->rank);
    bool rounds = table_info_in_rounds(table);
    if (table->placement.slots != cluster_map_table_slots(map) ||
        table->placement.first_slot != cluster_map_first(map, rounds))
        return error_set(MR_STALE, "table '%s' was opened for other slots; open it again", table->table.name);
    if (rounds && !kv_worker_in_round(worker) && !worker->reads)
        return error_set(MR_STALE, "table '%s' is bsp: it can be used in the next step that begins", table->table.name);
    return MR_OK;
}

/* Codecs with a scale or an order need finite values. */
static bool codec_refuses(codec_id id) { return id == CODEC_INT8 || id == CODEC_SIGN || id == CODEC_TOPK; }

mr_status kv_request_check_finite(kv_request_builder *builder, size_t count) {
    const kv_request *request = builder->request;
    const table_schema *schema = &request->table->table.schema;
    bool coded = kv_request_is_coded(request), rounds = table_info_in_rounds(request->table);
    mr_dtype wire = coded ? request->dtype : kv_request_pushed(request);
    builder->left_out = rounds && kv_worker_skips(builder->worker);
    if (builder->left_out) return MR_OK;
    if (!request->skip_nonfinite && !schema->refuse_nan && !(coded && codec_refuses(schema->codec.id))) return MR_OK;
    size_t first = dtype_convert_first_infinite(request->dtype, request->values, wire, count);
    if (first == count) return MR_OK;
    if (request->skip_nonfinite) {
        builder->left_out = true;
        if (rounds) return kv_worker_skip(builder->worker);
        builder->worker->skipped++;
        return MR_OK;
    }
    return error_set(MR_INVALID, "value %zu is not finite as %s, which %s '%s' refuses", first, mr_dtype_name(wire),
                     schema->refuse_nan ? "table" : "the codec of table", request->table->table.name);
}

/* Outside rounds each section of a slot has a seq of its own. */
static uint64_t next_name(const kv_worker *worker, const slot_queue *queue) {
    uint64_t step = worker->session.step + 1;
    if (queue->holds) return step;
    return seq_step(queue->last) == step ? queue->last + 1 : seq_of(step, 1);
}

mr_status kv_request_check_room(kv_worker *worker, uint32_t slot, size_t sections, size_t bytes) {
    slot_queue *queue = &worker->queues[slot];
    if (queue->holds) {
        if (bytes > KV_REQUEST_STEP_MAX || slot_queue_gathered(queue) + bytes > KV_REQUEST_STEP_MAX)
            return error_set(MR_TOO_LARGE, "a step pushes at most %d bytes to a slot (here %u): use more slots",
                             KV_REQUEST_STEP_MAX, slot);
    } else if (next_name(worker, queue) + sections > seq_tick(worker->session.step + 1)) {
        return error_set(MR_BUSY, "too many pushes to slot %u in one step: end the step", slot);
    }
    return MR_OK;
}

/* Versions of another generation are discarded. */
static void begin_mark(const kv_worker *worker, mr_ps_version *mark) {
    if (mark->generation != worker->generation) memset(mark->versions, 0, mark->slots * sizeof *mark->versions);
    mark->generation = worker->generation;
    mark->changed = 0;
}

mr_status kv_request_begin(kv_request_builder *builder, uint64_t *ticket) {
    const kv_request *request = builder->request;
    MR_TRY(tickets_open(&builder->worker->tickets, request->kept, &builder->ticket));
    if (request->mark != NULL) begin_mark(builder->worker, request->mark);
    if (request->rated && table_info_in_rounds(request->table) && !builder->left_out)
        kv_worker_note_rate(builder->worker, request->table->id, request->rate);
    builder->ticket->done = request->done;
    builder->ticket->context = request->context;
    builder->ticket->kind = (uint8_t)((request->values != NULL ? KV_REQUEST_PUSHES : 0) |
                                      (request->pushes && !request->pulls ? 0 : KV_REQUEST_PULLS));
    builder->ticket->table = request->table->id;
    *ticket = tickets_number(builder->ticket);
    if (!builder->worker->reads || !table_info_in_rounds(request->table)) return MR_OK;
    mr_status status = kv_worker_read(builder->worker, builder->ticket, &builder->pull);
    if (status == MR_OK) return MR_OK;
    builder->ticket->kept = false;
    builder->ticket->done = NULL;
    tickets_end(&builder->worker->tickets, builder->ticket, status);
    return status;
}

void kv_request_end(kv_request_builder *builder, mr_status status) {
    tickets_end(&builder->worker->tickets, builder->ticket, status);
    if (builder->pull != NULL) kv_worker_judge_pull(builder->worker, builder->pull);
}

/* ---- Sections. */

static mr_status define(const table_info *table, payload_writer *payload) {
    payload_room room;
    MR_TRY(payload_add(payload, (payload_head){.table = table->id, .op = PAYLOAD_DEFINE}, TABLE_SCHEMA_SIZE, &room));
    memcpy(room.values, table->define, TABLE_SCHEMA_SIZE);
    return MR_OK;
}

static bool knows(const slot_queue *queue, const table_info_mark *mark) {
    return mark->first != 0 && mark->first <= queue->known;
}

static mr_status define_in_batch(const kv_request_builder *builder, const slot_queue *queue, push_batch *batch) {
    table_info *table = builder->request->table;
    table_info_mark *mark = table_info_mark_of(table, queue->slot, builder->worker->generation);
    if (knows(queue, mark) || mark->batch == batch->number) return MR_OK;
    MR_TRY(define(table, &batch->payload));
    mark->batch = batch->number;
    if (mark->first == 0) mark->first = batch->number;
    return MR_OK;
}

static mr_status define_in_query(const table_info *table, const slot_queue *queue, table_info_mark *mark,
                                 query_batch *batch) {
    if (knows(queue, mark) || mark->query == batch->number) return MR_OK;
    MR_TRY(define(table, &batch->payload));
    mark->query = batch->number;
    return MR_OK;
}

/* Whether the learning rate precedes each section; in rounds it is sent at the end of the step. */
static bool has_rate(const kv_request_builder *builder, const slot_queue *queue) {
    return builder->request->rated && !queue->holds;
}

/* Writes what precedes a section of a push: the schema, if the slot may not have it, and the learning rate. */
static mr_status introduce(const kv_request_builder *builder, const slot_queue *queue, push_batch *batch) {
    const kv_request *request = builder->request;
    MR_TRY(define_in_batch(builder, queue, batch));
    if (!has_rate(builder, queue)) return MR_OK;
    return payload_add_rate(&batch->payload, request->table->id, request->rate);
}

/* A section that could not be added leaves no rate behind. */
static mr_status added(const kv_request_builder *builder, const slot_queue *queue, push_batch *batch,
                       mr_status status) {
    if (status != MR_OK && has_rate(builder, queue)) payload_cut(&batch->payload, batch->payload.last);
    return status;
}

static payload_head head_of(const kv_request_builder *builder, payload_op op, size_t count) {
    const table_info *table = builder->request->table;
    payload_head head = {
        .table = table->id, .op = op, .flags = builder->run ? PAYLOAD_RUN : 0, .count = (uint32_t)count};
    if (!payload_is_push(op)) {
        head.flags |= builder->names;
        head.dtype = kv_request_pulled(builder->request);
        return head;
    }
    head.flags |= builder->flags;
    head.dtype = (builder->flags & PAYLOAD_CODED) != 0 ? MR_F32 : kv_request_pushed(builder->request);
    return head;
}

static bool there_already(slot_queue *queue, uint64_t name) {
    if (queue->holds || name > queue->there) return false;
    slot_queue_skip(queue, name);
    return true;
}

/* Adds the last section to the ticket. */
static void add_part(kv_request_builder *builder, slot_queue *queue, push_batch *batch, uint64_t name) {
    builder->batch = batch;
    if (builder->request->priority > batch->priority) batch->priority = builder->request->priority;
    slot_queue_part(queue, batch, name, builder->ticket);
    kv_worker_wakes(builder->worker, queue);
}

/* Adds a section with `value_bytes` bytes of values, of which `written` are inside the payload. */
static mr_status add_section(kv_request_builder *builder, uint32_t slot, payload_head head, size_t value_bytes,
                             size_t written, payload_room *out) {
    slot_queue *queue = &builder->worker->queues[slot];
    uint64_t name = next_name(builder->worker, queue);
    *out = (payload_room){0};
    if (there_already(queue, name)) return MR_OK;
    push_batch *batch = slot_queue_gather(queue, payload_section_size(head.op, head.count, value_bytes));
    MR_TRY(introduce(builder, queue, batch));
    MR_TRY(added(builder, queue, batch, payload_add(&batch->payload, head, written, out)));
    add_part(builder, queue, batch, name);
    return MR_OK;
}

mr_status kv_request_add(kv_request_builder *builder, uint32_t slot, payload_op op, size_t count, size_t value_bytes,
                         payload_room *out) {
    return add_section(builder, slot, head_of(builder, op, count), value_bytes, value_bytes, out);
}

mr_status kv_request_add_afar(kv_request_builder *builder, uint32_t slot, payload_op op, size_t count,
                              size_t value_bytes, const payload_afar *afar, const payload_place *place) {
    payload_head head = head_of(builder, op, count);
    payload_room room;
    head.flags = PAYLOAD_AFAR;
    MR_TRY(add_section(builder, slot, head, value_bytes, sizeof *afar, &room));
    if (room.values == NULL) return MR_OK;
    builder->worker->lends = true;
    *room.place = *place;
    memcpy(room.values, afar, sizeof *afar);
    return MR_OK;
}

/* Counts a section of `items` values that is pushed without a codec. */
static void count_plain(const kv_request_builder *builder, size_t bytes, size_t items) {
    const kv_request *request = builder->request;
    push_encoder_traffic *traffic = &builder->worker->encoder.traffic;
    traffic->sections++;
    traffic->plain_bytes += bytes + items * (kv_request_item(request) - mr_dtype_size(kv_request_pushed(request)));
    traffic->sent_bytes += bytes;
}

mr_status kv_request_add_borrowed(kv_request_builder *builder, uint32_t slot, payload_op op, size_t count, span values,
                                  const payload_place *place) {
    kv_worker *worker = builder->worker;
    slot_queue *queue = &worker->queues[slot];
    uint64_t name = next_name(worker, queue);
    payload_room room;
    if (there_already(queue, name)) return MR_OK;
    push_batch *batch = slot_queue_gather(queue, payload_section_size(op, (uint32_t)count, values.size));
    MR_TRY(introduce(builder, queue, batch));
    mr_status status = payload_add_front(&batch->payload, head_of(builder, op, count), values.size, &room);
    MR_TRY(added(builder, queue, batch, status));
    *room.place = *place;
    slot_queue_lend(batch, zero_copy_make(values, kv_worker_moved, worker));
    add_part(builder, queue, batch, name);
    count_plain(builder, batch->payload.size - batch->payload.last + values.size, count);
    return MR_OK;
}

static bool goes_on(const kv_request_builder *builder, const push_batch *batch, payload_op op, uint64_t key) {
    const slot_queue_run *run = &batch->run;
    const kv_request *request = builder->request;
    uint32_t rows = batch->payload.rows;
    return rows != 0 && rows < PAYLOAD_ROWS_MAX && run->table == request->table->id && run->op == op &&
           run->dtype == kv_request_pushed(request) && run->last < key && run->rated == request->rated &&
           (!run->rated || run->rate == request->rate);
}

static mr_status add_rows(const kv_request_builder *builder, slot_queue *queue, push_batch *batch, payload_op op,
                          size_t row, uint64_t key, void **values) {
    const kv_request *request = builder->request;
    MR_TRY(introduce(builder, queue, batch));
    mr_status status = payload_add_rows(&batch->payload, head_of(builder, op, 1), row, key, values);
    MR_TRY(added(builder, queue, batch, status));
    batch->run = (slot_queue_run){.table = request->table->id,
                                  .op = op,
                                  .dtype = kv_request_pushed(request),
                                  .rated = request->rated,
                                  .rate = request->rate};
    return MR_OK;
}

mr_status kv_request_add_row(kv_request_builder *builder, uint32_t slot, payload_op op, uint64_t key, void **values) {
    uint32_t dim = builder->request->table->table.schema.dim;
    size_t row = dim * mr_dtype_size(kv_request_pushed(builder->request));
    slot_queue *queue = &builder->worker->queues[slot];
    uint64_t name = next_name(builder->worker, queue);
    *values = NULL;
    if (there_already(queue, name)) return MR_OK;
    push_batch *batch = slot_queue_gather(queue, PAYLOAD_HEAD + PAYLOAD_ALIGN + sizeof key + row);
    size_t before = batch->payload.size;
    if (goes_on(builder, batch, op, key))
        MR_TRY(payload_add_row(&batch->payload, key, values));
    else
        MR_TRY(add_rows(builder, queue, batch, op, row, key, values));
    batch->run.last = key;
    count_plain(builder, batch->payload.size - before, dim);
    add_part(builder, queue, batch, name);
    return MR_OK;
}

/* Asks only for changes since the version of the mark, if there is one. */
static void ask_newer(const kv_request_builder *builder, uint32_t slot, scatter *part, const payload_room *room) {
    mr_ps_version *mark = builder->request->mark;
    if (mark == NULL) return;
    part->version = &mark->versions[slot - builder->request->table->placement.first_slot];
    part->changed = &mark->changed;
    *room->version = *part->version;
}

mr_status kv_request_ask(kv_request_builder *builder, uint32_t slot, payload_op op, size_t answer, scatter *part,
                         payload_room *out) {
    kv_worker *worker = builder->worker;
    slot_queue *queue = &worker->queues[slot];
    uint64_t needs =
        worker->session.begun ? consistency_needs(builder->request->table->consistency, worker->session.step) : 0;
    uint64_t step = queue->holds ? worker->session.step + builder->after : needs;
    uint64_t behind = queue->holds && !builder->after ? 0 : queue->last;
    query_batch *batch = builder->pull != NULL ? slot_queue_read(queue, builder->pull, answer)
                                               : slot_queue_ask(queue, step, behind, answer);
    table_info_mark *mark = table_info_mark_of(builder->request->table, slot, worker->generation);
    MR_TRY(define_in_query(builder->request->table, queue, mark, batch));
    payload_head head = head_of(builder, op, part->count);
    if (part->map_view != NULL) head.flags = PAYLOAD_AFAR;
    part->wire = head.dtype;
    part->dtype = builder->request->dtype;
    MR_TRY(payload_add(&batch->payload, head, 0, out));
    ask_newer(builder, slot, part, out);
    batch->names |= (builder->names & PAYLOAD_KNOWN) != 0;
    push_encoder_traffic *traffic = &worker->encoder.traffic;
    size_t bytes = batch->payload.size - batch->payload.last;
    traffic->asked_plain_bytes += head.flags == 0 ? bytes : payload_section_size(op, part->count, 0);
    traffic->asked_bytes += bytes;
    if (builder->request->priority > batch->priority) batch->priority = builder->request->priority;
    slot_queue_expect(batch, part);
    kv_worker_wakes(worker, queue);
    return MR_OK;
}
