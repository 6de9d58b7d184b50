/* undo_log.h — undo log: previous values of the keys that the last change touched, so that queries can read the
 * previous version.
 *
 * In BSP a rank that is one round behind reads the previous version. Instead of two copies of a table there is one, and
 * the old values of what the last round changed: rows, vectors, or that there was none.
 *
 *  undo_log_clear ──► undo_log_note for each key, before it is changed ──► undo_log_end ──► undo_log_find, undo_next
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

typedef struct undo_log_entry {
    uint64_t key;
    size_t at; /* of its values, in `values` */
    uint32_t length;
    bool there; /* false: there was none; its length is 0 */
} undo_log_entry;

typedef struct undo_log {    /* zeroed, but for `item`: empty */
    size_t item;             /* bytes of a value */
    undo_log_entry *entries; /* owned; ascending once it has ended */
    size_t count, room;
    uint8_t *values; /* owned */
    size_t size, values_room;
    bool sorted;
} undo_log;

void undo_log_fini(undo_log *log);
void undo_log_clear(undo_log *log);
/* NULL: there is none */
MR_MUST mr_status undo_log_note(undo_log *log, uint64_t key, const void *values, uint32_t length);
/* The same of many, each of so many values; absent[i]: there was none. */
MR_MUST mr_status undo_log_note_rows(undo_log *log, const uint64_t *keys, size_t count, void *const *rows,
                                     const bool *absent, uint32_t length);
void undo_log_end(undo_log *log);

/* From the entry *from on, which is then the one that was found or where it would be: keys are asked for ascending. */
const undo_log_entry *undo_log_find(const undo_log *log, uint64_t key, size_t *from);
static inline const void *undo_log_values(const undo_log *log, const undo_log_entry *entry) {
    return log->values + entry->at;
}

size_t undo_log_size(const undo_log *log);
void undo_log_write(const undo_log *log, writer *writer);
MR_MUST mr_status undo_log_read(undo_log *log, reader *reader); /* of an empty one; MR_CORRUPT, MR_NOMEM */
