/* format.h — format numbers of files and messages (docs/formats.md): how they are read, and the error for another one.
 *
 * A magic ends with its format number as one character: the bytes "DEP3" are format 3 of the kind "DEP", and ':' is
 * format 10. A file type that ends with the checksum of all bytes before it (format_sum) does so in every format: a
 * correct checksum means that the format number is undamaged, even if this version does not know the format.
 *
 * Pure. */
#pragma once
#include "base/bytes.h"
#include "miniray/status.h"

#define FORMAT_USE_WRITER "use the Miniray release that wrote it"
#define FORMAT_USE_SAME   "use the same Miniray release on both sides"

/* The format number of `magic` if its name is that of `known`; 0: another name. */
static inline uint32_t format_of(uint64_t magic, uint64_t known, size_t magic_size) {
    const unsigned shift = (unsigned)(magic_size - 1) * 8;
    const uint64_t name = (UINT64_C(1) << shift) - 1;
    uint32_t digit = (uint32_t)(magic >> shift & 0xff);
    return (magic & name) == (known & name) && digit > '0' ? digit - '0' : 0;
}

/* The number after the name in a text such as "miniray slot 1"; 0: another name, or no number. */
uint32_t format_of_text(const char *text, const char *name);

/* MR_CORRUPT: "OBJECT has format FOUND; this version reads format KNOWN: ACTION". */
mr_status format_reject(const char *object, uint64_t found, uint64_t known, const char *action);

uint64_t format_sum(span bytes);  /* XXH3 */
bool format_is_sealed(span file); /* the last eight bytes are the checksum of all bytes before them */
