/* chart_test.c — charts come back as they went; what cannot be one is refused. */
#include "ps/chart.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"

static void fill(chart *chart) {
    *chart = (struct chart){.number = 9, .generation = 5, .birth = 2, .copies = 2, .rank_count = 3, .slot_count = 2};
    chart->consistency = (consistency){CONSISTENCY_SSP, 4};
    chart->slots = xcalloc(2, sizeof *chart->slots);
    chart->slots[0] = (chart_slot){.epoch = 9, .count = 2, .chain = {{1, 11, 2}, {7, 17, 9}}};
    chart->slots[1] = (chart_slot){.epoch = 2};
    chart_put_server(chart, 7, 17, "seven");
    chart_put_server(chart, 1, 10, "one");
    chart_put_server(chart, 1, 11, "uno"); /* came back */
}

static span encode(const chart *chart, uint8_t **bytes) {
    size_t size = chart_size(chart);
    *bytes = xmalloc(size);
    writer writer = writer_of(*bytes, size);
    chart_encode(chart, &writer);
    assert_true(!writer.failed && writer_size(&writer) == size);
    return span_of(*bytes, size);
}

static void charts_come_back_as_they_went(void **state) {
    chart chart, again = {0}, copy = {0};
    uint8_t *bytes;
    fill(&chart);
    span all = encode(&chart, &bytes);
    assert_int_equal(chart_decode(all, &again), MR_OK);
    assert_true(again.number == 9 && again.generation == 5 && again.birth == 2 && again.copies == 2);
    assert_true(again.consistency.kind == CONSISTENCY_SSP && again.consistency.bound == 4 && again.rank_count == 3);
    assert_memory_equal(again.slots, chart.slots, 2 * sizeof *chart.slots);
    assert_int_equal(again.server_count, 2);
    assert_string_equal(chart_find(&again, 1)->address, "uno");
    assert_true(chart_find(&again, 7)->incarnation == 17 && chart_find(&again, 2) == NULL);
    assert_int_equal(chart_place(&again.slots[0], 7, 17), 1);
    assert_int_equal(chart_place(&again.slots[0], 7, 18), -1);
    chart_copy(&copy, &again);
    assert_memory_equal(copy.slots, chart.slots, 2 * sizeof *chart.slots);
    chart_fini(&copy);
    chart_fini(&again);
    chart_fini(&chart);
    free(bytes);
}

static void what_is_cut_or_longer_is_refused(void **state) {
    chart chart, out = {0};
    uint8_t *bytes;
    fill(&chart);
    span all = encode(&chart, &bytes);
    for (size_t cut = 0; cut < all.size; cut++) {
        uint8_t *copy = xmalloc(cut + 1);
        memcpy(copy, bytes, cut);
        assert_int_equal(chart_decode(span_of(copy, cut), &out), MR_CORRUPT);
        free(copy);
    }
    uint8_t *longer = xcalloc(1, all.size + 1);
    memcpy(longer, bytes, all.size);
    assert_int_equal(chart_decode(span_of(longer, all.size + 1), &out), MR_CORRUPT);
    assert_int_equal(out.number, 0);
    free(longer);
    chart_fini(&chart);
    free(bytes);
}

static void a_server_is_in_a_chain_once(void **state) {
    chart chart, out = {0};
    uint8_t *bytes;
    fill(&chart);
    chart.slots[0].chain[1].server = 1;
    assert_int_equal(chart_decode(encode(&chart, &bytes), &out), MR_CORRUPT);
    chart_fini(&chart);
    free(bytes);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(charts_come_back_as_they_went),
        cmocka_unit_test(what_is_cut_or_longer_is_refused),
        cmocka_unit_test(a_server_is_in_a_chain_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
