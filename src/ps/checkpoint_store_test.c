/* checkpoint_store_test.c — the manifest completes a checkpoint; a complete one survives disk errors. */
#include "ps/checkpoint_store.h"

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
#include "base/format.h"
#include "miniray/status.h"
#include "tests/support/message_recorder.h"
#include "tests/support/temp_dir.h"

enum { SLOTS = 2, MANY = 5 };

typedef struct world {
    char folder[TEMP_DIR_FOLDER_MAX];
    disk real;
    bool exact;             /* the store makes exact checkpoints */
    uint32_t slot_count;    /* as of the store's options */
    int renames;            /* the rename of this number fails; 0: none */
    bool refuses, pretends; /* refuses: renames fail; pretends: renames succeed but report an error */
    checkpoint_store *store;
    message_recorder recorder;
    char shard[16]; /* the last snapshot that the store sent */
    uint64_t number, generation;
} world;

/* ---- A disk whose renames fail. */

static mr_status on_read(void *self, const char *file, uint64_t offset, void *data, size_t size, size_t *got) {
    world *world = self;
    return world->real.ops->read(world->real.self, file, offset, data, size, got);
}
static mr_status on_size(void *self, const char *file, uint64_t *out) {
    world *world = self;
    return world->real.ops->size(world->real.self, file, out);
}
static mr_status on_write(void *self, const char *file, uint64_t offset, span data) {
    world *world = self;
    return world->real.ops->write(world->real.self, file, offset, data);
}
static mr_status on_sync(void *self, const char *file) {
    world *world = self;
    return world->real.ops->sync_data(world->real.self, file);
}
static mr_status on_remove(void *self, const char *file) {
    world *world = self;
    return world->real.ops->remove(world->real.self, file);
}
static mr_status on_rename(void *self, const char *from, const char *to) {
    world *world = self;
    bool fails = world->refuses || (world->renames != 0 && --world->renames == 0);
    mr_status status = fails ? MR_IO : world->real.ops->rename(world->real.self, from, to);
    return world->pretends && strcmp(to, CHECKPOINT_STORE_MANIFEST) == 0 ? MR_IO : status;
}
static const disk_ops ops = {.name = "bad",
                             .read = on_read,
                             .size = on_size,
                             .write = on_write,
                             .sync_data = on_sync,
                             .rename = on_rename,
                             .remove = on_remove};

/* ---- A checkpoint store driven by hand. */

static void on_send(void *context, const char *address, span bytes) {
    world *world = context;
    reader reader = reader_of(bytes.data, bytes.size);
    slot_message_head head;
    slot_message message;
    uint32_t count;
    message_recorder_take(&world->recorder, address, bytes);
    assert_int_equal(slot_message_read_head(&reader, &head, &count), MR_OK);
    for (uint32_t i = 0; i < count && slot_message_read(&reader, &message) == MR_OK; i++)
        if (message.kind == SLOT_MESSAGE_SHARD)
            snprintf(world->shard, sizeof world->shard, "%.*s", (int)message.payload.size,
                     (const char *)message.payload.data);
}

static void hear(world *world, uint32_t who, const slot_message *message) {
    slot_message_head head = {.generation = world->generation, .number = world->number, .incarnation = 1, .who = who};
    strcpy(head.address, who == SLOT_MESSAGE_CONTROLLER ? "d" : "s");
    message_recorder_batch batch = message_recorder_say(&head, message);
    world->recorder.count = 0;
    checkpoint_store_take_bytes(world->store, batch.bytes, NULL);
    checkpoint_store_check_state(world->store);
    message_recorder_free(&batch);
}

static void hear_map(world *world) {
    cluster_map map = {.number = world->number, .generation = world->generation, .birth = 1, .slot_count = SLOTS};
    map.slots = xcalloc(SLOTS, sizeof *map.slots);
    for (uint32_t i = 0; i < SLOTS; i++) map.slots[i].epoch = world->number;
    slot_message_head head = {
        .generation = world->generation, .number = world->number, .who = SLOT_MESSAGE_CONTROLLER, .address = "d"};
    message_recorder_batch batch = message_recorder_map(&head, &map);
    checkpoint_store_take_bytes(world->store, batch.bytes, NULL);
    message_recorder_free(&batch);
    cluster_map_fini(&map);
}

static void start(world *world) {
    checkpoint_store_options options = {
        .address = "depot", .controller = "d", .disk = {&ops, world}, .send = on_send, .context = world};
    options.exact = world->exact;
    options.slot_count = world->slot_count;
    world->store = checkpoint_store_create(&options, 0);
    checkpoint_store_tick(world->store, 0);
    hear_map(world);
}

static void start_again(world *world) {
    checkpoint_store_destroy(world->store);
    start(world);
}

static int setup(void **state) {
    world *world = xcalloc(1, sizeof *world);
    assert_true(temp_dir_folder(world->folder));
    assert_int_equal(disk_open(world->folder, &world->real), MR_OK);
    world->number = 5;
    world->generation = 7;
    start(world);
    *state = world;
    return 0;
}

/* Each slot has one place more than there are kept checkpoints. */
static void remove_files(world *world) {
    char name[DISK_NAME_MAX];
    for (int i = 0; i < 2 * (CHECKPOINT_STORE_KEPT + 1) * MANY; i++) {
        snprintf(name, sizeof name, "shard-%d-%d%s", i / 2 / MANY, i / 2 % MANY, i % 2 == 0 ? "" : ".new");
        (void)world->real.ops->remove(world->real.self, name);
    }
    for (int i = 0; i < CHECKPOINT_STORE_KEPT; i++) {
        snprintf(name, sizeof name, i == 0 ? "%s" : "%s-%d", CHECKPOINT_STORE_MANIFEST, i - 1);
        (void)world->real.ops->remove(world->real.self, name);
        strcat(name, ".new");
        (void)world->real.ops->remove(world->real.self, name);
    }
}

static int teardown(void **state) {
    world *world = *state;
    checkpoint_store_destroy(world->store);
    remove_files(world);
    disk_close(world->real);
    int left = rmdir(world->folder);
    free(world);
    return left; /* fails if a file is left that the tests do not expect */
}

static void cut(world *world, uint64_t checkpoint, uint32_t slot, uint64_t lsn, const char *text) {
    hear(world, 1,
         &(slot_message){.kind = SLOT_MESSAGE_CUT,
                         .slot = slot,
                         .lsn = lsn,
                         .name = checkpoint,
                         .payload = span_of(text, strlen(text))});
}

static const char *fetch(world *world, uint64_t checkpoint, uint32_t slot) {
    world->shard[0] = 0;
    hear(world, 1, &(slot_message){.kind = SLOT_MESSAGE_FETCH, .slot = slot, .name = checkpoint});
    return world->shard;
}

static void make(world *world, uint64_t checkpoint, const char *first, const char *second) {
    cut(world, checkpoint, 0, 10 * checkpoint, first);
    cut(world, checkpoint, 1, 10 * checkpoint + 1, second);
}

static void the_last_shard_makes_it_whole(void **state) {
    world *world = *state;
    cut(world, 3, 1, 31, "b3");
    assert_int_equal(message_recorder_named(&world->recorder, "s", SLOT_MESSAGE_SAVED, SLOT_MESSAGE_OK, 3), 1);
    assert_true(checkpoint_store_newest(world->store) == 0 &&
                message_recorder_count(&world->recorder, "d", SLOT_MESSAGE_WHOLE) == 0);
    assert_string_equal(fetch(world, 3, 1), "");
    cut(world, 3, 1, 31, "b3"); /* a repeated snapshot counts once */
    assert_int_equal(checkpoint_store_newest(world->store), 0);
    cut(world, 3, 0, 30, "a3");
    assert_int_equal(message_recorder_named(&world->recorder, "d", SLOT_MESSAGE_WHOLE, SLOT_MESSAGE_OK, 3), 1);
    assert_true(checkpoint_store_newest(world->store) == 3 && checkpoint_store_lsn(world->store, 1) == 31);
    assert_string_equal(fetch(world, 3, 0), "a3");
    start_again(world);
    assert_int_equal(checkpoint_store_newest(world->store), 3);
    assert_string_equal(fetch(world, 3, 1), "b3");
    assert_string_equal(fetch(world, 2, 1), "");
}

/* A question about a missing snapshot is answered with RESEND, about a stored one with OK. */
static void a_head_asks_before_it_sends_again(void **state) {
    world *world = *state;
    slot_message asked = {.kind = SLOT_MESSAGE_CUT, .slot = 1, .lsn = 31, .name = 3};
    hear(world, 1, &asked);
    assert_int_equal(message_recorder_named(&world->recorder, "s", SLOT_MESSAGE_SAVED, SLOT_MESSAGE_RESEND, 3), 1);
    cut(world, 3, 1, 31, "b3");
    hear(world, 1, &asked);
    assert_int_equal(message_recorder_named(&world->recorder, "s", SLOT_MESSAGE_SAVED, SLOT_MESSAGE_OK, 3), 1);
    cut(world, 3, 0, 30, "a3");
    hear(world, 1, &asked); /* a question about a complete checkpoint */
    assert_int_equal(message_recorder_named(&world->recorder, "s", SLOT_MESSAGE_SAVED, SLOT_MESSAGE_OK, 3), 1);
    asked.name = 4; /* a question begins no checkpoint */
    hear(world, 1, &asked);
    assert_int_equal(message_recorder_named(&world->recorder, "s", SLOT_MESSAGE_SAVED, SLOT_MESSAGE_RESEND, 4), 1);
    assert_int_equal(checkpoint_store_newest(world->store), 3);
}

static void cut_at(world *world, uint64_t checkpoint, uint32_t slot, uint64_t clock) {
    hear(world, 1,
         &(slot_message){.kind = SLOT_MESSAGE_CUT,
                         .slot = slot,
                         .lsn = 1,
                         .commit = clock,
                         .name = checkpoint,
                         .payload = span_of("x", 1)});
}

static void slots_of_an_exact_one_were_cut_at_the_same_steps(void **state) {
    world *world = *state;
    world->exact = true;
    start_again(world);
    cut_at(world, 3, 0, 77);
    cut_at(world, 3, 1, 79);
    /* heads may drop the snapshots */
    assert_int_equal(message_recorder_named(&world->recorder, "s", SLOT_MESSAGE_SAVED, SLOT_MESSAGE_OK, 3), 1);
    cut_at(world, 3, 1, 77); /* a checkpoint with different clocks stays incomplete */
    checkpoint_store_tick(world->store, 1);
    assert_int_equal(checkpoint_store_newest(world->store), 0);
    cut_at(world, 4, 0, 0); /* cut in the middle of a step */
    cut_at(world, 4, 1, 0);
    assert_int_equal(checkpoint_store_newest(world->store), 0);
    cut_at(world, 5, 0, 77);
    cut_at(world, 5, 1, 77);
    assert_int_equal(checkpoint_store_newest(world->store), 5);
    world->exact = false;
    start_again(world);
    cut_at(world, 6, 0, 0);
    cut_at(world, 6, 1, 77);
    assert_int_equal(checkpoint_store_newest(world->store), 6);
}

static void an_incomplete_checkpoint_is_ignored(void **state) {
    world *world = *state;
    make(world, 3, "a3", "b3");
    cut(world, 4, 0, 40, "a4");
    assert_string_equal(fetch(world, 3, 0), "a3");
    start_again(world);
    assert_string_equal(fetch(world, 3, 0), "a3");
    cut(world, 4, 1, 41, "b4"); /* the other snapshot was stored by another process of the checkpoint store */
    assert_int_equal(checkpoint_store_newest(world->store), 3);
    cut(world, 5, 1, 51, "b5"); /* a later checkpoint ends the earlier one */
    cut(world, 4, 0, 40, "a4");
    assert_int_equal(message_recorder_named(&world->recorder, "s", SLOT_MESSAGE_SAVED, SLOT_MESSAGE_OK, 4), 1);
    assert_int_equal(checkpoint_store_newest(world->store), 3);
    cut(world, 5, 0, 50, "a5");
    assert_int_equal(checkpoint_store_newest(world->store), 5);
}

static void another_generation_begins_anew(void **state) {
    world *world = *state;
    cut(world, 3, 0, 30, "old");
    world->generation = 8;
    world->number = 6;
    hear_map(world);
    cut(world, 3, 1, 31, "new");
    assert_int_equal(checkpoint_store_newest(world->store), 0);
    world->generation = 7;
    cut(world, 3, 0, 30, "old"); /* the sender does not know the new generation */
    assert_int_equal(checkpoint_store_newest(world->store), 0);
}

static void a_seal_holds_until_the_next_map(void **state) {
    world *world = *state;
    make(world, 3, "a3", "b3");
    cut(world, 4, 0, 40, "a4");
    hear(world, SLOT_MESSAGE_CONTROLLER, &(slot_message){.kind = SLOT_MESSAGE_SEAL, .name = 5});
    assert_int_equal(message_recorder_named(&world->recorder, "d", SLOT_MESSAGE_SEALED, SLOT_MESSAGE_OK, 5), 1);
    assert_int_equal(world->recorder.list[0].message.lsn, 3);
    make(world, 4, "a4", "b4");
    start_again(world); /* the seal is on disk */
    make(world, 4, "a4", "b4");
    assert_int_equal(checkpoint_store_newest(world->store), 3);
    hear(world, 1, &(slot_message){.kind = SLOT_MESSAGE_SEAL, .name = 6}); /* only the controller may seal */
    world->number = 6;
    hear_map(world);
    make(world, 4, "a4", "b4");
    assert_int_equal(checkpoint_store_newest(world->store), 4);
    /* a late seal of an older number */
    hear(world, SLOT_MESSAGE_CONTROLLER, &(slot_message){.kind = SLOT_MESSAGE_SEAL, .name = 5});
    assert_int_equal(message_recorder_count(&world->recorder, "d", SLOT_MESSAGE_SEALED), 0);
}

/* The answer to a seal has the highest number that was sealed; a metadata store that lost its disk needs it. */
static void it_remembers_at_which_number_it_was_sealed(void **state) {
    world *world = *state;
    hear(world, SLOT_MESSAGE_CONTROLLER, &(slot_message){.kind = SLOT_MESSAGE_SEAL, .name = 8});
    assert_int_equal(world->recorder.list[0].message.commit, 8);
    start_again(world);
    hear(world, SLOT_MESSAGE_CONTROLLER, &(slot_message){.kind = SLOT_MESSAGE_SEAL, .name = 6});
    assert_int_equal(message_recorder_named(&world->recorder, "d", SLOT_MESSAGE_SEALED, SLOT_MESSAGE_OK, 6), 1);
    assert_int_equal(world->recorder.list[0].message.commit, 8);
}

static void failed_writes_are_repeated(void **state) {
    world *world = *state;
    world->refuses = true;
    cut(world, 3, 0, 30, "a3");
    assert_int_equal(message_recorder_count(&world->recorder, "s", SLOT_MESSAGE_SAVED), 0);
    hear(world, SLOT_MESSAGE_CONTROLLER, &(slot_message){.kind = SLOT_MESSAGE_SEAL, .name = 5});
    assert_int_equal(message_recorder_count(&world->recorder, "d", SLOT_MESSAGE_SEALED), 0);
    world->refuses = false;
    make(world, 3, "a3", "b3");
    assert_int_equal(checkpoint_store_newest(world->store), 3);
}

/* A manifest whose write failed may be on disk: no snapshot changes before the manifest is written again. */
static void a_manifest_in_doubt_is_written_before_anything_else(void **state) {
    world *world = *state;
    make(world, 3, "a3", "b3");
    world->pretends = true;
    make(world, 4, "a4", "b4");
    assert_int_equal(checkpoint_store_newest(world->store), 3);
    cut(world, 5, 0, 50, "a5");
    assert_int_equal(message_recorder_count(&world->recorder, "s", SLOT_MESSAGE_SAVED), 0);
    start_again(world); /* the manifest was on disk, so the checkpoint is complete after a restart */
    assert_int_equal(checkpoint_store_newest(world->store), 4);
    assert_string_equal(fetch(world, 4, 0), "a4");
    make(world, 5, "a5", "b5");
    /* the newest checkpoint is uncertain, so no seal is answered */
    hear(world, SLOT_MESSAGE_CONTROLLER, &(slot_message){.kind = SLOT_MESSAGE_SEAL, .name = 5});
    assert_int_equal(message_recorder_count(&world->recorder, "d", SLOT_MESSAGE_SEALED), 0);
    world->pretends = false;
    checkpoint_store_tick(world->store, CHECKPOINT_STORE_TICK_US);
    assert_true(checkpoint_store_newest(world->store) == 5 &&
                checkpoint_store_next_us(world->store) == 2 * CHECKPOINT_STORE_TICK_US);
}

static void damage(world *world, const char *file, uint64_t offset) {
    assert_int_equal(world->real.ops->write(world->real.self, file, offset, span_of("x", 1)), MR_OK);
}

static void assert_damage(world *world, const char *file, const char *instead) {
    assert_int_equal(checkpoint_store_check(world->store), MR_CORRUPT);
    assert_non_null(strstr(mr_last_error(), file));
    assert_non_null(strstr(mr_last_error(), instead));
    world->recorder.count = 0;
    checkpoint_store_tick(world->store, CHECKPOINT_STORE_TICK_US);
    /* the checkpoint is reported to the controller */
    assert_int_equal(message_recorder_count(&world->recorder, "d", SLOT_MESSAGE_WHOLE), 1);
}

/* Three checkpoints are kept, each complete. */
static void a_damaged_manifest_is_told_and_an_older_one_used(void **state) {
    world *world = *state;
    for (uint64_t i = 3; i < 8; i++) {
        char first[] = "a0", second[] = "b0";
        first[1] = second[1] = (char)('0' + i);
        make(world, i, first, second);
    }
    start_again(world);
    assert_int_equal(checkpoint_store_newest(world->store), 7);
    assert_int_equal(checkpoint_store_check(world->store), MR_OK);
    damage(world, CHECKPOINT_STORE_MANIFEST, 12);
    start_again(world);
    assert_int_equal(checkpoint_store_newest(world->store), 6);
    assert_string_equal(fetch(world, 6, 0), "a6");
    assert_string_equal(fetch(world, 6, 1), "b6");
    assert_damage(world, "checkpoint file manifest is damaged", "checkpoint 6");
    make(world, 8, "a8", "b8"); /* the store makes further checkpoints */
    start_again(world);
    assert_true(checkpoint_store_newest(world->store) == 8 && checkpoint_store_check(world->store) == MR_OK);
}

static void a_manifest_that_is_gone_is_told_and_an_older_one_used(void **state) {
    world *world = *state;
    make(world, 3, "a3", "b3");
    make(world, 4, "a4", "b4");
    assert_int_equal(world->real.ops->remove(world->real.self, CHECKPOINT_STORE_MANIFEST), MR_OK);
    start_again(world);
    assert_int_equal(checkpoint_store_newest(world->store), 3);
    assert_damage(world, "checkpoint file manifest is damaged", "checkpoint 3");
    assert_string_equal(fetch(world, 3, 1), "b3");
}

static void when_all_are_damaged_it_is_stuck(void **state) {
    world *world = *state;
    make(world, 3, "a3", "b3");
    make(world, 4, "a4", "b4");
    damage(world, "shard-1-0", 0);
    damage(world, "shard-0-0", 0);
    hear(world, 0, &(slot_message){.kind = SLOT_MESSAGE_FETCH, .slot = 0, .name = 4});
    assert_damage(world, "checkpoint file shard-1-0 is damaged", "checkpoint 3");
    assert_false(checkpoint_store_is_stuck(world->store));
    hear(world, 0, &(slot_message){.kind = SLOT_MESSAGE_FETCH, .slot = 0, .name = 3});
    assert_damage(world, "checkpoint file shard-0-0 is damaged", "no other is left");
    assert_true(checkpoint_store_is_stuck(world->store));
    make(world, 5, "a5", "b5"); /* a new checkpoint of slots that needed no restore */
    assert_true(checkpoint_store_newest(world->store) == 5 && !checkpoint_store_is_stuck(world->store));
}

/* A seal's number from a damaged manifest is not used: the metadata store would wrongly detect a lost disk. */
static void nothing_is_believed_of_a_damaged_manifest(void **state) {
    world *world = *state;
    make(world, 3, "a3", "b3");
    make(world, 4, "a4", "b4");
    hear(world, SLOT_MESSAGE_CONTROLLER, &(slot_message){.kind = SLOT_MESSAGE_SEAL, .name = 8});
    damage(world, CHECKPOINT_STORE_MANIFEST, 26); /* the number of the seal */
    start_again(world);
    assert_damage(world, "checkpoint file manifest is damaged", "checkpoint 3");
    world->recorder.count = 0;
    hear(world, SLOT_MESSAGE_CONTROLLER, &(slot_message){.kind = SLOT_MESSAGE_SEAL, .name = 9});
    assert_int_equal(message_recorder_named(&world->recorder, "d", SLOT_MESSAGE_SEALED, SLOT_MESSAGE_OK, 9), 1);
    assert_int_equal(world->recorder.list[0].message.commit, 9);
}

static void without_an_older_one_it_does_nothing(void **state) {
    world *world = *state;
    make(world, 3, "a3", "b3");
    damage(world, CHECKPOINT_STORE_MANIFEST, 12);
    start_again(world);
    assert_int_equal(checkpoint_store_newest(world->store), 0);
    make(world, 4, "a4", "b4"); /* the damaged manifest is not overwritten, so that it can be inspected */
    assert_int_equal(checkpoint_store_newest(world->store), 0);
    assert_damage(world, "manifest", "no other is left");
    assert_int_equal(message_recorder_named(&world->recorder, "d", SLOT_MESSAGE_WHOLE, SLOT_MESSAGE_GONE, 0), 1);
}

/* Changes the format number of a manifest and its checksum, as another release would write it. */
static void renumber(world *world, const char *file, char digit) {
    buffer bytes;
    buffer_init(&bytes, CHECKPOINT_STORE_MANIFEST_MAX);
    assert_int_equal(disk_read_all(world->real, file, CHECKPOINT_STORE_MANIFEST_MAX, &bytes), MR_OK);
    bytes.data[3] = (uint8_t)digit;
    uint64_t sum = format_sum(span_of(bytes.data, bytes.size - sizeof sum));
    memcpy(bytes.data + bytes.size - sizeof sum, &sum, sizeof sum);
    assert_int_equal(world->real.ops->write(world->real.self, file, 0, span_of(bytes.data, bytes.size)), MR_OK);
    buffer_fini(&bytes);
}

/* No file is used, not even older checkpoints of this format; the error has both format numbers. */
static void checkpoints_of_another_format_are_not_read(void **state) {
    static const struct {
        const char *file;
        char digit;
        const char *words;
    } cases[] = {
        {CHECKPOINT_STORE_MANIFEST, '2', "manifest has format 2; this version reads format 4: use the Miniray release"},
        {CHECKPOINT_STORE_MANIFEST, '9', "manifest has format 9; this version reads format 4: use the Miniray release"},
        {"manifest-0", '9', "manifest-0 has format 9; this version reads format 4: use the Miniray release"}};
    world *world = *state;
    make(world, 3, "a3", "b3");
    make(world, 4, "a4", "b4");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        renumber(world, cases[i].file, cases[i].digit);
        assert_int_equal(checkpoint_store_check_folder(world->real), MR_CORRUPT);
        start_again(world);
        make(world, 5, "a5", "b5");
        assert_true(checkpoint_store_newest(world->store) == 0 && checkpoint_store_is_stuck(world->store));
        assert_damage(world, cases[i].file, cases[i].words);
        renumber(world, cases[i].file, '4');
    }
    assert_int_equal(checkpoint_store_check_folder(world->real), MR_OK);
    start_again(world);
    assert_int_equal(checkpoint_store_newest(world->store), 4);
    damage(world, CHECKPOINT_STORE_MANIFEST, 3); /* a damaged format number counts as damage */
    assert_int_equal(checkpoint_store_check_folder(world->real), MR_OK);
    start_again(world);
    assert_damage(world, "checkpoint file manifest is damaged", "checkpoint 3");
}

/* A manifest of 0.2.0 has no version: in rounds that is the number. */
static void a_manifest_of_format_3_is_read(void **state) {
    enum { VERSION = 12 }; /* where format 4 has the version */
    world *world = *state;
    buffer bytes;
    uint64_t version = 0;
    make(world, 3, "a3", "b3");
    buffer_init(&bytes, CHECKPOINT_STORE_MANIFEST_MAX);
    assert_int_equal(disk_read_all(world->real, CHECKPOINT_STORE_MANIFEST, bytes.limit, &bytes), MR_OK);
    memmove(bytes.data + VERSION, bytes.data + VERSION + sizeof version, bytes.size - VERSION - sizeof version);
    bytes.size -= sizeof version;
    bytes.data[3] = '3';
    uint64_t sum = format_sum(span_of(bytes.data, bytes.size - sizeof sum));
    memcpy(bytes.data + bytes.size - sizeof sum, &sum, sizeof sum);
    assert_int_equal(disk_replace(world->real, CHECKPOINT_STORE_MANIFEST, span_of(bytes.data, bytes.size)), MR_OK);
    buffer_fini(&bytes);
    assert_int_equal(checkpoint_store_check_folder(world->real), MR_OK);
    start_again(world);
    assert_true(checkpoint_store_newest(world->store) == 3 && checkpoint_store_oldest(world->store, &version) == 3);
    assert_int_equal(version, 3);
    assert_string_equal(fetch(world, 3, 0), "a3");
}

static void cut_version(world *world, uint64_t checkpoint, uint32_t slot, uint64_t version, const char *text) {
    hear(world, 1,
         &(slot_message){.kind = SLOT_MESSAGE_CUT,
                         .slot = slot,
                         .lsn = 9,
                         .name = checkpoint,
                         .prev = 1 + version,
                         .payload = span_of(text, strlen(text))});
}

/* Two controllers have ordered checkpoint 5 at different versions. */
static void slots_of_one_checkpoint_have_one_version(void **state) {
    world *world = *state;
    uint64_t version;
    cut_version(world, 5, 0, 3, "a3");
    cut_version(world, 5, 1, 4, "b4");
    assert_int_equal(checkpoint_store_newest(world->store), 0);
    cut_version(world, 5, 0, 4, "a4");
    assert_int_equal(checkpoint_store_newest(world->store), 5);
    assert_string_equal(fetch(world, 5, 0), "a4");
    start_again(world);
    assert_true(checkpoint_store_oldest(world->store, &version) == 5 && version == 4);
}

/* Cuts of the lower version may come after those of the higher one, as from a head whose link was broken. */
static void outdated_cuts_are_not_mixed_in(void **state) {
    world *world = *state;
    cut_version(world, 5, 0, 4, "a4");
    cut_version(world, 5, 1, 3, "b3");
    assert_int_equal(checkpoint_store_newest(world->store), 0);
    cut_version(world, 5, 1, 4, "b4");
    assert_int_equal(checkpoint_store_newest(world->store), 5);
    assert_string_equal(fetch(world, 5, 0), "a4");
    assert_string_equal(fetch(world, 5, 1), "b4");
}

/* A custom format: files have its ending, and decoded snapshots equal the originals. */
static mr_status encode(void *context, uint32_t slot, span shard, const byte_sink *file) {
    MR_TRY(byte_sink_put(file, span_of("x", 1)));
    return byte_sink_put(file, shard);
}
static mr_status decode(void *context, span file, buffer *shard) {
    if (file.size == 0 || file.data[0] != 'x') return MR_CORRUPT;
    return buffer_append(shard, file.data + 1, file.size - 1);
}

static void shards_lie_as_the_host_wants_them(void **state) {
    world *world = *state;
    static const checkpoint_store_format format = {".x", encode, decode};
    checkpoint_store_destroy(world->store);
    checkpoint_store_options options = {.address = "depot",
                                        .controller = "d",
                                        .disk = {&ops, world},
                                        .format = &format,
                                        .send = on_send,
                                        .context = world};
    world->store = checkpoint_store_create(&options, 0);
    checkpoint_store_tick(world->store, 0);
    hear_map(world);
    make(world, 3, "a3", "b3");
    make(world, 4, "a3", "b4"); /* equal snapshots share a file */
    assert_string_equal(fetch(world, 4, 0), "a3");
    assert_string_equal(fetch(world, 4, 1), "b4");
    static const char *const files[] = {"shard-0-0.x", "shard-0-1.x", "shard-1-1.x"};
    for (size_t i = 0; i < 3; i++) assert_int_equal(world->real.ops->remove(world->real.self, files[i]), MR_OK);
}

static void a_damaged_shard_takes_its_checkpoint_with_it(void **state) {
    world *world = *state;
    make(world, 3, "a3", "b3");
    make(world, 4, "a4", "b4");
    damage(world, "shard-1-0", 0);
    assert_string_equal(fetch(world, 4, 0), "");
    assert_int_equal(checkpoint_store_newest(world->store), 3);
    assert_damage(world, "shard-1-0", "checkpoint 3");
    assert_string_equal(fetch(world, 3, 0), "a3");
    assert_string_equal(fetch(world, 4, 1), "");
    damage(world, "shard-0-1", 0);
    assert_string_equal(fetch(world, 3, 1), "");
    assert_damage(world, "shard-0-1", "no other is left");
}

static bool is_there(world *world, const char *file) {
    uint64_t size;
    return world->real.ops->size(world->real.self, file, &size) == MR_OK;
}

/* An unchanged snapshot is not written again, and its file stays while a kept checkpoint uses it. */
static void unchanged_files_are_shared(void **state) {
    world *world = *state;
    make(world, 3, "a", "b3");
    make(world, 4, "a", "b4");
    assert_true(is_there(world, "shard-1-1") && !is_there(world, "shard-1-0"));
    assert_true(checkpoint_store_lsn(world->store, 0) == 40 && checkpoint_store_lsn(world->store, 1) == 41);
    make(world, 5, "a", "b5");
    make(world, 6, "a", "b6");
    make(world, 7, "x", "b7");
    start_again(world);
    assert_string_equal(fetch(world, 7, 0), "x");
    damage(world, CHECKPOINT_STORE_MANIFEST, 12);
    start_again(world);
    assert_string_equal(fetch(world, 6, 0), "a");
    assert_string_equal(fetch(world, 6, 1), "b6");
    damage(world, "shard-0-0", 0); /* a damaged file is not shared */
    make(world, 8, "a", "b8");
    assert_string_equal(fetch(world, 8, 0), "a");
}

/* ---- Another number of slots. */

static mr_status write_part(void *context, uint32_t slot, buffer *out) {
    char text[8];
    snprintf(text, sizeof text, "%s%u", (const char *)context, slot);
    buffer_clear(out);
    return buffer_append(out, text, strlen(text));
}

static void assert_read(world *world, uint32_t slot, const char *text) {
    buffer bytes;
    buffer_init(&bytes, 100);
    assert_int_equal(checkpoint_store_read(world->store, slot, &bytes), MR_OK);
    assert_int_equal(bytes.size, strlen(text));
    assert_memory_equal(bytes.data, text, bytes.size);
    buffer_fini(&bytes);
}

static size_t count_files(world *world) {
    size_t count = 0, got;
    char name[DISK_NAME_MAX], byte;
    for (uint32_t i = 0; i < (CHECKPOINT_STORE_KEPT + 1) * MANY; i++) {
        checkpoint_store_name_shard(name, (uint8_t)(i / MANY), i % MANY, "");
        count += world->real.ops->read(world->real.self, name, 0, &byte, 1, &got) == MR_OK;
    }
    return count;
}

/* A failure at any write leaves the old checkpoint, or after the manifest the new one. */
static void the_newest_checkpoint_gets_other_slots(void **state) {
    world *world = *state;
    make(world, 3, "a3", "b3");
    make(world, 4, "a4", "b4");
    for (int i = 1; i <= MANY + 1; i++) {
        world->renames = i;
        assert_int_equal(checkpoint_store_recut(world->store, MANY, write_part, (char[]){"x"}), MR_IO);
        assert_true(checkpoint_store_slots(world->store) == SLOTS && checkpoint_store_newest(world->store) == 4);
        start_again(world);
        assert_true(checkpoint_store_slots(world->store) == SLOTS && checkpoint_store_newest(world->store) == 4);
        assert_read(world, 0, "a4");
        assert_read(world, 1, "b4");
    }
    assert_int_equal(checkpoint_store_recut(world->store, MANY, write_part, (char[]){"x"}), MR_OK);
    for (int turn = 0; turn < 2; turn++) {
        assert_true(checkpoint_store_slots(world->store) == MANY && checkpoint_store_newest(world->store) == 4);
        assert_int_equal(checkpoint_store_lsn(world->store, 2), 41); /* the latest of the slots before */
        for (uint32_t i = 0; i < MANY; i++) assert_read(world, i, (char[]){'x', (char)('0' + i), 0});
        start_again(world);
    }
    assert_int_equal(count_files(world), SLOTS + MANY); /* of checkpoint 3, and of checkpoint 4 as it is now */
    assert_int_equal(checkpoint_store_recut(world->store, SLOTS, write_part, (char[]){"y"}), MR_OK);
    make(world, 5, "a5", "b5");
    uint64_t version;
    assert_true(checkpoint_store_newest(world->store) == 5 && checkpoint_store_oldest(world->store, &version) == 3);
    assert_string_equal(fetch(world, 5, 1), "b5");
    assert_int_equal(count_files(world), 3 * SLOTS);
}

static void other_slots_have_the_same_version(void **state) {
    world *world = *state;
    uint64_t version;
    cut_version(world, 4, 0, 7, "a4");
    cut_version(world, 4, 1, 7, "b4");
    assert_int_equal(checkpoint_store_recut(world->store, MANY, write_part, (char[]){"x"}), MR_OK);
    start_again(world);
    assert_true(checkpoint_store_oldest(world->store, &version) == 4 && version == 7);
}

/* A damaged checkpoint is not replaced by an older one of another number of slots, except to change that one. */
static void checkpoints_of_other_slots_are_not_restored(void **state) {
    world *world = *state;
    make(world, 3, "a3", "b3");
    make(world, 4, "a4", "b4");
    assert_int_equal(checkpoint_store_recut(world->store, MANY, write_part, (char[]){"x"}), MR_OK);
    world->slot_count = SLOTS;
    start_again(world);
    assert_true(checkpoint_store_is_stuck(world->store) && checkpoint_store_newest(world->store) == 0);
    assert_int_equal(checkpoint_store_check(world->store), MR_CORRUPT);
    assert_non_null(strstr(mr_last_error(), "checkpoint 4 has 5 slots, the deployment 2"));
    world->slot_count = MANY;
    start_again(world);
    assert_false(checkpoint_store_is_stuck(world->store));
    damage(world, CHECKPOINT_STORE_MANIFEST, 20);
    start_again(world);
    assert_true(checkpoint_store_is_stuck(world->store) && checkpoint_store_newest(world->store) == 0);
    world->slot_count = 0;
    start_again(world);
    assert_true(checkpoint_store_newest(world->store) == 3 && checkpoint_store_slots(world->store) == SLOTS);
    assert_int_equal(checkpoint_store_recut(world->store, MANY, write_part, (char[]){"z"}), MR_OK);
    world->slot_count = MANY;
    start_again(world);
    assert_true(checkpoint_store_newest(world->store) == 3 && checkpoint_store_slots(world->store) == MANY);
    assert_read(world, 4, "z4");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_last_shard_makes_it_whole, setup, teardown),
        cmocka_unit_test_setup_teardown(a_head_asks_before_it_sends_again, setup, teardown),
        cmocka_unit_test_setup_teardown(slots_of_an_exact_one_were_cut_at_the_same_steps, setup, teardown),
        cmocka_unit_test_setup_teardown(an_incomplete_checkpoint_is_ignored, setup, teardown),
        cmocka_unit_test_setup_teardown(another_generation_begins_anew, setup, teardown),
        cmocka_unit_test_setup_teardown(a_seal_holds_until_the_next_map, setup, teardown),
        cmocka_unit_test_setup_teardown(it_remembers_at_which_number_it_was_sealed, setup, teardown),
        cmocka_unit_test_setup_teardown(failed_writes_are_repeated, setup, teardown),
        cmocka_unit_test_setup_teardown(a_manifest_in_doubt_is_written_before_anything_else, setup, teardown),
        cmocka_unit_test_setup_teardown(a_damaged_manifest_is_told_and_an_older_one_used, setup, teardown),
        cmocka_unit_test_setup_teardown(a_manifest_that_is_gone_is_told_and_an_older_one_used, setup, teardown),
        cmocka_unit_test_setup_teardown(when_all_are_damaged_it_is_stuck, setup, teardown),
        cmocka_unit_test_setup_teardown(nothing_is_believed_of_a_damaged_manifest, setup, teardown),
        cmocka_unit_test_setup_teardown(without_an_older_one_it_does_nothing, setup, teardown),
        cmocka_unit_test_setup_teardown(checkpoints_of_another_format_are_not_read, setup, teardown),
        cmocka_unit_test_setup_teardown(a_manifest_of_format_3_is_read, setup, teardown),
        cmocka_unit_test_setup_teardown(slots_of_one_checkpoint_have_one_version, setup, teardown),
        cmocka_unit_test_setup_teardown(outdated_cuts_are_not_mixed_in, setup, teardown),
        cmocka_unit_test_setup_teardown(shards_lie_as_the_host_wants_them, setup, teardown),
        cmocka_unit_test_setup_teardown(a_damaged_shard_takes_its_checkpoint_with_it, setup, teardown),
        cmocka_unit_test_setup_teardown(unchanged_files_are_shared, setup, teardown),
        cmocka_unit_test_setup_teardown(the_newest_checkpoint_gets_other_slots, setup, teardown),
        cmocka_unit_test_setup_teardown(other_slots_have_the_same_version, setup, teardown),
        cmocka_unit_test_setup_teardown(checkpoints_of_other_slots_are_not_restored, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
