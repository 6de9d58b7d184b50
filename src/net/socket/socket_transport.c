/* socket_transport.c — see socket_transport.h. Table of links, timers and the end of each iteration; links are in
 * socket_link.c. Tested by tests/socket_end_test.c. */
#include "net/socket/socket_transport.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/failpoint.h"
#include "base/rng.h"
#include "net/socket/listener.h"
#include "net/socket/socket_internal.h"
#include "net/socket/socket_link_io.h"

/* ---- The transport's functions. */

static socket_link *link_of(void *self, link_id link) { return link_table_get(&((socket_transport *)self)->ids, link); }

static mr_status slot_open(void *self, const char *text, link_id *out) {
    socket_transport *transport = self;
    address address;
    if (transport->closing) return error_set(MR_CLOSED, "cannot connect to '%s': this process is shutting down", text);
    MR_TRY(address_parse(text, &address));
    MR_TRY(address_check_local(&address, "connect to"));
    return socket_link_connect(transport, &address, out);
}

static void slot_close(void *self, link_id link) {
    socket_link *socket_link = link_of(self, link);
    if (socket_link != NULL) socket_link_close(socket_link);
}

static mr_status slot_reserve(void *self, link_id link, size_t size, uint8_t **out) {
    socket_link *socket_link = link_of(self, link);
    if (socket_link == NULL) return error_set(MR_CLOSED, "link %u is closed", link.v);
    return socket_link_reserve(socket_link, size, out);
}

static void slot_commit(void *self, link_id link, size_t size) {
    socket_link *socket_link = link_of(self, link);
    if (socket_link != NULL) socket_link_commit(socket_link, size);
}

static bool slot_send_now(void *self, link_id link, span head) {
    socket_link *socket_link = link_of(self, link);
    return socket_link != NULL && socket_link_io_send(socket_link, head);
}

static void slot_commit_pieces(void *self, link_id link, size_t size, const span *pieces, size_t count,
                               body_sent_fn *sent, void *argument) {
    socket_link *socket_link = link_of(self, link);
    if (socket_link != NULL)
        socket_link_commit_pieces(socket_link, size, pieces, count, sent, argument);
    else
        sent(argument, MR_CLOSED);
}

static void slot_commit_body(void *self, link_id link, size_t size, span body, body_sent_fn *sent, void *argument) {
    slot_commit_pieces(self, link, size, &body, 1, sent, argument);
}

static void slot_discard(void *self, link_id link) {
    socket_link *socket_link = link_of(self, link);
    if (socket_link != NULL) frame_reader_discard(&socket_link->in);
}

static void slot_flush(void *self) {
    socket_transport *transport = self;
    list_for_each (at, &transport->dirty) socket_link_flush(container_of(at, socket_link, dirty));
}

static const transport_ops socket_transport_ops = {
    .name = "stream",
    .open = slot_open,
    .close = slot_close,
    .reserve = slot_reserve,
    .commit = slot_commit,
    .send_now = slot_send_now,
    .commit_body = slot_commit_body,
    .commit_pieces = slot_commit_pieces,
    .discard = slot_discard,
    .flush = slot_flush,
};

transport socket_transport_transport(socket_transport *socket_transport) {
    return (transport){&socket_transport_ops, socket_transport};
}
uint64_t socket_transport_process(const socket_transport *transport) { return transport->self.process; }

bool socket_transport_is_seen(const socket_transport *transport, link_id link) {
    const socket_link *socket_link = link_table_get(&transport->ids, link);
    return socket_link != NULL && socket_link->piped && shm_pipe_is_looked_through(socket_link->pipe) &&
           socket_link->import.base == NULL;
}

uint64_t socket_transport_peer(const socket_transport *transport, link_id link) {
    const socket_link *socket_link = link_table_get(&transport->ids, link);
    return socket_link == NULL || socket_link->state != SOCKET_LINK_OPEN ? 0 : socket_link->peer.process;
}

void socket_transport_move_pieces(socket_transport *transport, const void *argument, span from, span to) {
    list_for_each (at, &transport->links) {
        socket_link *link = container_of(at, struct socket_link, item);
        if (!write_queue_move(&link->out, argument, from, to) || to.size != 0 || link->state == SOCKET_LINK_GONE)
            continue;
        socket_link_end(link, MR_NOMEM, "out of memory for data queued for '%s'", link->peer.name);
    }
}

const shm_import *socket_transport_import(const socket_transport *transport, uint64_t process) {
    list_for_each (at, &transport->pipes) {
        const socket_link *link = container_of(at, struct socket_link, of_pipes);
        if (link->import.base != NULL && link->peer.process == process && link->state == SOCKET_LINK_OPEN)
            return &link->import;
    }
    return NULL;
}

socket_transport_stats socket_transport_stats_now(const socket_transport *transport) {
    socket_transport_stats stats = transport->stats;
    stats.links = (uint32_t)transport->ids.count;
    return stats;
}

/* ---- Timers and the end of an iteration. */

static void on_timer(void *context) {
    socket_transport *transport = context;
    int64_t now_us = event_loop_now_us(transport->loop);
    transport->timer_us = CLOCK_NEVER_US;
    timer_heap_item *item;
    while ((item = timer_heap_pop_due(&transport->timers, now_us)) != NULL) {
        if (item == &transport->accept_again)
            listener_resume(transport);
        else
            socket_link_timer(container_of(item, socket_link, timer), now_us);
    }
}

static void set_timer(socket_transport *transport) {
    int64_t next_us = timer_heap_next_us(&transport->timers);
    if (next_us == transport->timer_us) return;
    transport->timer_us = next_us;
    int64_t delay_us = next_us - event_loop_now_us(transport->loop);
    event_loop_timer_set(transport->timer, next_us == CLOCK_NEVER_US ? -1 : delay_us > 0 ? delay_us : 0);
}

static void on_awake(uv_idle_t *handle) {}

/* Every link is settled at most once, so that a link whose owner always has more to send does not delay others; a link
 * that becomes dirty again is settled after the next socket input. */
static void on_idle(void *context) {
    socket_transport *transport = context;
    list work;
    list_init(&work);
    bool came = false;
    list_for_each (at, &transport->pipes) came |= socket_link_io_look(container_of(at, socket_link, of_pipes));
    list *item;
    while ((item = list_pop_front(&transport->dirty)) != NULL) list_push_back(&work, item);
    while ((item = list_pop_front(&work)) != NULL) socket_link_settle(container_of(item, socket_link, dirty));
    if (came) event_loop_idle_again(transport->loop); /* other links may have bytes for this transport */
    if (list_empty(&transport->dirty))
        uv_idle_stop(transport->awake);
    else
        uv_idle_start(transport->awake, on_awake);
    set_timer(transport);
}

/* ---- Shm pipes, for a loop that is about to sleep. */

static inline bool any_pipe(const socket_transport *transport, bool (*has)(const shm_pipe *pipe)) {
    list_for_each (at, &transport->pipes)
        if (has(container_of(at, socket_link, of_pipes)->pipe)) return true;
    return false;
}

bool socket_transport_has_news(const socket_transport *transport) { return any_pipe(transport, shm_pipe_readable); }

static bool pipes_ready(void *context) { return any_pipe(context, shm_pipe_look); }

static bool pipes_arm(void *context) {
    socket_transport *transport = context;
    list_for_each (at, &transport->pipes)
        if (!shm_pipe_arm(container_of(at, socket_link, of_pipes)->pipe)) return false;
    return true;
}

static void pipes_disarm(void *context) {
    socket_transport *transport = context;
    list_for_each (at, &transport->pipes) shm_pipe_disarm(container_of(at, socket_link, of_pipes)->pipe);
}

void socket_transport_add_pipe(socket_transport *transport, list *of_pipes) {
    static const event_loop_lookout_ops ops = {pipes_ready, pipes_arm, pipes_disarm};
    if (transport->lookout == NULL) transport->lookout = event_loop_lookout_add(transport->loop, &ops, transport);
    list_push_back(&transport->pipes, of_pipes);
    transport->stats.pipes++;
}

/* ---- Creation and destruction. */

static int64_t or_else(int64_t value, int64_t other) { return value == 0 ? other : value; }

static socket_transport_options with_defaults(const socket_transport_options *given) {
    socket_transport_options options = given == NULL ? (socket_transport_options){0} : *given;
    options.name = NULL;
    options.hello_timeout_us = or_else(options.hello_timeout_us, 5000000);
    options.linger_us = or_else(options.linger_us, 2000000);
    options.heartbeat_us = or_else(options.heartbeat_us, 100000);
    if (options.heartbeat_misses == 0) options.heartbeat_misses = 20;
    if (options.send_high == 0) options.send_high = 1 << 20;
    if (options.send_low == 0 || options.send_low >= options.send_high) options.send_low = options.send_high / 4;
    if (options.body_max == 0) options.body_max = UINT64_MAX;
    if (options.strangers_max == 0) options.strangers_max = 256;
    return options;
}

mr_status socket_transport_open(event_loop *loop, const socket_transport_options *options,
                                const transport_events *events, void *context, socket_transport **out) {
    socket_transport *transport =
        XNEW(socket_transport, .loop = loop, .options = with_defaults(options), .events = events, .context = context,
             .self = {.pid = (int)getpid()}, .timer_us = CLOCK_NEVER_US);
    transport->self.process = transport->options.process;
    while (transport->self.process == 0) transport->self.process = rng_system_seed();
    if (options != NULL && options->name != NULL)
        memcpy(transport->self.name, options->name, strnlen(options->name, PEER_NAME_MAX - 1));
    list_init(&transport->links);
    list_init(&transport->strangers);
    list_init(&transport->dirty);
    list_init(&transport->pipes);
    list_init(&transport->listeners);
    transport->timer = event_loop_timer_create(loop, on_timer, transport);
    transport->idle = event_loop_idle_add(loop, on_idle, transport);
    transport->awake = xcalloc(1, sizeof *transport->awake);
    MR_ASSERT(uv_idle_init(event_loop_uv(loop), transport->awake) == 0);
    *out = transport;
    return MR_OK;
}

mr_status socket_transport_load_hmac(socket_transport *transport) {
    if (transport->options.find_token == NULL)
        return error_set(MR_INVALID, "find_token of transport %llx is NULL: it has unix: addresses only",
                         (unsigned long long)transport->self.process);
    return transport->hmac != NULL ? MR_OK : hmac_open(&transport->hmac);
}

static void free_handle(uv_handle_t *handle) { free(handle); }

void socket_transport_close(socket_transport *transport) {
    if (transport == NULL) return;
    MR_ASSERT(!transport->in_event);
    FAILPOINT("stream.shutdown");
    transport->closing = true;
    listener_remove_all(transport);
    while (!list_empty(&transport->links)) {
        socket_link *link = container_of(transport->links.next, struct socket_link, item);
        socket_link_close(link);
        socket_link_flush(link);
        socket_link_io_drain(link);
        socket_link_end(link, MR_CLOSED, "link %u was closed by this process", link->id.v);
        socket_link_settle(link);
    }
    event_loop_timer_destroy(transport->timer);
    event_loop_idle_remove(transport->idle);
    event_loop_lookout_remove(transport->lookout);
    uv_close((uv_handle_t *)transport->awake, free_handle);
    timer_heap_fini(&transport->timers);
    link_table_fini(&transport->ids);
    free(transport->spare);
    hmac_close(transport->hmac);
    free(transport);
}

mr_status socket_transport_listen(socket_transport *transport, const char *text, char actual[ADDRESS_TEXT_MAX]) {
    address address;
    MR_TRY(address_parse(text, &address));
    MR_TRY(address_check_local(&address, "listen on"));
    if (!address_is_unix(&address)) MR_TRY(socket_transport_load_hmac(transport));
    return listener_add(transport, &address, actual);
}
