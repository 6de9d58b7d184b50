/* catalogue.h — catalog of all tables: one metadata value, changed by compare-and-swap (registrar.h).
 *
 *   bytes    what
 *   -------  ------------------------------------------------------------------------------------------------
 *   4 4 4    CATALOGUE_MAGIC, the id that is given next, number of tables
 *   …        tables, ids ascending: 1 + n name, 4 + n definition (definition.h), 1 + n each of CATALOGUE_TEXTS,
 *            4 number of arrays, each: 1 + n name, 1 dims, 8 × dims shape
 *
 * An id is given once, whatever becomes of its table: what slots have of a table that was dropped is never taken for
 * another one's. So an id below the next one that is not listed is that of a dropped table.
 *
 * The texts are those that the definition was made of, for people who ask; what counts is the definition. The
 * consistency is no part of it: slots do not need to know. It says in which slots a table lies, and what its pulls wait
 * for; it is written out when the table is made, and is none ("") before.
 *
 * Bounds      CATALOGUE_BYTES_MAX bytes, MR_PS_ARRAYS_MAX arrays of a table.
 * Ownership   a table owns its arrays, the catalogue its tables. Pure. */
#pragma once
#include "kv/shelf/definition.h"
#include "miniray/ps.h"
#include "ps/chart.h"

#define CATALOGUE_KEY   "tables"
#define CATALOGUE_MAGIC UINT32_C(0x32544b4d) /* "MKT2": format 2 */
enum { CATALOGUE_BYTES_MAX = 100 * 1000 };

#define CATALOGUE_TEXTS(X) X(optimizer) X(schedule) X(initializer) X(compression) X(consistency)

typedef struct catalogue_array {
    char name[MR_PS_NAME_MAX];
    int dims;
    int64_t shape[MR_TENSOR_DIMS_MAX];
} catalogue_array;

typedef struct catalogue_table {
    char name[MR_PS_NAME_MAX];
    definition definition; /* with its id */
#define X(text) char text[MR_PS_TEXT_MAX];
    CATALOGUE_TEXTS(X)
#undef X
    catalogue_array *arrays; /* owned */
    uint32_t array_count;
} catalogue_table;

typedef struct catalogue {   /* zero-initialized there is no table */
    uint32_t next;           /* id; 0 stands for 1 */
    catalogue_table *tables; /* owned */
    uint32_t count;
} catalogue;

/* A table as these options have it, with the id 1. MR_INVALID, and says what cannot be. */
MR_MUST mr_status catalogue_table_init(catalogue_table *table, const char *name, const mr_ps_table_options *options);
/* Where there is none it is the chart's. MR_INVALID: there are no slots for it, and how there would be. */
MR_MUST mr_status catalogue_table_consistency(const catalogue_table *table, const chart *chart, consistency *out);
uint64_t catalogue_table_items(const catalogue_table *table); /* of all its arrays */
void catalogue_table_copy(catalogue_table *to, const catalogue_table *from);
void catalogue_table_fini(catalogue_table *table);
const char *catalogue_table_differs(const catalogue_table *a, const catalogue_table *b); /* static; NULL: they do not */

void catalogue_fini(catalogue *catalogue);
const catalogue_table *catalogue_find(const catalogue *catalogue, const char *name); /* NULL: there is none */

/* A copy, with an id of its own. MR_TOO_LARGE: there is no room for one more. There is none of that name. */
MR_MUST mr_status catalogue_add(catalogue *catalogue, const catalogue_table *table);
bool catalogue_remove(catalogue *catalogue, uint32_t id); /* false: it was not there */

size_t catalogue_size(const catalogue *catalogue);
void catalogue_encode(const catalogue *catalogue, writer *writer);
MR_MUST mr_status catalogue_decode(span bytes, catalogue *out); /* no bytes: no tables. MR_CORRUPT */
