/* compress.h — lossless compression of bytes: lz4 and zstd.
 *
 * Their libraries are opened when a press is, not linked: a program that compresses nothing needs neither. Bytes that
 * do not become smaller are stored unchanged. The bytes differ between versions of a library; what they mean does not.
 *
 *   bytes    message
 *   -------  -----------------------------------------------
 *   1 3      0 stored, 1 lz4, 2 zstd; zeros
 *   4        size of what is in it
 *   … */
#pragma once
#include "base/bytes.h"
#include "miniray/status.h"

enum { COMPRESSOR_HEAD = 8, COMPRESSOR_SIZE_MAX = 1 << 30 };

typedef enum compressor_id {
    COMPRESSOR_STORED = 0,
    COMPRESSOR_LZ4 = 1,
    COMPRESSOR_ZSTD = 2,
    COMPRESSOR_IDS
} compressor_id;

typedef struct compressor compressor;

/* MR_NOT_FOUND: this machine does not have its library */
MR_MUST mr_status compressor_open(compressor_id id, compressor **out);
void compressor_close(compressor *compressor);

size_t compressor_bound(size_t size); /* no message of so many bytes is larger */

/* Writes a message of size ≤ COMPRESSOR_SIZE_MAX bytes into compressor_bound ones; gives its size. The same bytes give
 * the same message, whatever was packed before. */
size_t compressor_pack(compressor *compressor, span bytes, void *out);

/* The size of what is in a message, to make room for it. MR_CORRUPT; MR_TOO_LARGE: beyond `limit`. */
MR_MUST mr_status compressor_size(span message, size_t limit, size_t *out);

/* Into exactly so much room. MR_CORRUPT, and `out` has anything; MR_INVALID: it was packed by another kind of press;
 * MR_NOMEM: nothing is known of it. What was unpacked before, damaged or not, does not show. */
MR_MUST mr_status compressor_unpack(compressor *compressor, span message, void *out, size_t size);
