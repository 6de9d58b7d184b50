/* undo_log.h — undo log: previous values of the keys that the last change touched, so that queries can read the
 * previous version.
 *
 * In BSP a rank that is one round behind reads the previous version. Instead of two copies of a table the engine keeps
 * one copy and the old rows or vectors of the keys of the last round, or that a key had none.
 *
 *  undo_log_clear ──► undo_log_note for each key, before it is changed ──► undo_log_end ──► undo_log_find
 *
 * If a key is recorded twice the first record counts. The cost is proportional to the changed keys, not to the table.
 *
 *   bytes    undo log
 *   -------  ----------------------------------------------------
 *   4        number of keys
 *   …        keys ascending: 8 key, 4 length, 4 there; the values
 *
 * Ownership: the undo log owns its copies. Threads: none. */
#pragma once
#include "base/bytes.h"

typedef struct undo_log_entry {
    uint64_t key;
    size_t at; /* begin of the values in `values` */
    uint32_t length;
    bool there; /* false: the key had no value; its length is 0 */
} undo_log_entry;

typedef struct undo_log {    /* zero-initialized except `item`: empty */
    size_t item;             /* bytes of a value */
    undo_log_entry *entries; /* owned; ascending after undo_log_end */
    size_t count, room;
    uint8_t *values; /* owned */
    size_t size, values_room;
    bool sorted;
} undo_log;

void undo_log_fini(undo_log *log);
void undo_log_clear(undo_log *log);
/* Records the values of a key; `values` NULL: the key has none. */
MR_MUST mr_status undo_log_note(undo_log *log, uint64_t key, const void *values, uint32_t length);
/* Same, for many keys with `length` values each; absent[i]: the key had none. */
MR_MUST mr_status undo_log_note_rows(undo_log *log, const uint64_t *keys, size_t count, void *const *rows,
                                     const bool *absent, uint32_t length);
void undo_log_end(undo_log *log);

/* Searches from entry *from on, and sets *from to the entry found or to its place; calls must ask for ascending
 * keys. */
const undo_log_entry *undo_log_find(const undo_log *log, uint64_t key, size_t *from);
static inline const void *undo_log_values(const undo_log *log, const undo_log_entry *entry) {
    return log->values + entry->at;
}

size_t undo_log_size(const undo_log *log);
void undo_log_write(const undo_log *log, writer *writer);
MR_MUST mr_status undo_log_read(undo_log *log, reader *reader); /* into an empty undo log; MR_CORRUPT, MR_NOMEM */
