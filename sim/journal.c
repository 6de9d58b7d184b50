/* journal.c — see journal.h. */
#include "sim/journal.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

void journal_init(journal *journal, uint64_t seed, bool listens) {
    *journal = (struct journal){.hash = seed, .listens = listens};
}

void journal_record(journal *journal, int64_t now_us, uint32_t node, journal_kind kind, uint64_t a, uint64_t b) {
    const uint64_t record[5] = {(uint64_t)now_us, node, (uint64_t)kind, a, b};
    journal->hash = XXH3_64bits_withSeed(record, sizeof record, journal->hash);
    journal->count++;
}

void journal_bytes(journal *journal, span bytes) {
    journal->hash = XXH3_64bits_withSeed(bytes.data, bytes.size, journal->hash);
}

void journal_tell(const journal *journal, int64_t now_us, const char *who, const char *format, ...) {
    if (!journal->listens) return;
    char text[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    printf("%6" PRId64 ".%06" PRId64 "  %-8s %s\n", now_us / 1000000, now_us % 1000000, who == NULL ? "" : who, text);
}
