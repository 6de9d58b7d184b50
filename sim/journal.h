/* journal.h — what happened, as one number and, for readers, as a story.
 *
 * Every event goes through the hash in the order in which it happens, with its time, its node and every byte that is
 * delivered. Two runs with the same hash were the same run. Nothing is formatted unless somebody reads along. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"

#define JOURNAL_KINDS(X)   \
    X(NOTE, "note")        \
    X(START, "starts")     \
    X(CRASH, "crashes")    \
    X(PAUSE, "is busy")    \
    X(TICK, "ticks")       \
    X(OPEN, "opens")       \
    X(OPENED, "opened")    \
    X(SEND, "sends")       \
    X(RECEIVE, "receives") \
    X(BODY, "body")        \
    X(ROOM, "has room")    \
    X(CLOSED, "closed")    \
    X(LOST, "lost")        \
    X(DISK, "disk")        \
    X(FAULT, "fault")

typedef enum journal_kind {
#define X(name, text) JOURNAL_##name,
    JOURNAL_KINDS(X)
#undef X
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
