/* payload_builder.h — builds payloads for tests, one line each; a failure ends the test. */
#pragma once
#include "kv/payload/payload.h"
#include "kv/payload/table_schema.h"

/* Like mr_ps_table_options, with a table number, and as one literal. */
typedef struct definition_options {
    uint32_t id; /* 0: table 1 */
    table_schema_kind kind;
    mr_dtype dtype;
    uint32_t dim, block;
    bool ordered;
    uint64_t first_key, last_key;
    const char *optimizer, *schedule, *initializer, *codec, *precision;
    double rate;
#define X(name, ...) double name;
    MR_PS_HYPERPARAMETERS(X)
#undef X
    double clip_norm;
    uint64_t seed;
    bool average, refuse_nan;
    uint32_t admit;
    uint64_t rows_max, age_max;
} definition_options;

mr_status definition_of(definition_options options, table_schema *out); /* result of table_schema_make */
void payload_define(payload_writer *writer, definition_options options);
void payload_rows(payload_writer *writer, payload_op op, uint32_t table, const uint64_t *keys, uint32_t count,
                  const float *values, uint32_t dim);
void payload_counters(payload_writer *writer, uint32_t table, uint64_t key, int64_t value);
void payload_vector(payload_writer *writer, payload_op op, uint32_t table, uint64_t key, const float *values,
                    uint32_t length);
void payload_block(payload_writer *writer, payload_op op, uint32_t table, payload_place place, const float *values,
                   uint32_t count);
void payload_keys(payload_writer *writer, payload_op op, uint32_t table, const uint64_t *keys, uint32_t count);
void payload_get_block(payload_writer *writer, uint32_t table, payload_place place, uint32_t count);
void payload_rate(payload_writer *writer, uint32_t table, float rate);
void payload_plain(payload_writer *writer, payload_op op, uint32_t table); /* op: DROP or GET_LOOK */
