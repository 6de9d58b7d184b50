/* hmac_test.c — HMAC-SHA-256 against the vectors of RFC 4231. */
#include "net/socket/hmac.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/failpoint.h"

static span text(const char *text) { return span_of(text, strlen(text)); }

static void vectors_of_rfc_4231(void **state) {
    static const uint8_t ofs[20] = {0x0b, 0x0b, 0x0b, 0x0b, 0x0b, 0x0b, 0x0b, 0x0b, 0x0b, 0x0b,
                                    0x0b, 0x0b, 0x0b, 0x0b, 0x0b, 0x0b, 0x0b, 0x0b, 0x0b, 0x0b};
    static const uint8_t first[HMAC_SIZE] = {0xb0, 0x34, 0x4c, 0x61, 0xd8, 0xdb, 0x38, 0x53, 0x5c, 0xa8, 0xaf,
                                             0xce, 0xaf, 0x0b, 0xf1, 0x2b, 0x88, 0x1d, 0xc2, 0x00, 0xc9, 0x83,
                                             0x3d, 0xa7, 0x26, 0xe9, 0x37, 0x6c, 0x2e, 0x32, 0xcf, 0xf7};
    static const uint8_t second[HMAC_SIZE] = {0x5b, 0xdc, 0xc1, 0x46, 0xbf, 0x60, 0x75, 0x4e, 0x6a, 0x04, 0x24,
                                              0x26, 0x08, 0x95, 0x75, 0xc7, 0x5a, 0x00, 0x3f, 0x08, 0x9d, 0x27,
                                              0x39, 0x83, 0x9d, 0xec, 0x58, 0xb9, 0x64, 0xec, 0x38, 0x43};
    hmac *hmac;
    uint8_t out[HMAC_SIZE];
    assert_int_equal(hmac_open(&hmac), MR_OK);
    assert_int_equal(hmac_sign(hmac, span_of(ofs, sizeof ofs), text("Hi There"), out), MR_OK);
    assert_memory_equal(out, first, sizeof out);
    assert_int_equal(hmac_sign(hmac, text("Jefe"), text("what do ya want for nothing?"), out), MR_OK);
    assert_memory_equal(out, second, sizeof out);
    assert_true(hmac_is_equal(hmac, out, second));
    for (size_t i = 0; i < sizeof out; i++) {
        out[i] ^= 1;
        assert_false(hmac_is_equal(hmac, out, second));
        out[i] ^= 1;
    }
    hmac_close(hmac);
}

#ifdef MR_FAILPOINTS
static void a_machine_without_openssl_is_named(void **state) {
    hmac *hmac;
    assert_int_equal(failpoint_arm("hmac.load=error"), MR_OK);
    assert_int_equal(hmac_open(&hmac), MR_NOT_FOUND);
    assert_non_null(strstr(mr_last_error(), "libcrypto.so.3"));
    assert_non_null(strstr(mr_last_error(), "install OpenSSL"));
}
#endif

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(vectors_of_rfc_4231),
#ifdef MR_FAILPOINTS
        cmocka_unit_test(a_machine_without_openssl_is_named),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
