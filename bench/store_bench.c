/* store_bench.c — objects in shared memory: creating, getting and releasing them, in one process and across two. A host
 * process runs broker and store server; all requests for memory go to it by RPC, as in a node. "Warm" means that the
 * memory was used before: a fresh page costs more than the copy into it (NUMBERS). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/cpu.h"
#include "bench/limits.h"
#include "bench/store_bench_host.h"
#include "bench/suites.h"
#include "net/shm/memory_headroom.h"

#define MB ((uint64_t)1 << 20)

/* ---- Set-up. */

typedef struct scene {
    char folder[BENCH_FOLDER_MAX], broker[BENCH_FOLDER_MAX + 4];
    int stop[2];
    uint64_t arena_bytes;
    pid_t host;
    visitor visitor;
} scene;

static void serve(void *argument, int ready_fd) {
    scene *scene = argument;
    close(scene->stop[1]);
    int code = store_bench_host_run(&(store_bench_host_options){
        .broker = scene->broker, .arena_bytes = scene->arena_bytes, .ready_fd = ready_fd, .stop_fd = scene->stop[0]});
    if (code != 0) bench_fail("the host ended with %d", code);
}

static void scene_open(scene *scene, uint64_t arena_bytes) {
    char byte;
    memset(scene, 0, sizeof *scene);
    scene->arena_bytes = arena_bytes;
    bench_folder(scene->folder);
    if (pipe(scene->stop) != 0) bench_fail("no pipe");
    snprintf(scene->broker, sizeof scene->broker, "%s/hub", scene->folder);
    scene->host = bench_server(serve, scene, &byte, 1);
    close(scene->stop[0]);
    if (visitor_open(&scene->visitor, scene->broker, "bench") != MR_OK) bench_fail("store: %s", mr_last_error());
}

static void scene_close(scene *scene) {
    visitor_close(&scene->visitor);
    close(scene->stop[1]);
    bench_join(scene->host);
    rmdir(scene->folder);
}

static store_client_object *make(visitor *visitor, const void *from, uint64_t size) {
    store_client_object *object;
    void *data;
    if (visitor_create(visitor, size, &object, &data) != MR_OK) bench_fail("create: %s", mr_last_error());
    if (from != NULL) memcpy(data, from, size);
    store_client_seal(visitor->store, object);
    return object;
}

/* ---- Creating. */

static void put(const bench_run *run, const void *argument, double *values) {
    uint64_t size = ((const limit_copy *)argument)->size;
    scene scene;
    scene_open(&scene, 2 * size + 64 * MB);
    visitor *visitor = &scene.visitor;
    uint8_t *from = bench_memory(size);
    memset(from, 7, size);
    for (int i = 0; i < 3; i++) store_client_drop(visitor->store, make(visitor, from, size)); /* warm-up */
    uint64_t count = 0;
    int64_t start = clock_ns(), end = start + (int64_t)(run->seconds * 1e9), now;
    do {
        store_client_drop(visitor->store, make(visitor, from, size));
        count++;
    } while ((now = clock_ns()) < end || count < 3);
    values[0] = (double)count * (double)size / (double)(now - start);
    scene_close(&scene);
}

/* ---- Getting: a hold, a view and a read of the first byte; then the release of both. Values: µs of getting, µs of
 * releasing. */

static void get(const bench_run *run, const void *argument, double *values) {
    uint64_t size = ((const limit_copy *)argument)->size;
    scene scene;
    scene_open(&scene, size + 64 * MB);
    visitor *visitor = &scene.visitor;
    store_client_object *object = make(visitor, NULL, size);
    object_ref ref;
    store_client_ref(visitor->store, object, &ref);
    bench_samples gets, releases;
    bench_samples_init(&gets, 1 << 16);
    bench_samples_init(&releases, 1 << 16);
    volatile uint8_t sink;
    for (int64_t now = clock_ns(), end = now + (int64_t)(run->seconds * 1e9); now < end;) {
        store_client_object *taken;
        void *data;
        uint64_t got;
        int64_t before = clock_ns();
        if (store_client_take(visitor->store, &ref, &taken) != MR_OK ||
            store_client_view(visitor->store, taken, &data, &got) != MR_OK)
            bench_fail("get: %s", mr_last_error());
        sink = *(uint8_t *)data;
        int64_t between = clock_ns();
        store_client_unview(visitor->store, taken);
        store_client_drop(visitor->store, taken);
        now = clock_ns();
        bench_samples_add(&gets, (double)(between - before) / 1e3);
        bench_samples_add(&releases, (double)(now - between) / 1e3);
    }
    (void)sink;
    store_client_drop(visitor->store, object);
    values[0] = bench_samples_percentile(&gets, 50);
    values[1] = bench_samples_percentile(&releases, 50);
    bench_samples_fini(&gets);
    bench_samples_fini(&releases);
    scene_close(&scene);
}

/* ---- Small objects. */

static void small_rate(const bench_run *run, const void *argument, double *values) {
    scene scene;
    scene_open(&scene, 64 * MB);
    visitor *visitor = &scene.visitor;
    uint64_t count = 0;
    int64_t start = clock_ns(), end = start + (int64_t)(run->seconds * 1e9), now;
    do {
        for (int i = 0; i < 64; i++, count++) {
            store_client_object *object =
                make(visitor, "sixty-four bytes, more or less, of something that is not new....", 64);
            void *data;
            uint64_t size;
            if (store_client_view(visitor->store, object, &data, &size) != MR_OK)
                bench_fail("view: %s", mr_last_error());
            store_client_unview(visitor->store, object);
            store_client_drop(visitor->store, object);
        }
    } while ((now = clock_ns()) < end);
    values[0] = (double)count * 1e3 / (double)(now - start);
    scene_close(&scene);
}

/* ---- Across two processes: one creates, the other gets and answers; references are passed through one shared word per
 * direction. No byte is copied: the rows show the cost of an object apart from its bytes. */

typedef struct page_between {
    _Atomic uint64_t offered, taken;
    object_ref ref;
} page_between;

typedef struct getter {
    const char *broker;
    page_between *between;
    uint64_t size;
} getter;

/* Polls the transport at intervals: sleeping there would measure the timer, because a change of the word rings no
 * doorbell. */
static void wait_word(visitor *visitor, _Atomic uint64_t *word, uint64_t value) {
    for (unsigned spins = 1; atomic_load_explicit(word, memory_order_acquire) < value; spins++) {
        if (spins % 1024 == 0) shm_transport_poll(visitor->transport);
        if (spins % (1 << 20) == 0) visitor_drive(visitor, 50); /* another process needs this CPU */
        cpu_relax();
    }
}

static void get_all(void *argument) {
    getter *getter = argument;
    visitor visitor;
    bench_pin(BENCH_TWO_CPUS, 1);
    if (visitor_open(&visitor, getter->broker, "getter") != MR_OK) bench_fail("store: %s", mr_last_error());
    uint8_t *into = bench_memory(getter->size);
    for (uint64_t i = 1;; i++) {
        wait_word(&visitor, &getter->between->offered, i);
        if (getter->between->ref.slot == 0) break;
        store_client_object *object;
        void *data;
        uint64_t size;
        if (visitor_take(&visitor, &getter->between->ref, &object) != MR_OK ||
            visitor_view(&visitor, object, &data, &size) != MR_OK)
            bench_fail("get: %s", mr_last_error());
        into[0] = *(uint8_t *)data;
        store_client_unview(visitor.store, object);
        store_client_drop(visitor.store, object);
        atomic_store_explicit(&getter->between->taken, i, memory_order_release);
    }
    visitor_close(&visitor);
}

static void across(const bench_run *run, const void *argument, double *values) {
    uint64_t size = ((const limit_copy *)argument)->size;
    scene scene;
    scene_open(&scene, 128 * MB);
    visitor *visitor = &scene.visitor;
    getter getter = {scene.broker, bench_shared(sizeof(page_between)), size};
    pid_t pid = bench_child(get_all, &getter);
    bench_pin(BENCH_TWO_CPUS, 0); /* not before the fork: the child would inherit it */
    uint64_t count = 0;
    int64_t start = 0, end = INT64_MAX, now = 0;
    do {
        if (++count == 50) {
            start = clock_ns();
            end = start + (int64_t)(run->seconds * 1e9);
        }
        store_client_object *object = make(visitor, NULL, size);
        store_client_ref(visitor->store, object, &getter.between->ref);
        atomic_store_explicit(&getter.between->offered, count, memory_order_release);
        wait_word(visitor, &getter.between->taken, count);
        store_client_drop(visitor->store, object);
    } while ((now = clock_ns()) < end);
    values[0] = (double)(count - 50) * 1e6 / (double)(now - start);
    getter.between->ref.slot = 0;
    atomic_store_explicit(&getter.between->offered, count + 1, memory_order_release);
    bench_join(pid);
    scene_close(&scene);
}

void store_bench(bench *b) {
    static const limit_copy one = {1 << 20, 1}, sixty_four = {64 << 20, 1};
    static const limit_copy quarter = {256 << 20, 1}, whole = {1u << 30, 1}, small = {64, 1};
    bool roomy = memory_headroom_bytes() > 8 * 1024 * MB; /* room for two objects, their source, and others */
    const limit_copy *large = roomy ? &whole : &quarter;
    static const limit_copy medium = {40 << 10, 1};
    const bench_bar bar = {BENCH_RATIO_AT_LEAST, 0.85}, rate = {BENCH_VALUE_AT_LEAST, 300};
    bench_measure(
        b, &(bench_pair){.ours = put, .argument = &one, .reference = limit_memcpy_fn, .reference_argument = &one},
        &(bench_row){.name = "make 1 MB objects", .unit = "GB/s", .reference = "memcpy 1 MB", .bar = bar}, 1);
    bench_measure(
        b,
        &(bench_pair){
            .ours = put, .argument = &sixty_four, .reference = limit_memcpy_fn, .reference_argument = &sixty_four},
        &(bench_row){.name = "make 64 MB objects", .unit = "GB/s", .reference = "memcpy 64 MB", .bar = bar}, 1);
    bench_measure(
        b, &(bench_pair){.ours = put, .argument = large, .reference = limit_memcpy_fn, .reference_argument = large},
        &(bench_row){.name = roomy ? "make 1 GB objects" : "make 256 MB objects",
                     .unit = "GB/s",
                     .reference = roomy ? "memcpy 1 GB" : "memcpy 256 MB",
                     .bar = bar},
        1);
    bench_measure(b, &(bench_pair){.ours = get, .argument = large, .reference = get, .reference_argument = &one},
                  (bench_row[]){{.name = roomy ? "get 1 GB" : "get 256 MB",
                                 .unit = "us",
                                 .reference = "get 1 MB",
                                 .bar = {BENCH_RATIO_AT_MOST, 1.3}},
                                {.name = roomy ? "release 1 GB" : "release 256 MB",
                                 .unit = "us",
                                 .value = 1,
                                 .reference = "release 1 MB",
                                 .ref_value = 1,
                                 .bar = {BENCH_VALUE_AT_MOST, 10}}},
                  2);
    bench_measure(b, &(bench_pair){.ours = small_rate},
                  &(bench_row){.name = "64 B objects: make, get, release", .unit = "M/s"}, 1);
    bench_measure(b, &(bench_pair){.ours = across, .argument = &small},
                  &(bench_row){.name = "64 B objects, one process to another", .unit = "k/s", .bar = rate}, 1);
    bench_measure(b, &(bench_pair){.ours = across, .argument = &medium},
                  &(bench_row){.name = "40 KB objects, one process to another", .unit = "k/s", .bar = rate}, 1);
    bench_measure(b, &(bench_pair){.ours = across, .argument = &one},
                  &(bench_row){.name = "1 MB objects, one process to another", .unit = "k/s", .bar = rate}, 1);
}
