/* compress.h — lossless compression of bytes: lz4 and zstd.
 *
 * The libraries are opened by compressor_open, not linked: a program that does not compress needs neither. Bytes that
 * do not become smaller are stored unchanged. The compressed bytes differ between versions of a library; the
 * decompressed bytes do not.
 *
 *   bytes    message
 *   -------  -----------------------------------------------
 *   1 3      0 stored, 1 lz4, 2 zstd; zeros
 *   4        size of the decompressed bytes
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

/* Opens a compressor. MR_NOT_FOUND: its library is not available on this machine. */
MR_MUST mr_status compressor_open(compressor_id id, compressor **out);
void compressor_close(compressor *compressor);

/* The compressors that this process can open: bit 1 << id for each; COMPRESSOR_STORED is always one. */
uint32_t compressor_available(void);
const char *compressor_name(compressor_id id);    /* static; as in a table's options */
const char *compressor_library(compressor_id id); /* static; of lz4 and zstd */

size_t compressor_bound(size_t size); /* upper bound of the message for so many bytes */

/* Writes a message of size ≤ COMPRESSOR_SIZE_MAX bytes into compressor_bound bytes and returns its size. Equal bytes
 * give equal messages, regardless of earlier calls. */
size_t compressor_pack(compressor *compressor, span bytes, void *out);

/* Size of the decompressed message. MR_CORRUPT; MR_TOO_LARGE: above `limit`. */
MR_MUST mr_status compressor_size(span message, size_t limit, size_t *out);

/* Decompresses into exactly `size` bytes. MR_CORRUPT: `out` is undefined; MR_INVALID: the message is of another kind of
 * compressor; MR_NOMEM: the message was not read. Earlier messages, malformed or not, have no effect. */
MR_MUST mr_status compressor_unpack(compressor *compressor, span message, void *out, size_t size);
