/* undo.h — undo log: previous values of the keys that the last change touched, so that queries can read the previous
 * version.
 *
 * In BSP a rank that is one round behind reads the previous version. Instead of two copies of a table there is one, and
 * the old values of what the last round changed: rows, vectors, or that there was none.
 *
 *     undo_clear ──► undo_note for each key, before it is changed ──► undo_end ──► undo_find, undo_next
 *
 * A key that is noted twice was changed twice: the first note counts. It costs what was changed, not what is there.
 *
 *   bytes    undo
 *   -------  ----------------------------------------------------
 *   4        number of keys
 *   …        keys ascending: 8 key, 4 length, 4 there; the values
 *
 * Ownership: it owns its copies. Threads: none. */
#pragma once
#include "base/bytes.h"

typedef struct undo_entry {
    uint64_t key;
    size_t at; /* of its values, in `values` */
    uint32_t length;
    bool there; /* false: there was none; its length is 0 */
} undo_entry;

typedef struct undo {    /* zeroed, but for `item`: empty */
    size_t item;         /* bytes of a value */
    undo_entry *entries; /* owned; ascending once it has ended */
    size_t count, room;
    uint8_t *values; /* owned */
    size_t size, values_room;
    bool sorted;
} undo;

void undo_fini(undo *undo);
void undo_clear(undo *undo);
MR_MUST mr_status undo_note(undo *undo, uint64_t key, const void *values, uint32_t length); /* NULL: there is none */
/* The same of many, each of so many values; absent[i]: there was none. */
MR_MUST mr_status undo_note_rows(undo *undo, const uint64_t *keys, size_t count, void *const *rows, const bool *absent,
                                 uint32_t length);
void undo_end(undo *undo);

/* From the entry *from on, which is then the one that was found or where it would be: keys are asked for ascending. */
const undo_entry *undo_find(const undo *undo, uint64_t key, size_t *from);
static inline const void *undo_values(const undo *undo, const undo_entry *entry) { return undo->values + entry->at; }

size_t undo_size(const undo *undo);
void undo_write(const undo *undo, writer *writer);
MR_MUST mr_status undo_read(undo *undo, reader *reader); /* of an empty one; MR_CORRUPT, MR_NOMEM */
