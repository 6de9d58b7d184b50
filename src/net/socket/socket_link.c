/* socket_link.c — see socket_link.h. Opening, messages and end of a link;
 * socket_link_io.c reads and writes its socket. Tested by tests/socket_links_test.c. */
#include "net/socket/socket_link.h"

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
#include "base/rng.h"
#include "net/socket/listener.h"
#include "net/socket/socket_link_io.h"

enum { CONNECT_AGAIN_US = 1000 }; /* pause while the other side's backlog is full */

void socket_link_mark_dirty(socket_link *link) {
    if (list_empty(&link->dirty)) list_push_back(&link->transport->dirty, &link->dirty);
}

/* ---- Opening. */

static socket_link *create(socket_transport *transport, int fd, const address *address, socket_link_state state) {
    static const frame_limits stranger_limits = {.head_max = HANDSHAKE_BYE_MAX, .body_max = 0};
    _Static_assert(FRAME_HEADER_SIZE + HANDSHAKE_BYE_MAX <= SOCKET_STRANGER_SIZE - FRAME_READER_SLACK,
                   "the first frame fits");
    socket_link *link = XNEW(socket_link, .transport = transport, .state = state, .fd = fd, .address = *address);
    link->since_us = event_loop_now_us(transport->loop);
    link->deadline_us = clock_deadline_us(link->since_us, transport->options.hello_timeout_us);
    frame_reader_init(&link->in, &stranger_limits);
    frame_reader_give(&link->in, xmalloc(SOCKET_STRANGER_SIZE), SOCKET_STRANGER_SIZE);
    list_init(&link->stranger);
    list_init(&link->dirty);
    list_init(&link->of_pipes);
    list_push_back(&transport->links, &link->item);
    timer_heap_add(&transport->timers, &link->timer, link->deadline_us);
    return link;
}

void socket_link_accept(socket_transport *transport, int fd, const address *address) {
    socket_link *link = create(transport, fd, address, SOCKET_LINK_HANDSHAKE);
    list_push_back(&transport->strangers, &link->stranger);
    transport->stats.strangers++;
    transport->stats.accepted++;
    mr_status status = socket_peer(fd, address, &link->peer.pid);
    if (status == MR_OK) status = socket_link_io_start(link);
    if (status != MR_OK) socket_link_end(link, status, "%s", mr_last_error());
}

static void stranger_leaves(socket_link *link) {
    if (list_empty(&link->stranger)) return;
    list_remove(&link->stranger);
    socket_transport *transport = link->transport;
    transport->stats.strangers--;
    if (timer_heap_holds(&transport->accept_again)) listener_resume(transport);
}

static mr_status append_frame(socket_link *link, frame_kind kind, span head) {
    uint8_t *place;
    MR_TRY(write_queue_reserve(&link->out, FRAME_HEADER_SIZE + head.size, &place));
    if (head.size > 0) memcpy(place + FRAME_HEADER_SIZE, head.data, head.size);
    frame_encode_header(place, &(frame){.kind = kind, .head = head});
    write_queue_commit(&link->out, FRAME_HEADER_SIZE + head.size);
    socket_link_mark_dirty(link);
    return MR_OK;
}

static mr_status say_hello(socket_link *link) {
    MR_TRY(append_frame(link, FRAME_HELLO, handshake_own_hello(link->handshake)));
    socket_link_io_write(link);
    FAILPOINT("stream.hello.sent");
    return MR_OK;
}

/* ---- The handshake. */

/* The token of a tcp link, and the functions that prove it. */
static mr_status find_token(socket_transport *transport, token *out) {
    const socket_transport_options *options = &transport->options;
    MR_TRY(socket_transport_load_hmac(transport));
    return options->find_token(options->find_token_context, out);
}

static mr_status begin_handshake(socket_link *link, handshake_side side) {
    socket_transport *transport = link->transport;
    handshake_hello own = {.peer = transport->self};
    bool proves = !address_is_unix(&link->address);
    token token = {0};
    if (proves) MR_TRY(rng_system_fill(own.nonce, sizeof own.nonce));
    if (proves) MR_TRY(find_token(transport, &token));
    link->handshake = xmalloc(sizeof *link->handshake);
    handshake_init(link->handshake, side, &own, proves ? transport->hmac : NULL, &token, &link->address);
    explicit_bzero(&token, sizeof token);
    return MR_OK;
}

static void end_handshake(socket_link *link) {
    if (link->handshake == NULL) return;
    handshake_fini(link->handshake);
    free(link->handshake);
    link->handshake = NULL;
}

/* ---- Shm pipes. Without one the link uses the socket. */

static void offer_pipe(socket_link *link) {
    const socket_transport_options *options = &link->transport->options;
    if (!options->shares || !address_is_unix(&link->address)) return;
    if (shm_pipe_create(&link->pipe, &link->passed[0]) != MR_OK) return;
    link->passed_count = 1;
    int fd = options->export == NULL ? -1 : fcntl(shm_export_fd(options->export), F_DUPFD_CLOEXEC, 0);
    if (fd >= 0) link->passed[link->passed_count++] = fd;
}

static void take_pipe(socket_link *link) {
    bool looks = link->passed_count == SOCKET_FDS_MAX && shm_import_open(link->passed[1], &link->import) == MR_OK;
    if (link->passed_count != 0) (void)!shm_pipe_join(link->passed[0], looks, &link->pipe);
    socket_link_io_drop_passed(link);
}

static void drop_pipe(socket_link *link) {
    if (link->piped) link->transport->stats.pipes--;
    link->piped = false;
    link->transport->stats.large_rings -= link->large_rings;
    link->large_rings = 0;
    list_remove(&link->of_pipes);
    shm_pipe_close(link->pipe);
    link->pipe = NULL;
    shm_import_close(&link->import);
    socket_link_io_drop_passed(link);
}

/* Both sides have sent HELLO over the socket: later bytes go through the shm pipe, if the other side has joined it. */
static mr_status use_pipe(socket_link *link) {
    if (link->pipe == NULL || !shm_pipe_is_joined(link->pipe)) {
        drop_pipe(link);
        return MR_OK;
    }
    if (write_queue_pending(&link->out) != 0) return error_set(MR_IO, "the socket did not take a HELLO");
    link->piped = true;
    socket_transport_add_pipe(link->transport, &link->of_pipes);
    return MR_OK;
}

static void connect_failed(socket_link *link, int error) {
    char text[ADDRESS_TEXT_MAX];
    address_format(&link->address, text);
    bool nobody = error == ECONNREFUSED || error == ENOENT;
    mr_status status = nobody ? MR_NOT_FOUND : error == EACCES || error == EPERM ? MR_DENIED : MR_IO;
    socket_link_end(link, status, "cannot connect to %s: %s", text, strerror(error));
}

static void connected(socket_link *link) {
    FAILPOINT("stream.connected");
    link->state = SOCKET_LINK_HANDSHAKE;
    timer_heap_add(&link->transport->timers, &link->timer, link->deadline_us);
    int pid;
    mr_status status = socket_peer(link->fd, &link->address, &pid);
    offer_pipe(link);
    if (status == MR_OK) status = say_hello(link);
    if (status != MR_OK) socket_link_end(link, status, "%s", mr_last_error());
}

static void try_connect(socket_link *link, int64_t now_us) {
    int error = socket_connect(link->fd, &link->address);
    if (FAILPOINT_ERROR("stream.connect")) error = ECONNREFUSED;
    if (error == EAGAIN) {
        timer_heap_add(&link->transport->timers, &link->timer,
                       clock_earlier_us(now_us + CONNECT_AGAIN_US, link->deadline_us));
        return;
    }
    if (error != 0 && error != EINPROGRESS) {
        connect_failed(link, error);
        return;
    }
    mr_status status = socket_link_io_start(link);
    if (status != MR_OK)
        socket_link_end(link, status, "%s", mr_last_error());
    else if (error == 0)
        connected(link);
}

/* The socket is writable: connect(2) has completed. */
void socket_link_connect_done(socket_link *link) {
    int error = socket_error(link->fd);
    if (error == 0)
        connected(link);
    else
        connect_failed(link, error);
}

mr_status socket_link_connect(socket_transport *transport, const address *address, link_id *out) {
    int fd = -1;
    MR_TRY(socket_create(address, &fd));
    FAILPOINT("stream.socket");
    socket_link *link = create(transport, fd, address, SOCKET_LINK_CONNECTING);
    mr_status status = begin_handshake(link, HANDSHAKE_INITIATOR);
    if (status == MR_OK) status = link_table_add(&transport->ids, link, &link->id);
    if (status != MR_OK) {
        socket_link_end(link, status, "%s", mr_last_error());
        return status;
    }
    *out = link->id;
    try_connect(link, link->since_us);
    return MR_OK;
}

/* ---- Received frames. */

/* The pid is kept only for peers of this machine; elsewhere it means another process or none. */
static void meet(socket_link *link, const peer *peer) {
    int checked_pid = link->peer.pid;
    link->peer = *peer;
    if (checked_pid != 0) link->peer.pid = checked_pid;
    if (!address_is_local(&link->address)) link->peer.pid = 0;
}

static mr_status opened(socket_link *link) {
    socket_transport *transport = link->transport;
    end_handshake(link);
    MR_TRY(use_pipe(link));
    link->state = SOCKET_LINK_OPEN;
    link->in.limits =
        (frame_limits){.head_max = MESSAGE_HEAD_MAX, .body_max = transport->options.body_max, .plain = link->piped};
    heartbeat_init(&link->beat, transport->options.heartbeat_us, transport->options.heartbeat_misses,
                   event_loop_now_us(transport->loop));
    timer_heap_add(&transport->timers, &link->timer, heartbeat_next_us(&link->beat));
    FAILPOINT("stream.open");
    transport->events->on_open(transport->context, link->id, &link->peer);
    return MR_OK;
}

/* A stranger is not told where this process looks for a token. */
static mr_status begin_answer(socket_link *link) {
    if (begin_handshake(link, HANDSHAKE_ACCEPTOR) == MR_OK) return MR_OK;
    return error_set(MR_DENIED, "the accepting process has no token (%s) of its deployment yet", TOKEN_VARIABLE);
}

static mr_status take_handshake(socket_link *link, const frame *frame) {
    FAILPOINT("stream.hello.received");
    handshake_answer answer;
    bool accepts = link->id.v == 0;
    if (link->handshake == NULL) MR_TRY(begin_answer(link));
    MR_TRY(handshake_take(link->handshake, frame->kind, frame->head, &answer));
    bool open = link->handshake->state == HANDSHAKE_OPEN;
    if (open) meet(link, &link->handshake->peer);
    if (open && accepts) {
        stranger_leaves(link);
        take_pipe(link);
    }
    if (answer.hello) MR_TRY(say_hello(link));
    if (answer.proof) {
        MR_TRY(append_frame(link, FRAME_PROOF, span_of(answer.bytes, sizeof answer.bytes)));
        socket_link_io_write(link);
        FAILPOINT("stream.proof.sent");
    }
    if (!open) return MR_OK;
    if (accepts) MR_TRY(link_table_add(&link->transport->ids, link, &link->id));
    return opened(link);
}

static mr_status take_bye(socket_link *link, span head) {
    FAILPOINT("stream.bye.received");
    cause why;
    MR_TRY(handshake_bye_decode(head, &why));
    socket_link_end(link, why.status, "%s", why.text);
    return MR_OK;
}

mr_status socket_link_place_body(socket_link *link, const frame *frame) {
    socket_transport *transport = link->transport;
    void *place = transport->events->on_body(transport->context, link->id, frame->head, frame->body_size);
    if (link->state != SOCKET_LINK_OPEN) return MR_OK;
    if (place == NULL)
        return error_set(MR_TOO_LARGE, "a body of %llu bytes, which was refused", (unsigned long long)frame->body_size);
    FAILPOINT("stream.body.begins");
    frame_reader_body(&link->in, place == BODY_DISCARD ? NULL : place);
    return MR_OK;
}

mr_status socket_link_take(socket_link *link, const frame *frame) {
    bool open = link->state == SOCKET_LINK_OPEN;
    if (open && __builtin_expect(frame->kind == FRAME_MESSAGE, 1)) {
        FAILPOINT("stream.message");
        message message = {.head = frame->head, .body = frame_reader_frame_body(&link->in)};
        link->transport->events->on_message(link->transport->context, link->id, &message);
        return MR_OK;
    }
    if (frame->kind == FRAME_BYE) return take_bye(link, frame->head);
    if (!open) return take_handshake(link, frame);
    if (frame->kind == FRAME_PONG) return MR_OK;
    if (frame->kind == FRAME_PING) {
        FAILPOINT("stream.ping.received");
        link->pong_owed = true;
        socket_link_mark_dirty(link);
        return MR_OK;
    }
    return error_set(MR_CORRUPT, "a %s frame after the handshake", frame_kind_name(frame->kind));
}

/* ---- Sending. */

mr_status socket_link_reserve(socket_link *link, size_t size, uint8_t **out) {
    if (link->state != SOCKET_LINK_OPEN)
        return error_set(MR_CLOSED, "link %u is %s", link->id.v,
                         link->state < SOCKET_LINK_OPEN ? "still opening" : "closed");
    if (size > MESSAGE_HEAD_MAX)
        return error_set(MR_TOO_LARGE, "a message head of %zu bytes: the limit is %d", size, MESSAGE_HEAD_MAX);
    if (write_queue_pending(&link->out) >= link->transport->options.send_high) {
        link->room_owed = true;
        return MR_BUSY;
    }
    uint8_t *place;
    MR_TRY(write_queue_reserve(&link->out, FRAME_HEADER_SIZE + size, &place));
    *out = place + FRAME_HEADER_SIZE;
    return MR_OK;
}

static uint64_t checksum_of(const span *pieces, size_t count) {
    frame_body_sum sum;
    frame_body_sum_init(&sum);
    for (size_t i = 0; i < count; i++) frame_body_sum_add(&sum, pieces[i]);
    return frame_body_sum_get(&sum);
}

/* Writes the header before the last reserved bytes. */
static void encode(socket_link *link, size_t size, const span *pieces, size_t count) {
    uint8_t *place = link->out.data + link->out.end;
    frame frame = {.kind = FRAME_MESSAGE,
                   .flags = link->piped ? FRAME_PLAIN : 0,
                   .head = span_of(place + FRAME_HEADER_SIZE, size)};
    for (size_t i = 0; i < count; i++) frame.body_size += pieces[i].size;
    if (frame.body_size > 0 && link->transport->options.check_bodies) {
        frame.flags |= FRAME_BODY_CHECKED;
        frame.body_checksum = checksum_of(pieces, count);
    }
    frame_encode_header(place, &frame);
}

static void committed(socket_link *link) {
    socket_link_mark_dirty(link);
    if (write_queue_pending(&link->out) >= SOCKET_FLUSH_SIZE) socket_link_flush(link);
}

void socket_link_commit(socket_link *link, size_t size) {
    if (link->state != SOCKET_LINK_OPEN) return;
    encode(link, size, NULL, 0);
    write_queue_commit(&link->out, FRAME_HEADER_SIZE + size);
    committed(link);
}

/* Copies a small part into the write queue, unless memory is missing. */
static bool copy_piece(write_queue *out, span piece) {
    uint8_t *place;
    if (piece.size == 0) return true;
    if (piece.size > SOCKET_BODY_COPIED_MAX || write_queue_reserve(out, piece.size, &place) != MR_OK) return false;
    memcpy(place, piece.data, piece.size);
    write_queue_commit(out, piece.size);
    return true;
}

/* The callback of the last borrowed part reports all parts: copied parts need no report. */
void socket_link_commit_pieces(socket_link *link, size_t size, const span *pieces, size_t count, body_sent_fn *sent,
                               void *argument) {
    write_queue *out = &link->out;
    bool exported = false;
    mr_status status = link->state == SOCKET_LINK_OPEN ? write_queue_reserve_bodies(out, count) : MR_CLOSED;
    if (status != MR_OK) {
        sent(argument, status);
        return;
    }
    encode(link, size, pieces, count);
    write_queue_commit(out, FRAME_HEADER_SIZE + size);
    for (size_t i = 0; i < count; i++) {
        if (copy_piece(out, pieces[i])) continue;
        write_queue_add_body(out, pieces[i]);
        exported = true;
    }
    if (exported) write_queue_when_sent(out, sent, argument);
    committed(link);
    if (!exported) sent(argument, MR_OK);
}

void socket_link_flush(socket_link *link) {
    if (link->state == SOCKET_LINK_OPEN || link->state == SOCKET_LINK_CLOSING) socket_link_io_write(link);
}

/* ---- Timers. */

static void tick(socket_link *link, int64_t now_us) {
    socket_link_io_use_room(link);
    if (link->large_rings != 0 && now_us - link->grown_us >= SOCKET_LARGE_RING_REST_US) shm_pipe_rest(link->pipe);
    heartbeat_verdict verdict = heartbeat_tick(&link->beat, now_us);
    if (verdict == HEARTBEAT_PING) {
        FAILPOINT("stream.ping");
        write_queue_trim(&link->out);
        link->ping_owed = true;
        socket_link_mark_dirty(link);
    }
    if (verdict == HEARTBEAT_DEAD && !socket_link_io_has_input(link)) { /* otherwise it sent unread bytes */
        socket_link_end(link, MR_TIMEOUT, "lost '%s': no heartbeat for %lld ms", link->peer.name,
                        (long long)(heartbeat_silence_us(&link->beat, now_us) / 1000));
        return;
    }
    timer_heap_add(&link->transport->timers, &link->timer, heartbeat_next_us(&link->beat));
}

static void out_of_time(socket_link *link) {
    char text[ADDRESS_TEXT_MAX];
    address_format(&link->address, text);
    if (link->state == SOCKET_LINK_CLOSING)
        socket_link_end(link, MR_CLOSED, "closed by this process; %zu bytes were not sent in time",
                        write_queue_pending(&link->out));
    else
        socket_link_end(link, MR_TIMEOUT, "no %s at %s within %lld ms",
                        link->state == SOCKET_LINK_CONNECTING                                   ? "connection"
                        : link->handshake != NULL && link->handshake->state == HANDSHAKE_PROVES ? "PROOF"
                                                                                                : "HELLO",
                        text, (long long)(link->transport->options.hello_timeout_us / 1000));
}

void socket_link_timer(socket_link *link, int64_t now_us) {
    if (link->state == SOCKET_LINK_OPEN)
        tick(link, now_us);
    else if (now_us >= link->deadline_us)
        out_of_time(link);
    else if (link->state == SOCKET_LINK_CONNECTING)
        try_connect(link, now_us);
}

/* ---- Closing. */

void socket_link_close(socket_link *link) {
    if (link->state == SOCKET_LINK_CLOSING || link->state == SOCKET_LINK_GONE) return;
    FAILPOINT("stream.close");
    if (link->state != SOCKET_LINK_OPEN || append_frame(link, FRAME_BYE, (span){0}) != MR_OK) {
        socket_link_end(link, MR_CLOSED, "link %u was closed by this process", link->id.v);
        return;
    }
    socket_transport *transport = link->transport;
    link->state = SOCKET_LINK_CLOSING;
    link->deadline_us = clock_deadline_us(event_loop_now_us(transport->loop), transport->options.linger_us);
    timer_heap_add(&transport->timers, &link->timer, link->deadline_us);
}

/* Sends the cause to the other side before closing, if the stream is at the start of a frame and accepts it at once. */
static void say_why(socket_link *link) {
    bool its_fault = link->why.status == MR_CORRUPT || link->why.status == MR_TOO_LARGE ||
                     link->why.status == MR_DENIED || link->why.status == MR_NOMEM;
    if (!its_fault || write_queue_pending(&link->out) != 0 || link->state == SOCKET_LINK_CONNECTING) return;
    uint8_t head[HANDSHAKE_BYE_MAX];
    size_t size = handshake_bye_encode(head, link->why.status, link->why.text);
    if (append_frame(link, FRAME_BYE, span_of(head, size)) == MR_OK) socket_link_io_write(link);
}

void socket_link_end(socket_link *link, mr_status status, const char *format, ...) {
    if (link->state == SOCKET_LINK_GONE) return;
    va_list arguments;
    va_start(arguments, format);
    cause_set_list(&link->why, status, format, arguments);
    va_end(arguments);
    link->why.pid = link->peer.pid;
    say_why(link);
    FAILPOINT("stream.end");
    link->state = SOCKET_LINK_GONE;
    if (!list_empty(&link->stranger)) link->transport->stats.refused++;
    stranger_leaves(link);
    timer_heap_remove(&link->transport->timers, &link->timer);
    socket_link_io_stop(link);
    socket_link_mark_dirty(link);
}

static void tell_sent(socket_link *link, bool all, mr_status status) {
    body_sent_fn *sent;
    void *argument;
    while (write_queue_take(&link->out, all, &sent, &argument)) sent(argument, status);
}

static void free_link(uv_handle_t *handle) { free(handle); }

static void finish(socket_link *link) {
    socket_transport *transport = link->transport;
    transport->in_event = true;
    tell_sent(link, true, link->why.status);
    if (link->id.v != 0) {
        transport->events->on_closed(transport->context, link->id, &link->why);
        link_table_remove(&transport->ids, link->id);
    }
    transport->in_event = false;
    FAILPOINT("stream.closed");
    list_remove(&link->item);
    list_remove(&link->dirty);
    drop_pipe(link);
    end_handshake(link);
    write_queue_fini(&link->out);
    frame_reader_fini(&link->in);
    if (link->poll_open)
        uv_close((uv_handle_t *)&link->poll, free_link);
    else
        free(link);
}

/* Sends pings and pongs when nothing else is pending. Queued behind blocked bytes they would prove nothing, and bytes
 * that are sent prove life themselves. */
static void say_alive(socket_link *link) {
    uint8_t frames[2 * FRAME_HEADER_SIZE];
    size_t size = 0;
    _Static_assert(sizeof frames <= WRITE_QUEUE_INTERJECTION_MAX, "both fit");
    if (link->ping_owed) frame_encode_header(frames, &(frame){.kind = FRAME_PING}), size += FRAME_HEADER_SIZE;
    if (link->pong_owed) frame_encode_header(frames + size, &(frame){.kind = FRAME_PONG}), size += FRAME_HEADER_SIZE;
    if (!write_queue_interject(&link->out, frames, size)) return;
    FAILPOINT("stream.alive");
    link->ping_owed = link->pong_owed = false;
    socket_link_flush(link);
}

void socket_link_settle(socket_link *link) {
    if (link->state != SOCKET_LINK_GONE) {
        socket_transport *transport = link->transport;
        socket_link_flush(link);
        if (link->state == SOCKET_LINK_OPEN && (link->ping_owed || link->pong_owed)) say_alive(link);
        transport->in_event = true;
        if (link->write_error != 0) socket_link_io_read_rest(link);
        tell_sent(link, false, MR_OK);
        if (link->state == SOCKET_LINK_OPEN && link->room_owed &&
            write_queue_pending(&link->out) <= transport->options.send_low) {
            link->room_owed = false;
            transport->events->on_room(transport->context, link->id);
        }
        transport->in_event = false;
    }
    if (link->state == SOCKET_LINK_GONE) finish(link);
}
