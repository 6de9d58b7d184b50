/* store_client_test.c — objects of several store clients and a store server, in one process. */
#include "store/store_client.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/rng.h"
#include "store/client_internal.h"
#include "tests/support/sanitized.h"
#include "tests/support/store_fixture.h"

#define assert_ok(call) assert_int_equal((call), MR_OK)
enum { KB = 1024, MB = 1024 * 1024 };

static store_fixture the_world;
static store_fixture *const w = &the_world;
static store_client *at(unsigned index) { return w->stores[index].store; }

/* Passes an object from one store to another as a message does: the receiver takes its hold before the sender drops. */
static store_client_object *hand_over(unsigned from, store_client_object *object, unsigned to, bool sender_drops) {
    object_ref ref;
    store_client_object *taken;
    store_client_ref(at(from), object, &ref);
    assert_ok(store_client_take(at(to), &ref, &taken));
    if (sender_drops) store_client_drop(at(from), object);
    store_client_check(at(from));
    store_client_check(at(to));
    return taken;
}

static void objects_of_every_size_go_from_one_to_another(void **state) {
    static const uint64_t sizes[] = {
        0, 1, 63, 64, 4095, STORE_CLIENT_SMALL - 1, STORE_CLIENT_SMALL, STORE_CLIENT_SMALL + 1, MB, MB + 1, 5 * MB + 3};
    store_fixture_open(w, 64 * MB, NULL);
    store_fixture_join(w, 0);
    store_fixture_join(w, 1);
    for (unsigned i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        store_client_object *made;
        assert_ok(store_fixture_make(w, 0, sizes[i], (uint8_t)i, &made));
        assert_int_equal(store_client_size(made), sizes[i]);
        assert_ok(store_fixture_look(w, 0, made, (uint8_t)i));
        store_client_object *taken = hand_over(0, made, 1, true);
        assert_int_equal(store_client_size(taken), sizes[i]);
        store_server_collect(w->server);
        assert_ok(store_fixture_look(w, 1, taken, (uint8_t)i));
        /* store_fixture_look writes into the view: the second view must not show that */
        assert_ok(store_fixture_look(w, 1, taken, (uint8_t)i));
        store_client_drop(at(1), taken);
    }
    store_server_collect(w->server);
    store_client_poll(at(0));
    assert_int_equal(store_server_stats_now(w->server).objects, 0);
    assert_int_equal(store_client_stats_now(at(0)).objects, 0);
    assert_int_equal(store_client_stats_now(at(0)).used, 0);
    store_fixture_close(w);
}

static void an_unshared_object_is_freed_by_its_maker(void **state) {
    store_fixture_open(w, 32 * MB, NULL);
    store_fixture_join(w, 0);
    for (unsigned i = 0; i < (SANITIZED ? 600 : 3000); i++) { /* far more than fits into memory, without a collection */
        store_client_object *made;
        assert_ok(store_fixture_make(w, 0, i % 7 == 0 ? 3 * MB : i % 3 == 0 ? 100 * KB : 100, 1, &made));
        store_client_drop(at(0), made);
        if (i > 0) assert_int_equal(store_server_stats_now(w->server).objects, 0);
    }
    assert_int_equal(store_server_stats_now(w->server).collections, 0);
    assert_int_equal(store_server_stats_now(w->server).pages, 1);
    store_client_object *half;
    void *data;
    assert_ok(store_client_create(at(0), 5 * MB, &half, &data));
    store_client_abort(at(0), half);
    assert_int_equal(store_client_stats_now(at(0)).objects, 0);
    store_fixture_close(w);
}

static void an_object_outlives_its_maker_while_it_is_held(void **state) {
    store_fixture_open(w, 64 * MB, NULL);
    store_fixture_join(w, 0);
    store_fixture_join(w, 1);
    store_client_object *small, *page, *own, *unseen, *half;
    void *data;
    assert_ok(store_fixture_make(w, 0, 100, 1, &small));
    assert_ok(store_fixture_make(w, 0, 100 * KB, 2, &page));
    assert_ok(store_fixture_make(w, 0, 4 * MB, 3, &own));
    assert_ok(store_fixture_make(w, 0, 100 * KB, 4, &unseen));
    assert_ok(store_client_create(at(0), 4 * MB, &half, &data));
    store_client_object *kept[3] = {hand_over(0, small, 1, false), hand_over(0, page, 1, false),
                                    hand_over(0, own, 1, false)};
    store_fixture_kill(w, 0);
    store_server_collect(w->server);
    assert_int_equal(store_server_stats_now(w->server).objects, 3);
    assert_int_equal(store_server_stats_now(w->server).processes, 1);
    store_fixture_join(w, 2); /* a new process uses the freed memory */
    store_client_object *other;
    assert_ok(store_fixture_make(w, 2, 200 * KB, 9, &other));
    for (unsigned i = 0; i < 3; i++) {
        assert_ok(store_fixture_look(w, 1, kept[i], (uint8_t)(i + 1)));
        store_client_drop(at(1), kept[i]);
    }
    store_server_collect(w->server);
    assert_int_equal(store_server_stats_now(w->server).objects, 1);
    store_fixture_leave(w, 2);
    store_server_collect(w->server);
    assert_int_equal(store_server_stats_now(w->server).objects, 0);
    assert_int_equal(store_server_stats_now(w->server).bytes, 0);
    store_fixture_close(w);
}

static uint64_t place_of(unsigned index, store_client_object *object) {
    object_ref ref;
    store_client_ref(at(index), object, &ref);
    return atomic_load(&((object_header *)arena_at(&w->arena, ref.slot))->offset);
}

/* Several processes create and drop large objects: each gets the stretches again that its page tables contain. */
static void a_process_gets_the_stretch_that_it_had(void **state) {
    store_fixture_open(w, 128 * MB, NULL);
    store_client_object *made[3], *taken[3];
    uint64_t places[3];
    for (unsigned i = 0; i < 4; i++) store_fixture_join(w, i);
    store_client_object *first; /* process 3 leases its slots and tables now */
    assert_ok(store_fixture_make(w, 3, 100, 1, &first));
    uint64_t before = store_server_stats_now(w->server).bytes;
    for (unsigned round = 0; round < 6; round++) {
        for (unsigned i = 0; i < 3; i++) { /* in another order each time */
            unsigned who = (i * (round % 2 + 1) + round) % 3;
            assert_ok(store_fixture_make(w, who, 5 * MB, (uint8_t)(10 * round + who), &made[who]));
            if (round > 0) assert_int_equal(place_of(who, made[who]), places[who]);
            places[who] = place_of(who, made[who]);
        }
        for (unsigned i = 0; i < 3; i++) taken[i] = hand_over(i, made[i], 3, true);
        for (unsigned i = 0; i < 3; i++) {
            assert_ok(store_fixture_look(w, 3, taken[i], (uint8_t)(10 * round + i)));
            store_client_drop(at(3), taken[i]);
        }
        store_server_collect(w->server); /* returns the memory to the store server */
        for (unsigned i = 0; i < 3; i++) store_client_poll(at(i));
        assert_int_equal(store_server_stats_now(w->server).bytes, before);
    }
    store_client_object *other; /* takes a stretch that process `loser` had: that one gets another */
    unsigned loser = 0;
    assert_ok(store_fixture_make(w, 3, 5 * MB, 7, &other));
    while (loser < 3 && places[loser] != place_of(3, other)) loser++;
    assert_in_range(loser, 0, 2);
    for (unsigned i = 1; i <= 3; i++) { /* `loser` is the last one */
        unsigned who = (loser + i) % 3;
        assert_ok(store_fixture_make(w, who, 5 * MB, (uint8_t)who, &made[who]));
        assert_int_equal(place_of(who, made[who]) == places[who], who != loser);
    }
    assert_ok(store_fixture_look(w, 3, other, 7));
    for (unsigned i = 0; i < 3; i++) assert_ok(store_fixture_look(w, i, made[i], (uint8_t)i));
    for (unsigned i = 0; i < 4; i++) store_fixture_leave(w, i);
    store_fixture_close(w);
}

/* Objects held by the store server need no process; its holds are counted. */
static void the_store_server_can_hold_an_object_itself(void **state) {
    store_fixture_open(w, 64 * MB, NULL);
    store_fixture_join(w, 0);
    store_client_object *made, *taken;
    object_ref ref;
    assert_ok(store_fixture_make(w, 0, 4 * MB, 3, &made));
    store_client_ref(at(0), made, &ref);
    assert_ok(store_server_keep(w->server, &ref));
    assert_ok(store_server_keep(w->server, &ref));
    store_fixture_kill(w, 0);
    store_server_collect(w->server);
    assert_int_equal(store_server_stats_now(w->server).objects, 1);
    store_server_let_go(w->server, &ref);
    store_server_collect(w->server);
    store_fixture_join(w, 1);
    assert_ok(store_client_take(at(1), &ref, &taken));
    assert_ok(store_fixture_look(w, 1, taken, 3));
    store_server_let_go(w->server, &ref);
    store_client_drop(at(1), taken);
    store_server_collect(w->server);
    assert_int_equal(store_server_stats_now(w->server).objects, 0);
    assert_int_equal(store_server_keep(w->server, &ref), MR_OBJECT_LOST);
    assert_int_equal(store_server_keep(w->server, &(object_ref){.slot = 64}), MR_OBJECT_LOST);
    store_fixture_close(w);
}

static void a_stale_ref_finds_nothing(void **state) {
    store_fixture_open(w, 64 * MB, NULL);
    store_fixture_join(w, 0);
    store_fixture_join(w, 1);
    store_client_object *made, *taken, *again;
    object_ref ref, wrong;
    assert_ok(store_fixture_make(w, 0, 100, 1, &made));
    store_client_ref(at(0), made, &ref);
    assert_ok(store_client_take(at(0), &ref, &again)); /* a ref that returns to the creating process */
    assert_ptr_equal(again, made);
    store_client_drop(at(0), again);
    wrong = ref;
    wrong.sequence++;
    assert_int_equal(store_client_take(at(1), &wrong, &taken), MR_NOT_FOUND);
    wrong = ref;
    wrong.id.number++;
    assert_int_equal(store_client_take(at(1), &wrong, &taken), MR_NOT_FOUND);
    wrong = ref;
    wrong.slot += 8;
    assert_int_equal(store_client_take(at(1), &wrong, &taken), MR_INVALID);
    wrong.slot = UINT64_MAX - 63;
    assert_int_equal(store_client_take(at(1), &wrong, &taken), MR_INVALID);
    wrong.slot = 0;
    assert_int_equal(store_client_take(at(1), &wrong, &taken), MR_INVALID);
    store_client_drop(at(0), made);
    assert_ok(store_client_take(at(1), &ref, &taken)); /* not collected yet, so it can be held */
    store_server_collect(w->server);
    assert_ok(store_fixture_look(w, 1, taken, 1));
    store_client_drop(at(1), taken);
    store_server_collect(w->server);
    assert_int_equal(store_client_take(at(1), &ref, &taken), MR_NOT_FOUND);
    assert_int_equal(store_client_take(at(0), &ref, &taken), MR_NOT_FOUND);
    assert_ok(store_fixture_make(w, 0, 100, 2, &made)); /* in the same slot */
    object_ref next;
    store_client_ref(at(0), made, &next);
    assert_int_equal(next.slot, ref.slot);
    assert_int_equal(store_client_take(at(1), &ref, &taken), MR_NOT_FOUND);
    store_fixture_close(w);
}

static void a_deleted_object_is_lost_to_all(void **state) {
    store_fixture_open(w, 64 * MB, NULL);
    store_fixture_join(w, 0);
    store_fixture_join(w, 1);
    store_client_object *made;
    void *data, *none;
    uint64_t size;
    assert_ok(store_fixture_make(w, 0, 4 * MB, 1, &made));
    store_client_object *taken = hand_over(0, made, 1, false);
    assert_ok(store_client_view(at(1), taken, &data, &size));
    store_client_delete(at(0), made);
    store_server_collect(w->server);
    assert_int_equal(((uint8_t *)data)[0], 1); /* an existing view stays valid */
    assert_int_equal(store_client_view(at(0), made, &none, &size), MR_OBJECT_LOST);
    store_client_unview(at(1), taken);
    store_server_collect(w->server);
    assert_int_equal(store_server_stats_now(w->server).bytes, 0); /* the memory is free although the object is held */
    assert_int_equal(store_server_stats_now(w->server).objects, 1);
    assert_int_equal(store_client_view(at(1), taken, &none, &size), MR_OBJECT_LOST);
    store_client_drop(at(0), made);
    store_client_drop(at(1), taken);
    store_server_collect(w->server);
    store_client_poll(at(0));
    assert_int_equal(store_server_stats_now(w->server).objects, 0);
    store_fixture_close(w);
}

static void tables_grow(void **state) {
    enum { MANY = 10000 };
    static store_client_object *made[MANY], *taken[MANY];
    store_fixture_open(w, 64 * MB, NULL);
    store_fixture_join(w, 0);
    store_fixture_join(w, 1);
    for (unsigned i = 0; i < MANY; i++) {
        assert_ok(store_fixture_make(w, 0, 32, (uint8_t)i, &made[i]));
        taken[i] = hand_over(0, made[i], 1, true);
    }
    store_server_collect(w->server);
    assert_int_equal(store_server_stats_now(w->server).objects, MANY);
    for (unsigned i = 0; i < MANY; i++) assert_ok(store_fixture_look(w, 1, taken[i], (uint8_t)i));
    for (unsigned i = 0; i < MANY; i += 2) store_client_drop(at(1), taken[i]);
    store_server_collect(w->server);
    assert_int_equal(store_server_stats_now(w->server).objects, MANY); /* GONE until the creating process polls */
    store_client_poll(at(0));
    assert_int_equal(store_server_stats_now(w->server).objects, MANY / 2);
    for (unsigned i = 1; i < MANY; i += 2) assert_ok(store_fixture_look(w, 1, taken[i], (uint8_t)i));
    store_fixture_close(w);
}

/* ---- Full memory. */

static void unused_memory_is_returned_when_another_needs_it(void **state) {
    store_fixture_open(w, 40 * MB, NULL);
    store_fixture_join(w, 0);
    store_fixture_join(w, 1);
    store_client_object *many[3], *large, *first;
    assert_ok(store_fixture_make(w, 1, 1, 1, &first)); /* its slots and tables are at the start of the arena */
    for (unsigned i = 0; i < 3; i++) assert_ok(store_fixture_make(w, 0, 9 * MB, 1, &many[i]));
    for (unsigned i = 0; i < 3; i++) store_client_drop(at(0), many[i]);
    assert_true(store_client_stats_now(at(0)).spare >= 27 * MB);
    assert_int_equal(store_fixture_make(w, 1, 30 * MB, 2, &large),
                     MR_BUSY); /* process 0 is asked to return unused memory */
    assert_true(w->nudges > 0);
    store_client_poll(at(0));
    assert_int_equal(store_client_stats_now(at(0)).spare, 0);
    assert_ok(store_fixture_make(w, 1, 30 * MB, 2, &large));
    store_fixture_close(w);
}

static void the_least_used_objects_are_spilled_and_come_back(void **state) {
    store_fixture_open(w, 40 * MB, NULL);
    store_fixture_join(w, 0);
    store_fixture_join(w, 1);
    store_client_object *made[4], *large;
    for (unsigned i = 0; i < 4; i++) {
        virtual_clock_advance(&w->clock, w->clock.now_us + 10);
        assert_ok(store_fixture_make(w, 0, 9 * MB, (uint8_t)i, &made[i]));
    }
    store_client_object *other = hand_over(0, made[0], 1, false);
    virtual_clock_advance(&w->clock, w->clock.now_us + 10);
    assert_ok(store_fixture_look(w, 1, other, 0)); /* the most recently used object */
    void *data;
    uint64_t size;
    assert_ok(store_client_view(at(0), made[1], &data, &size)); /* the least recently used object, but pinned */
    assert_int_equal(store_fixture_make(w, 1, 9 * MB, 9, &large), MR_BUSY);
    assert_true(store_client_retry_us(at(1)) > 0);
    assert_true(store_fixture_disk(w) > 0);
    assert_ok(store_fixture_make(w, 1, 9 * MB, 9, &large));
    assert_int_equal(store_server_stats_now(w->server).spilled, 1);
    assert_int_equal(store_fixture_file_count(w), 1);
    store_client_unview(at(0), made[1]);
    store_client_poll(at(0));
    /* The third object is on disk: restoring it requires that another one is spilled. */
    assert_int_equal(store_fixture_look(w, 0, made[2], 2), MR_BUSY);
    for (unsigned i = 0; i < 10 && store_fixture_look(w, 0, made[2], 2) == MR_BUSY; i++) store_fixture_disk(w);
    assert_ok(store_fixture_look(w, 0, made[2], 2));
    assert_true(store_server_stats_now(w->server).restored >= 1);
    for (unsigned i = 0; i < 4; i++) { /* restores each object in turn */
        for (unsigned j = 0; j < 10 && store_fixture_look(w, 0, made[i], (uint8_t)i) == MR_BUSY; j++)
            store_fixture_disk(w);
        assert_ok(store_fixture_look(w, 0, made[i], (uint8_t)i));
    }
    for (unsigned i = 0; i < 4; i++) store_client_drop(at(0), made[i]);
    store_client_drop(at(1), other);
    store_client_drop(at(1), large);
    store_fixture_disk(w);
    store_server_collect(w->server);
    store_client_poll(at(0));
    assert_int_equal(store_server_stats_now(w->server).objects, 0);
    assert_int_equal(store_server_stats_now(w->server).spilled_bytes, 0);
    assert_int_equal(store_fixture_file_count(w), 0);
    store_fixture_close(w);
}

/* A view that begins while the object is being saved keeps it in memory; the file is dropped. */
static void a_look_stops_a_spill(void **state) {
    store_fixture_open(w, 40 * MB, NULL);
    store_fixture_join(w, 0);
    store_client_object *made[2], *large;
    for (unsigned i = 0; i < 2; i++) assert_ok(store_fixture_make(w, 0, 18 * MB, (uint8_t)i, &made[i]));
    assert_int_equal(store_fixture_make(w, 0, 18 * MB, 9, &large), MR_BUSY);
    assert_true(w->job_count > 0);
    void *data;
    uint64_t size;
    for (unsigned i = 0; i < 2; i++) assert_ok(store_client_view(at(0), made[i], &data, &size));
    store_fixture_disk(w);
    assert_true(store_server_stats_now(w->server).voided > 0);
    assert_int_equal(store_fixture_file_count(w), 0);
    assert_int_equal(store_fixture_make(w, 0, 18 * MB, 9, &large), MR_BUSY);
    assert_int_equal(w->job_count, 0); /* no object can be spilled: all are pinned */
    for (unsigned i = 0; i < 2; i++) store_client_unview(at(0), made[i]);
    for (unsigned i = 0; i < 2; i++) assert_ok(store_fixture_look(w, 0, made[i], (uint8_t)i));
    store_fixture_close(w);
}

static void no_room_is_said_with_the_sizes(void **state) {
    store_fixture_open(w, 40 * MB, &(store_server_options){.patience_us = 1000});
    store_fixture_join(w, 0);
    w->disk_full = true;
    store_client_object *made, *large;
    assert_ok(store_fixture_make(w, 0, 30 * MB, 1, &made));
    assert_int_equal(store_fixture_make(w, 0, 400 * MB, 9, &large), MR_TOO_LARGE);
    assert_int_equal(store_fixture_make(w, 0, 20 * MB, 9, &large), MR_BUSY);
    w->now_us += 2000;
    assert_true(store_fixture_disk(w) > 0); /* fails */
    mr_status status = store_fixture_make(w, 0, 20 * MB, 9, &large);
    assert_int_equal(status, MR_NOMEM);
    assert_non_null(strstr(mr_last_error(), "20971520"));
    assert_non_null(strstr(mr_last_error(), ": 31457280 bytes in 1 object)")); /* the process that holds the memory */
    assert_non_null(strstr(mr_last_error(), ", and no more can be spilled: the disk is full; release some"));
    assert_ok(store_fixture_look(w, 0, made, 1)); /* the failed save changed nothing */
    w->disk_full = false;
    w->now_us += 2 * STORE_SERVER_DISK_RETRY_US;
    assert_int_equal(store_fixture_make(w, 0, 20 * MB, 9, &large), MR_BUSY);
    store_fixture_disk(w);
    assert_ok(store_fixture_make(w, 0, 20 * MB, 9, &large));
    store_fixture_close(w);
}

/* The same for objects that share a stretch: patience_us passes once, and the error has the object's size. */
static void no_room_for_a_part_of_a_stretch(void **state) {
    enum { PATIENCE_US = 5000, STEP_US = 50 };
    const uint64_t sizes[] = {MB, 20 * 1024};
    for (unsigned i = 0; i < 2; i++) {
        store_client_object *made;
        mr_status status = MR_OK;
        store_fixture_open(w, 20 * MB, &(store_server_options){.patience_us = PATIENCE_US});
        store_fixture_join(w, 0);
        w->disk_full = true;
        while (status == MR_OK) status = store_fixture_make(w, 0, sizes[i], 1, &made);
        int64_t since_us = w->now_us;
        for (; status == MR_BUSY && w->now_us - since_us < 10 * PATIENCE_US; w->now_us += STEP_US) {
            store_fixture_disk(w);
            status = store_fixture_make(w, 0, sizes[i], 1, &made);
        }
        assert_int_equal(status, MR_NOMEM);
        assert_in_range(w->now_us - since_us, PATIENCE_US, PATIENCE_US + 10 * STEP_US);
        assert_non_null(strstr(mr_last_error(), "; release some"));
        assert_null(strstr(mr_last_error(), "no room for 8388608"));
        store_fixture_close(w);
    }
}

static void a_bad_file_is_a_lost_object(void **state) {
    store_fixture_open(w, 40 * MB, NULL);
    store_fixture_join(w, 0);
    store_client_object *made, *large;
    assert_ok(store_fixture_make(w, 0, 30 * MB, 1, &made));
    assert_int_equal(store_fixture_make(w, 0, 20 * MB, 9, &large), MR_BUSY);
    store_fixture_disk(w);
    w->disk_bad = true;
    assert_ok(store_fixture_make(w, 0, 5 * MB, 9, &large));
    assert_int_equal(store_fixture_look(w, 0, made, 1), MR_BUSY);
    store_fixture_disk(w);
    assert_int_equal(store_fixture_look(w, 0, made, 1), MR_OBJECT_LOST);
    assert_int_equal(store_fixture_file_count(w), 0);
    store_client_drop(at(0), made);
    store_server_collect(w->server);
    store_client_poll(at(0));
    assert_int_equal(store_server_stats_now(w->server).objects, 1);
    store_fixture_close(w);
}

/* ---- Invalid content of shared memory. */

static void nonsense_in_shared_memory_harms_no_book(void **state) {
    for (uint64_t seed = 1; seed <= 20; seed++) {
        rng rng;
        rng_init(&rng, seed);
        store_fixture_open(w, 40 * MB, NULL);
        store_fixture_join(w, 0);
        store_fixture_join(w, 1);
        store_client_object *good, *made[8];
        assert_ok(store_fixture_make(w, 1, 100 * KB, 5, &good));
        object_ref refs[8], own;
        store_client_ref(at(1), good, &own);
        for (unsigned i = 0; i < 8; i++) {
            assert_ok(store_fixture_make(w, 0, i % 2 ? 2 * MB : 1000, 1, &made[i]));
            store_client_ref(at(0), made[i], &refs[i]);
        }
        for (unsigned i = 0; i < 200; i++) { /* the process writes random words into its slots */
            object_header *header = arena_at(&w->arena, refs[i % 8].slot);
            _Atomic uint64_t *words = &header->word;
            words[rng_below(&rng, 7)] = rng_chance(&rng, 0.3) ? rng_next(&rng) : rng_below(&rng, 1 << 20);
            if (i % 50 == 0) store_server_collect(w->server);
            store_client_object *taken;
            if (store_client_take(at(1), &refs[i % 8], &taken) == MR_OK) {
                (void)store_fixture_look(w, 1, taken, 0);
                store_client_drop(at(1), taken);
            }
        }
        store_fixture_kill(w, 0);
        store_server_collect(w->server);
        assert_ok(store_fixture_look(w, 1, good, 5));
        store_fixture_close(w); /* asserts that all memory was returned */
    }
}

/* ---- Random operations and deaths. */

enum { HELD_MAX = 64 };
typedef struct held {
    store_client_object *object;
    uint8_t seed;
    bool viewed;
} held;

typedef struct side {
    held held[HELD_MAX];
    unsigned count;
} side;

static side sides[STORE_FIXTURE_STORES];

static void random_step(rng *rng) {
    unsigned from = (unsigned)rng_below(rng, STORE_FIXTURE_STORES), to = (unsigned)rng_below(rng, STORE_FIXTURE_STORES);
    side *side = &sides[from];
    if (at(from) == NULL) {
        store_fixture_join(w, from);
        return;
    }
    unsigned pick = side->count == 0 ? 0 : (unsigned)rng_below(rng, side->count);
    held *held = &side->held[pick];
    switch (rng_below(rng, 12)) {
    case 0:
    case 1:
    case 2:
    case 3: {
        if (side->count == HELD_MAX) return;
        uint64_t size = rng_chance(rng, 0.4)   ? rng_below(rng, STORE_CLIENT_SMALL)
                        : rng_chance(rng, 0.7) ? rng_below(rng, MB)
                                               : rng_below(rng, 6 * MB);
        uint8_t seed = (uint8_t)rng_next(rng);
        store_client_object *made;
        mr_status status = store_fixture_make(w, from, size, seed, &made);
        assert_true(status == MR_OK || status == MR_BUSY || status == MR_NOMEM);
        if (status == MR_OK) side->held[side->count++] = (struct held){made, seed, false};
        return;
    }
    case 4:
    case 5: {
        if (side->count == 0 || at(to) == NULL || sides[to].count == HELD_MAX) return;
        object_ref ref;
        store_client_object *taken;
        store_client_ref(at(from), held->object, &ref);
        mr_status status = store_client_take(at(to), &ref, &taken);
        assert_true(status == MR_OK || status == MR_BUSY);
        if (status == MR_OK) sides[to].held[sides[to].count++] = (struct held){taken, held->seed, false};
        return;
    }
    case 6:
    case 7:
    case 8: {
        if (side->count == 0) return;
        store_client_drop(at(from), held->object);
        *held = side->held[--side->count];
        return;
    }
    case 9: {
        if (side->count == 0) return;
        mr_status status = store_fixture_look(w, from, held->object, held->seed);
        assert_true(status == MR_OK || status == MR_BUSY);
        return;
    }
    case 10: {
        w->now_us += 1000;
        virtual_clock_advance(&w->clock, w->now_us);
        if (rng_chance(rng, 0.5)) store_fixture_disk(w);
        store_server_tick(w->server, w->now_us);
        store_client_poll(at(from));
        return;
    }
    default:
        if (!rng_chance(rng, 0.1)) return;
        while (w->job_count > 0) store_fixture_disk(w); /* a restore must be answered while its store is open */
        if (rng_chance(rng, 0.5))
            store_fixture_kill(w, from);
        else
            store_fixture_leave(w, from);
        side->count = 0;
        return;
    }
}

static void a_busy_life_with_deaths_leaves_nothing(void **state) {
    for (uint64_t seed = 1; seed <= (SANITIZED ? 2 : 6); seed++) {
        rng rng;
        rng_init(&rng, seed);
        memset(sides, 0, sizeof sides);
        store_fixture_open(w, 48 * MB, &(store_server_options){.patience_us = 20000});
        for (unsigned i = 0; i < 1200; i++) random_step(&rng);
        for (unsigned i = 0; i < STORE_FIXTURE_STORES; i++)
            while (sides[i].count > 0) store_client_drop(at(i), sides[i].held[--sides[i].count].object);
        while (w->job_count > 0) store_fixture_disk(w);
        store_server_collect(w->server);
        for (unsigned i = 0; i < STORE_FIXTURE_STORES; i++)
            if (at(i) != NULL) store_client_poll(at(i));
        store_server_stats stats = store_server_stats_now(w->server);
        assert_int_equal(stats.objects, 0);
        assert_int_equal(stats.spilled_bytes, 0);
        assert_int_equal(store_fixture_file_count(w), 0);
        for (unsigned i = 0; i < STORE_FIXTURE_STORES; i++)
            if (at(i) != NULL) store_fixture_leave(w, i);
        assert_int_equal(store_server_stats_now(w->server).bytes, 0);
        if (seed == 1)
            print_message("seed 1: %llu collected, %llu spilled, %llu restored, %llu in vain\n",
                          (unsigned long long)stats.collected, (unsigned long long)stats.spilled,
                          (unsigned long long)stats.restored, (unsigned long long)stats.voided);
        store_fixture_close(w);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(objects_of_every_size_go_from_one_to_another),
        cmocka_unit_test(an_unshared_object_is_freed_by_its_maker),
        cmocka_unit_test(an_object_outlives_its_maker_while_it_is_held),
        cmocka_unit_test(a_process_gets_the_stretch_that_it_had),
        cmocka_unit_test(the_store_server_can_hold_an_object_itself),
        cmocka_unit_test(a_stale_ref_finds_nothing),
        cmocka_unit_test(a_deleted_object_is_lost_to_all),
        cmocka_unit_test(tables_grow),
        cmocka_unit_test(unused_memory_is_returned_when_another_needs_it),
        cmocka_unit_test(the_least_used_objects_are_spilled_and_come_back),
        cmocka_unit_test(a_look_stops_a_spill),
        cmocka_unit_test(no_room_for_a_part_of_a_stretch),
        cmocka_unit_test(no_room_is_said_with_the_sizes),
        cmocka_unit_test(a_bad_file_is_a_lost_object),
        cmocka_unit_test(nonsense_in_shared_memory_harms_no_book),
        cmocka_unit_test(a_busy_life_with_deaths_leaves_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
