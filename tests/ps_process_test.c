/* ps_process_test.c — the parameter server as processes: whichever process dies, the weights at the end have the bits
 * of plain sums in one process. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/support/ps_fixture.h"

static void train_undisturbed(ps_fixture fixture) {
    assert_true(ps_fixture_init(&fixture));
    assert_true(ps_fixture_start(&fixture));
    assert_true(ps_fixture_trained(&fixture));
    assert_true(ps_fixture_fini(&fixture));
}

static void one_and_one(void **state) {
    train_undisturbed(
        (ps_fixture){.servers = 1, .workers = 1, .slots = 1, .copies = 1, .steps = 20, .consistency = MR_PS_BSP});
}

static void four_workers_three_servers(void **state) {
    train_undisturbed(
        (ps_fixture){.servers = 3, .workers = 4, .slots = 8, .copies = 2, .steps = 20, .consistency = MR_PS_BSP});
}

static void four_workers_three_servers_by_tcp(void **state) {
    train_undisturbed((ps_fixture){
        .tcp = true, .servers = 3, .workers = 4, .slots = 8, .copies = 2, .steps = 20, .consistency = MR_PS_BSP});
}

static void no_rank_is_counted_twice_in_ssp(void **state) {
    train_undisturbed(
        (ps_fixture){.servers = 2, .workers = 3, .slots = 4, .copies = 2, .steps = 40, .consistency = MR_PS_SSP});
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_and_one),
        cmocka_unit_test(four_workers_three_servers),
        cmocka_unit_test(four_workers_three_servers_by_tcp),
        cmocka_unit_test(no_rank_is_counted_twice_in_ssp),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
