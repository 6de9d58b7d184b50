/* store_race_test.c — holders and the store server at the same time, as threads, so that ThreadSanitizer checks them.
 *
 * Each thread has a store client of its own and creates, shows, takes, views and drops objects at random; references
 * are in a shared table where all threads find them, also long after their object is freed. The store server collects
 * and spills without a pause. A reference may be invalid; if it is valid, the bytes are right. Only operations that
 * would be messages are under a lock. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/rng.h"
#include "net/shm/extent_allocator.h"
#include "store/store_client.h"

enum { THREADS = 3, PROCESS_TABLE = 32, STEPS = 6000, MB = 1 << 20, FILES = 512, HELD = 16 };

typedef struct stage {
    arena arena;
    extent_allocator *allocator;
    store_server *server;
    /* protects the store server, the extents and the files, that is, the state of the store server's process */
    pthread_mutex_t lock;
    struct {
        uint64_t name, size, ticket;
        bool pending_save, pending_load;
        uint8_t *bytes, *data;
    } files[FILES];
    pthread_mutex_t process_table_lock;
    object_ref process_table[PROCESS_TABLE];
    _Atomic unsigned running;
    _Atomic uint64_t found, missed, wrong, made;
} stage;

static stage the_stage;
static stage *const s = &the_stage;

/* ---- The store server's ops; all under the lock. */

static mr_status extent_alloc(void *context, uint64_t size, extent *out) {
    return extent_allocator_alloc(s->allocator, size, out);
}
static void extent_free(void *context, extent extent) { extent_allocator_free(s->allocator, extent); }

static size_t find(uint64_t name) {
    for (size_t i = 0; i < FILES; i++)
        if (s->files[i].name == name) return i;
    return FILES;
}

static mr_status save(void *context, uint64_t ticket, const void *data, uint64_t size) {
    size_t i = find(0);
    if (i == FILES) return MR_NOMEM;
    s->files[i].name = s->files[i].ticket = ticket;
    s->files[i].size = size;
    s->files[i].data = arena_at(&s->arena, (uint64_t)((const uint8_t *)data - s->arena.base));
    s->files[i].pending_save = true;
    return MR_OK;
}

static mr_status load(void *context, uint64_t ticket, uint64_t file, void *data, uint64_t size) {
    size_t i = find(file);
    if (i == FILES || s->files[i].size != size || s->files[i].pending_load) return MR_NOT_FOUND;
    s->files[i].ticket = ticket;
    s->files[i].data = data;
    s->files[i].pending_load = true;
    return MR_OK;
}

static void forget(void *context, uint64_t file) {
    size_t i = find(file);
    if (i == FILES || s->files[i].pending_load) return; /* the file is removed after it has been read */
    free(s->files[i].bytes);
    memset(&s->files[i], 0, sizeof s->files[i]);
}

static const store_server_ops ops = {
    .extent_alloc = extent_alloc, .extent_free = extent_free, .save = save, .load = load, .forget = forget};

/* Memory that is being saved may be reused, which voids the copy (store_server_ops.save), so this race is harmless. */
__attribute__((no_sanitize("thread"))) static void copy_unseen(uint8_t *to, const uint8_t *from, uint64_t size) {
    for (uint64_t i = 0; i < size; i++) ((volatile uint8_t *)to)[i] = ((const volatile uint8_t *)from)[i];
}

static void run_disk(void) {
    for (size_t i = 0; i < FILES; i++) {
        uint64_t ticket = s->files[i].ticket;
        if (s->files[i].pending_save) {
            s->files[i].pending_save = false;
            s->files[i].bytes = malloc(s->files[i].size);
            copy_unseen(s->files[i].bytes, s->files[i].data, s->files[i].size);
            store_server_moved(s->server, ticket, MR_OK, 0);
        } else if (s->files[i].pending_load) {
            uint64_t name = s->files[i].name;
            memcpy(s->files[i].data, s->files[i].bytes, s->files[i].size);
            s->files[i].pending_load = false;
            store_server_moved(s->server, ticket, MR_OK, 0);
            forget(NULL, name);
        }
    }
}

static void *keep(void *argument) {
    while (atomic_load(&s->running) > 0) {
        pthread_mutex_lock(&s->lock);
        store_server_collect(s->server);
        run_disk();
        pthread_mutex_unlock(&s->lock);
        sched_yield();
    }
    return NULL;
}

/* ---- A process. */

typedef struct answer {
    store_client_request request;
    mr_status status;
} answer;

typedef struct process {
    uint64_t id;
    store_client *store;
    rng rng;
    store_client_object *held[HELD];
    unsigned count;
    answer *restored; /* answers that arrived while another thread used the store server; protected by the lock */
    unsigned restored_count, restored_max;
} process;

typedef struct restoring {
    process *process;
    store_client_request request;
} restoring;

static void note_restored(process *process, const store_client_request *request, mr_status status) {
    if (process->restored_count == process->restored_max) {
        process->restored_max = process->restored_max * 2 + 16;
        process->restored = realloc(process->restored, process->restored_max * sizeof *process->restored);
    }
    process->restored[process->restored_count++] = (answer){*request, status};
}

static void on_restored(void *argument, mr_status status) {
    restoring *restoring = argument;
    note_restored(restoring->process, &restoring->request, status);
    free(restoring);
}

static mr_status ask(void *context, const store_client_request *request) {
    process *process = context;
    extent extent = {0};
    int64_t retry_us = 0;
    mr_status status = MR_OK;
    pthread_mutex_lock(&s->lock);
    if (request->ask == STORE_CLIENT_GIVE_BACK) {
        status = store_server_give_back(s->server, process->id, request->extent);
    } else if (request->ask == STORE_CLIENT_RESTORE) {
        restoring *restoring = malloc(sizeof *restoring);
        restoring->process = process;
        restoring->request = *request;
        store_server_restore(s->server, process->id, &request->ref, 0, on_restored, restoring);
    } else {
        status = store_server_lease(s->server, process->id, request->kind, request->size, 0, &extent, &retry_us);
    }
    pthread_mutex_unlock(&s->lock);
    if (request->ask != STORE_CLIENT_LEASE) return status;
    store_client_answer(process->store, request, status, extent, retry_us);
    return MR_OK;
}

static const store_client_ops process_ops = {.ask = ask};

static void hear(process *process) {
    pthread_mutex_lock(&s->lock);
    unsigned count = process->restored_count;
    answer *answers = process->restored;
    process->restored = NULL;
    process->restored_count = process->restored_max = 0;
    pthread_mutex_unlock(&s->lock);
    for (unsigned i = 0; i < count; i++)
        store_client_answer(process->store, &answers[i].request, answers[i].status, (extent){0}, 1);
    free(answers);
}

static uint8_t seed_of(object_id id) { return (uint8_t)(id.owner * 31 + id.number); }

static void make(process *process) {
    static const uint64_t sizes[] = {40, 3000, 70 * 1024, 200 * 1024, 2 * MB};
    store_client_object *object;
    void *data;
    if (process->count == HELD) return;
    if (store_client_create(process->store, sizes[rng_below(&process->rng, 5)], &object, &data) != MR_OK) return;
    memset(data, seed_of(store_client_peek(object).id), store_client_size(object));
    store_client_seal(process->store, object);
    atomic_fetch_add(&s->made, 1);
    process->held[process->count++] = object;
    object_ref ref;
    store_client_ref(process->store, object, &ref);
    pthread_mutex_lock(&s->process_table_lock);
    s->process_table[rng_below(&process->rng, PROCESS_TABLE)] = ref;
    pthread_mutex_unlock(&s->process_table_lock);
}

static void take(process *process) {
    if (process->count == HELD) return;
    pthread_mutex_lock(&s->process_table_lock);
    object_ref ref = s->process_table[rng_below(&process->rng, PROCESS_TABLE)];
    pthread_mutex_unlock(&s->process_table_lock);
    if (ref.id.owner == 0) return;
    store_client_object *object;
    mr_status status = store_client_take(process->store, &ref, &object);
    atomic_fetch_add(status == MR_OK ? &s->found : &s->missed, 1);
    if (status == MR_OK) process->held[process->count++] = object;
}

static void look(process *process) {
    if (process->count == 0) return;
    store_client_object *object = process->held[rng_below(&process->rng, process->count)];
    void *data;
    uint64_t size;
    if (store_client_view(process->store, object, &data, &size) != MR_OK) return;
    uint8_t seed = seed_of(store_client_peek(object).id);
    for (uint64_t i = 0; i < size; i += i < 64 ? 1 : 509)
        if (((uint8_t *)data)[i] != seed) {
            atomic_fetch_add(&s->wrong, 1);
            break;
        }
    ((uint8_t *)data)[0] = (uint8_t)~seed; /* changes only this mapping */
    store_client_unview(process->store, object);
}

static void drop(process *process) {
    if (process->count == 0) return;
    unsigned pick = (unsigned)rng_below(&process->rng, process->count);
    store_client_drop(process->store, process->held[pick]);
    process->held[pick] = process->held[--process->count];
}

static void *live(void *argument) {
    process *process = argument;
    for (unsigned i = 0; i < STEPS; i++) {
        switch (rng_below(&process->rng, 10)) {
        case 0:
        case 1: make(process); break;
        case 2:
        case 3:
        case 4: take(process); break;
        case 5:
        case 6: look(process); break;
        case 7:
        case 8: drop(process); break;
        default:
            hear(process);
            store_client_poll(process->store);
            break;
        }
    }
    while (process->count > 0) drop(process);
    atomic_fetch_sub(&s->running, 1);
    return NULL;
}

static void join(process *process, uint64_t id) {
    extent lease_page;
    int64_t retry_us;
    memset(process, 0, sizeof *process);
    process->id = id;
    rng_init(&process->rng, id);
    assert_int_equal(store_server_lease(s->server, id, LEASE_PAGE, 0, 0, &lease_page, &retry_us), MR_OK);
    store_client_options options = {id, clock_real()};
    assert_int_equal(store_client_open(&s->arena, lease_page, &process_ops, process, &options, &process->store), MR_OK);
}

static void holders_and_store_server_race(void **state) {
    static process processes[THREADS];
    assert_int_equal(arena_create(ARENA_EXTENTS_OFFSET + 48 * MB, &s->arena), MR_OK);
    assert_int_equal(arena_back(&s->arena, 0, s->arena.size), MR_OK);
    s->allocator = extent_allocator_create(ARENA_EXTENTS_OFFSET, s->arena.size);
    s->server = store_server_open(&s->arena, &ops, NULL, &(store_server_options){.patience_us = 1});
    pthread_mutex_init(&s->lock, NULL);
    pthread_mutex_init(&s->process_table_lock, NULL);
    atomic_store(&s->running, THREADS);
    pthread_t store_server_thread, threads[THREADS];
    for (unsigned i = 0; i < THREADS; i++) join(&processes[i], 100 + i);
    assert_int_equal(pthread_create(&store_server_thread, NULL, keep, NULL), 0);
    for (unsigned i = 0; i < THREADS; i++) assert_int_equal(pthread_create(&threads[i], NULL, live, &processes[i]), 0);
    for (unsigned i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    pthread_join(store_server_thread, NULL);

    for (int i = 0; i < 3; i++) {
        run_disk();
        store_server_collect(s->server);
    }
    for (unsigned i = 0; i < THREADS; i++) {
        hear(&processes[i]);
        store_client_poll(processes[i].store);
    }
    store_server_stats stats = store_server_stats_now(s->server);
    print_message("%llu made, %llu refs were good, %llu were not; %llu collected, %llu spilled, %llu restored, "
                  "%llu in vain\n",
                  (unsigned long long)s->made, (unsigned long long)s->found, (unsigned long long)s->missed,
                  (unsigned long long)stats.collected, (unsigned long long)stats.spilled,
                  (unsigned long long)stats.restored, (unsigned long long)stats.voided);
    assert_int_equal(s->wrong, 0);
    assert_true(s->found > 100 && s->missed > 100);
    assert_int_equal(stats.objects, 0);
    assert_int_equal(stats.spilled_bytes, 0);
    for (unsigned i = 0; i < THREADS; i++) {
        store_client_close(processes[i].store);
        store_server_leave(s->server, processes[i].id);
    }
    assert_int_equal(store_server_stats_now(s->server).bytes, 0);
    store_server_close(s->server);
    assert_int_equal(extent_allocator_stats_now(s->allocator).used, 0);
    extent_allocator_destroy(s->allocator);
    for (size_t i = 0; i < FILES; i++) assert_int_equal(s->files[i].name, 0);
    arena_unmap(&s->arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(holders_and_store_server_race)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
