/* ps_recovery_bench.c — duration of the pause in training when a server is killed: four ranks, three servers, two
 * replicas, rounds (BSP). A random server is killed and started again; the next one is killed when all replicas are
 * restored.
 *
 * Ranks are children; this process has no threads, and starts and kills servers. Ranks write the start time of each
 * step to shared memory: recovery from a kill is complete when every rank has begun and ended a step after it. */
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/rng.h"
#include "bench/ps_bench_cluster.h"
#include "bench/suites.h"

enum {
    SERVERS = 3,
    RANKS = 4,
    COPIES = 2,
    SLOTS = 12,
    DIM = 16,
    KEYS = 256,
    STEP_US = 4000,
    KILLS = 12,
    KILLS_QUICK = 3
};
enum { BEGUN = 1 << 16, CALM_US = 300000 };
#define OVER_US INT64_C(10000000)

typedef struct page { /* shared */
    uint64_t steps;   /* number of steps begun */
    uint64_t progress[RANKS];
    int64_t begun_ns[RANKS][BEGUN]; /* start times, indexed by step; the last ones only */
} page;

static void train(ps_bench_cluster *cluster, uint32_t rank, void *argument) {
    page *page = argument;
    uint64_t keys[KEYS], step;
    float *weights = bench_memory(KEYS * DIM * sizeof *weights);
    for (uint64_t i = 0; i < KEYS; i++) keys[i] = i * 7 + 1;
    for (;;) {
        mr_ps_ticket ticket;
        ps_bench_cluster_must(mr_ps_begin(cluster->ps, PS_BENCH_CLUSTER_PATIENCE_US, &step), "a step");
        __atomic_store_n(&page->begun_ns[rank][step % BEGUN], clock_ns(), __ATOMIC_RELAXED);
        __atomic_store_n(&page->progress[rank], step, __ATOMIC_RELEASE);
        if (step >= __atomic_load_n(&page->steps, __ATOMIC_ACQUIRE)) return;
        ps_bench_cluster_must(mr_ps_pull(cluster->table, keys, KEYS, weights, NULL, NULL, NULL), "a pull");
        usleep(STEP_US);
        ps_bench_cluster_must(mr_ps_push(cluster->table, keys, KEYS, weights, NULL, NULL, &ticket), "a push");
        ps_bench_cluster_must(mr_ps_end(cluster->ps), "the end of a step");
        ps_bench_cluster_must(mr_ps_wait(cluster->ps, ticket, PS_BENCH_CLUSTER_PATIENCE_US), "a push");
    }
}

/* ---- The process that kills. */

/* End time of the first step that the rank began after `from_ns`; 0: none yet. */
static int64_t over_ns(const page *page, uint32_t rank, int64_t from_ns) {
    uint64_t last = __atomic_load_n(&page->progress[rank], __ATOMIC_ACQUIRE), step = last;
    while (step > 0 && page->begun_ns[rank][(step - 1) % BEGUN] > from_ns) step--;
    return step < last && page->begun_ns[rank][step % BEGUN] > from_ns ? page->begun_ns[rank][(step + 1) % BEGUN] : 0;
}

static double all_over_s(const page *page, int64_t from_ns) {
    int64_t last_ns = 0;
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        int64_t one_ns;
        while ((one_ns = over_ns(page, rank, from_ns)) == 0) {
            if (clock_ns() - from_ns > OVER_US * 1000) bench_fail("rank %u stands still", rank);
            usleep(500);
        }
        if (one_ns > last_ns) last_ns = one_ns;
    }
    return (double)(last_ns - from_ns) / 1e9;
}

/* Every slot has all its replicas, none of them on the process that was killed (0: none was killed). */
static bool is_full(const ps_bench_cluster *cluster, uint32_t server, uint64_t incarnation) {
    mr_ps_cluster_map *map;
    ps_bench_cluster_must(mr_ps_cluster_map_get(cluster->address, OVER_US, &map), "where everything is");
    bool full = map->number != 0;
    for (uint32_t i = 0; i < map->slot_count; i++) {
        const mr_ps_slot *slot = &map->slots[i];
        full &= slot->count == COPIES;
        for (uint32_t k = 0; k < slot->count; k++)
            full &= slot->replicas[k].server != server || slot->replicas[k].incarnation != incarnation;
    }
    mr_ps_cluster_map_free(map);
    return full;
}

static void wait_until_full(const ps_bench_cluster *cluster, uint32_t server, uint64_t incarnation) {
    for (int64_t until_ns = clock_ns() + OVER_US * 1000; !is_full(cluster, server, incarnation); usleep(2000))
        if (clock_ns() > until_ns) bench_fail("not all copies are back");
}

static uint64_t incarnation_of(const ps_bench_cluster *cluster, uint32_t server) {
    mr_ps_cluster_map *map;
    ps_bench_cluster_must(mr_ps_cluster_map_get(cluster->address, OVER_US, &map), "where everything is");
    uint64_t incarnation = map->servers[server].incarnation;
    mr_ps_cluster_map_free(map);
    return incarnation;
}

/* values: p50 and p99 of seconds until training continues; the same until all replicas are restored. */
static void kill_servers(const bench_run *run, const void *argument, double *values) {
    (void)argument;
    const mr_ps_table_options options = MR_OPTIONS(mr_ps_table_options, .dim = DIM, .optimizer = "sgd");
    const ps_bench_cluster_options shape = {.wire = LIMIT_UNIX,
                                            .consistency = MR_PS_BSP,
                                            .servers = SERVERS,
                                            .ranks = RANKS,
                                            .copies = COPIES,
                                            .slots = SLOTS,
                                            .rank = train,
                                            .argument = bench_shared(sizeof(page))};
    page *page = shape.argument;
    size_t kills = run->quick ? KILLS_QUICK : KILLS;
    bench_samples pauses, fills;
    ps_bench_cluster cluster;
    rng rng;
    rng_init(&rng, (uint64_t)getpid());
    bench_samples_init(&pauses, kills);
    bench_samples_init(&fills, kills);
    page->steps = UINT64_MAX;
    ps_bench_cluster_start_apart(&cluster, &shape, &options);
    while (page->progress[0] < 5) usleep(1000);
    wait_until_full(&cluster, 0, 0);
    for (size_t i = 0; i < kills; i++) {
        uint32_t victim = (uint32_t)rng_below(&rng, SERVERS);
        uint64_t incarnation = incarnation_of(&cluster, victim);
        usleep(CALM_US);
        int64_t from_ns = clock_ns();
        bench_end(cluster.server[victim]);
        ps_bench_cluster_start_server(&cluster, victim);
        wait_until_full(&cluster, victim, incarnation);
        bench_samples_add(&fills, (double)(clock_ns() - from_ns) / 1e9);
        bench_samples_add(&pauses, all_over_s(page, from_ns));
    }
    __atomic_store_n(&page->steps, page->progress[0] + 3, __ATOMIC_RELEASE); /* no rank is two steps ahead of another */
    values[0] = bench_samples_percentile(&pauses, 50);
    values[1] = bench_samples_percentile(&pauses, 99);
    values[2] = bench_samples_percentile(&fills, 50);
    values[3] = bench_samples_percentile(&fills, 99);
    bench_samples_fini(&pauses);
    bench_samples_fini(&fills);
    ps_bench_cluster_stop(&cluster);
}

void ps_recovery_bench(bench *b) {
    bench_measure(
        b, &(bench_pair){.ours = kill_servers},
        (const bench_row[]){{.name = "a server is killed: training goes on after, p50",
                             .unit = "s",
                             .reference = "OSDI'14, unchecked",
                             .known_reference = 0.8,
                             .bar = {BENCH_VALUE_AT_MOST, 0.5}},
                            {.name = "a server is killed: training goes on after, p99",
                             .unit = "s",
                             .value = 1,
                             .reference = "OSDI'14, unchecked",
                             .known_reference = 0.8,
                             .bar = {BENCH_VALUE_AT_MOST, 0.8}},
                            {.name = "a server is killed: all copies are back after, p50", .unit = "s", .value = 2},
                            {.name = "a server is killed: all copies are back after, p99", .unit = "s", .value = 3}},
        4);
}
