/* parcels.h — parcels for tests, a line each; what fails ends the test. */
#pragma once
#include "kv/parcel.h"
#include "kv/shelf/definition.h"

void parcels_define(parcel_writer *writer, definition_options options); /* id 0: 1 */
void parcels_rows(parcel_writer *writer, parcel_op op, uint32_t table, const uint64_t *keys, uint32_t count,
                  const float *values, uint32_t dim);
void parcels_counters(parcel_writer *writer, uint32_t table, uint64_t key, int64_t value);
void parcels_vector(parcel_writer *writer, parcel_op op, uint32_t table, uint64_t key, const float *values,
                    uint32_t length);
void parcels_block(parcel_writer *writer, parcel_op op, uint32_t table, parcel_place place, const float *values,
                   uint32_t count);
void parcels_keys(parcel_writer *writer, parcel_op op, uint32_t table, const uint64_t *keys, uint32_t count);
void parcels_get_block(parcel_writer *writer, uint32_t table, parcel_place place, uint32_t count);
void parcels_plain(parcel_writer *writer, parcel_op op, uint32_t table); /* DROP, GET_LOOK */
