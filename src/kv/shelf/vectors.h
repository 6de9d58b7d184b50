/* vectors.h — table of variable-length vectors by 64-bit key.
 *
 * A key that is not there has a vector of no values. A vector is as long as the longest that was asked for, new values
 * are 0; they are kept as fp32 or as int64. For tables of few and large values: each vector is memory of its own.
 *
 * Keys are listed ascending, so that copies list alike. Errors: MR_NOMEM leaves everything as it was. Ownership: it
 * owns all its memory; a pointer to values is good until the vector is changed. Threads: none. */
#pragma once
#include <stdbool.h>

#include "base/map.h"
#include "miniray/status.h"

typedef struct vectors {
    map by_key;   /* to a vector; owned */
    size_t item;  /* bytes of a value */
    size_t bytes; /* of all values */
} vectors;

void vectors_init(vectors *vectors, size_t item);
void vectors_fini(vectors *vectors);

size_t vectors_count(const vectors *vectors);
const void *vectors_find(const vectors *vectors, uint64_t key, uint32_t *length); /* NULL: not there; length 0 */

/* The vector of this key with at least, or with `exact` exactly, so many values. */
MR_MUST mr_status vectors_reach(vectors *vectors, uint64_t key, uint32_t length, bool exact, void **values);
void vectors_erase(vectors *vectors, uint64_t key);
void vectors_keys(const vectors *vectors, uint64_t *keys); /* all, ascending */
