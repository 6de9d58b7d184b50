/* table_schema.h — table schema as a slot needs it: kind, type, optimizer, codec, and the effect of a push.
 *
 * A schema is made from texts and numbers (table_schema_make), in which zero means the default. It is checked
 * completely, and precedes the first pushes to a slot (payload.h, DEFINE). Two schemas are equal if all their fields
 * are; table_schema_differs names a field that is not.
 *
 *   kind        content                                      optimizers
 *   ----------  -------------------------------------------  ---------------------------------------------------------
 *   sparse      rows of `dim` values by key                  all; of counters (int64) add
 *   vectors     a vector of any length by key                add: the longest push sets the length
 *   dense       blocks of arrays                             all; of counters add
 *
 *   text         forms                                                                              default
 *   -----------  ---------------------------------------------------------------------------------  ------------
 *   optimizer    add, sgd, momentum, nesterov, adagrad, rmsprop, adam, adamw, lamb, ftrl (optim.h);
 *                own:NAME, defined by the servers                                                   add
 *   schedule     constant, step:EVERY:FACTOR, cosine:STEPS[:END], polynomial:STEPS:POWER[:END],
 *                each with +warmup:STEPS behind it or not (lr_schedule.h)                              constant
 *   initializer  zeros, constant:A, uniform:FROM:TO, normal:MEAN:DEVIATION (initializer.h)          zeros
 *   compression  none, fp16, bf16, int8, sign, topk[:PART], randk[:PART] (codec.h); lz4, zstd;
 *                or one of each, as in int8+zstd                                                    none
 *   precision    fp32, bf16, fp16: of fp32 tables; others have that of their dtype                  fp32
 *
 * Numbers of settings: 0 is the default of the optimizer, and a negative one is 0. (So momentum = -1 is none, and
 * momentum = 0 is 0.9.) The default rate is 0.001 for adam, adamw and lamb, 0.01 for the others; add has the fixed rate
 * 1. A setting that the optimizer does not have (momentum of sgd, a schedule of add) must be 0.
 *
 *   bytes             schema
 *   TABLE_SCHEMA_SIZE  the fields of TABLE_SCHEMA_FIELDS in their order, without gaps; enumerations have 4 bytes
 *
 * The fields of later releases come last, hyperparameters at the very end. A schema of an earlier release ends before
 * them: they are 0.
 *
 * Pure data. */
#pragma once
#include "base/bytes.h"
#include "kv/codec/codec.h"
#include "kv/codec/compress.h"
#include "kv/optim/lr_schedule.h"
#include "kv/optim/optim.h"
#include "kv/table/initializer.h"
#include "miniray/status.h"
#include "miniray/value.h"

enum { TABLE_SCHEMA_NAME = 24 }; /* bytes of an optimizer's name, including the final zero */
#define TABLE_SCHEMA_OWN "own:"

typedef enum table_schema_kind { TABLE_SCHEMA_SPARSE, TABLE_SCHEMA_VECTORS, TABLE_SCHEMA_DENSE } table_schema_kind;

typedef struct table_schema {
    uint32_t id; /* of the table; from 1, never reused */
    table_schema_kind kind;
    mr_dtype dtype; /* MR_F32, MR_F16, MR_BF16 or MR_I64 */
    uint32_t dim;   /* sparse: values of a row */
    uint32_t block; /* dense: items of a block */
    bool
        /* sparse and vectors: the slots hold consecutive ranges of the keys first_key … last_key (slot_placement.h) */
        ordered;
    uint64_t first_key, last_key;
    char optimizer[TABLE_SCHEMA_NAME];
    optim_settings settings; /* `own` is NULL */
    lr_schedule schedule;
    initializer init; /* the seed is the table's; `table` is 0 here */
    codec codec;      /* of workers' pushes; the seed is the table's */
    compressor_id press;
    float clip_norm; /* limit of the norm of the whole table's gradient in a round; 0: none */
    bool average;    /* the sum of a round is divided by the number of its members */
    bool refuse_nan; /* rows, vectors and stretches that are not finite are left out and counted */
    uint32_t admit;  /* sparse: touches that a key needs for a row; 0 and 1: the first */
    /* sparse: keys per slot, with those that are only counted, above which the oldest are evicted; 0: no limit */
    uint64_t rows_max;
    uint64_t age_max;   /* sparse: steps after which a key without a push is evicted; 0: never */
    mr_dtype precision; /* MR_F16 or MR_BF16, of an fp32 table; 0: that of the dtype (table_schema_precision) */
} table_schema;

#define TABLE_SCHEMA_SETTING(name, ...) X(settings.name, #name)
#define TABLE_SCHEMA_FIELDS(X)                        \
    X(id, "id")                                       \
    X(kind, "kind")                                   \
    X(dtype, "dtype")                                 \
    X(dim, "dim")                                     \
    X(block, "block")                                 \
    X(ordered, "ordered")                             \
    X(first_key, "first_key")                         \
    X(last_key, "last_key")                           \
    X(optimizer, "optimizer")                         \
    MR_PS_HYPERPARAMETERS_FIRST(TABLE_SCHEMA_SETTING) \
    X(schedule.kind, "schedule")                      \
    X(schedule.rate, "rate")                          \
    X(schedule.warmup, "schedule")                    \
    X(schedule.every, "schedule")                     \
    X(schedule.factor, "schedule")                    \
    X(schedule.steps, "schedule")                     \
    X(schedule.end, "schedule")                       \
    X(schedule.power, "schedule")                     \
    X(init.kind, "initializer")                       \
    X(init.a, "initializer")                          \
    X(init.b, "initializer")                          \
    X(init.seed, "seed")                              \
    X(codec.id, "codec")                              \
    X(codec.part, "codec")                            \
    X(press, "codec")                                 \
    X(clip_norm, "clip_norm")                         \
    X(average, "average")                             \
    X(refuse_nan, "refuse_nan")                       \
    X(admit, "admit")                                 \
    X(rows_max, "rows_max")                           \
    X(age_max, "age_max")                             \
    TABLE_SCHEMA_FIELDS_LATER(X)

/* Those of releases after 0.2.0. */
#define TABLE_SCHEMA_FIELDS_LATER(X) \
    X(precision, "precision")        \
    MR_PS_HYPERPARAMETERS_LATER(TABLE_SCHEMA_SETTING)

#define X(field, name) +sizeof(((table_schema *)NULL)->field)
enum { TABLE_SCHEMA_SIZE = 0 TABLE_SCHEMA_FIELDS(X) };
enum { TABLE_SCHEMA_SIZE_LATER = 0 TABLE_SCHEMA_FIELDS_LATER(X) };
#undef X

/* Makes and checks a schema. Zero and NULL mean the default, see above; arrays and consistency are not used.
 * MR_INVALID; the error names the field. */
MR_MUST mr_status table_schema_make(uint32_t id, const mr_ps_table_options *options, table_schema *out);
MR_MUST mr_status table_schema_check(const table_schema *schema); /* MR_INVALID; the error names the field */

void table_schema_encode(const table_schema *schema, uint8_t out[TABLE_SCHEMA_SIZE]);
MR_MUST mr_status table_schema_decode(span bytes, table_schema *out); /* MR_CORRUPT. Includes table_schema_check */

/* The dtype to which pulled values and pushed gradients are rounded; MR_I64: they are not rounded. */
static inline mr_dtype table_schema_precision(const table_schema *schema) {
    return schema->precision != 0 ? schema->precision : schema->dtype;
}
const char *table_schema_precision_name(const table_schema *schema); /* as in the options, static; int64: NULL */

/* Whether the effect of a push depends on other slots (engine_norms.c), which requires rounds. Of user-defined
 * optimizers only servers can tell. */
bool table_schema_needs_norms(const table_schema *schema);

/* Name of the first field that differs, except `id`; NULL: equal. */
const char *table_schema_differs(const table_schema *a, const table_schema *b);
