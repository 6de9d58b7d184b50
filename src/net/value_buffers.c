/* value_buffers.c — table of out-of-line buffers beside a value, and the body or region that they lie in. */
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/error.h"
#include "base/simd.h"
#include "net/value.h"

enum {
    STREAM_BODY = 4 << 20,   /* above this size a cached copy evicts other data, and */
    STREAM_BUFFER = 32 << 20 /* memcpy streams by itself if one buffer has this size */
};

static uint64_t align_up(uint64_t offset) {
    return (offset + VALUE_BUFFER_ALIGN - 1) & ~(uint64_t)(VALUE_BUFFER_ALIGN - 1);
}

static value_payload_entry entry_at(const uint8_t *table, size_t index) {
    value_payload_entry entry;
    memcpy(&entry, table + index * sizeof entry, sizeof entry);
    return entry;
}

static bool lies_in(value_payload_entry entry, size_t region_size) {
    return entry.offset % VALUE_BUFFER_ALIGN == 0 && entry.offset <= region_size &&
           entry.size <= region_size - entry.offset;
}

/* ---- Sending. */

void value_write_table(uint8_t *payload, const value_buffer *buffers, uint32_t count) {
    uint8_t *table = payload + sizeof(value_payload_header);
    for (size_t i = 0; i < count; i++) {
        MR_ASSERT(buffers[i].offset % VALUE_BUFFER_ALIGN == 0);
        value_payload_entry entry = {buffers[i].offset, buffers[i].size};
        memcpy(table + i * sizeof entry, &entry, sizeof entry);
    }
}

uint64_t value_body_size(const value_buffer *buffers, uint32_t count) {
    return count == 0 ? 0 : buffers[count - 1].offset + buffers[count - 1].size;
}

static void copy(void *to, const value_buffer *buffer, bool streams) {
    if (buffer->size == 0 || buffer->data == NULL) return;
    if (streams && buffer->size < STREAM_BUFFER)
        simd_stream(to, buffer->data, buffer->size);
    else
        memcpy(to, buffer->data, buffer->size);
}

void value_body_write(const value_buffer *buffers, uint32_t count, uint8_t *body) {
    uint64_t at = 0;
    bool streams = value_body_size(buffers, count) >= STREAM_BODY;
    for (size_t i = 0; i < count; i++) {
        const value_buffer *buffer = &buffers[i];
        MR_ASSERT(buffer->offset == align_up(at));
        memset(body + at, 0, buffer->offset - at);
        copy(body + buffer->offset, buffer, streams);
        at = buffer->offset + buffer->size;
    }
    if (streams) simd_stream_end();
}

/* ---- Receiving. */

bool value_doc_buffer(const value_doc *doc, uint64_t index, mr_span *out) {
    if (index >= doc->buffer_count) return false;
    value_payload_entry entry = entry_at(doc->table, index);
    if (!lies_in(entry, doc->region.size)) return false;
    *out = (mr_span){doc->region.data + entry.offset, entry.size};
    return true;
}

static mr_status check_table(const value_doc *doc) {
    for (uint32_t i = 0; i < doc->buffer_count; i++) {
        value_payload_entry entry = entry_at(doc->table, i);
        if (!lies_in(entry, doc->region.size))
            return error_set(MR_CORRUPT,
                             "buffer %u: %llu bytes at offset %llu, which must be a multiple of %d, in a region of %zu",
                             i, (unsigned long long)entry.size, (unsigned long long)entry.offset, VALUE_BUFFER_ALIGN,
                             doc->region.size);
    }
    return MR_OK;
}

static bool aligned(span bytes, size_t align) { return (uintptr_t)bytes.data % align == 0; }

mr_status value_payload_open(value_doc *doc, span payload, span region) {
    value_payload_header header;
    if (!aligned(payload, VALUE_ALIGN) || !aligned(region, VALUE_BUFFER_ALIGN))
        return error_set(MR_INVALID,
                         "misaligned value: its table begins at a multiple of %d in memory, its buffers of %d",
                         VALUE_ALIGN, VALUE_BUFFER_ALIGN);
    if (payload.size < sizeof header)
        return error_set(MR_CORRUPT, "malformed value of %zu bytes: its header has %zu", payload.size, sizeof header);
    memcpy(&header, payload.data, sizeof header);
    uint64_t before = sizeof header + (uint64_t)header.buffer_count * sizeof(value_payload_entry);
    if (before + header.value_size != payload.size)
        return error_set(MR_CORRUPT, "malformed value of %zu bytes: with %u buffers and %u bytes of items it has %llu",
                         payload.size, header.buffer_count, header.value_size,
                         (unsigned long long)(before + header.value_size));
    doc->bytes = span_of(payload.data + before, header.value_size);
    doc->region = region;
    doc->table = payload.data + sizeof header;
    doc->buffer_count = header.buffer_count;
    return check_table(doc);
}

mr_status value_open(value_doc *doc, span payload, span region, mr_value *root) {
    value_doc_init(doc);
    mr_status status = value_payload_open(doc, payload, region);
    if (status == MR_OK) status = value_check(doc, root);
    if (status != MR_OK) value_close(doc);
    return status;
}

void value_close(value_doc *doc) {
    if (doc->skips != doc->few) free(doc->skips);
    doc->skips = doc->few;
    doc->skip_count = 0;
}
