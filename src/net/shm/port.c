/* port.c — see port.h.
 *
 * Links live in a table by index; the index is also the link's ready bit, and index 0 is the hub's (it marks it when
 * its socket has something to say). Everything that must not happen inside a slot of the transport (on_open, on_closed)
 * waits in `todo` for the next poll. Tested by tests/port_test.c. */
#include "net/shm/port_core.h"

#include <errno.h>
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
    CONTROL_EVERY_TICKS_US = 20000, /* a port that never sleeps asks its hub this often */
    PATIENCE_US = 10,               /* a run that is not shown by then is read as far as it goes */
    INDEX_BITS = 12,
};
_Static_assert(1 << INDEX_BITS == STATION_LINKS_MAX, "an index fits");

/* ---- The table. */

static port_link *find(port *port, link_id id) {
    uint32_t index = id.v & (STATION_LINKS_MAX - 1);
    port_link *link = port->links[index];
    return link != NULL && link->id.v == id.v ? link : NULL;
}

static port_link *find_number(port *port, uint32_t number) { return map_get(&port->numbers, number); }

/* Indices go round, so that an old one comes back as late as possible. */
static port_link *add_link(port *port) {
    if (port->link_count == STATION_LINKS_MAX - 1) return NULL;
    do port->next_index = (port->next_index + 1) % STATION_LINKS_MAX;
    while (port->next_index == STATION_HUB_INDEX || port->links[port->next_index] != NULL);
    uint32_t index = port->next_index;
    link_id id = {.v = (port->generations[index]++ << INDEX_BITS) | index};
    port_link *link = xcalloc_lines(sizeof *link);
    port_link_init(link, id, index);
    port->links[index] = link;
    port->link_count++;
    return link;
}

static void cool(port *port, port_link *link) {
    if (!link->hot) return;
    uint32_t i = 0;
    while (port->hot[i] != link) i++;
    MR_ASSERT(i < port->hot_count);
    port->hot[i] = port->hot[--port->hot_count];
    link->hot = false;
}

static void remove_link(port *port, port_link *link) {
    MR_ASSERT(port->links[link->index] == link && port->link_count > 0);
    cool(port, link);
    if (port->last == link) port->last = NULL;
    if (port->host.runs.holder == &link->lane) port->host.runs.holder = NULL;
    port->links[link->index] = NULL;
    port->link_count--;
    if (link->linked) map_remove(&port->numbers, link->number);
    port_link_fini(link);
    free(link);
}

static void queue(port *port, port_link *link) {
    list_remove(&link->queued);
    list_push_back(&port->todo, &link->queued);
}

/* ---- Hot links. */

void port_arm(port *port, port_link *link) {
    cool(port, link);
    if (port_link_owes(link)) port_link_settle(&port->host, link);
    if (ring_arm(&link->receive)) return;
    bell_mark(port->host.self, link->index);
    port->host.impatient = true;
}

static void heat(port *port, port_link *link) {
    if (link->hot) return;
    if (port->hot_count == PORT_HOT_MAX) {
        port_link *coldest = port->hot[0] == port->last ? port->hot[1] : port->hot[0];
        port_arm(port, coldest);
    }
    MR_ASSERT(port->hot_count < PORT_HOT_MAX);
    port->hot[port->hot_count++] = link;
    link->hot = true;
}

/* ---- The end of a link. */

static void end_link(port *port, port_link *link) {
    port_link_drop_body(link, link->cause.status);
    if (link->linked && !port->hub_gone && guest_close(port->host.guest, link->number) != MR_OK)
        port->control_due = true; /* the hub has just gone: its own event will say so */
    FAILPOINT("port.ended");
    cause why = link->cause;
    link_id id = link->id;
    port->host.events->on_closed(port->host.context, id, &why);
    remove_link(port, link);
}

static size_t receive(port *port, port_link *link) {
    size_t count = port_link_receive(&port->host, link, RECEIVE_BUDGET);
    if (count != 0) port->last = link;
    if (link->state == PORT_LINK_GONE) queue(port, link);
    return count;
}

/* Ends what is to be ended: a link that the other side left, once everything it sent was read; one that we close, once
 * its body has left. */
static size_t work_todo(port *port) {
    size_t count = 0;
    list now;
    list_init(&now);
    while (!list_empty(&port->todo)) list_push_back(&now, list_pop_front(&port->todo));
    for (list *item; (item = list_pop_front(&now)) != NULL;) {
        port_link *link = container_of(item, port_link, queued);
        if (link->state == PORT_LINK_GONE && link->linked && !link->deaf &&
            port_link_drain(&port->host, link, RECEIVE_BUDGET)) {
            queue(port, link);
        } else if (link->state == PORT_LINK_CLOSING && link->out_sent != NULL) {
            port_link_room(&port->host, link); /* comes back by its ready bit until the body has left */
            if (link->out_sent == NULL) queue(port, link);
        } else if (link->state == PORT_LINK_GONE || link->state == PORT_LINK_CLOSING) {
            end_link(port, link);
        }
        count++;
    }
    return count;
}

/* ---- What the hub says. */

static void opened(void *context, const guest_link *told) {
    port *port = context;
    port->heard++;
    port_link *link = told->tag == 0 ? add_link(port) : find(port, (link_id){told->tag});
    if (link == NULL || link->state != PORT_LINK_OPENING) { /* no place for it, or given up meanwhile */
        close(told->peer_event_fd);
        if (guest_close(port->host.guest, told->link) != MR_OK) port->control_due = true;
        if (link != NULL) queue(port, link);
        return;
    }
    if (port_link_join(&port->host, link, told) != MR_OK) {
        cause why;
        cause_set(&why, MR_CORRUPT, "%s", mr_last_error());
        port_link_end(link, PORT_LINK_GONE, &why);
        queue(port, link);
        return;
    }
    map_put(&port->numbers, link->number, link);
    FAILPOINT("port.linked");
    heat(port, link);
    port->host.events->on_open(port->host.context, link->id, &link->peer);
}

static void lost(port *port, port_link *link, const cause *why) {
    port->heard++;
    if (link == NULL) return;
    port_link_end(link, PORT_LINK_GONE, why);
    queue(port, link);
}

static void refused(void *context, uint32_t tag, const cause *why) {
    lost(context, find(context, (link_id){tag}), why);
}

static void gone(void *context, uint32_t number, const cause *why) { lost(context, find_number(context, number), why); }

static void resized(void *context, uint32_t number, extent send) {
    port *port = context;
    port->heard++;
    port_link *link = find_number(port, number);
    if (link == NULL) return;
    port_link_resized(&port->host, link, send);
    if (link->send_extent.size > port->host.ring_bytes && port->idle_look_us == CLOCK_NEVER_US)
        port->idle_look_us = clock_deadline_us(clock_now_us(clock_real()), port->ring_idle_us);
}

static void hub_gone(void *context, const cause *why) {
    port *port = context;
    port->hub_gone = true;
    port->hub_cause = *why;
    for (uint32_t i = 1; i < STATION_LINKS_MAX; i++) {
        port_link *link = port->links[i];
        if (link == NULL) continue;
        port_link_end(link, PORT_LINK_GONE, why);
        queue(port, link);
    }
}

static const guest_events from_hub = {
    .on_link = opened, .on_refused = refused, .on_resized = resized, .on_gone = gone, .on_hub_gone = hub_gone};

/* What the hub has said. Returns how many things. */
static size_t ask_hub(port *port) {
    size_t heard = port->heard;
    port->control_due = false;
    port->control_ticks = clock_ticks();
    if (!port->hub_gone) guest_poll(port->host.guest, &from_hub, port);
    return port->heard - heard;
}

/* ---- Polling. */

static void ready_bit(void *context, uint32_t index) {
    port *port = context;
    if (index == STATION_HUB_INDEX) {
        port->control_due = true;
        return;
    }
    port_link *link = port->links[index];
    if (link == NULL || !link->linked) return;
    if (link->state == PORT_LINK_CLOSING || link->state == PORT_LINK_GONE) {
        queue(port, link);
        return;
    }
    heat(port, link);
    if (link->wants_room || link->out_sent != NULL || link->next_extent.size != 0) port_link_room(&port->host, link);
}

static void look_for_idle_rings(port *port) {
    int64_t now_us = clock_now_us(clock_real());
    if (now_us < port->idle_look_us) return;
    bool any = false;
    for (uint32_t i = 1; i < STATION_LINKS_MAX; i++)
        if (port->links[i] != NULL && port->links[i]->linked) any |= port_link_shrink(&port->host, port->links[i]);
    port->idle_look_us = any ? clock_deadline_us(now_us, port->ring_idle_us) : CLOCK_NEVER_US;
}

static void look_at_clock(port *port) {
    port->polls = 0;
    if (clock_ticks() - port->control_ticks > port->control_gap) port->control_due = true;
    if (port->idle_look_us != CLOCK_NEVER_US) look_for_idle_rings(port);
}

/* Whatever is not in a hot ring: ready bits, the clock, the hub, links that end. */
static __attribute__((noinline)) size_t look_around(port *port) {
    size_t count = 0;
    if (bell_marked(port->host.self)) {
        bell_take(port->host.self, ready_bit, port);
        count++;
    }
    if (port->polls >= PORT_CLOCK_EVERY) look_at_clock(port);
    if (port->control_due) count += ask_hub(port);
    if (!list_empty(&port->todo)) count += work_todo(port);
    return count;
}

size_t port_poll(port *port) {
    MR_ASSERT(!port->polling);
    port->polling = true;
    size_t count = 0;
    for (uint32_t i = 0; i < port->hot_count; i++) {
        port_link *link = port->hot[i];
        size_t got = ring_readable(&link->receive) && link->state == PORT_LINK_OPEN ? receive(port, link) : 0;
        if (got == 0 && port_link_owes(link)) port_link_settle(&port->host, link);
        count += got;
    }
    if (count != 0) port->host.impatient = false;
    port->host.waiter.alone = false; /* from here on all that is there is read: a link that ends is read to its end */
    bool more = ++port->polls >= PORT_CLOCK_EVERY || bell_marked(port->host.self) || port->control_due;
    if (__builtin_expect(more || !list_empty(&port->todo), 0)) count += look_around(port);
    port->polling = false;
    CHECK_INVARIANTS(STATION_LINKS_MAX, port_check(port));
    return count;
}

/* ---- The transport's slots. */

static mr_status slot_open(void *self, const char *address, link_id *out) {
    port *port = self;
    if (strncmp(address, "shm:", 4) != 0 || address[4] == '\0')
        return error_set(MR_INVALID, "'%s' is not a shared-memory address: expected shm:NAME or shm:#HEX", address);
    if (port->hub_gone) return error_set(MR_CLOSED, "the broker has ended: %s", port->hub_cause.text);
    uint64_t process = 0;
    if (address[4] == '#') {
        char *end;
        errno = 0;
        process = strtoull(address + 5, &end, 16);
        if (errno != 0 || end == address + 5 || *end != '\0')
            return error_set(MR_INVALID, "'%s': the process id after # is a hexadecimal number", address);
    }
    port_link *link = add_link(port);
    if (link == NULL) return error_set(MR_BUSY, "this process has %d links, which is the limit", STATION_LINKS_MAX - 1);
    FAILPOINT("port.connect");
    mr_status status = address[4] == '#' ? guest_connect(port->host.guest, process, link->id.v)
                                         : guest_connect_name(port->host.guest, address + 4, link->id.v);
    if (status != MR_OK) {
        remove_link(port, link);
        return status;
    }
    FAILPOINT("port.connecting");
    *out = link->id;
    return MR_OK;
}

static void slot_close(void *self, link_id id) {
    port *port = self;
    port_link *link = find(port, id);
    if (link == NULL || link->state == PORT_LINK_CLOSING || link->state == PORT_LINK_GONE) return;
    FAILPOINT("port.close");
    cause why;
    cause_set(&why, MR_CLOSED, "link %u was closed by this process", link->id.v);
    lane_show(&link->lane);
    port_link_end(link, PORT_LINK_CLOSING, &why);
    cool(port, link);
    queue(port, link);
    bell_mark(port->host.self, link->index); /* another thread may be driving, asleep */
    bell_ring(port->host.self, port->event_fd);
}

static mr_status slot_reserve(void *self, link_id id, size_t size, uint8_t **out) {
    port *port = self;
    port_link *link = find(port, id);
    if (__builtin_expect(link == NULL, 0)) return error_set(MR_CLOSED, "link %u is closed", id.v);
    return port_link_reserve(&port->host, link, size, out);
}

static void slot_commit(void *self, link_id id, size_t size) {
    port *port = self;
    lane_commit(&port->links[id.v & (STATION_LINKS_MAX - 1)]->lane, size);
}

static void slot_commit_body(void *self, link_id id, size_t size, span body, body_sent_fn *sent, void *argument) {
    port *port = self;
    port_link_commit_body(&port->host, port->links[id.v & (STATION_LINKS_MAX - 1)], size, body, sent, argument);
}

static void slot_discard(void *self, link_id id) {
    port_link *link = find(self, id);
    if (link != NULL) port_link_discard(link);
}

static lane *slot_lane(void *self, link_id id) {
    port_link *link = find(self, id);
    return link == NULL ? NULL : &link->lane;
}

static void slot_flush(void *self) { (void)self; /* nothing is held back */ }

transport port_transport(port *port) {
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
    return (transport){&ops, port};
}

/* ---- Life. */

mr_status port_open(const port_options *options, const transport_events *events, void *context, port **out) {
    port *port = xcalloc_lines(sizeof *port);
    list_init(&port->todo);
    port->idle_look_us = CLOCK_NEVER_US;
    port->ring_idle_us = options->ring_idle_us > 0 ? options->ring_idle_us : PORT_RING_IDLE_US;
    port->host.events = events;
    port->host.context = context;
    port->host.ring_bytes_max = options->ring_bytes_max != 0 ? options->ring_bytes_max : RING_BYTES_MAX;
    mr_status status = MR_OK;
    port->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (port->event_fd < 0) {
        status = error_errno("cannot create the eventfd of a shared-memory transport");
        goto free_port;
    }
    status =
        guest_join(options->hub, options->name != NULL ? options->name : "", port->event_fd,
                   options->join_timeout_us > 0 ? options->join_timeout_us : PORT_JOIN_TIMEOUT_US, &port->host.guest);
    if (status != MR_OK) goto close_event;
    port->arena = *guest_arena(port->host.guest);
    port->host.arena = &port->arena;
    port->host.self = arena_station(&port->arena, guest_station(port->host.guest));
    waiter_init(&port->host.waiter, options->spin_us < 0    ? 0
                                    : options->spin_us == 0 ? WAITER_SPIN_US
                                                            : options->spin_us);
    waiter_heed(&port->host.waiter, arena_station(&port->arena, 0),
                &((const arena_header *)(const void *)port->arena.base)->seats);
    port->patience = (uint64_t)(PATIENCE_US * clock_ticks_per_us());
    port->control_gap = (uint64_t)(CONTROL_EVERY_TICKS_US * clock_ticks_per_us());
    *out = port;
    return MR_OK;

close_event:
    close(port->event_fd);
free_port:
    free(port);
    return status;
}

void port_close(port *port) {
    MR_ASSERT(!port->polling);
    port_detach(port);
    cause why;
    cause_set(&why, MR_CLOSED, "this process (%d) closed its transport", (int)getpid());
    for (uint32_t i = 1; i < STATION_LINKS_MAX; i++) {
        if (port->links[i] == NULL) continue;
        if (port->links[i]->cause.status == MR_OK) port->links[i]->cause = why;
        end_link(port, port->links[i]);
    }
    guest_leave(port->host.guest);
    close(port->event_fd);
    map_fini(&port->numbers);
    free(port);
}

uint64_t port_process(const port *port) { return guest_process(port->host.guest); }
const arena *port_arena(const port *port) { return &port->arena; }

port_stats port_stats_now(const port *port) {
    const waiter *waiter = &port->host.waiter;
    uint32_t leaving = 0;
    for (uint32_t i = 1; i < STATION_LINKS_MAX; i++)
        leaving += port->links[i] != NULL && port->links[i]->left_extent.size != 0;
    return (port_stats){
        .leaving = leaving,
        .links = port->link_count,
        .hot = port->hot_count,
        .spins_hit = waiter->spins_hit,
        .spins_missed = waiter->spins_missed,
        .sleeps_at_once = waiter->sleeps_at_once,
        .sleeps_futex = port->sleeps_futex,
        .sleeps_loop = port->sleeps_loop,
        .nudges = waiter->nudges,
        .grown = port->host.grown,
        .shrunk = port->host.shrunk,
    };
}
