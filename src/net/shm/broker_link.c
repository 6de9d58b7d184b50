/* broker_link.c — links of the broker and their rings; the records are described in broker_internal.h.
 * Tested by src/net/shm/broker_client_test.c. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/failpoint.h"
#include "net/shm/broker_internal.h"
#include "net/shm/ring.h"

/* ---- Rings. */

static mr_status ring_take(broker *broker, uint64_t bytes, extent *out) {
    MR_TRY(broker_take(broker, bytes, out));
    memset(arena_at(&broker->arena, out->offset), 0, BROKER_RING_ZEROED);
    broker->rings++;
    return MR_OK;
}

static void ring_give(broker *broker, extent ring) {
    extent_allocator_free(broker->allocator, ring);
    broker->rings--;
}

/* ---- The two sides of a link. */

static broker_side *other_side(broker_side *side) {
    return side == &side->link->sides[0] ? &side->link->sides[1] : &side->link->sides[0];
}

static void side_init(broker_side *side, broker_link *link, broker_peer *peer, extent ring) {
    *side = (broker_side){.link = link, .peer = peer, .ring = ring};
    peer->open++;
    list_push_back(&peer->links, &side->place);
}

static void side_free(broker *broker, broker_side *side) {
    ring_give(broker, side->ring);
    while (side->old_count > 0) ring_give(broker, side->old[--side->old_count]);
    list_remove(&side->place);
    broker_peer_forget(side->peer);
}

static void side_done(broker_side *side) {
    broker_link *link = side->link;
    broker *broker = side->peer->broker;
    if (!side->done) side->peer->open--;
    side->done = true;
    if (!other_side(side)->done) return;
    map_remove(&broker->links, link->number);
    side_free(broker, &link->sides[0]);
    side_free(broker, &link->sides[1]);
    free(link);
}

/* Notifies the other side if it is still a member. */
static void side_tell_gone(broker_side *side, const cause *why) {
    broker_side *other = other_side(side);
    if (side->done || other->done || other->peer->state != BROKER_MEMBER) return;
    broker_wire message = broker_wire_of_cause(BROKER_WIRE_GONE, side->link->number, why);
    broker_tell(other->peer, &message, -1);
}

/* The client's side of the link named in a message. A link exists until both sides are done with it, so a client that
 * names a link it does not have sent a malformed message. */
static broker_side *side_of(broker_peer *peer, const broker_wire *message) {
    broker_link *link = map_get(&peer->broker->links, message->head.subject);
    for (int i = 0; link != NULL && i < 2; i++)
        if (link->sides[i].peer == peer && !link->sides[i].done) return &link->sides[i];
    broker_peer_doom(peer, MR_CORRUPT, "malformed message from process %d: it does not have link %u", peer->pid,
                     message->head.subject);
    return NULL;
}

/* ---- Connecting. */

static uint32_t next_number(broker *broker) {
    while (broker->link_next == 0 || map_get(&broker->links, broker->link_next) != NULL) broker->link_next++;
    return broker->link_next++;
}

static mr_status find_peer(broker_peer *asking_peer, const broker_wire *message, broker_peer **out) {
    broker *broker = asking_peer->broker;
    const broker_wire_connect *wanted = &message->connect;
    broker_peer *peer =
        wanted->process != 0 ? map_get(&broker->processes, wanted->process) : broker_peer_find(broker, wanted->name);
    if (peer == NULL)
        return wanted->process != 0
                   ? error_set(MR_NOT_FOUND, "this machine has no process with id %" PRIu64, wanted->process)
                   : error_set(MR_NOT_FOUND, "this machine has no process named '%s'", wanted->name);
    if (peer == asking_peer) return error_set(MR_INVALID, "process %d cannot have a link to itself", asking_peer->pid);
    if (asking_peer->open >= broker->links_max)
        return error_set(MR_BUSY, "this process has %u links, which is the limit", asking_peer->open);
    if (peer->open >= broker->links_max)
        return error_set(MR_BUSY, "process %d has %u links, which is the limit", peer->pid, peer->open);
    if (!broker_peer_reads(peer))
        return error_set(MR_BUSY, "process %d does not read the broker's messages: it is stopped or overloaded",
                         peer->pid);
    *out = peer;
    return MR_OK;
}

static mr_status make_link(broker_peer *asking_peer, broker_peer *peer, broker_link **out) {
    broker *broker = asking_peer->broker;
    extent there, back;
    MR_TRY(ring_take(broker, broker->ring_bytes, &there));
    FAILPOINT("hub.link_half_allocated");
    mr_status status = ring_take(broker, broker->ring_bytes, &back);
    if (status != MR_OK) {
        ring_give(broker, there);
        return status;
    }
    broker_link *link = xcalloc(1, sizeof *link);
    link->number = next_number(broker);
    map_put(&broker->links, link->number, link);
    side_init(&link->sides[0], link, asking_peer, there);
    side_init(&link->sides[1], link, peer, back);
    FAILPOINT("hub.link_allocated");
    *out = link;
    return MR_OK;
}

static void tell_link(broker_side *side, uint32_t tag) {
    const broker_side *other = other_side(side);
    const broker_peer *peer = other->peer;
    broker_wire message = broker_wire_of(BROKER_WIRE_LINK, side->link->number);
    message.link.tag = tag;
    message.link.process_block = peer->process_block;
    message.link.process = peer->process;
    message.link.pid = (uint32_t)peer->pid;
    message.link.send = side->ring;
    message.link.receive = other->ring;
    memcpy(message.link.name, peer->name, sizeof message.link.name);
    broker_tell(side->peer, &message, peer->event_fd);
}

static void refuse(broker_peer *peer, uint32_t tag, mr_status status) {
    cause why;
    cause_set(&why, status, "%s", mr_last_error());
    broker_wire message = broker_wire_of_cause(BROKER_WIRE_REFUSED, tag, &why);
    broker_tell(peer, &message, -1);
}

/* The other side is notified first, so that it polls its ring before the ring contains messages. */
void broker_link_connect(broker_peer *asking_peer, const broker_wire *message) {
    FAILPOINT("hub.connect");
    broker_peer *peer = NULL;
    broker_link *link = NULL;
    mr_status status = find_peer(asking_peer, message, &peer);
    if (status == MR_OK) status = make_link(asking_peer, peer, &link);
    if (status != MR_OK) {
        refuse(asking_peer, message->head.subject, status);
        return;
    }
    tell_link(&link->sides[1], 0);
    FAILPOINT("hub.link_half_told");
    tell_link(&link->sides[0], message->head.subject);
    FAILPOINT("hub.link_told");
}

/* ---- Resizing and closing of a link. */

static extent new_ring(broker_side *side, uint64_t bytes) {
    broker *broker = side->peer->broker;
    extent ring;
    bool wanted = !other_side(side)->done && bytes >= RING_BYTES_MIN && bytes <= broker->ring_bytes_max;
    if (!wanted || side->old_count == BROKER_OLD_RINGS_MAX || ring_take(broker, bytes, &ring) != MR_OK)
        return (extent){0};
    FAILPOINT("hub.resize_allocated");
    side->old[side->old_count++] = side->ring;
    side->ring = ring;
    return ring;
}

void broker_link_resize(broker_peer *peer, const broker_wire *message) {
    FAILPOINT("hub.resize");
    broker_side *side = side_of(peer, message);
    if (side == NULL) return;
    broker_wire answer = broker_wire_of(BROKER_WIRE_RESIZED, message->head.subject);
    answer.ring.ring = new_ring(side, message->resize.bytes);
    broker_tell(peer, &answer, -1);
    FAILPOINT("hub.resized");
}

void broker_link_release(broker_peer *peer, const broker_wire *message) {
    FAILPOINT("hub.release");
    broker_side *side = side_of(peer, message);
    if (side == NULL) return;
    broker_side *sender = other_side(side);
    for (uint32_t i = 0; i < sender->old_count; i++) {
        extent *old = &sender->old[i];
        if (old->offset != message->ring.ring.offset || old->size != message->ring.ring.size) continue;
        ring_give(peer->broker, *old);
        *old = sender->old[--sender->old_count];
        FAILPOINT("hub.released");
        return;
    }
    broker_peer_doom(peer, MR_CORRUPT, "process %d released a ring that is not an old one of link %u", peer->pid,
                     message->head.subject);
}

void broker_link_close(broker_peer *peer, const broker_wire *message) {
    FAILPOINT("hub.close");
    broker_side *side = side_of(peer, message);
    if (side == NULL) return;
    cause why;
    cause_set(&why, MR_CLOSED,
              message->close.no_descriptor
                  ? "process %d has no free file descriptor for the link: raise its limit of open files (ulimit -n)"
                  : "process %d closed the link",
              peer->pid);
    why.pid = peer->pid;
    side_tell_gone(side, &why);
    FAILPOINT("hub.close_told");
    side_done(side);
}

void broker_links_tell_gone(broker_peer *peer, const cause *why) {
    list_for_each (at, &peer->links) {
        side_tell_gone(container_of(at, broker_side, place), why);
        FAILPOINT("hub.gone_half");
    }
    FAILPOINT("hub.gone");
}

void broker_links_done(broker_peer *peer) {
    list_for_each (at, &peer->links) side_done(container_of(at, broker_side, place));
}

void broker_links_free(broker *broker) {
    map_entry entry;
    while (map_next(&broker->links, 0, &entry) != 0) {
        broker_link *link = entry.value;
        link->sides[1].peer->open -= link->sides[1].done ? 0 : 1;
        link->sides[1].done = true;
        side_done(&link->sides[0]);
    }
}
