/* hash_ring_test.c — over many memberships shares are even, and no more slots move than necessary. */
#include "ps/hash_ring.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/rng.h"

enum { SLOTS = 16384, SERVERS_MAX = 40, COPIES = 3 };

typedef uint64_t owners[COPIES];

static owners *place(const hash_ring_server *servers, size_t count, size_t copies) {
    hash_ring *ring;
    assert_int_equal(hash_ring_create(servers, count, &ring), MR_OK);
    owners *all = xcalloc(SLOTS, sizeof *all);
    for (uint64_t slot = 0; slot < SLOTS; slot++)
        assert_int_equal(hash_ring_owners(ring, slot, all[slot], copies), count < copies ? count : copies);
    hash_ring_destroy(ring);
    return all;
}

static bool has(const owners owners, uint64_t id) {
    for (size_t i = 0; i < COPIES; i++)
        if (owners[i] == id) return true;
    return false;
}

/* Number of replicas on servers that did not have the slot before. */
static size_t moved(owners *before, owners *after) {
    size_t count = 0;
    for (size_t slot = 0; slot < SLOTS; slot++)
        for (size_t i = 0; i < COPIES; i++)
            if (after[slot][i] != 0 && !has(before[slot], after[slot][i])) count++;
    return count;
}

static size_t draw_servers(rng *rng, hash_ring_server *servers) {
    size_t count = 2 + (size_t)rng_below(rng, SERVERS_MAX - 2);
    for (size_t i = 0; i < count; i++)
        servers[i] = (hash_ring_server){1 + i * 1000 + rng_below(rng, 1000), rng_chance(rng, 0.2) ? 2 : 1};
    return count;
}

static uint32_t weight_of(const hash_ring_server *servers, size_t count) {
    uint32_t weight = 0;
    for (size_t i = 0; i < count; i++) weight += servers[i].weight;
    return weight;
}

/* The last server joins (or, read the other way, leaves): only its share moves, and only to it (from it). */
static void little_moves(void **state) {
    double worst = 0;
    for (uint64_t seed = 1; seed <= 60; seed++) {
        hash_ring_server servers[SERVERS_MAX];
        rng rng;
        rng_init(&rng, seed);
        size_t count = draw_servers(&rng, servers);
        owners *without = place(servers, count - 1, 1), *with = place(servers, count, 1);
        uint64_t newcomer = servers[count - 1].id;
        size_t moves = moved(without, with);
        for (size_t slot = 0; slot < SLOTS; slot++)
            if (with[slot][0] != without[slot][0]) assert_true(with[slot][0] == newcomer);
        double ideal = (double)SLOTS * servers[count - 1].weight / weight_of(servers, count);
        if ((double)moves / ideal > worst) worst = (double)moves / ideal;
        assert_int_equal(moves, moved(with, without));
        free(without);
        free(with);
    }
    print_message("a server comes: at most %.2f of the ideal moves\n", worst);
    assert_true(worst <= 1.2);
}

/* A server that joins takes at most as many replicas as it will hold; all other replicas stay. */
static void little_moves_with_copies(void **state) {
    double worst = 0;
    for (uint64_t seed = 1; seed <= 30; seed++) {
        hash_ring_server servers[SERVERS_MAX];
        rng rng;
        rng_init(&rng, seed);
        size_t count = draw_servers(&rng, servers);
        if (count <= COPIES + 1) continue;
        for (size_t i = 0; i < count; i++) servers[i].weight = 1;
        owners *without = place(servers, count - 1, COPIES), *with = place(servers, count, COPIES);
        double ideal = (double)SLOTS * COPIES / (double)count;
        double ratio = (double)moved(without, with) / ideal;
        if (ratio > worst) worst = ratio;
        free(without);
        free(with);
    }
    print_message("a server comes, %d copies: at most %.2f of the ideal moves\n", COPIES, worst);
    assert_true(worst <= 1.2);
}

static void a_weight_is_a_share(void **state) {
    hash_ring_server servers[] = {{1, 1}, {2, 2}, {3, 4}, {4, 1}};
    owners *before = place(servers, 4, 1);
    size_t counts[5] = {0};
    for (size_t slot = 0; slot < SLOTS; slot++) counts[before[slot][0]]++;
    for (size_t i = 0; i < 4; i++) {
        double share = (double)SLOTS * servers[i].weight / 8;
        assert_true((double)counts[servers[i].id] > 0.8 * share && (double)counts[servers[i].id] < 1.2 * share);
    }
    servers[0].weight = 3; /* the server takes slots from all others; none moves between the others */
    owners *after = place(servers, 4, 1);
    for (size_t slot = 0; slot < SLOTS; slot++) assert_true(after[slot][0] == before[slot][0] || after[slot][0] == 1);
    free(before);
    free(after);
}

static void the_order_of_servers_does_not_matter(void **state) {
    hash_ring_server servers[] = {{5, 1}, {9, 3}, {2, 1}, {7, 2}};
    owners *before = place(servers, 4, COPIES);
    rng rng;
    rng_init(&rng, 1);
    rng_shuffle(&rng, servers, 4, sizeof *servers);
    owners *after = place(servers, 4, COPIES);
    assert_memory_equal(before, after, SLOTS * sizeof *before);
    for (size_t slot = 0; slot < SLOTS; slot++)
        assert_true(before[slot][0] != before[slot][1] && before[slot][1] != before[slot][2] &&
                    before[slot][0] != before[slot][2]);
    free(before);
    free(after);
}

static void invalid_rings_are_refused(void **state) {
    hash_ring *ring;
    assert_int_equal(hash_ring_create((hash_ring_server[]){{1, 1}, {2, 1}, {1, 2}}, 3, &ring), MR_INVALID);
    assert_int_equal(hash_ring_create((hash_ring_server[]){{1, 0}}, 1, &ring), MR_INVALID);
    assert_int_equal(hash_ring_create((hash_ring_server[]){{1, HASH_RING_WEIGHT_MAX + 1}}, 1, &ring), MR_INVALID);
    hash_ring_server *many = xcalloc(HASH_RING_SERVERS_MAX + 1, sizeof *many);
    assert_int_equal(hash_ring_create(many, HASH_RING_SERVERS_MAX + 1, &ring), MR_TOO_LARGE);
    free(many);
    uint64_t ids[2];
    assert_int_equal(hash_ring_create(NULL, 0, &ring), MR_OK);
    assert_int_equal(hash_ring_owners(ring, 7, ids, 2), 0);
    hash_ring_destroy(ring);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(little_moves),
        cmocka_unit_test(little_moves_with_copies),
        cmocka_unit_test(a_weight_is_a_share),
        cmocka_unit_test(the_order_of_servers_does_not_matter),
        cmocka_unit_test(invalid_rings_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
