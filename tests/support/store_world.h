/* store_world.h — a vault and several stores in one process, for tests: no hub, no messages, a disk of memory.
 *
 * What a store asks is answered at once. Saves and loads wait until world_disk runs them. A store "dies" by
 * world_kill: nothing of it is closed, the vault is told that its process is gone. */
#pragma once
#include "net/shm/extents.h"
#include "store/store.h"

enum { WORLD_STORES = 4, WORLD_JOBS = 256, WORLD_FILES = 1024 };

typedef struct world_store {
    struct world *world;
    store *store; /* NULL: none */
    uint64_t process;
} world_store;

typedef struct world_job {
    bool load;
    uint64_t ticket, file, size;
    uint8_t *data;
} world_job;

typedef struct world_file {
    uint64_t name, size; /* name 0: none */
    uint8_t *bytes;      /* owned */
} world_file;

typedef struct world {
    arena arena;
    extents *extents;
    vault *vault;
    world_store stores[WORLD_STORES];
    uint64_t next_process;
    int64_t now_us;
    virtual_clock clock;
    world_job jobs[WORLD_JOBS];
    size_t job_count;
    world_file files[WORLD_FILES];
    bool disk_full, disk_bad; /* saves fail; loads find other bytes */
    unsigned nudges;
} world;

void world_open(world *world, uint64_t arena_bytes, const vault_options *options);
void world_close(world *world); /* asserts that every byte of the arena is back */

void world_join(world *world, unsigned index);  /* a new process takes this place */
void world_leave(world *world, unsigned index); /* closes its store and goes */
void world_kill(world *world, unsigned index);
size_t world_disk(world *world); /* does what waits; how much that was */
size_t world_file_count(const world *world);

/* Creates, fills with bytes that follow from the seed, seals. */
mr_status world_make(world *world, unsigned index, uint64_t size, uint8_t seed, store_object **out);
/* Takes a view, compares, lets it go. The status of the view; MR_CORRUPT: other bytes. */
mr_status world_look(world *world, unsigned index, store_object *object, uint8_t seed);
