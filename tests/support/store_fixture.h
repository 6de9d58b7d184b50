/* store_fixture.h — a store server and several store clients in one process, for tests: no broker, no messages, a disk
 * in memory.
 *
 * Requests of a client are answered at once. Saves and loads wait until store_fixture_disk runs them.
 * store_fixture_kill simulates the death of a client: the client closes nothing, and the store server is notified of
 * the death of the client's process. */
#pragma once
#include "net/shm/extent_allocator.h"
#include "store/store_client.h"

enum { STORE_FIXTURE_STORES = 4, STORE_FIXTURE_JOBS = 256, STORE_FIXTURE_FILES = 1024 };

typedef struct store_fixture_store {
    struct store_fixture *fixture;
    store_client *store; /* NULL: none */
    uint64_t process;
} store_fixture_store;

typedef struct store_fixture_job {
    bool load;
    uint64_t ticket, file, size;
    uint8_t *data;
} store_fixture_job;

typedef struct store_fixture_file {
    uint64_t name, size; /* name 0: unused */
    uint8_t *bytes;      /* owned */
} store_fixture_file;

typedef struct store_fixture {
    arena arena;
    extent_allocator *allocator;
    store_server *server;
    store_fixture_store stores[STORE_FIXTURE_STORES];
    uint64_t next_process;
    int64_t now_us;
    virtual_clock clock;
    store_fixture_job jobs[STORE_FIXTURE_JOBS];
    size_t job_count;
    store_fixture_file files[STORE_FIXTURE_FILES];
    bool disk_full, disk_bad; /* saves fail; loads find other bytes */
    unsigned nudges;
} store_fixture;

void store_fixture_open(store_fixture *fixture, uint64_t arena_bytes, const store_server_options *options);
void store_fixture_close(store_fixture *fixture); /* asserts that every byte of the arena is free */

void store_fixture_join(store_fixture *fixture, unsigned index);  /* a new process at this index */
void store_fixture_leave(store_fixture *fixture, unsigned index); /* closes the index's store client and leaves */
void store_fixture_kill(store_fixture *fixture, unsigned index);
size_t store_fixture_disk(store_fixture *fixture); /* runs waiting operations; returns their number */
size_t store_fixture_file_count(const store_fixture *fixture);

/* Creates an object, fills it with bytes that follow from the seed, seals it. */
mr_status store_fixture_make(store_fixture *fixture, unsigned index, uint64_t size, uint8_t seed,
                             store_client_object **out);
/* Takes a view, compares the bytes, releases the view. Returns the status of the view; MR_CORRUPT: wrong bytes. */
mr_status store_fixture_look(store_fixture *fixture, unsigned index, store_client_object *object, uint8_t seed);
