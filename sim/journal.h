/* journal.h — trace of a run: a hash of all events and, for readers, their text.
 *
 * Every event goes through the hash in the order in which it happens, with its time, its node and every byte that is
 * delivered. Two runs with the same hash were the same run. Nothing is formatted unless somebody reads along. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"

typedef enum journal_kind {
    JOURNAL_NOTE,
    JOURNAL_START,
    JOURNAL_CRASH,
    JOURNAL_PAUSE,
    JOURNAL_TICK,
    JOURNAL_OPEN,
    JOURNAL_OPENED,
    JOURNAL_SEND,
    JOURNAL_RECEIVE,
    JOURNAL_BODY,
    JOURNAL_ROOM,
    JOURNAL_CLOSED,
    JOURNAL_LOST,
    JOURNAL_DISK,
} journal_kind;

typedef struct journal {
    uint64_t hash;
    uint64_t count; /* records */
    bool listens;   /* print the story */
} journal;

void journal_init(journal *journal, uint64_t seed, bool listens);

/* One record. `a` and `b` are what the kind is about (a link and a size, say). */
void journal_record(journal *journal, int64_t now_us, uint32_t node, journal_kind kind, uint64_t a, uint64_t b);
void journal_bytes(journal *journal, span bytes);

/* A line of the story, for readers only: not hashed. `who` may be NULL. */
void journal_tell(const journal *journal, int64_t now_us, const char *who, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
