/* object_header_test.c — the protocol of holder and store server (object_header.h) in every order of their steps.
 *
 * A collection of the store server has four steps, and spilling five, with the end of the save. A holder has two steps:
 * it writes the entry, then reads the slot. The tests run the holder's steps between the store server's in every
 * interleaving. Invariants: after a confirmed hold or pin the object exists and its bytes are right; a refused one
 * leaves no entry; and an object without holds is collected in the end. */
#include "store/object_header.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "store/server_internal.h"
#include "tests/support/store_fixture.h"

enum { MB = 1 << 20, SIZE = 2 * MB };

static store_fixture the_world;
static store_fixture *const w = &the_world;

static void collect_step(unsigned step) {
    switch (step) {
    case 0: store_server_mark(w->server); break;
    case 1: store_server_condemn(w->server); break;
    case 2: store_server_mark(w->server); break;
    case 3: store_server_decide(w->server); break;
    }
}

static void spill_step(unsigned step) {
    switch (step) {
    case 0: store_server_mark(w->server); break;
    case 1: store_server_spill_choose(w->server, SIZE); break;
    case 2: store_server_mark(w->server); break;
    case 3: store_server_spill_send(w->server, 0); break;
    case 4: store_fixture_disk(w); break;
    }
}

typedef struct scene {
    object_ref ref;
    object_header *header;
    hold_entry *entry; /* of the second process, whose steps the test runs one by one */
} scene;

/* One object, created and shared by the first process. */
static store_client_object *open_scene(scene *scene) {
    store_client_object *made;
    store_fixture_open(w, 32 * MB, NULL);
    store_fixture_join(w, 0);
    store_fixture_join(w, 1);
    assert_int_equal(store_fixture_make(w, 0, SIZE, 7, &made), MR_OK);
    store_client_ref(w->stores[0].store, made, &scene->ref);
    scene->header = arena_at(&w->arena, scene->ref.slot);
    process_book *second = map_get(&w->server->by_id, w->stores[1].process);
    scene->entry = &page_of(w->server, second)->entries[100];
    return made;
}

static void enter(scene *scene, uint64_t flags) {
    atomic_store(scene->entry, scene->ref.slot | flags);
    cpu_fence();
}

/* Takes a hold while the store server collects the object, which has no other hold. */
static void a_hold_is_worth_something_or_refused(void **state) {
    unsigned worth = 0, refused = 0;
    for (unsigned enters = 0; enters <= 4; enters++) {
        for (unsigned looks = enters; looks <= 4; looks++) {
            scene scene;
            store_client_object *made = open_scene(&scene);
            store_client_drop(w->stores[0].store, made);
            bool valid = false;
            for (unsigned step = 0; step <= 4; step++) {
                if (step == enters) enter(&scene, 0);
                if (step == looks) valid = object_header_confirm_hold(scene.header, scene.ref.sequence);
                if (step < 4) collect_step(step);
            }
            worth += valid;
            refused += !valid;
            if (!valid) atomic_store(scene.entry, 0);
            store_server_collect(w->server);
            store_client_poll(w->stores[0].store);
            assert_int_equal(store_server_stats_now(w->server).objects, valid);
            if (valid) { /* the object can be held again by the same process */
                store_client_object *taken;
                assert_int_equal(store_client_take(w->stores[1].store, &scene.ref, &taken), MR_OK);
                assert_int_equal(store_fixture_look(w, 1, taken, 7), MR_OK);
                store_client_drop(w->stores[1].store, taken);
                atomic_store(scene.entry, 0);
                store_server_collect(w->server);
                store_client_poll(w->stores[0].store);
                assert_int_equal(store_server_stats_now(w->server).objects, 0);
            }
            store_fixture_close(w);
        }
    }
    assert_true(worth > 0 && refused > 0);
}

/* Takes a view while the store server spills. */
static void a_pin_keeps_the_bytes_or_says_that_they_are_gone(void **state) {
    unsigned worth = 0, gone = 0;
    for (unsigned enters = 0; enters <= 5; enters++) {
        for (unsigned looks = enters; looks <= 5; looks++) {
            scene scene;
            store_client_object *made = open_scene(&scene);
            object_header_state seen = OBJECT_HEADER_FREE;
            uint64_t offset = atomic_load(&scene.header->offset);
            enter(&scene, 0);
            assert_true(object_header_confirm_hold(scene.header, scene.ref.sequence));
            for (unsigned step = 0; step <= 5; step++) {
                if (step == enters) enter(&scene, HOLD_PINNED);
                if (step == looks) seen = object_header_confirm_pin(scene.header);
                if (step < 5) spill_step(step);
            }
            while (store_fixture_disk(w) > 0) continue;
            if (seen == OBJECT_HEADER_SEALED) {
                worth++;
                assert_int_equal(object_word_state(object_header_read(scene.header)), OBJECT_HEADER_SEALED);
                assert_int_equal(atomic_load(&scene.header->offset), offset);
                assert_int_equal(*(uint8_t *)arena_at(&w->arena, offset), 7);
                assert_int_equal(store_fixture_file_count(w), 0);
            } else {
                gone++;
                assert_int_equal(seen, OBJECT_HEADER_SPILLED);
                assert_int_equal(store_fixture_file_count(w), 1);
            }
            while (store_fixture_look(w, 0, made, 7) == MR_BUSY) store_fixture_disk(w);
            assert_int_equal(store_fixture_look(w, 0, made, 7), MR_OK);
            store_fixture_close(w);
        }
    }
    assert_true(worth > 0 && gone > 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_hold_is_worth_something_or_refused),
        cmocka_unit_test(a_pin_keeps_the_bytes_or_says_that_they_are_gone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
