/* hub.c — see hub.h; the books are described in hub_state.h.
 *
 * This file is the house itself: opening and closing, the door, the clock. Tested by tests/hub_test.c. */
#include "net/shm/hub.h"

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
#include "net/shm/hub_state.h"
#include "net/shm/ring.h"

enum { RINGS_PART = 16, RINGS_KEPT_MAX = 32 << 20 }; /* of the arena; bytes */
enum { BACKLOG = 128 };                              /* of the hub's socket */

/* ---- The door. */

static int open_spare(void) { return open("/dev/null", O_RDONLY | O_CLOEXEC); }

/* With no number free for a descriptor a caller would stay in the backlog and the listener readable for ever. Another
 * thread may take the number that was given up; then the door stays shut until there is one again. */
static void turn_away(hub *hub) {
    hub->no_descriptor = true;
    if (hub->spare_fd >= 0) close(hub->spare_fd);
    int fd = accept4(hub->path.fd, NULL, NULL, SOCK_CLOEXEC);
    if (fd >= 0) close(fd);
    hub->spare_fd = open_spare();
    if (hub->spare_fd < 0) hub->shut_until_us = loop_now_us(hub->loop) + HUB_SHUT_US;
    if (fd >= 0) log_warn("no free file descriptor for a new process: raise the limit (`ulimit -n`)");
}

/* With a number in reserve for the next who has to be turned away; else later. */
static void open_again(hub *hub) {
    hub->spare_fd = open_spare();
    hub->shut_until_us = hub->spare_fd < 0 ? loop_now_us(hub->loop) + HUB_SHUT_US : CLOCK_NEVER_US;
}

static void on_caller(void *context) {
    hub *hub = context;
    while (hub->strangers < HUB_STRANGERS_MAX) {
        int fd = accept4(hub->path.fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd < 0 && (errno == EMFILE || errno == ENFILE)) {
            turn_away(hub);
            break;
        }
        if (fd < 0) break;
        FAILPOINT("hub.accept");
        hub_guest_accept(hub, fd);
    }
    hub_settle(hub);
}

void hub_listen(hub *hub, bool listen) {
    if (listen == hub->listening) return;
    hub->listening = listen;
    loop_watch_set(hub->listener, listen, false);
}

/* ---- The clock. */

static void set_timer(hub *hub) {
    int64_t next = heap_next_us(&hub->deadlines), now = loop_now_us(hub->loop);
    if (hub->trim_at_us < next) next = hub->trim_at_us;
    if (hub->shut_until_us < next) next = hub->shut_until_us;
    loop_timer_set(hub->timer, next == CLOCK_NEVER_US ? -1 : next > now ? next - now : 0);
}

static void trim(hub *hub) {
    uint64_t top = extents_stats_now(hub->extents).top;
    hub->trim_at_us = watermark_trim(hub->watermark, top, loop_now_us(hub->loop));
    set_timer(hub);
}

void hub_settle(hub *hub) {
    for (list *item; (item = list_pop_front(&hub->doomed)) != NULL;)
        hub_guest_drop(container_of(item, hub_guest, doomed_place));
    hub_listen(hub, hub->strangers < HUB_STRANGERS_MAX && hub->shut_until_us == CLOCK_NEVER_US);
    trim(hub);
}

static void on_timer(void *context) {
    hub *hub = context;
    for (heap_item *item; (item = heap_pop_due(&hub->deadlines, loop_now_us(hub->loop))) != NULL;)
        hub_guest_due(container_of(item, hub_guest, deadline));
    if (loop_now_us(hub->loop) >= hub->shut_until_us) open_again(hub);
    hub_settle(hub);
}

/* ---- Life. */

static mr_status check_options(const hub_options *options) {
    if (options->ring_bytes != 0 && (options->ring_bytes < RING_BYTES_MIN || options->ring_bytes % EXTENT_UNIT != 0))
        return error_set(MR_INVALID, "ring_bytes is %llu: expected a multiple of %d, at least %d",
                         (unsigned long long)options->ring_bytes, EXTENT_UNIT, RING_BYTES_MIN);
    if (options->links_per_guest_max > STATION_LINKS_MAX)
        return error_set(MR_INVALID, "%u links per process: the limit is %d", options->links_per_guest_max,
                         STATION_LINKS_MAX);
    return MR_OK;
}

static void set_up(hub *hub, const hub_options *options) {
    hub->ring_bytes = options->ring_bytes != 0 ? options->ring_bytes : RING_BYTES_DEFAULT;
    hub->ring_bytes_max = options->ring_bytes_max != 0 ? options->ring_bytes_max : RING_BYTES_MAX;
    if (hub->ring_bytes_max < hub->ring_bytes) hub->ring_bytes_max = hub->ring_bytes;
    hub->explain = options->explain;
    hub->explain_context = options->context;
    hub->links_max = options->links_per_guest_max != 0 ? options->links_per_guest_max : STATION_LINKS_MAX;
    hub->trim_at_us = hub->shut_until_us = CLOCK_NEVER_US;
    list_init(&hub->guests);
    list_init(&hub->doomed);
    /* Random above, counted below: no two processes of a machine share a number, nor do those of two hubs. */
    const arena_header *header = (const void *)hub->arena.base;
    hub->process_next = (header->generation << 32) + 1;
    hub->link_next = 1;
    hub->extents = extents_create(ARENA_EXTENTS_OFFSET, hub->arena.size - hub->arena.size % EXTENT_UNIT);
}

mr_status hub_open(loop *loop, const hub_options *options, hub **out) {
    MR_TRY(check_options(options));
    hub *hub = xcalloc(1, sizeof *hub);
    hub->loop = loop;
    mr_status status = arena_create(options->arena_bytes, &hub->arena);
    if (status != MR_OK) goto free_hub;
    status = watermark_start(&hub->arena, ARENA_EXTENTS_OFFSET, &hub->watermark);
    if (status != MR_OK) goto unmap_arena;
    hub->spare_fd = open_spare();
    status = unix_listener_open(options->path, SOCK_SEQPACKET, BACKLOG, options->alone, &hub->path);
    if (status != MR_OK) goto stop_watermark;
    status = loop_watch_add(loop, hub->path.fd, on_caller, hub, &hub->listener);
    if (status != MR_OK) goto close_path;
    hub->listening = true;
    set_up(hub, options);
    hub->timer = loop_timer_create(loop, on_timer, hub);
    FAILPOINT("hub.open");
    *out = hub;
    return MR_OK;

close_path:
    unix_listener_close(&hub->path);
stop_watermark:
    if (hub->spare_fd >= 0) close(hub->spare_fd);
    watermark_stop(hub->watermark);
unmap_arena:
    arena_unmap(&hub->arena);
free_hub:
    free(hub);
    return status;
}

void hub_close(hub *hub) {
    if (hub == NULL) return;
    cause why;
    MR_ASSERT(hub->loans == 0);
    cause_set(&why, MR_CLOSED, "the broker (process %d) was closed", (int)getpid());
    FAILPOINT("hub.closing");
    hub_links_free(hub);
    for (list *item; !list_empty(&hub->guests);) {
        item = hub->guests.next;
        hub_guest_free(container_of(item, hub_guest, place), &why);
        FAILPOINT("hub.closing_half");
    }
    loop_watch_remove(hub->listener);
    unix_listener_close(&hub->path);
    loop_timer_destroy(hub->timer);
    watermark_stop(hub->watermark);
    extents_destroy(hub->extents);
    arena_unmap(&hub->arena);
    if (hub->spare_fd >= 0) close(hub->spare_fd);
    heap_fini(&hub->deadlines);
    map_fini(&hub->processes);
    map_fini(&hub->links);
    free(hub);
}

/* ---- Memory. */

typedef mr_status back_fn(watermark *watermark, uint64_t end);

/* What was taken out of the free is handed out if there is memory behind it. */
static mr_status back_up(hub *hub, extent taken, back_fn *back) {
    mr_status status = back(hub->watermark, taken.offset + taken.size);
    if (status != MR_OK) extents_free(hub->extents, taken);
    return status;
}

static mr_status take(hub *hub, uint64_t size, back_fn *back, extent *out) {
    extent taken;
    MR_TRY(extents_alloc(hub->extents, size, &taken));
    MR_TRY(back_up(hub, taken, back));
    *out = taken;
    return MR_OK;
}

mr_status hub_take(hub *hub, uint64_t size, extent *out) { return take(hub, size, watermark_need, out); }

/* However much the host wants, there is memory left for the rings of new links. */
static mr_status check_loan(const hub *hub, uint64_t size) {
    uint64_t all = hub->arena.size - ARENA_EXTENTS_OFFSET, kept = all / RINGS_PART;
    if (kept > RINGS_KEPT_MAX) kept = RINGS_KEPT_MAX;
    if (size <= all - kept && hub->lent <= all - kept - size) return MR_OK;
    return error_set(MR_NOMEM,
                     "the arena cannot give %" PRIu64 " bytes: %" PRIu64 " of %" PRIu64 " are in use, and %" PRIu64
                     " are kept for links",
                     size, hub->lent, all, kept);
}

static void note_loan(hub *hub, extent extent) {
    hub->lent += extent.size;
    hub->loans++;
}

mr_status hub_extent_alloc(hub *hub, uint64_t size, extent *out) {
    MR_TRY(check_loan(hub, size));
    MR_TRY(take(hub, size, watermark_reach, out));
    note_loan(hub, *out);
    return MR_OK;
}

mr_status hub_extent_take(hub *hub, extent wanted) {
    MR_TRY(check_loan(hub, wanted.size));
    MR_TRY(extents_take(hub->extents, wanted));
    MR_TRY(back_up(hub, wanted, watermark_reach));
    note_loan(hub, wanted);
    return MR_OK;
}

void hub_extent_free(hub *hub, extent extent) {
    MR_ASSERT(hub->loans > 0 && hub->lent >= extent.size);
    extents_free(hub->extents, extent);
    hub->lent -= extent.size;
    hub->loans--;
    trim(hub);
}

const arena *hub_arena(const hub *hub) { return &hub->arena; }

hub_stats hub_stats_now(const hub *hub) {
    extents_stats extents = extents_stats_now(hub->extents);
    return (hub_stats){.size = hub->arena.size,
                       .backed = watermark_backed(hub->watermark),
                       .used = extents.used - hub->lent,
                       .lent = hub->lent,
                       .loans = hub->loans,
                       .guests = hub->members,
                       .links = (uint32_t)hub->links.count,
                       .rings = hub->rings,
                       .no_descriptor = hub->no_descriptor};
}

void hub_note_exit(hub *hub, int pid, int wait_status) {
    list_for_each (at, &hub->guests) {
        hub_guest *guest = container_of(at, hub_guest, place);
        if (guest->state != HUB_MEMBER || guest->pid != pid || !pidfd_ended(guest->pidfd)) continue;
        guest->wait_known = true;
        guest->wait_status = wait_status;
        if (heap_holds(&guest->deadline)) heap_add(&hub->deadlines, &guest->deadline, loop_now_us(hub->loop));
    }
    set_timer(hub);
}
