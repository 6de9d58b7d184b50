/* barrier_server_test.c — a round opens when all ranks have arrived; a replaying rank passes again; a new
 * generation. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "kv/control/barrier_server.h"

enum { RANKS = 3, GENERATION = 77 };

static barrier_server begin(bool rounds) {
    barrier_server server;
    barrier_server_init(&server, RANKS, rounds);
    barrier_server_begin(&server, GENERATION);
    for (uint32_t i = 0; i < RANKS; i++) barrier_server_resume(&server, i, GENERATION, 0);
    return server;
}

static mr_status come(barrier_server *server, uint32_t rank, uint64_t place) {
    bool opens;
    return barrier_server_come(server, rank, "b", false, place, &opens);
}

static void a_round_opens_when_all_have_come(void **state) {
    barrier_server server = begin(false);
    uint32_t missing[RANKS];
    bool opens;
    assert_int_equal(come(&server, 1, barrier_server_place(4, true, 1)), MR_BUSY);
    assert_int_equal(come(&server, 1, barrier_server_place(4, true, 1)), MR_BUSY);
    assert_int_equal(barrier_server_missing(&server, "b", false, missing, RANKS), 2);
    assert_true(missing[0] == 0 && missing[1] == 2);
    assert_int_equal(barrier_server_missing(&server, "b", false, missing, 1), 2);
    /* the early barrier is a separate one */
    assert_int_equal(barrier_server_missing(&server, "b", true, missing, 1), 0);
    /* outside BSP ranks are at different steps */
    assert_int_equal(come(&server, 0, barrier_server_place(9, true, 1)), MR_BUSY);
    assert_int_equal(barrier_server_come(&server, 2, "b", false, barrier_server_place(2, false, 1), &opens), MR_OK);
    assert_true(opens);
    for (uint32_t i = 0; i < 2; i++) assert_int_equal(come(&server, i, barrier_server_place(4, true, 1)), MR_OK);
    assert_int_equal(come(&server, 1, barrier_server_place(4, true, 2)), MR_BUSY);
    assert_int_equal(come(&server, 0, barrier_server_place(9, true, 1)), MR_OK); /* replayed */
    assert_int_equal(come(&server, 0, barrier_server_place(9, true, 2)), MR_BUSY);
    assert_int_equal(barrier_server_come(&server, 3, "b", false, 1, &opens), MR_INVALID);
    barrier_server_fini(&server);
}

static void in_rounds_who_goes_on_behind_it_has_passed(void **state) {
    barrier_server server = begin(true);
    assert_int_equal(come(&server, 0, barrier_server_place(5, false, 1)), MR_BUSY);
    barrier_server_resume(&server, 1, GENERATION, 4);
    /* a rank arrives at the barrier with the end of step 4 */
    assert_int_equal(come(&server, 2, barrier_server_place(5, false, 1)), MR_BUSY);
    barrier_server_resume(&server, 1, GENERATION, 5);
    assert_int_equal(come(&server, 2, barrier_server_place(5, false, 1)), MR_OK);
    /* within the step the rank must arrive */
    assert_int_equal(come(&server, 0, barrier_server_place(5, true, 1)), MR_BUSY);
    assert_int_equal(come(&server, 2, barrier_server_place(5, true, 1)), MR_BUSY);
    assert_int_equal(come(&server, 1, barrier_server_place(5, true, 1)), MR_OK);
    barrier_server_fini(&server);
    server = begin(false); /* outside BSP the rank's position is unknown */
    assert_int_equal(come(&server, 0, barrier_server_place(5, false, 1)), MR_BUSY);
    assert_int_equal(come(&server, 2, barrier_server_place(5, false, 1)), MR_BUSY);
    barrier_server_resume(&server, 1, GENERATION, 5);
    assert_int_equal(come(&server, 2, barrier_server_place(5, false, 1)), MR_BUSY);
    barrier_server_fini(&server);
}

static void another_generation_comes_again(void **state) {
    barrier_server server = begin(true);
    uint64_t early = barrier_server_place(3, true, 1), late = barrier_server_place(8, true, 1);
    bool opens;
    for (uint32_t i = 0; i < RANKS; i++) (void)come(&server, i, early);
    for (uint32_t i = 0; i < RANKS; i++) (void)come(&server, i, late);
    for (uint32_t i = 0; i < RANKS; i++)
        assert_int_equal(barrier_server_come(&server, i, "b", true, 1, &opens), i + 1 < RANKS ? MR_BUSY : MR_OK);
    assert_int_equal(come(&server, 0, barrier_server_place(9, true, 1)), MR_BUSY);
    barrier_server_begin(&server, GENERATION + 1);
    assert_int_equal(come(&server, 0, late), MR_INVALID); /* the rank has not resumed in the new generation */
    barrier_server_resume(&server, 0, GENERATION, 0);
    assert_int_equal(come(&server, 0, late), MR_INVALID);
    for (uint32_t i = 0; i < RANKS; i++) barrier_server_resume(&server, i, GENERATION + 1, 6);
    assert_int_equal(come(&server, 0, early), MR_OK);
    assert_int_equal(come(&server, 0, late), MR_BUSY);
    barrier_server_resume(&server, 0, GENERATION + 1, 6); /* repeated: no effect */
    assert_int_equal(come(&server, 1, late), MR_BUSY);
    assert_int_equal(come(&server, 2, late), MR_OK);
    /* before any step: passed permanently */
    assert_int_equal(barrier_server_come(&server, 2, "b", true, 1, &opens), MR_OK);
    barrier_server_fini(&server);
}

static void an_opened_barrier_is_remembered(void **state) {
    barrier_server server = begin(true), other;
    for (uint32_t i = 0; i < RANKS; i++) (void)come(&server, i, barrier_server_place(3, true, 1));
    (void)come(&server, 0, barrier_server_place(4, true, 1));
    size_t size = barrier_server_size(&server);
    uint8_t *bytes = xmalloc(size);
    writer writer = writer_of(bytes, size);
    barrier_server_encode(&server, &writer);
    assert_true(!writer.failed && writer_size(&writer) == size);
    barrier_server_init(&other, RANKS, true);
    for (size_t cut = 0; cut < size; cut++)
        assert_int_equal(barrier_server_decode(span_of(bytes, cut), &other), MR_CORRUPT);
    assert_int_equal(barrier_server_decode(span_of(bytes, size), &other), MR_OK);
    barrier_server_begin(&other, GENERATION);
    for (uint32_t i = 0; i < RANKS; i++) assert_int_equal(come(&other, i, barrier_server_place(3, true, 1)), MR_OK);
    assert_int_equal(come(&other, 1, barrier_server_place(4, true, 1)), MR_BUSY);
    assert_int_equal(come(&other, 2, barrier_server_place(4, true, 1)), MR_BUSY); /* rank 0 must arrive again */
    barrier_server_fini(&other);
    barrier_server_init(&other, RANKS + 1, true);
    assert_int_equal(barrier_server_decode(span_of(bytes, size), &other), MR_CORRUPT);
    barrier_server_fini(&other);
    barrier_server_fini(&server);
    free(bytes);
}

static void the_oldest_is_forgotten_first(void **state) {
    barrier_server server = begin(false);
    char name[16];
    bool opens;
    for (int k = 0; k < 3 * BARRIER_SERVER_MAX; k++) {
        snprintf(name, sizeof name, "b%d", k);
        for (uint32_t i = 0; i < RANKS; i++)
            assert_int_equal(barrier_server_come(&server, i, name, false, 1, &opens), i + 1 < RANKS ? MR_BUSY : MR_OK);
        assert_true(opens && server.count <= BARRIER_SERVER_MAX);
    }
    for (int k = 0; k < BARRIER_SERVER_MAX; k++) {
        snprintf(name, sizeof name, "wait%d", k);
        assert_int_equal(barrier_server_come(&server, 0, name, false, 1, &opens), MR_BUSY);
    }
    assert_int_equal(barrier_server_come(&server, 0, "one more", false, 1, &opens), MR_TOO_LARGE);
    barrier_server_fini(&server);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_round_opens_when_all_have_come),
        cmocka_unit_test(in_rounds_who_goes_on_behind_it_has_passed),
        cmocka_unit_test(another_generation_comes_again),
        cmocka_unit_test(an_opened_barrier_is_remembered),
        cmocka_unit_test(the_oldest_is_forgotten_first),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
