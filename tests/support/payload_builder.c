/* payload_builder.c — see payload_builder.h. */
#include "tests/support/payload_builder.h"

#include "base/assert.h"

static payload_room add(payload_writer *writer, payload_head head, size_t value_bytes) {
    payload_room room;
    mr_status status = payload_add(writer, head, value_bytes, &room);
    MR_ASSERT(status == MR_OK);
    return room;
}

mr_status definition_of(definition_options options, table_schema *out) {
    const mr_ps_table_options own = {.kind = (mr_ps_kind)options.kind,
                                     .dtype = options.dtype,
                                     .dim = options.dim,
                                     .block = options.block,
                                     .ordered = options.ordered,
                                     .first_key = options.first_key,
                                     .last_key = options.last_key,
                                     .optimizer = options.optimizer,
                                     .schedule = options.schedule,
                                     .initializer = options.initializer,
                                     .compression = options.codec,
                                     .rate = (float)options.rate,
                                     .clip_norm = (float)options.clip_norm,
                                     .seed = options.seed,
                                     .average = options.average,
                                     .refuse_nan = options.refuse_nan,
                                     .admit = options.admit,
                                     .rows_max = options.rows_max,
                                     .age_max = options.age_max,
                                     .precision = options.precision,
#define X(name, ...) .name = (float)options.name,
                                     MR_PS_HYPERPARAMETERS(X)
#undef X
    };
    return table_schema_make(options.id == 0 ? 1 : options.id, &own, out);
}

void payload_define(payload_writer *writer, definition_options options) {
    table_schema made;
    mr_status status = definition_of(options, &made);
    MR_ASSERT(status == MR_OK);
    const payload_head head = {.table = made.id, .op = PAYLOAD_DEFINE};
    table_schema_encode(&made, add(writer, head, TABLE_SCHEMA_SIZE).values);
}

void payload_rows(payload_writer *writer, payload_op op, uint32_t table, const uint64_t *keys, uint32_t count,
                  const float *values, uint32_t dim) {
    const payload_head head = {.table = table, .op = op, .dtype = MR_F32, .count = count};
    payload_room room = add(writer, head, (size_t)count * dim * sizeof(float));
    memcpy(room.keys, keys, count * sizeof *keys);
    memcpy(room.values, values, (size_t)count * dim * sizeof(float));
}

void payload_counters(payload_writer *writer, uint32_t table, uint64_t key, int64_t value) {
    const payload_head head = {.table = table, .op = PAYLOAD_ADD_ROWS, .dtype = MR_I64, .count = 1};
    payload_room room = add(writer, head, sizeof value);
    *room.keys = key;
    memcpy(room.values, &value, sizeof value);
}

void payload_vector(payload_writer *writer, payload_op op, uint32_t table, uint64_t key, const float *values,
                    uint32_t length) {
    const payload_head head = {.table = table, .op = op, .dtype = MR_F32, .count = 1};
    payload_room room = add(writer, head, length * sizeof *values);
    *room.keys = key;
    *room.lengths = length;
    memcpy(room.values, values, length * sizeof *values);
}

void payload_block(payload_writer *writer, payload_op op, uint32_t table, payload_place place, const float *values,
                   uint32_t count) {
    const payload_head head = {.table = table, .op = op, .dtype = MR_F32, .count = count};
    payload_room room = add(writer, head, count * sizeof *values);
    *room.place = place;
    memcpy(room.values, values, count * sizeof *values);
}

void payload_keys(payload_writer *writer, payload_op op, uint32_t table, const uint64_t *keys, uint32_t count) {
    payload_room room = add(writer, (payload_head){.table = table, .op = op, .count = count}, 0);
    memcpy(room.keys, keys, count * sizeof *keys);
}

void payload_get_block(payload_writer *writer, uint32_t table, payload_place place, uint32_t count) {
    *add(writer, (payload_head){.table = table, .op = PAYLOAD_GET_BLOCK, .count = count}, 0).place = place;
}

void payload_rate(payload_writer *writer, uint32_t table, float rate) {
    mr_status status = payload_add_rate(writer, table, rate);
    MR_ASSERT(status == MR_OK);
}

void payload_plain(payload_writer *writer, payload_op op, uint32_t table) {
    (void)add(writer, (payload_head){.table = table, .op = op}, 0);
}
