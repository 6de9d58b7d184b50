/* address_test.c — valid and invalid addresses. */
#include "net/socket/address.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void a_parsed_address_prints_the_same(void **state) {
    static const struct {
        const char *text;
        bool local;
    } cases[] = {
        {"tcp:127.0.0.1:0", true},  {"tcp:127.3.4.5:65535", true},  {"tcp:[::1]:7000", true},
        {"tcp:10.0.0.1:80", false}, {"tcp:[2001:db8::7]:1", false}, {"tcp:0.0.0.0:0", false},
        {"tcp:[::]:0", false},      {"unix:/run/miniray", true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        address address;
        char text[ADDRESS_TEXT_MAX];
        assert_int_equal(address_parse(cases[i].text, &address), MR_OK);
        address_format(&address, text);
        assert_string_equal(text, cases[i].text);
        assert_int_equal(address_is_local(&address), cases[i].local);
        assert_int_equal(address_is_unix(&address), cases[i].text[0] == 'u');
    }
}

static void an_ipv4_address_has_one_form(void **state) {
    address address, same;
    char text[ADDRESS_TEXT_MAX];
    assert_int_equal(address_parse("tcp:[::ffff:127.0.0.1]:9", &address), MR_OK);
    assert_int_equal(address_parse("tcp:127.0.0.1:9", &same), MR_OK);
    address_format(&address, text);
    assert_string_equal(text, "tcp:127.0.0.1:9");
    assert_int_equal(address.size, same.size);
    assert_memory_equal(&address.any, &same.any, same.size);
    assert_int_equal(address_parse("tcp:[::ffff:8.8.8.8]:9", &address), MR_OK);
    assert_false(address_is_local(&address));
}

static void malformed_addresses_are_refused(void **state) {
    static const char *const texts[] = {
        "",
        "tcp",
        "tcp:",
        "tcp:127.0.0.1",
        "tcp:127.0.0.1:",
        "tcp:127.0.0.1:65536",
        "tcp:127.0.0.1:-1",
        "tcp:127.0.0.1: 1",
        "tcp:127.0.0.1:1x",
        "tcp:127.0.0.1:000001",
        "tcp:localhost:1",
        "tcp::1",
        "tcp:::1:80",
        "tcp:[::1]",
        "tcp:[::1]80",
        "tcp:[::1:80",
        "tcp:[127.0.0.1]:80",
        "tcp:[fe80::1%eth0]:80",
        "tcp:[11111111111111111111111111111111111111111111111111111111111111111]:80",
        "udp:127.0.0.1:1",
        "shm:me",
        "unix:",
        "unix:relative",
        "unix:@abstract",
    };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        address address = {.size = 77};
        assert_int_equal(address_parse(texts[i], &address), MR_INVALID);
        assert_int_equal(address.size, 77);
        assert_non_null(strstr(mr_last_error(), "is not an address"));
    }
}

static void the_longest_path_fits(void **state) {
    char text[200] = "unix:/", back[ADDRESS_TEXT_MAX];
    memset(text + 6, 'x', 106);
    address address;
    assert_int_equal(address_parse(text, &address), MR_OK);
    address_format(&address, back);
    assert_string_equal(back, text);
    text[6 + 106] = 'x';
    assert_int_equal(address_parse(text, &address), MR_INVALID);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_parsed_address_prints_the_same),
        cmocka_unit_test(an_ipv4_address_has_one_form),
        cmocka_unit_test(malformed_addresses_are_refused),
        cmocka_unit_test(the_longest_path_fits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
