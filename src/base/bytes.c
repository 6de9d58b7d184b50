/* bytes.c — see bytes.h. */
#include "base/bytes.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"

void buffer_init(buffer *buffer, size_t limit) {
    memset(buffer, 0, sizeof *buffer);
    buffer->limit = limit;
}

void buffer_fini(buffer *buffer) {
    free(buffer->data);
    buffer_init(buffer, buffer->limit);
}

mr_status buffer_reserve(buffer *buffer, size_t more) {
    if (more > buffer->limit || buffer->size > buffer->limit - more)
        return error_set(MR_TOO_LARGE, "a buffer of %zu bytes cannot take %zu more: its limit is %zu", buffer->size,
                         more, buffer->limit);
    size_t need = buffer->size + more;
    if (need <= buffer->capacity) return MR_OK;
    size_t capacity = buffer->capacity < 128 ? 256 : buffer->capacity * 2;
    if (capacity < need) capacity = need;
    if (capacity > buffer->limit) capacity = buffer->limit;
    void *data = buffer->data;
    MR_TRY(alloc_try_resize(&data, capacity));
    buffer->data = data;
    buffer->capacity = capacity;
    return MR_OK;
}

mr_status buffer_append(buffer *buffer, const void *data, size_t size) {
    MR_TRY(buffer_reserve(buffer, size));
    if (size != 0) memcpy(buffer->data + buffer->size, data, size);
    buffer->size += size;
    return MR_OK;
}

void buffer_consume(buffer *buffer, size_t count) {
    MR_ASSERT(count <= buffer->size);
    buffer->size -= count;
    if (buffer->size != 0 && count != 0) memmove(buffer->data, buffer->data + count, buffer->size);
}

void buffer_clear(buffer *buffer) { buffer->size = 0; }

reader reader_of(const void *data, size_t size) {
    const uint8_t *at = data;
    return (reader){.at = at, .end = size ? at + size : at};
}

size_t reader_left(const reader *reader) { return (size_t)(reader->end - reader->at); }

const uint8_t *reader_bytes(reader *reader, size_t size) {
    if (reader->failed || size > reader_left(reader)) {
        reader->failed = true;
        return NULL;
    }
    const uint8_t *at = reader->at;
    if (size != 0) reader->at += size;
    return at;
}

static uint64_t read_number(reader *reader, size_t size) {
    const uint8_t *at = reader_bytes(reader, size);
    uint64_t value = 0;
    if (at != NULL)
        for (size_t i = 0; i < size; i++) value |= (uint64_t)at[i] << (8 * i);
    return value;
}

uint8_t reader_u8(reader *reader) { return (uint8_t)read_number(reader, 1); }
uint16_t reader_u16(reader *reader) { return (uint16_t)read_number(reader, 2); }
uint32_t reader_u32(reader *reader) { return (uint32_t)read_number(reader, 4); }
uint64_t reader_u64(reader *reader) { return read_number(reader, 8); }

double reader_f64(reader *reader) {
    uint64_t bits = reader_u64(reader);
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

span reader_span32(reader *reader) {
    size_t size = reader_u32(reader);
    const uint8_t *data = reader_bytes(reader, size);
    return data == NULL ? (span){0} : span_of(data, size);
}

writer writer_of(void *data, size_t size) {
    uint8_t *at = data;
    return (writer){.start = at, .at = at, .end = size ? at + size : at};
}

size_t writer_size(const writer *writer) { return (size_t)(writer->at - writer->start); }

void writer_bytes(writer *writer, const void *data, size_t size) {
    if (writer->failed || size > (size_t)(writer->end - writer->at)) {
        writer->failed = true;
        return;
    }
    if (size == 0) return;
    memcpy(writer->at, data, size);
    writer->at += size;
}

static void write_number(writer *writer, uint64_t value, size_t size) {
    uint8_t bytes[8];
    for (size_t i = 0; i < size; i++) bytes[i] = (uint8_t)(value >> (8 * i));
    writer_bytes(writer, bytes, size);
}

void writer_u8(writer *writer, uint8_t value) { write_number(writer, value, 1); }
void writer_u16(writer *writer, uint16_t value) { write_number(writer, value, 2); }
void writer_u32(writer *writer, uint32_t value) { write_number(writer, value, 4); }
void writer_u64(writer *writer, uint64_t value) { write_number(writer, value, 8); }

void writer_f64(writer *writer, double value) {
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    writer_u64(writer, bits);
}

void writer_span32(writer *writer, span bytes) {
    if (bytes.size > UINT32_MAX) {
        writer->failed = true;
        return;
    }
    writer_u32(writer, (uint32_t)bytes.size);
    writer_bytes(writer, bytes.data, bytes.size);
}
