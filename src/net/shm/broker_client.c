/* broker_client.c — see broker_client.h.
 *
 * The descriptor of broker_client_fd is an epoll descriptor: it is readable when the broker sent something, when the
 * broker's process has ended (its pidfd, because a fork of the broker may keep the socket open), and, while requests
 * wait for room in the socket, when there is room. */
#include "net/shm/broker_client.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/failpoint.h"
#include "net/pidfd.h"
#include "net/shm/fd_packet.h"
#include "net/unix_listener.h"

enum {
    QUEUE_MAX = 4096,        /* unsent requests; MR_BUSY beyond */
    BYE_US_MAX = 100 * 1000, /* how long to retry sending BYE to a broker that does not read */
    END_MS_MAX = 200,        /* time in which a process that has closed its sockets ends */
};

struct broker_client {
    arena arena;
    int fd, epoll_fd;   /* owned */
    pidfd broker_pidfd; /* owned; PIDFD_NONE: none available */
    int broker_pid;
    int pid; /* of the process that joined; a fork of it is no client */
    uint32_t process_block;
    uint64_t process;
    fd_packet_queue queue;
    bool writable_wanted;
    bool gone; /* the broker has ended; nothing is sent any more */
    bool gone_told;
    cause gone_why;
};

/* ---- Joining. */

typedef struct joining {
    const char *path;
    int64_t deadline_us;
    int fd;
    int broker_pid;
} joining;

static int64_t left_us(const joining *joining) {
    int64_t now = clock_now_us(clock_real());
    return joining->deadline_us > now ? joining->deadline_us - now : 0;
}

static mr_status connect_failed(const char *path) {
    switch (errno) {
    case ENOENT:
    case ENOTDIR: return error_set(MR_NOT_FOUND, "no broker at %s: the socket does not exist", path);
    case ECONNREFUSED: return error_set(MR_NOT_FOUND, "no broker at %s: its process has ended", path);
    case EPROTOTYPE: return error_set(MR_INVALID, "%s is not the socket of a broker", path);
    case EAGAIN: return error_set(MR_TIMEOUT, "timed out connecting to the broker at %s: its backlog is full", path);
    default: return error_errno("cannot join the broker at %s", path);
    }
}

static mr_status call_broker(joining *joining) {
    struct sockaddr_un address;
    MR_TRY(unix_listener_address(joining->path, &address));
    /* With a full backlog, a blocking connect waits as long as the send timeout. */
    int64_t wait = left_us(joining);
    if (wait == 0) wait = 1; /* 0 would mean no timeout */
    struct timeval timeout = {.tv_sec = wait / 1000000, .tv_usec = wait % 1000000};
    if (setsockopt(joining->fd, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof timeout) != 0)
        return error_errno("cannot join the broker at %s", joining->path);
    FAILPOINT("guest.connect");
    if (TEMP_FAILURE_RETRY(connect(joining->fd, (const void *)&address, sizeof address)) != 0)
        return connect_failed(joining->path);
    FAILPOINT("guest.connected");
    return MR_OK;
}

/* Any user may have created the socket's file: memory is shared only with the same user and with root. */
static mr_status check_broker(joining *joining) {
    struct ucred who;
    socklen_t size = sizeof who;
    if (getsockopt(joining->fd, SOL_SOCKET, SO_PEERCRED, &who, &size) != 0)
        return error_errno("cannot get the user of the broker at %s", joining->path);
    if (who.uid != geteuid() && who.uid != 0 && geteuid() != 0)
        return error_set(MR_DENIED, "the broker at %s belongs to user %u, this process to user %u", joining->path,
                         (unsigned)who.uid, (unsigned)geteuid());
    joining->broker_pid = (int)who.pid;
    return MR_OK;
}

static mr_status wait_readable(const joining *joining) {
    for (;;) {
        int64_t left = left_us(joining);
        struct timespec timeout = {.tv_sec = left / 1000000, .tv_nsec = left % 1000000 * 1000};
        struct pollfd wait = {.fd = joining->fd, .events = POLLIN};
        int ready = ppoll(&wait, 1, &timeout, NULL);
        if (ready > 0) return MR_OK;
        if (ready == 0)
            return error_set(MR_TIMEOUT, "timed out waiting for the broker at %s: process %d is stopped or overloaded",
                             joining->path, joining->broker_pid);
        if (errno != EINTR) return error_errno("cannot wait for the broker at %s", joining->path);
    }
}

static mr_status greet(joining *joining, const char *name, int event_fd) {
    broker_wire message = broker_wire_of(BROKER_WIRE_HELLO, 0);
    message.hello.magic = BROKER_WIRE_MAGIC;
    strcpy(message.hello.name, name);
    int error = fd_packet_send(joining->fd, &message, event_fd);
    FAILPOINT("guest.hello");
    /* A broker that refuses may have closed already; its message can still be read. */
    if (error == 0 || error == EPIPE || error == ECONNRESET) return MR_OK;
    errno = error;
    return error_errno("cannot send HELLO to the broker at %s", joining->path);
}

static mr_status read_welcome(const joining *joining, fd_packet *packet, broker_wire *out) {
    if (broker_wire_decode(true, packet->data, packet->size, out) != MR_OK)
        return error_wrap(MR_CORRUPT, "the broker at %s", joining->path);
    if (out->head.kind == BROKER_WIRE_END) return error_set((mr_status)out->cause.status, "%s", out->cause.text);
    if (out->head.kind != BROKER_WIRE_WELCOME || (packet->fd_count != 1 && !packet->cut))
        return error_set(MR_CORRUPT, "the broker at %s did not answer with WELCOME", joining->path);
    if (packet->fd_count != 1)
        return error_set(MR_IO, "this process has no free file descriptor: raise its limit (`ulimit -n`)");
    return MR_OK;
}

static mr_status await_welcome(joining *joining, arena *arena, broker_wire *out) {
    fd_packet packet;
    fd_packet_result result;
    do {
        MR_TRY(wait_readable(joining));
        result = fd_packet_receive(joining->fd, &packet);
    } while (result == FD_PACKET_NONE);
    if (result == FD_PACKET_END)
        return error_set(MR_CLOSED,
                         "the broker at %s closed the connection, probably for lack of file descriptors: raise its "
                         "limit (ulimit -n)",
                         joining->path);
    FAILPOINT("guest.welcome");
    mr_status status = read_welcome(joining, &packet, out);
    if (status == MR_OK) status = arena_map(fd_packet_take_fd(&packet), out->welcome.arena_bytes, arena);
    fd_packet_drop(&packet);
    FAILPOINT("guest.mapped");
    return status;
}

/* Avoids page faults at first use; a failure is harmless and ignored. */
static void prepare(const arena *arena, extent part) {
    if (arena_populate(arena, part.offset, part.offset + part.size) != MR_OK) error_clear();
}

static mr_status check_arena(const arena *arena, const broker_wire *welcome) {
    const arena_header *header = (const void *)arena->base;
    const process_block *block = arena_process_block(arena, welcome->head.subject);
    if (header->generation != welcome->welcome.generation || block->process != welcome->welcome.process)
        return error_set(MR_CORRUPT, "the WELCOME of process block %u is of another arena", welcome->head.subject);
    prepare(arena, (extent){.offset = ARENA_PROCESS_BLOCKS_OFFSET + welcome->head.subject * sizeof *block,
                            .size = sizeof *block});
    return MR_OK;
}

/* ---- Descriptors to watch. */

static mr_status watch(int epoll_fd, int operation, int fd, uint32_t events) {
    struct epoll_event event = {.events = events, .data.fd = fd};
    if (epoll_ctl(epoll_fd, operation, fd, &event) != 0) return error_errno("cannot watch the broker (fd %d)", fd);
    return MR_OK;
}

static void want_writable(broker_client *client, bool wanted) {
    if (client->writable_wanted == wanted) return;
    client->writable_wanted = wanted;
    mr_status status = watch(client->epoll_fd, EPOLL_CTL_MOD, client->fd, wanted ? EPOLLIN | EPOLLOUT : EPOLLIN);
    MR_ASSERT(status == MR_OK);
}

static mr_status watch_broker(broker_client *client, const joining *joining) {
    client->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (client->epoll_fd < 0) return error_errno("cannot watch the broker at %s", joining->path);
    MR_TRY(watch(client->epoll_fd, EPOLL_CTL_ADD, joining->fd, EPOLLIN));
    if (pidfd_of_peer(joining->fd, joining->broker_pid, &client->broker_pidfd) != MR_OK) {
        client->broker_pidfd = PIDFD_NONE;
        return MR_OK;
    }
    return watch(client->epoll_fd, EPOLL_CTL_ADD, client->broker_pidfd.fd, EPOLLIN);
}

static mr_status join(joining *joining, const char *name, int event_fd, broker_client *made) {
    broker_wire welcome;
    MR_TRY(call_broker(joining));
    MR_TRY(check_broker(joining));
    if (fcntl(joining->fd, F_SETFL, O_NONBLOCK) != 0) return error_errno("cannot join the broker at %s", joining->path);
    MR_TRY(greet(joining, name, event_fd));
    MR_TRY(await_welcome(joining, &made->arena, &welcome));
    MR_TRY(check_arena(&made->arena, &welcome));
    MR_TRY(watch_broker(made, joining));
    made->process_block = welcome.head.subject;
    made->process = welcome.welcome.process;
    made->broker_pid = joining->broker_pid;
    return MR_OK;
}

static void free_peer(broker_client *client) {
    arena_unmap(&client->arena);
    fd_packet_queue_fini(&client->queue);
    pidfd_close(&client->broker_pidfd);
    if (client->epoll_fd >= 0) close(client->epoll_fd);
    free(client);
}

mr_status broker_client_join(const char *path, const char *name, int event_fd, int64_t timeout_us,
                             broker_client **out) {
    MR_ASSERT(path != NULL && event_fd >= 0 && out != NULL);
    if (name == NULL) name = "";
    MR_TRY(broker_wire_check_name(name));
    int flags = fcntl(event_fd, F_GETFL);
    if (flags < 0 || !(flags & O_NONBLOCK)) return error_set(MR_INVALID, "event fd %d must be non-blocking", event_fd);
    joining joining = {.path = path, .deadline_us = clock_deadline_us(clock_now_us(clock_real()), timeout_us)};
    joining.fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (joining.fd < 0) return error_errno("cannot join the broker at %s", path);
    broker_client *made =
        XNEW(broker_client, .fd = joining.fd, .epoll_fd = -1, .broker_pidfd = PIDFD_NONE, .pid = getpid());
    fd_packet_queue_init(&made->queue);
    mr_status status = join(&joining, name, event_fd, made);
    if (status != MR_OK) {
        free_peer(made); /* the mapping first: the broker takes the socket's end for the end of use */
        close(joining.fd);
        return status;
    }
    FAILPOINT("guest.joined");
    *out = made;
    return MR_OK;
}

/* A broker with too many unsent messages for this client does not read: they are read and dropped until BYE is sent. */
static void say_bye(int fd) {
    broker_wire message = broker_wire_of(BROKER_WIRE_BYE, 0);
    int64_t deadline = clock_now_us(clock_real()) + BYE_US_MAX, now;
    while (fd_packet_send(fd, &message, -1) == EAGAIN && (now = clock_now_us(clock_real())) < deadline) {
        struct pollfd wait = {.fd = fd, .events = POLLIN | POLLOUT};
        (void)poll(&wait, 1, (int)((deadline - now) / 1000 + 1));
        fd_packet packet;
        while (fd_packet_receive(fd, &packet) == FD_PACKET_OK) fd_packet_drop(&packet);
    }
}

void broker_client_leave(broker_client *client) {
    if (client == NULL) return;
    int fd = client->fd;
    bool here = !client->gone && client->pid == getpid();
    free_peer(client); /* first: after BYE the broker reuses this client's rings */
    FAILPOINT("guest.leave");
    if (here) say_bye(fd);
    FAILPOINT("guest.left");
    close(fd);
}

const arena *broker_client_arena(const broker_client *client) { return &client->arena; }
uint32_t broker_client_process_block(const broker_client *client) { return client->process_block; }
uint64_t broker_client_process(const broker_client *client) { return client->process; }
int broker_client_fd(const broker_client *client) { return client->epoll_fd; }

/* ---- Requests. */

static void broker_is_gone(broker_client *client, mr_status status, const char *text) {
    if (client->gone) return;
    client->gone = true;
    cause_set(&client->gone_why, status, "%s", text);
    client->gone_why.pid = client->broker_pid;
    fd_packet_queue_fini(&client->queue);
}

static mr_status closed(int broker) { return error_set(MR_CLOSED, "the broker (process %d) has ended", broker); }

static mr_status ask(broker_client *client, const broker_wire *message) {
    MR_ASSERT(client->pid == getpid());
    if (client->gone) return closed(client->broker_pid);
    int error = client->queue.count > 0 ? EAGAIN : fd_packet_send(client->fd, message, -1);
    if (error == 0) return MR_OK;
    if (error != EAGAIN) return closed(client->broker_pid); /* broker_client_poll will read the cause */
    error = fd_packet_queue_add(&client->queue, message, -1, QUEUE_MAX);
    if (error == ENOBUFS) return error_set(MR_BUSY, "the queue to the broker is full (%d requests)", QUEUE_MAX);
    MR_ASSERT(error == 0);
    want_writable(client, true);
    return MR_OK;
}

mr_status broker_client_connect(broker_client *client, uint64_t process, uint32_t tag) {
    MR_ASSERT(tag != 0);
    if (process == 0) return error_set(MR_INVALID, "process id 0 is not valid");
    broker_wire message = broker_wire_of(BROKER_WIRE_CONNECT, tag);
    message.connect.process = process;
    FAILPOINT("guest.ask_link");
    mr_status status = ask(client, &message);
    FAILPOINT("guest.asked_link");
    return status;
}

mr_status broker_client_connect_name(broker_client *client, const char *name, uint32_t tag) {
    MR_ASSERT(tag != 0);
    MR_TRY(broker_wire_check_name(name));
    if (name[0] == '\0') return error_set(MR_INVALID, "cannot connect to a process: its name is empty");
    broker_wire message = broker_wire_of(BROKER_WIRE_CONNECT, tag);
    strcpy(message.connect.name, name);
    FAILPOINT("guest.ask_link_name");
    return ask(client, &message);
}

mr_status broker_client_resize(broker_client *client, uint32_t link, uint64_t size) {
    if (size == 0) return error_set(MR_INVALID, "a ring of 0 bytes for link %u", link);
    broker_wire message = broker_wire_of(BROKER_WIRE_RESIZE, link);
    message.resize.bytes = size;
    FAILPOINT("guest.ask_resize");
    mr_status status = ask(client, &message);
    FAILPOINT("guest.asked_resize");
    return status;
}

mr_status broker_client_release(broker_client *client, uint32_t link, extent ring) {
    broker_wire message = broker_wire_of(BROKER_WIRE_RELEASE, link);
    message.ring.ring = ring;
    FAILPOINT("guest.release");
    return ask(client, &message);
}

static mr_status close_link(broker_client *client, uint32_t link, bool no_descriptor) {
    broker_wire message = broker_wire_of(BROKER_WIRE_CLOSE, link);
    message.close.no_descriptor = no_descriptor;
    FAILPOINT("guest.close");
    mr_status status = ask(client, &message);
    FAILPOINT("guest.closed");
    return status;
}

mr_status broker_client_close(broker_client *client, uint32_t link) { return close_link(client, link, false); }

/* ---- Messages from the broker. */

/* Checks a message's extents against the arena before it is passed on. */
static mr_status check_message(const broker_client *client, const broker_wire *message) {
    bool fits = true;
    if (message->head.kind == BROKER_WIRE_LINK)
        fits = arena_holds(&client->arena, message->link.send) && arena_holds(&client->arena, message->link.receive);
    if (message->head.kind == BROKER_WIRE_RESIZED && message->ring.ring.size > 0)
        fits = arena_holds(&client->arena, message->ring.ring);
    return fits ? MR_OK : error_set(MR_CORRUPT, "the broker's link %u is outside the arena", message->head.subject);
}

static void refuse_link(broker_client *client, const broker_wire *message, const broker_client_events *events,
                        void *context) {
    cause why;
    cause_set(&why, MR_IO, "this process has no free file descriptor: raise its limit (`ulimit -n`)");
    uint32_t tag = message->link.tag;
    if (close_link(client, message->head.subject, true) != MR_OK) broker_is_gone(client, MR_IO, why.text);
    if (tag != 0) events->on_refused(context, tag, &why);
}

static void new_link(broker_client *client, const broker_wire *message, fd_packet *packet,
                     const broker_client_events *events, void *context) {
    FAILPOINT("guest.link");
    int fd = fd_packet_take_fd(packet);
    if (fd < 0 && packet->cut) {
        refuse_link(client, message, events, context);
        return;
    }
    if (fd < 0) {
        broker_is_gone(client, MR_CORRUPT, "malformed message from the broker: a link without a descriptor");
        return;
    }
    const broker_wire_link *said = &message->link;
    broker_client_link link = {.link = said->head.subject,
                               .tag = said->tag,
                               .peer_process_block = said->process_block,
                               .peer = {.process = said->process, .pid = (int)said->pid},
                               .send = said->send,
                               .receive = said->receive,
                               .peer_event_fd = fd};
    memcpy(link.peer.name, said->name, sizeof link.peer.name);
    prepare(&client->arena, link.send);
    prepare(&client->arena, link.receive);
    events->on_link(context, &link);
}

static void dispatch(broker_client *client, fd_packet *packet, const broker_client_events *events, void *context) {
    broker_wire message;
    mr_status status = broker_wire_decode(true, packet->data, packet->size, &message);
    if (status == MR_OK) status = check_message(client, &message);
    if (status != MR_OK) {
        broker_is_gone(client, MR_CORRUPT, mr_last_error());
        return;
    }
    cause why;
    switch (message.head.kind) {
    case BROKER_WIRE_LINK: new_link(client, &message, packet, events, context); break;
    case BROKER_WIRE_RESIZED:
        FAILPOINT("guest.resized");
        if (message.ring.ring.size > 0) prepare(&client->arena, message.ring.ring);
        events->on_resized(context, message.head.subject, message.ring.ring);
        break;
    case BROKER_WIRE_REFUSED:
        broker_wire_get_cause(&message, &why);
        events->on_refused(context, message.head.subject, &why);
        break;
    case BROKER_WIRE_GONE:
        FAILPOINT("guest.gone");
        broker_wire_get_cause(&message, &why);
        events->on_gone(context, message.head.subject, &why);
        break;
    case BROKER_WIRE_END: broker_is_gone(client, (mr_status)message.cause.status, message.cause.text); break;
    default: broker_is_gone(client, MR_CORRUPT, "malformed message from the broker: a second WELCOME"); break;
    }
}

static void flush(broker_client *client) {
    if (client->queue.count == 0) return;
    (void)fd_packet_queue_flush(&client->queue, client->fd); /* an end is detected when reading */
    want_writable(client, client->queue.count > 0);
}

static bool has_ended(const broker_client *client) {
    return client->broker_pidfd.fd >= 0 && pidfd_ended(&client->broker_pidfd);
}

static void broker_ended(broker_client *client) {
    char text[128], how[64] = "has ended";
    int status;
    if (client->broker_pidfd.fd < 0 || !pidfd_await(&client->broker_pidfd, END_MS_MAX)) {
        snprintf(text, sizeof text, "process %d closed the connection: it has ended, or dropped this process",
                 client->broker_pid);
        broker_is_gone(client, MR_PEER_DIED, text);
        return;
    }
    bool is_known = pidfd_wait_status(&client->broker_pidfd, &status);
    if (is_known) pidfd_status_text(status, how, sizeof how);
    snprintf(text, sizeof text, "process %d %s", client->broker_pid, how);
    broker_is_gone(client, MR_PEER_DIED, text);
    if (is_known && WIFSIGNALED(status)) client->gone_why.signal = WTERMSIG(status);
    if (is_known && WIFEXITED(status)) client->gone_why.exit_code = WEXITSTATUS(status);
}

static void listen_to_broker(broker_client *client, const broker_client_events *events, void *context) {
    while (!client->gone) {
        fd_packet packet;
        fd_packet_result result = fd_packet_receive(client->fd, &packet);
        /* All messages of the broker have been read. If its process has ended and the socket is still open, a fork of
           the broker has it. */
        if (result == FD_PACKET_END || (result == FD_PACKET_NONE && has_ended(client))) {
            broker_ended(client);
            return;
        }
        if (result == FD_PACKET_NONE) return;
        dispatch(client, &packet, events, context);
        fd_packet_drop(&packet);
    }
}

static bool anything_new(const broker_client *client) {
    struct epoll_event events[2];
    return epoll_wait(client->epoll_fd, events, 2, 0) != 0; /* an error is detected when reading */
}

void broker_client_poll(broker_client *client, const broker_client_events *events, void *context) {
    if (client->gone_told || (!client->gone && !anything_new(client))) return;
    flush(client);
    listen_to_broker(client, events, context);
    if (!client->gone) return;
    client->gone_told = true;
    FAILPOINT("guest.hub_gone");
    events->on_broker_gone(context, &client->gone_why);
}
