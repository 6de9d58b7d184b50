/* bytes.h — spans, buffers, and bounds-checked readers and writers.
 *
 * Numbers are little-endian and need no alignment. A reader or writer that reaches its end does nothing from then on
 * and stays `failed`: code reads a whole structure and checks `failed` once, at the end. A failed reader returns 0 and
 * NULL and has no bytes left, so a loop over its remaining bytes ends. Small reads and writes are inline, because
 * messages consist of them. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "miniray/status.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "numbers in messages and in shared memory are little-endian");

typedef struct span { /* borrowed bytes */
    const uint8_t *data;
    size_t size;
} span;

static inline span span_of(const void *data, size_t size) { return (span){.data = data, .size = size}; }

/* Copies `size` bytes, a multiple of 8, word by word: for bytes that were just written word by word. A wide load of
 * bytes that several narrower stores wrote waits until those stores, and all stores before them, have reached the
 * cache. */
static inline void bytes_copy_words(void *to, const void *from, size_t size) {
    for (size_t at = 0; at < size; at += sizeof(uint64_t)) {
        uint64_t word;
        memcpy(&word, (const uint8_t *)from + at, sizeof word);
        memcpy((uint8_t *)to + at, &word, sizeof word);
        __asm__ volatile("" ::: "memory"); /* without it the compiler merges words into wider ones */
    }
}

/* A growing buffer with a limit. A zero-initialized buffer with a limit is empty and ready. */
typedef struct buffer {
    uint8_t *data; /* owned */
    size_t size, capacity;
    size_t limit; /* never grows past this many bytes */
} buffer;

void buffer_init(buffer *buffer, size_t limit);
void buffer_fini(buffer *buffer); /* empty and ready again, with the same limit */

/* All three leave the buffer unchanged when they fail: MR_TOO_LARGE, MR_NOMEM. */
MR_MUST mr_status buffer_reserve(buffer *buffer, size_t more);                  /* for `more` bytes after size */
MR_MUST mr_status buffer_append(buffer *buffer, const void *data, size_t size); /* data lies outside the buffer */

typedef struct byte_sink { /* destination of bytes that come one after the other */
    mr_status (*put)(void *context, span bytes);
    void *context;
} byte_sink;

static inline mr_status byte_sink_put(const byte_sink *sink, span bytes) { return sink->put(sink->context, bytes); }
MR_MUST mr_status buffer_put(void *buffer, span bytes);                 /* a sink that appends to a buffer */
MR_MUST mr_status buffer_print(buffer *buffer, const char *format, ...) /* `format` needs room for its NUL */
    __attribute__((format(printf, 2, 3)));

void buffer_consume(buffer *buffer, size_t count); /* drops `count` bytes from the front; moves the rest */
void buffer_clear(buffer *buffer);                 /* empty; keeps the memory */

typedef struct reader {
    const uint8_t *at, *end; /* never NULL */
    bool failed;
} reader;

reader reader_of(const void *data, size_t size); /* the bytes are borrowed while the reader is used */
span reader_span32(reader *reader);              /* a u32 length, then that many bytes; borrowed */

/* Reads a u8 length and that many bytes without NUL into `text`, which has `room` bytes, and appends a NUL. Returns
 * false and sets `failed` if the text is malformed or too long. */
bool reader_text8(reader *reader, char *text, size_t room);

static inline size_t reader_left(const reader *reader) { return (size_t)(reader->end - reader->at); }

/* Borrowed; NULL only when failed. */
static inline const uint8_t *reader_bytes(reader *reader, size_t size) {
    if (reader->failed || size > reader_left(reader)) {
        reader->failed = true;
        reader->at = reader->end;
        return NULL;
    }
    const uint8_t *at = reader->at;
    reader->at += size;
    return at;
}

typedef struct writer {
    uint8_t *start, *at, *end;
    size_t missing; /* bytes for which there was no room */
    bool failed;
} writer;

writer writer_of(void *data, size_t size); /* the memory is borrowed while the writer is used */
void writer_span32(writer *writer, span bytes);
void writer_text8(writer *writer, const char *text); /* fails for a text of more than 255 bytes */

static inline size_t writer_size(const writer *writer) { return (size_t)(writer->at - writer->start); } /* written */
/* Size of all bytes that were to be written: a writer without room, writer_of(NULL, 0), measures an encoding. */
static inline size_t writer_needs(const writer *writer) { return writer_size(writer) + writer->missing; }

static inline void writer_bytes(writer *writer, const void *data, size_t size) {
    if (writer->failed || size > (size_t)(writer->end - writer->at)) {
        writer->missing += size;
        writer->failed = true;
        return;
    }
    if (size == 0) return;
    memcpy(writer->at, data, size);
    writer->at += size;
}

/* reader_u8 … reader_f64 and writer_u8 … writer_f64. */
#define BYTES_NUMBER(name, type)                                \
    static inline type reader_##name(reader *reader) {          \
        type value = 0;                                         \
        const uint8_t *at = reader_bytes(reader, sizeof value); \
        if (at != NULL) memcpy(&value, at, sizeof value);       \
        return value;                                           \
    }                                                           \
    static inline void writer_##name(writer *writer, type value) { writer_bytes(writer, &value, sizeof value); }

BYTES_NUMBER(u8, uint8_t)
BYTES_NUMBER(u16, uint16_t)
BYTES_NUMBER(u32, uint32_t)
BYTES_NUMBER(u64, uint64_t)
BYTES_NUMBER(f64, double)
#undef BYTES_NUMBER

/* A byte that is 0 or 1; any other value fails. */
static inline bool reader_flag(reader *reader) {
    uint8_t value = reader_u8(reader);
    reader->failed = reader->failed || value > 1;
    return value == 1;
}
static inline void writer_flag(writer *writer, bool value) { writer_u8(writer, value); }
