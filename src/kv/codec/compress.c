/* compress.c — see compress.h. The library functions that are used are declared here; they are unchanged since the
 * first versions of the libraries. So neither library is needed to build. */
#include "kv/codec/compress.h"

#include <dlfcn.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"

enum { ZSTD_LEVEL = 1 };

struct compressor {
    compressor_id id;
    void *library;
    /* LZ4_compress_default; 0: the result does not fit */
    int (*lz4_compress)(const char *from, char *to, int size, int room);
    /* LZ4_decompress_safe; negative: malformed */
    int (*lz4_decompress)(const char *from, char *to, int size, int room);
    /* owned: contexts of zstd, each created at its first use, since most processes need only one */
    void *packer, *unpacker;
    void *(*zstd_packer_create)(void), *(*zstd_unpacker_create)(void);
    size_t (*zstd_packer_free)(void *packer), (*zstd_unpacker_free)(void *unpacker);
    size_t (*zstd_compress)(void *packer, void *to, size_t room, const void *from, size_t size, int level);
    size_t (*zstd_decompress)(void *unpacker, void *to, size_t room, const void *from, size_t size);
    unsigned (*zstd_is_error)(size_t code);
};

/* Looks up a function of the library and stores it at `out`. False: not found. */
static bool find(compressor *compressor, const char *name, void *out) {
    *(void **)out = dlsym(compressor->library, name);
    return *(void **)out != NULL;
}

static const char *const libraries[COMPRESSOR_IDS] = {
    [COMPRESSOR_LZ4] = "liblz4.so.1", [COMPRESSOR_ZSTD] = "libzstd.so.1"};

static bool load(compressor *compressor) {
    if (compressor->id == COMPRESSOR_STORED) return true;
    compressor->library = dlopen(libraries[compressor->id], RTLD_NOW | RTLD_LOCAL);
    if (compressor->library == NULL) return false;
    if (compressor->id == COMPRESSOR_LZ4)
        return find(compressor, "LZ4_compress_default", &compressor->lz4_compress) &&
               find(compressor, "LZ4_decompress_safe", &compressor->lz4_decompress);
    return find(compressor, "ZSTD_createCCtx", &compressor->zstd_packer_create) &&
           find(compressor, "ZSTD_freeCCtx", &compressor->zstd_packer_free) &&
           find(compressor, "ZSTD_compressCCtx", &compressor->zstd_compress) &&
           find(compressor, "ZSTD_createDCtx", &compressor->zstd_unpacker_create) &&
           find(compressor, "ZSTD_freeDCtx", &compressor->zstd_unpacker_free) &&
           find(compressor, "ZSTD_decompressDCtx", &compressor->zstd_decompress) &&
           find(compressor, "ZSTD_isError", &compressor->zstd_is_error);
}

mr_status compressor_open(compressor_id id, compressor **out) {
    if (id >= COMPRESSOR_IDS) return error_set(MR_INVALID, "unknown compression %d", (int)id);
    compressor *compressor = XNEW(struct compressor, .id = id);
    if (!load(compressor)) {
        compressor_close(compressor);
        return error_set(MR_NOT_FOUND, "cannot load %s; install it", libraries[id]);
    }
    *out = compressor;
    return MR_OK;
}

uint32_t compressor_available(void) {
    uint32_t available = 0;
    for (int id = 0; id < COMPRESSOR_IDS; id++) {
        compressor probe = {.id = (compressor_id)id};
        if (load(&probe)) available |= UINT32_C(1) << id;
        if (probe.library != NULL) dlclose(probe.library);
    }
    return available;
}

const char *compressor_name(compressor_id id) {
    static const char *const names[COMPRESSOR_IDS] = {
        [COMPRESSOR_STORED] = "none", [COMPRESSOR_LZ4] = "lz4", [COMPRESSOR_ZSTD] = "zstd"};
    return names[id];
}

const char *compressor_library(compressor_id id) { return libraries[id]; }

void compressor_close(compressor *compressor) {
    if (compressor->packer != NULL) (void)compressor->zstd_packer_free(compressor->packer);
    if (compressor->unpacker != NULL) (void)compressor->zstd_unpacker_free(compressor->unpacker);
    if (compressor->library != NULL) dlclose(compressor->library);
    free(compressor);
}

size_t compressor_bound(size_t size) { return COMPRESSOR_HEAD + size; }

/* Compresses into less room than the bytes need; 0: the result does not fit. */
static size_t compress(compressor *compressor, span bytes, uint8_t *out) {
    size_t room = bytes.size - 1, size = 0;
    if (compressor->id == COMPRESSOR_LZ4)
        size = (size_t)compressor->lz4_compress((const char *)bytes.data, (char *)out, (int)bytes.size, (int)room);
    if (compressor->id == COMPRESSOR_ZSTD && compressor->packer == NULL)
        compressor->packer = compressor->zstd_packer_create();
    if (compressor->id == COMPRESSOR_ZSTD && compressor->packer != NULL) {
        size = compressor->zstd_compress(compressor->packer, out, room, bytes.data, bytes.size, ZSTD_LEVEL);
        if (compressor->zstd_is_error(size)) size = 0;
    }
    return size <= room ? size : 0;
}

size_t compressor_pack(compressor *compressor, span bytes, void *out) {
    MR_ASSERT(bytes.size <= COMPRESSOR_SIZE_MAX);
    uint8_t *at = out;
    uint32_t original = (uint32_t)bytes.size;
    size_t size = bytes.size > 1 ? compress(compressor, bytes, at + COMPRESSOR_HEAD) : 0;
    memset(at, 0, COMPRESSOR_HEAD);
    memcpy(at + 4, &original, sizeof original);
    at[0] = (uint8_t)(size > 0 ? compressor->id : COMPRESSOR_STORED);
    if (size > 0 || bytes.size == 0) return COMPRESSOR_HEAD + size;
    memcpy(at + COMPRESSOR_HEAD, bytes.data, bytes.size);
    return COMPRESSOR_HEAD + bytes.size;
}

mr_status compressor_size(span message, size_t limit, size_t *out) {
    reader reader = reader_of(message.data, message.size);
    uint32_t head = reader_u32(&reader), size = reader_u32(&reader);
    if (reader.failed || head >= COMPRESSOR_IDS) return error_set(MR_CORRUPT, "malformed compression %u", head);
    if (size > limit || size > COMPRESSOR_SIZE_MAX)
        return error_set(MR_TOO_LARGE, "compressed data of %u bytes when unpacked: the limit is %zu", size, limit);
    *out = size;
    return MR_OK;
}

mr_status compressor_unpack(compressor *compressor, span message, void *out, size_t size) {
    size_t original = 0, done = SIZE_MAX;
    MR_TRY(compressor_size(message, size, &original));
    span body = span_of(message.data + COMPRESSOR_HEAD, message.size - COMPRESSOR_HEAD);
    compressor_id id = message.data[0];
    if (id != COMPRESSOR_STORED && id != compressor->id)
        return error_set(MR_INVALID, "compression %d, where %d is expected", (int)id, (int)compressor->id);
    if (id == COMPRESSOR_STORED && body.size == size) {
        if (size > 0) memcpy(out, body.data, size);
        done = size;
    } else if (id == COMPRESSOR_LZ4 && body.size <= COMPRESSOR_SIZE_MAX) {
        int code = compressor->lz4_decompress((const char *)body.data, out, (int)body.size, (int)size);
        if (code >= 0) done = (size_t)code;
    } else if (id == COMPRESSOR_ZSTD) {
        if (compressor->unpacker == NULL) compressor->unpacker = compressor->zstd_unpacker_create();
        if (compressor->unpacker == NULL)
            return error_set(MR_NOMEM, "out of memory for zstd to unpack %zu bytes", size);
        done = compressor->zstd_decompress(compressor->unpacker, out, size, body.data, body.size);
    }
    if (original != size || done != size) return error_set(MR_CORRUPT, "%zu bytes do not unpack", body.size);
    return MR_OK;
}
