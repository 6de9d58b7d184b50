/* socket_bench.c — the socket transport compared with raw sockets: the same bytes and the same two processes; the
 * reference uses blocking calls, the transport adds frames, event loop and heartbeats.
 *
 * In each measurement a child sends (or echoes) and the measuring process receives (or asks). The child is forked
 * before anything is opened and receives the address through a pipe. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "bench/limits.h"
#include "bench/suites.h"
#include "net/event_loop.h"
#include "net/socket/socket_transport.h"

enum { SAMPLES_MAX = 1 << 18, MESSAGES_MIN = 4, SMALL = 64, SMALL_ON_WIRE = 32 + SMALL };

typedef struct flow { /* one row's argument */
    limit_wire wire;
    size_t size;
} flow;

typedef struct side side;

struct side {
    const flow *flow;
    double seconds;
    int address_pipe[2];
    event_loop *loop;
    socket_transport *transport;
    transport wire;
    link_id link;
    uint8_t *memory;
    int64_t start_ns, last_ns, warm_ns, until_ns;
    uint64_t count;
    bool done;
    bench_samples samples;
    void (*opened)(side *side);
    void (*message)(side *side, const message *message);
    void (*room)(side *side);
};

static void on_open(void *context, link_id link, const peer *peer) {
    side *side = context;
    side->link = link;
    if (side->opened != NULL) side->opened(side);
}
static void on_message(void *context, link_id link, const message *message) {
    side *side = context;
    side->message(side, message);
}
static void *on_body(void *context, link_id link, span head, uint64_t size) { return ((side *)context)->memory; }
static void on_room(void *context, link_id link) {
    side *side = context;
    if (side->room != NULL) side->room(side);
}
static void on_closed(void *context, link_id link, const cause *why) {
    side *side = context;
    if (why->status != MR_CLOSED) bench_fail("the link broke: %s", why->text);
    event_loop_stop(side->loop);
}

static const transport_events events = {on_open, on_message, on_body, on_room, on_closed};

static mr_status find_token(void *context, token *out) {
    *out = (token){{1}};
    return MR_OK;
}

static void side_open(side *side) {
    if (event_loop_create(&side->loop) != MR_OK ||
        socket_transport_open(side->loop, &(socket_transport_options){.find_token = find_token}, &events, side,
                              &side->transport) != MR_OK)
        bench_fail("a stream: %s", mr_last_error());
    side->wire = socket_transport_transport(side->transport);
}

static void side_close(side *side) {
    socket_transport_close(side->transport);
    event_loop_destroy(side->loop);
}

/* The child: reads the address, connects, runs until the link is closed. */
static void connect_and_run(side *side) {
    char address[ADDRESS_TEXT_MAX];
    close(side->address_pipe[1]);
    if (read(side->address_pipe[0], address, sizeof address) != (ssize_t)sizeof address) bench_fail("no address");
    side_open(side);
    if (side->wire.ops->open(side->wire.self, address, &side->link) != MR_OK) bench_fail("open: %s", mr_last_error());
    event_loop_run(side->loop);
    side_close(side);
}

/* The measuring process: starts the child, listens, runs until the link is closed. */
static void listen_and_run(side *side, bench_child_fn *child, struct side *child_side) {
    char folder[BENCH_FOLDER_MAX], wanted[BENCH_FOLDER_MAX + 8] = "tcp:127.0.0.1:0", address[ADDRESS_TEXT_MAX] = {0};
    if (pipe(child_side->address_pipe) != 0) bench_fail("pipe: %s", strerror(errno));
    pid_t pid = bench_child(child, child_side);
    bench_pin(BENCH_TWO_CPUS, 0);
    bench_folder(folder);
    if (side->flow->wire == LIMIT_UNIX) snprintf(wanted, sizeof wanted, "unix:%s/s", folder);
    side_open(side);
    if (socket_transport_listen(side->transport, wanted, address) != MR_OK) bench_fail("listen: %s", mr_last_error());
    if (write(child_side->address_pipe[1], address, sizeof address) != (ssize_t)sizeof address) bench_fail("pipe");
    event_loop_run(side->loop);
    side_close(side);
    rmdir(folder);
    bench_join(pid);
}

/* ---- Streaming. */

static void body_sent(void *argument, mr_status status) {} /* the next message uses the same memory */

static void send_bodies(side *side) {
    uint8_t *head;
    while (!side->done && side->wire.ops->reserve(side->wire.self, side->link, 8, &head) == MR_OK) {
        if (side->count++ >= MESSAGES_MIN && clock_ns() > side->until_ns) {
            side->done = true;
            side->wire.ops->close(side->wire.self, side->link);
            return;
        }
        memset(head, 0, 8);
        side->wire.ops->commit_body(side->wire.self, side->link, 8, span_of(side->memory, side->flow->size), body_sent,
                                    side);
    }
}

static void send_small(side *side) {
    uint8_t *head;
    while (!side->done && side->wire.ops->reserve(side->wire.self, side->link, SMALL, &head) == MR_OK) {
        memcpy(head, side->memory, SMALL);
        side->wire.ops->commit(side->wire.self, side->link, SMALL);
        if (++side->count % 1024 != 0 || clock_ns() < side->until_ns) continue;
        side->done = true;
        side->wire.ops->close(side->wire.self, side->link);
    }
}

static void sender(void *argument) {
    side *side = argument;
    bench_pin(BENCH_TWO_CPUS, 1);
    side->memory = bench_memory(side->flow->size > 0 ? side->flow->size : SMALL);
    side->opened = side->room = side->flow->size > 0 ? send_bodies : send_small;
    side->until_ns = clock_ns() + (int64_t)(side->seconds * 1e9);
    connect_and_run(side);
}

/* The first message only warms up. */
static void count_message(side *side, const message *message) {
    if (side->count++ == 0)
        side->start_ns = clock_ns();
    else if (side->flow->size > 0 || side->count % 64 == 0)
        side->last_ns = clock_ns();
}

/* Messages per second. */
static double receive(const flow *flow, double seconds) {
    side child = {.flow = flow, .seconds = seconds}, side = {.flow = flow, .message = count_message};
    side.memory = bench_memory(flow->size > 0 ? flow->size : 1);
    listen_and_run(&side, sender, &child);
    return (double)(side.count - 1) * 1e9 / (double)(side.last_ns - side.start_ns);
}

static void stream_bodies(const bench_run *run, const void *argument, double *values) {
    const flow *flow = argument;
    values[0] = receive(flow, run->seconds) * (double)flow->size / 1e9;
}

static void stream_small(const bench_run *run, const void *argument, double *values) {
    values[0] = receive(argument, run->seconds) / 1e6;
}

/* Rate of raw sockets for the same bytes when the sender writes as many bytes at once as the socket transport does. */
static void raw_small(const bench_run *run, const void *argument, double *values) {
    const flow *flow = argument;
    limit_flow raw = {.wire = flow->wire, .size = 65536, .place = BENCH_TWO_CPUS};
    values[0] = limit_stream(&raw, run->seconds) * 1e3 / SMALL_ON_WIRE;
}

/* ---- There and back. */

static void send_8(side *side, const void *data) {
    if (transport_send(side->wire, side->link, span_of(data, 8)) != MR_OK) bench_fail("send: %s", mr_last_error());
}

static void echo_message(side *side, const message *message) { send_8(side, message->head.data); }

static void echo(void *argument) {
    side *side = argument;
    bench_pin(BENCH_TWO_CPUS, 1);
    side->message = echo_message;
    connect_and_run(side);
}

static void ask_first(side *side) {
    side->last_ns = clock_ns();
    side->warm_ns = side->last_ns + (int64_t)(side->seconds * 1e8);
    side->until_ns = side->warm_ns + (int64_t)(side->seconds * 1e9);
    send_8(side, &side->last_ns);
}

static void ask_again(side *side, const message *message) {
    int64_t now_ns = clock_ns();
    if (now_ns > side->warm_ns) bench_samples_add(&side->samples, (double)(now_ns - side->last_ns) / 1e3);
    side->last_ns = now_ns;
    if (now_ns < side->until_ns)
        send_8(side, &now_ns);
    else
        side->wire.ops->close(side->wire.self, side->link);
}

static void round_trip(const bench_run *run, const void *argument, double *values) {
    side child = {.flow = argument};
    side side = {.flow = argument, .seconds = run->seconds, .opened = ask_first, .message = ask_again};
    bench_samples_init(&side.samples, SAMPLES_MAX);
    listen_and_run(&side, echo, &child);
    values[0] = bench_samples_percentile(&side.samples, 50);
    values[1] = bench_samples_percentile(&side.samples, 99);
    bench_samples_fini(&side.samples);
}

/* ---- Rows. */

typedef struct kind {
    const char *name;
    limit_wire wire, epoll; /* blocking, and with an event loop */
} kind;

static void streaming_rows(bench *b, const kind *kind) {
    static const struct {
        size_t size;
        const char *name;
    } sizes[] = {{64 << 10, "64 KB"}, {1 << 20, "1 MB"}, {16 << 20, "16 MB"}, {100 << 20, "100 MB"}};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        char name[64], reference[64];
        flow ours = {kind->wire, sizes[i].size};
        limit_flow raw = {kind->wire, sizes[i].size, BENCH_TWO_CPUS};
        snprintf(name, sizeof name, "%s, %s messages", kind->name, sizes[i].name);
        snprintf(reference, sizeof reference, "raw %s", kind->name);
        bench_row row = {.name = name, .unit = "GB/s", .reference = reference, .bar = {BENCH_RATIO_AT_LEAST, 0.9}};
        bench_measure(b, &(bench_pair){stream_bodies, &ours, limit_stream_fn, &raw}, &row, 1);
    }
}

/* Two references: a blocking read, as in a program with one socket, and epoll, as in a program with many. On unix
 * sockets epoll alone costs more than the bar allows over a blocking read. */
static void trip_rows(bench *b, const kind *kind) {
    flow small = {kind->wire, 0};
    limit_trip blocking = {kind->wire, BENCH_TWO_CPUS}, epoll = {kind->epoll, BENCH_TWO_CPUS};
    char name[64], tail[64], beside[64], raw[64], raw_epoll[64];
    snprintf(name, sizeof name, "%s, 8 B there and back", kind->name);
    snprintf(tail, sizeof tail, "%s, 8 B there and back, p99", kind->name);
    snprintf(beside, sizeof beside, "%s, 8 B there and back, beside epoll", kind->name);
    snprintf(raw, sizeof raw, "raw %s", kind->name);
    snprintf(raw_epoll, sizeof raw_epoll, "raw %s with epoll", kind->name);
    bench_bar bar = {BENCH_RATIO_AT_MOST, 1.3}, none = {0};
    const bench_row rows[] = {
        {.name = name, .unit = "us", .reference = raw, .bar = kind->wire == LIMIT_TCP ? bar : none},
        {.name = tail, .unit = "us", .value = 1, .reference = raw, .ref_value = 1},
    };
    const bench_row row = {.name = beside, .unit = "us", .reference = raw_epoll, .bar = bar};
    bench_measure(b, &(bench_pair){round_trip, &small, limit_round_trip_fn, &blocking}, rows, 2);
    bench_measure(b, &(bench_pair){round_trip, &small, limit_round_trip_fn, &epoll}, &row, 1);
}

static void small_row(bench *b, const kind *kind) {
    flow small = {kind->wire, 0};
    char name[64], reference[64];
    snprintf(name, sizeof name, "%s, 64 B messages, coalesced", kind->name);
    snprintf(reference, sizeof reference, "the same bytes over raw %s", kind->name);
    bench_row row = {.name = name, .unit = "M/s", .reference = reference, .bar = {BENCH_VALUE_AT_LEAST, 3}};
    bench_measure(b, &(bench_pair){stream_small, &small, raw_small, &small}, &row, 1);
}

void socket_bench(bench *b) {
    static const kind kinds[] = {{"tcp", LIMIT_TCP, LIMIT_TCP_EPOLL}, {"unix", LIMIT_UNIX, LIMIT_UNIX_EPOLL}};
    for (size_t i = 0; i < 2; i++) {
        streaming_rows(b, &kinds[i]);
        trip_rows(b, &kinds[i]);
        small_row(b, &kinds[i]);
    }
}
