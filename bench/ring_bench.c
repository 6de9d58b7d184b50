/* ring_bench.c — rings with all their features (checked records, doorbell, waiting policy) compared with a bare ring,
 * memcpy and a futex. */
#include <string.h>

#include "base/clock.h"
#include "bench/bare_ring.h"
#include "bench/limits.h"
#include "bench/suites.h"
#include "net/shm/doorbell.h"
#include "net/shm/ring.h"
#include "net/shm/spin_wait.h"

enum { SAMPLES_MAX = 1 << 18, BATCH = 16, TYPE_DATA = 1, TYPE_STOP = 2 };

/* ---- Two processes with a ring each way. */

typedef struct duplex { /* shared */
    process_block blocks[2];
    uint8_t rings[2][1 << 16];
} duplex;

typedef struct side {
    process_block *self, *peer;
    ring_producer out;
    ring_consumer in;
    spin_wait wait;
    unsigned index;
} side;

static void side_init(side *side, duplex *duplex, unsigned index, int64_t spin_us) {
    side->index = index;
    side->self = &duplex->blocks[index];
    side->peer = &duplex->blocks[1 - index];
    ring_producer_init(&side->out, duplex->rings[index], sizeof duplex->rings[0], 0);
    ring_consumer_init(&side->in, duplex->rings[1 - index], sizeof duplex->rings[0], 0);
    spin_wait_init(&side->wait, spin_us);
}

static void publish(side *side, uint32_t size, uint16_t type) {
    spin_wait_publish(side->self);
    if (!ring_publish(&side->out, size, type)) return;
    doorbell_mark(side->peer, 0);
    doorbell_ring(side->peer, -1);
}

static bool readable(void *context) { return ring_readable(&((side *)context)->in); }

static void forget(void *context, uint32_t index) {}

static void await(side *side) {
    while (!ring_readable(&side->in)) {
        const process_block *peer = side->wait.spin_ticks == 0 ? NULL : side->peer;
        if (spin_wait_spin(&side->wait, side->self, peer, side->index == 1, readable, side)) return;
        doorbell_arm(side->self, DOORBELL_FUTEX);
        if (ring_arm(&side->in)) doorbell_sleep(side->self, 10 * 1000 * 1000);
        doorbell_disarm(side->self);
        doorbell_take(side->self, forget, NULL);
    }
}

static void put(side *side, uint64_t value, uint16_t type) {
    uint8_t *at;
    while ((at = ring_reserve(&side->out, sizeof value)) == NULL) cpu_relax();
    memcpy(at, &value, sizeof value);
    publish(side, sizeof value, type);
}

static uint16_t take(side *side, uint64_t *value) {
    ring_record record;
    while (ring_peek(&side->in, &record) != RING_RECORD) await(side);
    memcpy(value, record.data, sizeof *value);
    ring_advance(&side->in, record.size);
    ring_release(&side->in);
    return record.type;
}

/* ---- There and back. */

typedef struct trip {
    bench_place place;
    unsigned pairs;
    int64_t spin_us;
} trip;

typedef struct trip_end {
    const trip *trip;
    duplex *duplex;
} trip_end;

static void echo(void *argument) {
    trip_end *end = argument;
    side side;
    side_init(&side, end->duplex, 1, end->trip->spin_us);
    bench_pin(end->trip->place, 1);
    uint64_t value;
    uint16_t type;
    do {
        type = take(&side, &value);
        put(&side, value, type);
    } while (type != TYPE_STOP);
}

/* Half of a round trip, in µs: p50 and p99 of single round trips where they are long, of small batches where reading
 * the clock would distort them. */
static void measure_trips(const trip *trip, duplex *duplex, double seconds, bench_samples *samples, unsigned batch) {
    side side;
    side_init(&side, duplex, 0, trip->spin_us);
    bench_pin(trip->place, 0);
    int64_t now = clock_ns(), end = now + (int64_t)(seconds * 1e9);
    while (now < end) {
        int64_t before = now;
        uint64_t value;
        for (unsigned i = 0; i < batch; i++) {
            put(&side, i, TYPE_DATA);
            take(&side, &value);
        }
        now = clock_ns();
        bench_samples_add(samples, (double)(now - before) / (2e3 * batch));
    }
    uint64_t value;
    put(&side, 0, TYPE_STOP);
    take(&side, &value);
}

static void one_way(const bench_run *run, const void *argument, double *values) {
    const trip *trip = argument;
    trip_end end = {trip, bench_shared(sizeof(duplex))};
    bench_samples samples;
    bench_samples_init(&samples, SAMPLES_MAX);
    pid_t pid = bench_child(echo, &end);
    measure_trips(trip, end.duplex, run->seconds, &samples, trip->place == BENCH_TWO_CPUS ? BATCH : 1);
    bench_join(pid);
    values[0] = bench_samples_percentile(&samples, 50);
    values[1] = bench_samples_percentile(&samples, 99);
    bench_samples_fini(&samples);
}

/* ---- More pairs than CPUs. */

typedef struct crowd_result { /* shared, one per pair */
    double p50, p99;
    uint64_t count;
} crowd_result;

typedef struct crowd_end {
    trip_end trip;
    double seconds;
    crowd_result *result;
} crowd_end;

static void crowd_caller(void *argument) {
    crowd_end *end = argument;
    bench_samples samples;
    bench_samples_init(&samples, SAMPLES_MAX);
    measure_trips(end->trip.trip, end->trip.duplex, end->seconds, &samples, 1);
    end->result->p50 = bench_samples_percentile(&samples, 50);
    end->result->p99 = bench_samples_percentile(&samples, 99);
    end->result->count = samples.count;
    bench_samples_fini(&samples);
}

/* Runs all pairs at once. Values: mean over the pairs of p50 and p99 one way (µs), and round trips per second of all
 * pairs together. */
static void crowd(const bench_run *run, const void *argument, double *values) {
    const trip *trip = argument;
    enum { PAIRS_MAX = 16 };
    crowd_result *results = bench_shared(PAIRS_MAX * sizeof *results);
    values[0] = values[1] = values[2] = 0;
    crowd_end ends[PAIRS_MAX];
    pid_t echoes[PAIRS_MAX], callers[PAIRS_MAX];
    for (unsigned i = 0; i < trip->pairs; i++) {
        ends[i] = (crowd_end){{trip, bench_shared(sizeof(duplex))}, run->seconds, &results[i]};
        echoes[i] = bench_child(echo, &ends[i].trip);
        callers[i] = bench_child(crowd_caller, &ends[i]);
    }
    for (unsigned i = 0; i < trip->pairs; i++) {
        bench_join(callers[i]);
        bench_join(echoes[i]);
        values[0] += results[i].p50 / trip->pairs;
        values[1] += results[i].p99 / trip->pairs;
        values[2] += (double)results[i].count / run->seconds / 1e6;
    }
}

/* ---- One direction, at full rate. */

static void swallow(void *argument) {
    duplex *duplex = argument;
    side side;
    side_init(&side, duplex, 1, SPIN_WAIT_SPIN_US);
    bench_pin(BENCH_TWO_CPUS, 1);
    ring_record record = {.type = TYPE_DATA};
    uint64_t sum = 0;
    while (record.type != TYPE_STOP) {
        if (ring_peek(&side.in, &record) != RING_RECORD) {
            ring_release(&side.in);
            await(&side);
            continue;
        }
        sum += record.data[0];
        ring_advance(&side.in, record.size);
        if (side.in.tail - side.in.released > side.in.capacity / 4) ring_release(&side.in);
    }
    ring_release(&side.in);
    if (sum == 1) bench_fail("impossible"); /* keeps the compiler from removing reads */
}

static void rate(const bench_run *run, const void *argument, double *values) {
    duplex *duplex = bench_shared(sizeof *duplex);
    side side;
    side_init(&side, duplex, 0, SPIN_WAIT_SPIN_US);
    pid_t pid = bench_child(swallow, duplex);
    bench_pin(BENCH_TWO_CPUS, 0);
    int64_t start = clock_ns(), end = start + (int64_t)(run->seconds * 1e9);
    uint64_t count = 0;
    while (clock_ns() < end)
        for (int i = 0; i < 256; i++, count++) put(&side, count & 0xfe, TYPE_DATA);
    put(&side, 0, TYPE_STOP);
    bench_join(pid);
    values[0] = (double)count * 1e3 / (double)(clock_ns() - start);
}

/* ---- Large messages, in pieces as the shm transport sends them: writing and reading overlap, and the ring stays in
 * the cache. */

typedef enum reading { READ_IN_PLACE, READ_LINES, READ_COPY } reading;

typedef struct flow {
    size_t size, piece, ring_bytes; /* the piece size divides the message size */
    reading reading;
} flow;

typedef struct flow_end { /* the two ends of one large ring */
    const flow *flow;
    process_block *blocks;
    void *ring;
} flow_end;

static uint64_t read_record(const ring_record *record, reading reading, uint8_t *place) {
    uint64_t sum = record->data[0];
    if (reading == READ_LINES)
        for (size_t i = 0; i < record->size; i += 64) sum += record->data[i];
    if (reading == READ_COPY) memcpy(place, record->data, record->size);
    return sum;
}

static void drink(void *argument) {
    flow_end *end = argument;
    side side = {.self = &end->blocks[1], .peer = &end->blocks[0], .index = 1};
    ring_consumer_init(&side.in, end->ring, end->flow->ring_bytes, 0);
    spin_wait_init(&side.wait, SPIN_WAIT_SPIN_US);
    bench_pin(BENCH_TWO_CPUS, 1);
    uint8_t *place = bench_memory(end->flow->size);
    size_t at = 0;
    ring_record record = {.type = TYPE_DATA};
    uint64_t sum = 0;
    while (record.type != TYPE_STOP) {
        if (ring_peek(&side.in, &record) != RING_RECORD) {
            await(&side);
            continue;
        }
        if (record.type == TYPE_DATA) sum += read_record(&record, end->flow->reading, place + at);
        at = (at + record.size) % end->flow->size;
        ring_advance(&side.in, record.size);
        ring_release(&side.in);
    }
    if (sum == 1) bench_fail("impossible"); /* keeps the compiler from removing reads */
}

static void stream(const bench_run *run, const void *argument, double *values) {
    const flow *flow = argument;
    flow_end end = {flow, bench_shared(2 * sizeof(process_block)), bench_shared(flow->ring_bytes)};
    side side = {.self = &end.blocks[0], .peer = &end.blocks[1]};
    ring_producer_init(&side.out, end.ring, flow->ring_bytes, 0);
    spin_wait_init(&side.wait, SPIN_WAIT_SPIN_US);
    uint8_t *source = bench_memory(flow->size);
    memset(source, 2, flow->size);
    pid_t pid = bench_child(drink, &end);
    bench_pin(BENCH_TWO_CPUS, 0);
    int64_t start = clock_ns(), end_ns = start + (int64_t)(run->seconds * 1e9);
    uint64_t count = 0;
    for (; clock_ns() < end_ns; count++)
        for (size_t sent = 0; sent < flow->size; sent += flow->piece) {
            uint8_t *at;
            while ((at = ring_reserve(&side.out, flow->piece)) == NULL) cpu_relax();
            memcpy(at, source + sent, flow->piece);
            publish(&side, (uint32_t)flow->piece, TYPE_DATA);
        }
    while (ring_reserve(&side.out, 8) == NULL) cpu_relax();
    publish(&side, 8, TYPE_STOP);
    bench_join(pid);
    values[0] = (double)count * (double)flow->size / (double)(clock_ns() - start);
}

void ring_bench(bench *b) {
    static const trip two = {BENCH_TWO_CPUS, 1, SPIN_WAIT_SPIN_US}, one = {BENCH_ONE_CPU, 1, SPIN_WAIT_SPIN_US},
                      crowded = {BENCH_FREE, 4, SPIN_WAIT_SPIN_US}, asleep = {BENCH_FREE, 4, 0};
    static const limit_trip futex_one = {LIMIT_FUTEX, BENCH_ONE_CPU};
    bench_measure(
        b, &(bench_pair){.ours = one_way, .argument = &two, .reference = bare_one_way_fn},
        (bench_row[]){
            {.name = "8 B one way, p50", .unit = "us", .reference = "bare ring", .bar = {BENCH_RATIO_AT_MOST, 1.3}},
            {.name = "8 B one way, p99", .unit = "us", .value = 1, .reference = "bare ring", .ref_value = 1}},
        2);
    bench_measure(
        b, &(bench_pair){.ours = rate, .reference = bare_rate_fn},
        &(bench_row){
            .name = "8 B messages", .unit = "M/s", .reference = "bare ring", .bar = {BENCH_VALUE_AT_LEAST, 10}},
        1);
    bench_measure(
        b,
        &(bench_pair){
            .ours = one_way, .argument = &one, .reference = limit_one_way_fn, .reference_argument = &futex_one},
        &(bench_row){.name = "8 B one way, both on one CPU",
                     .unit = "us",
                     .reference = "futex, one CPU",
                     .bar = {BENCH_RATIO_AT_MOST, 2}},
        1);
    bench_measure(b,
                  &(bench_pair){.ours = crowd, .argument = &crowded, .reference = crowd, .reference_argument = &asleep},
                  (bench_row[]){{.name = "8 B one way, 4 pairs on all CPUs, p50",
                                 .unit = "us",
                                 .reference = "sleeping at once",
                                 .bar = {BENCH_RATIO_AT_MOST, 2}},
                                {.name = "8 B one way, 4 pairs on all CPUs, p99",
                                 .unit = "us",
                                 .value = 1,
                                 .reference = "sleeping at once",
                                 .ref_value = 1},
                                {.name = "round trips of 4 pairs",
                                 .unit = "M/s",
                                 .value = 2,
                                 .reference = "sleeping at once",
                                 .ref_value = 2}},
                  3);
    enum { KB = 1 << 10, MB = 1 << 20 };
    static const flow place = {MB, 128 * KB, 512 * KB, READ_IN_PLACE}, lines = {MB, 128 * KB, 512 * KB, READ_LINES},
                      copy = {MB, 128 * KB, 512 * KB, READ_COPY}, whole = {MB, MB, RING_BYTES_MAX, READ_IN_PLACE};
    static const limit_copy megabyte = {MB, 1};
    const struct {
        const char *name;
        const flow *flow;
    } flows[] = {{"1 MB in pieces, left in place", &place},
                 {"1 MB in pieces, every line read", &lines},
                 {"1 MB in pieces, copied out", &copy},
                 {"1 MB in one record, left in place", &whole}};
    for (int i = 0; i < 4; i++)
        bench_measure(b,
                      &(bench_pair){.ours = stream,
                                    .argument = flows[i].flow,
                                    .reference = limit_memcpy_fn,
                                    .reference_argument = &megabyte},
                      &(bench_row){.name = flows[i].name,
                                   .unit = "GB/s",
                                   .reference = "memcpy 1 MB",
                                   .bar = {i == 0 ? BENCH_RATIO_AT_LEAST : BENCH_NO_BAR, 0.8}},
                      1);
}
