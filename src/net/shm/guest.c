/* guest.c — see guest.h.
 *
 * The descriptor of guest_fd is an epoll descriptor: it is readable when the hub said something, when the hub's process
 * has ended (its pidfd; a fork of the hub may hold the socket open after it), and, while requests wait for room in the
 * socket, when there is room. */
#include "net/shm/guest.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
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
#include "net/shm/hub_packet.h"
#include "net/unix_listener.h"

enum {
    QUEUE_MAX = 4096,        /* requests that the hub has not taken; MR_BUSY beyond */
    BYE_US_MAX = 100 * 1000, /* how long to try to say goodbye to a hub that does not listen */
};

struct guest {
    arena arena;
    int fd, epoll_fd; /* owned */
    int hub_pidfd;    /* owned; -1: the kernel has none to give */
    int hub_pid;
    int pid; /* of the process that joined: a fork of it is no guest */
    uint32_t station;
    uint64_t process;
    packet_queue queue;
    bool writable_wanted;
    bool gone; /* the hub is; nothing is sent any more */
    bool gone_told;
    cause gone_why;
};

/* ---- Joining. */

typedef struct joining {
    const char *path;
    int64_t deadline_us;
    int fd;
    int hub_pid;
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

static mr_status call_hub(joining *joining) {
    struct sockaddr_un address;
    MR_TRY(unix_listener_address(joining->path, &address));
    /* A full backlog makes a blocking connect wait, for as long as sending may. */
    int64_t wait = left_us(joining);
    if (wait == 0) wait = 1; /* 0 would be for ever */
    struct timeval timeout = {.tv_sec = wait / 1000000, .tv_usec = wait % 1000000};
    if (setsockopt(joining->fd, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof timeout) != 0)
        return error_errno("cannot join the broker at %s", joining->path);
    FAILPOINT("guest.connect");
    if (TEMP_FAILURE_RETRY(connect(joining->fd, (const void *)&address, sizeof address)) != 0)
        return connect_failed(joining->path);
    FAILPOINT("guest.connected");
    return MR_OK;
}

/* Whoever made the socket's file could be anybody: memory is shared with our own user and with root only. */
static mr_status check_hub(joining *joining) {
    struct ucred who;
    socklen_t size = sizeof who;
    if (getsockopt(joining->fd, SOL_SOCKET, SO_PEERCRED, &who, &size) != 0)
        return error_errno("cannot get the user of the broker at %s", joining->path);
    if (who.uid != geteuid() && who.uid != 0 && geteuid() != 0)
        return error_set(MR_DENIED, "the broker at %s belongs to user %u, this process to user %u", joining->path,
                         (unsigned)who.uid, (unsigned)geteuid());
    joining->hub_pid = (int)who.pid;
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
                             joining->path, joining->hub_pid);
        if (errno != EINTR) return error_errno("cannot wait for the broker at %s", joining->path);
    }
}

static mr_status greet(joining *joining, const char *name, int event_fd) {
    wire message;
    wire_begin(&message, WIRE_HELLO, 0);
    message.hello.magic = HUB_WIRE_MAGIC;
    strcpy(message.hello.name, name);
    int error = packet_send(joining->fd, &message, event_fd);
    FAILPOINT("guest.hello");
    /* A hub that refuses may have closed already: what it said is still to be read. */
    if (error == 0 || error == EPIPE || error == ECONNRESET) return MR_OK;
    errno = error;
    return error_errno("cannot send HELLO to the broker at %s", joining->path);
}

static mr_status read_welcome(const joining *joining, packet *packet, wire *out) {
    if (wire_decode(true, packet->data, packet->size, out) != MR_OK)
        return error_wrap(MR_CORRUPT, "the broker at %s", joining->path);
    if (out->head.kind == WIRE_END) return error_set((mr_status)out->cause.status, "%s", out->cause.text);
    if (out->head.kind != WIRE_WELCOME || (packet->fd_count != 1 && !packet->cut))
        return error_set(MR_CORRUPT, "the broker at %s did not answer with WELCOME", joining->path);
    if (packet->fd_count != 1)
        return error_set(MR_IO, "this process has no free file descriptor: raise its limit (`ulimit -n`)");
    return MR_OK;
}

static mr_status await_welcome(joining *joining, arena *arena, wire *out) {
    packet packet;
    packet_result result;
    do {
        MR_TRY(wait_readable(joining));
        result = packet_receive(joining->fd, &packet);
    } while (result == PACKET_NONE);
    if (result == PACKET_END)
        return error_set(MR_CLOSED,
                         "the broker at %s closed the connection, probably for lack of file descriptors: raise its "
                         "limit (ulimit -n)",
                         joining->path);
    FAILPOINT("guest.welcome");
    mr_status status = read_welcome(joining, &packet, out);
    if (status == MR_OK) status = arena_map(packet_take_fd(&packet), out->welcome.arena_bytes, arena);
    packet_drop(&packet);
    FAILPOINT("guest.mapped");
    return status;
}

/* Saves page faults at first use, no more: where it fails everything still works. */
static void prepare(const arena *arena, extent part) {
    if (arena_populate(arena, part.offset, part.offset + part.size) != MR_OK) error_clear();
}

static mr_status check_arena(const arena *arena, const wire *welcome) {
    const arena_header *header = (const void *)arena->base;
    const station *station = arena_station(arena, welcome->head.subject);
    if (header->generation != welcome->welcome.generation || station->process != welcome->welcome.process)
        return error_set(MR_CORRUPT, "the WELCOME of process block %u is of another arena", welcome->head.subject);
    prepare(arena, (extent){.offset = ARENA_STATIONS_OFFSET + welcome->head.subject * sizeof *station,
                            .size = sizeof *station});
    return MR_OK;
}

/* ---- Watching. */

static mr_status watch(int epoll_fd, int operation, int fd, uint32_t events) {
    struct epoll_event event = {.events = events, .data.fd = fd};
    if (epoll_ctl(epoll_fd, operation, fd, &event) != 0) return error_errno("cannot watch the broker (fd %d)", fd);
    return MR_OK;
}

static void want_writable(guest *guest, bool wanted) {
    if (guest->writable_wanted == wanted) return;
    guest->writable_wanted = wanted;
    mr_status status = watch(guest->epoll_fd, EPOLL_CTL_MOD, guest->fd, wanted ? EPOLLIN | EPOLLOUT : EPOLLIN);
    MR_ASSERT(status == MR_OK);
}

static mr_status watch_hub(guest *guest, const joining *joining) {
    guest->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (guest->epoll_fd < 0) return error_errno("cannot watch the broker at %s", joining->path);
    mr_status status = watch(guest->epoll_fd, EPOLL_CTL_ADD, joining->fd, EPOLLIN);
    if (status != MR_OK) return status;
    if (pidfd_of_peer(joining->fd, joining->hub_pid, &guest->hub_pidfd) != MR_OK) {
        guest->hub_pidfd = -1;
        return MR_OK;
    }
    return watch(guest->epoll_fd, EPOLL_CTL_ADD, guest->hub_pidfd, EPOLLIN);
}

static mr_status join(joining *joining, const char *name, int event_fd, guest *made) {
    wire welcome;
    MR_TRY(call_hub(joining));
    MR_TRY(check_hub(joining));
    if (fcntl(joining->fd, F_SETFL, O_NONBLOCK) != 0) return error_errno("cannot join the broker at %s", joining->path);
    MR_TRY(greet(joining, name, event_fd));
    MR_TRY(await_welcome(joining, &made->arena, &welcome));
    MR_TRY(check_arena(&made->arena, &welcome));
    MR_TRY(watch_hub(made, joining));
    made->station = welcome.head.subject;
    made->process = welcome.welcome.process;
    made->hub_pid = joining->hub_pid;
    return MR_OK;
}

static void free_guest(guest *guest) {
    arena_unmap(&guest->arena);
    packet_queue_fini(&guest->queue);
    if (guest->hub_pidfd >= 0) close(guest->hub_pidfd);
    if (guest->epoll_fd >= 0) close(guest->epoll_fd);
    free(guest);
}

mr_status guest_join(const char *path, const char *name, int event_fd, int64_t timeout_us, guest **out) {
    MR_ASSERT(path != NULL && event_fd >= 0 && out != NULL);
    if (name == NULL) name = "";
    MR_TRY(wire_check_name(name));
    int flags = fcntl(event_fd, F_GETFL);
    if (flags < 0 || !(flags & O_NONBLOCK)) return error_set(MR_INVALID, "event fd %d must be non-blocking", event_fd);
    joining joining = {.path = path, .deadline_us = clock_deadline_us(clock_now_us(clock_real()), timeout_us)};
    joining.fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (joining.fd < 0) return error_errno("cannot join the broker at %s", path);
    guest *made = xcalloc(1, sizeof *made);
    made->fd = joining.fd;
    made->epoll_fd = made->hub_pidfd = -1;
    made->pid = getpid();
    packet_queue_init(&made->queue);
    mr_status status = join(&joining, name, event_fd, made);
    if (status != MR_OK) {
        free_guest(made); /* the mapping before the socket: the hub takes its end for the end of our use */
        close(joining.fd);
        return status;
    }
    FAILPOINT("guest.joined");
    *out = made;
    return MR_OK;
}

/* A hub that has too much to tell us does not listen: so what it says is read, and dropped, until goodbye is out. */
static void say_bye(int fd) {
    wire message;
    wire_begin(&message, WIRE_BYE, 0);
    int64_t deadline = clock_now_us(clock_real()) + BYE_US_MAX, now;
    while (packet_send(fd, &message, -1) == EAGAIN && (now = clock_now_us(clock_real())) < deadline) {
        struct pollfd wait = {.fd = fd, .events = POLLIN | POLLOUT};
        (void)poll(&wait, 1, (int)((deadline - now) / 1000 + 1));
        packet packet;
        while (packet_receive(fd, &packet) == PACKET_OK) packet_drop(&packet);
    }
}

void guest_leave(guest *guest) {
    if (guest == NULL) return;
    int fd = guest->fd;
    bool here = !guest->gone && guest->pid == getpid();
    free_guest(guest); /* first: after BYE the hub gives our rings to others */
    FAILPOINT("guest.leave");
    if (here) say_bye(fd);
    FAILPOINT("guest.left");
    close(fd);
}

const arena *guest_arena(const guest *guest) { return &guest->arena; }
uint32_t guest_station(const guest *guest) { return guest->station; }
uint64_t guest_process(const guest *guest) { return guest->process; }
int guest_fd(const guest *guest) { return guest->epoll_fd; }

/* ---- Requests. */

static void hub_is_gone(guest *guest, mr_status status, const char *text) {
    if (guest->gone) return;
    guest->gone = true;
    cause_set(&guest->gone_why, status, "%s", text);
    guest->gone_why.pid = guest->hub_pid;
    packet_queue_fini(&guest->queue);
}

static mr_status closed(int broker) { return error_set(MR_CLOSED, "the broker (process %d) has ended", broker); }

static mr_status ask(guest *guest, const wire *message) {
    MR_ASSERT(guest->pid == getpid());
    if (guest->gone) return closed(guest->hub_pid);
    int error = guest->queue.count > 0 ? EAGAIN : packet_send(guest->fd, message, -1);
    if (error == 0) return MR_OK;
    if (error != EAGAIN) return closed(guest->hub_pid); /* guest_poll will read why */
    error = packet_queue_add(&guest->queue, message, -1, QUEUE_MAX);
    if (error == ENOBUFS) return error_set(MR_BUSY, "the queue to the broker is full (%d requests)", QUEUE_MAX);
    MR_ASSERT(error == 0);
    want_writable(guest, true);
    return MR_OK;
}

mr_status guest_connect(guest *guest, uint64_t process, uint32_t tag) {
    MR_ASSERT(tag != 0);
    if (process == 0) return error_set(MR_INVALID, "process id 0 is not valid");
    wire message;
    wire_begin(&message, WIRE_CONNECT, tag);
    message.connect.process = process;
    FAILPOINT("guest.ask_link");
    mr_status status = ask(guest, &message);
    FAILPOINT("guest.asked_link");
    return status;
}

mr_status guest_connect_name(guest *guest, const char *name, uint32_t tag) {
    MR_ASSERT(tag != 0);
    MR_TRY(wire_check_name(name));
    if (name[0] == '\0') return error_set(MR_INVALID, "cannot connect to a process: its name is empty");
    wire message;
    wire_begin(&message, WIRE_CONNECT, tag);
    strcpy(message.connect.name, name);
    FAILPOINT("guest.ask_link_name");
    return ask(guest, &message);
}

mr_status guest_resize(guest *guest, uint32_t link, uint64_t size) {
    if (size == 0) return error_set(MR_INVALID, "a ring of 0 bytes for link %u", link);
    wire message;
    wire_begin(&message, WIRE_RESIZE, link);
    message.resize.bytes = size;
    FAILPOINT("guest.ask_resize");
    mr_status status = ask(guest, &message);
    FAILPOINT("guest.asked_resize");
    return status;
}

mr_status guest_release(guest *guest, uint32_t link, extent ring) {
    wire message;
    wire_begin(&message, WIRE_RELEASE, link);
    message.ring.ring = ring;
    FAILPOINT("guest.release");
    return ask(guest, &message);
}

static mr_status close_link(guest *guest, uint32_t link, bool no_descriptor) {
    wire message;
    wire_begin(&message, WIRE_CLOSE, link);
    message.close.no_descriptor = no_descriptor;
    FAILPOINT("guest.close");
    mr_status status = ask(guest, &message);
    FAILPOINT("guest.closed");
    return status;
}

mr_status guest_close(guest *guest, uint32_t link) { return close_link(guest, link, false); }

/* ---- Answers. */

/* Everything that was said is checked against the arena before it is passed on. */
static mr_status check_message(const guest *guest, const wire *message) {
    bool fits = true;
    if (message->head.kind == WIRE_LINK)
        fits = arena_holds(&guest->arena, message->link.send) && arena_holds(&guest->arena, message->link.receive);
    if (message->head.kind == WIRE_RESIZED && message->ring.ring.size > 0)
        fits = arena_holds(&guest->arena, message->ring.ring);
    return fits ? MR_OK : error_set(MR_CORRUPT, "the broker's link %u is outside the arena", message->head.subject);
}

static void refuse_link(guest *guest, const wire *message, const guest_events *events, void *context) {
    cause why;
    cause_set(&why, MR_IO, "this process has no free file descriptor: raise its limit (`ulimit -n`)");
    uint32_t tag = message->link.tag;
    if (close_link(guest, message->head.subject, true) != MR_OK) hub_is_gone(guest, MR_IO, why.text);
    if (tag != 0) events->on_refused(context, tag, &why);
}

static void new_link(guest *guest, const wire *message, packet *packet, const guest_events *events, void *context) {
    FAILPOINT("guest.link");
    int fd = packet_take_fd(packet);
    if (fd < 0 && packet->cut) {
        refuse_link(guest, message, events, context);
        return;
    }
    if (fd < 0) {
        hub_is_gone(guest, MR_CORRUPT, "malformed message from the broker: a link without a descriptor");
        return;
    }
    const wire_link *said = &message->link;
    guest_link link = {.link = said->head.subject,
                       .tag = said->tag,
                       .peer_station = said->station,
                       .peer = {.process = said->process, .pid = (int)said->pid},
                       .send = said->send,
                       .receive = said->receive,
                       .peer_event_fd = fd};
    memcpy(link.peer.name, said->name, sizeof link.peer.name);
    prepare(&guest->arena, link.send);
    prepare(&guest->arena, link.receive);
    events->on_link(context, &link);
}

static void dispatch(guest *guest, packet *packet, const guest_events *events, void *context) {
    wire message;
    mr_status status = wire_decode(true, packet->data, packet->size, &message);
    if (status == MR_OK) status = check_message(guest, &message);
    if (status != MR_OK) {
        hub_is_gone(guest, MR_CORRUPT, mr_last_error());
        return;
    }
    cause why;
    switch (message.head.kind) {
    case WIRE_LINK: new_link(guest, &message, packet, events, context); break;
    case WIRE_RESIZED:
        FAILPOINT("guest.resized");
        if (message.ring.ring.size > 0) prepare(&guest->arena, message.ring.ring);
        events->on_resized(context, message.head.subject, message.ring.ring);
        break;
    case WIRE_REFUSED:
        wire_get_cause(&message, &why);
        events->on_refused(context, message.head.subject, &why);
        break;
    case WIRE_GONE:
        FAILPOINT("guest.gone");
        wire_get_cause(&message, &why);
        events->on_gone(context, message.head.subject, &why);
        break;
    case WIRE_END: hub_is_gone(guest, (mr_status)message.cause.status, message.cause.text); break;
    default: hub_is_gone(guest, MR_CORRUPT, "malformed message from the broker: a second WELCOME"); break;
    }
}

static void flush(guest *guest) {
    if (guest->queue.count == 0) return;
    (void)packet_queue_flush(&guest->queue, guest->fd); /* an end is met when reading */
    want_writable(guest, guest->queue.count > 0);
}

static void hub_ended(guest *guest) {
    int status;
    bool ended = guest->hub_pidfd >= 0 && pidfd_ended(guest->hub_pidfd);
    if (!ended) {
        hub_is_gone(guest, MR_PEER_DIED, "the broker closed the connection: it ended, or dropped this process");
        return;
    }
    hub_is_gone(guest, MR_PEER_DIED, "the broker's process has ended");
    if (!pidfd_wait_status(guest->hub_pidfd, guest->hub_pid, &status)) return;
    if (WIFSIGNALED(status))
        guest->gone_why.signal = WTERMSIG(status);
    else
        guest->gone_why.exit_code = WEXITSTATUS(status);
}

static void listen_to_hub(guest *guest, const guest_events *events, void *context) {
    while (!guest->gone) {
        packet packet;
        packet_result result = packet_receive(guest->fd, &packet);
        /* All it ever said has been read. If the socket is still open after its end, a fork of the hub holds it. */
        if (result == PACKET_NONE && guest->hub_pidfd >= 0 && pidfd_ended(guest->hub_pidfd)) result = PACKET_END;
        if (result == PACKET_NONE) return;
        if (result == PACKET_END) {
            hub_ended(guest);
            return;
        }
        dispatch(guest, &packet, events, context);
        packet_drop(&packet);
    }
}

static bool anything_new(const guest *guest) {
    struct epoll_event events[2];
    return epoll_wait(guest->epoll_fd, events, 2, 0) != 0; /* an error is met when reading */
}

void guest_poll(guest *guest, const guest_events *events, void *context) {
    if (guest->gone_told || (!guest->gone && !anything_new(guest))) return;
    flush(guest);
    listen_to_hub(guest, events, context);
    if (!guest->gone) return;
    guest->gone_told = true;
    FAILPOINT("guest.hub_gone");
    events->on_hub_gone(context, &guest->gone_why);
}
