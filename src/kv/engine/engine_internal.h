/* engine_internal.h — internals of the engine, shared by engine*.c. See engine.h. */
#pragma once
#include "kv/engine/engine.h"
#include "kv/engine/section_decoder.h"
#include "kv/engine/slot_norms.h"
#include "kv/engine/undo_log.h"
#include "kv/payload/key_list_cache.h"
#include "kv/table/dense_table.h"
#include "kv/table/sparse_table.h"
#include "kv/table/vector_table.h"

enum { ENGINE_CHUNK = 1024 }; /* keys of a batch, whose rows stay in the cache */

/* Sizes of the heads of a table, a vector and a block in a snapshot (engine_snapshot.c). */
#define ENGINE_MAGIC UINT64_C(0x31464c454853524d)
enum { ENGINE_KEEPS = 1, ENGINE_BEHIND = 2 }; /* flags in a snapshot */
enum { ENGINE_TABLE_HEAD = TABLE_SCHEMA_SIZE + 8 + 4 + 8 * 6 + 8, ENGINE_VECTOR_HEAD = 12, ENGINE_BLOCK_HEAD = 24 };

typedef struct engine_block {
    uint64_t key;       /* engine_block_key */
    uint64_t updates;   /* optimizer updates */
    uint64_t touched;   /* number of the last apply that changed the block */
    dense_table *table; /* owned */
} engine_block;

typedef struct engine_table {
    table_schema schema;
    optim optim;
    uint64_t version; /* number of changes, from 1 */
    uint64_t made;    /* number of the apply that defined the table */
    uint64_t touched; /* number of the last apply that changed the table */
    uint64_t gone;    /* number of the apply that dropped the table; 0: not dropped */
    uint64_t refused, left_out, evicted;
    uint64_t now;      /* latest moment; with rows_max alone, number of pushes */
    uint64_t swept_at; /* `swept_at`: moment of the last sweep for old keys; `swept`: hash at which the next begins */
    uint64_t swept;
    uint64_t rate_of; /* moment for which `rate` was computed; 0: none */
    float rate;
    sparse *sparse;       /* owned; of a sparse table */
    vector_table table;   /* of a table of vectors */
    engine_block *blocks; /* owned; of a dense table; by array and number */
    size_t block_count;
    undo_log log; /* previous rows and vectors */
} engine_table;

typedef struct engine_dropped {
    uint32_t id;
    uint64_t when; /* number of the apply that dropped the table */
} engine_dropped;

typedef struct engine {
    engine_host *host; /* borrowed; may be NULL */
    bool keeps;
    bool behind;           /* shows the version before the last apply; the next apply only ends this */
    uint64_t applies;      /* number of this apply, or of the last one; 0: none yet */
    engine_table **tables; /* owned, by id */
    size_t count;
    engine_dropped *dropped; /* owned, by id */
    size_t dropped_count;
    section_decoder decoder;
    slot_norms norms;         /* known norms of all slots for the round being applied */
    payload_writer answer;    /* last answer, if small: its memory is reused */
    key_list_cache *cache;    /* owned: cached key lists; NULL: none yet. Not part of the state */
    void *rows[ENGINE_CHUNK]; /* rows of a batch of keys */
} engine;

/* The context of one section of a push. */
typedef struct engine_push {
    engine *engine;
    engine_table *table;
    const payload_section *section; /* decompressed */
    uint64_t moment;
    float scale; /* factor of gradients */
    bool sets;
} engine_push;

static inline size_t engine_item(const engine_table *table) { /* bytes of a stored value */
    return table->schema.dtype == MR_I64 ? sizeof(int64_t) : sizeof(float);
}
/* Whether a section is compressed as its table says, or not at all. Others are refused: a server has the libraries of
 * its tables only. `schema` NULL: the table is not known. */
static inline bool engine_packs_as(const table_schema *schema, const payload_section *section) {
    if ((section->flags & PAYLOAD_PRESSED) == 0 || section->body.size == 0) return true;
    uint8_t id = section->body.data[0];
    return id == COMPRESSOR_STORED || (schema != NULL && id == (uint8_t)schema->press);
}
_Static_assert(PAYLOAD_ADD_VECTORS == PAYLOAD_ADD_ROWS + 2 * TABLE_SCHEMA_VECTORS &&
                   PAYLOAD_ADD_BLOCK == PAYLOAD_ADD_ROWS + 2 * TABLE_SCHEMA_DENSE,
               "pushes are in the order of the kinds of tables");
static inline payload_op engine_add_op(const engine_table *table) { return PAYLOAD_ADD_ROWS + 2 * table->schema.kind; }
/* Version of the table, present or before the last apply (`kept`). */
static inline uint64_t engine_version(const engine *engine, const engine_table *table, bool kept) {
    return table->version - (kept && table->touched == engine->applies);
}

/* ---- Tables (engine_tables.c). */

/* MR_INVALID: the schema is invalid here; MR_NOMEM. */
MR_MUST mr_status engine_table_create(const engine *engine, const table_schema *schema, engine_table **out);
engine_table *engine_table_try(const engine *engine, const table_schema *schema); /* NULL: the schema is invalid here */
void engine_table_destroy(engine_table *table);
size_t engine_place(const engine *engine, uint32_t id); /* index of the table, or where it would be inserted */
/* The table in its present or previous version (`kept`); NULL: not found. */
engine_table *engine_table_find(const engine *engine, uint32_t id, bool kept);
bool engine_was_dropped(const engine *engine, uint32_t id, bool kept);
void engine_insert(engine *engine, engine_table *table); /* of an unknown id; the table is moved */
void engine_forget(engine *engine, uint32_t id);         /* records the id as dropped */
/* Learning rate of a push: that of the section, or the schedule's. */
float engine_rate(engine_table *table, const payload_section *section, uint64_t moment);
payload_look engine_table_look(const engine_table *table);

/* ---- Pushes. False: the section does not fit, and nothing has changed. */

bool engine_push_rows(const engine_push *push);                                             /* engine_rows.c */
bool engine_push_vectors(const engine_push *push);                                          /* engine_vectors.c */
bool engine_push_block(const engine_push *push);                                            /* engine_blocks.c */
void engine_erase(engine *engine, engine_table *table, const uint64_t *keys, size_t count); /* erases rows or vectors */
void engine_evict(engine *engine, engine_table *table);                                     /* engine_rows.c */
bool engine_finite(const float *values, size_t count);

/* ---- Norms of all slots that a round needs (engine_norms.c). */

typedef struct engine_scale {
    float factor; /* of gradients: for averaging and clipping */
    bool none;    /* the gradient is not finite: the update is skipped */
} engine_scale;

bool engine_needs_norms(const engine_table *table);
engine_scale engine_scale_of(const engine_table *table, uint32_t members, const slot_norms *known);
/* trust ratio of an array's update (lamb) */
float engine_trust(const engine_table *table, uint32_t array, const slot_norms *known);

/* ---- Queries. `kept`: of the version before the last apply. Values go to room of the answer's size. */

typedef struct engine_note { /* row numbers of a cached key list */
    uint32_t table;          /* 0: no numbers recorded */
    uint64_t changes;        /* sparse_table_changes of that table when the numbers were recorded */
    uint32_t numbers[];
} engine_note;

/* Reads rows, in a dtype that fits the table's. `note` may be NULL. */
void engine_show_rows(const engine_table *table, const uint64_t *keys, size_t count, bool kept, engine_note *note,
                      mr_dtype dtype, void *out);
/* Keys from first to last that have a row, ascending, at most `most` (0: all). The caller frees them. MR_NOMEM. */
MR_MUST mr_status engine_range(engine_table *table, uint64_t first, uint64_t last, uint32_t most, bool kept,
                               uint64_t **keys, size_t *count);
const void *engine_vector(const engine_table *table, uint64_t key, bool kept, size_t *from, uint32_t *length);
/* False: the table has no such block. */
bool engine_block_fits(const engine *engine, const engine_table *table, const payload_place *place);
/* Place of the block in the export, for processes of the same machine; false: not exported. */
bool engine_look_for_block(const engine *engine, const engine_table *table, const payload_place *place, bool kept,
                           payload_afar *out);
void engine_show_block(const engine *engine, const engine_table *table, const payload_place *place, uint32_t count,
                       bool kept, mr_dtype dtype, void *out);
dense_table_options engine_block_options(const engine *engine, const engine_table *table, const payload_place *place);
static inline uint64_t engine_block_key(const payload_place *place) {
    return (uint64_t)place->array << 32 | place->block;
}
size_t engine_block_place(const engine_table *table, uint64_t key);
/* The found or inserted block is valid until the next insert. NULL: not found. */
engine_block *engine_block_find(const engine_table *table, const payload_place *place);
engine_block *engine_block_insert(engine_table *table, engine_block block); /* the block's dense_table is moved */

/* ---- Operations of state_machine.h in files of their own. */

shared_bytes *engine_answer(void *self, span request, bool kept);                /* engine_query.c */
shared_bytes *engine_measure(void *self, span sum, span norms, uint64_t moment); /* engine_norms.c */
size_t engine_size(const void *self);                                            /* engine_snapshot.c */
void engine_write(const void *self, void *out);
void engine_write_kept(const void *self, void *out);
bool engine_read(void *self, span bytes);
