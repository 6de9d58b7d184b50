/* conn.c — see conn.h. How a link begins, what it says, how it ends; its socket is driven by conn_io.c.
 * Tested by tests/stream_link_test.c. */
#include "net/stream/conn.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/failpoint.h"
#include "net/stream/conn_io.h"
#include "net/stream/greeting.h"
#include "net/stream/listener.h"

enum { CONNECT_AGAIN_US = 1000 }; /* pause while the other side accepts slowly */

void conn_mark_dirty(conn *conn) {
    if (list_empty(&conn->dirty)) list_push_back(&conn->stream->dirty, &conn->dirty);
}

/* ---- Beginnings. */

static conn *create(stream *stream, int fd, const address *address, conn_state state) {
    static const frame_limits stranger_limits = {.head_max = GREETING_BYE_MAX, .body_max = 0};
    _Static_assert(FRAME_HEADER_SIZE + GREETING_BYE_MAX <= CORE_STRANGER_SIZE - INBOX_SLACK, "the first frame fits");
    conn *conn = xcalloc(1, sizeof *conn);
    conn->stream = stream;
    conn->state = state;
    conn->fd = fd;
    conn->address = *address;
    conn->since_us = loop_now_us(stream->loop);
    conn->deadline_us = clock_deadline_us(conn->since_us, stream->options.hello_timeout_us);
    inbox_init(&conn->in, &stranger_limits);
    inbox_give(&conn->in, xmalloc(CORE_STRANGER_SIZE), CORE_STRANGER_SIZE);
    list_init(&conn->stranger);
    list_init(&conn->dirty);
    list_init(&conn->of_ducts);
    list_push_back(&stream->conns, &conn->item);
    heap_add(&stream->timers, &conn->timer, conn->deadline_us);
    return conn;
}

void conn_accept(stream *stream, int fd, const address *address) {
    conn *conn = create(stream, fd, address, CONN_GREETING);
    list_push_back(&stream->strangers, &conn->stranger);
    stream->stats.strangers++;
    stream->stats.accepted++;
    mr_status status = socket_peer(fd, address, &conn->peer.pid);
    if (status == MR_OK) status = conn_io_start(conn);
    if (status != MR_OK) conn_end(conn, status, "%s", mr_last_error());
}

static void stranger_leaves(conn *conn) {
    if (list_empty(&conn->stranger)) return;
    list_remove(&conn->stranger);
    stream *stream = conn->stream;
    stream->stats.strangers--;
    if (heap_holds(&stream->accept_again)) listener_resume(stream);
}

static mr_status append_frame(conn *conn, frame_kind kind, span head) {
    uint8_t *place;
    MR_TRY(outbox_reserve(&conn->out, FRAME_HEADER_SIZE + head.size, &place));
    if (head.size > 0) memcpy(place + FRAME_HEADER_SIZE, head.data, head.size);
    frame_encode_header(place, &(frame){.kind = kind, .head = head});
    outbox_commit(&conn->out, FRAME_HEADER_SIZE + head.size);
    conn_mark_dirty(conn);
    return MR_OK;
}

static mr_status say_hello(conn *conn) {
    uint8_t head[GREETING_HELLO_MAX];
    MR_TRY(append_frame(conn, FRAME_HELLO, span_of(head, greeting_hello_encode(head, &conn->stream->self))));
    conn_io_write(conn);
    FAILPOINT("stream.hello.sent");
    return MR_OK;
}

/* ---- Ducts. Where there can be none the socket does. */

static void offer_duct(conn *conn) {
    const stream_options *options = &conn->stream->options;
    if (!options->shares || !address_is_unix(&conn->address)) return;
    if (duct_create(&conn->duct, &conn->passed[0]) != MR_OK) {
        conn->duct = NULL;
        return;
    }
    conn->passed_count = 1;
    int fd = options->glass == NULL ? -1 : fcntl(glass_fd(options->glass), F_DUPFD_CLOEXEC, 0);
    if (fd >= 0) conn->passed[conn->passed_count++] = fd;
}

static void take_duct(conn *conn) {
    bool looks = conn->passed_count == SOCKET_FDS_MAX && glass_look(conn->passed[1], &conn->sight) == MR_OK;
    if (conn->passed_count == 0 || duct_join(conn->passed[0], looks, &conn->duct) != MR_OK) conn->duct = NULL;
    conn_io_drop_passed(conn);
}

static void drop_duct(conn *conn) {
    if (conn->ducted) conn->stream->stats.ducts--;
    conn->ducted = false;
    conn->stream->stats.annexes -= conn->annexes;
    conn->annexes = 0;
    list_remove(&conn->of_ducts);
    duct_close(conn->duct);
    conn->duct = NULL;
    glass_look_away(&conn->sight);
    conn_io_drop_passed(conn);
}

/* Both have said HELLO, over the socket: what comes now goes through the duct, if the other side took it. */
static mr_status use_duct(conn *conn) {
    if (conn->duct == NULL || !duct_is_joined(conn->duct)) {
        drop_duct(conn);
        return MR_OK;
    }
    if (outbox_pending(&conn->out) != 0) return error_set(MR_IO, "the socket did not take a HELLO");
    conn->ducted = true;
    stream_add_duct(conn->stream, &conn->of_ducts);
    return MR_OK;
}

static void connect_failed(conn *conn, int error) {
    char text[ADDRESS_TEXT_MAX];
    address_format(&conn->address, text);
    bool nobody = error == ECONNREFUSED || error == ENOENT;
    mr_status status = nobody ? MR_NOT_FOUND : error == EACCES || error == EPERM ? MR_DENIED : MR_IO;
    conn_end(conn, status, "cannot connect to %s: %s", text, strerror(error));
}

static void connected(conn *conn) {
    FAILPOINT("stream.connected");
    conn->state = CONN_GREETING;
    heap_add(&conn->stream->timers, &conn->timer, conn->deadline_us);
    int pid;
    mr_status status = socket_peer(conn->fd, &conn->address, &pid);
    offer_duct(conn);
    if (status == MR_OK) status = say_hello(conn);
    if (status != MR_OK) conn_end(conn, status, "%s", mr_last_error());
}

static void try_connect(conn *conn, int64_t now_us) {
    int error = socket_connect(conn->fd, &conn->address);
    if (FAILPOINT_ERROR("stream.connect")) error = ECONNREFUSED;
    if (error == EAGAIN) {
        int64_t again_us = now_us + CONNECT_AGAIN_US;
        heap_add(&conn->stream->timers, &conn->timer, again_us < conn->deadline_us ? again_us : conn->deadline_us);
        return;
    }
    if (error != 0 && error != EINPROGRESS) {
        connect_failed(conn, error);
        return;
    }
    mr_status status = conn_io_start(conn);
    if (status != MR_OK)
        conn_end(conn, status, "%s", mr_last_error());
    else if (error == 0)
        connected(conn);
}

/* The socket is writable: connect(2) has come to an end. */
void conn_connect_done(conn *conn) {
    int error = socket_error(conn->fd);
    if (error == 0)
        connected(conn);
    else
        connect_failed(conn, error);
}

mr_status conn_connect(stream *stream, const address *address, link_id *out) {
    int fd = -1;
    MR_TRY(socket_create(address, &fd));
    FAILPOINT("stream.socket");
    conn *conn = create(stream, fd, address, CONN_CONNECTING);
    mr_status status = registry_add(&stream->ids, conn, &conn->id);
    if (status != MR_OK) {
        conn_end(conn, status, "%s", mr_last_error());
        return status;
    }
    *out = conn->id;
    try_connect(conn, conn->since_us);
    return MR_OK;
}

/* ---- What the other side says. */

/* The pid is worth something only here: on another machine it names another process or none. */
static void meet(conn *conn, const peer *peer) {
    int checked_pid = conn->peer.pid;
    conn->peer = *peer;
    if (checked_pid != 0) conn->peer.pid = checked_pid;
    if (!address_is_local(&conn->address)) conn->peer.pid = 0;
}

static mr_status take_hello(conn *conn, span head) {
    FAILPOINT("stream.hello.received");
    stream *stream = conn->stream;
    peer peer;
    MR_TRY(greeting_hello_decode(head, &peer));
    meet(conn, &peer);
    if (conn->id.v == 0) {
        stranger_leaves(conn);
        take_duct(conn);
        MR_TRY(say_hello(conn));
        MR_TRY(registry_add(&stream->ids, conn, &conn->id));
    }
    MR_TRY(use_duct(conn));
    conn->state = CONN_OPEN;
    conn->in.limits =
        (frame_limits){.head_max = MESSAGE_HEAD_MAX, .body_max = stream->options.body_max, .plain = conn->ducted};
    heartbeat_init(&conn->beat, stream->options.heartbeat_us, stream->options.heartbeat_misses,
                   loop_now_us(stream->loop));
    heap_add(&stream->timers, &conn->timer, heartbeat_next_us(&conn->beat));
    FAILPOINT("stream.open");
    stream->events->on_open(stream->context, conn->id, &conn->peer);
    return MR_OK;
}

static mr_status take_bye(conn *conn, span head) {
    FAILPOINT("stream.bye.received");
    cause why;
    MR_TRY(greeting_bye_decode(head, &why));
    conn_end(conn, why.status, "%s", why.text);
    return MR_OK;
}

mr_status conn_place_body(conn *conn, const frame *frame) {
    stream *stream = conn->stream;
    void *place = stream->events->on_body(stream->context, conn->id, frame->head, frame->body_size);
    if (conn->state != CONN_OPEN) return MR_OK;
    if (place == NULL)
        return error_set(MR_TOO_LARGE, "a body of %llu bytes, which was refused", (unsigned long long)frame->body_size);
    FAILPOINT("stream.body.begins");
    inbox_body(&conn->in, place == BODY_DISCARD ? NULL : place);
    return MR_OK;
}

mr_status conn_take(conn *conn, const frame *frame) {
    bool open = conn->state == CONN_OPEN;
    if (open && __builtin_expect(frame->kind == FRAME_MESSAGE, 1)) {
        FAILPOINT("stream.message");
        message message = {.head = frame->head, .body = inbox_frame_body(&conn->in)};
        conn->stream->events->on_message(conn->stream->context, conn->id, &message);
        return MR_OK;
    }
    switch (frame->kind) {
    case FRAME_HELLO:
        if (!open) return take_hello(conn, frame->head);
        break;
    case FRAME_PING:
        if (open) {
            FAILPOINT("stream.ping.received");
            conn->pong_owed = true;
            conn_mark_dirty(conn);
            return MR_OK;
        }
        break;
    case FRAME_PONG:
        if (open) return MR_OK;
        break;
    case FRAME_BYE: return take_bye(conn, frame->head);
    case FRAME_MESSAGE: break;
    }
    return error_set(MR_CORRUPT, "a %s frame %s HELLO", frame_kind_name(frame->kind), open ? "after" : "before");
}

/* ---- Sending. */

mr_status conn_reserve(conn *conn, size_t size, uint8_t **out) {
    if (conn->state != CONN_OPEN)
        return error_set(MR_CLOSED, "link %u is %s", conn->id.v, conn->state < CONN_OPEN ? "still opening" : "closed");
    if (size > MESSAGE_HEAD_MAX)
        return error_set(MR_TOO_LARGE, "a message head of %zu bytes: the limit is %d", size, MESSAGE_HEAD_MAX);
    if (outbox_pending(&conn->out) >= conn->stream->options.send_high) {
        conn->room_owed = true;
        return MR_BUSY;
    }
    uint8_t *place;
    MR_TRY(outbox_reserve(&conn->out, FRAME_HEADER_SIZE + size, &place));
    *out = place + FRAME_HEADER_SIZE;
    return MR_OK;
}

static uint64_t checksum_of(const span *pieces, size_t count) {
    frame_body_sum sum;
    frame_body_sum_init(&sum);
    for (size_t i = 0; i < count; i++) frame_body_sum_add(&sum, pieces[i]);
    return frame_body_sum_get(&sum);
}

/* Writes the header in front of what was reserved last. */
static void encode(conn *conn, size_t size, const span *pieces, size_t count) {
    uint8_t *place = conn->out.data + conn->out.end;
    frame frame = {.kind = FRAME_MESSAGE,
                   .flags = conn->ducted ? FRAME_PLAIN : 0,
                   .head = span_of(place + FRAME_HEADER_SIZE, size)};
    for (size_t i = 0; i < count; i++) frame.body_size += pieces[i].size;
    if (frame.body_size > 0 && conn->stream->options.check_bodies) {
        frame.flags |= FRAME_BODY_CHECKED;
        frame.body_checksum = checksum_of(pieces, count);
    }
    frame_encode_header(place, &frame);
}

static void committed(conn *conn) {
    conn_mark_dirty(conn);
    if (outbox_pending(&conn->out) >= CORE_FLUSH_SIZE) conn_flush(conn);
}

void conn_commit(conn *conn, size_t size) {
    if (conn->state != CONN_OPEN) return;
    encode(conn, size, NULL, 0);
    outbox_commit(&conn->out, FRAME_HEADER_SIZE + size);
    committed(conn);
}

/* A small piece travels inside the outbox, unless there is no memory for that. */
static bool copy_piece(outbox *out, span piece) {
    uint8_t *place;
    if (piece.size == 0) return true;
    if (piece.size > CORE_BODY_COPIED_MAX || outbox_reserve(out, piece.size, &place) != MR_OK) return false;
    memcpy(place, piece.data, piece.size);
    outbox_commit(out, piece.size);
    return true;
}

/* The last piece that is lent says when all have left: of what was copied nothing is needed. */
void conn_commit_pieces(conn *conn, size_t size, const span *pieces, size_t count, body_sent_fn *sent, void *argument) {
    outbox *out = &conn->out;
    bool lent = false;
    mr_status status = conn->state == CONN_OPEN ? outbox_reserve_bodies(out, count) : MR_CLOSED;
    if (status != MR_OK) {
        sent(argument, status);
        return;
    }
    encode(conn, size, pieces, count);
    outbox_commit(out, FRAME_HEADER_SIZE + size);
    for (size_t i = 0; i < count; i++) {
        if (copy_piece(out, pieces[i])) continue;
        outbox_add_body(out, pieces[i]);
        lent = true;
    }
    if (lent) outbox_when_sent(out, sent, argument);
    committed(conn);
    if (!lent) sent(argument, MR_OK);
}

void conn_flush(conn *conn) {
    if (conn->state == CONN_OPEN || conn->state == CONN_CLOSING) conn_io_write(conn);
}

/* ---- Time. */

static void tick(conn *conn, int64_t now_us) {
    conn_io_use_room(conn);
    if (conn->annexes != 0 && now_us - conn->grown_us >= CORE_ANNEX_REST_US) duct_rest(conn->duct);
    switch (heartbeat_tick(&conn->beat, now_us)) {
    case HEARTBEAT_NOTHING: break;
    case HEARTBEAT_PING:
        FAILPOINT("stream.ping");
        outbox_trim(&conn->out);
        conn->ping_owed = true;
        conn_mark_dirty(conn);
        break;
    case HEARTBEAT_DEAD:
        if (conn_io_has_input(conn)) break; /* it spoke, and we did not listen */
        conn_end(conn, MR_TIMEOUT, "lost '%s': no heartbeat for %lld ms", conn->peer.name,
                 (long long)(heartbeat_silence_us(&conn->beat, now_us) / 1000));
        return;
    }
    heap_add(&conn->stream->timers, &conn->timer, heartbeat_next_us(&conn->beat));
}

static void out_of_time(conn *conn) {
    char text[ADDRESS_TEXT_MAX];
    address_format(&conn->address, text);
    if (conn->state == CONN_CLOSING)
        conn_end(conn, MR_CLOSED, "closed by this process; %zu bytes were not sent in time",
                 outbox_pending(&conn->out));
    else
        conn_end(conn, MR_TIMEOUT, "no %s at %s within %lld ms", conn->state == CONN_GREETING ? "HELLO" : "connection",
                 text, (long long)(conn->stream->options.hello_timeout_us / 1000));
}

void conn_timer(conn *conn, int64_t now_us) {
    if (conn->state == CONN_OPEN)
        tick(conn, now_us);
    else if (now_us >= conn->deadline_us)
        out_of_time(conn);
    else if (conn->state == CONN_CONNECTING)
        try_connect(conn, now_us);
}

/* ---- Ends. */

void conn_close(conn *conn) {
    if (conn->state == CONN_CLOSING || conn->state == CONN_GONE) return;
    FAILPOINT("stream.close");
    if (conn->state != CONN_OPEN || append_frame(conn, FRAME_BYE, (span){0}) != MR_OK) {
        conn_end(conn, MR_CLOSED, "link %u was closed by this process", conn->id.v);
        return;
    }
    stream *stream = conn->stream;
    conn->state = CONN_CLOSING;
    conn->deadline_us = clock_deadline_us(loop_now_us(stream->loop), stream->options.linger_us);
    heap_add(&stream->timers, &conn->timer, conn->deadline_us);
}

/* Tells the other side why we hang up on it, if the stream is at the start of a frame and takes it at once. */
static void say_why(conn *conn) {
    bool its_fault = conn->why.status == MR_CORRUPT || conn->why.status == MR_TOO_LARGE ||
                     conn->why.status == MR_DENIED || conn->why.status == MR_NOMEM;
    if (!its_fault || outbox_pending(&conn->out) != 0 || conn->state == CONN_CONNECTING) return;
    uint8_t head[GREETING_BYE_MAX];
    size_t size = greeting_bye_encode(head, conn->why.status, conn->why.text);
    if (append_frame(conn, FRAME_BYE, span_of(head, size)) == MR_OK) conn_io_write(conn);
}

void conn_end(conn *conn, mr_status status, const char *format, ...) {
    if (conn->state == CONN_GONE) return;
    va_list arguments;
    va_start(arguments, format);
    cause_set_list(&conn->why, status, format, arguments);
    va_end(arguments);
    conn->why.pid = conn->peer.pid;
    say_why(conn);
    FAILPOINT("stream.end");
    conn->state = CONN_GONE;
    if (!list_empty(&conn->stranger)) conn->stream->stats.refused++;
    stranger_leaves(conn);
    heap_remove(&conn->stream->timers, &conn->timer);
    conn_io_stop(conn);
    conn_mark_dirty(conn);
}

static void tell_sent(conn *conn, bool all, mr_status status) {
    body_sent_fn *sent;
    void *argument;
    while (outbox_take(&conn->out, all, &sent, &argument)) sent(argument, status);
}

static void free_conn(uv_handle_t *handle) { free(handle); }

static void finish(conn *conn) {
    stream *stream = conn->stream;
    stream->in_event = true;
    tell_sent(conn, true, conn->why.status);
    if (conn->id.v != 0) {
        stream->events->on_closed(stream->context, conn->id, &conn->why);
        registry_remove(&stream->ids, conn->id);
    }
    stream->in_event = false;
    FAILPOINT("stream.closed");
    list_remove(&conn->item);
    list_remove(&conn->dirty);
    drop_duct(conn);
    outbox_fini(&conn->out);
    inbox_fini(&conn->in);
    if (conn->poll_open)
        uv_close((uv_handle_t *)&conn->poll, free_conn);
    else
        free(conn);
}

/* Pings and answers go out when nothing else waits. Behind bytes that do not leave they would tell nothing, and that
 * the bytes leave is a sign of life itself. */
static void say_alive(conn *conn) {
    uint8_t frames[2 * FRAME_HEADER_SIZE];
    size_t size = 0;
    _Static_assert(sizeof frames <= OUTBOX_INTERJECTION_MAX, "both fit");
    if (conn->ping_owed) frame_encode_header(frames, &(frame){.kind = FRAME_PING}), size += FRAME_HEADER_SIZE;
    if (conn->pong_owed) frame_encode_header(frames + size, &(frame){.kind = FRAME_PONG}), size += FRAME_HEADER_SIZE;
    if (!outbox_interject(&conn->out, frames, size)) return;
    FAILPOINT("stream.alive");
    conn->ping_owed = conn->pong_owed = false;
    conn_flush(conn);
}

void conn_settle(conn *conn) {
    if (conn->state != CONN_GONE) {
        stream *stream = conn->stream;
        conn_flush(conn);
        if (conn->state == CONN_OPEN && (conn->ping_owed || conn->pong_owed)) say_alive(conn);
        stream->in_event = true;
        if (conn->write_error != 0) conn_io_read_rest(conn);
        tell_sent(conn, false, MR_OK);
        if (conn->state == CONN_OPEN && conn->room_owed && outbox_pending(&conn->out) <= stream->options.send_low) {
            conn->room_owed = false;
            stream->events->on_room(stream->context, conn->id);
        }
        stream->in_event = false;
    }
    if (conn->state == CONN_GONE) finish(conn);
}
