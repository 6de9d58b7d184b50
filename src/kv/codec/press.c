/* press.c — see press.h. The few functions that are used are declared here, as the libraries have kept them since their
 * first versions: so that neither is needed to build. */
#include "kv/codec/press.h"

#include <dlfcn.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"

enum { ZSTD_LEVEL = 1 };

struct press {
    press_id id;
    void *library;
    int (*lz4_compress)(const char *from, char *to, int size, int room);   /* LZ4_compress_default: 0, it did not fit */
    int (*lz4_decompress)(const char *from, char *to, int size, int room); /* LZ4_decompress_safe: below 0, wrong */
    void *packer, *unpacker; /* owned: what zstd works with, each made when it is needed first: most do only one */
    void *(*zstd_packer_create)(void), *(*zstd_unpacker_create)(void);
    size_t (*zstd_packer_free)(void *packer), (*zstd_unpacker_free)(void *unpacker);
    size_t (*zstd_compress)(void *packer, void *to, size_t room, const void *from, size_t size, int level);
    size_t (*zstd_decompress)(void *unpacker, void *to, size_t room, const void *from, size_t size);
    unsigned (*zstd_is_error)(size_t code);
};

static bool load_zstd(press *press) {
    *(void **)&press->zstd_packer_create = dlsym(press->library, "ZSTD_createCCtx");
    *(void **)&press->zstd_packer_free = dlsym(press->library, "ZSTD_freeCCtx");
    *(void **)&press->zstd_compress = dlsym(press->library, "ZSTD_compressCCtx");
    *(void **)&press->zstd_unpacker_create = dlsym(press->library, "ZSTD_createDCtx");
    *(void **)&press->zstd_unpacker_free = dlsym(press->library, "ZSTD_freeDCtx");
    *(void **)&press->zstd_decompress = dlsym(press->library, "ZSTD_decompressDCtx");
    *(void **)&press->zstd_is_error = dlsym(press->library, "ZSTD_isError");
    return press->zstd_packer_create != NULL && press->zstd_packer_free != NULL && press->zstd_compress != NULL &&
           press->zstd_unpacker_create != NULL && press->zstd_unpacker_free != NULL && press->zstd_decompress != NULL &&
           press->zstd_is_error != NULL;
}

static bool load(press *press) {
    if (press->id == PRESS_STORED) return true;
    press->library = dlopen(press->id == PRESS_LZ4 ? "liblz4.so.1" : "libzstd.so.1", RTLD_NOW | RTLD_LOCAL);
    if (press->library == NULL) return false;
    if (press->id == PRESS_LZ4) {
        *(void **)&press->lz4_compress = dlsym(press->library, "LZ4_compress_default");
        *(void **)&press->lz4_decompress = dlsym(press->library, "LZ4_decompress_safe");
        return press->lz4_compress != NULL && press->lz4_decompress != NULL;
    }
    return load_zstd(press);
}

mr_status press_open(press_id id, press **out) {
    if (id >= PRESS_IDS) return error_set(MR_INVALID, "unknown compression %d", (int)id);
    press *press = xcalloc(1, sizeof *press);
    press->id = id;
    if (!load(press)) {
        press_close(press);
        return error_set(MR_NOT_FOUND, "cannot load %s; install it", id == PRESS_LZ4 ? "liblz4.so.1" : "libzstd.so.1");
    }
    *out = press;
    return MR_OK;
}

void press_close(press *press) {
    if (press->packer != NULL) (void)press->zstd_packer_free(press->packer);
    if (press->unpacker != NULL) (void)press->zstd_unpacker_free(press->unpacker);
    if (press->library != NULL) dlclose(press->library);
    free(press);
}

size_t press_bound(size_t size) { return PRESS_HEAD + size; }

/* Into less room than the bytes have; 0: they do not fit. */
static size_t compress(press *press, span bytes, uint8_t *out) {
    size_t room = bytes.size - 1, size = 0;
    if (press->id == PRESS_LZ4)
        size = (size_t)press->lz4_compress((const char *)bytes.data, (char *)out, (int)bytes.size, (int)room);
    if (press->id == PRESS_ZSTD && press->packer == NULL) press->packer = press->zstd_packer_create();
    if (press->id == PRESS_ZSTD && press->packer != NULL) {
        size = press->zstd_compress(press->packer, out, room, bytes.data, bytes.size, ZSTD_LEVEL);
        if (press->zstd_is_error(size)) size = 0;
    }
    return size <= room ? size : 0;
}

size_t press_pack(press *press, span bytes, void *out) {
    MR_ASSERT(bytes.size <= PRESS_SIZE_MAX);
    uint8_t *at = out;
    uint32_t original = (uint32_t)bytes.size;
    size_t size = bytes.size > 1 ? compress(press, bytes, at + PRESS_HEAD) : 0;
    memset(at, 0, PRESS_HEAD);
    memcpy(at + 4, &original, sizeof original);
    at[0] = (uint8_t)(size > 0 ? press->id : PRESS_STORED);
    if (size > 0 || bytes.size == 0) return PRESS_HEAD + size;
    memcpy(at + PRESS_HEAD, bytes.data, bytes.size);
    return PRESS_HEAD + bytes.size;
}

mr_status press_size(span message, size_t limit, size_t *out) {
    reader reader = reader_of(message.data, message.size);
    uint32_t head = reader_u32(&reader), size = reader_u32(&reader);
    if (reader.failed || head >= PRESS_IDS) return error_set(MR_CORRUPT, "malformed compression %u", head);
    if (size > limit || size > PRESS_SIZE_MAX)
        return error_set(MR_TOO_LARGE, "compressed data of %u bytes when unpacked: the limit is %zu", size, limit);
    *out = size;
    return MR_OK;
}

mr_status press_unpack(press *press, span message, void *out, size_t size) {
    size_t original = 0, done = SIZE_MAX;
    MR_TRY(press_size(message, size, &original));
    span body = span_of(message.data + PRESS_HEAD, message.size - PRESS_HEAD);
    press_id id = message.data[0];
    if (id != PRESS_STORED && id != press->id)
        return error_set(MR_INVALID, "compression %d, where %d is expected", (int)id, (int)press->id);
    if (id == PRESS_STORED && body.size == size) {
        if (size > 0) memcpy(out, body.data, size);
        done = size;
    } else if (id == PRESS_LZ4 && body.size <= PRESS_SIZE_MAX) {
        int code = press->lz4_decompress((const char *)body.data, out, (int)body.size, (int)size);
        if (code >= 0) done = (size_t)code;
    } else if (id == PRESS_ZSTD) {
        if (press->unpacker == NULL) press->unpacker = press->zstd_unpacker_create();
        if (press->unpacker == NULL) return error_set(MR_NOMEM, "out of memory for zstd to unpack %zu bytes", size);
        done = press->zstd_decompress(press->unpacker, out, size, body.data, body.size);
    }
    if (original != size || done != size) return error_set(MR_CORRUPT, "%zu bytes do not unpack", body.size);
    return MR_OK;
}
