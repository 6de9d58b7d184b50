/* hub_guest.c — processes attached to the broker: arrivals, departures and deaths; the records are described in
 * hub_state.h.
 *
 * How an end is known          what is waited for            what others are told
 * ---------------------------  ----------------------------  -----------------------------------------
 * BYE                          nothing                       MR_CLOSED
 * pidfd, cause known           nothing                       MR_PEER_DIED, signal or exit code
 * pidfd of a child, no cause   hub_note_exit, HUB_GRACE_US   the same, or "exit status is not known"
 * end of file alone            pidfd, HUB_GRACE_US           as pidfd, or MR_CLOSED "without saying goodbye"
 * doomed: it said nonsense     nothing                       what it did; its rings stay until one of the above
 *
 * Tested by src/net/shm/guest_test.c. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/failpoint.h"
#include "base/log.h"
#include "net/pidfd.h"
#include "net/shm/bell.h"
#include "net/shm/hub_state.h"

enum { LAST_WORDS_MAX = 4096 }; /* more than a socket holds */

/* ---- Records and descriptors. */

static void close_fd(int *fd) {
    if (*fd >= 0) close(*fd);
    *fd = -1;
}

/* Neither heard nor woken any more. */
static void let_go(hub_guest *guest) {
    loop_watch_remove(guest->socket_watch);
    loop_watch_remove(guest->pid_watch);
    guest->socket_watch = guest->pid_watch = NULL;
    close_fd(&guest->fd);
    close_fd(&guest->pidfd);
    close_fd(&guest->event_fd);
}

static void set_deadline(hub_guest *guest, int64_t delay_us) {
    heap_add(&guest->hub->deadlines, &guest->deadline, loop_now_us(guest->hub->loop) + delay_us);
}

static void leave_books(hub_guest *guest) {
    hub *hub = guest->hub;
    if (guest->state == HUB_STRANGER) hub->strangers--;
    if (guest->state == HUB_MEMBER) {
        hub->members--;
        map_remove(&hub->processes, guest->process);
    }
}

static void free_station(hub_guest *guest) {
    station *station = arena_station(&guest->hub->arena, guest->station);
    guest->hub->stations[guest->station] = NULL;
    atomic_store(&station->state, STATION_FREE);
}

static void ring(hub_guest *guest) {
    station *station = arena_station(&guest->hub->arena, guest->station);
    bell_mark(station, STATION_HUB_INDEX);
    bell_ring(station, guest->event_fd);
}

static void say_end(hub_guest *guest, const cause *why) {
    if (guest->fd < 0 || guest->queue.count > 0) return; /* it reads the end of file when it reads again */
    wire message;
    wire_begin(&message, WIRE_END, 0);
    wire_put_cause(&message, why);
    (void)packet_send(guest->fd, &message, -1);
}

void hub_guest_free(hub_guest *guest, const cause *why) {
    MR_ASSERT(list_empty(&guest->links));
    if (why != NULL) say_end(guest, why);
    if (why != NULL && guest->state == HUB_MEMBER) ring(guest);
    leave_books(guest);
    if (guest->state != HUB_STRANGER) free_station(guest);
    list_remove(&guest->place);
    list_remove(&guest->doomed_place);
    heap_remove(&guest->hub->deadlines, &guest->deadline);
    packet_queue_fini(&guest->queue);
    let_go(guest);
    free(guest);
}

void hub_guest_forget(hub_guest *guest) {
    if (guest->state == HUB_GHOST && guest->harmless && list_empty(&guest->links)) hub_guest_free(guest, NULL);
}

/* ---- Telling.
 *
 * A guest that does not read is not waited for. While too much is queued for it, the hub reads none of its requests,
 * and whoever asks for a link to it is refused (hub_link.c): so the queue is bounded by what it has to be told in any
 * case, the ends of its links. */

bool hub_guest_reads(const hub_guest *guest) { return guest->queue.askings < HUB_QUEUE_MAX; }

static void watch_what_matters(hub_guest *guest) {
    if (!guest->at_end) loop_watch_set(guest->socket_watch, hub_guest_reads(guest), guest->queue.count > 0);
}

static void tell_failed(hub_guest *guest, int error) {
    if (error == EPIPE || error == ECONNRESET || error == ENOTCONN) /* its end is there to be read */
        packet_queue_fini(&guest->queue);
    else
        hub_guest_doom(guest, MR_IO, "cannot send to process %d: %s", guest->pid, strerror(error));
}

void hub_tell(hub_guest *guest, const wire *message, int fd) {
    if (guest->state != HUB_MEMBER || guest->doom.status != MR_OK) return;
    int error = guest->queue.count > 0 ? EAGAIN : packet_send(guest->fd, message, fd);
    if (error == EAGAIN) error = packet_queue_add(&guest->queue, message, fd, 2 * HUB_QUEUE_MAX);
    if (error != 0) tell_failed(guest, error);
    if (error != 0 || guest->queue.count > 0) watch_what_matters(guest);
    ring(guest);
}

static void flush(hub_guest *guest) {
    int error = packet_queue_flush(&guest->queue, guest->fd);
    if (error != 0 && error != EAGAIN) tell_failed(guest, error);
    watch_what_matters(guest);
}

/* ---- Ends. */

/* Others learn of it at once, and nobody finds it any more. */
static void become_ghost(hub_guest *guest, const cause *why) {
    MR_ASSERT(guest->state == HUB_MEMBER);
    leave_books(guest);
    guest->state = HUB_GHOST;
    heap_remove(&guest->hub->deadlines, &guest->deadline);
    packet_queue_fini(&guest->queue);
    atomic_store(&arena_station(&guest->hub->arena, guest->station)->state, STATION_DEAD);
    FAILPOINT("hub.ghost");
    hub_links_tell_gone(guest, why);
}

/* Its process can touch the arena no more: what was only its own is free. */
static void become_harmless(hub_guest *guest) {
    bell_disarm(arena_station(&guest->hub->arena, guest->station)); /* nobody makes way for it */
    let_go(guest);
    hub_links_done(guest);
    guest->harmless = true;
    hub_guest_forget(guest);
}

static void finish(hub_guest *guest, const cause *why) {
    list_remove(&guest->doomed_place);
    if (guest->state == HUB_STRANGER) {
        hub_guest_free(guest, NULL);
        return;
    }
    if (guest->state == HUB_MEMBER) become_ghost(guest, why);
    become_harmless(guest);
}

static const char *called(const hub_guest *guest, char *text, size_t size) {
    snprintf(text, size, guest->name[0] == '\0' ? "process %d" : "process %d (%s)", guest->pid, guest->name);
    return text;
}

static void finish_left(hub_guest *guest, const char *how) {
    char who[PEER_NAME_MAX + 32];
    cause why;
    cause_set(&why, MR_CLOSED, "%s %s", called(guest, who, sizeof who), how);
    why.pid = guest->pid;
    finish(guest, &why);
}

static void cause_of_death(const hub_guest *guest, cause *why) {
    char who[PEER_NAME_MAX + 32];
    called(guest, who, sizeof who);
    int status = guest->wait_status;
    if (!guest->wait_known) {
        cause_set(why, MR_PEER_DIED, "%s ended; its exit status is not known", who);
    } else if (WIFSIGNALED(status)) {
        const char *name = sigabbrev_np(WTERMSIG(status));
        cause_set(why, MR_PEER_DIED, "%s was killed by signal %d (SIG%s)%s", who, WTERMSIG(status),
                  name == NULL ? "?" : name, WCOREDUMP(status) ? ", core dumped" : "");
        why->signal = WTERMSIG(status);
    } else {
        cause_set(why, MR_PEER_DIED, "%s exited with status %d", who, WEXITSTATUS(status));
        why->exit_code = WEXITSTATUS(status);
    }
    why->pid = guest->pid;
    char more[CAUSE_TEXT_MAX - 100] = "";
    if (guest->hub->explain != NULL && guest->wait_known)
        guest->hub->explain(guest->hub->explain_context, guest->pid, status, more, sizeof more);
    size_t used = strlen(why->text);
    snprintf(why->text + used, sizeof why->text - used, "%s", more);
}

static void finish_dead(hub_guest *guest) {
    FAILPOINT("hub.death");
    cause why;
    cause_of_death(guest, &why);
    finish(guest, &why);
}

static void learn_wait_status(hub_guest *guest) {
    if (!guest->wait_known) guest->wait_known = pidfd_wait_status(guest->pidfd, guest->pid, &guest->wait_status);
}

void hub_guest_due(hub_guest *guest) {
    if (guest->state == HUB_STRANGER) {
        cause why;
        cause_set(&why, MR_TIMEOUT, "no HELLO within %d s of connecting", HUB_HELLO_US / 1000000);
        hub_guest_free(guest, &why);
        return;
    }
    bool ended = pidfd_ended(guest->pidfd);
    if (ended) learn_wait_status(guest);
    if (ended)
        finish_dead(guest);
    else
        finish_left(guest, "left without saying goodbye");
}

void hub_guest_doom(hub_guest *guest, mr_status status, const char *format, ...) {
    if (guest->doom.status != MR_OK || guest->state == HUB_GHOST) return;
    va_list arguments;
    va_start(arguments, format);
    cause_set_list(&guest->doom, status, format, arguments);
    va_end(arguments);
    guest->doom.pid = guest->pid;
    list_push_back(&guest->hub->doomed, &guest->doomed_place);
}

/* A member that is dropped may still be running with its rings in its hands, so they stay as they are until it is known
 * to be harmless. */
void hub_guest_drop(hub_guest *guest) {
    if (guest->state == HUB_STRANGER) {
        hub_guest_free(guest, &guest->doom);
        return;
    }
    log_warn("process dropped: %s", guest->doom.text);
    say_end(guest, &guest->doom);
    shutdown(guest->fd, SHUT_WR);
    bool harmless = guest->at_end || pidfd_ended(guest->pidfd);
    cause why = guest->doom;
    become_ghost(guest, &why);
    if (harmless)
        become_harmless(guest);
    else
        loop_watch_set(guest->socket_watch, true, false);
}

/* ---- Hello. */

static bool is_eventfd(int fd) {
    char path[40], target[40] = {0};
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(path, target, sizeof target - 1);
    int flags = fcntl(fd, F_GETFL);
    return length > 0 && strcmp(target, "anon_inode:[eventfd]") == 0 && flags >= 0 && (flags & O_NONBLOCK);
}

hub_guest *hub_guest_find(const hub *hub, const char *name) {
    list_for_each (at, &hub->guests) {
        hub_guest *guest = container_of(at, hub_guest, place);
        if (guest->state == HUB_MEMBER && strcmp(guest->name, name) == 0) return guest;
    }
    return NULL;
}

static mr_status name_is_free(const hub *hub, const char *name) {
    const hub_guest *other = name[0] == '\0' ? NULL : hub_guest_find(hub, name); /* many may have no name */
    if (other != NULL) return error_set(MR_EXISTS, "process %d is already named '%s'", other->pid, name);
    return MR_OK;
}

static mr_status take_station(hub_guest *guest) {
    hub *hub = guest->hub;
    uint32_t index = 0;
    while (index < STATIONS_MAX && hub->stations[index] != NULL) index++;
    if (index == STATIONS_MAX) return error_set(MR_BUSY, "the broker's limit is %d processes", STATIONS_MAX);
    guest->station = index;
    guest->process = hub->process_next++;
    hub->stations[index] = guest;
    station *station = arena_station(&hub->arena, index);
    station->pid = (uint32_t)guest->pid;
    station->process = guest->process;
    atomic_store(&station->sleep, BELL_AWAKE);
    atomic_store(&station->cpu, STATION_CPU_NONE);
    atomic_store(&station->summary, 0);
    for (int i = 0; i < STATION_READY_WORDS; i++) atomic_store(&station->ready[i], 0);
    atomic_store(&station->state, STATION_ALIVE);
    arena_header *header = (void *)hub->arena.base;
    if (index >= atomic_load(&header->seats)) atomic_store(&header->seats, index + 1);
    return MR_OK;
}

static void on_pid(void *context);

static mr_status become_member(hub_guest *guest, const wire *message, packet *packet) {
    hub *hub = guest->hub;
    guest->event_fd = packet_take_fd(packet);
    hub->no_descriptor = packet->cut;
    if (guest->event_fd < 0)
        return packet->cut
                   ? error_set(MR_BUSY, "the broker has no free file descriptor: raise its limit (`ulimit -n`)")
                   : error_set(MR_CORRUPT, "malformed HELLO from process %d: no descriptor attached", guest->pid);
    if (!is_eventfd(guest->event_fd))
        return error_set(MR_INVALID, "HELLO of process %d without an eventfd", guest->pid);
    MR_TRY(name_is_free(hub, message->hello.name));
    MR_TRY(pidfd_of_peer(guest->fd, guest->pid, &guest->pidfd));
    if (pidfd_ended(guest->pidfd)) return error_set(MR_PEER_DIED, "process %d has ended", guest->pid);
    MR_TRY(loop_watch_add(hub->loop, guest->pidfd, on_pid, guest, &guest->pid_watch));
    MR_TRY(take_station(guest));
    memcpy(guest->name, message->hello.name, sizeof guest->name);
    guest->is_child = pidfd_is_child(guest->pid);
    guest->state = HUB_MEMBER;
    hub->strangers--;
    hub->members++;
    map_put(&hub->processes, guest->process, guest);
    heap_remove(&hub->deadlines, &guest->deadline);
    return MR_OK;
}

static void hello(hub_guest *guest, const wire *message, packet *packet) {
    FAILPOINT("hub.hello");
    mr_status status = become_member(guest, message, packet);
    if (status != MR_OK) {
        hub_guest_doom(guest, status, "%s", mr_last_error());
        return;
    }
    const arena *arena = &guest->hub->arena;
    wire answer;
    wire_begin(&answer, WIRE_WELCOME, guest->station);
    answer.welcome.magic = HUB_WIRE_MAGIC;
    answer.welcome.arena_bytes = arena->size;
    answer.welcome.generation = ((const arena_header *)(const void *)arena->base)->generation;
    answer.welcome.process = guest->process;
    FAILPOINT("hub.welcome");
    hub_tell(guest, &answer, arena->fd);
    FAILPOINT("hub.welcomed");
}

/* ---- Listening to one guest. */

static void bye(hub_guest *guest) {
    FAILPOINT("hub.bye");
    guest->at_end = true;
    finish_left(guest, "left");
}

/* False: the guest is gone. */
static bool handle_message(hub_guest *guest, packet *packet) {
    wire message;
    if (wire_decode(false, packet->data, packet->size, &message) != MR_OK) {
        hub_guest_doom(guest, MR_CORRUPT, "malformed message from process %d: %s", guest->pid, mr_last_error());
        return true;
    }
    if ((message.head.kind == WIRE_HELLO) != (guest->state == HUB_STRANGER)) {
        hub_guest_doom(guest, MR_CORRUPT, "process %d: HELLO must come first, and once", guest->pid);
        return true;
    }
    switch (message.head.kind) {
    case WIRE_HELLO: hello(guest, &message, packet); return true;
    case WIRE_CONNECT: hub_link_connect(guest, &message); return true;
    case WIRE_RESIZE: hub_link_resize(guest, &message); return true;
    case WIRE_RELEASE: hub_link_release(guest, &message); return true;
    case WIRE_CLOSE: hub_link_close(guest, &message); return true;
    case WIRE_BYE: bye(guest); return false;
    default: MR_UNREACHABLE();
    }
}

/* A ghost is only read until it ends; of what it says, only that it leaves matters. */
static bool handle_ghost(hub_guest *guest, packet *packet) {
    wire message;
    bool leaves = wire_decode(false, packet->data, packet->size, &message) == MR_OK && message.head.kind == WIRE_BYE;
    packet_drop(packet);
    if (!leaves) return true;
    guest->at_end = true;
    become_harmless(guest);
    return false;
}

static bool reached_end(hub_guest *guest) {
    guest->at_end = true;
    if (guest->state != HUB_MEMBER) {
        finish(guest, NULL);
        return false;
    }
    loop_watch_set(guest->socket_watch, false, false);
    set_deadline(guest, HUB_GRACE_US);
    return true;
}

static bool may_listen(const hub_guest *guest) {
    return guest->state == HUB_GHOST || (guest->doom.status == MR_OK && hub_guest_reads(guest));
}

/* Up to `count` messages. False: the guest is gone. */
static bool listen_to(hub_guest *guest, size_t count) {
    size_t heard = 0;
    while (!guest->at_end && heard < count && may_listen(guest)) {
        packet packet;
        packet_result result = packet_receive(guest->fd, &packet);
        if (result == PACKET_NONE) break;
        if (result == PACKET_END) return reached_end(guest);
        heard++;
        bool there = guest->state == HUB_GHOST ? handle_ghost(guest, &packet) : handle_message(guest, &packet);
        packet_drop(&packet);
        if (!there) return false;
    }
    /* A guest whose socket was full may be asleep with requests it has not sent: it has room again. */
    if (heard == HUB_BATCH && guest->state == HUB_MEMBER) ring(guest);
    return true;
}

static void on_socket(void *context) {
    hub_guest *guest = context;
    hub *hub = guest->hub;
    bool there = listen_to(guest, HUB_BATCH);
    if (there && guest->queue.count > 0 && guest->state == HUB_MEMBER) flush(guest);
    hub_settle(hub);
}

/* What it said before it ended is heard first: it may have been goodbye. */
static void on_pid(void *context) {
    hub_guest *guest = context;
    hub *hub = guest->hub;
    loop_watch_set(guest->pid_watch, false, false);
    packet_queue_fini(&guest->queue); /* nobody will read it */
    watch_what_matters(guest);
    if (!guest->at_end && !listen_to(guest, LAST_WORDS_MAX)) {
        hub_settle(hub);
        return;
    }
    learn_wait_status(guest);
    if (guest->wait_known || !guest->is_child || guest->state == HUB_GHOST)
        finish_dead(guest);
    else
        set_deadline(guest, HUB_GRACE_US);
    hub_settle(hub);
}

/* ---- The door. */

static mr_status check_caller(int fd, int *pid) {
    struct ucred who;
    socklen_t size = sizeof who;
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &size) != 0)
        return error_errno("cannot get the peer's user (fd %d)", fd);
    if (who.uid != geteuid() && who.uid != 0)
        return error_set(MR_DENIED, "this broker belongs to user %u; user %u (process %d) may not join",
                         (unsigned)geteuid(), (unsigned)who.uid, (int)who.pid);
    *pid = (int)who.pid;
    return MR_OK;
}

void hub_guest_accept(hub *hub, int fd) {
    hub_guest *guest = xcalloc(1, sizeof *guest);
    guest->hub = hub;
    guest->fd = fd;
    guest->pidfd = guest->event_fd = -1;
    list_init(&guest->links);
    list_init(&guest->doomed_place);
    packet_queue_init(&guest->queue);
    mr_status allowed = check_caller(fd, &guest->pid);
    mr_status status = loop_watch_add(hub->loop, fd, on_socket, guest, &guest->socket_watch);
    if (status != MR_OK) {
        log_warn("process %d was turned away: %s", guest->pid, mr_last_error());
        close(fd);
        free(guest);
        return;
    }
    list_push_back(&hub->guests, &guest->place);
    hub->strangers++;
    set_deadline(guest, HUB_HELLO_US);
    if (allowed != MR_OK) hub_guest_doom(guest, allowed, "%s", mr_last_error());
}
