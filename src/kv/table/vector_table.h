/* vector_table.h — table of variable-length vectors by 64-bit key.
 *
 * An absent key has a vector of no values. A vector is as long as the longest request for it; new values are 0. Values
 * are stored as fp32 or int64. For tables of few and large vectors: each one has its own allocation.
 *
 * Keys are listed in ascending order. Errors: MR_NOMEM changes nothing. Ownership: the table owns all its memory; a
 * pointer to values is valid until the vector is changed. Threads: none. */
#pragma once
#include <stdbool.h>

#include "base/map.h"
#include "miniray/status.h"

typedef struct vector_table {
    map by_key;   /* key to vector; owned */
    size_t item;  /* bytes of a value */
    size_t bytes; /* of all values */
} vector_table;

void vector_table_init(vector_table *table, size_t item);
void vector_table_fini(vector_table *table);

size_t vector_table_count(const vector_table *table);
/* NULL: not found; the length is then 0. */
const void *vector_table_find(const vector_table *table, uint64_t key, uint32_t *length);

/* The vector of the key, with at least `length` values, or with `exact` exactly that many. */
MR_MUST mr_status vector_table_reach(vector_table *table, uint64_t key, uint32_t length, bool exact, void **values);
void vector_table_erase(vector_table *table, uint64_t key);
void vector_table_keys(const vector_table *table, uint64_t *keys); /* all, ascending */
