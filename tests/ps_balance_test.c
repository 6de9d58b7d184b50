/* ps_balance_test.c — load balancing of real processes: slots of an overloaded server move to others; a slot that is
 * too hot for any server gets a read replica, which is removed when it is not needed any more; pushes and pulls
 * meanwhile are right. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "tests/support/ps_fixture.h"

enum { SERVERS = 3, SLOTS = 12, RANKS = 2, LOOK_US = 10000000 };
#define BALANCE_US INT64_C(2000000)

typedef struct scene {
    ps_fixture fixture;
    mr_ps *ps[RANKS];
    mr_ps_table *table[RANKS];
    float pushed[SLOTS]; /* sum of pushes to each slot's key */
} scene;

static int64_t now_us(void) { return clock_now_us(clock_real()); }

static uint64_t key_of(uint32_t slot) { return UINT64_MAX / SLOTS * slot + 7; } /* each slot is a range of keys */

static mr_ps_cluster_map *look(const scene *scene) {
    mr_ps_cluster_map *map = NULL;
    assert_int_equal(mr_ps_cluster_map_get(scene->fixture.address, LOOK_US, &map), MR_OK);
    return map;
}

static void start(scene *scene) {
    const mr_ps_table_options options = MR_OPTIONS(mr_ps_table_options, .dim = 1, .ordered = 1);
    uint64_t step;
    *scene = (struct scene){.fixture = {.servers = SERVERS,
                                        .slots = SLOTS,
                                        .copies = 1,
                                        .workers = RANKS,
                                        .balance_us = BALANCE_US,
                                        .consistency = MR_PS_ASP}};
    assert_true(ps_fixture_init(&scene->fixture));
    assert_true(ps_fixture_start_scheduler(&scene->fixture));
    scene->fixture.workers = 0; /* this process holds both ranks */
    for (uint32_t i = 0; i < SERVERS; i++) ps_fixture_start_server(&scene->fixture, i);
    for (int i = 0; i < RANKS; i++) {
        assert_non_null(scene->ps[i] = ps_fixture_connect(&scene->fixture, i));
        assert_int_equal(mr_ps_table_create(scene->ps[i], "rows", &options, PS_FIXTURE_PATIENCE_US, &scene->table[i]),
                         MR_OK);
        assert_int_equal(mr_ps_begin(scene->ps[i], PS_FIXTURE_PATIENCE_US, &step), MR_OK);
    }
}

static void stop(scene *scene) {
    for (int i = 0; i < RANKS; i++) {
        mr_ps_table_free(scene->table[i]);
        mr_ps_close(scene->ps[i]);
    }
    assert_true(ps_fixture_fini(&scene->fixture));
}

static size_t keys_of(const bool touched[SLOTS], uint64_t keys[SLOTS]) {
    size_t count = 0;
    for (uint32_t i = 0; i < SLOTS; i++)
        if (touched[i]) keys[count++] = key_of(i);
    return count;
}

static void push(scene *scene, int rank, const bool touched[SLOTS]) {
    uint64_t keys[SLOTS];
    float ones[SLOTS];
    size_t count = keys_of(touched, keys);
    for (size_t i = 0; i < SLOTS; i++) ones[i] = 1;
    for (size_t i = 0; i < SLOTS; i++) scene->pushed[i] += touched[i] ? 1 : 0;
    assert_int_equal(mr_ps_push(scene->table[rank], keys, count, ones, NULL, NULL, NULL), MR_OK);
}

static void pull(scene *scene, int rank, const bool touched[SLOTS], float values[SLOTS]) {
    uint64_t keys[SLOTS];
    assert_int_equal(mr_ps_pull(scene->table[rank], keys, keys_of(touched, keys), values, NULL, NULL, NULL), MR_OK);
}

/* Checks that the pulled values contain all pushes of this rank. */
static void check(scene *scene, int rank) {
    static const bool all[SLOTS] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
    float values[SLOTS];
    pull(scene, rank, all, values);
    for (size_t i = 0; i < SLOTS; i++) assert_true(values[i] == scene->pushed[i]);
}

static void says(const scene *scene, const char *arguments, const char *words) {
    char text[1 << 15];
    assert_true(ps_fixture_status(&scene->fixture, arguments, text, sizeof text));
    if (strstr(text, words) == NULL) fail_msg("no '%s' in:\n%s", words, text);
}

static uint32_t heads_of(const mr_ps_cluster_map *map, const bool slots[SLOTS], uint32_t server) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < SLOTS; i++) count += slots[i] && map->slots[i].replicas[0].server == server;
    return count;
}

/* Largest number of hot slots with the same head. */
static uint32_t most_of(const scene *scene, const bool hot[SLOTS], uint32_t *moved) {
    mr_ps_cluster_map *map = look(scene);
    uint32_t most = 0;
    *moved = 0;
    for (uint32_t i = 0; i < SERVERS; i++) {
        uint32_t count = heads_of(map, hot, i);
        if (count > most) most = count;
    }
    for (uint32_t i = 0; i < SLOTS; i++) {
        *moved += map->slots[i].pinned_server >= 0;
        assert_int_equal(map->slots[i].read_replicas, 0); /* read replicas do not help pushes */
    }
    mr_ps_cluster_map_free(map);
    return most;
}

static void slots_of_a_busy_server_move(void **state) {
    scene scene;
    bool hot[SLOTS] = {false};
    uint32_t all = 0, most, moved, busiest = 0;
    start(&scene);
    mr_ps_cluster_map *map = look(&scene);
    static const bool every[SLOTS] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
    for (uint32_t i = 1; i < SERVERS; i++)
        if (heads_of(map, every, i) > heads_of(map, every, busiest)) busiest = i;
    for (uint32_t i = 0; i < SLOTS; i++) all += hot[i] = map->slots[i].replicas[0].server == busiest;
    mr_ps_cluster_map_free(map);
    assert_true(all >= SLOTS / SERVERS);
    int64_t until_us = now_us() + PS_FIXTURE_PATIENCE_US;
    while ((most = most_of(&scene, hot, &moved)) == all && now_us() < until_us)
        for (int64_t next_us = now_us() + 200000; now_us() < next_us;) {
            float values[SLOTS];
            push(&scene, 0, hot);
            pull(&scene, 0, hot, values);
        }
    assert_true(most < all && moved != 0);
    says(&scene, "", "moved to less loaded servers\n");
    check(&scene, 0);
    stop(&scene);
}

/* ---- A hot slot. */

static uint64_t pulls_at(const scene *scene, uint32_t server) {
    mr_ps_processes *process_table = NULL;
    uint64_t pulls = 0;
    assert_int_equal(mr_ps_processes_get(scene->fixture.address, LOOK_US, &process_table), MR_OK);
    for (uint32_t i = 0; i < process_table->count; i++)
        if (process_table->processes[i].role == MR_PS_SERVERS && process_table->processes[i].number == server)
            pulls = process_table->processes[i].pulls;
    mr_ps_processes_free(process_table);
    return pulls;
}

/* Pulls these slots with both ranks, and pushes at times, until the slot has `copies` replicas. */
static void pull_until(scene *scene, const bool touched[SLOTS], uint32_t slot, uint32_t copies, mr_ps_slot *out) {
    int64_t until_us = now_us() + PS_FIXTURE_PATIENCE_US;
    for (bool done = false; !done;) {
        float values[SLOTS];
        push(scene, 0, touched);
        check(scene, 0);
        for (int64_t next_us = now_us() + 200000; now_us() < next_us;)
            for (int rank = 0; rank < RANKS; rank++) pull(scene, rank, touched, values);
        mr_ps_cluster_map *map = look(scene);
        *out = map->slots[slot];
        mr_ps_cluster_map_free(map);
        done = out->count == copies && out->read_replicas == copies - 1;
        if (!done && now_us() > until_us) fail_msg("slot %u has %u copies, not %u", slot, out->count, copies);
    }
}

/* Both ranks pull the hot slot, push at times, and read their own pushes. */
static void use(scene *scene, const bool touched[SLOTS], uint32_t slot) {
    for (int i = 0; i < 400; i++) {
        float values[SLOTS];
        if (i % 20 < RANKS) push(scene, i % RANKS, touched);
        pull(scene, i % RANKS, touched, values); /* every replica that answers has the push */
        if (i % 20 < RANKS) assert_true(values[0] == scene->pushed[slot]);
    }
}

static void a_hot_slot_has_a_copy_for_reading(void **state) {
    enum { HOT = 5 };
    scene scene;
    mr_ps_slot slot;
    uint64_t before[2], after[2] = {0};
    bool touched[SLOTS] = {[HOT] = true};
    start(&scene);
    pull_until(&scene, touched, HOT, 2, &slot);
    says(&scene, "", "1 hot slot with read replicas: 5\n");
    says(&scene, "--json", "\"read_replicas\":1");
    for (int i = 0; i < 2; i++) before[i] = pulls_at(&scene, slot.replicas[i].server);
    int64_t until_us = now_us() + PS_FIXTURE_PATIENCE_US;
    while ((after[0] < before[0] + 100 || after[1] < before[1] + 100) && now_us() < until_us) { /* both answer */
        use(&scene, touched, HOT);
        for (int i = 0; i < 2; i++) after[i] = pulls_at(&scene, slot.replicas[i].server);
    }
    assert_true(after[0] >= before[0] + 100 && after[1] >= before[1] + 100);
    for (uint32_t i = 0; i < SLOTS; i++) touched[i] = i != HOT;
    pull_until(&scene, touched, HOT, 1, &slot);
    check(&scene, 1);
    stop(&scene);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slots_of_a_busy_server_move),
        cmocka_unit_test(a_hot_slot_has_a_copy_for_reading),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
