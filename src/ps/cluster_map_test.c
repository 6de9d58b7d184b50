/* cluster_map_test.c — encoded cluster maps decode to the same map; invalid bytes are rejected. */
#include "ps/cluster_map.h"

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
#include "cluster/metadata_db.h"

static void fill(cluster_map *map) {
    *map = (struct cluster_map){.number = 9,
                                .generation = 5,
                                .birth = 2,
                                .origin = 1,
                                .empty_since = 1,
                                .lost = true,
                                .reported = true,
                                .copies = 2,
                                .rank_count = 3,
                                .reader_count = 2,
                                .slot_count = 2};
    map->consistency = (consistency){CONSISTENCY_SSP, 4};
    map->rounds = (cluster_map_rounds){2, 1, 1000};
    map->slots = xcalloc(2, sizeof *map->slots);
    map->slots[0] = (cluster_map_slot){.epoch = 9, .count = 2, .chain = {{1, 11, 2}, {7, 17, 9}}};
    map->slots[1] = (cluster_map_slot){.epoch = 2, .home = 8, .more = 1};
    cluster_map_put_server(map, 7, 17, "seven");
    cluster_map_put_server(map, 1, 10, "one");
    cluster_map_put_server(map, 1, 11, "uno"); /* another incarnation of the server */
    cluster_map_put_rank(map, 0, 3, 12);
    cluster_map_put_rank(map, 2, 5, 15);
    map->ranks[2].since = 4;
    cluster_map_put_rank(map, 4, CLUSTER_MAP_READER + 1, 16);
}

static span encode(const cluster_map *map, uint64_t base, uint8_t **bytes) {
    size_t size = cluster_map_size(map, base);
    *bytes = xmalloc(size);
    writer writer = writer_of(*bytes, size);
    cluster_map_encode(map, base, &writer);
    assert_true(!writer.failed && writer_size(&writer) == size);
    return span_of(*bytes, size);
}

static void cluster_maps_come_back_as_they_went(void **state) {
    cluster_map map, again = {0}, copy = {0};
    uint8_t *bytes;
    fill(&map);
    span all = encode(&map, 0, &bytes);
    assert_int_equal(cluster_map_follow(&again, all), MR_OK);
    assert_true(again.number == 9 && again.generation == 5 && again.birth == 2 && again.origin == 1 &&
                again.empty_since == 1 && again.copies == 2 && again.lost && again.reported && again.first_term == 9);
    assert_true(again.consistency.kind == CONSISTENCY_SSP && again.consistency.bound == 4 && again.rank_count == 3);
    assert_memory_equal(&again.rounds, &map.rounds, sizeof map.rounds);
    assert_memory_equal(again.slots, map.slots, 2 * sizeof *map.slots);
    assert_memory_equal(again.ranks, map.ranks, 5 * sizeof *map.ranks);
    assert_true(again.reader_count == 2 && cluster_map_clients(&again) == 5);
    assert_int_equal(again.server_count, 2);
    assert_string_equal(cluster_map_find(&again, 1)->address, "uno");
    assert_true(cluster_map_find(&again, 7)->incarnation == 17 && cluster_map_find(&again, 2) == NULL);
    assert_int_equal(cluster_map_place(&again.slots[0], 7, 17), 1);
    assert_int_equal(cluster_map_place(&again.slots[0], 7, 18), -1);
    cluster_map_copy(&copy, &again);
    assert_memory_equal(copy.slots, map.slots, 2 * sizeof *map.slots);
    assert_memory_equal(copy.ranks, map.ranks, 5 * sizeof *map.ranks);
    cluster_map_fini(&copy);
    cluster_map_fini(&again);
    cluster_map_fini(&map);
    free(bytes);
}

/* Readers have the places behind the ranks, and numbers that no rank has. */
static void readers_have_places_behind_the_ranks(void **state) {
    cluster_map map = {.number = 3, .rank_count = 3, .reader_count = 2};
    assert_true(cluster_map_client(&map, 0) == 0 && cluster_map_client(&map, 2) == 2);
    assert_true(cluster_map_client(&map, 3) == CLUSTER_MAP_NO_CLIENT);
    assert_true(cluster_map_client(&map, CLUSTER_MAP_READER - 1) == CLUSTER_MAP_NO_CLIENT);
    assert_true(cluster_map_client(&map, CLUSTER_MAP_READER) == 3 &&
                cluster_map_client(&map, CLUSTER_MAP_READER + 1) == 4);
    assert_true(cluster_map_client(&map, CLUSTER_MAP_READER + 2) == CLUSTER_MAP_NO_CLIENT);
    cluster_map_put_rank(&map, 3, CLUSTER_MAP_READER, 7);
    assert_int_equal(map.first_term, 0); /* a reader has not pushed */
    cluster_map_put_rank(&map, 1, 1, 7);
    assert_int_equal(map.first_term, 3);
    cluster_map_fini(&map);
}

/* The layout before has no `reported`: a loss is reported when the first rank is assigned. It has neither readers nor
 * `empty_since`. */
static void the_layout_before_is_read(void **state) {
    enum { REPORTED_AT = 1 + 4 * 8 + 1, READERS_AT = REPORTED_AT + 1 + 2 * 8 + 1 + 1 + 4 + 1 + 5 * 4 };
    for (int assigned = 0; assigned < 2; assigned++) {
        cluster_map map, again = {0};
        uint8_t *bytes;
        fill(&map);
        map.ranks[4] = (cluster_map_rank){0};
        if (!assigned) map.first_term = map.origin = 0;
        span all = encode(&map, 0, &bytes);
        bytes[0] = CLUSTER_MAP_LAYOUT_BEFORE;
        memmove(&bytes[READERS_AT], &bytes[READERS_AT + 12], all.size - READERS_AT - 12);
        memmove(&bytes[REPORTED_AT], &bytes[REPORTED_AT + 1], all.size - REPORTED_AT - 13);
        assert_int_equal(cluster_map_follow(&again, span_of(bytes, all.size - 13)), MR_OK);
        assert_int_equal(again.reader_count, 0);
        assert_int_equal(again.empty_since, assigned ? 0 : map.birth);
        assert_true(again.lost && again.reported == (assigned == 1) && again.first_term == map.first_term);
        assert_memory_equal(again.ranks, map.ranks, 3 * sizeof *map.ranks);
        bytes[0] = CLUSTER_MAP_LAYOUT_BEFORE - 1;
        assert_int_equal(cluster_map_follow(&again, span_of(bytes, all.size - 13)), MR_CORRUPT);
        cluster_map_fini(&again);
        cluster_map_fini(&map);
        free(bytes);
    }
}

/* The first half of the slots has rounds, and the last slot is the round state. */
static void slots_with_rounds_beside_others(void **state) {
    cluster_map map = {.consistency = {CONSISTENCY_SSP, 3}, .mixed = true, .slot_count = 7};
    assert_true(cluster_map_round_state(&map) == 6 && cluster_map_value_slots(&map) == 6 &&
                cluster_map_table_slots(&map) == 3);
    assert_true(cluster_map_first(&map, true) == 0 && cluster_map_first(&map, false) == 3);
    for (uint32_t i = 0; i < 7; i++) {
        assert_int_equal(cluster_map_in_rounds(&map, i), i < 3 || i == 6);
        assert_int_equal(cluster_map_consistency(&map, i).kind, i < 3 || i == 6 ? CONSISTENCY_BSP : CONSISTENCY_SSP);
    }
    assert_int_equal(cluster_map_consistency(&map, 3).bound, 3);
    /* consistency of tables that name none; slots without rounds are then ASP */
    map.consistency.kind = CONSISTENCY_BSP;
    assert_int_equal(cluster_map_consistency(&map, 3).kind, CONSISTENCY_ASP);
    map.mixed = false;
    assert_true(cluster_map_table_slots(&map) == 6 && cluster_map_in_rounds(&map, 5) &&
                cluster_map_first(&map, true) == 0);
    map.consistency.kind = CONSISTENCY_ASP;
    assert_true(cluster_map_table_slots(&map) == 7 && !cluster_map_in_rounds(&map, 6) &&
                cluster_map_round_state(&map) == NO_ROUND_STATE);
}

static void a_mixed_map_has_two_halves_and_a_round_state(void **state) {
    for (uint32_t slots = 1; slots < 6; slots++) {
        cluster_map map, again = {0};
        uint8_t *bytes;
        fill(&map);
        map.mixed = true;
        map.slot_count = slots;
        map.slots = xrealloc(map.slots, slots * sizeof *map.slots);
        for (uint32_t i = 0; i < slots; i++) map.slots[i] = (cluster_map_slot){.epoch = 2};
        mr_status status = cluster_map_follow(&again, encode(&map, 0, &bytes));
        assert_int_equal(status, slots == 3 || slots == 5 ? MR_OK : MR_CORRUPT);
        assert_true(status != MR_OK || again.mixed);
        free(bytes);
        map.number++;
        map.consistency.kind = CONSISTENCY_ASP + (map.consistency.kind == CONSISTENCY_ASP); /* nor the kind */
        if (status == MR_OK) assert_int_equal(cluster_map_follow(&again, encode(&map, 0, &bytes)), MR_STALE);
        if (status == MR_OK) free(bytes);
        map.consistency.kind = again.consistency.kind;
        map.mixed = false; /* `mixed` cannot change within a generation */
        if (status == MR_OK) assert_int_equal(cluster_map_follow(&again, encode(&map, 0, &bytes)), MR_STALE);
        if (status == MR_OK) free(bytes);
        cluster_map_fini(&map);
        cluster_map_fini(&again);
    }
}

static void truncated_or_longer_maps_are_refused(void **state) {
    cluster_map map, out = {0};
    uint8_t *bytes;
    fill(&map);
    span all = encode(&map, 0, &bytes);
    for (size_t cut = 0; cut < all.size; cut++) {
        uint8_t *copy = xmalloc(cut + 1);
        memcpy(copy, bytes, cut);
        assert_int_equal(cluster_map_follow(&out, span_of(copy, cut)), MR_CORRUPT);
        free(copy);
    }
    uint8_t *longer = xcalloc(1, all.size + 1);
    memcpy(longer, bytes, all.size);
    assert_int_equal(cluster_map_follow(&out, span_of(longer, all.size + 1)), MR_CORRUPT);
    assert_int_equal(out.number, 0);
    free(longer);
    cluster_map_fini(&map);
    free(bytes);
}

static void a_server_is_in_a_chain_once(void **state) {
    cluster_map map, out = {0};
    uint8_t *bytes;
    fill(&map);
    map.slots[0].chain[1].server = 1;
    assert_int_equal(cluster_map_follow(&out, encode(&map, 0, &bytes)), MR_CORRUPT);
    cluster_map_fini(&map);
    free(bytes);
}

/* The next cluster map: slot 0 has lost a replica, a server is new, and a rank is held by another process. */
static void go_on(cluster_map *map) {
    map->number = 10;
    map->slots[0] = (cluster_map_slot){.epoch = 10, .count = 1, .chain = {{7, 17, 9}}};
    cluster_map_put_server(map, 4, 24, "four");
    cluster_map_put_rank(map, 1, 3, 12);
}

static void assert_same(const cluster_map *a, const cluster_map *b) {
    uint8_t *x, *y;
    span whole = encode(a, 0, &x), other = encode(b, 0, &y);
    assert_int_equal(whole.size, other.size);
    assert_memory_equal(x, y, whole.size);
    free(x);
    free(y);
}

static void a_holder_of_the_previous_map_gets_the_changes(void **state) {
    cluster_map map, known = {0}, older = {0};
    uint8_t *bytes;
    fill(&map);
    cluster_map_copy(&known, &map);
    cluster_map_copy(&older, &map);
    go_on(&map);
    span news = encode(&map, 9, &bytes);
    assert_true(news.size < cluster_map_size(&map, 0) / 2 + 51);
    assert_int_equal(cluster_map_follow(&known, news), MR_OK);
    assert_same(&known, &map);
    assert_int_equal(cluster_map_follow(&known, news), MR_STALE); /* not newer */
    older.number = 8;
    /* changes between the older map and the base are missing */
    assert_int_equal(cluster_map_follow(&older, news), MR_STALE);
    free(bytes);
    span more = encode(&map, 7, &bytes); /* changes from an earlier base apply, too */
    assert_int_equal(cluster_map_follow(&older, more), MR_OK);
    assert_same(&older, &map);
    free(bytes);
    cluster_map_fini(&map);
    cluster_map_fini(&known);
    cluster_map_fini(&older);
}

static void another_generation_is_followed_as_a_whole(void **state) {
    cluster_map map, known = {0}, none = {0};
    uint8_t *bytes;
    fill(&map);
    cluster_map_copy(&known, &map);
    go_on(&map);
    map.generation++;
    /* changes do not apply to another generation */
    assert_int_equal(cluster_map_follow(&known, encode(&map, 9, &bytes)), MR_STALE);
    free(bytes);
    assert_int_equal(cluster_map_follow(&known, encode(&map, 0, &bytes)), MR_OK);
    assert_same(&known, &map);
    free(bytes);
    map.generation--;
    /* not newer, whatever the generation */
    assert_int_equal(cluster_map_follow(&known, encode(&map, 0, &bytes)), MR_STALE);
    free(bytes);
    /* changes do not apply without a map */
    assert_int_equal(cluster_map_follow(&none, encode(&map, 9, &bytes)), MR_STALE);
    assert_int_equal(none.number, 0);
    free(bytes);
    cluster_map_fini(&map);
    cluster_map_fini(&known);
}

static void news_that_are_cut_change_nothing(void **state) {
    cluster_map map, known = {0}, before = {0};
    uint8_t *bytes;
    fill(&map);
    cluster_map_copy(&known, &map);
    cluster_map_copy(&before, &map);
    go_on(&map);
    span news = encode(&map, 9, &bytes);
    for (size_t cut = 0; cut < news.size; cut++) {
        assert_int_equal(cluster_map_follow(&known, span_of(bytes, cut)), MR_CORRUPT);
        assert_same(&known, &before);
    }
    free(bytes);
    cluster_map_fini(&map);
    cluster_map_fini(&known);
    cluster_map_fini(&before);
}

/* A map of 1,000 servers and 4,000 ranks, with numbers of a long-lived deployment, fits one metadata value. */
static void a_large_one_fits_the_metadata(void **state) {
    enum { SERVERS = 1000, SLOTS = 2048, RANKS = 4000, COPIES = 3 };
    const uint64_t generation = UINT64_C(3) << METADATA_STORE_COUNT_BITS;
    rng rng;
    rng_init(&rng, 1);
    cluster_map map = {.number = generation + 100000, .generation = 5, .birth = generation + 1, .copies = COPIES};
    map.rank_count = RANKS;
    map.slot_count = SLOTS;
    map.slots = xcalloc(SLOTS, sizeof *map.slots);
    for (uint32_t i = 0; i < SERVERS; i++) {
        char address[SLOT_MESSAGE_ADDRESS_MAX];
        snprintf(address, sizeof address, "192.168.%u.%u:%u", i / 256, i % 256, 40000 + i);
        cluster_map_put_server(&map, i, generation + rng_below(&rng, 200000), address);
        map.servers[i].since = generation + 1 + rng_below(&rng, 100000);
    }
    for (uint32_t i = 0; i < SLOTS; i++) {
        map.slots[i] = (cluster_map_slot){.epoch = generation + 1 + rng_below(&rng, 100000), .count = COPIES};
        map.slots[i].home = 1 + i % SERVERS;
        for (uint32_t k = 0; k < COPIES; k++)
            map.slots[i].chain[k] = (cluster_map_member){(i + 7 * k) % SERVERS, generation + rng_below(&rng, 200000),
                                                         generation + 1 + rng_below(&rng, 100000)};
    }
    for (uint32_t i = 0; i < RANKS; i++) {
        cluster_map_put_rank(&map, i, (i * 13) % RANKS, generation + rng_below(&rng, 200000));
        map.ranks[i].since = generation + 1 + rng_below(&rng, 100000);
    }
    uint8_t *bytes;
    span all = encode(&map, 0, &bytes);
    print_message("%zu of %d bytes\n", all.size, METADATA_DB_VALUE_MAX);
    assert_true(all.size <= METADATA_DB_VALUE_MAX);
    struct cluster_map again = {0};
    assert_int_equal(cluster_map_follow(&again, all), MR_OK);
    assert_same(&again, &map);
    free(bytes);
    cluster_map_fini(&again);
    cluster_map_fini(&map);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cluster_maps_come_back_as_they_went),
        cmocka_unit_test(readers_have_places_behind_the_ranks),
        cmocka_unit_test(the_layout_before_is_read),
        cmocka_unit_test(slots_with_rounds_beside_others),
        cmocka_unit_test(a_mixed_map_has_two_halves_and_a_round_state),
        cmocka_unit_test(truncated_or_longer_maps_are_refused),
        cmocka_unit_test(a_server_is_in_a_chain_once),
        cmocka_unit_test(a_holder_of_the_previous_map_gets_the_changes),
        cmocka_unit_test(another_generation_is_followed_as_a_whole),
        cmocka_unit_test(news_that_are_cut_change_nothing),
        cmocka_unit_test(a_large_one_fits_the_metadata),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
