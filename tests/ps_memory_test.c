/* ps_memory_test.c — arrays that are pushed from memory shared with servers, and pulled from theirs, compared with
 * plain sums. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "base/rng.h"
#include "tests/support/ps_fixture.h"
#include "tests/support/status_assert.h"
#include "tests/support/test_child.h"

enum { SLOTS = 3, BLOCK = 16 << 10, ITEMS = 7 * BLOCK + 123, STEPS = 4 };

typedef struct scene {
    ps_fixture fixture;
    mr_ps *ps;
    mr_ps_table *table;
} scene;

static mr_status open_table(mr_ps *ps, mr_ps_table **out) {
    const mr_ps_array arrays[] = {{.name = "all", .dims = 1, .shape = {ITEMS}}};
    const mr_ps_table_options options =
        MR_OPTIONS(mr_ps_table_options, .kind = MR_PS_DENSE, .arrays = arrays, .array_count = 1, .block = BLOCK);
    return mr_ps_table_create(ps, "table", &options, PS_FIXTURE_PATIENCE_US, out);
}

static void connect_here(scene *scene) {
    must(mr_ps_connect(scene->fixture.address, 0, PS_FIXTURE_PATIENCE_US, &scene->ps));
    must(open_table(scene->ps, &scene->table));
}

static void start_servers(scene *scene, const ps_fixture *kind) {
    scene->fixture = *kind;
    scene->fixture.slots = SLOTS;
    assert_true(ps_fixture_init(&scene->fixture));
    assert_true(ps_fixture_start_scheduler(&scene->fixture));
    for (uint32_t i = 0; i < scene->fixture.servers; i++) ps_fixture_start_server(&scene->fixture, i);
    scene->fixture.workers = 0; /* the test is the worker */
}

static void begin(scene *scene, const ps_fixture *kind) {
    start_servers(scene, kind);
    connect_here(scene);
}

static void finish(scene *scene) {
    mr_ps_table_free(scene->table);
    mr_ps_close(scene->ps);
    assert_true(ps_fixture_fini(&scene->fixture));
}

static float *exported(scene *scene, size_t items) {
    void *memory;
    must(mr_ps_buffer_alloc(scene->ps, items * sizeof(float), &memory));
    return memory;
}

static void step(scene *scene) {
    uint64_t number;
    must(mr_ps_begin(scene->ps, PS_FIXTURE_PATIENCE_US, &number));
}

static void end_step(scene *scene) {
    must(mr_ps_end(scene->ps));
    must(mr_ps_flush(scene->ps, PS_FIXTURE_PATIENCE_US));
}

/* Pushes a range of any place and length, from shared and from private memory. */
static void push_some(scene *scene, rng *rng, float *from, float *plain) {
    size_t first = rng_below(rng, ITEMS / 2), count = 1 + rng_below(rng, ITEMS - first);
    size_t at = rng_below(rng, ITEMS - count + 1);
    mr_ps_ticket ticket;
    for (size_t i = 0; i < count; i++) from[at + i] = (float)(int)rng_below(rng, 100) - 50;
    for (size_t i = 0; i < count; i++) plain[first + i] += from[at + i];
    must(mr_ps_push_array(scene->table, 0, from + at, first, count, NULL, &ticket));
    if (scene->fixture.consistency != MR_PS_BSP) must(mr_ps_wait(scene->ps, ticket, PS_FIXTURE_PATIENCE_US));
}

static void expect(scene *scene, const float *plain, float *to) {
    memset(to, 0xff, ITEMS * sizeof *to);
    must(mr_ps_pull_array(scene->table, 0, to, 0, ITEMS, NULL, NULL));
    assert_memory_equal(to, plain, ITEMS * sizeof *to);
}

static void pushes_and_pulls(const ps_fixture *kind) {
    scene scene;
    rng rng;
    float *plain = calloc(ITEMS, sizeof *plain), *own = calloc(ITEMS, sizeof *own), *to = calloc(ITEMS, sizeof *to);
    rng_init(&rng, 7);
    begin(&scene, kind);
    float *seen = exported(&scene, ITEMS);
    for (int i = 0; i < STEPS; i++) {
        step(&scene);
        expect(&scene, plain, to);
        push_some(&scene, &rng, seen, plain);
        if (kind->consistency != MR_PS_BSP) push_some(&scene, &rng, own, plain);
        if (kind->consistency != MR_PS_BSP) push_some(&scene, &rng, seen, plain);
        end_step(&scene);
    }
    step(&scene);
    expect(&scene, plain, to);
    expect(&scene, plain, seen); /* pulls go to shared memory, too */
    must(mr_ps_buffer_free(scene.ps, seen));
    finish(&scene);
    free(plain);
    free(own);
    free(to);
}

static void one_copy(void **state) {
    pushes_and_pulls(&(ps_fixture){.servers = 2, .workers = 1, .copies = 1, .consistency = MR_PS_ASP});
}
static void two_copies(void **state) {
    pushes_and_pulls(&(ps_fixture){.servers = 2, .workers = 1, .copies = 2, .consistency = MR_PS_ASP});
}
static void in_rounds(void **state) {
    pushes_and_pulls(&(ps_fixture){.servers = 1, .workers = 1, .copies = 1, .consistency = MR_PS_BSP});
}
static void by_tcp(void **state) {
    pushes_and_pulls(&(ps_fixture){.tcp = true, .servers = 1, .workers = 1, .copies = 1, .consistency = MR_PS_SSP});
}

/* Pushes that the dead server had not acknowledged are sent to the other server, which sees the same memory. The third
 * server gets a replica; it runs from the start, since a process with threads does not fork under a sanitizer. */
static void a_server_is_killed(void **state) {
    scene scene;
    rng rng;
    float *plain = calloc(ITEMS, sizeof *plain), *to = calloc(ITEMS, sizeof *to);
    rng_init(&rng, 8);
    begin(&scene, &(ps_fixture){.servers = 3, .workers = 1, .copies = 2, .consistency = MR_PS_ASP});
    float *seen = exported(&scene, ITEMS);
    for (int i = 0; i < 2 * STEPS; i++) {
        step(&scene);
        push_some(&scene, &rng, seen, plain);
        if (i == 2) {
            mr_ps_replica dead = ps_fixture_process(&scene.fixture, 0);
            ps_fixture_kill(&scene.fixture, &scene.fixture.server[0]);
            push_some(&scene, &rng, seen, plain);
            assert_true(ps_fixture_full(&scene.fixture, 0, &dead));
        }
        expect(&scene, plain, to);
        end_step(&scene);
    }
    finish(&scene);
    free(plain);
    free(to);
}

/* Run by another worker: pushes ones to the whole array, repeatedly. */
static int push_ones(void *address) {
    mr_ps *ps;
    mr_ps_table *table;
    uint64_t number;
    void *memory;
    TEST_CHILD_CHECK(mr_ps_connect(address, 1, PS_FIXTURE_PATIENCE_US, &ps) == MR_OK);
    TEST_CHILD_CHECK(open_table(ps, &table) == MR_OK && mr_ps_begin(ps, PS_FIXTURE_PATIENCE_US, &number) == MR_OK);
    TEST_CHILD_CHECK(mr_ps_buffer_alloc(ps, ITEMS * sizeof(float), &memory) == MR_OK);
    for (size_t i = 0; i < ITEMS; i++) ((float *)memory)[i] = 1;
    while (mr_ps_push_array(table, 0, memory, 0, ITEMS, NULL, NULL) == MR_OK) continue;
    return 1;
}

/* A pull of a block is atomic, also while the block changes. The server's state after the death of a pushing worker is
 * that before the push, or that after it. */
static void blocks_are_whole_while_others_push(void **state) {
    enum { PULLS = 200 };
    scene scene;
    float *to = calloc(ITEMS, sizeof *to), last = 0;
    start_servers(&scene, &(ps_fixture){.servers = 1, .workers = 2, .copies = 1, .consistency = MR_PS_ASP});
    pid_t other = test_child_start(push_ones, scene.fixture.address);
    connect_here(&scene);
    step(&scene);
    int changed = 0;
    for (int i = 0; i < PULLS || changed < 10; i++) {
        assert_int_equal(waitpid(other, NULL, WNOHANG), 0);
        must(mr_ps_pull_array(scene.table, 0, to, 0, ITEMS, NULL, NULL));
        for (size_t k = 0; k < ITEMS; k++) assert_true(to[k] == to[k / BLOCK * BLOCK]);
        changed += to[0] != last;
        assert_true(to[0] >= last);
        last = to[0];
    }
    kill(other, SIGKILL);
    assert_int_equal(test_child_wait(other, 20000), -SIGKILL);
    scene.fixture.killed++;
    must(mr_ps_pull_array(scene.table, 0, to, 0, ITEMS, NULL, NULL));
    for (size_t k = 0; k < ITEMS; k++) assert_true(to[k] == to[k / BLOCK * BLOCK]);
    finish(&scene);
    free(to);
}

static void misuse(void **state) {
    scene scene;
    void *memory = &scene;
    begin(&scene, &(ps_fixture){.servers = 1, .workers = 1, .copies = 1, .consistency = MR_PS_ASP});
    assert_int_equal(mr_ps_buffer_alloc(scene.ps, 0, &memory), MR_INVALID);
    assert_int_equal(mr_ps_buffer_alloc(scene.ps, SIZE_MAX, &memory), MR_NOMEM);
    assert_ptr_equal(memory, &scene);
    float *seen = exported(&scene, 5000);
    for (int i = 0; i < 5000; i++) assert_true(seen[i] == 0);
    must(mr_ps_buffer_free(scene.ps, NULL));
    assert_int_equal(mr_ps_buffer_free(scene.ps, &memory), MR_INVALID);
    assert_int_equal(mr_ps_buffer_free(scene.ps, seen + 1), MR_INVALID);
    must(mr_ps_buffer_free(scene.ps, seen));
    assert_int_equal(mr_ps_buffer_free(scene.ps, seen), MR_INVALID);
    finish(&scene);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_copy),
        cmocka_unit_test(two_copies),
        cmocka_unit_test(in_rounds),
        cmocka_unit_test(by_tcp),
        cmocka_unit_test(a_server_is_killed),
        cmocka_unit_test(blocks_are_whole_while_others_push),
        cmocka_unit_test(misuse),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
