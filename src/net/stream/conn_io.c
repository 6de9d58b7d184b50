/* conn_io.c — see conn_io.h. Tested by tests/stream_link_test.c. */
#include "net/stream/conn_io.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"
#include "base/failpoint.h"
#include "net/stream/socket.h"

enum {
    PIECES_MAX = 64,     /* of one write */
    WRITE_MAX = 4 << 20, /* bytes written in a row, before others get their turn */
    READS_MAX = 16,      /* reads in a row, likewise */
    DRAINS_MAX = 256,    /* of a link that is closed without waiting */
    DRAIN_WAIT_MS = 10,  /* for what is on its way there */
};

/* ---- Watching. */

static void on_poll(uv_poll_t *handle, int status, int events);

static void watch(conn *conn) {
    if (conn->state == CONN_GONE || !conn->poll_open) return;
    bool writes = conn->blocked && !conn->ducted;
    int wanted = conn->state == CONN_CONNECTING ? UV_WRITABLE : UV_READABLE | (writes ? UV_WRITABLE : 0);
    if (wanted == conn->polled) return;
    conn->polled = wanted;
    MR_ASSERT(uv_poll_start(&conn->poll, wanted, on_poll) == 0);
}

mr_status conn_io_start(conn *conn) {
    MR_TRY(loop_status(uv_poll_init(loop_uv(conn->stream->loop), &conn->poll, conn->fd), "cannot watch a socket"));
    conn->poll_open = true;
    watch(conn);
    return MR_OK;
}

void conn_io_stop(conn *conn) {
    if (conn->poll_open) MR_ASSERT(uv_poll_stop(&conn->poll) == 0);
    close(conn->fd);
    conn->fd = -1;
}

/* ---- Writing. */

static void blocked(conn *conn) {
    conn->blocked = true;
    watch(conn);
}

static void write_failed(conn *conn, int error) {
    conn->write_error = error;
    conn_mark_dirty(conn);
}

/* Whoever sleeps hears a byte, whatever it is. A socket that takes none has enough of them to wake for. */
static void ring(const conn *conn) { (void)send(conn->fd, "", 1, MSG_NOSIGNAL | MSG_DONTWAIT); }

static void count_annexes(conn *conn) {
    unsigned now = duct_annexes(conn->duct);
    conn->stream->stats.annexes += now - conn->annexes;
    conn->annexes = now;
}

/* Once for a link, if at all. What the socket does not take now it need not take later: then the ring stays small. */
static void offer_annex(conn *conn) {
    int fd;
    struct iovec byte = {(char[]){0}, 1};
    if (!duct_may_offer(conn->duct) || conn->stream->stats.annexes >= CORE_ANNEXES_MAX) return;
    if (duct_offer(conn->duct, &fd) == MR_OK && socket_pass(conn->fd, &byte, 1, &fd, 1) != 1) duct_withdraw(conn->duct);
    count_annexes(conn);
    FAILPOINT("stream.annex.offered");
}

static bool grow(conn *conn) {
    bool grown = duct_grow(conn->duct);
    count_annexes(conn);
    if (!grown) return false;
    conn->stream->stats.turns++;
    conn->grown_us = loop_now_us(conn->stream->loop);
    FAILPOINT("stream.annex.used");
    return true;
}

/* After a write that found no room: whether there is some now. If not, the other side was asked to wake us. A body that
 * is to fill more than another ring is worth a larger one; small messages, however many, are not. */
static bool find_room(conn *conn) {
    bool large = outbox_pending(&conn->out) > DUCT_CAPACITY && outbox_is_inside_body(&conn->out);
    if (large && grow(conn)) return true;
    if (large) offer_annex(conn);
    return !duct_starve(conn->duct) || (large && grow(conn));
}

/* What the duct takes, maybe nothing for now. */
static ssize_t write_duct(conn *conn, const struct iovec *pieces, size_t count) {
    size_t wrote;
    bool wakes;
    do {
        if (duct_write(conn->duct, pieces, count, &wrote, &wakes) != MR_OK) {
            errno = EPROTO;
            return -1;
        }
        if (wakes) ring(conn);
    } while (wrote == 0 && find_room(conn));
    errno = EAGAIN;
    return wrote == 0 ? -1 : (ssize_t)wrote;
}

/* The descriptors of a duct and of a glass travel with the first bytes. */
static ssize_t write_socket(conn *conn, struct iovec *pieces, size_t count) {
    if (count == 1 && conn->passed_count == 0)
        return send(conn->fd, pieces[0].iov_base, pieces[0].iov_len, MSG_NOSIGNAL);
    ssize_t wrote = socket_pass(conn->fd, pieces, count, conn->passed, conn->passed_count);
    if (wrote > 0) conn_io_drop_passed(conn);
    return wrote;
}

void conn_io_drop_passed(conn *conn) {
    while (conn->passed_count != 0) close(conn->passed[--conn->passed_count]);
}

static ssize_t write_pieces(conn *conn, struct iovec *pieces, size_t count) {
    if (FAILPOINT_ERROR("stream.write")) {
        errno = EPIPE;
        return -1;
    }
    return conn->ducted ? write_duct(conn, pieces, count) : write_socket(conn, pieces, count);
}

void conn_io_write(conn *conn) {
    if (conn->blocked || conn->write_error != 0) return;
    struct iovec pieces[PIECES_MAX];
    size_t count, total = 0;
    while ((count = outbox_show(&conn->out, pieces, PIECES_MAX)) > 0) {
        size_t shown = 0;
        for (size_t i = 0; i < count; i++) shown += pieces[i].iov_len;
        ssize_t wrote = write_pieces(conn, pieces, count);
        if (wrote < 0 && errno == EINTR) continue;
        if (wrote < 0 && errno != EAGAIN) {
            write_failed(conn, errno);
            return;
        }
        conn->stream->stats.writes++;
        if (wrote > 0) {
            outbox_wrote(&conn->out, (size_t)wrote);
            conn->stream->stats.bytes_out += (uint64_t)wrote;
            total += (size_t)wrote;
            if (outbox_is_inside_body(&conn->out)) FAILPOINT("stream.body.half");
        }
        bool rest = (size_t)wrote < shown || total >= WRITE_MAX;
        if (wrote < 0 || (rest && !conn->ducted)) {
            blocked(conn);
            return;
        }
    }
    FAILPOINT("stream.written");
    if (conn->state == CONN_CLOSING) {
        FAILPOINT("stream.bye.sent");
        shutdown(conn->fd, SHUT_WR); /* if the other side closes as well, neither would read the other's goodbye */
    }
}

bool conn_io_send(conn *conn, span head) {
    bool free = conn->ducted && conn->state == CONN_OPEN && !conn->blocked && conn->write_error == 0;
    if (!free || outbox_pending(&conn->out) != 0 || head.size > CORE_SENT_MAX) return false;
    uint8_t header[FRAME_HEADER_SIZE];
    bool wakes;
    if (FAILPOINT_ERROR("stream.write")) {
        write_failed(conn, EPIPE);
        return true;
    }
    frame_encode_plain(header, head.size);
    if (!duct_send(conn->duct, span_of(header, sizeof header), head, &wakes)) return false;
    if (wakes) ring(conn);
    conn->stream->stats.writes++;
    conn->stream->stats.bytes_out += sizeof header + head.size;
    FAILPOINT("stream.written");
    return true;
}

static void writable(conn *conn) {
    conn->blocked = false;
    heartbeat_heard(&conn->beat); /* the other side took something */
    conn_io_write(conn);
    conn_mark_dirty(conn);
}

void conn_io_use_room(conn *conn) {
    if (conn->ducted && conn->blocked && duct_has_room(conn->duct)) writable(conn);
}

/* ---- Reading. */

bool conn_io_has_input(const conn *conn) {
    char byte;
    if (conn->ducted) return duct_readable(conn->duct);
    return recv(conn->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) > 0;
}

/* A link that reads has a large buffer; one that has nothing half read has none. The last one that was given back is
 * the next one's: it is warm. */
static mr_status take_buffer(conn *conn) {
    if (conn->in.capacity >= CORE_BUFFER_SIZE || conn->state == CONN_GREETING) return MR_OK;
    void *buffer = conn->stream->spare;
    conn->stream->spare = NULL;
    if (buffer == NULL) MR_TRY(alloc_try(CORE_BUFFER_SIZE, &buffer));
    inbox_give(&conn->in, buffer, CORE_BUFFER_SIZE);
    return MR_OK;
}

static void give_buffer_back(conn *conn) {
    size_t capacity;
    if (conn->state == CONN_GREETING) return;
    uint8_t *buffer = inbox_release(&conn->in, &capacity);
    if (buffer != NULL && capacity == CORE_BUFFER_SIZE && conn->stream->spare == NULL)
        conn->stream->spare = buffer;
    else
        free(buffer);
}

static void lost(conn *conn, int error) {
    const char *name = conn->peer.name;
    if (conn->state == CONN_CLOSING)
        conn_end(conn, MR_CLOSED, "link %u was closed by this process", conn->id.v);
    else if (conn->state == CONN_GREETING)
        conn_end(conn, MR_PEER_DIED, "the peer closed the connection before its HELLO: %s",
                 error == 0 ? "end of stream" : strerror(error));
    else if (error == 0)
        conn_end(conn, MR_PEER_DIED, "lost '%s': its connection ended without a BYE", name);
    else if (error == EPROTO)
        conn_end(conn, MR_CORRUPT, "malformed data from '%s' in shared memory", name);
    else if (error == ECONNRESET || error == EPIPE)
        conn_end(conn, MR_PEER_DIED, "lost '%s': %s", name, strerror(error));
    else
        conn_end(conn, error == ETIMEDOUT ? MR_TIMEOUT : MR_IO, "lost '%s': %s", name, strerror(error));
}

/* Who was accepted reads descriptors too, which came with HELLO; more than those are not wanted. */
static ssize_t read_greeting(conn *conn, struct iovec *pieces, size_t count) {
    int fds[SOCKET_FDS_MAX];
    size_t fd_count;
    ssize_t got = socket_receive(conn->fd, pieces, count, fds, &fd_count);
    if (fd_count == 0) return got;
    conn_io_drop_passed(conn);
    memcpy(conn->passed, fds, fd_count * sizeof fds[0]);
    conn->passed_count = fd_count;
    return got;
}

static ssize_t read_socket(conn *conn, struct iovec *pieces, size_t count) {
    if (conn->state == CONN_GREETING && conn->id.v == 0 && conn->stream->options.shares)
        return read_greeting(conn, pieces, count);
    return count == 1 ? recv(conn->fd, pieces->iov_base, pieces->iov_len, 0) : readv(conn->fd, pieces, (int)count);
}

static void skip(struct iovec **pieces, size_t *count, size_t size) {
    for (; *count != 0 && size >= (*pieces)->iov_len; ++*pieces, --*count) size -= (*pieces)->iov_len;
    if (*count != 0) **pieces = (struct iovec){(uint8_t *)(*pieces)->iov_base + size, (*pieces)->iov_len - size};
}

/* As the read of a socket, but that there is an end is what the socket says. */
static ssize_t read_duct(conn *conn, struct iovec *pieces, size_t count) {
    size_t got, total = 0;
    bool wakes;
    do {
        if (duct_read(conn->duct, pieces, count, &got, &wakes) != MR_OK) {
            errno = EPROTO;
            return -1;
        }
        if (wakes) ring(conn);
        total += got;
        skip(&pieces, &count, got);
    } while (wakes && count != 0);
    errno = EAGAIN;
    return total == 0 ? -1 : (ssize_t)total;
}

static void heard(conn *conn, size_t got) {
    conn->stream->stats.bytes_in += got;
    heartbeat_heard(&conn->beat);
}

/* Reads to `pieces`; how much came, or 0 when there is nothing for now or the link is gone. */
static size_t read_pieces(conn *conn, struct iovec *pieces, size_t count) {
    bool ducted = conn->ducted && conn->state == CONN_OPEN;
    ssize_t got;
    do got = ducted ? read_duct(conn, pieces, count) : read_socket(conn, pieces, count);
    while (got < 0 && errno == EINTR);
    if (FAILPOINT_ERROR("stream.read")) {
        errno = ECONNRESET;
        got = -1;
    }
    conn->stream->stats.reads++;
    if (got > 0) {
        heard(conn, (size_t)got);
        return (size_t)got;
    }
    if (got == 0 || errno != EAGAIN) lost(conn, got == 0 ? 0 : errno);
    return 0;
}

static mr_status take_frames(conn *conn) {
    inbox *in = &conn->in;
    inbox_event event;
    while (conn->state == CONN_GREETING || conn->state == CONN_OPEN) {
        MR_TRY(inbox_next(in, &event));
        if (event == INBOX_MORE) break;
        MR_TRY(event == INBOX_FRAME ? conn_take(conn, &in->frame) : conn_place_body(conn, &in->frame));
    }
    return MR_OK;
}

/* The frames that are complete. */
static mr_status deliver(conn *conn) {
    uint64_t copied = conn->in.body_copied;
    mr_status status = take_frames(conn);
    conn->stream->stats.body_copied += conn->in.body_copied - copied;
    return status;
}

static void wrong(conn *conn, mr_status status) {
    if (status == MR_NOMEM || conn->state == CONN_GREETING)
        conn_end(conn, status, "%s", mr_last_error());
    else
        conn_end(conn, status, "'%s' sent %s", conn->peer.name, mr_last_error());
}

typedef enum outcome { READ_NOTHING, READ_SOME, READ_FULL } outcome; /* full: there may be more right now */

static outcome outcome_of(size_t got, size_t asked) {
    return got == 0 ? READ_NOTHING : got < asked ? READ_SOME : READ_FULL;
}

static outcome read_frames(conn *conn) {
    struct iovec pieces[2];
    mr_status status = take_buffer(conn);
    size_t asked = 0, got = 0;
    if (status == MR_OK) {
        size_t count = inbox_show(&conn->in, pieces);
        for (size_t i = 0; i < count; i++) asked += pieces[i].iov_len;
        got = read_pieces(conn, pieces, count);
    }
    if (got > 0) {
        inbox_got(&conn->in, got);
        if (conn->in.arriving) FAILPOINT("stream.body.arriving");
        status = deliver(conn);
    }
    if (status != MR_OK) wrong(conn, status);
    return outcome_of(got, asked);
}

/* A closing link wants nothing any more, but reads until the end: a socket that is closed with bytes unread resets the
 * other side, which then may miss what we sent last. */
static outcome read_away(conn *conn) {
    uint8_t sink[16 * 1024];
    struct iovec piece = {sink, sizeof sink};
    return outcome_of(read_pieces(conn, &piece, 1), sizeof sink);
}

static outcome read_once(conn *conn) {
    switch (conn->state) {
    case CONN_GREETING:
    case CONN_OPEN: return read_frames(conn);
    case CONN_CLOSING: return read_away(conn);
    default: return READ_NOTHING;
    }
}

static void readable(conn *conn) {
    for (int i = 0; i < READS_MAX && read_once(conn) == READ_FULL; i++) continue;
    give_buffer_back(conn);
}

/* Small frames, and nothing half read: what has come is taken in one step. */
static bool take_few(conn *conn) {
    stream *stream = conn->stream;
    uint8_t *buffer = stream->spare;
    size_t got = inbox_has_buffer(&conn->in) || buffer == NULL ? 0 : duct_receive(conn->duct, buffer, INBOX_READ_MIN);
    if (got == 0) return false;
    stream->stats.reads++;
    if (FAILPOINT_ERROR("stream.read")) {
        lost(conn, ECONNRESET);
        return true;
    }
    heard(conn, got);
    stream->spare = NULL;
    inbox_fill(&conn->in, buffer, CORE_BUFFER_SIZE, got);
    mr_status status = deliver(conn);
    if (status != MR_OK) wrong(conn, status);
    give_buffer_back(conn);
    return true;
}

bool conn_io_look(conn *conn) {
    if (conn->state != CONN_OPEN || !duct_readable(conn->duct)) return false;
    stream *stream = conn->stream;
    stream->in_event = true;
    if (!take_few(conn)) readable(conn);
    stream->in_event = false;
    return true;
}

/* The other side wants a larger ring to write to. */
static void take_annex(conn *conn, const int *fds, size_t count) {
    bool wakes = false;
    mr_status status = MR_OK;
    if (count != 1)
        status = error_set(MR_CORRUPT, "%zu descriptors; expected 1", count);
    else if (conn->stream->stats.annexes >= CORE_ANNEXES_MAX)
        duct_decline(conn->duct);
    else
        status = duct_take(conn->duct, fds[0], &wakes);
    count_annexes(conn);
    FAILPOINT("stream.annex.taken");
    if (wakes) ring(conn);
    if (status == MR_CORRUPT) wrong(conn, status);
}

/* The bytes that woke us; false: the other side has ended. They are taken before the duct is looked at: one that comes
 * afterwards tells of something that may not have been seen. A byte may bring an annex. */
static bool take_rings(conn *conn) {
    uint8_t sink[64];
    int fds[SOCKET_FDS_MAX];
    size_t fd_count;
    ssize_t got;
    do {
        got = socket_receive(conn->fd, &(struct iovec){sink, sizeof sink}, 1, fds, &fd_count);
        int error = errno;
        if (fd_count > 0) take_annex(conn, fds, fd_count);
        for (size_t i = 0; i < fd_count; i++) close(fds[i]);
        errno = error;
    } while (conn->state == CONN_OPEN && (got == (ssize_t)sizeof sink || (got < 0 && errno == EINTR)));
    return got > 0 || (got < 0 && errno == EAGAIN);
}

/* The socket of a link with a duct woke us, or ended: then what lies in the duct comes first. */
static void woken(conn *conn) {
    bool lives = take_rings(conn);
    if (conn->state != CONN_OPEN) return;
    if (conn->blocked) writable(conn);
    readable(conn);
    if (!lives && conn->state == CONN_OPEN) conn_io_read_rest(conn);
}

void conn_io_read_rest(conn *conn) {
    while (read_once(conn) != READ_NOTHING) continue;
    if (conn->state != CONN_GONE) lost(conn, conn->write_error != 0 ? conn->write_error : socket_error(conn->fd));
}

/* What the other side's kernel held back for want of room comes when there is some, and resets the link if nobody is
 * there to take it: what it has not read yet of ours would be lost. */
static bool more_comes(const conn *conn) {
    struct pollfd watched = {.fd = conn->fd, .events = POLLIN};
    return poll(&watched, 1, DRAIN_WAIT_MS) > 0;
}

void conn_io_drain(conn *conn) {
    bool heard = false, more = true;
    for (int i = 0; i < DRAINS_MAX && conn->state == CONN_CLOSING && more; i++) {
        bool some = read_away(conn) != READ_NOTHING;
        heard |= some;
        more = some || (heard && more_comes(conn));
    }
}

static void on_poll(uv_poll_t *handle, int status, int events) {
    conn *conn = (struct conn *)handle;
    stream *stream = conn->stream;
    stream->in_event = true;
    if (conn->state == CONN_CONNECTING) {
        conn_connect_done(conn);
    } else {
        bool came = (events & UV_READABLE) != 0;
        if ((events & UV_WRITABLE) != 0) writable(conn);
        if (came && conn->ducted && conn->state == CONN_OPEN)
            woken(conn);
        else if (came)
            readable(conn);
        if (came && conn->ducted && conn->blocked && conn->state == CONN_CLOSING) writable(conn);
        if (status < 0) conn_io_read_rest(conn); /* libuv has stopped watching: there is an error to be met */
    }
    stream->in_event = false;
    watch(conn);
}
