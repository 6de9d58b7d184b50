/* shelf_core.h — internals of the engine, shared by shelf*.c. See shelf.h. */
#pragma once
#include "kv/shelf/lengths.h"
#include "kv/shelf/opener.h"
#include "kv/shelf/shelf.h"
#include "kv/shelf/undo.h"
#include "kv/shelf/vectors.h"
#include "kv/table/dense.h"
#include "kv/table/sparse.h"
#include "kv/worker/lists.h"

enum { SHELF_CHUNK = 1024 }; /* keys that are worked on at once: their rows stay in the cache */

/* As bytes (shelf_state.c): the heads of a table, of a vector and of a block. */
#define SHELF_MAGIC UINT64_C(0x31464c454853524d)
enum { SHELF_TABLE_HEAD = DEFINITION_SIZE + 8 + 4 + 8 * 6 + 8, SHELF_VECTOR_HEAD = 12, SHELF_BLOCK_HEAD = 24 };

typedef struct shelf_block {
    uint32_t array, number;
    uint64_t updates; /* by the optimizer */
    uint64_t touched; /* apply that changed it last */
    dense *dense;     /* owned */
} shelf_block;

typedef struct shelf_table {
    definition definition;
    optim optim;
    uint64_t version; /* changes, from 1 on */
    uint64_t made;    /* apply that defined it */
    uint64_t touched; /* apply that changed it last */
    uint64_t gone;    /* apply that dropped it; 0: it is there */
    uint64_t refused, left_out, evicted;
    uint64_t now;      /* the latest moment; where rows are bounded, but not their age, pushes */
    uint64_t swept_at; /* moment up to which it was swept for old keys, and the hash */
    uint64_t swept;
    uint64_t rate_of; /* moment of `rate`; 0: none */
    float rate;
    sparse *sparse;       /* owned; of a sparse table */
    vectors vectors;      /* of vectors */
    shelf_block **blocks; /* owned, each too; of a dense one; by array and number */
    size_t block_count;
    undo undo; /* of rows and vectors */
} shelf_table;

typedef struct shelf_dropped {
    uint32_t id;
    uint64_t when; /* the apply that dropped it */
} shelf_dropped;

typedef struct shelf {
    shelf_host *host; /* borrowed; may be NULL */
    bool keeps;
    uint64_t applies;     /* number of this apply, or of the last; 0: none yet */
    shelf_table **tables; /* owned, by id */
    size_t count;
    shelf_dropped *dropped; /* owned, by id */
    size_t dropped_count;
    opener opener;
    lengths lengths;         /* of the round that is applied: what is known of all slots */
    parcel_writer answer;    /* the last one, if it was small: its memory is the next one's */
    lists *lists;            /* owned: of keys that were asked for; NULL: none yet. No part of the state */
    void *rows[SHELF_CHUNK]; /* of keys that are worked on */
} shelf;

/* What holds for one section of a push. */
typedef struct shelf_push {
    shelf *shelf;
    shelf_table *table;
    const parcel_section *section; /* not pressed */
    uint64_t moment;
    float scale; /* of gradients */
    bool sets;
} shelf_push;

static inline size_t shelf_item(const shelf_table *table) { /* bytes of a value, as it lies here */
    return table->definition.dtype == MR_I64 ? sizeof(int64_t) : sizeof(float);
}
/* Its version, and whether it was there, as it is or as it was before the last apply. */
static inline uint64_t shelf_version(const shelf *shelf, const shelf_table *table, bool kept) {
    return table->version - (kept && table->touched == shelf->applies);
}

/* ---- Tables (shelf_table.c). */

/* MR_INVALID: it cannot be here; MR_NOMEM. */
MR_MUST mr_status shelf_table_create(const shelf *shelf, const definition *definition, shelf_table **out);
void shelf_table_destroy(shelf_table *table);
size_t shelf_place(const shelf *shelf, uint32_t id); /* of the table, or where it would be */
/* The table, as it is or as it was; NULL: there is none. */
shelf_table *shelf_table_find(const shelf *shelf, uint32_t id, bool kept);
bool shelf_was_dropped(const shelf *shelf, uint32_t id, bool kept);
void shelf_insert(shelf *shelf, shelf_table *table); /* of an id that is not there; moved */
void shelf_forget(shelf *shelf, uint32_t id);        /* its id is remembered as dropped */
float shelf_rate(shelf_table *table, uint64_t moment);
parcel_look shelf_table_look(const shelf_table *table);

/* ---- What a push does. False: it does not fit, and nothing has changed. */

bool shelf_push_rows(const shelf_push *push);                                           /* shelf_rows.c */
bool shelf_push_vectors(const shelf_push *push);                                        /* shelf_vectors.c */
bool shelf_push_block(const shelf_push *push);                                          /* shelf_blocks.c */
void shelf_erase(shelf *shelf, shelf_table *table, const uint64_t *keys, size_t count); /* rows or vectors */
void shelf_evict(shelf *shelf, shelf_table *table);                                     /* shelf_rows.c */
bool shelf_finite(const float *values, size_t count);

/* ---- What a round needs to know of all slots (shelf_norms.c). */

typedef struct shelf_scale {
    float factor; /* of gradients: a mean, a clipped one */
    bool none;    /* the gradient of the table is not finite: nothing is updated with it */
} shelf_scale;

bool shelf_needs_norms(const shelf_table *table);
shelf_scale shelf_scale_of(const shelf_table *table, uint32_t members, const lengths *known);
float shelf_trust(const shelf_table *table, uint32_t array, const lengths *known); /* in the update of an array */

/* ---- What a query shows: `kept` as before. Into room of its size. */

typedef struct shelf_note { /* of a list of keys that is known by name: where their rows lay */
    uint32_t table;         /* 0: it is not known */
    uint64_t changes;       /* of that table's rows, as they were (sparse_changes) */
    uint32_t numbers[];
} shelf_note;

/* A note may be NULL. */
void shelf_show_rows(const shelf_table *table, const uint64_t *keys, size_t count, bool kept, shelf_note *note,
                     void *out);
/* Keys from first to last that have a row, ascending, at most `most` (0: all). MR_NOMEM. To be freed. */
MR_MUST mr_status shelf_range(const shelf_table *table, uint64_t first, uint64_t last, uint32_t most, bool kept,
                              uint64_t **keys, size_t *count);
const void *shelf_vector(const shelf_table *table, uint64_t key, bool kept, size_t *from, uint32_t *length);
/* MR_INVALID: the place is not one of a block of the table. */
bool shelf_block_fits(const shelf *shelf, const shelf_table *table, const parcel_place *place);
/* Where those of the same machine find it; false: nowhere. */
bool shelf_look_for_block(const shelf *shelf, const shelf_table *table, const parcel_place *place, bool kept,
                          parcel_afar *out);
void shelf_show_block(const shelf *shelf, const shelf_table *table, const parcel_place *place, uint32_t count,
                      bool kept, void *out);
dense_options shelf_block_options(const shelf *shelf, const shelf_table *table, const parcel_place *place);
size_t shelf_block_place(const shelf_table *table, uint32_t array, uint32_t number);
shelf_block *shelf_block_find(const shelf_table *table, const parcel_place *place); /* NULL: it is not there */
void shelf_block_insert(shelf_table *table, shelf_block *block);

/* ---- Operations (values.h) that have files of their own. */

bale *shelf_answer(void *self, span request, bool kept);                /* shelf_answer.c */
bale *shelf_measure(void *self, span sum, span norms, uint64_t moment); /* shelf_norms.c */
bale *shelf_combine(void *context, const span *parts, size_t count);
size_t shelf_size(const void *self); /* shelf_state.c */
void shelf_write(const void *self, void *out);
bool shelf_read(void *self, span bytes);
