/* bytes.c — see bytes.h. */
#include "base/bytes.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"

enum { BUFFER_FIRST = 256 };

void buffer_init(buffer *buffer, size_t limit) { *buffer = (struct buffer){.limit = limit}; }

void buffer_fini(buffer *buffer) {
    free(buffer->data);
    buffer_init(buffer, buffer->limit);
}

/* Doubles, so that appending n bytes one by one costs O(n). */
static size_t grown_capacity(const buffer *buffer, size_t need) {
    size_t capacity = buffer->capacity < BUFFER_FIRST / 2 ? BUFFER_FIRST : buffer->capacity * 2;
    if (capacity < need) capacity = need;
    return capacity < buffer->limit ? capacity : buffer->limit;
}

mr_status buffer_reserve(buffer *buffer, size_t more) {
    if (more > buffer->limit || buffer->size > buffer->limit - more)
        return error_set(MR_TOO_LARGE, "the buffer has %zu bytes and cannot take %zu more; its limit is %zu",
                         buffer->size, more, buffer->limit);
    size_t need = buffer->size + more;
    if (need <= buffer->capacity) return MR_OK;
    size_t capacity = grown_capacity(buffer, need);
    MR_TRY(alloc_try_resize(&buffer->data, capacity));
    buffer->capacity = capacity;
    return MR_OK;
}

mr_status buffer_append(buffer *buffer, const void *data, size_t size) {
    MR_TRY(buffer_reserve(buffer, size));
    if (size != 0) memcpy(buffer->data + buffer->size, data, size);
    buffer->size += size;
    return MR_OK;
}

mr_status buffer_put(void *buffer, span bytes) { return buffer_append(buffer, bytes.data, bytes.size); }

mr_status buffer_print(buffer *buffer, const char *format, ...) {
    va_list arguments, again;
    va_start(arguments, format);
    va_copy(again, arguments);
    int length = vsnprintf(NULL, 0, format, arguments);
    va_end(arguments);
    MR_ASSERT(length >= 0);
    mr_status status = buffer_reserve(buffer, (size_t)length + 1);
    if (status == MR_OK) {
        vsnprintf((char *)buffer->data + buffer->size, (size_t)length + 1, format, again);
        buffer->size += (size_t)length;
    }
    va_end(again);
    return status;
}

void buffer_consume(buffer *buffer, size_t count) {
    MR_ASSERT(count <= buffer->size);
    buffer->size -= count;
    if (buffer->size != 0 && count != 0) memmove(buffer->data, buffer->data + count, buffer->size);
}

void buffer_clear(buffer *buffer) { buffer->size = 0; }

/* Empty input has a non-NULL address too: NULL from a reader always means failure, and no pointer arithmetic uses
 * NULL. */
reader reader_of(const void *data, size_t size) {
    static const uint8_t nothing;
    const uint8_t *at = data == NULL ? &nothing : data;
    MR_ASSERT(data != NULL || size == 0);
    return (reader){.at = at, .end = at + size};
}

span reader_span32(reader *reader) {
    size_t size = reader_u32(reader);
    const uint8_t *data = reader_bytes(reader, size);
    return data == NULL ? (span){0} : span_of(data, size);
}

bool reader_text8(reader *reader, char *text, size_t room) {
    size_t length = reader_u8(reader);
    const uint8_t *bytes = reader_bytes(reader, length);
    if (bytes == NULL || length >= room || memchr(bytes, 0, length) != NULL) {
        reader->failed = true;
        reader->at = reader->end;
        return false;
    }
    memcpy(text, bytes, length);
    text[length] = '\0';
    return true;
}

writer writer_of(void *data, size_t size) {
    MR_ASSERT(data != NULL || size == 0);
    uint8_t *at = data;
    return (writer){.start = at, .at = at, .end = size == 0 ? at : at + size};
}

void writer_span32(writer *writer, span bytes) {
    if (bytes.size > UINT32_MAX) {
        writer->failed = true;
        return;
    }
    writer_u32(writer, (uint32_t)bytes.size);
    writer_bytes(writer, bytes.data, bytes.size);
}

void writer_text8(writer *writer, const char *text) {
    size_t length = strlen(text);
    if (length > UINT8_MAX) {
        writer->failed = true;
        return;
    }
    writer_u8(writer, (uint8_t)length);
    writer_bytes(writer, text, length);
}
