/* checkpoint_thread_test.c — a disk that hangs, is full or is missing affects only the checkpoints. */
#include "kv/checkpoint/checkpoint_thread.h"

#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/error.h"
#include "tests/support/message_recorder.h"
#include "tests/support/temp_dir.h"

enum { SLOTS = 2, WAIT_US = 60000000, SHARD = 1000 };

typedef struct world {
    char folder[TEMP_DIR_FOLDER_MAX];
    disk real;
    _Atomic bool hangs, full;
    _Atomic int waiting; /* calls in a hanging sync */
    sem_t go;
    event_loop *loop;
    event_loop_timer *timer;
    unsigned turns; /* calls of the loop's timer */
    checkpoint_thread *thread;
    message_recorder recorder;
    size_t saved; /* messages recorded so far */
    char trouble[256];
    bool relieved;
} world;

/* ---- A disk that hangs on demand, or is full. */

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
    if (world->full) return error_set(MR_NOMEM, "cannot write '%s': no space left", file);
    return world->real.ops->write(world->real.self, file, offset, data);
}
static mr_status on_sync(void *self, const char *file) {
    world *world = self;
    if (world->hangs) {
        world->waiting++;
        sem_wait(&world->go);
        world->waiting--;
    }
    return world->real.ops->sync_data(world->real.self, file);
}
static mr_status on_rename(void *self, const char *from, const char *to) {
    world *world = self;
    return world->real.ops->rename(world->real.self, from, to);
}
static mr_status on_remove(void *self, const char *file) {
    world *world = self;
    return world->real.ops->remove(world->real.self, file);
}
static const disk_ops ops = {.name = "slow",
                             .read = on_read,
                             .size = on_size,
                             .write = on_write,
                             .sync_data = on_sync,
                             .rename = on_rename,
                             .remove = on_remove};

/* ---- A loop with a checkpoint thread. */

static void on_send(void *context, const char *address, shared_bytes *message) {
    world *world = context;
    if (world->recorder.count > MESSAGE_RECORDER_MAX / 2) world->recorder.count = 0;
    message_recorder_take(&world->recorder, address, shared_bytes_bytes(message));
    reader reader = reader_of(shared_bytes_bytes(message).data, shared_bytes_bytes(message).size);
    slot_message_head head;
    slot_message slot_message;
    uint32_t count;
    assert_int_equal(slot_message_read_head(&reader, &head, &count), MR_OK);
    while (count-- > 0 && slot_message_read(&reader, &slot_message) == MR_OK)
        world->saved += slot_message.kind == SLOT_MESSAGE_SAVED;
}

static void on_trouble(void *context, const char *text) {
    world *world = context;
    if (text[0] != '\0') snprintf(world->trouble, sizeof world->trouble, "%s", text);
    if (text[0] == '\0') world->relieved = true;
}

static void on_timer(void *context) {
    world *world = context;
    world->turns++;
    event_loop_timer_set(world->timer, 1000);
}

static void hear(world *world, uint32_t who, const slot_message *message) {
    slot_message_head head = {.generation = 7, .number = 5, .incarnation = 1, .who = who};
    strcpy(head.address, who == SLOT_MESSAGE_CONTROLLER ? "d" : "s");
    message_recorder_batch batch = message_recorder_say(&head, message);
    checkpoint_thread_take(world->thread, batch.bytes, NULL);
    message_recorder_free(&batch);
}

static void hear_map(world *world) {
    cluster_map map = {.number = 5, .generation = 7, .birth = 1, .slot_count = SLOTS};
    map.slots = xcalloc(SLOTS, sizeof *map.slots);
    for (uint32_t i = 0; i < SLOTS; i++) map.slots[i].epoch = 5;
    slot_message_head head = {.generation = 7, .number = 5, .who = SLOT_MESSAGE_CONTROLLER, .address = "d"};
    message_recorder_batch batch = message_recorder_map(&head, &map);
    checkpoint_thread_take(world->thread, batch.bytes, NULL);
    message_recorder_free(&batch);
    cluster_map_fini(&map);
}

static void cut(world *world, uint64_t checkpoint, uint32_t slot) {
    static const char bytes[SHARD] = "as it was cut";
    hear(world, 1,
         &(slot_message){.kind = SLOT_MESSAGE_CUT,
                         .slot = slot,
                         .lsn = 10,
                         .name = checkpoint,
                         .payload = span_of(bytes, sizeof bytes)});
}

#define UNTIL(condition)                                                                                          \
    do {                                                                                                          \
        int64_t until_us = event_loop_now_us(world->loop) + WAIT_US;                                              \
        while (!(condition) && event_loop_now_us(world->loop) < until_us) event_loop_run_once(world->loop, 1000); \
        assert_true(condition);                                                                                   \
    } while (0)

static int setup(void **state) {
    static const checkpoint_thread_host host = {.send = on_send, .on_trouble = on_trouble};
    world *world = xcalloc(1, sizeof *world);
    assert_true(temp_dir_folder(world->folder));
    assert_int_equal(disk_open(world->folder, &world->real), MR_OK);
    assert_int_equal(sem_init(&world->go, 0, 0), 0);
    assert_int_equal(event_loop_create(&world->loop), MR_OK);
    world->timer = event_loop_timer_create(world->loop, on_timer, world);
    event_loop_timer_set(world->timer, 1000);
    checkpoint_thread_options options = {
        .address = "depot", .controller = "d", .disk = {&ops, world}, .clock = clock_real(), .bytes_max = 5 * SHARD};
    assert_int_equal(checkpoint_thread_open(world->loop, &options, &host, world, &world->thread), MR_OK);
    UNTIL(message_recorder_count(&world->recorder, "d", SLOT_MESSAGE_WHOLE) != 0); /* the store has read its disk */
    hear_map(world);
    *state = world;
    return 0;
}

static int teardown(void **state) {
    world *world = *state;
    world->hangs = false;
    for (int i = 0; i < world->waiting + 1; i++) sem_post(&world->go);
    checkpoint_thread_close(world->thread);
    event_loop_timer_destroy(world->timer);
    event_loop_destroy(world->loop);
    static const char *const files[] = {"manifest", "manifest-0", "shard-0-0.safetensors", "shard-0-1.safetensors"};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        char name[DISK_NAME_MAX];
        snprintf(name, sizeof name, "%s.new", files[i]);
        (void)world->real.ops->remove(world->real.self, files[i]);
        (void)world->real.ops->remove(world->real.self, name);
    }
    disk_close(world->real);
    sem_destroy(&world->go);
    int left = rmdir(world->folder);
    free(world);
    return left;
}

static void cuts_become_a_checkpoint(void **state) {
    world *world = *state;
    int64_t before_us = clock_wall_us(clock_real());
    assert_true(checkpoint_thread_look_at(world->thread).newest == 0 &&
                checkpoint_thread_look_at(world->thread).written_us == 0);
    cut(world, 3, 0);
    cut(world, 3, 1);
    UNTIL(message_recorder_named(&world->recorder, "d", SLOT_MESSAGE_WHOLE, SLOT_MESSAGE_OK, 3) == 1);
    /* the checkpoint exists before it is reported */
    assert_int_equal(checkpoint_thread_look_at(world->thread).newest, 3);
    assert_in_range(checkpoint_thread_look_at(world->thread).written_us, before_us, clock_wall_us(clock_real()));
    UNTIL(world->relieved);
    UNTIL(world->saved == 2);
    hear(world, 1, &(slot_message){.kind = SLOT_MESSAGE_FETCH, .slot = 1, .name = 3});
    UNTIL(message_recorder_count(&world->recorder, "s", SLOT_MESSAGE_SHARD) == 1);
    hear(world, SLOT_MESSAGE_CONTROLLER, &(slot_message){.kind = SLOT_MESSAGE_SEAL, .name = 5});
    UNTIL(message_recorder_count(&world->recorder, "d", SLOT_MESSAGE_SEALED) == 1);
    assert_string_equal(world->trouble, "");
}

/* The loop runs while a sync hangs, and no snapshot is reported as saved before the sync has ended. */
static void a_hanging_disk_does_not_block_the_loop(void **state) {
    world *world = *state;
    world->hangs = true;
    cut(world, 3, 0);
    cut(world, 3, 1);
    UNTIL(world->waiting == 1);
    unsigned before = world->turns;
    UNTIL(world->turns >= before + 50);
    assert_true(world->saved == 0 && checkpoint_thread_look_at(world->thread).newest == 0 && world->waiting == 1);
    world->hangs = false;
    sem_post(&world->go);
    UNTIL(checkpoint_thread_look_at(world->thread).newest == 3);
}

/* Jobs beyond the limit are lost, like messages, and are repeated. */
static void jobs_waiting_for_the_disk_are_bounded(void **state) {
    world *world = *state;
    world->hangs = true;
    cut(world, 3, 0);
    UNTIL(world->waiting == 1);
    for (uint64_t i = 0; i < 100; i++) cut(world, 3, 1);
    world->hangs = false;
    sem_post(&world->go);
    UNTIL(checkpoint_thread_look_at(world->thread).newest == 3);
    cut(world, 3, 1); /* behind all others */
    hear(world, SLOT_MESSAGE_CONTROLLER, &(slot_message){.kind = SLOT_MESSAGE_SEAL, .name = 5});
    UNTIL(message_recorder_count(&world->recorder, "d", SLOT_MESSAGE_SEALED) == 1);
    assert_in_range(world->saved, 3, 10);
}

static void a_full_disk_is_told_and_tried_again(void **state) {
    world *world = *state;
    world->full = true;
    cut(world, 3, 0);
    UNTIL(strstr(world->trouble, "no space left") != NULL);
    assert_non_null(strstr(world->trouble, "shard-0-0"));
    assert_true(world->saved == 0 && !world->relieved);
    world->full = false;
    cut(world, 3, 0);
    cut(world, 3, 1);
    UNTIL(checkpoint_thread_look_at(world->thread).newest == 3 && world->relieved);
}

/* Closing waits for the current write and drops waiting jobs. */
static void it_ends_while_the_disk_is_slow(void **state) {
    world *world = *state;
    world->hangs = true;
    cut(world, 3, 0);
    UNTIL(world->waiting == 1);
    cut(world, 3, 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(cuts_become_a_checkpoint, setup, teardown),
        cmocka_unit_test_setup_teardown(a_hanging_disk_does_not_block_the_loop, setup, teardown),
        cmocka_unit_test_setup_teardown(jobs_waiting_for_the_disk_are_bounded, setup, teardown),
        cmocka_unit_test_setup_teardown(a_full_disk_is_told_and_tried_again, setup, teardown),
        cmocka_unit_test_setup_teardown(it_ends_while_the_disk_is_slow, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
