/* event_ring_test.c — a writer and a reader; names; records that are overwritten or torn; memory that is no ring. Also
 * run under ThreadSanitizer. */
#include "runtime/common/event_ring.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/rng.h"

enum { COUNT = EVENT_RING_COUNT_MIN };

typedef struct scene {
    void *memory;
    size_t bytes;
    virtual_clock clock;
    event_ring ring;
} scene;

static void scene_open(scene *scene) {
    scene->bytes = event_ring_bytes(COUNT);
    scene->memory = aligned_alloc(4096, (scene->bytes + 4095) / 4096 * 4096);
    scene->clock = (virtual_clock){.now_us = 1000000};
    memset(scene->memory, 0x5a, scene->bytes); /* extents have any content */
    event_ring_open(&scene->ring, scene->memory, scene->bytes, clock_virtual(&scene->clock),
                    &(event_ring_identity){.process = 7, .pid = 4711, .role = 1});
}

static void scene_close(scene *scene) {
    event_ring_close(&scene->ring);
    free(scene->memory);
}

static void pass(scene *scene, int64_t us) { virtual_clock_advance(&scene->clock, scene->clock.now_us + us); }

static event_ring_copy read_all(const scene *scene) {
    event_ring_copy copy;
    assert_int_equal(event_ring_read(scene->memory, scene->bytes, UINT32_MAX, &copy), MR_OK);
    return copy;
}

static uint64_t enter(scene *scene, const char *name, uint64_t call) {
    return event_ring_enter(
        &scene->ring,
        &(event_ring_call){
            .kind = EVENT_TASK, .name = name, .name_size = strlen(name), .process = 3, .call = call, .bytes = 64});
}

static void run(scene *scene, const char *name, uint64_t call, int64_t us) {
    uint64_t number = enter(scene, name, call);
    pass(scene, us);
    event_ring_leave(&scene->ring, number, MR_OK);
}

static void sizes_fit_each_other(void **state) {
    assert_int_equal(event_ring_bytes(1), EVENT_RING_PAGE + 64 * EVENT_RING_COUNT_MIN);
    assert_int_equal(event_ring_capacity(event_ring_bytes(1)), EVENT_RING_COUNT_MIN);
    assert_int_equal(event_ring_capacity(event_ring_bytes(2000)), 2048);
    assert_int_equal(event_ring_capacity(event_ring_bytes(2048) - 1), 1024);
    assert_int_equal(event_ring_capacity(event_ring_bytes(1) - 1), 0);
    assert_int_equal(event_ring_capacity(0), 0);
    assert_int_equal(event_ring_capacity(event_ring_bytes(EVENT_RING_COUNT_MAX) * 4), EVENT_RING_COUNT_MAX);
}

static void a_call_is_seen_while_it_runs_and_after(void **state) {
    scene scene;
    scene_open(&scene);
    uint64_t number = enter(&scene, "train", 9);
    pass(&scene, 500);
    event_ring_copy copy = read_all(&scene);
    assert_int_equal(copy.process, 7);
    assert_int_equal(copy.pid, 4711);
    assert_int_equal(copy.role, 1);
    assert_int_equal(copy.inside, 1);
    assert_int_equal(copy.count, 1);
    assert_int_equal(copy.events[0].ended_us, 0);
    assert_int_equal(copy.events[0].begun_us, 1000000);
    assert_int_equal(copy.events[0].process, 3);
    assert_int_equal(copy.events[0].call, 9);
    assert_int_equal(copy.events[0].bytes, 64);
    assert_int_equal(copy.events[0].count, 1);
    assert_memory_equal(event_ring_copy_name(&copy, copy.events[0].name).data, "train", 5);
    event_ring_copy_fini(&copy);

    event_ring_leave(&scene.ring, number, MR_TASK_FAILED);
    copy = read_all(&scene);
    assert_int_equal(copy.inside, 0);
    assert_int_equal(copy.events[0].ended_us, 1000500);
    assert_int_equal(copy.events[0].outcome, MR_TASK_FAILED);
    assert_int_equal(copy.events[0].kind, EVENT_TASK);
    assert_int_equal(copy.events[0].bytes, 64);
    event_ring_copy_fini(&copy);
    scene_close(&scene);
}

/* ---- Sharing. */

static void long_calls_have_records_of_their_own(void **state) {
    scene scene;
    scene_open(&scene);
    for (uint64_t i = 0; i < 50; i++) run(&scene, "long", i, 4 * EVENT_RING_GROUP_US + 1);
    event_ring_copy copy = read_all(&scene);
    assert_int_equal(copy.count, 50);
    for (uint32_t i = 0; i < copy.count; i++) {
        assert_int_equal(copy.events[i].count, 1);
        assert_int_equal(copy.events[i].call, i);
        assert_int_equal(copy.events[i].ended_us - copy.events[i].begun_us, 4 * EVENT_RING_GROUP_US + 1);
    }
    event_ring_copy_fini(&copy);
    scene_close(&scene);
}

static void short_calls_share_a_record(void **state) {
    scene scene;
    scene_open(&scene);
    for (uint64_t i = 0; i < 2000; i++) run(&scene, "short", i, 1);
    event_ring_copy copy = read_all(&scene);
    uint32_t total = 0, most = 0;
    for (uint32_t i = 0; i < copy.count; i++) {
        const event *event = &copy.events[i];
        assert_int_equal(event->call, total); /* number of the first call of the record */
        total += event->count;
        if (event->count > most) most = event->count;
        if (i + 1 < copy.count) assert_int_equal(event->ended_us - event->begun_us, event->count);
        if (i > 0) assert_true(event->begun_us >= copy.events[i - 1].ended_us);
    }
    assert_int_equal(total, 2000);
    assert_in_range(most, EVENT_RING_GROUP_US / 2, EVENT_RING_GROUP_MAX);
    assert_true(copy.count < 2000 / 16);
    event_ring_copy_fini(&copy);
    run(&scene, "short", 2000, 1000); /* may share a record with short calls before it only */
    uint64_t written = scene.ring.next;
    for (uint64_t i = 0; i < 10; i++) run(&scene, "long", i, 1000);
    assert_int_equal(scene.ring.next - written, 10);
    scene_close(&scene);
}

static uint32_t inside(const scene *scene) { /* number of running calls, as a reader sees it */
    event_ring_copy copy = read_all(scene);
    uint32_t inside = copy.inside;
    event_ring_copy_fini(&copy);
    return inside;
}

/* The fast path of enter accepts only a call with the key of the call directly before, and never exceeds the limit. */
static void the_short_way_counts_the_same(void **state) {
    scene scene;
    scene_open(&scene);
    event_ring_call call = {.kind = EVENT_TASK, .name = "short", .name_size = 5, .process = 3, .key = 7};
    assert_false(event_ring_repeat(&scene.ring, 7));
    uint32_t repeats = 0;
    for (uint64_t i = 0; i < 2000; i++) {
        bool again = event_ring_repeat(&scene.ring, 7);
        uint64_t entered = again ? event_ring_again(&scene.ring) : event_ring_enter(&scene.ring, &call);
        repeats += again;
        assert_int_equal(inside(&scene), 1);
        assert_false(event_ring_repeat(&scene.ring, 7)); /* a call runs */
        pass(&scene, 1);
        event_ring_idle(&scene.ring); /* no effect while a call runs */
        assert_int_equal(inside(&scene), 1);
        event_ring_leave(&scene.ring, entered, MR_OK);
        if (i % 3 != 0) continue; /* the next call follows at once */
        event_ring_idle(&scene.ring);
        assert_int_equal(inside(&scene), 0);
    }
    assert_true(repeats > 1800);
    event_ring_rest(&scene.ring, scene.clock.now_us);
    assert_false(event_ring_repeat(&scene.ring, 0));
    assert_false(event_ring_repeat(&scene.ring, 8));
    event_ring_slept(&scene.ring);
    assert_false(event_ring_repeat(&scene.ring, 7));
    event_ring_copy copy = read_all(&scene);
    uint32_t total = 0;
    for (uint32_t i = 0; i < copy.count; i++) {
        total += copy.events[i].count;
        assert_true(copy.events[i].count <= EVENT_RING_GROUP_MAX);
    }
    assert_int_equal(total, 2000);
    event_ring_copy_fini(&copy);
    scene_close(&scene);
}

/* The newest record of scenes[0] may lag in its count. */
static void assert_same(const scene scenes[2], uint32_t running, bool counted) {
    event_ring_copy both[2] = {read_all(&scenes[0]), read_all(&scenes[1])};
    assert_int_equal(both[0].count, both[1].count);
    assert_int_equal(both[0].inside, running);
    assert_int_equal(both[1].inside, running);
    if (both[0].count > 0) {
        event *newest = &both[0].events[both[0].count - 1];
        const event *same = &both[1].events[both[1].count - 1];
        if (counted) assert_int_equal(newest->count, same->count);
        assert_in_range(newest->count, 1, same->count);
        newest->count = same->count;
    }
    assert_memory_equal(both[0].events, both[1].events, both[0].count * sizeof(event));
    for (int i = 0; i < 2; i++) event_ring_copy_fini(&both[i]);
}

static void both_sleep(scene scenes[2], int64_t us) {
    for (int i = 0; i < 2; i++) {
        event_ring_idle(&scenes[i].ring);
        event_ring_rest(&scenes[i].ring, scenes[i].clock.now_us);
    }
    assert_same(scenes, 0, true);
    for (int i = 0; i < 2; i++) {
        pass(&scenes[i], us);
        event_ring_slept(&scenes[i].ring);
    }
}

/* Two rings get the same calls, one of them without keys and so on the slow path only: successive and concurrent calls,
 * failures, and sleeps in between. */
static void both_ways_write_the_same_records(void **state) {
    enum { STEPS = 20000, AT_ONCE = 3 };
    static const char *const names[] = {"often", "seldom"};
    scene scenes[2];
    uint64_t entered[2][AT_ONCE];
    uint32_t running = 0, repeats = 0;
    rng rng;
    rng_init(&rng, 11);
    for (int i = 0; i < 2; i++) scene_open(&scenes[i]);
    for (int step = 0; step < STEPS; step++) {
        uint64_t name = rng_chance(&rng, 0.03), dice = rng_below(&rng, 1000);
        bool enters = running == 0 || (running < AT_ONCE && dice < 10);
        mr_status outcome = dice % 97 == 0 ? MR_TASK_FAILED : MR_OK;
        int64_t us = dice == 500 ? 10 * EVENT_RING_GROUP_US : (int64_t)rng_below(&rng, 2);
        if (running == 0 && dice < 20) both_sleep(scenes, (int64_t)dice);
        for (int i = 0; i < 2; i++) {
            event_ring *ring = &scenes[i].ring;
            uint64_t key = i == 0 ? name + 7 : 0;
            pass(&scenes[i], us);
            if (!enters) {
                event_ring_leave(ring, entered[i][running - 1], outcome);
            } else if (event_ring_repeat(ring, key)) {
                entered[i][running] = event_ring_again(ring);
                repeats++;
            } else {
                entered[i][running] = event_ring_enter(ring, &(event_ring_call){.kind = EVENT_METHOD,
                                                                                .name = names[name],
                                                                                .name_size = strlen(names[name]),
                                                                                .process = 3,
                                                                                .call = (uint64_t)step,
                                                                                .key = key});
            }
        }
        running = enters ? running + 1 : running - 1;
        if (step % 50 != 0) continue;
        for (int i = 0; i < 2; i++) event_ring_idle(&scenes[i].ring);
        assert_same(scenes, running, false);
    }
    assert_true(repeats > STEPS / 8);
    for (int i = 0; i < 2; i++) scene_close(&scenes[i]);
}

static void send(scene *scene, uint64_t process, uint64_t key) {
    if (event_ring_count(&scene->ring, key)) return;
    const event_ring_call call = {.kind = EVENT_SUBMIT, .name = "f", .name_size = 1, .process = process, .key = key};
    event_ring_leave(&scene->ring, event_ring_enter(&scene->ring, &call), MR_OK);
}

/* All calls that a driver sends are counted, for each callee; the record of calls before a sleep ends at the sleep. */
static void calls_that_are_sent(void **state) {
    scene scene;
    scene_open(&scene);
    uint32_t sent[3] = {0}, seen[3] = {0};
    for (int i = 0; i < 500; i++) {
        uint64_t to = (uint64_t)(i / 100 % 2 + i / 300); /* 1 has a key, 0 and 2 have none */
        send(&scene, to, to == 1 ? 77 : 0);
        sent[to]++;
        if (i % 3 == 0) pass(&scene, 1);
        if (i % 50 != 49) continue;
        event_ring_rest(&scene.ring, scene.clock.now_us);
        pass(&scene, 1000);
        event_ring_slept(&scene.ring);
    }
    event_ring_copy copy = read_all(&scene);
    for (uint32_t i = 0; i < copy.count; i++) {
        seen[copy.events[i].process] += copy.events[i].count;
        assert_true(copy.events[i].ended_us - copy.events[i].begun_us <= 2 * EVENT_RING_GROUP_US);
    }
    for (int i = 0; i < 3; i++) assert_int_equal(seen[i], sent[i]);
    assert_true(copy.count < 250 && sent[0] > 0 && sent[1] > 0 && sent[2] > 0); /* calls share records */
    event_ring_copy_fini(&copy);
    scene_close(&scene);
}

static void names_and_callers_do_not_share(void **state) {
    scene scene;
    scene_open(&scene);
    for (uint64_t i = 0; i < 200; i++) run(&scene, "one", i, 1);
    uint64_t written = scene.ring.next;
    run(&scene, "two", 0, 1);
    run(&scene, "one", 0, 1);
    event_ring_call other = {.kind = EVENT_TASK, .name = "one", .name_size = 3, .process = 4};
    event_ring_leave(&scene.ring, event_ring_enter(&scene.ring, &other), MR_OK);
    other.kind = EVENT_METHOD;
    event_ring_leave(&scene.ring, event_ring_enter(&scene.ring, &other), MR_OK);
    assert_int_equal(scene.ring.next - written, 4);
    scene_close(&scene);
}

static void calls_at_once_have_records_of_their_own(void **state) {
    scene scene;
    scene_open(&scene);
    for (uint64_t i = 0; i < 200; i++) run(&scene, "one", i, 1);
    uint64_t first = enter(&scene, "one", 1000), second = enter(&scene, "one", 1001);
    assert_true(second != first);
    pass(&scene, 10);
    event_ring_leave(&scene.ring, first, MR_CANCELLED);
    pass(&scene, 10);
    event_ring_leave(&scene.ring, second, MR_OK);
    uint64_t third = enter(&scene, "one", 1002);
    assert_true(third != second);
    event_ring_copy copy = read_all(&scene);
    const event *last = &copy.events[copy.count - 1];
    assert_int_equal(last[-2].lane, 0);
    assert_int_equal(last[-1].lane, 1);
    assert_int_equal(last[0].lane, 0);
    assert_int_equal(last[-1].call, 1001);
    assert_int_equal(last[-1].ended_us - last[-1].begun_us, 20);
    assert_int_equal(last[-2].outcome, MR_CANCELLED);
    assert_int_equal(last[0].call, 1002);
    event_ring_copy_fini(&copy);
    scene_close(&scene);
}

static void time_without_work_is_no_ones(void **state) {
    scene scene;
    scene_open(&scene);
    for (uint64_t i = 0; i < 200; i++) run(&scene, "one", i, 1);
    event_ring_rest(&scene.ring, scene.clock.now_us);
    int64_t rested_us = scene.clock.now_us;
    uint64_t written = scene.ring.next;
    run(&scene, "one", 200, 1); /* no sleep in between: the same record */
    assert_int_equal(scene.ring.next, written);
    rested_us = scene.clock.now_us;
    event_ring_rest(&scene.ring, rested_us);
    pass(&scene, 1000000);
    event_ring_copy copy = read_all(&scene);
    assert_int_equal(copy.events[copy.count - 1].ended_us, rested_us); /* also during a sleep */
    event_ring_copy_fini(&copy);
    event_ring_slept(&scene.ring);
    run(&scene, "one", 201, 1);
    copy = read_all(&scene);
    const event *last = &copy.events[copy.count - 1];
    assert_int_equal(last[-1].ended_us, rested_us);
    assert_int_equal(last[0].begun_us, rested_us + 1000000);
    assert_int_equal(last[0].count, 1);
    event_ring_copy_fini(&copy);
    scene_close(&scene);
}

/* ---- The ring. */

static void the_oldest_is_overwritten(void **state) {
    scene scene;
    scene_open(&scene);
    uint64_t first = enter(&scene, "first", 0);
    for (uint64_t i = 1; i < COUNT; i++) enter(&scene, "one", i);
    event_ring_copy copy = read_all(&scene);
    assert_int_equal(copy.count, COUNT);
    assert_int_equal(copy.events[0].call, 0);
    event_ring_copy_fini(&copy);
    for (uint64_t i = COUNT; i < 10 * COUNT + 5; i++) enter(&scene, "one", i);
    event_ring_leave(&scene.ring, first, MR_OK); /* the record is overwritten already */
    copy = read_all(&scene);
    assert_int_equal(copy.written, 10 * COUNT + 5);
    assert_true(copy.count >= COUNT - EVENT_RING_BLOCK && copy.count < COUNT);
    for (uint32_t i = 0; i < copy.count; i++) {
        assert_int_equal(copy.events[i].call, 10 * COUNT + 5 - copy.count + i);
        assert_int_equal(copy.events[i].number, copy.events[i].call);
        assert_int_equal(copy.events[i].ended_us, 0);
    }
    event_ring_copy_fini(&copy);
    assert_int_equal(event_ring_read(scene.memory, scene.bytes, 3, &copy), MR_OK);
    assert_int_equal(copy.count, 3);
    assert_int_equal(copy.events[2].call, 10 * COUNT + 4);
    event_ring_copy_fini(&copy);
    scene_close(&scene);
}

static uint8_t name_of(scene *scene, const char *name, size_t size) {
    event_ring_call call = {.kind = EVENT_TASK, .name = name, .name_size = size};
    event_ring_leave(&scene->ring, event_ring_enter(&scene->ring, &call), MR_OK);
    return scene->ring.newest.name;
}

static void names_are_kept_once_and_are_bounded(void **state) {
    scene scene;
    scene_open(&scene);
    char name[256];
    assert_int_equal(name_of(&scene, "add", 3), 0);
    assert_int_equal(name_of(&scene, "and", 3), 1); /* may have the same place in the cache */
    assert_int_equal(name_of(&scene, "aXd", 3), 2);
    assert_int_equal(name_of(&scene, "aYd", 3), 3);
    assert_int_equal(name_of(&scene, "aXd", 3), 2);
    assert_int_equal(name_of(&scene, "aYdx", 3), 3);
    assert_int_equal(name_of(&scene, "", 0), EVENT_RING_NAME_NONE);
    memset(name, 'n', sizeof name);
    assert_int_equal(name_of(&scene, name, 256), EVENT_RING_NAME_NONE);
    assert_int_equal(name_of(&scene, name, 255), 4);
    for (int i = 5; i < 400; i++) {
        snprintf(name, sizeof name, "name%d", i);
        uint8_t number = name_of(&scene, name, strlen(name));
        assert_int_equal(number, i < EVENT_RING_NAMES_MAX ? i : EVENT_RING_NAME_NONE);
    }
    event_ring_copy copy = read_all(&scene);
    assert_int_equal(event_ring_copy_name(&copy, 4).size, 255);
    assert_memory_equal(event_ring_copy_name(&copy, 249).data, "name249", 7);
    assert_memory_equal(event_ring_copy_name(&copy, EVENT_RING_NAME_NONE).data, "?", 1);
    event_ring_copy_fini(&copy);

    scene.ring.page->names[0] = 255; /* a corrupt writer's lengths do no harm */
    scene.ring.page->names_used = UINT32_MAX;
    copy = read_all(&scene);
    for (int i = 0; i < 256; i++) assert_true(event_ring_copy_name(&copy, (uint8_t)i).size <= 255);
    event_ring_copy_fini(&copy);
    scene_close(&scene);
}

static void off_is_off(void **state) {
    event_ring ring = {0};
    assert_false(event_ring_on(&ring));
    uint64_t entered = event_ring_enter(&ring, &(event_ring_call){.name = "one", .name_size = 3});
    event_ring_leave(&ring, entered, MR_OK);
    event_ring_rest(&ring, 1);
    assert_int_equal(ring.next, 0);
    scene scene;
    scene_open(&scene);
    event_ring_leave(&scene.ring, entered, MR_OK); /* a call that began before the ring was opened */
    assert_int_equal(scene.ring.inside, 0);
    for (uint64_t i = 0; i < 100; i++) run(&scene, "short", i, 1);
    event_ring_call call = {.kind = EVENT_TASK, .name = "short", .name_size = 5, .process = 3, .key = 7};
    for (int i = 0; i < 3; i++) event_ring_leave(&scene.ring, event_ring_enter(&scene.ring, &call), MR_OK);
    event_ring_close(&scene.ring); /* ends all access to the memory, also on the fast path */
    assert_false(event_ring_repeat(&scene.ring, 7));
    assert_int_equal(event_ring_enter(&scene.ring, &call), 0);
    event_ring_leave(&scene.ring, 0, MR_OK);
    scene_close(&scene);
}

static void a_file_that_is_no_ring_is_refused(void **state) {
    scene scene;
    scene_open(&scene);
    event_ring_copy copy;
    event_ring_page *page = scene.memory;
    assert_int_equal(event_ring_read(scene.memory, EVENT_RING_PAGE - 1, 10, &copy), MR_CORRUPT);
    assert_int_equal(event_ring_read(scene.memory, scene.bytes - 64, 10, &copy), MR_CORRUPT);
    for (uint32_t capacity = 0; capacity < 3 * COUNT; capacity++) {
        page->capacity = capacity;
        bool good = capacity <= COUNT && capacity != 0 && (capacity & (capacity - 1)) == 0;
        mr_status status = event_ring_read(scene.memory, scene.bytes, 10, &copy);
        assert_int_equal(status, good ? MR_OK : MR_CORRUPT);
        if (good) event_ring_copy_fini(&copy);
    }
    page->capacity = COUNT;
    page->next = UINT64_MAX; /* a corrupt writer's count: records that do not exist are left out */
    copy = read_all(&scene);
    assert_int_equal(copy.count, 0);
    event_ring_copy_fini(&copy);
    page->version++;
    assert_int_equal(event_ring_read(scene.memory, scene.bytes, 10, &copy), MR_CORRUPT);
    assert_non_null(strstr(mr_last_error(), "has format 4; this version reads format 3: use the same Miniray release"));
    page->version--;
    page->magic++;
    assert_int_equal(event_ring_read(scene.memory, scene.bytes, 10, &copy), MR_CORRUPT);
    scene_close(&scene);
}

/* ---- A reader beside a writer: each copy is complete and in order. Every word of a record follows from its number. */

typedef struct race {
    scene scene;
    _Atomic bool stop;
} race;

static event_ring_call made_of(uint64_t call, char name[16]) {
    snprintf(name, 16, "name%d", (int)(call / 64 % 300));
    return (event_ring_call){.kind = EVENT_METHOD,
                             .name = name,
                             .name_size = strlen(name),
                             .process = ~call,
                             .call = call,
                             .bytes = (uint32_t)call * 3};
}

static void *writes(void *argument) {
    race *race = argument;
    for (uint64_t number = 0; !atomic_load(&race->stop); number++) {
        char name[16];
        event_ring_call call = made_of(number, name);
        event_ring_leave(&race->scene.ring, event_ring_enter(&race->scene.ring, &call), (mr_status)(number % 16));
        pass(&race->scene, 1);
    }
    return NULL;
}

static void check_one(const event *event) {
    char name[16];
    event_ring_call expected = made_of(event->number, name);
    assert_int_equal(event->call, expected.call);
    assert_int_equal(event->process, expected.process);
    assert_int_equal(event->bytes, expected.bytes);
    assert_int_equal(event->lane, 0);
    assert_int_equal(event->kind, expected.kind);
    assert_int_equal(event->count, 1);
    assert_int_equal(event->begun_us, 1000000 + (int64_t)event->number);
    if (event->ended_us != 0) assert_in_range(event->ended_us, event->begun_us, event->begun_us + 1);
}

static void a_reader_beside_a_writer_gets_whole_records(void **state) {
    race race = {0};
    pthread_t thread;
    uint64_t seen = 0, newest = 0;
    scene_open(&race.scene);
    assert_int_equal(pthread_create(&thread, NULL, writes, &race), 0);
    for (int i = 0; i < 3000 || ((newest < 200 * COUNT || seen < 1000) && i < 10000000); i++) {
        event_ring_copy copy = read_all(&race.scene);
        for (uint32_t k = 0; k < copy.count; k++) {
            check_one(&copy.events[k]);
            if (k > 0) assert_true(copy.events[k].number > copy.events[k - 1].number);
        }
        if (copy.count > 0) {
            assert_true(copy.events[copy.count - 1].number + 1 >= newest);
            newest = copy.events[copy.count - 1].number + 1;
        }
        seen += copy.count;
        event_ring_copy_fini(&copy);
    }
    atomic_store(&race.stop, true);
    pthread_join(thread, NULL);
    assert_true(seen >= 1000 && newest >= 200 * COUNT);
    scene_close(&race.scene);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes_fit_each_other),
        cmocka_unit_test(a_call_is_seen_while_it_runs_and_after),
        cmocka_unit_test(long_calls_have_records_of_their_own),
        cmocka_unit_test(short_calls_share_a_record),
        cmocka_unit_test(the_short_way_counts_the_same),
        cmocka_unit_test(both_ways_write_the_same_records),
        cmocka_unit_test(calls_that_are_sent),
        cmocka_unit_test(names_and_callers_do_not_share),
        cmocka_unit_test(calls_at_once_have_records_of_their_own),
        cmocka_unit_test(time_without_work_is_no_ones),
        cmocka_unit_test(the_oldest_is_overwritten),
        cmocka_unit_test(names_are_kept_once_and_are_bounded),
        cmocka_unit_test(off_is_off),
        cmocka_unit_test(a_file_that_is_no_ring_is_refused),
        cmocka_unit_test(a_reader_beside_a_writer_gets_whole_records),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
