/* shm_bench.c — whole messages between two processes over the shared-memory transport, including links, events and
 * bodies. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "bench/bare_ring.h"
#include "bench/bench_broker.h"
#include "bench/limits.h"
#include "bench/suites.h"
#include "net/shm/shm_transport.h"

enum { SAMPLES_MAX = 1 << 18, BATCH = 16, WINDOW = 512 };

typedef struct end {
    shm_transport *shm_transport;
    transport transport;
    link_id link;
    bool open, closed, echo;
    uint64_t messages, sent;
    uint8_t *body;
} end;

static void on_open(void *context, link_id link, const peer *peer) {
    end *end = context;
    end->link = link;
    end->open = true;
}

static void on_message(void *context, link_id link, const message *message) {
    end *end = context;
    end->messages++;
    if (end->echo && transport_send(end->transport, link, message->head) != MR_OK) bench_fail("no room for an echo");
}

static void *on_body(void *context, link_id link, span head, uint64_t size) { return ((end *)context)->body; }
static void on_room(void *context, link_id link) {}
static void on_closed(void *context, link_id link, const cause *why) { ((end *)context)->closed = true; }
static void body_sent(void *argument, mr_status status) { ((end *)argument)->sent++; }

static const transport_events events = {on_open, on_message, on_body, on_room, on_closed};

static void end_open(end *end, const char *broker, const char *name) {
    memset(end, 0, sizeof *end);
    if (shm_transport_open(&(shm_transport_options){.broker = broker, .name = name}, &events, end,
                           &end->shm_transport) != MR_OK)
        bench_fail("port: %s", mr_last_error());
    end->transport = shm_transport_transport(end->shm_transport);
}

static void drive(end *end) {
    if (shm_transport_poll(end->shm_transport) == 0) shm_transport_wait(end->shm_transport, NULL, 1000 * 1000);
}

/* ---- The side that answers. */

typedef struct server {
    const char *broker;
    bench_place place;
    bool echo;
    size_t body_size;
} server;

static void serve(void *argument, int ready_fd) {
    server *server = argument;
    end end;
    bench_pin(server->place, 1);
    end_open(&end, server->broker, "server");
    end.echo = server->echo;
    if (server->body_size != 0) end.body = bench_memory(server->body_size);
    bench_ready(ready_fd, "r", 1);
    while (!end.closed) drive(&end);
    shm_transport_close(end.shm_transport);
}

typedef struct scene {
    bench_broker broker;
    server server;
    pid_t server_pid;
    end client;
} scene;

static void scene_open(scene *scene, bench_place place, bool echo, size_t body_size) {
    char byte;
    bench_broker_start(&scene->broker);
    scene->server = (server){scene->broker.path, place, echo, body_size};
    scene->server_pid = bench_server(serve, &scene->server, &byte, 1);
    bench_pin(place, 0);
    end_open(&scene->client, scene->broker.path, "client");
    end *client = &scene->client;
    if (client->transport.ops->open(client->transport.self, "shm:server", &client->link) != MR_OK)
        bench_fail("open: %s", mr_last_error());
    while (!client->open && !client->closed) drive(client);
    if (client->closed) bench_fail("the link was refused");
}

static void scene_close(scene *scene) {
    shm_transport_close(scene->client.shm_transport);
    bench_join(scene->server_pid);
    bench_broker_stop(&scene->broker);
}

static void say(end *end, uint64_t value) {
    while (transport_send(end->transport, end->link, span_of(&value, sizeof value)) != MR_OK) drive(end);
}

static void say_and_hear(end *end) {
    uint64_t wanted = end->messages + 1;
    say(end, wanted);
    while (end->messages < wanted) drive(end);
}

/* ---- Measurements. */

static void one_way(const bench_run *run, const void *argument, double *values) {
    scene scene;
    scene_open(&scene, BENCH_TWO_CPUS, true, 0);
    end *client = &scene.client;
    bench_samples samples;
    bench_samples_init(&samples, SAMPLES_MAX);
    int64_t now = clock_ns(), end_ns = now + (int64_t)(run->seconds * 1e9);
    while (now < end_ns) {
        int64_t before = now;
        for (int i = 0; i < BATCH; i++) {
            say_and_hear(client);
        }
        now = clock_ns();
        bench_samples_add(&samples, (double)(now - before) / (2e3 * BATCH));
    }
    scene_close(&scene);
    values[0] = bench_samples_percentile(&samples, 50);
    values[1] = bench_samples_percentile(&samples, 99);
    bench_samples_fini(&samples);
}

static void rate(const bench_run *run, const void *argument, double *values) {
    scene scene;
    scene_open(&scene, BENCH_TWO_CPUS, false, 0);
    end *client = &scene.client;
    int64_t start = clock_ns(), end_ns = start + (int64_t)(run->seconds * 1e9);
    uint64_t count = 0;
    while (clock_ns() < end_ns)
        for (int i = 0; i < 256; i++) say(client, count++);
    scene_close(&scene); /* returns when the other side has read everything */
    values[0] = (double)count * 1e3 / (double)(clock_ns() - start);
}

/* Sends bodies of one size, one after the other: the sender copies them into the ring, and the receiver copies them out
 * of it to their target. */
static void stream(const bench_run *run, const void *argument, double *values) {
    size_t size = ((const limit_copy *)argument)->size;
    scene scene;
    scene_open(&scene, BENCH_TWO_CPUS, false, size);
    end *client = &scene.client;
    uint8_t *body = bench_memory(size);
    memset(body, 7, size);
    uint64_t count = 0;
    int64_t start = 0, end_ns = INT64_MAX;
    for (; clock_ns() < end_ns; count++) {
        if (count == 4) { /* the ring has grown and is warm */
            start = clock_ns();
            end_ns = start + (int64_t)(run->seconds * 1e9);
        }
        uint8_t *at;
        while (client->transport.ops->reserve(client->transport.self, client->link, 8, &at) != MR_OK) drive(client);
        memset(at, 0, 8);
        client->transport.ops->commit_body(client->transport.self, client->link, 8, span_of(body, size), body_sent,
                                           client);
    }
    while (client->sent < count) drive(client);
    double seconds = (double)(clock_ns() - start) / 1e9;
    scene_close(&scene);
    values[0] = (double)(count - 4) * (double)size / seconds / 1e9;
}

/* ---- A thousand links. */

enum { LINKS = 1000 };

static double cpu_us(pid_t pid) {
    clockid_t clock;
    struct timespec spent;
    if (clock_getcpuclockid(pid, &clock) != 0 || clock_gettime(clock, &spent) != 0) bench_fail("no CPU time to be had");
    return (double)spent.tv_sec * 1e6 + (double)spent.tv_nsec / 1e3;
}

static double poll_ns(shm_transport *transport) {
    enum { POLLS = 100 * 1000 };
    while (shm_transport_poll(transport) != 0) {}
    int64_t start = clock_ns();
    for (int i = 0; i < POLLS; i++) shm_transport_poll(transport);
    return (double)(clock_ns() - start) / POLLS;
}

/* values: µs to open one of LINKS further links and to receive its first echo, and µs of the broker's CPU; ns of a poll
 * without messages with one link and with all; µs of a round trip, each over another link. */
static void many_links(const bench_run *run, const void *argument, double *values) {
    scene scene;
    scene_open(&scene, BENCH_TWO_CPUS, true, 0);
    end *client = &scene.client;
    values[2] = poll_ns(client->shm_transport);
    double broker_us = cpu_us(scene.broker.pid);
    int64_t start = clock_ns();
    static link_id links[LINKS];
    for (int i = 0; i < LINKS; i++) {
        client->open = false;
        if (client->transport.ops->open(client->transport.self, "shm:server", &links[i]) != MR_OK)
            bench_fail("open: %s", mr_last_error());
        while (!client->open && !client->closed) drive(client);
        if (client->closed) bench_fail("link %d was refused", i);
        say_and_hear(client);
    }
    values[0] = (double)(clock_ns() - start) / 1e3 / LINKS;
    values[1] = (cpu_us(scene.broker.pid) - broker_us) / LINKS;
    values[3] = poll_ns(client->shm_transport);
    start = clock_ns();
    for (int i = 0; i < LINKS; i++) {
        client->link = links[i];
        say_and_hear(client);
    }
    values[4] = (double)(clock_ns() - start) / 1e3 / LINKS;
    scene_close(&scene);
}

static void many_links_bench(bench *b) {
    bench_measure(
        b, &(bench_pair){.ours = many_links},
        (bench_row[]){{.name = "open a link, of 1,000, and hear from it", .unit = "us"},
                      {.name = "open a link, of 1,000: the broker's CPU",
                       .unit = "us",
                       .value = 1,
                       .bar = {BENCH_VALUE_AT_MOST, 100}},
                      {.name = "poll in vain, 1 link", .unit = "ns", .value = 2},
                      {.name = "poll in vain, 1,001 links", .unit = "ns", .value = 3},
                      {.name = "8 B there and back, each time over another of 1,000", .unit = "us", .value = 4}},
        5);
}

void shm_bench(bench *b) {
    static const limit_copy kilobytes = {64 << 10, 1}, megabyte = {1 << 20, 1}, sixteen = {16 << 20, 1};
    bench_measure(
        b, &(bench_pair){.ours = one_way, .reference = bare_one_way_fn},
        (bench_row[]){
            {.name = "8 B message one way, p50",
             .unit = "us",
             .reference = "bare ring",
             .bar = {BENCH_RATIO_AT_MOST, 1.3}},
            {.name = "8 B message one way, p99", .unit = "us", .value = 1, .reference = "bare ring", .ref_value = 1}},
        2);
    bench_measure(b, &(bench_pair){.ours = rate, .reference = bare_rate_fn},
                  &(bench_row){.name = "8 B messages in a row",
                               .unit = "M/s",
                               .reference = "bare ring",
                               .bar = {BENCH_VALUE_AT_LEAST, 10}},
                  1);
    bench_measure(
        b,
        &(bench_pair){
            .ours = stream, .argument = &kilobytes, .reference = limit_memcpy_fn, .reference_argument = &kilobytes},
        &(bench_row){.name = "stream of 64 KB bodies", .unit = "GB/s", .reference = "memcpy 64 KB"}, 1);
    bench_measure(
        b,
        &(bench_pair){
            .ours = stream, .argument = &megabyte, .reference = limit_memcpy_fn, .reference_argument = &megabyte},
        &(bench_row){.name = "stream of 1 MB bodies",
                     .unit = "GB/s",
                     .reference = "memcpy 1 MB",
                     .bar = {BENCH_RATIO_AT_LEAST, 0.8}},
        1);
    bench_measure(b,
                  &(bench_pair){.ours = stream,
                                .argument = &megabyte,
                                .reference = limit_memcpy_across_fn,
                                .reference_argument = &megabyte},
                  &(bench_row){.name = "stream of 1 MB bodies, from CPU to CPU",
                               .unit = "GB/s",
                               .reference = "memcpy 1 MB, just written there",
                               .bar = {BENCH_RATIO_AT_LEAST, 0.8}},
                  1);
    bench_measure(
        b,
        &(bench_pair){
            .ours = stream, .argument = &sixteen, .reference = limit_memcpy_fn, .reference_argument = &sixteen},
        &(bench_row){.name = "stream of 16 MB bodies", .unit = "GB/s", .reference = "memcpy 16 MB"}, 1);
    many_links_bench(b);
}
