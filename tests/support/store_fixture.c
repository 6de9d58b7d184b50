/* store_fixture.c — see store_fixture.h. */
#include "tests/support/store_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/error.h"

/* ---- The store server's ops. */

static mr_status extent_alloc(void *context, uint64_t size, extent *out) {
    return extent_allocator_alloc(((store_fixture *)context)->allocator, size, out);
}

static mr_status extent_take(void *context, extent wanted) {
    return extent_allocator_take(((store_fixture *)context)->allocator, wanted);
}

static void extent_free(void *context, extent extent) {
    store_fixture *fixture = context;
    memset(arena_at(&fixture->arena, extent.offset), 0xdd, extent.size); /* makes late readers read wrong bytes */
    extent_allocator_free(fixture->allocator, extent);
}

static mr_status save(void *context, uint64_t ticket, const void *data, uint64_t size) {
    store_fixture *fixture = context;
    if (fixture->job_count == STORE_FIXTURE_JOBS) return error_set(MR_BUSY, "too many");
    store_fixture_job *job = &fixture->jobs[fixture->job_count++];
    *job = (store_fixture_job){.ticket = ticket, .size = size};
    job->data = arena_at(&fixture->arena, (uint64_t)((const uint8_t *)data - fixture->arena.base));
    return MR_OK;
}

static mr_status load(void *context, uint64_t ticket, uint64_t file, void *data, uint64_t size) {
    store_fixture *fixture = context;
    if (fixture->job_count == STORE_FIXTURE_JOBS) return error_set(MR_BUSY, "too many");
    fixture->jobs[fixture->job_count++] =
        (store_fixture_job){.load = true, .ticket = ticket, .file = file, .size = size, .data = data};
    return MR_OK;
}

static store_fixture_file *find_file(store_fixture *fixture, uint64_t name) {
    for (size_t i = 0; i < STORE_FIXTURE_FILES; i++)
        if (fixture->files[i].name == name) return &fixture->files[i];
    return NULL;
}

static void forget(void *context, uint64_t name) {
    store_fixture_file *file = find_file(context, name);
    if (file == NULL) return;
    free(file->bytes);
    *file = (store_fixture_file){0};
}

static void nudge(void *context, uint64_t process) { ((store_fixture *)context)->nudges++; }

static const store_server_ops ops = {extent_alloc, extent_free, save, load, forget, nudge, extent_take};

size_t store_fixture_file_count(const store_fixture *fixture) {
    size_t count = 0;
    for (size_t i = 0; i < STORE_FIXTURE_FILES; i++) count += fixture->files[i].name != 0;
    return count;
}

static mr_status run_job(store_fixture *fixture, const store_fixture_job *job) {
    if (job->load) {
        store_fixture_file *file = find_file(fixture, job->file);
        if (file == NULL || file->size != job->size || fixture->disk_bad)
            return error_set(MR_CORRUPT, "not those bytes");
        memcpy(job->data, file->bytes, job->size);
        return MR_OK;
    }
    store_fixture_file *file = find_file(fixture, 0);
    if (fixture->disk_full || file == NULL) return error_set(MR_NOMEM, "the disk is full");
    *file = (store_fixture_file){.name = job->ticket, .size = job->size, .bytes = malloc(job->size)};
    memcpy(file->bytes, job->data, job->size);
    return MR_OK;
}

size_t store_fixture_disk(store_fixture *fixture) {
    size_t count = fixture->job_count;
    store_fixture_job jobs[STORE_FIXTURE_JOBS];
    memcpy(jobs, fixture->jobs, sizeof jobs);
    fixture->job_count = 0;
    for (size_t i = 0; i < count; i++)
        store_server_moved(fixture->server, jobs[i].ticket, run_job(fixture, &jobs[i]), fixture->now_us);
    return count;
}

/* ---- The stores' ops. */

typedef struct asked {
    store_client *store;
    store_client_request request;
} asked;

static void restored(void *argument, mr_status status) {
    asked *asked = argument;
    if (asked->store != NULL)
        store_client_answer(asked->store, &asked->request, status, (extent){0}, STORE_SERVER_RETRY_US);
    free(asked);
}

static mr_status ask(void *context, const store_client_request *request) {
    store_fixture_store *from = context;
    store_fixture *fixture = from->fixture;
    extent extent = {0};
    int64_t retry_us = 0;
    if (request->ask == STORE_CLIENT_GIVE_BACK)
        return store_server_give_back(fixture->server, from->process, request->extent);
    if (request->ask == STORE_CLIENT_RESTORE) {
        asked *asked = malloc(sizeof *asked);
        asked->store = from->store;
        asked->request = *request;
        store_server_restore(fixture->server, from->process, &request->ref, fixture->now_us, restored, asked);
        return MR_OK;
    }
    mr_status status = store_server_lease(fixture->server, from->process, request->kind, request->size, fixture->now_us,
                                          &extent, &retry_us);
    store_client_answer(from->store, request, status, extent, retry_us);
    return MR_OK;
}

static const store_client_ops direct_ops = {.ask = ask};

/* ---- Opening, killing, closing. */

void store_fixture_open(store_fixture *fixture, uint64_t arena_bytes, const store_server_options *options) {
    memset(fixture, 0, sizeof *fixture);
    assert_int_equal(arena_create(ARENA_EXTENTS_OFFSET + arena_bytes, &fixture->arena), MR_OK);
    assert_int_equal(arena_back(&fixture->arena, 0, fixture->arena.size), MR_OK);
    fixture->allocator = extent_allocator_create(ARENA_EXTENTS_OFFSET, fixture->arena.size);
    fixture->server = store_server_open(&fixture->arena, &ops, fixture, options);
    fixture->next_process = 1000;
    for (unsigned i = 0; i < STORE_FIXTURE_STORES; i++) fixture->stores[i].fixture = fixture;
}

void store_fixture_close(store_fixture *fixture) {
    for (unsigned i = 0; i < STORE_FIXTURE_STORES; i++)
        if (fixture->stores[i].store != NULL) store_fixture_leave(fixture, i);
    fixture->job_count = 0;
    store_server_close(fixture->server);
    assert_int_equal(extent_allocator_stats_now(fixture->allocator).used, 0);
    extent_allocator_destroy(fixture->allocator);
    for (size_t i = 0; i < STORE_FIXTURE_FILES; i++) free(fixture->files[i].bytes);
    arena_unmap(&fixture->arena);
}

void store_fixture_join(store_fixture *fixture, unsigned index) {
    store_fixture_store *place = &fixture->stores[index];
    assert_null(place->store);
    place->process = fixture->next_process++;
    extent lease_page;
    int64_t retry_us;
    assert_int_equal(
        store_server_lease(fixture->server, place->process, LEASE_PAGE, 0, fixture->now_us, &lease_page, &retry_us),
        MR_OK);
    store_client_options options = {place->process, clock_virtual(&fixture->clock)};
    assert_int_equal(store_client_open(&fixture->arena, lease_page, &direct_ops, place, &options, &place->store),
                     MR_OK);
}

void store_fixture_leave(store_fixture *fixture, unsigned index) {
    store_fixture_store *place = &fixture->stores[index];
    store_client_close(place->store);
    place->store = NULL;
    store_server_leave(fixture->server, place->process);
}

void store_fixture_kill(store_fixture *fixture, unsigned index) {
    store_fixture_store *place = &fixture->stores[index];
    store_client_abandon(place->store);
    place->store = NULL;
    store_server_leave(fixture->server, place->process);
}

/* ---- Objects. */

static uint8_t byte_at(uint8_t seed, uint64_t at) { return (uint8_t)(seed + at * 7 + (at >> 8)); }

mr_status store_fixture_make(store_fixture *fixture, unsigned index, uint64_t size, uint8_t seed,
                             store_client_object **out) {
    void *data;
    MR_TRY(store_client_create(fixture->stores[index].store, size, out, &data));
    for (uint64_t i = 0; i < size; i++) ((uint8_t *)data)[i] = byte_at(seed, i);
    store_client_seal(fixture->stores[index].store, *out);
    return MR_OK;
}

mr_status store_fixture_look(store_fixture *fixture, unsigned index, store_client_object *object, uint8_t seed) {
    void *data;
    uint64_t size;
    store_client *store = fixture->stores[index].store;
    MR_TRY(store_client_view(store, object, &data, &size));
    mr_status status = (uintptr_t)data % 64 == 0 ? MR_OK : MR_CORRUPT;
    for (uint64_t i = 0; i < size && status == MR_OK; i++)
        if (((uint8_t *)data)[i] != byte_at(seed, i)) status = MR_CORRUPT;
    if (status == MR_OK) memset(data, 0xee, size < 5000 ? size : 5000); /* changes only this client's view */
    store_client_unview(store, object);
    return status;
}
