/* chart_test.c — charts come back as they went; what cannot be one is refused. */
#include "ps/chart.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/rng.h"
#include "cluster/keeper.h"

static void fill(chart *chart) {
    *chart = (struct chart){.number = 9,
                            .generation = 5,
                            .birth = 2,
                            .origin = 1,
                            .lost = true,
                            .copies = 2,
                            .rank_count = 3,
                            .slot_count = 2};
    chart->consistency = (consistency){CONSISTENCY_SSP, 4};
    chart->rounds = (chart_rounds){2, 1, 1000};
    chart->slots = xcalloc(2, sizeof *chart->slots);
    chart->slots[0] = (chart_slot){.epoch = 9, .count = 2, .chain = {{1, 11, 2}, {7, 17, 9}}};
    chart->slots[1] = (chart_slot){.epoch = 2, .home = 8, .more = 1};
    chart_put_server(chart, 7, 17, "seven");
    chart_put_server(chart, 1, 10, "one");
    chart_put_server(chart, 1, 11, "uno"); /* came back */
    chart_put_player(chart, 0, 3, 12);
    chart_put_player(chart, 2, 5, 15);
    chart->players[2].since = 4;
}

static span encode(const chart *chart, uint64_t base, uint8_t **bytes) {
    size_t size = chart_size(chart, base);
    *bytes = xmalloc(size);
    writer writer = writer_of(*bytes, size);
    chart_encode(chart, base, &writer);
    assert_true(!writer.failed && writer_size(&writer) == size);
    return span_of(*bytes, size);
}

static void charts_come_back_as_they_went(void **state) {
    chart chart, again = {0}, copy = {0};
    uint8_t *bytes;
    fill(&chart);
    span all = encode(&chart, 0, &bytes);
    assert_int_equal(chart_follow(&again, all), MR_OK);
    assert_true(again.number == 9 && again.generation == 5 && again.birth == 2 && again.origin == 1 &&
                again.copies == 2 && again.lost && again.first_stint == 9);
    assert_true(again.consistency.kind == CONSISTENCY_SSP && again.consistency.bound == 4 && again.rank_count == 3);
    assert_memory_equal(&again.rounds, &chart.rounds, sizeof chart.rounds);
    assert_memory_equal(again.slots, chart.slots, 2 * sizeof *chart.slots);
    assert_memory_equal(again.players, chart.players, 3 * sizeof *chart.players);
    assert_int_equal(again.server_count, 2);
    assert_string_equal(chart_find(&again, 1)->address, "uno");
    assert_true(chart_find(&again, 7)->incarnation == 17 && chart_find(&again, 2) == NULL);
    assert_int_equal(chart_place(&again.slots[0], 7, 17), 1);
    assert_int_equal(chart_place(&again.slots[0], 7, 18), -1);
    chart_copy(&copy, &again);
    assert_memory_equal(copy.slots, chart.slots, 2 * sizeof *chart.slots);
    assert_memory_equal(copy.players, chart.players, 3 * sizeof *chart.players);
    chart_fini(&copy);
    chart_fini(&again);
    chart_fini(&chart);
    free(bytes);
}

/* The first half of the slots has rounds, and the last is their ledger. */
static void slots_with_rounds_beside_others(void **state) {
    chart chart = {.consistency = {CONSISTENCY_SSP, 3}, .mixed = true, .slot_count = 7};
    assert_true(chart_ledger(&chart) == 6 && chart_value_slots(&chart) == 6 && chart_table_slots(&chart) == 3);
    assert_true(chart_first(&chart, true) == 0 && chart_first(&chart, false) == 3);
    for (uint32_t i = 0; i < 7; i++) {
        assert_int_equal(chart_in_rounds(&chart, i), i < 3 || i == 6);
        assert_int_equal(chart_consistency(&chart, i).kind, i < 3 || i == 6 ? CONSISTENCY_BSP : CONSISTENCY_SSP);
    }
    assert_int_equal(chart_consistency(&chart, 3).bound, 3);
    chart.consistency.kind = CONSISTENCY_BSP; /* of tables that name none: others wait for nobody */
    assert_int_equal(chart_consistency(&chart, 3).kind, CONSISTENCY_ASP);
    chart.mixed = false;
    assert_true(chart_table_slots(&chart) == 6 && chart_in_rounds(&chart, 5) && chart_first(&chart, true) == 0);
    chart.consistency.kind = CONSISTENCY_ASP;
    assert_true(chart_table_slots(&chart) == 7 && !chart_in_rounds(&chart, 6) && chart_ledger(&chart) == NO_LEDGER);
}

static void a_mixed_chart_has_two_halves_and_a_ledger(void **state) {
    for (uint32_t slots = 1; slots < 6; slots++) {
        chart chart, again = {0};
        uint8_t *bytes;
        fill(&chart);
        chart.mixed = true;
        chart.slot_count = slots;
        chart.slots = xrealloc(chart.slots, slots * sizeof *chart.slots);
        for (uint32_t i = 0; i < slots; i++) chart.slots[i] = (chart_slot){.epoch = 2};
        mr_status status = chart_follow(&again, encode(&chart, 0, &bytes));
        assert_int_equal(status, slots == 3 || slots == 5 ? MR_OK : MR_CORRUPT);
        assert_true(status != MR_OK || again.mixed);
        free(bytes);
        chart.mixed = false; /* it stays what it is while the generation lasts */
        chart.number++;
        if (status == MR_OK) assert_int_equal(chart_follow(&again, encode(&chart, 0, &bytes)), MR_STALE);
        if (status == MR_OK) free(bytes);
        chart_fini(&chart);
        chart_fini(&again);
    }
}

static void what_is_cut_or_longer_is_refused(void **state) {
    chart chart, out = {0};
    uint8_t *bytes;
    fill(&chart);
    span all = encode(&chart, 0, &bytes);
    for (size_t cut = 0; cut < all.size; cut++) {
        uint8_t *copy = xmalloc(cut + 1);
        memcpy(copy, bytes, cut);
        assert_int_equal(chart_follow(&out, span_of(copy, cut)), MR_CORRUPT);
        free(copy);
    }
    uint8_t *longer = xcalloc(1, all.size + 1);
    memcpy(longer, bytes, all.size);
    assert_int_equal(chart_follow(&out, span_of(longer, all.size + 1)), MR_CORRUPT);
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
    assert_int_equal(chart_follow(&out, encode(&chart, 0, &bytes)), MR_CORRUPT);
    chart_fini(&chart);
    free(bytes);
}

/* The chart behind it: slot 0 has lost a member, a server is new, and a rank is played by another. */
static void go_on(chart *chart) {
    chart->number = 10;
    chart->slots[0] = (chart_slot){.epoch = 10, .count = 1, .chain = {{7, 17, 9}}};
    chart_put_server(chart, 4, 24, "four");
    chart_put_player(chart, 1, 3, 12);
}

static void assert_same(const chart *a, const chart *b) {
    uint8_t *x, *y;
    span whole = encode(a, 0, &x), other = encode(b, 0, &y);
    assert_int_equal(whole.size, other.size);
    assert_memory_equal(x, y, whole.size);
    free(x);
    free(y);
}

static void who_has_the_chart_before_is_told_what_changed(void **state) {
    chart chart, known = {0}, older = {0};
    uint8_t *bytes;
    fill(&chart);
    chart_copy(&known, &chart);
    chart_copy(&older, &chart);
    go_on(&chart);
    span news = encode(&chart, 9, &bytes);
    assert_true(news.size < chart_size(&chart, 0) / 2 + 47);
    assert_int_equal(chart_follow(&known, news), MR_OK);
    assert_same(&known, &chart);
    assert_int_equal(chart_follow(&known, news), MR_STALE); /* it is no newer one */
    older.number = 8;
    assert_int_equal(chart_follow(&older, news), MR_STALE); /* it tells too little */
    free(bytes);
    span more = encode(&chart, 7, &bytes); /* and more than enough is as good */
    assert_int_equal(chart_follow(&older, more), MR_OK);
    assert_same(&older, &chart);
    free(bytes);
    chart_fini(&chart);
    chart_fini(&known);
    chart_fini(&older);
}

static void another_generation_is_followed_as_a_whole(void **state) {
    chart chart, known = {0}, none = {0};
    uint8_t *bytes;
    fill(&chart);
    chart_copy(&known, &chart);
    go_on(&chart);
    chart.generation++;
    assert_int_equal(chart_follow(&known, encode(&chart, 9, &bytes)), MR_STALE); /* what changed says nothing */
    free(bytes);
    assert_int_equal(chart_follow(&known, encode(&chart, 0, &bytes)), MR_OK);
    assert_same(&known, &chart);
    free(bytes);
    chart.generation--;
    assert_int_equal(chart_follow(&known, encode(&chart, 0, &bytes)), MR_STALE); /* and there is no way back */
    free(bytes);
    assert_int_equal(chart_follow(&none, encode(&chart, 9, &bytes)), MR_STALE); /* of what? */
    assert_int_equal(none.number, 0);
    free(bytes);
    chart_fini(&chart);
    chart_fini(&known);
}

static void news_that_are_cut_change_nothing(void **state) {
    chart chart, known = {0}, before = {0};
    uint8_t *bytes;
    fill(&chart);
    chart_copy(&known, &chart);
    chart_copy(&before, &chart);
    go_on(&chart);
    span news = encode(&chart, 9, &bytes);
    for (size_t cut = 0; cut < news.size; cut++) {
        assert_int_equal(chart_follow(&known, span_of(bytes, cut)), MR_CORRUPT);
        assert_same(&known, &before);
    }
    free(bytes);
    chart_fini(&chart);
    chart_fini(&known);
    chart_fini(&before);
}

/* What the coordinator takes of one value, at 1,000 servers and 4,000 ranks that came and went for a long time. */
static void a_large_one_fits_the_coordinator(void **state) {
    enum { SERVERS = 1000, SLOTS = 2048, RANKS = 4000, COPIES = 3 };
    const uint64_t generation = UINT64_C(3) << COORDINATOR_COUNT_BITS;
    rng rng;
    rng_init(&rng, 1);
    chart chart = {.number = generation + 100000, .generation = 5, .birth = generation + 1, .copies = COPIES};
    chart.rank_count = RANKS;
    chart.slot_count = SLOTS;
    chart.slots = xcalloc(SLOTS, sizeof *chart.slots);
    for (uint32_t i = 0; i < SERVERS; i++) {
        char address[PART_ADDRESS_MAX];
        snprintf(address, sizeof address, "192.168.%u.%u:%u", i / 256, i % 256, 40000 + i);
        chart_put_server(&chart, i, generation + rng_below(&rng, 200000), address);
        chart.servers[i].since = generation + 1 + rng_below(&rng, 100000);
    }
    for (uint32_t i = 0; i < SLOTS; i++) {
        chart.slots[i] = (chart_slot){.epoch = generation + 1 + rng_below(&rng, 100000), .count = COPIES};
        chart.slots[i].home = 1 + i % SERVERS;
        for (uint32_t k = 0; k < COPIES; k++)
            chart.slots[i].chain[k] = (chart_member){(i + 7 * k) % SERVERS, generation + rng_below(&rng, 200000),
                                                     generation + 1 + rng_below(&rng, 100000)};
    }
    for (uint32_t i = 0; i < RANKS; i++) {
        chart_put_player(&chart, i, (i * 13) % RANKS, generation + rng_below(&rng, 200000));
        chart.players[i].since = generation + 1 + rng_below(&rng, 100000);
    }
    uint8_t *bytes;
    span all = encode(&chart, 0, &bytes);
    print_message("%zu of %d bytes\n", all.size, KEEPER_VALUE_MAX);
    assert_true(all.size <= KEEPER_VALUE_MAX);
    struct chart again = {0};
    assert_int_equal(chart_follow(&again, all), MR_OK);
    assert_same(&again, &chart);
    free(bytes);
    chart_fini(&again);
    chart_fini(&chart);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(charts_come_back_as_they_went),
        cmocka_unit_test(slots_with_rounds_beside_others),
        cmocka_unit_test(a_mixed_chart_has_two_halves_and_a_ledger),
        cmocka_unit_test(what_is_cut_or_longer_is_refused),
        cmocka_unit_test(a_server_is_in_a_chain_once),
        cmocka_unit_test(who_has_the_chart_before_is_told_what_changed),
        cmocka_unit_test(another_generation_is_followed_as_a_whole),
        cmocka_unit_test(news_that_are_cut_change_nothing),
        cmocka_unit_test(a_large_one_fits_the_coordinator),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
