/* metadata_db_test.c — decisions survive, in a real folder; every operation of the disk is made to fail in turn. */
#include "cluster/metadata_db.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/error.h"
#include "cluster/metadata_file.h"
#include "tests/support/failing_disk.h"
#include "tests/support/temp_dir.h"

typedef struct world {
    char path[TEMP_DIR_FOLDER_MAX];
    failing_disk failing;
    metadata_file file;
    rng rng;
    metadata_db *db;
    uint64_t begin; /* version of keys that were never written */
} world;

static span text(const char *text) { return span_of(text, strlen(text)); }

static mr_status reopen(world *world) {
    if (world->db != NULL) metadata_db_close(world->db);
    world->db = NULL;
    MR_TRY(metadata_db_open(metadata_file_storage(&world->file), &world->rng, 0, &world->db));
    span nothing;
    metadata_db_get(world->db, text("never written"), &world->begin, &nothing);
    return MR_OK;
}

static int setup(void **state) {
    world *world = xcalloc(1, sizeof *world);
    if (!temp_dir_folder(world->path) || disk_open(world->path, &world->failing.real) != MR_OK) return -1;
    world->file.disk = failing_disk_ops(&world->failing);
    rng_init(&world->rng, 7);
    *state = world;
    return reopen(world) == MR_OK ? 0 : -1;
}

static int teardown(void **state) {
    world *world = *state;
    disk real = world->failing.real;
    if (world->db != NULL) metadata_db_close(world->db);
    (void)real.ops->remove(real.self, METADATA_FILE_FILE);
    (void)real.ops->remove(real.self, METADATA_FILE_FILE ".new");
    disk_close(real);
    int left = rmdir(world->path);
    free(world);
    return left;
}

static mr_status swap(world *world, const char *key, uint64_t expected, const char *value) {
    return metadata_db_swap(world->db, text(key), world->begin + expected, text(value), 0);
}

static bool holds(world *world, const char *key, uint64_t version, const char *value) {
    uint64_t now;
    span content;
    metadata_db_get(world->db, text(key), &now, &content);
    metadata_db_check(world->db);
    return now == world->begin + version && content.size == strlen(value) &&
           (content.size == 0 || memcmp(content.data, value, content.size) == 0);
}

static void each_version_is_decided_once(void **state) {
    world *world = *state;
    assert_true(holds(world, "view", 0, ""));
    assert_int_equal(swap(world, "view", 1, "x"), MR_STALE);
    assert_int_equal(swap(world, "view", 0, "first"), MR_OK);
    assert_int_equal(swap(world, "view", 0, "other"), MR_STALE);
    assert_int_equal(swap(world, "view", 2, "other"), MR_STALE);
    assert_true(holds(world, "view", 1, "first"));
    assert_int_equal(swap(world, "view", 1, ""), MR_OK);
    assert_true(holds(world, "view", 2, ""));
    assert_true(holds(world, "else", 0, "")); /* keys are independent */
}

static void committed_values_survive_a_restart(void **state) {
    world *world = *state;
    assert_int_equal(swap(world, "a", 0, "one"), MR_OK);
    assert_int_equal(swap(world, "b", 0, "uno"), MR_OK);
    assert_int_equal(swap(world, "a", 1, "two"), MR_OK);
    assert_int_equal(reopen(world), MR_OK);
    assert_true(holds(world, "a", 2, "two"));
    assert_true(holds(world, "b", 1, "uno"));
    assert_int_equal(swap(world, "a", 1, "other"), MR_STALE);
}

/* Makes one save fail, then a second one, then restarts. True: after the restart the first one is decided. */
static bool fail_and_restart(world *world, uint64_t version, const char *value) {
    uint64_t now;
    span content;
    assert_int_equal(swap(world, "a", version, value), MR_IO);
    assert_int_equal(swap(world, "new key", 0, value), MR_IO);
    assert_true(holds(world, "new key", 0, ""));
    metadata_db_get(world->db, text("a"), &now, &content);
    assert_true(now == world->begin + version); /* not reported as decided */
    world->failing.countdown = 0;
    assert_int_equal(reopen(world), MR_OK);
    metadata_db_get(world->db, text("a"), &now, &content);
    now = metadata_store_count(now);
    assert_true(now == version || now == version + 1);
    if (now == version + 1) assert_true(holds(world, "a", now, value));
    return now != version;
}

/* Makes a save fail before anything is done: the next one writes a new file. */
static void fail_at_once(world *world, uint64_t version) {
    world->failing.countdown = 1;
    world->failing.after = false;
    assert_int_equal(swap(world, "a", version, "never"), MR_IO);
    world->failing.countdown = 0;
}

/* For a failure at any operation: the swap is not decided, and after a restart the file is complete, old or new. */
static void a_failing_disk_decides_nothing(void **state) {
    enum { IN_PLACE = 2, ANEW = 4 }; /* operations: write and sync; remove, write, sync and rename */
    world *world = *state;
    assert_int_equal(swap(world, "a", 0, "one"), MR_OK);
    uint64_t version = 1;
    int happened[2] = {0};
    for (int anew = 0; anew <= 1; anew++)
        for (int nth = 1; nth <= (anew ? ANEW : IN_PLACE); nth++)
            for (int after = 0; after <= 1; after++) {
                char value[40];
                snprintf(value, sizeof value, "%d-%d-%d", anew, nth, after);
                assert_int_equal(swap(world, "a", version++, "well"), MR_OK);
                if (anew) fail_at_once(world, version);
                world->failing.countdown = nth;
                world->failing.after = after == 1;
                bool decided = fail_and_restart(world, version, value);
                happened[anew] += decided;
                version += decided;
            }
    assert_int_equal(happened[0], 3); /* all failures but the write that was not done */
    assert_int_equal(happened[1], 1); /* the rename that was done and then reported an error */
    assert_int_equal(swap(world, "a", version, "well again"), MR_OK);
}

/* Without a restart another swap to the same version may be decided, and is then the content of the disk. */
static void after_a_failure_another_may_be_decided(void **state) {
    world *world = *state;
    for (uint64_t i = 0; i < 2; i++) {
        if (i == 1) fail_at_once(world, i);
        world->failing.countdown = i == 0 ? 2 : 4; /* fails at the sync in place; at the rename, which is done */
        world->failing.after = i == 1;
        assert_int_equal(swap(world, "a", i, "unlucky"), MR_IO);
        world->failing.countdown = 0;
        assert_int_equal(swap(world, "a", i, "lucky"), MR_OK);
        assert_int_equal(reopen(world), MR_OK);
        assert_true(holds(world, "a", i + 1, "lucky"));
    }
}

/* A save is durable even if its mark cannot be written. */
static void a_missing_mark_loses_nothing(void **state) {
    world *world = *state;
    assert_int_equal(swap(world, "a", 0, "one"), MR_OK);
    world->failing.countdown = 3;
    assert_int_equal(swap(world, "a", 1, "two"), MR_OK);
    world->failing.countdown = 0;
    assert_int_equal(reopen(world), MR_OK);
    assert_true(holds(world, "a", 2, "two"));
}

/* ---- Damage. */

enum { MARK_AT = 512, COPIES_AT = 4096 };

static void spoil(world *world, uint64_t offset) {
    disk disk = world->failing.real;
    uint8_t byte;
    size_t got;
    assert_int_equal(disk.ops->read(disk.self, METADATA_FILE_FILE, offset, &byte, 1, &got), MR_OK);
    byte ^= 0x10;
    assert_int_equal(disk.ops->write(disk.self, METADATA_FILE_FILE, offset, span_of(&byte, 1)), MR_OK);
}

/* No damage at one place makes the metadata store lose decisions: the file is refused, or the damage has no effect. */
static void a_damaged_file_is_refused(void **state) {
    world *world = *state;
    char path[TEMP_DIR_FOLDER_MAX + sizeof METADATA_FILE_FILE];
    snprintf(path, sizeof path, "%s/%s", world->path, METADATA_FILE_FILE);
    assert_int_equal(swap(world, "a", 0, "some value"), MR_OK);
    assert_int_equal(swap(world, "a", 1, "another one"), MR_OK);
    size_t room = world->file.room, newest = COPIES_AT + (world->file.number % 2 == 0 ? 0 : room),
           oldest = COPIES_AT + room - (newest - COPIES_AT), copy_size = 28 + 24 + 1 + 11;
    for (size_t i = 0; i < 16; i++) {
        spoil(world, i);
        assert_int_equal(reopen(world), MR_CORRUPT);
        spoil(world, i);
    }
    for (size_t i = 0; i < copy_size; i++) {
        spoil(world, newest + i);
        assert_int_equal(reopen(world), MR_CORRUPT);
        assert_non_null(strstr(mr_last_error(), "the newest copy of the content is not complete"));
        spoil(world, newest + i);
        spoil(world, oldest + i); /* as after an unfinished save */
        assert_int_equal(reopen(world), MR_OK);
        assert_true(holds(world, "a", 2, "another one"));
        spoil(world, oldest + i);
    }
    for (size_t i = 0; i < 16; i++) { /* without its mark the copy is written again */
        spoil(world, MARK_AT + i);
        assert_int_equal(reopen(world), MR_OK);
        assert_true(holds(world, "a", 2, "another one"));
    }
    const size_t size = COPIES_AT + 2 * room,
                 cuts[] = {size - 1, COPIES_AT + room, COPIES_AT, COPIES_AT - 1, 512, 16, 8, 0};
    for (size_t i = 0; i < sizeof cuts / sizeof *cuts; i++) {
        assert_int_equal(truncate(path, (off_t)cuts[i]), 0);
        assert_int_equal(reopen(world), MR_CORRUPT);
        assert_non_null(strstr(mr_last_error(), "the file 'keeper' is damaged: "));
        assert_non_null(strstr(mr_last_error(), "begin in another folder"));
    }
}

static void a_file_that_cannot_be_read_is_not_a_missing_one(void **state) {
    world *world = *state;
    assert_int_equal(swap(world, "a", 0, "some value"), MR_OK);
    world->failing.countdown = 1;
    assert_int_equal(reopen(world), MR_IO);
    world->failing.countdown = 0;
    assert_int_equal(reopen(world), MR_OK);
    assert_true(holds(world, "a", 1, "some value"));
}

static void there_are_bounds(void **state) {
    world *world = *state;
    assert_int_equal(swap(world, "", 0, "x"), MR_INVALID);
    char key[METADATA_DB_KEY_MAX + 2];
    memset(key, 'k', sizeof key);
    key[METADATA_DB_KEY_MAX + 1] = '\0';
    assert_int_equal(swap(world, key, 0, "x"), MR_INVALID);
    uint8_t *large = xcalloc(1, METADATA_DB_VALUE_MAX + 1);
    assert_int_equal(metadata_db_swap(world->db, text("large"), 0, span_of(large, METADATA_DB_VALUE_MAX + 1), 0),
                     MR_TOO_LARGE);
    assert_int_equal(metadata_db_swap(world->db, text("large"), world->begin, span_of(large, METADATA_DB_VALUE_MAX), 0),
                     MR_OK);
    free(large);
    for (int i = 1; i < METADATA_DB_KEYS_MAX; i++) {
        snprintf(key, sizeof key, "%d", i);
        assert_int_equal(swap(world, key, 0, "x"), MR_OK);
    }
    assert_int_equal(swap(world, "one more", 0, "x"), MR_TOO_LARGE);
    assert_int_equal(swap(world, "1", 1, "y"), MR_OK);
    assert_int_equal(reopen(world), MR_OK);
    assert_true(holds(world, "1", 2, "y"));
}

static void messages_are_answered(void **state) {
    world *world = *state;
    control_message answer;
    control_message get = {.kind = CONTROL_MESSAGE_GET, .request = 5, .key = text("a")};
    control_message put = {
        .kind = CONTROL_MESSAGE_SWAP, .request = 6, .key = text("a"), .version = world->begin, .value = text("v")};
    metadata_db_answer(world->db, &get, 0, &answer);
    assert_int_equal(answer.kind, CONTROL_MESSAGE_ANSWER);
    assert_int_equal(answer.request, 5);
    assert_int_equal(answer.status, MR_OK);
    assert_true(answer.version == world->begin);
    metadata_db_answer(world->db, &put, 0, &answer);
    assert_int_equal(answer.status, MR_OK);
    assert_true(answer.version == world->begin + 1);
    metadata_db_answer(world->db, &put, 0, &answer); /* a message duplicated by the network */
    assert_int_equal(answer.request, 6);
    assert_int_equal(answer.status, MR_STALE);
    assert_true(answer.version == world->begin + 1);
    assert_memory_equal(answer.value.data, "v", 1);
    world->failing.countdown = 1;
    put.version = world->begin + 1;
    metadata_db_answer(world->db, &put, 0, &answer);
    assert_int_equal(answer.status, MR_IO);
    world->failing.countdown = 0;
}

/* ---- A lost disk. */

static void lose_disk(world *world) {
    disk real = world->failing.real;
    assert_int_equal(real.ops->remove(real.self, METADATA_FILE_FILE), MR_OK);
    assert_int_equal(reopen(world), MR_OK);
}

/* Decisions after the loss have other versions than all decisions before. */
static void a_metadata_that_lost_its_disk_decides_nothing_again(void **state) {
    world *world = *state;
    assert_int_equal(swap(world, "a", 0, "first"), MR_OK);
    uint64_t first = world->begin + 1;
    lose_disk(world);
    assert_true(holds(world, "a", 0, ""));
    assert_int_not_equal(metadata_store_generation(world->begin), metadata_store_generation(first));
    assert_int_equal(swap(world, "a", 0, "again"), MR_OK);
    assert_int_equal(reopen(world), MR_OK); /* the generation is saved with the value */
    assert_true(holds(world, "a", 1, "again"));
    assert_int_equal(swap(world, "a", 0, "other"), MR_STALE);
}

/* A client may return with the generation in an answer, so it is saved although nothing was decided. */
static void a_missing_key_has_a_generation(void **state) {
    world *world = *state;
    uint64_t told = world->begin;
    assert_int_equal(reopen(world), MR_OK);
    assert_true(world->begin == told);
    lose_disk(world);
    world->failing.countdown = 1; /* a store that cannot save its generation does not open */
    disk real = world->failing.real;
    assert_int_equal(real.ops->remove(real.self, METADATA_FILE_FILE), MR_OK);
    assert_int_equal(reopen(world), MR_IO);
    world->failing.countdown = 0;
}

static control_message ask(world *world, const char *key, uint64_t known) {
    control_message answer;
    metadata_db_answer(world->db, &(control_message){.kind = CONTROL_MESSAGE_GET, .key = text(key), .version = known},
                       0, &answer);
    return answer;
}

static void the_newer_state_wins(void **state) {
    world *world = *state;
    assert_int_equal(swap(world, "a", 0, "mine"), MR_OK);
    uint64_t mine = world->begin + 1, theirs = mine + 5;
    assert_true(ask(world, "a", mine).version == mine); /* the sender's version is not newer */
    control_message answer = ask(world, "a", theirs);
    assert_int_equal(answer.status, MR_OK);
    assert_true(answer.version > theirs && metadata_store_count(answer.version) == 0 && answer.value.size == 0);
    assert_int_equal(reopen(world), MR_OK); /* saved before the answer */
    assert_true(world->begin == answer.version);
    assert_true(holds(world, "a", 0, ""));
    /* the generation changes once: now both sides know the same version */
    assert_true(ask(world, "b", answer.version).version == answer.version);

    control_message swap = {
        .kind = CONTROL_MESSAGE_SWAP, .key = text("b"), .version = answer.version + 3, .value = text("v")};
    metadata_db_answer(world->db, &swap, 0, &answer); /* a swap carries a known version, too */
    assert_int_equal(answer.status, MR_STALE);
    assert_true(answer.version > swap.version && metadata_store_count(answer.version) == 0);
}

/* The generation above a version may be lost while a process still knows that version: the next loss begins another
 * one. */
static void no_two_losses_begin_the_same_generation(void **state) {
    enum { LOSSES = 100 };
    world *world = *state;
    uint64_t known =
        metadata_store_version(metadata_store_generation(world->begin) + METADATA_STORE_GENERATION_MAX / 2, 7);
    uint64_t begun[LOSSES];
    for (size_t i = 0; i < LOSSES; i++) {
        lose_disk(world);
        control_message answer = ask(world, "a", known);
        assert_int_equal(answer.status, MR_OK);
        begun[i] = metadata_store_generation(answer.version);
        assert_true(begun[i] > metadata_store_generation(known));
        for (size_t k = 0; k < i; k++) assert_true(begun[k] != begun[i]);
    }
}

/* A swap at the largest count fails and does not reach the next generation. */
static void changes_are_counted_up_to_their_bound(void **state) {
    world *world = *state;
    metadata_storage storage = metadata_file_storage(&world->file);
    uint64_t generation = metadata_store_generation(world->begin);
    metadata_storage_record record = {text("a"), metadata_store_version(generation, METADATA_STORE_COUNT_MAX - 1), 0,
                                      text("old")};
    assert_int_equal(storage.ops->save(storage.self, &(metadata_storage_content){generation, &record, 1}, 0), MR_OK);
    assert_int_equal(reopen(world), MR_OK);
    assert_int_equal(swap(world, "a", METADATA_STORE_COUNT_MAX - 1, "last"), MR_OK);
    assert_int_equal(swap(world, "a", METADATA_STORE_COUNT_MAX, "more"), MR_TOO_LARGE);
    assert_true(holds(world, "a", METADATA_STORE_COUNT_MAX, "last"));
    assert_int_equal(reopen(world), MR_OK);
    assert_true(holds(world, "a", METADATA_STORE_COUNT_MAX, "last"));
}

/* Without a saved new generation nothing is answered, and impossible versions change nothing. */
static void a_new_generation_is_durable_or_not_begun(void **state) {
    world *world = *state;
    assert_int_equal(swap(world, "a", 0, "one"), MR_OK);
    world->failing.countdown = 1;
    control_message answer = ask(world, "a", world->begin + 9);
    assert_int_equal(answer.status, MR_IO);
    assert_true(answer.version == 0 && answer.value.size == 0);
    world->failing.countdown = 0;
    assert_int_equal(ask(world, "a", UINT64_MAX).status, MR_INVALID);
    assert_true(holds(world, "a", 1, "one"));
}

#define IN_WORLD(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        IN_WORLD(each_version_is_decided_once),
        IN_WORLD(committed_values_survive_a_restart),
        IN_WORLD(a_failing_disk_decides_nothing),
        IN_WORLD(after_a_failure_another_may_be_decided),
        IN_WORLD(a_missing_mark_loses_nothing),
        IN_WORLD(a_damaged_file_is_refused),
        IN_WORLD(a_file_that_cannot_be_read_is_not_a_missing_one),
        IN_WORLD(there_are_bounds),
        IN_WORLD(messages_are_answered),
        IN_WORLD(a_metadata_that_lost_its_disk_decides_nothing_again),
        IN_WORLD(a_missing_key_has_a_generation),
        IN_WORLD(the_newer_state_wins),
        IN_WORLD(no_two_losses_begin_the_same_generation),
        IN_WORLD(changes_are_counted_up_to_their_bound),
        IN_WORLD(a_new_generation_is_durable_or_not_begun),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
