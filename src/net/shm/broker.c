/* broker.c — see broker.h; the records are described in broker_internal.h.
 *
 * Opening, closing, the listening socket and the timer. Tested by tests/broker_test.c. */
#include "net/shm/broker.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/failpoint.h"
#include "base/log.h"
#include "net/pidfd.h"
#include "net/shm/broker_internal.h"
#include "net/shm/ring.h"

enum { RINGS_PART = 16, RINGS_KEPT_MAX = 32 << 20 }; /* part of the arena; bytes */
enum { BACKLOG = 128 };                              /* of the broker's socket */

/* ---- Listening. */

static int open_spare(void) { return open("/dev/null", O_RDONLY | O_CLOEXEC); }

/* Reserves a descriptor for the next process that must be refused; without one the broker pauses accepting. */
static void open_again(broker *broker) {
    broker->spare_fd = open_spare();
    broker->shut_until_us = broker->spare_fd < 0 ? event_loop_now_us(broker->loop) + BROKER_SHUT_US : CLOCK_NEVER_US;
}

/* Refuses a caller when no descriptor is free; otherwise it would stay in the backlog and keep the listener readable.
 * The spare descriptor is closed for it; if another thread takes that number, the broker accepts no process until one
 * is free. */
static void turn_away(broker *broker) {
    broker->no_descriptor = true;
    if (broker->spare_fd >= 0) close(broker->spare_fd);
    int fd = accept4(broker->path.fd, NULL, NULL, SOCK_CLOEXEC);
    if (fd >= 0) close(fd);
    open_again(broker);
    if (fd >= 0) log_warn("no free file descriptor for a new process: raise the limit (`ulimit -n`)");
}

static void on_caller(void *context) {
    broker *broker = context;
    while (broker->strangers < BROKER_STRANGERS_MAX) {
        int fd = accept4(broker->path.fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd < 0) {
            if (errno == EMFILE || errno == ENFILE) turn_away(broker);
            break;
        }
        FAILPOINT("hub.accept");
        broker_peer_accept(broker, fd);
    }
    broker_settle(broker);
}

void broker_listen(broker *broker, bool listen) {
    if (listen == broker->listening) return;
    broker->listening = listen;
    event_loop_watch_set(broker->listener, listen, false);
}

/* ---- The timer. */

static void set_timer(broker *broker) {
    int64_t next = timer_heap_next_us(&broker->deadlines), now = event_loop_now_us(broker->loop);
    if (broker->trim_at_us < next) next = broker->trim_at_us;
    if (broker->shut_until_us < next) next = broker->shut_until_us;
    event_loop_timer_set(broker->timer, next == CLOCK_NEVER_US ? -1 : next > now ? next - now : 0);
}

static void trim(broker *broker) {
    uint64_t top = extent_allocator_stats_now(broker->allocator).top;
    broker->trim_at_us = prefault_trim(broker->prefault, top, event_loop_now_us(broker->loop));
    set_timer(broker);
}

void broker_settle(broker *broker) {
    for (list *item; (item = list_pop_front(&broker->doomed)) != NULL;)
        broker_peer_drop(container_of(item, broker_peer, doomed_place));
    broker_listen(broker, broker->strangers < BROKER_STRANGERS_MAX && broker->shut_until_us == CLOCK_NEVER_US);
    trim(broker);
}

static void on_timer(void *context) {
    broker *broker = context;
    for (timer_heap_item *item;
         (item = timer_heap_pop_due(&broker->deadlines, event_loop_now_us(broker->loop))) != NULL;)
        broker_peer_due(container_of(item, broker_peer, deadline));
    if (event_loop_now_us(broker->loop) >= broker->shut_until_us) open_again(broker);
    broker_settle(broker);
}

/* ---- Creation and destruction. */

static mr_status check_options(const broker_options *options) {
    if (options->ring_bytes != 0 && (options->ring_bytes < RING_BYTES_MIN || options->ring_bytes % EXTENT_UNIT != 0))
        return error_set(MR_INVALID, "ring_bytes is %llu: expected a multiple of %d, at least %d",
                         (unsigned long long)options->ring_bytes, EXTENT_UNIT, RING_BYTES_MIN);
    if (options->links_per_peer_max > PROCESS_BLOCK_LINKS_MAX)
        return error_set(MR_INVALID, "%u links per process: the limit is %d", options->links_per_peer_max,
                         PROCESS_BLOCK_LINKS_MAX);
    return MR_OK;
}

static void set_up(broker *broker, const broker_options *options) {
    broker->ring_bytes = options->ring_bytes != 0 ? options->ring_bytes : RING_BYTES_DEFAULT;
    broker->ring_bytes_max = options->ring_bytes_max != 0 ? options->ring_bytes_max : RING_BYTES_MAX;
    if (broker->ring_bytes_max < broker->ring_bytes) broker->ring_bytes_max = broker->ring_bytes;
    broker->explain = options->explain;
    broker->explain_context = options->context;
    broker->links_max = options->links_per_peer_max != 0 ? options->links_per_peer_max : PROCESS_BLOCK_LINKS_MAX;
    broker->trim_at_us = broker->shut_until_us = CLOCK_NEVER_US;
    list_init(&broker->peers);
    list_init(&broker->doomed);
    /* Random upper part, counted lower part: process ids are unique on the machine, also between two brokers. */
    const arena_header *header = (const void *)broker->arena.base;
    broker->process_next = (header->generation << 32) + 1;
    broker->link_next = 1;
    broker->allocator =
        extent_allocator_create(ARENA_EXTENTS_OFFSET, broker->arena.size - broker->arena.size % EXTENT_UNIT);
}

mr_status broker_open(event_loop *loop, const broker_options *options, broker **out) {
    MR_TRY(check_options(options));
    broker *broker = XNEW(struct broker, .loop = loop);
    mr_status status = arena_create(options->arena_bytes, &broker->arena);
    if (status != MR_OK) goto free_broker;
    status = prefault_start(&broker->arena, ARENA_EXTENTS_OFFSET, &broker->prefault);
    if (status != MR_OK) goto unmap_arena;
    broker->spare_fd = open_spare();
    status = unix_listener_open(options->path, SOCK_SEQPACKET, BACKLOG, options->alone, &broker->path);
    if (status != MR_OK) goto stop_watermark;
    status = event_loop_watch_add(loop, broker->path.fd, on_caller, broker, &broker->listener);
    if (status != MR_OK) goto close_path;
    broker->listening = true;
    set_up(broker, options);
    broker->timer = event_loop_timer_create(loop, on_timer, broker);
    FAILPOINT("hub.open");
    *out = broker;
    return MR_OK;

close_path:
    unix_listener_close(&broker->path);
stop_watermark:
    if (broker->spare_fd >= 0) close(broker->spare_fd);
    prefault_stop(broker->prefault);
unmap_arena:
    arena_unmap(&broker->arena);
free_broker:
    free(broker);
    return status;
}

void broker_close(broker *broker) {
    if (broker == NULL) return;
    cause why;
    MR_ASSERT(broker->loans == 0);
    cause_set(&why, MR_CLOSED, "process %d was stopped", (int)getpid());
    FAILPOINT("hub.closing");
    broker_links_free(broker);
    while (!list_empty(&broker->peers)) {
        broker_peer_free(container_of(broker->peers.next, broker_peer, place), &why);
        FAILPOINT("hub.closing_half");
    }
    event_loop_watch_remove(broker->listener);
    unix_listener_close(&broker->path);
    event_loop_timer_destroy(broker->timer);
    prefault_stop(broker->prefault);
    extent_allocator_destroy(broker->allocator);
    arena_unmap(&broker->arena);
    if (broker->spare_fd >= 0) close(broker->spare_fd);
    timer_heap_fini(&broker->deadlines);
    map_fini(&broker->processes);
    map_fini(&broker->links);
    free(broker);
}

/* ---- Memory. */

/* Backs the allocated extent, or frees it. */
static mr_status back_up(broker *broker, extent taken, mr_status (*back)(prefault *prefault, uint64_t end)) {
    mr_status status = back(broker->prefault, taken.offset + taken.size);
    if (status != MR_OK) extent_allocator_free(broker->allocator, taken);
    return status;
}

mr_status broker_take(broker *broker, uint64_t size, extent *out) {
    extent taken;
    MR_TRY(extent_allocator_alloc(broker->allocator, size, &taken));
    MR_TRY(back_up(broker, taken, prefault_need));
    *out = taken;
    return MR_OK;
}

/* Keeps memory for the rings of new links, whatever the host requests. */
static mr_status check_loan(const broker *broker, uint64_t size) {
    uint64_t all = broker->arena.size - ARENA_EXTENTS_OFFSET, kept = all / RINGS_PART;
    if (kept > RINGS_KEPT_MAX) kept = RINGS_KEPT_MAX;
    if (size <= all - kept && broker->exported <= all - kept - size) return MR_OK;
    return error_set(MR_NOMEM,
                     "the arena cannot give %" PRIu64 " bytes: %" PRIu64 " of %" PRIu64 " are in use, and %" PRIu64
                     " are kept for links",
                     size, broker->exported, all, kept);
}

static mr_status lend(broker *broker, extent taken) {
    MR_TRY(back_up(broker, taken, prefault_reach));
    broker->exported += taken.size;
    broker->loans++;
    return MR_OK;
}

mr_status broker_extent_alloc(broker *broker, uint64_t size, extent *out) {
    extent taken;
    MR_TRY(check_loan(broker, size));
    MR_TRY(extent_allocator_alloc(broker->allocator, size, &taken));
    MR_TRY(lend(broker, taken));
    *out = taken;
    return MR_OK;
}

mr_status broker_extent_take(broker *broker, extent wanted) {
    MR_TRY(check_loan(broker, wanted.size));
    MR_TRY(extent_allocator_take(broker->allocator, wanted));
    return lend(broker, wanted);
}

void broker_extent_free(broker *broker, extent extent) {
    MR_ASSERT(broker->loans > 0 && broker->exported >= extent.size);
    extent_allocator_free(broker->allocator, extent);
    broker->exported -= extent.size;
    broker->loans--;
    trim(broker);
}

const arena *broker_arena(const broker *broker) { return &broker->arena; }

broker_stats broker_stats_now(const broker *broker) {
    extent_allocator_stats extents = extent_allocator_stats_now(broker->allocator);
    return (broker_stats){.size = broker->arena.size,
                          .backed = prefault_backed(broker->prefault),
                          .used = extents.used - broker->exported,
                          .exported = broker->exported,
                          .loans = broker->loans,
                          .peers = broker->members,
                          .links = (uint32_t)broker->links.count,
                          .rings = broker->rings,
                          .no_descriptor = broker->no_descriptor};
}

void broker_note_exit(broker *broker, int pid, int wait_status) {
    list_for_each (at, &broker->peers) {
        broker_peer *peer = container_of(at, broker_peer, place);
        if (peer->state != BROKER_MEMBER || peer->pid != pid || !pidfd_ended(&peer->pidfd)) continue;
        peer->wait_known = true;
        peer->wait_status = wait_status;
        if (timer_heap_holds(&peer->deadline))
            timer_heap_add(&broker->deadlines, &peer->deadline, event_loop_now_us(broker->loop));
    }
    set_timer(broker);
}
