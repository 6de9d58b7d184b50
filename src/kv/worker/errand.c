/* errand.c — see errand.h: what all errands have in common. Tested by tests/ps_tables_test.c. */
#include "kv/worker/errand.h"

#include <string.h>

#include "base/error.h"
#include "kv/worker/errand_core.h"
#include "ps/server.h"

_Static_assert(ERRAND_STEP_MAX + ERRAND_STEP_REST <= SERVER_PUSH_MAX, "what a step may push is taken by servers");

/* ---- What can be. */

mr_status errand_check(const customer *customer, const errand *errand, bool has_arrays) {
    const sheet *sheet = errand->sheet;
    bool reads =
        errand->values == NULL && customer_is_ready(customer) && !customer->session.begun && !customer->session.lost;
    if (!customer_is_open(customer) && !reads)
        return error_set(MR_STALE, "no step is open: begin one first (mr_ps_begin)");
    if (sheet->dropped) return error_set(MR_NOT_FOUND, "table '%s' was dropped", sheet->table.name);
    if ((sheet->table.definition.kind == DEFINITION_DENSE) != has_arrays)
        return error_set(MR_INVALID, "table '%s' has %s", sheet->table.name,
                         has_arrays ? "keys, no arrays" : "arrays, no keys");
    const chart *chart = rank_chart(customer->rank);
    bool rounds = sheet_in_rounds(sheet);
    if (sheet->placement.slots != chart_table_slots(chart) || sheet->placement.first_slot != chart_first(chart, rounds))
        return error_set(MR_STALE, "table '%s' was opened for other slots; open it again", sheet->table.name);
    if (rounds && !customer_in_round(customer))
        return error_set(MR_STALE, "table '%s' is bsp: it can be used in the next step that begins", sheet->table.name);
    return MR_OK;
}

static bool finite(mr_dtype dtype, const void *values, size_t at) {
    if (dtype == MR_F32) {
        uint32_t bits;
        memcpy(&bits, (const uint8_t *)values + at * sizeof bits, sizeof bits);
        return (bits & 0x7f800000) != 0x7f800000;
    }
    uint16_t bits, exponent = dtype == MR_F16 ? 0x7c00 : 0x7f80;
    memcpy(&bits, (const uint8_t *)values + at * sizeof bits, sizeof bits);
    return (bits & exponent) != exponent;
}

/* Scales and orders are made of finite values. */
static bool codec_refuses(codec_id id) { return id == CODEC_INT8 || id == CODEC_SIGN || id == CODEC_TOPK; }

mr_status errand_check_finite(const errand *errand, size_t count) {
    const definition *definition = &errand->sheet->table.definition;
    bool coded = errand_is_coded(errand) && codec_refuses(definition->codec.id);
    if ((!definition->refuse_nan && !coded) || definition->dtype == MR_I64) return MR_OK;
    for (size_t i = 0; i < count; i++)
        if (!finite(definition->dtype, errand->values, i))
            return error_set(MR_INVALID, "value %zu is not finite, which %s '%s' refuses", i,
                             definition->refuse_nan ? "table" : "the codec of table", errand->sheet->table.name);
    return MR_OK;
}

/* In a step without rounds each section of a slot has a name. */
static uint64_t next_name(const customer *customer, const chute *chute) {
    uint64_t step = customer->session.step + 1;
    if (chute->holds) return step;
    return name_step(chute->last) == step ? chute->last + 1 : name_of(step, 1);
}

mr_status errand_check_room(customer *customer, uint32_t slot, size_t sections, size_t bytes) {
    chute *chute = &customer->chutes[slot];
    if (chute->holds) {
        if (bytes > ERRAND_STEP_MAX || chute_gathered(chute) + bytes > ERRAND_STEP_MAX)
            return error_set(MR_TOO_LARGE, "a step pushes at most %d bytes to a slot (here %u): use more slots",
                             ERRAND_STEP_MAX, slot);
    } else if (next_name(customer, chute) + sections > name_tick(customer->session.step + 1)) {
        return error_set(MR_BUSY, "too many pushes to slot %u in one step: end the step", slot);
    }
    return MR_OK;
}

/* Versions of another generation mean nothing in this one. */
static void begin_mark(const customer *customer, errand_mark *mark) {
    if (mark->generation != customer->generation) memset(mark->versions, 0, mark->slots * sizeof *mark->versions);
    mark->generation = customer->generation;
    mark->changed = 0;
}

mr_status errand_begin(trip *trip, uint64_t *ticket) {
    const errand *errand = trip->errand;
    MR_TRY(tickets_open(&trip->customer->tickets, errand->kept, &trip->ticket));
    if (errand->mark != NULL) begin_mark(trip->customer, errand->mark);
    trip->ticket->done = errand->done;
    trip->ticket->context = errand->context;
    *ticket = tickets_number(trip->ticket);
    return MR_OK;
}

/* ---- Sections. */

static mr_status define(const sheet *sheet, parcel_writer *parcel) {
    parcel_room room;
    MR_TRY(parcel_add(parcel, (parcel_head){.table = sheet->id, .op = PARCEL_DEFINE}, DEFINITION_SIZE, &room));
    memcpy(room.values, sheet->define, DEFINITION_SIZE);
    return MR_OK;
}

static bool knows(const chute *chute, const sheet_mark *mark) {
    return mark->first != 0 && mark->first <= chute->known;
}

static mr_status define_in_batch(const trip *trip, const chute *chute, batch *batch) {
    sheet *sheet = trip->errand->sheet;
    sheet_mark *mark = sheet_mark_of(sheet, chute->slot, trip->customer->generation);
    if (knows(chute, mark) || mark->batch == batch->number) return MR_OK;
    MR_TRY(define(sheet, &batch->parcel));
    mark->batch = batch->number;
    if (mark->first == 0) mark->first = batch->number;
    return MR_OK;
}

static mr_status define_in_query(const sheet *sheet, const chute *chute, sheet_mark *mark, query *query) {
    if (knows(chute, mark) || mark->query == query->number) return MR_OK;
    MR_TRY(define(sheet, &query->parcel));
    mark->query = query->number;
    return MR_OK;
}

static parcel_head head_of(const trip *trip, parcel_op op, size_t count) {
    const sheet *sheet = trip->errand->sheet;
    parcel_head head = {.table = sheet->id, .op = op, .flags = trip->run ? PARCEL_RUN : 0, .count = (uint32_t)count};
    if (!parcel_is_push(op)) head.flags |= trip->names;
    if (!parcel_is_push(op)) return head;
    head.flags |= trip->flags;
    head.dtype = (trip->flags & PARCEL_CODED) != 0 ? MR_F32 : sheet->table.definition.dtype;
    return head;
}

static bool there_already(chute *chute, uint64_t name) {
    if (chute->holds || name > chute->there) return false;
    chute_skip(chute, name);
    return true;
}

/* The section that was written last is a part of the ticket. */
static void add_part(trip *trip, chute *chute, batch *batch, uint64_t name) {
    trip->batch = batch;
    if (trip->errand->priority > batch->priority) batch->priority = trip->errand->priority;
    chute_part(chute, batch, name, trip->ticket);
    customer_wakes(trip->customer, chute);
}

mr_status errand_add(trip *trip, uint32_t slot, parcel_op op, size_t count, size_t value_bytes, parcel_room *out) {
    chute *chute = &trip->customer->chutes[slot];
    uint64_t name = next_name(trip->customer, chute);
    *out = (parcel_room){0};
    if (there_already(chute, name)) return MR_OK;
    batch *batch = chute_gather(chute, parcel_section_size(op, (uint32_t)count, value_bytes));
    MR_TRY(define_in_batch(trip, chute, batch));
    MR_TRY(parcel_add(&batch->parcel, head_of(trip, op, count), value_bytes, out));
    add_part(trip, chute, batch, name);
    return MR_OK;
}

mr_status errand_add_afar(trip *trip, uint32_t slot, parcel_op op, size_t count, size_t value_bytes,
                          const parcel_afar *afar, const parcel_place *place) {
    chute *chute = &trip->customer->chutes[slot];
    uint64_t name = next_name(trip->customer, chute);
    parcel_head head = head_of(trip, op, count);
    parcel_room room;
    if (there_already(chute, name)) return MR_OK;
    batch *batch = chute_gather(chute, parcel_section_size(op, (uint32_t)count, value_bytes));
    MR_TRY(define_in_batch(trip, chute, batch));
    head.flags = PARCEL_AFAR;
    MR_TRY(parcel_add(&batch->parcel, head, sizeof *afar, &room));
    trip->customer->lends = true;
    *room.place = *place;
    memcpy(room.values, afar, sizeof *afar);
    add_part(trip, chute, batch, name);
    return MR_OK;
}

/* A section that is pushed as it is. */
static void count_plain(const trip *trip, size_t bytes) {
    coder_traffic *traffic = &trip->customer->coder.traffic;
    traffic->sections++;
    traffic->plain_bytes += bytes;
    traffic->sent_bytes += bytes;
}

mr_status errand_add_lent(trip *trip, uint32_t slot, parcel_op op, size_t count, span values,
                          const parcel_place *place) {
    customer *customer = trip->customer;
    chute *chute = &customer->chutes[slot];
    uint64_t name = next_name(customer, chute);
    parcel_room room;
    if (there_already(chute, name)) return MR_OK;
    batch *batch = chute_gather(chute, parcel_section_size(op, (uint32_t)count, values.size));
    MR_TRY(define_in_batch(trip, chute, batch));
    MR_TRY(parcel_add_front(&batch->parcel, head_of(trip, op, count), values.size, &room));
    *room.place = *place;
    chute_lend(batch, lease_make(values, customer_moved, customer));
    add_part(trip, chute, batch, name);
    count_plain(trip, batch->parcel.size - batch->parcel.last + values.size);
    return MR_OK;
}

static bool goes_on(const batch *batch, uint32_t table, parcel_op op, uint64_t key) {
    const chute_run *run = &batch->run;
    uint32_t rows = batch->parcel.rows;
    return rows != 0 && rows < PARCEL_ROWS_MAX && run->table == table && run->op == op && run->last < key;
}

static mr_status add_rows(const trip *trip, chute *chute, batch *batch, parcel_op op, uint64_t key, void **values) {
    const sheet *sheet = trip->errand->sheet;
    MR_TRY(define_in_batch(trip, chute, batch));
    MR_TRY(parcel_add_rows(&batch->parcel, head_of(trip, op, 1), sheet->row, key, values));
    batch->run.table = sheet->id;
    batch->run.op = op;
    return MR_OK;
}

mr_status errand_add_row(trip *trip, uint32_t slot, parcel_op op, uint64_t key, void **values) {
    const sheet *sheet = trip->errand->sheet;
    chute *chute = &trip->customer->chutes[slot];
    uint64_t name = next_name(trip->customer, chute);
    *values = NULL;
    if (there_already(chute, name)) return MR_OK;
    batch *batch = chute_gather(chute, PARCEL_HEAD + PARCEL_ALIGN + sizeof key + sheet->row);
    size_t before = batch->parcel.size;
    if (goes_on(batch, sheet->id, op, key))
        MR_TRY(parcel_add_row(&batch->parcel, key, values));
    else
        MR_TRY(add_rows(trip, chute, batch, op, key, values));
    batch->run.last = key;
    count_plain(trip, batch->parcel.size - before);
    add_part(trip, chute, batch, name);
    return MR_OK;
}

/* Only what has changed since, if something is there. */
static void ask_newer(const trip *trip, uint32_t slot, scatter *part, const parcel_room *room) {
    errand_mark *mark = trip->errand->mark;
    if (mark == NULL) return;
    part->version = &mark->versions[slot - trip->errand->sheet->placement.first_slot];
    part->changed = &mark->changed;
    *room->version = *part->version;
}

mr_status errand_ask(trip *trip, uint32_t slot, parcel_op op, size_t answer, scatter *part, parcel_room *out) {
    customer *customer = trip->customer;
    chute *chute = &customer->chutes[slot];
    uint64_t needs =
        customer->session.begun ? consistency_needs(trip->errand->sheet->consistency, customer->session.step) : 0;
    uint64_t step = chute->holds ? customer->session.step + trip->after : needs;
    uint64_t behind = chute->holds && !trip->after ? 0 : chute->last;
    query *query = chute_ask(chute, step, behind, answer);
    sheet_mark *mark = sheet_mark_of(trip->errand->sheet, slot, customer->generation);
    MR_TRY(define_in_query(trip->errand->sheet, chute, mark, query));
    parcel_head head = head_of(trip, op, part->count);
    if (part->sight != NULL) head.flags = PARCEL_AFAR;
    MR_TRY(parcel_add(&query->parcel, head, 0, out));
    ask_newer(trip, slot, part, out);
    query->names |= (trip->names & PARCEL_KNOWN) != 0;
    coder_traffic *traffic = &customer->coder.traffic;
    size_t bytes = query->parcel.size - query->parcel.last;
    traffic->asked_plain_bytes += head.flags == 0 ? bytes : parcel_section_size(op, part->count, 0);
    traffic->asked_bytes += bytes;
    if (trip->errand->priority > query->priority) query->priority = trip->errand->priority;
    chute_expect(query, part);
    customer_wakes(customer, chute);
    return MR_OK;
}
