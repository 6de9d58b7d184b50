/* hmac.c — see hmac.h. The functions of OpenSSL that are used are declared here; they are unchanged since version
 * 1.1.0. */
#include "net/socket/hmac.h"

#include <dlfcn.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"
#include "base/failpoint.h"

struct hmac {
    void *library;
    const void *(*sha256)(void); /* EVP_sha256 */
    uint8_t *(*sign)(const void *digest, const void *key, int key_size, const uint8_t *message, size_t message_size,
                     uint8_t *out, unsigned *out_size);        /* HMAC */
    int (*compare)(const void *a, const void *b, size_t size); /* CRYPTO_memcmp; 0: equal */
};

/* Looks up a function of the library and stores it at `out`. False: not found. */
static bool find(const hmac *hmac, const char *name, void *out) {
    *(void **)out = dlsym(hmac->library, name);
    return *(void **)out != NULL;
}

static bool load(hmac *hmac, const char *name) {
    hmac->library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (hmac->library == NULL) return false;
    if (find(hmac, "EVP_sha256", &hmac->sha256) && find(hmac, "HMAC", &hmac->sign) &&
        find(hmac, "CRYPTO_memcmp", &hmac->compare))
        return true;
    dlclose(hmac->library);
    hmac->library = NULL;
    return false;
}

mr_status hmac_open(hmac **out) {
    hmac *hmac = xcalloc(1, sizeof *hmac);
    bool missing = FAILPOINT_ERROR("hmac.load");
    if (missing || (!load(hmac, "libcrypto.so.3") && !load(hmac, "libcrypto.so.1.1"))) {
        hmac_close(hmac);
        return error_set(MR_NOT_FOUND, "cannot load libcrypto.so.3 or libcrypto.so.1.1, which tcp: addresses need: "
                                       "install OpenSSL, or use unix: addresses");
    }
    *out = hmac;
    return MR_OK;
}

void hmac_close(hmac *hmac) {
    if (hmac == NULL) return;
    if (hmac->library != NULL) dlclose(hmac->library);
    free(hmac);
}

mr_status hmac_sign(const hmac *hmac, span key, span message, uint8_t out[HMAC_SIZE]) {
    unsigned size = HMAC_SIZE;
    MR_ASSERT(key.size <= INT32_MAX);
    if (hmac->sign(hmac->sha256(), key.data, (int)key.size, message.data, message.size, out, &size) != NULL &&
        size == HMAC_SIZE)
        return MR_OK;
    return error_set(MR_IO, "OpenSSL computes no HMAC-SHA-256 of %zu bytes; check its configuration (openssl.cnf)",
                     message.size);
}

bool hmac_is_equal(const hmac *hmac, const uint8_t a[HMAC_SIZE], const uint8_t b[HMAC_SIZE]) {
    return hmac->compare(a, b, HMAC_SIZE) == 0;
}
