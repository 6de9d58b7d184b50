/* slot_test.c — the game of holder and vault (slot.h), every order of their steps.
 *
 * The vault's round has four steps, spilling has five with the file's end; a holder's act has two: its entry, and its
 * look at the slot. The holder's two are put between all steps of the vault's, in every way that keeps their order.
 * Invariants: a hold or pin that was confirmed is worth something at the end, the bytes are right; one that was refused
 * left nothing behind; and what nobody holds is collected in the end. */
#include "store/slot.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "store/vault_books.h"
#include "tests/support/store_world.h"

enum { MB = 1 << 20, SIZE = 2 * MB };

static world the_world;
static world *const w = &the_world;

static void collect_step(unsigned step) {
    switch (step) {
    case 0: vault_mark(w->vault); break;
    case 1: vault_condemn(w->vault); break;
    case 2: vault_mark(w->vault); break;
    case 3: vault_decide(w->vault); break;
    }
}

static void spill_step(unsigned step) {
    switch (step) {
    case 0: vault_mark(w->vault); break;
    case 1: vault_spill_choose(w->vault, SIZE); break;
    case 2: vault_mark(w->vault); break;
    case 3: vault_spill_send(w->vault, 0); break;
    case 4: world_disk(w); break;
    }
}

typedef struct scene {
    object_ref ref;
    slot *slot;
    hold_entry *entry; /* of the second process, which acts by hand */
} scene;

/* One object, made and shown by the first process. */
static store_object *open_scene(scene *scene) {
    store_object *made;
    world_open(w, 32 * MB, NULL);
    world_join(w, 0);
    world_join(w, 1);
    assert_int_equal(world_make(w, 0, SIZE, 7, &made), MR_OK);
    store_ref(w->stores[0].store, made, &scene->ref);
    scene->slot = arena_at(&w->arena, scene->ref.slot);
    process_book *second = map_get(&w->vault->by_id, w->stores[1].process);
    scene->entry = &desk_of(w->vault, second)->entries[100];
    return made;
}

static void enter(scene *scene, uint64_t flags) {
    atomic_store(scene->entry, scene->ref.slot | flags);
    cpu_fence();
}

/* Takes a hold while the vault collects what nobody else holds. */
static void a_hold_is_worth_something_or_refused(void **state) {
    unsigned worth = 0, refused = 0;
    for (unsigned enters = 0; enters <= 4; enters++) {
        for (unsigned looks = enters; looks <= 4; looks++) {
            scene scene;
            store_object *made = open_scene(&scene);
            store_drop(w->stores[0].store, made);
            bool valid = false;
            for (unsigned step = 0; step <= 4; step++) {
                if (step == enters) enter(&scene, 0);
                if (step == looks) valid = slot_confirm_hold(scene.slot, scene.ref.sequence);
                if (step < 4) collect_step(step);
            }
            worth += valid;
            refused += !valid;
            if (!valid) atomic_store(scene.entry, 0);
            vault_collect(w->vault);
            store_poll(w->stores[0].store);
            assert_int_equal(vault_stats_now(w->vault).objects, valid);
            if (valid) { /* and it can be used: by another hold of the same process */
                store_object *taken;
                assert_int_equal(store_take(w->stores[1].store, &scene.ref, &taken), MR_OK);
                assert_int_equal(world_look(w, 1, taken, 7), MR_OK);
                store_drop(w->stores[1].store, taken);
                atomic_store(scene.entry, 0);
                vault_collect(w->vault);
                store_poll(w->stores[0].store);
                assert_int_equal(vault_stats_now(w->vault).objects, 0);
            }
            world_close(w);
        }
    }
    assert_true(worth > 0 && refused > 0);
}

/* Takes a view while the vault spills. */
static void a_pin_keeps_the_bytes_or_says_that_they_are_gone(void **state) {
    unsigned worth = 0, gone = 0;
    for (unsigned enters = 0; enters <= 5; enters++) {
        for (unsigned looks = enters; looks <= 5; looks++) {
            scene scene;
            store_object *made = open_scene(&scene);
            slot_state seen = SLOT_FREE;
            uint64_t offset = atomic_load(&scene.slot->offset);
            enter(&scene, 0);
            assert_true(slot_confirm_hold(scene.slot, scene.ref.sequence));
            for (unsigned step = 0; step <= 5; step++) {
                if (step == enters) enter(&scene, HOLD_PINNED);
                if (step == looks) seen = slot_confirm_pin(scene.slot);
                if (step < 5) spill_step(step);
            }
            while (world_disk(w) > 0) continue;
            if (seen == SLOT_SEALED) {
                worth++;
                assert_int_equal(word_state(slot_read(scene.slot)), SLOT_SEALED);
                assert_int_equal(atomic_load(&scene.slot->offset), offset);
                assert_int_equal(*(uint8_t *)arena_at(&w->arena, offset), 7);
                assert_int_equal(world_file_count(w), 0);
            } else {
                gone++;
                assert_int_equal(seen, SLOT_SPILLED);
                assert_int_equal(world_file_count(w), 1);
            }
            while (world_look(w, 0, made, 7) == MR_BUSY) world_disk(w);
            assert_int_equal(world_look(w, 0, made, 7), MR_OK);
            world_close(w);
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
