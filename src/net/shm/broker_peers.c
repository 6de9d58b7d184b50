/* broker_peers.c — processes attached to the broker: arrivals, departures and deaths; the records are described in
 * broker_internal.h.
 *
 * sign of an end               the broker waits for               cause that peers receive
 * ---------------------------  ---------------------------------  -----------------------------------------
 * BYE                          nothing                            MR_CLOSED
 * pidfd, cause known           nothing                            MR_PEER_DIED, signal or exit code
 * pidfd of a child, no cause   broker_note_exit, BROKER_GRACE_US  the same, or "exit status is not known"
 * end of file alone            pidfd, BROKER_GRACE_US             as pidfd, or MR_CLOSED "without saying goodbye"
 * doomed: malformed message    nothing                            the fault; its rings stay until one of the above
 *
 * Tested by src/net/shm/broker_client_test.c. */
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
#include "base/libc.h"
#include "base/log.h"
#include "net/pidfd.h"
#include "net/shm/broker_internal.h"
#include "net/shm/doorbell.h"

enum { LAST_WORDS_MAX = 4096 }; /* more messages than a socket holds */

/* ---- Records and descriptors. */

static void close_fd(int *fd) {
    if (*fd >= 0) close(*fd);
    *fd = -1;
}

/* Stops watching the peer and closes its descriptors. */
static void let_go(broker_peer *peer) {
    event_loop_watch_remove(peer->socket_watch);
    event_loop_watch_remove(peer->pid_watch);
    peer->socket_watch = peer->pid_watch = NULL;
    close_fd(&peer->fd);
    pidfd_close(&peer->pidfd);
    close_fd(&peer->event_fd);
}

static void set_deadline(broker_peer *peer, int64_t delay_us) {
    timer_heap_add(&peer->broker->deadlines, &peer->deadline, event_loop_now_us(peer->broker->loop) + delay_us);
}

static process_block *block_of(const broker_peer *peer) {
    return arena_process_block(&peer->broker->arena, peer->process_block);
}

static void leave_books(broker_peer *peer) {
    broker *broker = peer->broker;
    if (peer->state == BROKER_STRANGER) broker->strangers--;
    if (peer->state == BROKER_MEMBER) {
        broker->members--;
        map_remove(&broker->processes, peer->process);
    }
}

static void ring(broker_peer *peer) {
    doorbell_mark(block_of(peer), PROCESS_BLOCK_BROKER_INDEX);
    doorbell_ring(block_of(peer), peer->event_fd);
}

static void say_end(broker_peer *peer, const cause *why) {
    if (peer->fd < 0 || peer->queue.count > 0) return; /* the client reads end of file when it reads again */
    broker_wire message = broker_wire_of_cause(BROKER_WIRE_END, 0, why);
    (void)fd_packet_send(peer->fd, &message, -1);
}

void broker_peer_free(broker_peer *peer, const cause *why) {
    MR_ASSERT(list_empty(&peer->links));
    if (why != NULL) say_end(peer, why);
    if (why != NULL && peer->state == BROKER_MEMBER) ring(peer);
    leave_books(peer);
    if (peer->state != BROKER_STRANGER) {
        peer->broker->process_blocks[peer->process_block] = NULL;
        atomic_store(&block_of(peer)->state, PROCESS_BLOCK_FREE);
    }
    list_remove(&peer->place);
    list_remove(&peer->doomed_place);
    timer_heap_remove(&peer->broker->deadlines, &peer->deadline);
    fd_packet_queue_fini(&peer->queue);
    let_go(peer);
    free(peer);
}

void broker_peer_forget(broker_peer *peer) {
    if (peer->state == BROKER_GHOST && peer->harmless && list_empty(&peer->links)) broker_peer_free(peer, NULL);
}

/* ---- Messages to clients.
 *
 * The broker does not wait for a client that does not read. While too many messages are queued for a client, the broker
 * reads none of its requests and refuses new links to it (broker_link.c). The queue is then bounded by the messages
 * that are always sent, the ends of its links. */

bool broker_peer_reads(const broker_peer *peer) { return peer->queue.askings < BROKER_QUEUE_MAX; }

static void watch_what_matters(broker_peer *peer) {
    if (!peer->at_end) event_loop_watch_set(peer->socket_watch, broker_peer_reads(peer), peer->queue.count > 0);
}

static void tell_failed(broker_peer *peer, int error) {
    if (error == EPIPE || error == ECONNRESET || error == ENOTCONN) /* the end can be read from the socket */
        fd_packet_queue_fini(&peer->queue);
    else
        broker_peer_doom(peer, MR_IO, "cannot send to process %d: %s", peer->pid, strerror(error));
}

void broker_tell(broker_peer *peer, const broker_wire *message, int fd) {
    if (peer->state != BROKER_MEMBER || peer->doom.status != MR_OK) return;
    int error = peer->queue.count > 0 ? EAGAIN : fd_packet_send(peer->fd, message, fd);
    if (error == EAGAIN) error = fd_packet_queue_add(&peer->queue, message, fd, 2 * BROKER_QUEUE_MAX);
    if (error != 0) tell_failed(peer, error);
    if (error != 0 || peer->queue.count > 0) watch_what_matters(peer);
    ring(peer);
}

static void flush(broker_peer *peer) {
    int error = fd_packet_queue_flush(&peer->queue, peer->fd);
    if (error != 0 && error != EAGAIN) tell_failed(peer, error);
    watch_what_matters(peer);
}

/* ---- The end of a client. */

/* Notifies the other sides of its links, and removes the peer from all lookups. */
static void become_ghost(broker_peer *peer, const cause *why) {
    MR_ASSERT(peer->state == BROKER_MEMBER);
    leave_books(peer);
    peer->state = BROKER_GHOST;
    timer_heap_remove(&peer->broker->deadlines, &peer->deadline);
    fd_packet_queue_fini(&peer->queue);
    atomic_store(&block_of(peer)->state, PROCESS_BLOCK_DEAD);
    FAILPOINT("hub.ghost");
    broker_links_tell_gone(peer, why);
}

/* The process can no longer access the arena: its memory is freed. */
static void become_harmless(broker_peer *peer) {
    doorbell_disarm(block_of(peer)); /* spinning processes do not yield to it any more */
    let_go(peer);
    broker_links_done(peer);
    peer->harmless = true;
    broker_peer_forget(peer);
}

static void finish(broker_peer *peer, const cause *why) {
    list_remove(&peer->doomed_place);
    if (peer->state == BROKER_STRANGER) {
        broker_peer_free(peer, NULL);
        return;
    }
    if (peer->state == BROKER_MEMBER) become_ghost(peer, why);
    become_harmless(peer);
}

static const char *called(const broker_peer *peer, char *text, size_t size) {
    snprintf(text, size, peer->name[0] == '\0' ? "process %d" : "process %d (%s)", peer->pid, peer->name);
    return text;
}

static void finish_left(broker_peer *peer, const char *how) {
    char who[PEER_NAME_MAX + 32];
    cause why;
    cause_set(&why, MR_CLOSED, "%s %s", called(peer, who, sizeof who), how);
    why.pid = peer->pid;
    finish(peer, &why);
}

static void cause_of_death(const broker_peer *peer, cause *why) {
    char who[PEER_NAME_MAX + 32];
    called(peer, who, sizeof who);
    int status = peer->wait_status;
    if (!peer->wait_known) {
        cause_set(why, MR_PEER_DIED, "%s ended; its exit status is not known", who);
    } else if (WIFSIGNALED(status)) {
        cause_set(why, MR_PEER_DIED, "%s was killed by signal %d (SIG%s)%s", who, WTERMSIG(status),
                  libc_signal_name(WTERMSIG(status)), WCOREDUMP(status) ? ", core dumped" : "");
        why->signal = WTERMSIG(status);
    } else {
        cause_set(why, MR_PEER_DIED, "%s exited with status %d", who, WEXITSTATUS(status));
        why->exit_code = WEXITSTATUS(status);
    }
    why->pid = peer->pid;
    char more[CAUSE_TEXT_MAX - 100] = "";
    if (peer->broker->explain != NULL && peer->wait_known)
        why->status = peer->broker->explain(peer->broker->explain_context, peer->pid, status, more, sizeof more);
    size_t used = strlen(why->text);
    snprintf(why->text + used, sizeof why->text - used, "%s", more);
}

static void finish_dead(broker_peer *peer) {
    FAILPOINT("hub.death");
    cause why;
    cause_of_death(peer, &why);
    finish(peer, &why);
}

static void learn_wait_status(broker_peer *peer) {
    if (!peer->wait_known) peer->wait_known = pidfd_wait_status(&peer->pidfd, &peer->wait_status);
}

void broker_peer_due(broker_peer *peer) {
    if (peer->state == BROKER_STRANGER) {
        cause why;
        cause_set(&why, MR_TIMEOUT, "no HELLO within %d s of connecting", BROKER_HELLO_US / 1000000);
        broker_peer_free(peer, &why);
        return;
    }
    if (!pidfd_ended(&peer->pidfd)) {
        finish_left(peer, "left without saying goodbye");
        return;
    }
    learn_wait_status(peer);
    finish_dead(peer);
}

void broker_peer_doom(broker_peer *peer, mr_status status, const char *format, ...) {
    if (peer->doom.status != MR_OK || peer->state == BROKER_GHOST) return;
    va_list arguments;
    va_start(arguments, format);
    cause_set_list(&peer->doom, status, format, arguments);
    va_end(arguments);
    peer->doom.pid = peer->pid;
    list_push_back(&peer->broker->doomed, &peer->doomed_place);
}

/* A dropped member may still be running and using its rings, so they stay allocated until it is known to be
 * harmless. */
void broker_peer_drop(broker_peer *peer) {
    if (peer->state == BROKER_STRANGER) {
        broker_peer_free(peer, &peer->doom);
        return;
    }
    log_warn("process dropped: %s", peer->doom.text);
    say_end(peer, &peer->doom);
    shutdown(peer->fd, SHUT_WR);
    bool harmless = peer->at_end || pidfd_ended(&peer->pidfd);
    become_ghost(peer, &peer->doom);
    if (harmless)
        become_harmless(peer);
    else
        event_loop_watch_set(peer->socket_watch, true, false);
}

/* ---- HELLO. */

static bool is_eventfd(int fd) {
    char path[40], target[40] = {0};
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(path, target, sizeof target - 1);
    int flags = fcntl(fd, F_GETFL);
    return length > 0 && strcmp(target, "anon_inode:[eventfd]") == 0 && flags >= 0 && (flags & O_NONBLOCK);
}

broker_peer *broker_peer_find(const broker *broker, const char *name) {
    list_for_each (at, &broker->peers) {
        broker_peer *peer = container_of(at, broker_peer, place);
        if (peer->state == BROKER_MEMBER && strcmp(peer->name, name) == 0) return peer;
    }
    return NULL;
}

static mr_status name_is_free(const broker *broker, const char *name) {
    const broker_peer *other = name[0] == '\0' ? NULL : broker_peer_find(broker, name); /* several may have none */
    if (other != NULL) return error_set(MR_EXISTS, "process %d is already named '%s'", other->pid, name);
    return MR_OK;
}

static mr_status take_process_block(broker_peer *peer) {
    broker *broker = peer->broker;
    uint32_t index = 0;
    while (index < PROCESS_BLOCKS_MAX && broker->process_blocks[index] != NULL) index++;
    if (index == PROCESS_BLOCKS_MAX)
        return error_set(MR_BUSY,
                         "%d processes have joined, the limit of a node; run fewer at once (a task that waits for "
                         "others keeps its process)",
                         PROCESS_BLOCKS_MAX);
    peer->process_block = index;
    peer->process = broker->process_next++;
    broker->process_blocks[index] = peer;
    process_block *block = arena_process_block(&broker->arena, index);
    block->pid = (uint32_t)peer->pid;
    block->process = peer->process;
    atomic_store(&block->sleep, DOORBELL_AWAKE);
    atomic_store(&block->cpu, PROCESS_BLOCK_CPU_NONE);
    atomic_store(&block->summary, 0);
    for (int i = 0; i < PROCESS_BLOCK_READY_WORDS; i++) atomic_store(&block->ready[i], 0);
    atomic_store(&block->state, PROCESS_BLOCK_ALIVE);
    arena_header *header = (void *)broker->arena.base;
    if (index >= atomic_load(&header->processes)) atomic_store(&header->processes, index + 1);
    return MR_OK;
}

static void on_pid(void *context);

static mr_status become_member(broker_peer *peer, const broker_wire *message, fd_packet *packet) {
    broker *broker = peer->broker;
    peer->event_fd = fd_packet_take_fd(packet);
    broker->no_descriptor = packet->cut;
    if (peer->event_fd < 0)
        return packet->cut
                   ? error_set(MR_BUSY, "the broker has no free file descriptor: raise its limit (`ulimit -n`)")
                   : error_set(MR_CORRUPT, "malformed HELLO from process %d: no descriptor attached", peer->pid);
    if (!is_eventfd(peer->event_fd)) return error_set(MR_INVALID, "HELLO of process %d without an eventfd", peer->pid);
    MR_TRY(name_is_free(broker, message->hello.name));
    MR_TRY(pidfd_of_peer(peer->fd, peer->pid, &peer->pidfd));
    if (pidfd_ended(&peer->pidfd)) return error_set(MR_PEER_DIED, "process %d has ended", peer->pid);
    MR_TRY(event_loop_watch_add(broker->loop, peer->pidfd.fd, on_pid, peer, &peer->pid_watch));
    MR_TRY(take_process_block(peer));
    memcpy(peer->name, message->hello.name, sizeof peer->name);
    peer->is_child = pidfd_is_child(peer->pid);
    peer->state = BROKER_MEMBER;
    broker->strangers--;
    broker->members++;
    map_put(&broker->processes, peer->process, peer);
    timer_heap_remove(&broker->deadlines, &peer->deadline);
    return MR_OK;
}

static void hello(broker_peer *peer, const broker_wire *message, fd_packet *packet) {
    FAILPOINT("hub.hello");
    mr_status status = become_member(peer, message, packet);
    if (status != MR_OK) {
        broker_peer_doom(peer, status, "%s", mr_last_error());
        return;
    }
    const arena *arena = &peer->broker->arena;
    broker_wire answer = broker_wire_of(BROKER_WIRE_WELCOME, peer->process_block);
    answer.welcome.magic = BROKER_WIRE_MAGIC;
    answer.welcome.arena_bytes = arena->size;
    answer.welcome.generation = ((const arena_header *)(const void *)arena->base)->generation;
    answer.welcome.process = peer->process;
    FAILPOINT("hub.welcome");
    broker_tell(peer, &answer, arena->fd);
    FAILPOINT("hub.welcomed");
}

/* ---- Requests of one client. */

/* Returns false if the client was freed. */
static bool handle_message(broker_peer *peer, fd_packet *packet) {
    broker_wire message;
    if (broker_wire_decode(false, packet->data, packet->size, &message) != MR_OK) {
        broker_peer_doom(peer, MR_CORRUPT, "malformed message from process %d: %s", peer->pid, mr_last_error());
        return true;
    }
    if ((message.head.kind == BROKER_WIRE_HELLO) != (peer->state == BROKER_STRANGER)) {
        broker_peer_doom(peer, MR_CORRUPT, "process %d: HELLO must come first, and once", peer->pid);
        return true;
    }
    switch (message.head.kind) {
    case BROKER_WIRE_HELLO: hello(peer, &message, packet); return true;
    case BROKER_WIRE_CONNECT: broker_link_connect(peer, &message); return true;
    case BROKER_WIRE_RESIZE: broker_link_resize(peer, &message); return true;
    case BROKER_WIRE_RELEASE: broker_link_release(peer, &message); return true;
    case BROKER_WIRE_CLOSE: broker_link_close(peer, &message); return true;
    case BROKER_WIRE_BYE:
        FAILPOINT("hub.bye");
        peer->at_end = true;
        finish_left(peer, "left");
        return false;
    default: MR_UNREACHABLE();
    }
}

/* Handles a message of a ghost, of which only BYE matters. */
static bool handle_ghost(broker_peer *peer, const fd_packet *packet) {
    broker_wire message;
    bool leaves = broker_wire_decode(false, packet->data, packet->size, &message) == MR_OK &&
                  message.head.kind == BROKER_WIRE_BYE;
    if (!leaves) return true;
    peer->at_end = true;
    become_harmless(peer);
    return false;
}

static bool reached_end(broker_peer *peer) {
    peer->at_end = true;
    if (peer->state != BROKER_MEMBER) {
        finish(peer, NULL);
        return false;
    }
    event_loop_watch_set(peer->socket_watch, false, false);
    set_deadline(peer, BROKER_GRACE_US);
    return true;
}

static bool may_listen(const broker_peer *peer) {
    return peer->state == BROKER_GHOST || (peer->doom.status == MR_OK && broker_peer_reads(peer));
}

/* Reads up to `count` messages. Returns false if the client was freed. */
static bool listen_to(broker_peer *peer, size_t count) {
    size_t heard = 0;
    while (!peer->at_end && heard < count && may_listen(peer)) {
        fd_packet packet;
        fd_packet_result result = fd_packet_receive(peer->fd, &packet);
        if (result == FD_PACKET_NONE) break;
        if (result == FD_PACKET_END) return reached_end(peer);
        heard++;
        bool there = peer->state == BROKER_GHOST ? handle_ghost(peer, &packet) : handle_message(peer, &packet);
        fd_packet_drop(&packet);
        if (!there) return false;
    }
    /* A client whose socket was full may be asleep with unsent requests; the socket has room again. */
    if (heard == BROKER_BATCH && peer->state == BROKER_MEMBER) ring(peer);
    return true;
}

static void on_socket(void *context) {
    broker_peer *peer = context;
    broker *broker = peer->broker;
    bool there = listen_to(peer, BROKER_BATCH);
    if (there && peer->queue.count > 0 && peer->state == BROKER_MEMBER) flush(peer);
    broker_settle(broker);
}

/* The process has ended: its last messages are read first, because BYE may be among them. */
static void on_pid(void *context) {
    broker_peer *peer = context;
    broker *broker = peer->broker;
    if (!pidfd_ended(&peer->pidfd)) return;
    event_loop_watch_set(peer->pid_watch, false, false);
    fd_packet_queue_fini(&peer->queue); /* the process will not read it */
    watch_what_matters(peer);
    if (!peer->at_end && !listen_to(peer, LAST_WORDS_MAX)) {
        broker_settle(broker);
        return;
    }
    learn_wait_status(peer);
    if (peer->wait_known || !peer->is_child || peer->state == BROKER_GHOST)
        finish_dead(peer);
    else
        set_deadline(peer, BROKER_GRACE_US);
    broker_settle(broker);
}

/* ---- Accepting. */

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

void broker_peer_accept(broker *broker, int fd) {
    broker_peer *peer = XNEW(broker_peer, .broker = broker, .fd = fd, .pidfd = PIDFD_NONE, .event_fd = -1);
    list_init(&peer->links);
    list_init(&peer->doomed_place);
    fd_packet_queue_init(&peer->queue);
    mr_status allowed = check_caller(fd, &peer->pid);
    mr_status status = event_loop_watch_add(broker->loop, fd, on_socket, peer, &peer->socket_watch);
    if (status != MR_OK) {
        log_warn("process %d was turned away: %s", peer->pid, mr_last_error());
        close(fd);
        free(peer);
        return;
    }
    list_push_back(&broker->peers, &peer->place);
    broker->strangers++;
    set_deadline(peer, BROKER_HELLO_US);
    if (allowed != MR_OK) broker_peer_doom(peer, allowed, "%s", mr_last_error());
}
