/* socket_link_io.c — see socket_link_io.h. Tested by tests/socket_links_test.c. */
#include "net/socket/socket_link_io.h"

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
#include "net/socket/socket.h"

enum {
    PIECES_MAX = 64,     /* parts per write */
    WRITE_MAX = 4 << 20, /* bytes written in a row before other links are served */
    READS_MAX = 16,      /* reads in a row, likewise */
    DRAINS_MAX = 256,    /* reads of a link that is closed without waiting */
    DRAIN_WAIT_MS = 10,  /* wait for bytes in transit */
};

/* ---- Watching the socket. */

static void on_poll(uv_poll_t *handle, int status, int events);

static void watch(socket_link *link) {
    if (link->state == SOCKET_LINK_GONE || !link->poll_open) return;
    bool writes = link->blocked && !link->piped;
    int wanted = link->state == SOCKET_LINK_CONNECTING ? UV_WRITABLE : UV_READABLE | (writes ? UV_WRITABLE : 0);
    if (wanted == link->polled) return;
    link->polled = wanted;
    MR_ASSERT(uv_poll_start(&link->poll, wanted, on_poll) == 0);
}

mr_status socket_link_io_start(socket_link *link) {
    MR_TRY(event_loop_status(uv_poll_init(event_loop_uv(link->transport->loop), &link->poll, link->fd),
                             "cannot watch a socket"));
    link->poll_open = true;
    watch(link);
    return MR_OK;
}

void socket_link_io_stop(socket_link *link) {
    if (link->poll_open) MR_ASSERT(uv_poll_stop(&link->poll) == 0);
    close(link->fd);
    link->fd = -1;
}

/* ---- Writing. */

static void blocked(socket_link *link) {
    link->blocked = true;
    watch(link);
}

static void write_failed(socket_link *link, int error) {
    link->write_error = error;
    socket_link_mark_dirty(link);
}

/* Wakes a sleeping side with a byte of any value. A full socket has enough bytes to wake it already. */
static void ring(const socket_link *link) { (void)send(link->fd, "", 1, MSG_NOSIGNAL | MSG_DONTWAIT); }

static void count_large_rings(socket_link *link) {
    unsigned now = shm_pipe_large_rings(link->pipe);
    link->transport->stats.large_rings += now - link->large_rings;
    link->large_rings = now;
}

/* Offers a large ring at most once per link. If the socket does not accept it now, it is withdrawn, and the small ring
 * remains. */
static void offer_large_ring(socket_link *link) {
    int fd;
    struct iovec byte = {(char[]){0}, 1};
    if (!shm_pipe_may_offer(link->pipe) || link->transport->stats.large_rings >= SOCKET_LARGE_RINGS_MAX) return;
    if (shm_pipe_offer(link->pipe, &fd) == MR_OK && socket_pass(link->fd, &byte, 1, &fd, 1) != 1)
        shm_pipe_withdraw(link->pipe);
    count_large_rings(link);
    FAILPOINT("stream.annex.offered");
}

static bool grow(socket_link *link) {
    bool grown = shm_pipe_grow(link->pipe);
    count_large_rings(link);
    if (!grown) return false;
    link->transport->stats.turns++;
    link->grown_us = event_loop_now_us(link->transport->loop);
    FAILPOINT("stream.annex.used");
    return true;
}

/* After a write without room: whether there is room now. If not, the other side was asked to wake this one. A body that
 * would fill more than another ring justifies a large ring; small messages do not. */
static bool find_room(socket_link *link) {
    bool large = write_queue_pending(&link->out) > SHM_PIPE_CAPACITY && write_queue_is_inside_body(&link->out);
    if (large && grow(link)) return true;
    if (large) offer_large_ring(link);
    return !shm_pipe_starve(link->pipe) || (large && grow(link));
}

/* Writes as much as the shm pipe accepts, maybe nothing. */
static ssize_t write_pipe(socket_link *link, const struct iovec *pieces, size_t count) {
    size_t wrote;
    bool wakes;
    do {
        if (shm_pipe_write(link->pipe, pieces, count, &wrote, &wakes) != MR_OK) {
            errno = EPROTO;
            return -1;
        }
        if (wakes) ring(link);
    } while (wrote == 0 && find_room(link));
    errno = EAGAIN;
    return wrote == 0 ? -1 : (ssize_t)wrote;
}

/* Sends the descriptors of a shm pipe and of an export with the first bytes. */
static ssize_t write_socket(socket_link *link, struct iovec *pieces, size_t count) {
    if (count == 1 && link->passed_count == 0)
        return send(link->fd, pieces[0].iov_base, pieces[0].iov_len, MSG_NOSIGNAL);
    ssize_t wrote = socket_pass(link->fd, pieces, count, link->passed, link->passed_count);
    if (wrote > 0) socket_link_io_drop_passed(link);
    return wrote;
}

void socket_link_io_drop_passed(socket_link *link) {
    while (link->passed_count != 0) close(link->passed[--link->passed_count]);
}

static ssize_t write_pieces(socket_link *link, struct iovec *pieces, size_t count) {
    if (FAILPOINT_ERROR("stream.write")) {
        errno = EPIPE;
        return -1;
    }
    return link->piped ? write_pipe(link, pieces, count) : write_socket(link, pieces, count);
}

void socket_link_io_write(socket_link *link) {
    if (link->blocked || link->write_error != 0) return;
    struct iovec pieces[PIECES_MAX];
    size_t count, total = 0;
    while ((count = write_queue_show(&link->out, pieces, PIECES_MAX)) > 0) {
        size_t shown = 0;
        for (size_t i = 0; i < count; i++) shown += pieces[i].iov_len;
        ssize_t wrote = write_pieces(link, pieces, count);
        if (wrote < 0 && errno == EINTR) continue;
        if (wrote < 0 && errno != EAGAIN) {
            write_failed(link, errno);
            return;
        }
        link->transport->stats.writes++;
        if (wrote > 0) {
            write_queue_wrote(&link->out, (size_t)wrote);
            link->transport->stats.bytes_out += (uint64_t)wrote;
            total += (size_t)wrote;
            if (write_queue_is_inside_body(&link->out)) FAILPOINT("stream.body.half");
        }
        bool rest = (size_t)wrote < shown || total >= WRITE_MAX;
        if (wrote < 0 || (rest && !link->piped)) {
            blocked(link);
            return;
        }
    }
    FAILPOINT("stream.written");
    if (link->state == SOCKET_LINK_CLOSING) {
        FAILPOINT("stream.bye.sent");
        shutdown(link->fd, SHUT_WR); /* if the other side closes too, neither would read the other's BYE */
    }
}

bool socket_link_io_send(socket_link *link, span head) {
    bool free = link->piped && link->state == SOCKET_LINK_OPEN && !link->blocked && link->write_error == 0;
    if (!free || write_queue_pending(&link->out) != 0 || head.size > SOCKET_SENT_MAX) return false;
    uint8_t header[FRAME_HEADER_SIZE];
    bool wakes;
    if (FAILPOINT_ERROR("stream.write")) {
        write_failed(link, EPIPE);
        return true;
    }
    frame_encode_plain(header, head.size);
    if (!shm_pipe_send(link->pipe, span_of(header, sizeof header), head, &wakes)) return false;
    if (wakes) ring(link);
    link->transport->stats.writes++;
    link->transport->stats.bytes_out += sizeof header + head.size;
    FAILPOINT("stream.written");
    return true;
}

static void writable(socket_link *link) {
    link->blocked = false;
    heartbeat_heard(&link->beat); /* the other side has read something */
    socket_link_io_write(link);
    socket_link_mark_dirty(link);
}

void socket_link_io_use_room(socket_link *link) {
    if (link->piped && link->blocked && shm_pipe_has_room(link->pipe)) writable(link);
}

/* ---- Reading. */

bool socket_link_io_has_input(const socket_link *link) {
    char byte;
    if (link->piped) return shm_pipe_readable(link->pipe);
    return recv(link->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) > 0;
}

/* A link that reads has a large buffer; a link without a partial frame has none. The buffer released last is reused
 * first, because it is in the cache. */
static mr_status take_buffer(socket_link *link) {
    if (link->in.capacity >= SOCKET_BUFFER_SIZE || link->state == SOCKET_LINK_HANDSHAKE) return MR_OK;
    void *buffer = link->transport->spare;
    link->transport->spare = NULL;
    if (buffer == NULL) MR_TRY(alloc_try(SOCKET_BUFFER_SIZE, &buffer));
    frame_reader_give(&link->in, buffer, SOCKET_BUFFER_SIZE);
    return MR_OK;
}

static void give_buffer_back(socket_link *link) {
    size_t capacity;
    if (link->state == SOCKET_LINK_HANDSHAKE) return;
    uint8_t *buffer = frame_reader_release(&link->in, &capacity);
    if (buffer != NULL && capacity == SOCKET_BUFFER_SIZE && link->transport->spare == NULL)
        link->transport->spare = buffer;
    else
        free(buffer);
}

static void lost(socket_link *link, int error) {
    const char *name = link->peer.name;
    if (link->state == SOCKET_LINK_CLOSING)
        socket_link_end(link, MR_CLOSED, "link %u was closed by this process", link->id.v);
    else if (link->state == SOCKET_LINK_HANDSHAKE)
        socket_link_end(link, MR_PEER_DIED, "the peer closed the connection before the end of the handshake: %s",
                        error == 0 ? "end of stream" : strerror(error));
    else if (error == 0)
        socket_link_end(link, MR_PEER_DIED, "lost '%s': its connection ended without a BYE", name);
    else if (error == EPROTO)
        socket_link_end(link, MR_CORRUPT, "malformed data from '%s' in shared memory", name);
    else if (error == ECONNRESET || error == EPIPE)
        socket_link_end(link, MR_PEER_DIED, "lost '%s': %s", name, strerror(error));
    else
        socket_link_end(link, error == ETIMEDOUT ? MR_TIMEOUT : MR_IO, "lost '%s': %s", name, strerror(error));
}

/* The accepting side also receives descriptors with HELLO; all others are closed. */
static ssize_t read_handshake(socket_link *link, struct iovec *pieces, size_t count) {
    int fds[SOCKET_FDS_MAX];
    size_t fd_count;
    ssize_t got = socket_receive(link->fd, pieces, count, fds, &fd_count);
    if (fd_count == 0) return got;
    socket_link_io_drop_passed(link);
    memcpy(link->passed, fds, fd_count * sizeof fds[0]);
    link->passed_count = fd_count;
    return got;
}

static ssize_t read_socket(socket_link *link, struct iovec *pieces, size_t count) {
    if (link->state == SOCKET_LINK_HANDSHAKE && link->id.v == 0 && link->transport->options.shares)
        return read_handshake(link, pieces, count);
    return count == 1 ? recv(link->fd, pieces->iov_base, pieces->iov_len, 0) : readv(link->fd, pieces, (int)count);
}

static void skip(struct iovec **pieces, size_t *count, size_t size) {
    for (; *count != 0 && size >= (*pieces)->iov_len; ++*pieces, --*count) size -= (*pieces)->iov_len;
    if (*count != 0) **pieces = (struct iovec){(uint8_t *)(*pieces)->iov_base + size, (*pieces)->iov_len - size};
}

/* As a socket's read, but only the socket reports the end. */
static ssize_t read_pipe(socket_link *link, struct iovec *pieces, size_t count) {
    size_t got, total = 0;
    bool wakes;
    do {
        if (shm_pipe_read(link->pipe, pieces, count, &got, &wakes) != MR_OK) {
            errno = EPROTO;
            return -1;
        }
        if (wakes) ring(link);
        total += got;
        skip(&pieces, &count, got);
    } while (wakes && count != 0);
    errno = EAGAIN;
    return total == 0 ? -1 : (ssize_t)total;
}

static void heard(socket_link *link, size_t got) {
    link->transport->stats.bytes_in += got;
    heartbeat_heard(&link->beat);
}

/* Reads to `pieces`; returns the number of bytes, or 0 if there is nothing now or the link has ended. */
static size_t read_pieces(socket_link *link, struct iovec *pieces, size_t count) {
    bool piped = link->piped && link->state == SOCKET_LINK_OPEN;
    ssize_t got;
    do got = piped ? read_pipe(link, pieces, count) : read_socket(link, pieces, count);
    while (got < 0 && errno == EINTR);
    if (FAILPOINT_ERROR("stream.read")) {
        errno = ECONNRESET;
        got = -1;
    }
    link->transport->stats.reads++;
    if (got > 0) {
        heard(link, (size_t)got);
        return (size_t)got;
    }
    if (got == 0 || errno != EAGAIN) lost(link, got == 0 ? 0 : errno);
    return 0;
}

static mr_status take_frames(socket_link *link) {
    frame_reader *in = &link->in;
    frame_reader_event event;
    while (link->state == SOCKET_LINK_HANDSHAKE || link->state == SOCKET_LINK_OPEN) {
        MR_TRY(frame_reader_next(in, &event));
        if (event == FRAME_READER_MORE) break;
        MR_TRY(event == FRAME_READER_FRAME ? socket_link_take(link, &in->frame)
                                           : socket_link_place_body(link, &in->frame));
    }
    return MR_OK;
}

/* Delivers the complete frames. */
static mr_status deliver(socket_link *link) {
    uint64_t copied = link->in.body_copied;
    mr_status status = take_frames(link);
    link->transport->stats.body_copied += link->in.body_copied - copied;
    return status;
}

static void wrong(socket_link *link, mr_status status) {
    if (status == MR_NOMEM || link->state == SOCKET_LINK_HANDSHAKE)
        socket_link_end(link, status, "%s", mr_last_error());
    else
        socket_link_end(link, status, "'%s' sent %s", link->peer.name, mr_last_error());
}

typedef enum outcome { READ_NOTHING, READ_SOME, READ_FULL } outcome; /* READ_FULL: there may be more now */

static outcome outcome_of(size_t got, size_t asked) {
    return got == 0 ? READ_NOTHING : got < asked ? READ_SOME : READ_FULL;
}

static outcome read_frames(socket_link *link) {
    struct iovec pieces[2];
    mr_status status = take_buffer(link);
    size_t asked = 0, got = 0;
    if (status == MR_OK) {
        size_t count = frame_reader_show(&link->in, pieces);
        for (size_t i = 0; i < count; i++) asked += pieces[i].iov_len;
        got = read_pieces(link, pieces, count);
    }
    if (got > 0) {
        frame_reader_got(&link->in, got);
        if (link->in.arriving) FAILPOINT("stream.body.arriving");
        status = deliver(link);
    }
    if (status != MR_OK) wrong(link, status);
    return outcome_of(got, asked);
}

/* Reads and discards the bytes of a closing link until the end: closing a socket with unread bytes resets it, and the
 * other side might miss the last bytes sent. */
static outcome read_away(socket_link *link) {
    uint8_t sink[16 * 1024];
    struct iovec piece = {sink, sizeof sink};
    return outcome_of(read_pieces(link, &piece, 1), sizeof sink);
}

static outcome read_once(socket_link *link) {
    switch (link->state) {
    case SOCKET_LINK_HANDSHAKE:
    case SOCKET_LINK_OPEN: return read_frames(link);
    case SOCKET_LINK_CLOSING: return read_away(link);
    default: return READ_NOTHING;
    }
}

static void readable(socket_link *link) {
    for (int i = 0; i < READS_MAX && read_once(link) == READ_FULL; i++) continue;
    give_buffer_back(link);
}

/* Fast path for small frames without a partial frame: reads all available bytes in one step. */
static bool take_few(socket_link *link) {
    socket_transport *transport = link->transport;
    uint8_t *buffer = transport->spare;
    size_t got = frame_reader_has_buffer(&link->in) || buffer == NULL
                     ? 0
                     : shm_pipe_receive(link->pipe, buffer, FRAME_READER_READ_MIN);
    if (got == 0) return false;
    transport->stats.reads++;
    if (FAILPOINT_ERROR("stream.read")) {
        lost(link, ECONNRESET);
        return true;
    }
    heard(link, got);
    transport->spare = NULL;
    frame_reader_fill(&link->in, buffer, SOCKET_BUFFER_SIZE, got);
    mr_status status = deliver(link);
    if (status != MR_OK) wrong(link, status);
    give_buffer_back(link);
    return true;
}

bool socket_link_io_look(socket_link *link) {
    if (link->state != SOCKET_LINK_OPEN || !shm_pipe_readable(link->pipe)) return false;
    socket_transport *transport = link->transport;
    transport->in_event = true;
    if (!take_few(link)) readable(link);
    transport->in_event = false;
    return true;
}

/* Maps a large ring that the other side offers to write to. */
static void take_large_ring(socket_link *link, const int *fds, size_t count) {
    bool wakes = false;
    mr_status status = MR_OK;
    if (count != 1)
        status = error_set(MR_CORRUPT, "%zu descriptors; expected 1", count);
    else if (link->transport->stats.large_rings >= SOCKET_LARGE_RINGS_MAX)
        shm_pipe_decline(link->pipe);
    else
        status = shm_pipe_take(link->pipe, fds[0], &wakes);
    count_large_rings(link);
    FAILPOINT("stream.annex.taken");
    if (wakes) ring(link);
    if (status == MR_CORRUPT) wrong(link, status);
}

/* Reads the wake-up bytes; false: the other side has ended. They are read before the shm pipe is checked, because a
 * later byte announces bytes that may not have been seen. A byte may carry a large ring. */
static bool take_rings(socket_link *link) {
    uint8_t sink[64];
    int fds[SOCKET_FDS_MAX];
    size_t fd_count;
    ssize_t got;
    do {
        got = socket_receive(link->fd, &(struct iovec){sink, sizeof sink}, 1, fds, &fd_count);
        int error = errno;
        if (fd_count > 0) take_large_ring(link, fds, fd_count);
        for (size_t i = 0; i < fd_count; i++) close(fds[i]);
        errno = error;
    } while (link->state == SOCKET_LINK_OPEN && (got == (ssize_t)sizeof sink || (got < 0 && errno == EINTR)));
    return got > 0 || (got < 0 && errno == EAGAIN);
}

/* The socket of a link with a shm pipe is readable or has ended: the bytes in the shm pipe are handled first. */
static void woken(socket_link *link) {
    bool lives = take_rings(link);
    if (link->state != SOCKET_LINK_OPEN) return;
    if (link->blocked) writable(link);
    readable(link);
    if (!lives && link->state == SOCKET_LINK_OPEN) socket_link_io_read_rest(link);
}

void socket_link_io_read_rest(socket_link *link) {
    while (read_once(link) != READ_NOTHING) continue;
    if (link->state != SOCKET_LINK_GONE)
        lost(link, link->write_error != 0 ? link->write_error : socket_error(link->fd));
}

/* Waits for bytes that the other side's kernel held back for lack of room. If the socket were closed without reading
 * them, the link would be reset, and sent bytes that the other side has not read yet would be lost. */
static bool more_comes(const socket_link *link) {
    struct pollfd watched = {.fd = link->fd, .events = POLLIN};
    return poll(&watched, 1, DRAIN_WAIT_MS) > 0;
}

void socket_link_io_drain(socket_link *link) {
    bool heard = false, more = true;
    for (int i = 0; i < DRAINS_MAX && link->state == SOCKET_LINK_CLOSING && more; i++) {
        bool some = read_away(link) != READ_NOTHING;
        heard |= some;
        more = some || (heard && more_comes(link));
    }
}

static void on_poll(uv_poll_t *handle, int status, int events) {
    socket_link *link = (struct socket_link *)handle;
    socket_transport *transport = link->transport;
    transport->in_event = true;
    if (link->state == SOCKET_LINK_CONNECTING) {
        socket_link_connect_done(link);
    } else {
        bool came = (events & UV_READABLE) != 0;
        if ((events & UV_WRITABLE) != 0) writable(link);
        if (came && link->piped && link->state == SOCKET_LINK_OPEN)
            woken(link);
        else if (came)
            readable(link);
        if (came && link->piped && link->blocked && link->state == SOCKET_LINK_CLOSING) writable(link);
        if (status < 0) socket_link_io_read_rest(link); /* libuv stopped watching: the read reports the error */
    }
    transport->in_event = false;
    watch(link);
}
