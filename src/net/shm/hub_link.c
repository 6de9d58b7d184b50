/* hub_link.c — links of the broker and their rings; the records are described in hub_state.h.
 * Tested by src/net/shm/guest_test.c. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/failpoint.h"
#include "net/shm/hub_state.h"
#include "net/shm/ring.h"

/* ---- Rings. */

static mr_status ring_take(hub *hub, uint64_t bytes, extent *out) {
    MR_TRY(hub_take(hub, bytes, out));
    memset(arena_at(&hub->arena, out->offset), 0, HUB_RING_ZEROED);
    hub->rings++;
    return MR_OK;
}

static void ring_give(hub *hub, extent ring) {
    extents_free(hub->extents, ring);
    hub->rings--;
}

/* ---- Sides. */

static hub_side *other_side(hub_side *side) {
    return side == &side->link->sides[0] ? &side->link->sides[1] : &side->link->sides[0];
}

static void side_init(hub_side *side, hub_link *link, hub_guest *guest, extent ring) {
    side->link = link;
    side->guest = guest;
    side->ring = ring;
    guest->open++;
    list_push_back(&guest->links, &side->place);
}

static void side_free(hub *hub, hub_side *side) {
    ring_give(hub, side->ring);
    while (side->old_count > 0) ring_give(hub, side->old[--side->old_count]);
    list_remove(&side->place);
    hub_guest_forget(side->guest);
}

static void side_done(hub_side *side) {
    hub_link *link = side->link;
    hub *hub = side->guest->hub;
    if (!side->done) side->guest->open--;
    side->done = true;
    if (!other_side(side)->done) return;
    map_remove(&hub->links, link->number);
    side_free(hub, &link->sides[0]);
    side_free(hub, &link->sides[1]);
    free(link);
}

/* Tells the other side, if there is anybody to tell. */
static void side_tell_gone(hub_side *side, const cause *why) {
    hub_side *other = other_side(side);
    if (side->done || other->done || other->guest->state != HUB_MEMBER) return;
    wire message;
    wire_begin(&message, WIRE_GONE, side->link->number);
    wire_put_cause(&message, why);
    hub_tell(other->guest, &message, -1);
}

/* The guest's side of the link that a message is about. A link lives until both sides are done with it, so a guest that
 * names one it does not have is wrong. */
static hub_side *side_of(hub_guest *guest, const wire *message) {
    hub_link *link = map_get(&guest->hub->links, message->head.subject);
    for (int i = 0; link != NULL && i < 2; i++)
        if (link->sides[i].guest == guest && !link->sides[i].done) return &link->sides[i];
    hub_guest_doom(guest, MR_CORRUPT, "malformed message from process %d: it does not have link %u", guest->pid,
                   message->head.subject);
    return NULL;
}

/* ---- Connecting. */

static uint32_t next_number(hub *hub) {
    while (hub->link_next == 0 || map_get(&hub->links, hub->link_next) != NULL) hub->link_next++;
    return hub->link_next++;
}

static mr_status find_peer(hub_guest *guest, const wire *message, hub_guest **out) {
    hub *hub = guest->hub;
    const wire_connect *wanted = &message->connect;
    hub_guest *peer =
        wanted->process != 0 ? map_get(&hub->processes, wanted->process) : hub_guest_find(hub, wanted->name);
    if (peer == NULL)
        return wanted->process != 0
                   ? error_set(MR_NOT_FOUND, "this machine has no process with id %" PRIu64, wanted->process)
                   : error_set(MR_NOT_FOUND, "this machine has no process named '%s'", wanted->name);
    if (peer == guest) return error_set(MR_INVALID, "process %d cannot have a link to itself", guest->pid);
    if (guest->open >= hub->links_max)
        return error_set(MR_BUSY, "this process has %u links, which is the limit", guest->open);
    if (peer->open >= hub->links_max)
        return error_set(MR_BUSY, "process %d has %u links, which is the limit", peer->pid, peer->open);
    if (!hub_guest_reads(peer))
        return error_set(MR_BUSY, "process %d does not read the broker's messages: it is stopped or overloaded",
                         peer->pid);
    *out = peer;
    return MR_OK;
}

static mr_status make_link(hub_guest *guest, hub_guest *peer, hub_link **out) {
    hub *hub = guest->hub;
    extent there, back;
    MR_TRY(ring_take(hub, hub->ring_bytes, &there));
    FAILPOINT("hub.link_half_allocated");
    mr_status status = ring_take(hub, hub->ring_bytes, &back);
    if (status != MR_OK) {
        ring_give(hub, there);
        return status;
    }
    hub_link *link = xcalloc(1, sizeof *link);
    link->number = next_number(hub);
    map_put(&hub->links, link->number, link);
    side_init(&link->sides[0], link, guest, there);
    side_init(&link->sides[1], link, peer, back);
    FAILPOINT("hub.link_allocated");
    *out = link;
    return MR_OK;
}

static void tell_link(hub_side *side, uint32_t tag) {
    const hub_side *other = other_side(side);
    const hub_guest *peer = other->guest;
    wire message;
    wire_begin(&message, WIRE_LINK, side->link->number);
    message.link.tag = tag;
    message.link.station = peer->station;
    message.link.process = peer->process;
    message.link.pid = (uint32_t)peer->pid;
    message.link.send = side->ring;
    message.link.receive = other->ring;
    memcpy(message.link.name, peer->name, sizeof message.link.name);
    hub_tell(side->guest, &message, peer->event_fd);
}

static void refuse(hub_guest *guest, uint32_t tag, mr_status status) {
    cause why;
    cause_set(&why, status, "%s", mr_last_error());
    wire message;
    wire_begin(&message, WIRE_REFUSED, tag);
    wire_put_cause(&message, &why);
    hub_tell(guest, &message, -1);
}

/* The other side first: it looks at its ring before anything can be in it. */
void hub_link_connect(hub_guest *guest, const wire *message) {
    FAILPOINT("hub.connect");
    hub_guest *peer = NULL;
    hub_link *link = NULL;
    mr_status status = find_peer(guest, message, &peer);
    if (status == MR_OK) status = make_link(guest, peer, &link);
    if (status != MR_OK) {
        refuse(guest, message->head.subject, status);
        return;
    }
    tell_link(&link->sides[1], 0);
    FAILPOINT("hub.link_half_told");
    tell_link(&link->sides[0], message->head.subject);
    FAILPOINT("hub.link_told");
}

/* ---- What happens to a link. */

static extent new_ring(hub_side *side, uint64_t bytes) {
    hub *hub = side->guest->hub;
    extent ring;
    bool wanted = !other_side(side)->done && bytes >= RING_BYTES_MIN && bytes <= hub->ring_bytes_max;
    if (!wanted || side->old_count == HUB_OLD_RINGS_MAX || ring_take(hub, bytes, &ring) != MR_OK) return (extent){0};
    FAILPOINT("hub.resize_allocated");
    side->old[side->old_count++] = side->ring;
    side->ring = ring;
    return ring;
}

void hub_link_resize(hub_guest *guest, const wire *message) {
    FAILPOINT("hub.resize");
    hub_side *side = side_of(guest, message);
    if (side == NULL) return;
    wire answer;
    wire_begin(&answer, WIRE_RESIZED, message->head.subject);
    answer.ring.ring = new_ring(side, message->resize.bytes);
    hub_tell(guest, &answer, -1);
    FAILPOINT("hub.resized");
}

void hub_link_release(hub_guest *guest, const wire *message) {
    FAILPOINT("hub.release");
    hub_side *side = side_of(guest, message);
    if (side == NULL) return;
    hub_side *sender = other_side(side);
    for (uint32_t i = 0; i < sender->old_count; i++) {
        extent *old = &sender->old[i];
        if (old->offset != message->ring.ring.offset || old->size != message->ring.ring.size) continue;
        ring_give(guest->hub, *old);
        *old = sender->old[--sender->old_count];
        FAILPOINT("hub.released");
        return;
    }
    hub_guest_doom(guest, MR_CORRUPT, "process %d released a ring that is not an old one of link %u", guest->pid,
                   message->head.subject);
}

void hub_link_close(hub_guest *guest, const wire *message) {
    FAILPOINT("hub.close");
    hub_side *side = side_of(guest, message);
    if (side == NULL) return;
    cause why;
    cause_set(&why, MR_CLOSED,
              message->close.no_descriptor
                  ? "process %d has no free file descriptor for the link: raise its limit of open files (ulimit -n)"
                  : "process %d closed the link",
              guest->pid);
    why.pid = guest->pid;
    side_tell_gone(side, &why);
    FAILPOINT("hub.close_told");
    side_done(side);
}

void hub_links_tell_gone(hub_guest *guest, const cause *why) {
    list_for_each (at, &guest->links) {
        side_tell_gone(container_of(at, hub_side, place), why);
        FAILPOINT("hub.gone_half");
    }
    FAILPOINT("hub.gone");
}

void hub_links_done(hub_guest *guest) {
    list_for_each (at, &guest->links) side_done(container_of(at, hub_side, place));
}

void hub_links_free(hub *hub) {
    map_slot slot;
    while (map_next(&hub->links, 0, &slot) != 0) {
        hub_link *link = slot.value;
        link->sides[1].guest->open -= link->sides[1].done ? 0 : 1;
        link->sides[1].done = true;
        side_done(&link->sides[0]);
    }
}
