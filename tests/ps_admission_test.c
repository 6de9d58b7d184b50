/* ps_admission_test.c — a table is created while a server without its compression library joins: the server has
 * registered, and the table's creator cannot have seen it yet. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "kv/codec/compress.h"
#include "kv/control/control_wire.h"
#include "kv/control/id_allocator.h"
#include "kv/van.h"
#include "tests/support/ps_fixture.h"

enum { TOKEN = 77, NONE = UINT32_MAX };

typedef struct newcomer { /* a server up to its registration */
    van *van;
    uint64_t number; /* NONE: no answer yet */
} newcomer;

static void take(void *context, link_id link, span bytes, shared_bytes *shared) {
    newcomer *newcomer = context;
    control_message message;
    if (control_message_decode(bytes, &message) == MR_OK && message.kind == CONTROL_SEATED && message.stamp.id == TOKEN)
        newcomer->number = message.stamp.view;
}

static int64_t next_us(void *context) { return CLOCK_NEVER_US; }

static const van_host host = {.take = take, .next_us = next_us};

static void enter(newcomer *newcomer, const ps_fixture *fixture, uint32_t compressors) {
    newcomer->number = NONE;
    assert_int_equal(van_open(&(van_options){.scheduler = fixture->address}, &host, newcomer, &newcomer->van), MR_OK);
    van_send_value(newcomer->van, fixture->address, CONTROL_REGISTER, (stamp){CONTROL_SERVER, TOKEN, 0},
                   span_of(&compressors, sizeof compressors));
    int64_t until_us = van_now_us(newcomer->van) + PS_FIXTURE_PATIENCE_US;
    while (newcomer->number == NONE && van_now_us(newcomer->van) < until_us)
        event_loop_run_once(van_loop(newcomer->van), 10000);
    assert_true(newcomer->number < ID_ALLOCATOR_MAX);
}

static mr_status create(mr_ps *ps, const char *name, const char *compression) {
    mr_ps_table *table;
    mr_status status =
        mr_ps_table_create(ps, name, &MR_OPTIONS(mr_ps_table_options, .dim = 64, .compression = compression),
                           PS_FIXTURE_PATIENCE_US, &table);
    if (status == MR_OK) mr_ps_table_free(table);
    return status;
}

static void a_server_that_has_just_registered_counts(void **state) {
    ps_fixture fixture = {.servers = 1, .workers = 1, .slots = 2, .copies = 1, .consistency = MR_PS_ASP};
    newcomer newcomer;
    char expected[64];
    mr_ps *ps;
    if ((compressor_available() & UINT32_C(1) << COMPRESSOR_ZSTD) == 0) skip(); /* this machine has no libzstd */
    assert_true(ps_fixture_init(&fixture));
    assert_true(ps_fixture_start_scheduler(&fixture));
    ps_fixture_start_server(&fixture, 0);
    fixture.workers = 0; /* this process is the worker */
    assert_int_equal(mr_ps_connect(fixture.address, 0, PS_FIXTURE_PATIENCE_US, &ps), MR_OK);
    assert_int_equal(create(ps, "before", "none"), MR_OK);
    enter(&newcomer, &fixture, UINT32_C(1) << COMPRESSOR_STORED);
    assert_int_equal(create(ps, "packed", "zstd"), MR_NOT_FOUND);
    snprintf(expected, sizeof expected, "server %llu cannot load libzstd.so.1", (unsigned long long)newcomer.number);
    assert_non_null(strstr(mr_last_error(), expected));
    assert_int_equal(create(ps, "plain", "none"), MR_OK);
    van_close(newcomer.van);
    mr_ps_close(ps);
    assert_true(ps_fixture_fini(&fixture));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_server_that_has_just_registered_counts)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
