/* varint.h — variable-length integers: small numbers take few bytes.
 *
 * Each byte has seven bits, the lowest first; the top bit is set if more bytes follow. A number has one encoding only:
 * a reader rejects redundant zeros, so equal values have equal bytes. Signed differences are folded, so that small ones
 * of either sign are short. */
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
        if (shift != 0 && byte == 0) break; /* a redundant zero */
        return value;
    }
    (void)reader_bytes(reader, SIZE_MAX); /* sets `failed` */
    return 0;
}

/* Folds the signed difference of `value` and `from` into an unsigned number. */
static inline uint64_t varint_fold(uint64_t value, uint64_t from) {
    uint64_t distance = value - from;
    return distance >> 63 != 0 ? ~distance << 1 | 1 : distance << 1;
}
static inline uint64_t varint_unfold(uint64_t folded, uint64_t from) {
    uint64_t distance = folded >> 1;
    return from + ((folded & 1) != 0 ? ~distance : distance);
}
