/* store_bench_host.c — see store_bench_host.h. */
#include "bench/store_bench_host.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/failpoint.h"
#include "base/map.h"
#include "net/shm/broker.h"
#include "store/spill_file.h"
#include "store/store_rpc_server.h"

/* ---- The host. */

typedef struct host {
    event_loop *loop;
    broker *broker;
    store_server *server;
    store_rpc_server *store_rpc_server;
    spill_file *spill;
    env env;
    rng rng;
    rpc *rpc;
    shm_transport *transport;
    event_loop_timer *timer;
    map processes; /* link → process + 1, as a pointer */
} host;

static mr_status extent_alloc(void *context, uint64_t size, extent *out) {
    return broker_extent_alloc(((host *)context)->broker, size, out);
}
static mr_status extent_take(void *context, extent wanted) {
    return broker_extent_take(((host *)context)->broker, wanted);
}
static void extent_free(void *context, extent extent) { broker_extent_free(((host *)context)->broker, extent); }
static mr_status save(void *context, uint64_t ticket, const void *data, uint64_t size) {
    return spill_file_save(((host *)context)->spill, ticket, data, size);
}
static mr_status load(void *context, uint64_t ticket, uint64_t file, void *data, uint64_t size) {
    return spill_file_load(((host *)context)->spill, ticket, file, data, size);
}
static void forget(void *context, uint64_t file) { spill_file_forget(((host *)context)->spill, file); }

static const store_server_ops plain_ops = {
    .extent_alloc = extent_alloc, .extent_free = extent_free, .extent_take = extent_take};
static const store_server_ops spilling_ops = {.extent_alloc = extent_alloc,
                                              .extent_take = extent_take,
                                              .extent_free = extent_free,
                                              .save = save,
                                              .load = load,
                                              .forget = forget};

static uint64_t *process_of(host *host, link_id link) { return map_get(&host->processes, link.v); }

static void on_request(void *context, const rpc_call_request *request) {
    host *host = context;
    const uint64_t *process = process_of(host, request->token.link);
    if (process != NULL && request->method == STORE_SERVER_METHOD)
        store_rpc_server_request(host->store_rpc_server, *process, request, event_loop_now_us(host->loop));
}

static void on_link_open(void *context, link_id link, const peer *peer) {
    uint64_t *process = malloc(sizeof *process);
    *process = peer->process;
    free(map_put(&((host *)context)->processes, link.v, process));
}

static void on_link_closed(void *context, link_id link, const cause *why) {
    host *host = context;
    uint64_t *process = map_remove(&host->processes, link.v);
    if (process == NULL) return;
    store_server_leave(host->server, *process);
    free(process);
}

static void on_room(void *context, link_id link) { store_rpc_server_room(((host *)context)->store_rpc_server); }

static const rpc_call_handlers host_handlers = {
    .on_request = on_request, .on_link_open = on_link_open, .on_link_closed = on_link_closed, .on_room = on_room};

static void on_timer(void *context) {
    host *host = context;
    int64_t now = event_loop_now_us(host->loop), next = store_server_tick(host->server, now);
    if (next > now + STORE_SERVER_COLLECT_US) next = now + STORE_SERVER_COLLECT_US; /* a new process is not announced */
    event_loop_timer_set(host->timer, next > now ? next - now : 0);
}

static void on_spilled(void *context) {
    host *host = context;
    spill_file_poll(host->spill, host->server, event_loop_now_us(host->loop));
}

static void on_stop(void *context) { event_loop_stop(context); }

/* The transport joins a broker that runs in this same event loop: joining blocks, so a thread does it. */
typedef struct joining {
    host *host;
    const char *path;
    mr_status status;
    _Atomic bool done;
} joining;

static void *join_broker(void *argument) {
    joining *joining = argument;
    shm_transport_options options = {.broker = joining->path, .name = "vault"};
    joining->status = shm_transport_open(&options, &rpc_events, joining->host->rpc, &joining->host->transport);
    atomic_store(&joining->done, true);
    return NULL;
}

static mr_status join_own_broker(host *host, const char *path) {
    joining joining = {.host = host, .path = path};
    pthread_t thread;
    if (pthread_create(&thread, NULL, join_broker, &joining) != 0) return error_set(MR_IO, "no thread");
    while (!atomic_load(&joining.done)) event_loop_run_once(host->loop, 1000);
    pthread_join(thread, NULL);
    MR_TRY(joining.status);
    host->env.transport = shm_transport_transport(host->transport);
    return shm_transport_attach(host->transport, host->loop);
}

static int failed(const char *what) {
    fprintf(stderr, "store host: %s: %s\n", what, mr_last_error());
    return 1;
}

static int check(host *host) {
    int64_t deadline = event_loop_now_us(host->loop) + 5 * 1000 * 1000;
    store_server_stats stats;
    for (;;) {
        store_server_collect(host->server);
        stats = store_server_stats_now(host->server);
        bool clean = stats.processes == 0 && stats.objects == 0 && stats.bytes == 0 && stats.moving == 0 &&
                     stats.spilled_bytes == 0;
        if (clean || event_loop_now_us(host->loop) > deadline) break;
        event_loop_run_once(host->loop, 5000);
    }
    broker_stats broker = broker_stats_now(host->broker);
    uint64_t slots = (uint64_t)stats.pages * OBJECT_HEADER_PAGE_BYTES;
    if (stats.processes + stats.objects + stats.bytes + stats.moving + stats.spilled_bytes == 0 &&
        broker.exported == slots)
        return 0;
    fprintf(stderr, "store host: left over: %u processes, %u objects, %llu bytes, %u moves, %llu spilled, lent %llu\n",
            stats.processes, stats.objects, (unsigned long long)stats.bytes, stats.moving,
            (unsigned long long)stats.spilled_bytes, (unsigned long long)(broker.exported - slots));
    return 2;
}

static int serve(host *host, const store_bench_host_options *options) {
    event_loop_watch *stop, *spilled = NULL;
    if (join_own_broker(host, options->broker) != MR_OK) return failed("port");
    host->timer = event_loop_timer_create(host->loop, on_timer, host);
    event_loop_timer_set(host->timer, 0);
    if (event_loop_watch_add(host->loop, options->stop_fd, on_stop, host->loop, &stop) != MR_OK) return failed("watch");
    if (host->spill != NULL &&
        event_loop_watch_add(host->loop, spill_file_fd(host->spill), on_spilled, host, &spilled) != MR_OK)
        return failed("watch");
    if (options->failpoint != NULL && failpoint_arm(options->failpoint) != MR_OK) return failed("failpoint");
    if (write(options->ready_fd, "r", 1) != 1) return failed("pipe");
    event_loop_run(host->loop);
    event_loop_watch_remove(stop);
    int code = options->check ? check(host) : 0;
    if (spilled != NULL) event_loop_watch_remove(spilled);
    store_server_stats stats = store_server_stats_now(host->server);
    if (options->spilled != NULL) *options->spilled = stats.spilled;
    if (options->objects != NULL) *options->objects = stats.collected;
    event_loop_timer_destroy(host->timer);
    shm_transport_detach(host->transport);
    shm_transport_close(host->transport);
    return code;
}

int store_bench_host_run(const store_bench_host_options *options) {
    host host = {0};
    if (event_loop_create(&host.loop) != MR_OK) return failed("loop");
    broker_options broker_options = {.path = options->broker, .arena_bytes = options->arena_bytes};
    if (broker_open(host.loop, &broker_options, &host.broker) != MR_OK) return failed("hub");
    if (options->folder != NULL && spill_file_open(options->folder, 0, &host.spill) != MR_OK) return failed("spill");
    host.server =
        store_server_open(broker_arena(host.broker), host.spill != NULL ? &spilling_ops : &plain_ops, &host, NULL);
    rng_init(&host.rng, 1);
    host.env = (env){.clock = clock_real(), .rng = &host.rng};
    host.rpc = rpc_create(&host.env, &host_handlers, &host);
    host.store_rpc_server = store_rpc_server_create(host.server, host.rpc);
    int code = serve(&host, options);
    spill_file_close(host.spill);
    store_server_close(host.server);
    store_rpc_server_destroy(host.store_rpc_server);
    rpc_destroy(host.rpc);
    map_fini(&host.processes);
    for (int i = 0; i < 100 && broker_stats_now(host.broker).peers > 0; i++) event_loop_run_once(host.loop, 1000);
    if (code == 0 && (broker_stats_now(host.broker).used != 0 || broker_stats_now(host.broker).exported != 0)) code = 3;
    broker_close(host.broker);
    event_loop_destroy(host.loop);
    return code;
}

/* ---- The client process. */

static void visitor_request(void *context, const rpc_call_request *request) {}

static void visitor_link_open(void *context, link_id link, const peer *peer) { ((visitor *)context)->open = true; }
static void visitor_link_closed(void *context, link_id link, const cause *why) { ((visitor *)context)->closed = true; }

static const rpc_call_handlers visitor_handlers = {
    .on_request = visitor_request, .on_link_open = visitor_link_open, .on_link_closed = visitor_link_closed};

void visitor_drive(visitor *visitor, int64_t timeout_us) {
    if (shm_transport_poll(visitor->transport) == 0) shm_transport_wait(visitor->transport, NULL, timeout_us);
}

static mr_status visitor_meet(visitor *visitor) {
    transport transport = visitor->env.transport;
    MR_TRY(transport.ops->open(transport.self, "shm:vault", &visitor->store_server_link));
    while (!visitor->open && !visitor->closed) visitor_drive(visitor, 10000);
    if (visitor->closed) return error_set(MR_CLOSED, "the vault is gone");
    MR_TRY(store_rpc_client_join(&visitor->client, visitor->rpc, visitor->store_server_link));
    while (!visitor->client.joined && visitor->client.failed == MR_OK) visitor_drive(visitor, 10000);
    MR_TRY(visitor->client.failed);
    return store_rpc_client_open(&visitor->client, shm_transport_arena(visitor->transport),
                                 shm_transport_process(visitor->transport), clock_real(), &visitor->store);
}

mr_status visitor_open(visitor *visitor, const char *broker, const char *name) {
    memset(visitor, 0, sizeof *visitor);
    rng_init(&visitor->rng, 1);
    visitor->env = (env){.clock = clock_real(), .rng = &visitor->rng};
    visitor->rpc = rpc_create(&visitor->env, &visitor_handlers, visitor);
    mr_status status = shm_transport_open(&(shm_transport_options){.broker = broker, .name = name}, &rpc_events,
                                          visitor->rpc, &visitor->transport);
    if (status != MR_OK) {
        rpc_destroy(visitor->rpc);
        return status;
    }
    visitor->env.transport = shm_transport_transport(visitor->transport);
    status = visitor_meet(visitor);
    if (status != MR_OK) visitor_close(visitor);
    return status;
}

void visitor_close(visitor *visitor) {
    if (visitor->store != NULL) store_client_close(visitor->client.store);
    shm_transport_close(visitor->transport);
    rpc_destroy(visitor->rpc);
}

/* Waits for the answer, or until the time that the store server named. False: the store server is gone. */
static bool wait_for(visitor *visitor) {
    int64_t retry_us = store_client_retry_us(visitor->store);
    if (retry_us > 0) {
        int64_t until = clock_now_us(clock_real()) + retry_us;
        while (clock_now_us(clock_real()) < until && !visitor->closed) visitor_drive(visitor, retry_us);
    } else {
        unsigned open = visitor->client.open;
        while (visitor->client.open >= open && open > 0 && !visitor->closed) visitor_drive(visitor, 10000);
    }
    store_client_poll(visitor->store);
    return !visitor->closed;
}

mr_status visitor_create(visitor *visitor, uint64_t size, store_client_object **out, void **data) {
    for (;;) {
        mr_status status = store_client_create(visitor->store, size, out, data);
        if (status != MR_BUSY) return status;
        if (!wait_for(visitor)) return error_set(MR_CLOSED, "the vault is gone");
    }
}

mr_status visitor_take(visitor *visitor, const object_ref *ref, store_client_object **out) {
    for (;;) {
        mr_status status = store_client_take(visitor->store, ref, out);
        if (status != MR_BUSY) return status;
        if (!wait_for(visitor)) return error_set(MR_CLOSED, "the vault is gone");
    }
}

mr_status visitor_view(visitor *visitor, store_client_object *object, void **data, uint64_t *size) {
    for (;;) {
        mr_status status = store_client_view(visitor->store, object, data, size);
        if (status != MR_BUSY) return status;
        if (!wait_for(visitor)) return error_set(MR_CLOSED, "the vault is gone");
    }
}
