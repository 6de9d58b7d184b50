/* varint.h — variable-length integers: small numbers take few bytes.
 *
 * Seven bits a byte, the lowest first; the top bit says that more follow. A number has one form only: a reader refuses
 * zeros that could be left out, so equal values are equal bytes. Differences, which may be below zero, are folded so
 * that small ones of either sign are short. */
#pragma once
#include "base/bytes.h"

enum { VARINT_SIZE_MAX = 10 };

static inline size_t varint_size(uint64_t value) {
    size_t size = 1;
    while ((value >>= 7) != 0) size++;
    return size;
}

static inline void writer_varint(writer *writer, uint64_t value) {
    for (; value > 0x7f; value >>= 7) writer_u8(writer, (uint8_t)(value | 0x80));
    writer_u8(writer, (uint8_t)value);
}

static inline uint64_t reader_varint(reader *reader) {
    uint64_t value = 0;
    for (unsigned shift = 0; shift < 70; shift += 7) {
        uint8_t byte = reader_u8(reader);
        if (shift == 63 && byte > 1) break; /* beyond 64 bits */
        value |= (uint64_t)(byte & 0x7f) << shift;
        if ((byte & 0x80) != 0) continue;
        if (shift != 0 && byte == 0) break; /* a zero that could be left out */
        return value;
    }
    (void)reader_bytes(reader, SIZE_MAX); /* fails */
    return 0;
}

/* The distance of `value` from `from`, in either direction. */
static inline uint64_t varint_fold(uint64_t value, uint64_t from) {
    uint64_t distance = value - from;
    return distance >> 63 != 0 ? ~distance << 1 | 1 : distance << 1;
}
static inline uint64_t varint_unfold(uint64_t folded, uint64_t from) {
    uint64_t distance = folded >> 1;
    return from + ((folded & 1) != 0 ? ~distance : distance);
}
