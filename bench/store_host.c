/* store_host.c — see store_host.h. */
#include "bench/store_host.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/failpoint.h"
#include "base/map.h"
#include "net/shm/hub.h"
#include "store/spill.h"
#include "store/vault_service.h"

/* ---- The host. */

typedef struct host {
    loop *loop;
    hub *hub;
    vault *vault;
    vault_service *service;
    spill *spill;
    env env;
    rng rng;
    calls *calls;
    port *port;
    loop_timer *timer;
    map processes; /* link → process + 1, as a pointer */
} host;

static mr_status extent_alloc(void *context, uint64_t size, extent *out) {
    return hub_extent_alloc(((host *)context)->hub, size, out);
}
static mr_status extent_take(void *context, extent wanted) { return hub_extent_take(((host *)context)->hub, wanted); }
static void extent_free(void *context, extent extent) { hub_extent_free(((host *)context)->hub, extent); }
static mr_status save(void *context, uint64_t ticket, const void *data, uint64_t size) {
    return spill_save(((host *)context)->spill, ticket, data, size);
}
static mr_status load(void *context, uint64_t ticket, uint64_t file, void *data, uint64_t size) {
    return spill_load(((host *)context)->spill, ticket, file, data, size);
}
static void forget(void *context, uint64_t file) { spill_forget(((host *)context)->spill, file); }

static const vault_ops plain_ops = {
    .extent_alloc = extent_alloc, .extent_free = extent_free, .extent_take = extent_take};
static const vault_ops spilling_ops = {.extent_alloc = extent_alloc,
                                       .extent_take = extent_take,
                                       .extent_free = extent_free,
                                       .save = save,
                                       .load = load,
                                       .forget = forget};

static uint64_t *process_of(host *host, link_id link) { return map_get(&host->processes, link.v); }

static void on_request(void *context, const call_request *request) {
    host *host = context;
    const uint64_t *process = process_of(host, request->token.link);
    if (process != NULL && request->method == VAULT_METHOD)
        vault_service_request(host->service, *process, request, loop_now_us(host->loop));
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
    vault_leave(host->vault, *process);
    free(process);
}

static void on_room(void *context, link_id link) { vault_service_room(((host *)context)->service); }

static const call_handlers host_handlers = {
    .on_request = on_request, .on_link_open = on_link_open, .on_link_closed = on_link_closed, .on_room = on_room};

static void on_timer(void *context) {
    host *host = context;
    int64_t now = loop_now_us(host->loop), next = vault_tick(host->vault, now);
    if (next > now + VAULT_COLLECT_US) next = now + VAULT_COLLECT_US; /* a newcomer is not announced */
    loop_timer_set(host->timer, next > now ? next - now : 0);
}

static void on_spilled(void *context) {
    host *host = context;
    spill_poll(host->spill, host->vault, loop_now_us(host->loop));
}

static void on_stop(void *context) { loop_stop(context); }

/* The port joins a hub that runs in this very loop: joining waits, so a thread does it. */
typedef struct joining {
    host *host;
    const char *path;
    mr_status status;
    _Atomic bool done;
} joining;

static void *join_hub(void *argument) {
    joining *joining = argument;
    port_options options = {.hub = joining->path, .name = "vault"};
    joining->status = port_open(&options, &calls_events, joining->host->calls, &joining->host->port);
    atomic_store(&joining->done, true);
    return NULL;
}

static mr_status join_own_hub(host *host, const char *path) {
    joining joining = {.host = host, .path = path};
    pthread_t thread;
    if (pthread_create(&thread, NULL, join_hub, &joining) != 0) return error_set(MR_IO, "no thread");
    while (!atomic_load(&joining.done)) loop_run_once(host->loop, 1000);
    pthread_join(thread, NULL);
    MR_TRY(joining.status);
    host->env.transport = port_transport(host->port);
    return port_attach(host->port, host->loop);
}

static int failed(const char *what) {
    fprintf(stderr, "store host: %s: %s\n", what, mr_last_error());
    return 1;
}

static int check(host *host) {
    int64_t deadline = loop_now_us(host->loop) + 5 * 1000 * 1000;
    vault_stats stats;
    for (;;) {
        vault_collect(host->vault);
        stats = vault_stats_now(host->vault);
        bool clean = stats.processes == 0 && stats.objects == 0 && stats.bytes == 0 && stats.moving == 0 &&
                     stats.spilled_bytes == 0;
        if (clean || loop_now_us(host->loop) > deadline) break;
        loop_run_once(host->loop, 5000);
    }
    hub_stats hub = hub_stats_now(host->hub);
    uint64_t slots = (uint64_t)stats.pages * SLOT_PAGE_BYTES;
    if (stats.processes + stats.objects + stats.bytes + stats.moving + stats.spilled_bytes == 0 && hub.lent == slots)
        return 0;
    fprintf(stderr, "store host: left over: %u processes, %u objects, %llu bytes, %u moves, %llu spilled, lent %llu\n",
            stats.processes, stats.objects, (unsigned long long)stats.bytes, stats.moving,
            (unsigned long long)stats.spilled_bytes, (unsigned long long)(hub.lent - slots));
    return 2;
}

static int serve(host *host, const store_host_options *options) {
    loop_watch *stop, *spilled = NULL;
    if (join_own_hub(host, options->hub) != MR_OK) return failed("port");
    host->timer = loop_timer_create(host->loop, on_timer, host);
    loop_timer_set(host->timer, 0);
    if (loop_watch_add(host->loop, options->stop_fd, on_stop, host->loop, &stop) != MR_OK) return failed("watch");
    if (host->spill != NULL && loop_watch_add(host->loop, spill_fd(host->spill), on_spilled, host, &spilled) != MR_OK)
        return failed("watch");
    if (options->failpoint != NULL && failpoint_arm(options->failpoint) != MR_OK) return failed("failpoint");
    if (write(options->ready_fd, "r", 1) != 1) return failed("pipe");
    loop_run(host->loop);
    loop_watch_remove(stop);
    int code = options->check ? check(host) : 0;
    if (spilled != NULL) loop_watch_remove(spilled);
    vault_stats stats = vault_stats_now(host->vault);
    if (options->spilled != NULL) *options->spilled = stats.spilled;
    if (options->objects != NULL) *options->objects = stats.collected;
    loop_timer_destroy(host->timer);
    port_detach(host->port);
    port_close(host->port);
    return code;
}

int store_host_run(const store_host_options *options) {
    host host = {0};
    if (loop_create(&host.loop) != MR_OK) return failed("loop");
    hub_options hub_options = {.path = options->hub, .arena_bytes = options->arena_bytes};
    if (hub_open(host.loop, &hub_options, &host.hub) != MR_OK) return failed("hub");
    if (options->folder != NULL && spill_open(options->folder, 0, &host.spill) != MR_OK) return failed("spill");
    host.vault = vault_open(hub_arena(host.hub), host.spill != NULL ? &spilling_ops : &plain_ops, &host, NULL);
    rng_init(&host.rng, 1);
    host.env = (env){.clock = clock_real(), .rng = &host.rng};
    host.calls = calls_create(&host.env, &host_handlers, &host);
    host.service = vault_service_create(host.vault, host.calls);
    int code = serve(&host, options);
    spill_close(host.spill);
    vault_close(host.vault);
    vault_service_destroy(host.service);
    calls_destroy(host.calls);
    map_fini(&host.processes);
    for (int i = 0; i < 100 && hub_stats_now(host.hub).guests > 0; i++) loop_run_once(host.loop, 1000);
    if (code == 0 && (hub_stats_now(host.hub).used != 0 || hub_stats_now(host.hub).lent != 0)) code = 3;
    hub_close(host.hub);
    loop_destroy(host.loop);
    return code;
}

/* ---- The visitor. */

static void visitor_request(void *context, const call_request *request) {}

static void visitor_link_open(void *context, link_id link, const peer *peer) { ((visitor *)context)->open = true; }
static void visitor_link_closed(void *context, link_id link, const cause *why) { ((visitor *)context)->closed = true; }

static const call_handlers visitor_handlers = {
    .on_request = visitor_request, .on_link_open = visitor_link_open, .on_link_closed = visitor_link_closed};

void visitor_drive(visitor *visitor, int64_t timeout_us) {
    if (port_poll(visitor->port) == 0) port_wait(visitor->port, NULL, timeout_us);
}

static mr_status visitor_meet(visitor *visitor) {
    transport transport = visitor->env.transport;
    MR_TRY(transport.ops->open(transport.self, "shm:vault", &visitor->vault_link));
    while (!visitor->open && !visitor->closed) visitor_drive(visitor, 10000);
    if (visitor->closed) return error_set(MR_CLOSED, "the vault is gone");
    MR_TRY(vault_client_join(&visitor->client, visitor->calls, visitor->vault_link));
    while (!visitor->client.joined && visitor->client.failed == MR_OK) visitor_drive(visitor, 10000);
    MR_TRY(visitor->client.failed);
    return vault_client_open(&visitor->client, port_arena(visitor->port), port_process(visitor->port), clock_real(),
                             &visitor->store);
}

mr_status visitor_open(visitor *visitor, const char *hub, const char *name) {
    memset(visitor, 0, sizeof *visitor);
    rng_init(&visitor->rng, 1);
    visitor->env = (env){.clock = clock_real(), .rng = &visitor->rng};
    visitor->calls = calls_create(&visitor->env, &visitor_handlers, visitor);
    mr_status status =
        port_open(&(port_options){.hub = hub, .name = name}, &calls_events, visitor->calls, &visitor->port);
    if (status != MR_OK) {
        calls_destroy(visitor->calls);
        return status;
    }
    visitor->env.transport = port_transport(visitor->port);
    status = visitor_meet(visitor);
    if (status != MR_OK) visitor_close(visitor);
    return status;
}

void visitor_close(visitor *visitor) {
    if (visitor->store != NULL) store_close(visitor->client.store);
    port_close(visitor->port);
    calls_destroy(visitor->calls);
}

/* Waits for the answer, or for the time that the vault named. False: there is nobody to wait for. */
static bool wait_for(visitor *visitor) {
    int64_t retry_us = store_retry_us(visitor->store);
    if (retry_us > 0) {
        int64_t until = clock_now_us(clock_real()) + retry_us;
        while (clock_now_us(clock_real()) < until && !visitor->closed) visitor_drive(visitor, retry_us);
    } else {
        unsigned open = visitor->client.open;
        while (visitor->client.open >= open && open > 0 && !visitor->closed) visitor_drive(visitor, 10000);
    }
    store_poll(visitor->store);
    return !visitor->closed;
}

mr_status visitor_create(visitor *visitor, uint64_t size, store_object **out, void **data) {
    for (;;) {
        mr_status status = store_create(visitor->store, size, out, data);
        if (status != MR_BUSY) return status;
        if (!wait_for(visitor)) return error_set(MR_CLOSED, "the vault is gone");
    }
}

mr_status visitor_take(visitor *visitor, const object_ref *ref, store_object **out) {
    for (;;) {
        mr_status status = store_take(visitor->store, ref, out);
        if (status != MR_BUSY) return status;
        if (!wait_for(visitor)) return error_set(MR_CLOSED, "the vault is gone");
    }
}

mr_status visitor_view(visitor *visitor, store_object *object, void **data, uint64_t *size) {
    for (;;) {
        mr_status status = store_view(visitor->store, object, data, size);
        if (status != MR_BUSY) return status;
        if (!wait_for(visitor)) return error_set(MR_CLOSED, "the vault is gone");
    }
}
