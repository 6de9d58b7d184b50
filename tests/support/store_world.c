/* store_world.c — see store_world.h. */
#include "tests/support/store_world.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/error.h"

/* ---- The vault's ops. */

static mr_status extent_alloc(void *context, uint64_t size, extent *out) {
    return extents_alloc(((world *)context)->extents, size, out);
}

static mr_status extent_take(void *context, extent wanted) { return extents_take(((world *)context)->extents, wanted); }

static void extent_free(void *context, extent extent) {
    world *world = context;
    memset(arena_at(&world->arena, extent.offset), 0xdd, extent.size); /* whoever still reads it shall notice */
    extents_free(world->extents, extent);
}

static mr_status save(void *context, uint64_t ticket, const void *data, uint64_t size) {
    world *world = context;
    if (world->job_count == WORLD_JOBS) return error_set(MR_BUSY, "too many");
    world_job *job = &world->jobs[world->job_count++];
    *job = (world_job){.ticket = ticket, .size = size};
    job->data = arena_at(&world->arena, (uint64_t)((const uint8_t *)data - world->arena.base));
    return MR_OK;
}

static mr_status load(void *context, uint64_t ticket, uint64_t file, void *data, uint64_t size) {
    world *world = context;
    if (world->job_count == WORLD_JOBS) return error_set(MR_BUSY, "too many");
    world->jobs[world->job_count++] =
        (world_job){.load = true, .ticket = ticket, .file = file, .size = size, .data = data};
    return MR_OK;
}

static world_file *find_file(world *world, uint64_t name) {
    for (size_t i = 0; i < WORLD_FILES; i++)
        if (world->files[i].name == name) return &world->files[i];
    return NULL;
}

static void forget(void *context, uint64_t name) {
    world_file *file = find_file(context, name);
    if (file == NULL) return;
    free(file->bytes);
    *file = (world_file){0};
}

static void nudge(void *context, uint64_t process) { ((world *)context)->nudges++; }

static const vault_ops ops = {extent_alloc, extent_free, save, load, forget, nudge, extent_take};

size_t world_file_count(const world *world) {
    size_t count = 0;
    for (size_t i = 0; i < WORLD_FILES; i++) count += world->files[i].name != 0;
    return count;
}

static mr_status run_job(world *world, const world_job *job) {
    if (job->load) {
        world_file *file = find_file(world, job->file);
        if (file == NULL || file->size != job->size || world->disk_bad) return error_set(MR_CORRUPT, "not those bytes");
        memcpy(job->data, file->bytes, job->size);
        return MR_OK;
    }
    world_file *file = find_file(world, 0);
    if (world->disk_full || file == NULL) return error_set(MR_NOMEM, "the disk is full");
    *file = (world_file){.name = job->ticket, .size = job->size, .bytes = malloc(job->size)};
    memcpy(file->bytes, job->data, job->size);
    return MR_OK;
}

size_t world_disk(world *world) {
    size_t count = world->job_count;
    world_job jobs[WORLD_JOBS];
    memcpy(jobs, world->jobs, sizeof jobs);
    world->job_count = 0;
    for (size_t i = 0; i < count; i++)
        vault_moved(world->vault, jobs[i].ticket, run_job(world, &jobs[i]), world->now_us);
    return count;
}

/* ---- The stores' ops. */

typedef struct asked {
    store *store;
    store_request request;
} asked;

static void restored(void *argument, mr_status status) {
    asked *asked = argument;
    if (asked->store != NULL) store_answer(asked->store, &asked->request, status, (extent){0}, VAULT_RETRY_US);
    free(asked);
}

static mr_status ask(void *context, const store_request *request) {
    world_store *from = context;
    world *world = from->world;
    extent extent = {0};
    int64_t retry_us = 0;
    if (request->ask == STORE_GIVE_BACK) return vault_give_back(world->vault, from->process, request->extent);
    if (request->ask == STORE_RESTORE) {
        asked *asked = malloc(sizeof *asked);
        asked->store = from->store;
        asked->request = *request;
        vault_restore(world->vault, from->process, &request->ref, world->now_us, restored, asked);
        return MR_OK;
    }
    mr_status status =
        vault_lease(world->vault, from->process, request->kind, request->size, world->now_us, &extent, &retry_us);
    store_answer(from->store, request, status, extent, retry_us);
    return MR_OK;
}

static const store_ops direct_ops = {.ask = ask};

/* ---- Life. */

void world_open(world *world, uint64_t arena_bytes, const vault_options *options) {
    memset(world, 0, sizeof *world);
    assert_int_equal(arena_create(ARENA_EXTENTS_OFFSET + arena_bytes, &world->arena), MR_OK);
    assert_int_equal(arena_back(&world->arena, 0, world->arena.size), MR_OK);
    world->extents = extents_create(ARENA_EXTENTS_OFFSET, world->arena.size);
    world->vault = vault_open(&world->arena, &ops, world, options);
    world->next_process = 1000;
    for (unsigned i = 0; i < WORLD_STORES; i++) world->stores[i].world = world;
}

void world_close(world *world) {
    for (unsigned i = 0; i < WORLD_STORES; i++)
        if (world->stores[i].store != NULL) world_leave(world, i);
    world->job_count = 0;
    vault_close(world->vault);
    assert_int_equal(extents_stats_now(world->extents).used, 0);
    extents_destroy(world->extents);
    for (size_t i = 0; i < WORLD_FILES; i++) free(world->files[i].bytes);
    arena_unmap(&world->arena);
}

void world_join(world *world, unsigned index) {
    world_store *place = &world->stores[index];
    assert_null(place->store);
    place->process = world->next_process++;
    extent desk;
    int64_t retry_us;
    assert_int_equal(vault_lease(world->vault, place->process, LEASE_DESK, 0, world->now_us, &desk, &retry_us), MR_OK);
    store_options options = {place->process, clock_virtual(&world->clock)};
    assert_int_equal(store_open(&world->arena, desk, &direct_ops, place, &options, &place->store), MR_OK);
}

void world_leave(world *world, unsigned index) {
    world_store *place = &world->stores[index];
    store_close(place->store);
    place->store = NULL;
    vault_leave(world->vault, place->process);
}

void world_kill(world *world, unsigned index) {
    world_store *place = &world->stores[index];
    store_abandon(place->store);
    place->store = NULL;
    vault_leave(world->vault, place->process);
}

/* ---- Objects. */

static uint8_t byte_at(uint8_t seed, uint64_t at) { return (uint8_t)(seed + at * 7 + (at >> 8)); }

mr_status world_make(world *world, unsigned index, uint64_t size, uint8_t seed, store_object **out) {
    void *data;
    MR_TRY(store_create(world->stores[index].store, size, out, &data));
    for (uint64_t i = 0; i < size; i++) ((uint8_t *)data)[i] = byte_at(seed, i);
    store_seal(world->stores[index].store, *out);
    return MR_OK;
}

mr_status world_look(world *world, unsigned index, store_object *object, uint8_t seed) {
    void *data;
    uint64_t size;
    store *store = world->stores[index].store;
    MR_TRY(store_view(store, object, &data, &size));
    mr_status status = (uintptr_t)data % 64 == 0 ? MR_OK : MR_CORRUPT;
    for (uint64_t i = 0; i < size && status == MR_OK; i++)
        if (((uint8_t *)data)[i] != byte_at(seed, i)) status = MR_CORRUPT;
    if (status == MR_OK) memset(data, 0xee, size < 5000 ? size : 5000); /* changes only this view */
    store_unview(store, object);
    return status;
}
