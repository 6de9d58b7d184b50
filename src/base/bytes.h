/* bytes.h — spans, buffers, and readers and writers that cannot leave them.
 *
 * Numbers are little-endian and need no alignment. A reader or writer that meets its end does nothing from then on and
 * stays `failed`: code reads a whole structure and asks once, at the end. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "miniray/status.h"

typedef struct span { /* borrowed bytes */
    const uint8_t *data;
    size_t size;
} span;

static inline span span_of(const void *data, size_t size) { return (span){.data = data, .size = size}; }

/* A growing buffer with a limit. Zero-initialized with a limit it is empty and ready. */
typedef struct buffer {
    uint8_t *data; /* owned */
    size_t size, capacity;
    size_t limit; /* never grows past this many bytes */
} buffer;

void buffer_init(buffer *buffer, size_t limit);
void buffer_fini(buffer *buffer);
MR_MUST mr_status buffer_reserve(buffer *buffer, size_t more); /* room for `more` after size; MR_TOO_LARGE, MR_NOMEM */
MR_MUST mr_status buffer_append(buffer *buffer, const void *data, size_t size);
void buffer_consume(buffer *buffer, size_t count); /* drops `count` bytes from the front */
void buffer_clear(buffer *buffer);                 /* empty; keeps the memory */

typedef struct reader {
    const uint8_t *at, *end;
    bool failed;
} reader;

reader reader_of(const void *data, size_t size);
size_t reader_left(const reader *reader);
uint8_t reader_u8(reader *reader);
uint16_t reader_u16(reader *reader);
uint32_t reader_u32(reader *reader);
uint64_t reader_u64(reader *reader);
double reader_f64(reader *reader);
const uint8_t *reader_bytes(reader *reader, size_t size); /* borrowed; NULL when failed */
span reader_span32(reader *reader);                       /* a u32 length, then that many bytes */

typedef struct writer {
    uint8_t *start, *at, *end;
    bool failed;
} writer;

writer writer_of(void *data, size_t size);
size_t writer_size(const writer *writer); /* bytes written */
void writer_u8(writer *writer, uint8_t value);
void writer_u16(writer *writer, uint16_t value);
void writer_u32(writer *writer, uint32_t value);
void writer_u64(writer *writer, uint64_t value);
void writer_f64(writer *writer, double value);
void writer_bytes(writer *writer, const void *data, size_t size);
void writer_span32(writer *writer, span bytes);
