/* letter.c — see letter.h. */
#include "cluster/letter.h"

#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"

size_t letter_size(const letter *letter) {
    switch (letter->kind) {
    case LETTER_HEARTBEAT: return LETTER_HEAD_SIZE;
    case LETTER_GET:
    case LETTER_WATCH: return LETTER_HEAD_SIZE + 20 + letter->key.size;
    case LETTER_SWAP: return LETTER_HEAD_SIZE + 32 + letter->key.size + letter->value.size;
    case LETTER_LEASE: return LETTER_HEAD_SIZE + 24;
    case LETTER_ANSWER: return LETTER_HEAD_SIZE + 24 + letter->value.size;
    default: return LETTER_HEAD_SIZE + letter->value.size;
    }
}

void letter_encode(const letter *letter, writer *writer) {
    MR_ASSERT(letter->key.size <= LETTER_KEY_MAX && letter->value.size <= LETTER_VALUE_MAX);
    writer_u8(writer, letter->kind);
    writer_u64(writer, letter->stamp.view);
    writer_u64(writer, letter->stamp.id);
    writer_u64(writer, letter->stamp.incarnation);
    switch (letter->kind) {
    case LETTER_HEARTBEAT: break;
    case LETTER_GET:
    case LETTER_WATCH:
        writer_u64(writer, letter->request);
        writer_span32(writer, letter->key);
        writer_u64(writer, letter->version);
        break;
    case LETTER_SWAP:
        writer_u64(writer, letter->request);
        writer_span32(writer, letter->key);
        writer_u64(writer, letter->version);
        writer_u64(writer, letter->lease);
        writer_span32(writer, letter->value);
        break;
    case LETTER_LEASE:
        writer_u64(writer, letter->request);
        writer_u64(writer, letter->lease);
        writer_u64(writer, letter->ttl_us);
        break;
    case LETTER_ANSWER:
        writer_u64(writer, letter->request);
        writer_u32(writer, (uint32_t)letter->status);
        writer_u64(writer, letter->version);
        writer_span32(writer, letter->value);
        break;
    default: writer_bytes(writer, letter->value.data, letter->value.size); break;
    }
}

uint8_t *letter_write(const letter *letter, size_t *size) {
    *size = letter_size(letter);
    uint8_t *bytes = xmalloc(*size);
    writer writer = writer_of(bytes, *size);
    letter_encode(letter, &writer);
    MR_ASSERT(!writer.failed && writer_size(&writer) == *size);
    return bytes;
}

static span rest(reader *reader) {
    size_t size = reader_left(reader);
    return span_of(reader_bytes(reader, size), size);
}

static bool read_content(reader *reader, letter *letter) {
    switch (letter->kind) {
    case LETTER_HEARTBEAT: break;
    case LETTER_VIEW: letter->value = rest(reader); break;
    case LETTER_GET:
    case LETTER_WATCH:
        letter->request = reader_u64(reader);
        letter->key = reader_span32(reader);
        letter->version = reader_u64(reader);
        break;
    case LETTER_SWAP:
        letter->request = reader_u64(reader);
        letter->key = reader_span32(reader);
        letter->version = reader_u64(reader);
        letter->lease = reader_u64(reader);
        letter->value = reader_span32(reader);
        break;
    case LETTER_LEASE:
        letter->request = reader_u64(reader);
        letter->lease = reader_u64(reader);
        letter->ttl_us = reader_u64(reader);
        break;
    case LETTER_ANSWER:
        letter->request = reader_u64(reader);
        letter->status = (mr_status)reader_u32(reader);
        letter->version = reader_u64(reader);
        letter->value = reader_span32(reader);
        break;
    default:
        if (letter->kind < LETTER_USER) return false;
        letter->value = rest(reader);
        break;
    }
    bool known = strcmp(mr_status_name(letter->status), "UNKNOWN") != 0;
    return !reader->failed && reader_left(reader) == 0 && known && letter->key.size <= LETTER_KEY_MAX &&
           letter->value.size <= LETTER_VALUE_MAX;
}

mr_status letter_decode(span bytes, letter *out) {
    reader reader = reader_of(bytes.data, bytes.size);
    letter letter = {.kind = reader_u8(&reader)};
    letter.stamp.view = reader_u64(&reader);
    letter.stamp.id = reader_u64(&reader);
    letter.stamp.incarnation = reader_u64(&reader);
    if (reader.failed || !read_content(&reader, &letter))
        return error_set(MR_CORRUPT, "malformed control message of %zu bytes", bytes.size);
    *out = letter;
    return MR_OK;
}
