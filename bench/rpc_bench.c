/* rpc_bench.c — RPCs: their round trip compared with the bare ring's and the raw socket's, many in flight, and the cost
 * of the RPC layer by itself. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "bench/bare_ring.h"
#include "bench/bench_broker.h"
#include "bench/limits.h"
#include "bench/suites.h"
#include "net/rpc/rpc.h"
#include "net/shm/shm_transport.h"
#include "net/socket/socket_transport.h"

enum { SAMPLES_MAX = 1 << 18, BATCH = 16, PAYLOAD = 8, WINDOW = 512 };

typedef enum wire { WIRE_SHM, WIRE_TCP } wire;

typedef struct end {
    env env;
    rpc *rpc;
    shm_transport *transport; /* exactly one of the two is used */
    event_loop *loop;
    socket_transport *socket_transport;
    link_id link;
    bool open, closed;
    uint64_t answers;
    struct {
        rpc_call_token token;
        uint64_t value;
    } waiting[WINDOW]; /* responses that found the link full */
    unsigned waiting_count;
} end;

/* ---- Common to both sides. */

static bool answer(end *end, rpc_call_token token, uint64_t value) {
    uint8_t *payload;
    mr_status status = rpc_reply_begin(end->rpc, token, sizeof value, &payload);
    if (status == MR_BUSY) return false;
    if (status != MR_OK) bench_fail("an answer was refused: %s", mr_status_name(status));
    memcpy(payload, &value, sizeof value);
    rpc_reply_commit(end->rpc, token, sizeof value);
    return true;
}

static void on_request(void *context, const rpc_call_request *request) {
    end *end = context;
    uint64_t value;
    if (request->payload.size != sizeof value) bench_fail("a request of the wrong size");
    memcpy(&value, request->payload.data, sizeof value);
    if (end->waiting_count == 0 && answer(end, request->token, value)) return;
    if (end->waiting_count == WINDOW) bench_fail("more requests than were made");
    end->waiting[end->waiting_count].token = request->token;
    end->waiting[end->waiting_count++].value = value;
}

static void on_room(void *context, link_id link) {
    end *end = context;
    while (end->waiting_count > 0) {
        unsigned last = end->waiting_count - 1;
        if (!answer(end, end->waiting[last].token, end->waiting[last].value)) return;
        end->waiting_count = last;
    }
}

static void on_link_open(void *context, link_id link, const peer *peer) {
    end *end = context;
    end->link = link;
    end->open = true;
}

static void on_link_closed(void *context, link_id link, const cause *why) { ((end *)context)->closed = true; }

static const rpc_call_handlers handlers = {
    .on_request = on_request, .on_link_open = on_link_open, .on_link_closed = on_link_closed, .on_room = on_room};

static mr_status find_token(void *context, token *out) {
    *out = (token){{1}};
    return MR_OK;
}

static void end_open(end *end, wire wire, const char *broker, const char *name) {
    memset(end, 0, sizeof *end);
    end->env.clock = clock_real();
    end->rpc = rpc_create(&end->env, &handlers, end);
    if (wire == WIRE_SHM) {
        if (shm_transport_open(&(shm_transport_options){.broker = broker, .name = name}, &rpc_events, end->rpc,
                               &end->transport) != MR_OK)
            bench_fail("port: %s", mr_last_error());
        end->env.transport = shm_transport_transport(end->transport);
    } else {
        if (event_loop_create(&end->loop) != MR_OK ||
            socket_transport_open(end->loop, &(socket_transport_options){.name = name, .find_token = find_token},
                                  &rpc_events, end->rpc, &end->socket_transport) != MR_OK)
            bench_fail("stream: %s", mr_last_error());
        end->env.transport = socket_transport_transport(end->socket_transport);
    }
}

static void end_close(end *end) {
    if (end->transport != NULL) shm_transport_close(end->transport);
    if (end->socket_transport != NULL) socket_transport_close(end->socket_transport);
    rpc_destroy(end->rpc);
    if (end->loop != NULL) event_loop_destroy(end->loop);
}

/* One turn of a host: handles received messages, else due timers, else waits. */
static void drive(end *end) {
    end->env.transport.ops->flush(end->env.transport.self);
    if (end->transport == NULL)
        event_loop_run_once(end->loop, 1000 * 1000);
    else if (shm_transport_poll(end->transport) == 0)
        shm_transport_wait(end->transport, NULL, 1000 * 1000);
    int64_t next_us = rpc_next_us(end->rpc);
    if (next_us != CLOCK_NEVER_US && next_us <= clock_now_us(end->env.clock))
        rpc_tick(end->rpc, clock_now_us(end->env.clock));
}

/* ---- Two processes. */

typedef struct server {
    wire wire;
    const char *broker;
} server;

static void serve(void *argument, int ready_fd) {
    server *server = argument;
    end end;
    bench_pin(BENCH_TWO_CPUS, 1);
    end_open(&end, server->wire, server->broker, "server");
    char address[ADDRESS_TEXT_MAX] = "shm:server";
    if (server->wire == WIRE_TCP && socket_transport_listen(end.socket_transport, "tcp:127.0.0.1:0", address) != MR_OK)
        bench_fail("listen: %s", mr_last_error());
    bench_ready(ready_fd, address, sizeof address);
    while (!end.closed) drive(&end);
    end_close(&end);
}

typedef struct scene {
    bench_broker broker;
    server server;
    pid_t server_pid;
    end client;
} scene;

static void scene_open(scene *scene, wire wire) {
    char address[ADDRESS_TEXT_MAX];
    if (wire == WIRE_SHM) bench_broker_start(&scene->broker);
    scene->server = (server){wire, scene->broker.path};
    scene->server_pid = bench_server(serve, &scene->server, address, sizeof address);
    bench_pin(BENCH_TWO_CPUS, 0);
    end *client = &scene->client;
    end_open(client, wire, scene->broker.path, "client");
    transport transport = client->env.transport;
    if (transport.ops->open(transport.self, address, &client->link) != MR_OK) bench_fail("open: %s", mr_last_error());
    while (!client->open && !client->closed) drive(client);
    if (client->closed) bench_fail("the link was refused");
}

static void scene_close(scene *scene, wire wire) {
    end_close(&scene->client);
    bench_join(scene->server_pid);
    if (wire == WIRE_SHM) bench_broker_stop(&scene->broker);
}

/* ---- RPCs. */

typedef struct style { /* state of a measurement */
    wire wire;
    bool deadline; /* one per RPC */
} style;

static void answered(void *argument, rpc_call_id id, const rpc_call_result *result) {
    end *end = argument;
    if (result->status != MR_OK || result->payload.size != PAYLOAD) bench_fail("a call failed");
    end->answers++;
}

static bool call(end *end, uint64_t value, bool deadline) {
    static const rpc_call_options options = {.timeout_us = 10 * 1000 * 1000};
    uint8_t *payload;
    if (rpc_begin(end->rpc, end->link, 1, PAYLOAD, &payload) != MR_OK) return false;
    memcpy(payload, &value, PAYLOAD);
    if (deadline)
        rpc_commit(end->rpc, clock_now_us(end->env.clock), end->link, PAYLOAD, &options, answered, end);
    else
        rpc_commit(end->rpc, 0, end->link, PAYLOAD, NULL, answered, end);
    return true;
}

static void round_trip(const bench_run *run, const void *argument, double *values) {
    const style *style = argument;
    scene scene = {0};
    scene_open(&scene, style->wire);
    end *client = &scene.client;
    unsigned batch = style->wire == WIRE_SHM ? BATCH : 1;
    bench_samples samples;
    bench_samples_init(&samples, SAMPLES_MAX);
    int64_t now = clock_ns(), end_ns = now + (int64_t)(run->seconds * 1e9);
    while (now < end_ns) {
        int64_t before = now;
        for (unsigned i = 0; i < batch; i++) {
            uint64_t wanted = client->answers + 1;
            if (!call(client, wanted, style->deadline)) bench_fail("no room for a call");
            while (client->answers < wanted) drive(client);
        }
        now = clock_ns();
        bench_samples_add(&samples, (double)(now - before) / (1e3 * batch));
    }
    scene_close(&scene, style->wire);
    values[0] = bench_samples_percentile(&samples, 50);
    values[1] = bench_samples_percentile(&samples, 99);
    bench_samples_fini(&samples);
}

static void pipelined(const bench_run *run, const void *argument, double *values) {
    const style *style = argument;
    scene scene = {0};
    scene_open(&scene, style->wire);
    end *client = &scene.client;
    int64_t start = clock_ns(), end_ns = start + (int64_t)(run->seconds * 1e9), now = start;
    uint64_t made = 0;
    while (now < end_ns) {
        while (made - client->answers < WINDOW && call(client, made, style->deadline)) made++;
        drive(client);
        now = clock_ns();
    }
    double answers = (double)client->answers;
    while (client->answers < made) drive(client);
    scene_close(&scene, style->wire);
    values[0] = answers * 1e3 / (double)(now - start);
}

/* ---- The RPC layer alone: two instances in one process, joined by a transport that delivers each message at once. */

typedef struct short_cut {
    struct short_cut *other;
    rpc *rpc;
    uint8_t head[64];
    size_t size;
} short_cut;

static mr_status short_reserve(void *self, link_id link, size_t size, uint8_t **out) {
    short_cut *cut = self;
    *out = cut->head;
    return size <= sizeof cut->head ? MR_OK : MR_TOO_LARGE;
}

static void short_commit(void *self, link_id link, size_t size) { ((short_cut *)self)->size = size; }

static const transport_ops short_ops = {.name = "short cut", .reserve = short_reserve, .commit = short_commit};

static void deliver(short_cut *from) {
    message message = {.head = span_of(from->head, from->size)};
    rpc_events.on_message(from->other->rpc, (link_id){1}, &message);
}

static void alone(const bench_run *run, const void *argument, double *values) {
    const style *style = argument;
    end ends[2];
    short_cut cuts[2];
    for (int i = 0; i < 2; i++) {
        ends[i] = (end){.env = {.clock = clock_real(), .transport = {&short_ops, &cuts[i]}}, .link = {1}};
        ends[i].rpc = rpc_create(&ends[i].env, &handlers, &ends[i]);
        cuts[i] = (short_cut){.other = &cuts[1 - i], .rpc = ends[i].rpc};
        rpc_events.on_open(ends[i].rpc, (link_id){1}, &(peer){0});
    }
    int64_t start = clock_ns(), end_ns = start + (int64_t)(run->seconds * 1e9), now = start;
    uint64_t count = 0;
    for (; now < end_ns; now = clock_ns())
        for (int i = 0; i < 1024; i++, count++) {
            if (!call(&ends[0], count, style->deadline)) bench_fail("no room for a call");
            deliver(&cuts[0]);
            deliver(&cuts[1]);
        }
    values[0] = (double)(now - start) / (double)count;
    for (int i = 0; i < 2; i++) rpc_destroy(ends[i].rpc);
}

void rpc_bench(bench *b) {
    static const style shm = {WIRE_SHM, false}, shm_deadline = {WIRE_SHM, true}, tcp = {WIRE_TCP, false};
    static const limit_trip raw_tcp = {LIMIT_TCP_EPOLL, BENCH_TWO_CPUS};
    bench_measure(b, &(bench_pair){.ours = round_trip, .argument = &shm, .reference = bare_round_trip_fn},
                  (bench_row[]){{.name = "round trip over the ring, p50",
                                 .unit = "us",
                                 .reference = "bare ring",
                                 .bar = {BENCH_RATIO_AT_MOST, 1.5}},
                                {.name = "round trip over the ring, p99",
                                 .unit = "us",
                                 .value = 1,
                                 .reference = "bare ring",
                                 .ref_value = 1}},
                  2);
    bench_measure(b, &(bench_pair){.ours = round_trip, .argument = &shm_deadline, .reference = bare_round_trip_fn},
                  &(bench_row){.name = "round trip with a deadline, p50", .unit = "us", .reference = "bare ring"}, 1);
    bench_measure(b, &(bench_pair){.ours = pipelined, .argument = &shm, .reference = bare_rate_fn},
                  &(bench_row){.name = "calls over the ring, 512 at a time",
                               .unit = "M/s",
                               .reference = "bare messages",
                               .bar = {BENCH_VALUE_AT_LEAST, 5}},
                  1);
    bench_measure(
        b,
        &(bench_pair){
            .ours = round_trip, .argument = &tcp, .reference = limit_round_trip_fn, .reference_argument = &raw_tcp},
        &(bench_row){.name = "round trip over tcp, p50",
                     .unit = "us",
                     .reference = "raw tcp, epoll",
                     .bar = {BENCH_RATIO_AT_MOST, 1.5}},
        1);
    bench_measure(b, &(bench_pair){.ours = pipelined, .argument = &tcp},
                  &(bench_row){.name = "calls over tcp, 512 at a time", .unit = "M/s"}, 1);
    bench_measure(b, &(bench_pair){.ours = alone, .argument = &shm},
                  &(bench_row){.name = "call and answer, the layer alone", .unit = "ns"}, 1);
    bench_measure(b, &(bench_pair){.ours = alone, .argument = &shm_deadline},
                  &(bench_row){.name = "the same with a deadline", .unit = "ns"}, 1);
}
