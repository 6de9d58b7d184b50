/* parcels.c — see parcels.h. */
#include "tests/support/parcels.h"

#include "base/assert.h"

static parcel_room add(parcel_writer *writer, parcel_head head, size_t value_bytes) {
    parcel_room room;
    mr_status status = parcel_add(writer, head, value_bytes, &room);
    MR_ASSERT(status == MR_OK);
    return room;
}

mr_status definition_of(definition_options options, definition *out) {
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
#define X(name, ...) .name = (float)options.name,
                                     MR_PS_HYPERPARAMETERS(X)
#undef X
    };
    return definition_make(options.id == 0 ? 1 : options.id, &own, out);
}

void parcels_define(parcel_writer *writer, definition_options options) {
    definition made;
    mr_status status = definition_of(options, &made);
    MR_ASSERT(status == MR_OK);
    const parcel_head head = {.table = made.id, .op = PARCEL_DEFINE};
    definition_encode(&made, add(writer, head, DEFINITION_SIZE).values);
}

void parcels_rows(parcel_writer *writer, parcel_op op, uint32_t table, const uint64_t *keys, uint32_t count,
                  const float *values, uint32_t dim) {
    const parcel_head head = {.table = table, .op = op, .dtype = MR_F32, .count = count};
    parcel_room room = add(writer, head, (size_t)count * dim * sizeof(float));
    memcpy(room.keys, keys, count * sizeof *keys);
    memcpy(room.values, values, (size_t)count * dim * sizeof(float));
}

void parcels_counters(parcel_writer *writer, uint32_t table, uint64_t key, int64_t value) {
    const parcel_head head = {.table = table, .op = PARCEL_ADD_ROWS, .dtype = MR_I64, .count = 1};
    parcel_room room = add(writer, head, sizeof value);
    *room.keys = key;
    memcpy(room.values, &value, sizeof value);
}

void parcels_vector(parcel_writer *writer, parcel_op op, uint32_t table, uint64_t key, const float *values,
                    uint32_t length) {
    const parcel_head head = {.table = table, .op = op, .dtype = MR_F32, .count = 1};
    parcel_room room = add(writer, head, length * sizeof *values);
    *room.keys = key;
    *room.lengths = length;
    memcpy(room.values, values, length * sizeof *values);
}

void parcels_block(parcel_writer *writer, parcel_op op, uint32_t table, parcel_place place, const float *values,
                   uint32_t count) {
    const parcel_head head = {.table = table, .op = op, .dtype = MR_F32, .count = count};
    parcel_room room = add(writer, head, count * sizeof *values);
    *room.place = place;
    memcpy(room.values, values, count * sizeof *values);
}

void parcels_keys(parcel_writer *writer, parcel_op op, uint32_t table, const uint64_t *keys, uint32_t count) {
    parcel_room room = add(writer, (parcel_head){.table = table, .op = op, .count = count}, 0);
    memcpy(room.keys, keys, count * sizeof *keys);
}

void parcels_get_block(parcel_writer *writer, uint32_t table, parcel_place place, uint32_t count) {
    *add(writer, (parcel_head){.table = table, .op = PARCEL_GET_BLOCK, .count = count}, 0).place = place;
}

void parcels_plain(parcel_writer *writer, parcel_op op, uint32_t table) {
    (void)add(writer, (parcel_head){.table = table, .op = op}, 0);
}
