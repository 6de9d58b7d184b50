/* shm_transport.c — see shm_transport.h.
 *
 * Links are in a table by index; the index is also the link's ready bit, and index 0 is the broker's (marked when its
 * socket has a message). Events that must not be called within a function of the transport (on_open, on_closed)
 * are queued in `to_visit` for the next poll. Tested by tests/shm_transport_test.c. */
#include "net/shm/shm_internal.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/failpoint.h"
#include "base/invariants.h"

enum {
    RECEIVE_BUDGET = 256,           /* records of one link before the next link's turn */
    CONTROL_EVERY_TICKS_US = 20000, /* interval at which a transport that never sleeps polls its broker */
    PATIENCE_US = 10,               /* a run that is not published after this time is read anyway */
    INDEX_BITS = 12,
};
_Static_assert(1 << INDEX_BITS == PROCESS_BLOCK_LINKS_MAX, "an index fits");

/* ---- The table. */

static shm_link *find(shm_transport *transport, link_id id) {
    uint32_t index = id.v & (PROCESS_BLOCK_LINKS_MAX - 1);
    shm_link *link = transport->links[index];
    return link != NULL && link->id.v == id.v ? link : NULL;
}

/* Indices are assigned in rotation, so that a freed index is reused as late as possible. */
static shm_link *add_link(shm_transport *transport) {
    if (transport->link_count == PROCESS_BLOCK_LINKS_MAX - 1) return NULL;
    do transport->next_index = (transport->next_index + 1) % PROCESS_BLOCK_LINKS_MAX;
    while (transport->next_index == PROCESS_BLOCK_BROKER_INDEX || transport->links[transport->next_index] != NULL);
    uint32_t index = transport->next_index;
    link_id id = {.v = (transport->generations[index]++ << INDEX_BITS) | index};
    shm_link *link = xcalloc_lines(sizeof *link);
    shm_link_init(link, id, index);
    transport->links[index] = link;
    transport->link_count++;
    return link;
}

static void cool(shm_transport *transport, shm_link *link) {
    if (!link->hot) return;
    uint32_t i = 0;
    while (transport->hot[i] != link) i++;
    MR_ASSERT(i < transport->hot_count);
    transport->hot[i] = transport->hot[--transport->hot_count];
    link->hot = false;
}

static void remove_link(shm_transport *transport, shm_link *link) {
    MR_ASSERT(transport->links[link->index] == link && transport->link_count > 0);
    cool(transport, link);
    if (transport->last == link) transport->last = NULL;
    if (transport->host.runs.holder == &link->lane) transport->host.runs.holder = NULL;
    transport->links[link->index] = NULL;
    transport->link_count--;
    if (link->linked) map_remove(&transport->numbers, link->number);
    shm_link_fini(link);
    free(link);
}

static void queue(shm_transport *transport, shm_link *link) {
    list_remove(&link->queued);
    list_push_back(&transport->to_visit, &link->queued);
}

/* ---- Hot links. */

void shm_transport_arm(shm_transport *transport, shm_link *link) {
    cool(transport, link);
    if (shm_link_owes(link)) shm_link_settle(&transport->host, link);
    if (ring_arm(&link->receive)) return;
    doorbell_mark(transport->host.self, link->index);
    transport->host.impatient = true;
}

static void heat(shm_transport *transport, shm_link *link) {
    if (link->hot) return;
    if (transport->hot_count == SHM_TRANSPORT_HOT_MAX) {
        shm_link *coldest = transport->hot[0] == transport->last ? transport->hot[1] : transport->hot[0];
        shm_transport_arm(transport, coldest);
    }
    MR_ASSERT(transport->hot_count < SHM_TRANSPORT_HOT_MAX);
    transport->hot[transport->hot_count++] = link;
    link->hot = true;
}

/* ---- The end of a link. */

static void end_link(shm_transport *transport, shm_link *link) {
    shm_link_drop_body(link, link->cause.status);
    if (link->linked && !transport->broker_gone && broker_client_close(transport->host.client, link->number) != MR_OK)
        transport->control_due = true; /* the broker has ended: its own event will report it */
    FAILPOINT("port.ended");
    cause why = link->cause;
    transport->host.events->on_closed(transport->host.context, link->id, &why);
    remove_link(transport, link);
}

static size_t receive(shm_transport *transport, shm_link *link) {
    size_t count = shm_link_receive(&transport->host, link, RECEIVE_BUDGET);
    if (count != 0) transport->last = link;
    if (link->state == SHM_LINK_GONE) queue(transport, link);
    return count;
}

/* Ends links that are due: one that the other side left, once all its records are read; one that was closed here, once
 * its body is sent. */
static size_t visit_links(shm_transport *transport) {
    size_t count = 0;
    list now;
    list_init(&now);
    while (!list_empty(&transport->to_visit)) list_push_back(&now, list_pop_front(&transport->to_visit));
    for (list *item; (item = list_pop_front(&now)) != NULL;) {
        shm_link *link = container_of(item, shm_link, queued);
        if (link->state == SHM_LINK_GONE && link->linked && !link->deaf &&
            shm_link_drain(&transport->host, link, RECEIVE_BUDGET)) {
            queue(transport, link);
        } else if (link->state == SHM_LINK_CLOSING && link->out_sent != NULL) {
            shm_link_room(&transport->host, link); /* called again by its ready bit until the body is sent */
            if (link->out_sent == NULL) queue(transport, link);
        } else if (link->state == SHM_LINK_GONE || link->state == SHM_LINK_CLOSING) {
            end_link(transport, link);
        }
        count++;
    }
    return count;
}

/* ---- Messages of the broker. */

/* The records of the other side are still read. */
static void mark_gone(shm_transport *transport, shm_link *link, const cause *why) {
    shm_link_end(link, SHM_LINK_GONE, why);
    queue(transport, link);
}

static void opened(void *context, const broker_client_link *told) {
    shm_transport *transport = context;
    transport->heard++;
    shm_link *link = told->tag == 0 ? add_link(transport) : find(transport, (link_id){told->tag});
    if (link == NULL || link->state != SHM_LINK_OPENING) { /* no free index, or closed meanwhile */
        close(told->peer_event_fd);
        if (broker_client_close(transport->host.client, told->link) != MR_OK) transport->control_due = true;
        if (link != NULL) queue(transport, link);
        return;
    }
    if (shm_link_join(&transport->host, link, told) != MR_OK) {
        cause why;
        cause_set(&why, MR_CORRUPT, "%s", mr_last_error());
        mark_gone(transport, link, &why);
        return;
    }
    map_put(&transport->numbers, link->number, link);
    FAILPOINT("port.linked");
    heat(transport, link);
    transport->host.events->on_open(transport->host.context, link->id, &link->peer);
}

static void lost(shm_transport *transport, shm_link *link, const cause *why) {
    transport->heard++;
    if (link != NULL) mark_gone(transport, link, why);
}

static void refused(void *context, uint32_t tag, const cause *why) {
    lost(context, find(context, (link_id){tag}), why);
}

static void gone(void *context, uint32_t number, const cause *why) {
    lost(context, map_get(&((shm_transport *)context)->numbers, number), why);
}

static void resized(void *context, uint32_t number, extent send) {
    shm_transport *transport = context;
    transport->heard++;
    shm_link *link = map_get(&transport->numbers, number);
    if (link == NULL) return;
    shm_link_resized(&transport->host, link, send);
    if (link->send_extent.size > transport->host.ring_bytes && transport->idle_look_us == CLOCK_NEVER_US)
        transport->idle_look_us = clock_deadline_us(clock_now_us(clock_real()), transport->ring_idle_us);
}

static void broker_gone(void *context, const cause *why) {
    shm_transport *transport = context;
    transport->broker_gone = true;
    transport->broker_cause = *why;
    for (uint32_t i = 1; i < PROCESS_BLOCK_LINKS_MAX; i++)
        if (transport->links[i] != NULL) mark_gone(transport, transport->links[i], why);
}

static const broker_client_events from_broker = {
    .on_link = opened, .on_refused = refused, .on_resized = resized, .on_gone = gone, .on_broker_gone = broker_gone};

static void look_for_interrupt(shm_transport *transport) {
    struct pollfd fd = {.fd = transport->interrupt_fd, .events = POLLIN};
    if (poll(&fd, 1, 0) <= 0) return;
    transport->heard++;
    transport->interrupt_fd = -1;
    transport->interrupt(transport->interrupt_context);
}

void shm_transport_watch(shm_transport *transport, int fd, void (*interrupt)(void *context), void *context) {
    transport->interrupt_fd = fd;
    transport->interrupt = interrupt;
    transport->interrupt_context = context;
}

/* Polls the broker's socket, and the program's descriptor. Returns the number of messages. */
static size_t ask_broker(shm_transport *transport) {
    size_t heard = transport->heard;
    transport->control_due = false;
    transport->control_ticks = clock_ticks();
    if (!transport->broker_gone) broker_client_poll(transport->host.client, &from_broker, transport);
    if (transport->interrupt_fd >= 0) look_for_interrupt(transport);
    return transport->heard - heard;
}

/* ---- Polling. */

static void ready_bit(void *context, uint32_t index) {
    shm_transport *transport = context;
    shm_link *link = transport->links[index];
    if (index == PROCESS_BLOCK_BROKER_INDEX) transport->control_due = true;
    if (link == NULL || !link->linked) return; /* e.g. the broker's index */
    if (link->state == SHM_LINK_CLOSING || link->state == SHM_LINK_GONE) {
        queue(transport, link);
        return;
    }
    heat(transport, link);
    if (link->wants_room || link->out_sent != NULL || link->next_extent.size != 0)
        shm_link_room(&transport->host, link);
}

static void look_for_idle_rings(shm_transport *transport) {
    int64_t now_us = clock_now_us(clock_real());
    if (now_us < transport->idle_look_us) return;
    bool any = false;
    for (uint32_t i = 1; i < PROCESS_BLOCK_LINKS_MAX; i++)
        if (transport->links[i] != NULL && transport->links[i]->linked)
            any |= shm_link_shrink(&transport->host, transport->links[i]);
    transport->idle_look_us = any ? clock_deadline_us(now_us, transport->ring_idle_us) : CLOCK_NEVER_US;
}

static void look_at_clock(shm_transport *transport) {
    transport->polls = 0;
    if (clock_ticks() - transport->control_ticks > transport->control_gap) transport->control_due = true;
    if (transport->idle_look_us != CLOCK_NEVER_US) look_for_idle_rings(transport);
}

/* Handles everything except hot rings: ready bits, the clock, the broker, links that end. */
static __attribute__((noinline)) size_t look_around(shm_transport *transport) {
    size_t count = 0;
    if (doorbell_marked(transport->host.self)) {
        doorbell_take(transport->host.self, ready_bit, transport);
        count++;
    }
    if (transport->polls >= SHM_TRANSPORT_CLOCK_EVERY) look_at_clock(transport);
    if (transport->control_due) count += ask_broker(transport);
    if (!list_empty(&transport->to_visit)) count += visit_links(transport);
    return count;
}

size_t shm_transport_poll(shm_transport *transport) {
    MR_ASSERT(!transport->polling);
    transport->polling = true;
    size_t count = 0;
    for (uint32_t i = 0; i < transport->hot_count; i++) {
        shm_link *link = transport->hot[i];
        size_t got = ring_readable(&link->receive) && link->state == SHM_LINK_OPEN ? receive(transport, link) : 0;
        if (got == 0 && shm_link_owes(link)) shm_link_settle(&transport->host, link);
        count += got;
    }
    if (count != 0) transport->host.impatient = false;
    /* From here on all records are read: a link that ends is read to its end. */
    transport->host.wait.alone = false;
    bool more = ++transport->polls >= SHM_TRANSPORT_CLOCK_EVERY || doorbell_marked(transport->host.self) ||
                transport->control_due;
    if (__builtin_expect(more || !list_empty(&transport->to_visit), 0)) count += look_around(transport);
    transport->polling = false;
    CHECK_INVARIANTS(PROCESS_BLOCK_LINKS_MAX, shm_transport_check(transport));
    return count;
}

/* ---- The transport's functions. */

static mr_status slot_open(void *self, const char *address, link_id *out) {
    shm_transport *transport = self;
    if (strncmp(address, "shm:", 4) != 0 || address[4] == '\0')
        return error_set(MR_INVALID, "'%s' is not a shared-memory address: expected shm:NAME or shm:#HEX", address);
    if (transport->broker_gone) return error_set(MR_CLOSED, "the broker has ended: %s", transport->broker_cause.text);
    uint64_t process = 0;
    if (address[4] == '#') {
        char *end;
        errno = 0;
        process = strtoull(address + 5, &end, 16);
        if (errno != 0 || end == address + 5 || *end != '\0')
            return error_set(MR_INVALID, "'%s': the process id after # is a hexadecimal number", address);
    }
    shm_link *link = add_link(transport);
    if (link == NULL)
        return error_set(MR_BUSY, "this process has %d links, which is the limit", PROCESS_BLOCK_LINKS_MAX - 1);
    FAILPOINT("port.connect");
    mr_status status = address[4] == '#' ? broker_client_connect(transport->host.client, process, link->id.v)
                                         : broker_client_connect_name(transport->host.client, address + 4, link->id.v);
    if (status != MR_OK) {
        remove_link(transport, link);
        return status;
    }
    FAILPOINT("port.connecting");
    *out = link->id;
    return MR_OK;
}

static void slot_close(void *self, link_id id) {
    shm_transport *transport = self;
    shm_link *link = find(transport, id);
    if (link == NULL || link->state == SHM_LINK_CLOSING || link->state == SHM_LINK_GONE) return;
    FAILPOINT("port.close");
    cause why;
    cause_set(&why, MR_CLOSED, "link %u was closed by this process", link->id.v);
    lane_show(&link->lane);
    shm_link_end(link, SHM_LINK_CLOSING, &why);
    cool(transport, link);
    queue(transport, link);
    doorbell_mark(transport->host.self, link->index); /* another thread may be the driver, asleep */
    doorbell_ring(transport->host.self, transport->event_fd);
}

static mr_status slot_reserve(void *self, link_id id, size_t size, uint8_t **out) {
    shm_transport *transport = self;
    shm_link *link = find(transport, id);
    if (__builtin_expect(link == NULL, 0)) return error_set(MR_CLOSED, "link %u is closed", id.v);
    return shm_link_reserve(&transport->host, link, size, out);
}

static void slot_commit(void *self, link_id id, size_t size) {
    shm_transport *transport = self;
    lane_commit(&transport->links[id.v & (PROCESS_BLOCK_LINKS_MAX - 1)]->lane, size);
}

static void slot_commit_body(void *self, link_id id, size_t size, span body, body_sent_fn *sent, void *argument) {
    shm_transport *transport = self;
    shm_link_commit_body(&transport->host, transport->links[id.v & (PROCESS_BLOCK_LINKS_MAX - 1)], size, body, sent,
                         argument);
}

static void slot_discard(void *self, link_id id) {
    shm_link *link = find(self, id);
    if (link != NULL) shm_link_discard(link);
}

static lane *slot_lane(void *self, link_id id) {
    shm_link *link = find(self, id);
    return link == NULL ? NULL : &link->lane;
}

static void slot_flush(void *self) { (void)self; /* nothing is held back */ }

transport shm_transport_transport(shm_transport *shm_transport) {
    static const transport_ops ops = {
        .name = "shm",
        .open = slot_open,
        .close = slot_close,
        .reserve = slot_reserve,
        .commit = slot_commit,
        .commit_body = slot_commit_body,
        .discard = slot_discard,
        .flush = slot_flush,
        .lane = slot_lane,
    };
    return (transport){&ops, shm_transport};
}

/* ---- Creation and destruction. */

mr_status shm_transport_open(const shm_transport_options *options, const transport_events *events, void *context,
                             shm_transport **out) {
    shm_transport *transport = xcalloc_lines(sizeof *transport);
    list_init(&transport->to_visit);
    transport->idle_look_us = CLOCK_NEVER_US;
    transport->interrupt_fd = -1;
    transport->ring_idle_us = options->ring_idle_us > 0 ? options->ring_idle_us : SHM_TRANSPORT_RING_IDLE_US;
    transport->host.events = events;
    transport->host.context = context;
    transport->host.ring_bytes_max = options->ring_bytes_max != 0 ? options->ring_bytes_max : RING_BYTES_MAX;
    transport->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    mr_status status = MR_OK;
    if (transport->event_fd < 0) status = error_errno("cannot create the eventfd of a shared-memory transport");
    if (status != MR_OK) goto free_port;
    status = broker_client_join(options->broker, options->name != NULL ? options->name : "", transport->event_fd,
                                options->join_timeout_us > 0 ? options->join_timeout_us : SHM_TRANSPORT_JOIN_TIMEOUT_US,
                                &transport->host.client);
    if (status != MR_OK) goto close_event;
    transport->arena = *broker_client_arena(transport->host.client);
    transport->host.arena = &transport->arena;
    transport->host.self = arena_process_block(&transport->arena, broker_client_process_block(transport->host.client));
    spin_wait_init(&transport->host.wait, options->spin_us < 0    ? 0
                                          : options->spin_us == 0 ? SPIN_WAIT_SPIN_US
                                                                  : options->spin_us);
    spin_wait_heed(&transport->host.wait, arena_process_block(&transport->arena, 0),
                   &((const arena_header *)(const void *)transport->arena.base)->processes);
    transport->patience = (uint64_t)(PATIENCE_US * clock_ticks_per_us());
    transport->control_gap = (uint64_t)(CONTROL_EVERY_TICKS_US * clock_ticks_per_us());
    *out = transport;
    return MR_OK;

close_event:
    close(transport->event_fd);
free_port:
    free(transport);
    return status;
}

void shm_transport_close(shm_transport *transport) {
    MR_ASSERT(!transport->polling);
    shm_transport_detach(transport);
    cause why;
    cause_set(&why, MR_CLOSED, "this process (%d) closed its transport", (int)getpid());
    for (uint32_t i = 1; i < PROCESS_BLOCK_LINKS_MAX; i++) {
        if (transport->links[i] == NULL) continue;
        if (transport->links[i]->cause.status == MR_OK) transport->links[i]->cause = why;
        end_link(transport, transport->links[i]);
    }
    broker_client_leave(transport->host.client);
    close(transport->event_fd);
    map_fini(&transport->numbers);
    free(transport);
}

uint64_t shm_transport_process(const shm_transport *transport) { return broker_client_process(transport->host.client); }
const arena *shm_transport_arena(const shm_transport *transport) { return &transport->arena; }

shm_transport_stats shm_transport_stats_now(const shm_transport *transport) {
    const spin_wait *wait = &transport->host.wait;
    uint32_t leaving = 0;
    for (uint32_t i = 1; i < PROCESS_BLOCK_LINKS_MAX; i++)
        leaving += transport->links[i] != NULL && transport->links[i]->left_extent.size != 0;
    return (shm_transport_stats){
        .leaving = leaving,
        .links = transport->link_count,
        .hot = transport->hot_count,
        .spins_hit = wait->spins_hit,
        .spins_missed = wait->spins_missed,
        .sleeps_at_once = wait->sleeps_at_once,
        .sleeps_futex = transport->sleeps_futex,
        .sleeps_loop = transport->sleeps_loop,
        .nudges = wait->nudges,
        .grown = transport->host.grown,
        .shrunk = transport->host.shrunk,
    };
}
