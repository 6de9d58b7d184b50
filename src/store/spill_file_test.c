/* spill_file_test.c — saved objects are loaded unchanged, other loads fail, and no file is left in the folder. */
#include "store/spill_file.h"

#include <dirent.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/failpoint.h"
#include "net/shm/extent_allocator.h"
#include "store/store_client.h"
#include "tests/support/temp_dir.h"

enum { MB = 1 << 20, PATIENCE_US = 20 * 1000 * 1000 };

typedef struct place { /* store server, spill file and store client in one process */
    char folder[TEMP_DIR_FOLDER_MAX], spill_folder[TEMP_DIR_FOLDER_MAX + 8];
    arena arena;
    extent_allocator *allocator;
    store_server *server;
    spill_file *spill;
    store_client *store;
} place;

static place the_place;
static place *const p = &the_place;

static mr_status extent_alloc(void *context, uint64_t size, extent *out) {
    return extent_allocator_alloc(p->allocator, size, out);
}
static void extent_free(void *context, extent extent) { extent_allocator_free(p->allocator, extent); }
static mr_status save(void *context, uint64_t ticket, const void *data, uint64_t size) {
    return spill_file_save(p->spill, ticket, data, size);
}
static mr_status load(void *context, uint64_t ticket, uint64_t file, void *data, uint64_t size) {
    return spill_file_load(p->spill, ticket, file, data, size);
}
static void forget(void *context, uint64_t file) { spill_file_forget(p->spill, file); }
static const store_server_ops ops = {
    .extent_alloc = extent_alloc, .extent_free = extent_free, .save = save, .load = load, .forget = forget};

static int64_t now(void) { return clock_now_us(clock_real()); }

static void restored(void *argument, mr_status status) {
    store_client_request *request = argument;
    store_client_answer(p->store, request, status, (extent){0}, 1);
    free(request);
}

static mr_status ask(void *context, const store_client_request *request) {
    if (request->ask == STORE_CLIENT_GIVE_BACK) return store_server_give_back(p->server, 1, request->extent);
    if (request->ask == STORE_CLIENT_RESTORE) {
        store_client_request *copy = malloc(sizeof *copy);
        *copy = *request;
        store_server_restore(p->server, 1, &request->ref, now(), restored, copy);
        return MR_OK;
    }
    extent extent = {0};
    int64_t retry_us = 0;
    mr_status status = store_server_lease(p->server, 1, request->kind, request->size, now(), &extent, &retry_us);
    store_client_answer(p->store, request, status, extent, retry_us);
    return MR_OK;
}
static const store_client_ops direct = {.ask = ask};

static void place_open(uint64_t bytes_max, int64_t patience_us) {
    struct stat about;
    extent lease_page;
    int64_t retry_us;
    memset(p, 0, sizeof *p);
    assert_true(temp_dir_folder(p->folder));
    snprintf(p->spill_folder, sizeof p->spill_folder, "%s/spill", p->folder);
    assert_int_equal(spill_file_open(p->spill_folder, bytes_max, &p->spill), MR_OK);
    assert_int_equal(stat(p->spill_folder, &about), 0);
    assert_int_equal(about.st_mode & 0777, 0700);
    assert_int_equal(arena_create(ARENA_EXTENTS_OFFSET + 24 * MB, &p->arena), MR_OK);
    assert_int_equal(arena_back(&p->arena, 0, p->arena.size), MR_OK);
    p->allocator = extent_allocator_create(ARENA_EXTENTS_OFFSET, p->arena.size);
    p->server = store_server_open(&p->arena, &ops, NULL,
                                  &(store_server_options){.spill_bytes_max = bytes_max, .patience_us = patience_us});
    assert_int_equal(store_server_lease(p->server, 1, LEASE_PAGE, 0, 0, &lease_page, &retry_us), MR_OK);
    store_client_options options = {1, clock_real()};
    assert_int_equal(store_client_open(&p->arena, lease_page, &direct, NULL, &options, &p->store), MR_OK);
}

static void place_close(void) {
    store_client_close(p->store);
    spill_file_close(p->spill);
    store_server_close(p->server);
    assert_int_equal(extent_allocator_stats_now(p->allocator).used, 0);
    extent_allocator_destroy(p->allocator);
    arena_unmap(&p->arena);
    assert_int_equal(rmdir(p->spill_folder), 0); /* the folder is empty, and was while the spill file was open */
    assert_int_equal(rmdir(p->folder), 0);
}

static void wait_disk(void) {
    struct pollfd wait = {.fd = spill_file_fd(p->spill), .events = POLLIN};
    poll(&wait, 1, 20);
    spill_file_poll(p->spill, p->server, now());
    store_client_poll(p->store);
}

static mr_status make(uint64_t size, uint8_t seed, store_client_object **out) {
    void *data;
    int64_t deadline = now() + PATIENCE_US;
    for (;;) {
        mr_status status = store_client_create(p->store, size, out, &data);
        if (status != MR_BUSY || now() > deadline) {
            if (status != MR_OK) return status;
            break;
        }
        wait_disk();
    }
    memset(data, seed, size);
    store_client_seal(p->store, *out);
    return MR_OK;
}

static mr_status look(store_client_object *object, uint8_t seed) {
    void *data;
    uint64_t size;
    int64_t deadline = now() + PATIENCE_US;
    mr_status status;
    while ((status = store_client_view(p->store, object, &data, &size)) == MR_BUSY && now() < deadline) wait_disk();
    if (status != MR_OK) return status;
    for (uint64_t i = 0; i < size && status == MR_OK; i++)
        if (((uint8_t *)data)[i] != seed) status = MR_CORRUPT;
    store_client_unview(p->store, object);
    return status;
}

static void ten_times_the_memory_goes_to_disk_and_back(void **state) {
    store_client_object *made[60];
    place_open(0, 0);
    for (unsigned i = 0; i < 60; i++) assert_int_equal(make(3 * MB + i, (uint8_t)i, &made[i]), MR_OK);
    for (unsigned i = 0; i < 60; i++) assert_int_equal(look(made[i], (uint8_t)i), MR_OK);
    assert_true(store_server_stats_now(p->server).spilled >= 50);
    assert_true(store_server_stats_now(p->server).restored >= 50);
    for (unsigned i = 0; i < 60; i++) store_client_drop(p->store, made[i]);
    for (unsigned i = 0; i < 100 && store_server_stats_now(p->server).objects > 0; i++) {
        wait_disk();
        store_server_collect(p->server);
        store_client_poll(p->store);
    }
    assert_int_equal(store_server_stats_now(p->server).objects, 0);
    assert_int_equal(store_server_stats_now(p->server).spilled_bytes, 0);
    place_close();
}

/* Does not poll the spill file: saves are still pending when their memory is reused for another object. */
static void make_at_once(uint64_t size, uint8_t seed, store_client_object **out) {
    void *data;
    int64_t deadline = now() + PATIENCE_US;
    mr_status status;
    while ((status = store_client_create(p->store, size, out, &data)) == MR_BUSY && now() < deadline) {
        store_server_collect(p->server);
        store_client_poll(p->store);
    }
    assert_int_equal(status, MR_OK);
    memset(data, seed, size);
    store_client_seal(p->store, *out);
}

static void a_file_forgotten_during_its_save_is_reused(void **state) {
    enum { COUNT = 7 };
    store_client_object *made[COUNT], *more;
    void *data;
    place_open(0, 0);
    for (unsigned i = 0; i < COUNT; i++) assert_int_equal(make(3 * MB, (uint8_t)i, &made[i]), MR_OK);
    /* this request makes the store server spill the oldest objects */
    assert_int_equal(store_client_create(p->store, 12 * MB, &more, &data), MR_BUSY);
    for (unsigned i = 0; i < COUNT; i++) store_client_drop(p->store, made[i]);
    for (unsigned i = 0; i < COUNT; i++) make_at_once(3 * MB, (uint8_t)(100 + i), &made[i]);
    for (int64_t deadline = now() + PATIENCE_US; store_server_stats_now(p->server).voided == 0 && now() < deadline;)
        wait_disk();
    assert_true(store_server_stats_now(p->server).voided > 0);
    for (unsigned i = 0; i < COUNT; i++) assert_int_equal(look(made[i], (uint8_t)(100 + i)), MR_OK);
    for (unsigned i = 0; i < COUNT; i++) store_client_drop(p->store, made[i]);
    place_close();
}

static void spilled_bytes_are_bounded(void **state) {
    store_client_object *made[8], *more;
    unsigned count = 0;
    place_open(8 * MB, 100 * 1000);
    while (count < 8 && make(5 * MB, (uint8_t)count, &made[count]) == MR_OK) count++;
    assert_true(count >= 4 && count < 8);
    assert_true(store_server_stats_now(p->server).spilled_bytes <= 8 * MB);
    assert_int_equal(make(5 * MB, 9, &more), MR_NOMEM);
    for (unsigned i = 0; i < count; i++) { /* an object is restored after another was spilled */
        mr_status status = look(made[i], (uint8_t)i);
        assert_true(status == MR_OK || status == MR_NOMEM);
        if (status == MR_NOMEM) store_client_drop(p->store, made[i]);
    }
    place_close();
}

static void a_failed_load_reports_the_cause(void **state) {
    store_client_object *first, *second;
    void *data;
    uint64_t size;
    place_open(0, 100 * 1000);
    assert_int_equal(make(14 * MB, 1, &first), MR_OK);
    assert_int_equal(make(14 * MB, 2, &second), MR_OK);
    assert_int_equal(store_client_view(p->store, second, &data, &size),
                     MR_OK); /* the view keeps the object in memory */
    for (int i = 0; i < 2; i++) {
        assert_int_equal(look(first, 1), MR_NOMEM);
        assert_non_null(strstr(mr_last_error(), "no room for 14680064 bytes"));
        assert_non_null(strstr(mr_last_error(), "(p1: "));
        assert_non_null(strstr(mr_last_error(), "release some"));
    }
    store_client_unview(p->store, second);
    assert_int_equal(look(first, 1), MR_OK);
    place_close();
}

static void a_full_disk_loses_nothing(void **state) {
    if (failpoint_count() == 0) skip();
    store_client_object *first, *second;
    place_open(0, 100 * 1000);
    assert_int_equal(make(14 * MB, 1, &first), MR_OK);
    assert_int_equal(failpoint_arm("store.spill_write=error@3"), MR_OK);
    mr_status status = make(14 * MB, 2, &second); /* the first save fails, a later one succeeds */
    failpoint_disarm_all();
    assert_true(status == MR_OK || status == MR_NOMEM);
    assert_int_equal(look(first, 1), MR_OK);
    place_close();
}

static void a_file_that_cannot_be_read_is_a_lost_object(void **state) {
    if (failpoint_count() == 0) skip();
    store_client_object *first, *second;
    place_open(0, 0);
    assert_int_equal(make(14 * MB, 1, &first), MR_OK);
    assert_int_equal(make(14 * MB, 2, &second), MR_OK);
    store_client_drop(p->store, second);
    assert_int_equal(failpoint_arm("store.spill_read=error@2"), MR_OK);
    assert_int_equal(look(first, 1), MR_OBJECT_LOST);
    failpoint_disarm_all();
    place_close();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ten_times_the_memory_goes_to_disk_and_back),
        cmocka_unit_test(a_file_forgotten_during_its_save_is_reused),
        cmocka_unit_test(spilled_bytes_are_bounded),
        cmocka_unit_test(a_failed_load_reports_the_cause),
        cmocka_unit_test(a_full_disk_loses_nothing),
        cmocka_unit_test(a_file_that_cannot_be_read_is_a_lost_object),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
