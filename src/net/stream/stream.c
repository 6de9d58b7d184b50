/* stream.c — see stream.h. The transport's table, timers and the end of each iteration; links are in conn.c.
 * Tested by tests/stream_end_test.c. */
#include "net/stream/stream.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/failpoint.h"
#include "base/rng.h"
#include "net/stream/conn_io.h"
#include "net/stream/core.h"
#include "net/stream/listener.h"

/* ---- The slots. */

static conn *conn_of(void *self, link_id link) { return registry_get(&((stream *)self)->ids, link); }

static mr_status slot_open(void *self, const char *text, link_id *out) {
    stream *stream = self;
    address address;
    if (stream->closing) return error_set(MR_CLOSED, "cannot connect to '%s': this process is shutting down", text);
    MR_TRY(address_parse(text, &address));
    if (!stream->options.beyond_this_machine && !address_is_local(&address))
        return error_set(MR_DENIED, "'%s' is another machine, and tcp is not encrypted (beyond_this_machine)", text);
    return conn_connect(stream, &address, out);
}

static void slot_close(void *self, link_id link) {
    conn *conn = conn_of(self, link);
    if (conn != NULL) conn_close(conn);
}

static mr_status slot_reserve(void *self, link_id link, size_t size, uint8_t **out) {
    conn *conn = conn_of(self, link);
    if (conn == NULL) return error_set(MR_CLOSED, "link %u is closed", link.v);
    return conn_reserve(conn, size, out);
}

static void slot_commit(void *self, link_id link, size_t size) {
    conn *conn = conn_of(self, link);
    if (conn != NULL) conn_commit(conn, size);
}

static bool slot_send_now(void *self, link_id link, span head) {
    conn *conn = conn_of(self, link);
    return conn != NULL && conn_io_send(conn, head);
}

static void slot_commit_pieces(void *self, link_id link, size_t size, const span *pieces, size_t count,
                               body_sent_fn *sent, void *argument) {
    conn *conn = conn_of(self, link);
    if (conn != NULL)
        conn_commit_pieces(conn, size, pieces, count, sent, argument);
    else
        sent(argument, MR_CLOSED);
}

static void slot_commit_body(void *self, link_id link, size_t size, span body, body_sent_fn *sent, void *argument) {
    slot_commit_pieces(self, link, size, &body, 1, sent, argument);
}

static void slot_discard(void *self, link_id link) {
    conn *conn = conn_of(self, link);
    if (conn != NULL) inbox_discard(&conn->in);
}

static void slot_flush(void *self) {
    stream *stream = self;
    list_for_each (at, &stream->dirty) conn_flush(container_of(at, conn, dirty));
}

static const transport_ops stream_ops = {
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

transport stream_transport(stream *stream) { return (transport){&stream_ops, stream}; }
uint64_t stream_process(const stream *stream) { return stream->self.process; }

bool stream_is_seen(const stream *stream, link_id link) {
    const conn *conn = registry_get(&stream->ids, link);
    return conn != NULL && conn->ducted && duct_is_looked_through(conn->duct) && conn->sight.base == NULL;
}

uint64_t stream_peer(const stream *stream, link_id link) {
    const conn *conn = registry_get(&stream->ids, link);
    return conn == NULL || conn->state != CONN_OPEN ? 0 : conn->peer.process;
}

void stream_move_pieces(stream *stream, const void *argument, span from, span to) {
    list_for_each (at, &stream->conns) {
        conn *conn = container_of(at, struct conn, item);
        if (!outbox_move(&conn->out, argument, from, to) || to.size != 0 || conn->state == CONN_GONE) continue;
        conn_end(conn, MR_NOMEM, "out of memory for data queued for '%s'", conn->peer.name);
    }
}

const glass_view *stream_sight(const stream *stream, uint64_t process) {
    list_for_each (at, &stream->ducts) {
        const conn *conn = container_of(at, struct conn, of_ducts);
        if (conn->sight.base != NULL && conn->peer.process == process && conn->state == CONN_OPEN) return &conn->sight;
    }
    return NULL;
}

stream_stats stream_stats_now(const stream *stream) {
    stream_stats stats = stream->stats;
    stats.links = (uint32_t)stream->ids.count;
    return stats;
}

/* ---- Time and the end of an iteration. */

static void on_timer(void *context) {
    stream *stream = context;
    int64_t now_us = loop_now_us(stream->loop);
    stream->timer_us = CLOCK_NEVER_US;
    heap_item *item;
    while ((item = heap_pop_due(&stream->timers, now_us)) != NULL) {
        if (item == &stream->accept_again)
            listener_resume(stream);
        else
            conn_timer(container_of(item, conn, timer), now_us);
    }
}

static void set_timer(stream *stream) {
    int64_t next_us = heap_next_us(&stream->timers);
    if (next_us == stream->timer_us) return;
    stream->timer_us = next_us;
    int64_t delay_us = next_us - loop_now_us(stream->loop);
    loop_timer_set(stream->timer, next_us == CLOCK_NEVER_US ? -1 : delay_us > 0 ? delay_us : 0);
}

static void on_awake(uv_idle_t *handle) {}

/* Every conn is settled at most once, so that one whose owner always has more to say does not keep others waiting; what
 * is dirty again has its turn after the sockets had theirs. */
static void on_idle(void *context) {
    stream *stream = context;
    list work;
    list_init(&work);
    bool came = false;
    list_for_each (at, &stream->ducts) came |= conn_io_look(container_of(at, conn, of_ducts));
    list *item;
    while ((item = list_pop_front(&stream->dirty)) != NULL) list_push_back(&work, item);
    while ((item = list_pop_front(&work)) != NULL) conn_settle(container_of(item, conn, dirty));
    if (came) loop_idle_again(stream->loop); /* others may have something to say to it */
    if (list_empty(&stream->dirty))
        uv_idle_stop(stream->awake);
    else
        uv_idle_start(stream->awake, on_awake);
    set_timer(stream);
}

/* ---- Ducts, for a loop that is about to sleep. */

static inline bool any_duct(const stream *stream, bool (*has)(const duct *duct)) {
    list_for_each (at, &stream->ducts)
        if (has(container_of(at, conn, of_ducts)->duct)) return true;
    return false;
}

bool stream_has_news(const stream *stream) { return any_duct(stream, duct_readable); }

static bool ducts_ready(void *context) { return any_duct(context, duct_look); }

static bool ducts_arm(void *context) {
    stream *stream = context;
    list_for_each (at, &stream->ducts)
        if (!duct_arm(container_of(at, conn, of_ducts)->duct)) return false;
    return true;
}

static void ducts_disarm(void *context) {
    stream *stream = context;
    list_for_each (at, &stream->ducts) duct_disarm(container_of(at, conn, of_ducts)->duct);
}

void stream_add_duct(stream *stream, list *of_ducts) {
    static const loop_lookout_ops ops = {ducts_ready, ducts_arm, ducts_disarm};
    if (stream->lookout == NULL) stream->lookout = loop_lookout_add(stream->loop, &ops, stream);
    list_push_back(&stream->ducts, of_ducts);
    stream->stats.ducts++;
}

/* ---- Life. */

static int64_t or_else(int64_t value, int64_t other) { return value == 0 ? other : value; }

static stream_options with_defaults(const stream_options *given) {
    stream_options options = given == NULL ? (stream_options){0} : *given;
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

mr_status stream_open(loop *loop, const stream_options *options, const transport_events *events, void *context,
                      stream **out) {
    stream *stream = xcalloc(1, sizeof *stream);
    stream->loop = loop;
    stream->options = with_defaults(options);
    stream->events = events;
    stream->context = context;
    stream->self.pid = (int)getpid();
    stream->self.process = stream->options.process;
    while (stream->self.process == 0) stream->self.process = rng_system_seed();
    if (options != NULL && options->name != NULL)
        memcpy(stream->self.name, options->name, strnlen(options->name, PEER_NAME_MAX - 1));
    list_init(&stream->conns);
    list_init(&stream->strangers);
    list_init(&stream->dirty);
    list_init(&stream->ducts);
    list_init(&stream->listeners);
    stream->timer_us = CLOCK_NEVER_US;
    stream->timer = loop_timer_create(loop, on_timer, stream);
    stream->idle = loop_idle_add(loop, on_idle, stream);
    stream->awake = xcalloc(1, sizeof *stream->awake);
    MR_ASSERT(uv_idle_init(loop_uv(loop), stream->awake) == 0);
    *out = stream;
    return MR_OK;
}

static void free_handle(uv_handle_t *handle) { free(handle); }

void stream_close(stream *stream) {
    if (stream == NULL) return;
    MR_ASSERT(!stream->in_event);
    FAILPOINT("stream.shutdown");
    stream->closing = true;
    listener_remove_all(stream);
    while (!list_empty(&stream->conns)) {
        conn *conn = container_of(stream->conns.next, struct conn, item);
        conn_close(conn);
        conn_flush(conn);
        conn_io_drain(conn);
        conn_end(conn, MR_CLOSED, "link %u was closed by this process", conn->id.v);
        conn_settle(conn);
    }
    loop_timer_destroy(stream->timer);
    loop_idle_remove(stream->idle);
    loop_lookout_remove(stream->lookout);
    uv_close((uv_handle_t *)stream->awake, free_handle);
    heap_fini(&stream->timers);
    registry_fini(&stream->ids);
    free(stream->spare);
    free(stream);
}

mr_status stream_listen(stream *stream, const char *text, char actual[ADDRESS_TEXT_MAX]) {
    address address;
    MR_TRY(address_parse(text, &address));
    if (!stream->options.beyond_this_machine && !address_is_local(&address))
        return error_set(MR_DENIED,
                         "cannot listen on '%s': other machines could connect, and tcp is not encrypted; "
                         "beyond_this_machine allows it",
                         text);
    return listener_add(stream, &address, actual);
}
