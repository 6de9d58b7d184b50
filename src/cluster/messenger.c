/* messenger.c — see messenger.h. */
#include "cluster/messenger.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/invariants.h"
#include "base/list.h"
#include "base/map.h"

typedef struct kept { /* a message that waits for its link */
    list of_box;
    body_sent_fn *sent; /* NULL: the bytes are a copy after this struct */
    void *argument;
    size_t count;
    span pieces[];
} kept;

typedef struct box { /* state of one address */
    list of_messenger;
    char address[MESSENGER_ADDRESS_MAX];
    link_id link;     /* v == 0: no link, not even opening */
    uint64_t process; /* the process at the address when a link was opened last; 0: none was */
    bool open;
    bool gone;                    /* the last attempt to open a link found no process there */
    int64_t retry_us;             /* earliest time to open the link */
    char trouble[CAUSE_TEXT_MAX]; /* why the last link was not opened, or ended; "": it is open, or there was none */
    list messages;
    size_t message_count;
} box;

struct messenger {
    const env *env;
    const messenger_handlers *handlers;
    void *context;
    list boxes;
    box *last;    /* the box of the last message; NULL: none */
    map by_link;  /* link → box, for links that were opened here */
    map arriving; /* link → shared buffer, owned: body of a large message that is arriving */
    map peers;    /* open link → number of its process, as a pointer */
};

messenger *messenger_create(const env *env, const messenger_handlers *handlers, void *context) {
    messenger *messenger = XNEW(struct messenger, .env = env, .handlers = handlers, .context = context);
    list_init(&messenger->boxes);
    return messenger;
}

/* Removes the oldest waiting message; there must be one. */
static kept *take_message(box *box) {
    MR_ASSERT(box->message_count > 0);
    kept *kept = container_of(box->messages.next, struct kept, of_box);
    list_remove(&kept->of_box);
    box->message_count--;
    return kept;
}

static void lose(kept *kept) {
    if (kept->sent != NULL) kept->sent(kept->argument, MR_CLOSED);
    free(kept);
}

static void lose_message(box *box) { lose(take_message(box)); }

static void lose_messages(box *box) {
    while (!list_empty(&box->messages)) lose_message(box);
}

static void destroy_box(messenger *messenger, box *box) {
    if (messenger->last == box) messenger->last = NULL;
    lose_messages(box);
    list_remove(&box->of_messenger);
    free(box);
}

void messenger_destroy(messenger *messenger) {
    while (!list_empty(&messenger->boxes))
        destroy_box(messenger, container_of(messenger->boxes.next, box, of_messenger));
    map_fini(&messenger->by_link);
    map_for_each (slot, &messenger->arriving) shared_bytes_unref(slot.value);
    map_fini(&messenger->arriving);
    map_fini(&messenger->peers);
    free(messenger);
}

static box *find_box(const messenger *messenger, const char *address) {
    list_for_each (item, &messenger->boxes) {
        box *box = container_of(item, struct box, of_messenger);
        if (strcmp(box->address, address) == 0) return box;
    }
    return NULL;
}

static box *create_box(messenger *messenger, const char *address) {
    MR_ASSERT(strlen(address) < MESSENGER_ADDRESS_MAX && find_box(messenger, address) == NULL);
    box *box = xcalloc(1, sizeof *box);
    strcpy(box->address, address);
    list_init(&box->messages);
    list_push_back(&messenger->boxes, &box->of_messenger);
    return box;
}

static kept *keep(box *box, size_t count, size_t room) {
    MR_ASSERT(!box->open && box->link.v != 0 && box->message_count <= MESSENGER_KEPT); /* the link is opening */
    if (box->message_count == MESSENGER_KEPT) lose_message(box);
    kept *kept = xcalloc(1, sizeof *kept + count * sizeof *kept->pieces + room);
    kept->count = count;
    list_push_back(&box->messages, &kept->of_box);
    box->message_count++;
    return kept;
}

static void keep_copy(box *box, span bytes) {
    kept *kept = keep(box, 1, bytes.size);
    kept->pieces[0] = span_of(memcpy(kept->pieces + 1, bytes.data, bytes.size), bytes.size);
}

static void keep_pieces(box *box, const span *pieces, size_t count, body_sent_fn *sent, void *argument) {
    kept *kept = keep(box, count, 0);
    memcpy(kept->pieces, pieces, count * sizeof *pieces);
    kept->sent = sent;
    kept->argument = argument;
}

/* If the address cannot be opened now, messages to it are lost until the retry. */
static void open_box(messenger *messenger, box *box) {
    int64_t now_us = clock_now_us(messenger->env->clock);
    transport transport = messenger->env->transport;
    if (now_us < box->retry_us) return;
    box->retry_us = now_us + MESSENGER_RETRY_US;
    if (transport.ops->open(transport.self, box->address, &box->link) != MR_OK) {
        box->link.v = 0;
        snprintf(box->trouble, sizeof box->trouble, "%.*s", CAUSE_TEXT_MAX - 1, mr_last_error());
        return;
    }
    map_put(&messenger->by_link, box->link.v, box);
}

/* The box of an address with a link that is open or opening; NULL: no link now. Checks the last box first, since most
 * messages go to the same address as the one before. */
static box *box_for(messenger *messenger, const char *address) {
    box *box = messenger->last;
    if (box == NULL || strcmp(box->address, address) != 0) box = find_box(messenger, address);
    if (box == NULL) box = create_box(messenger, address);
    messenger->last = box;
    if (box->link.v == 0) open_box(messenger, box);
    return box->link.v == 0 ? NULL : box;
}

/* The message is lost if the link is full or closed. */
static void send_pieces(messenger *messenger, link_id link, const span *pieces, size_t count, body_sent_fn *sent,
                        void *argument) {
    transport transport = messenger->env->transport;
    size_t size = 0;
    uint8_t *place;
    for (size_t i = 0; i < count; i++) size += pieces[i].size;
    MR_ASSERT(size <= MESSENGER_MESSAGE_MAX);
    bool large = size > MESSENGER_SMALL;
    mr_status status = transport.ops->reserve(transport.self, link, large ? 0 : size, &place);
    if (status == MR_OK && large) {
        transport.ops->commit_pieces(transport.self, link, 0, pieces, count, sent, argument);
        return;
    }
    if (status == MR_OK) {
        for (size_t i = 0; i < count; place += pieces[i++].size) memcpy(place, pieces[i].data, pieces[i].size);
        transport.ops->commit(transport.self, link, size);
    }
    sent(argument, status);
}

void messenger_send(messenger *messenger, const char *address, span bytes) {
    box *box = box_for(messenger, address);
    if (box != NULL && box->open)
        messenger_answer(messenger, box->link, bytes);
    else if (box != NULL)
        keep_copy(box, bytes);
}

void messenger_send_pieces(messenger *messenger, const char *address, const span *pieces, size_t count,
                           body_sent_fn *sent, void *argument) {
    box *box = box_for(messenger, address);
    if (box == NULL)
        sent(argument, MR_CLOSED);
    else if (box->open)
        send_pieces(messenger, box->link, pieces, count, sent, argument);
    else
        keep_pieces(box, pieces, count, sent, argument);
}

static bool move_pieces(kept *kept, span from, span to) {
    bool found = false;
    for (size_t i = 0; i < kept->count; i++) {
        const uint8_t *data = kept->pieces[i].data;
        if (kept->pieces[i].size == 0 || data < from.data || data >= from.data + from.size) continue;
        if (to.size != 0) kept->pieces[i].data = to.data + (data - from.data);
        found = true;
    }
    return found;
}

static void move_in_box(box *box, const void *argument, span from, span to) {
    list_for_each (item, &box->messages) {
        kept *kept = container_of(item, struct kept, of_box);
        if (kept->sent == NULL || kept->argument != argument || !move_pieces(kept, from, to) || to.size != 0) continue;
        list_remove(&kept->of_box);
        box->message_count--;
        lose(kept);
    }
}

void messenger_move_pieces(messenger *messenger, const void *argument, span from, span to) {
    list_for_each (item, &messenger->boxes) move_in_box(container_of(item, box, of_messenger), argument, from, to);
}

/* The message is lost if the link is full or closed. It is sent at once, not batched with others. */
void messenger_answer(messenger *messenger, link_id link, span bytes) {
    (void)transport_send_now(messenger->env->transport, link, bytes);
}

link_id messenger_link(const messenger *messenger, const char *address) {
    const box *box = find_box(messenger, address);
    return box == NULL || !box->open ? (link_id){0} : box->link;
}

uint64_t messenger_process(const messenger *messenger, link_id link) {
    return (uint64_t)(uintptr_t)map_get(&messenger->peers, link.v);
}

uint64_t messenger_process_at(const messenger *messenger, const char *address) {
    const box *box = find_box(messenger, address);
    return box == NULL ? 0 : box->process;
}

bool messenger_is_from(const messenger *messenger, link_id link, const char *address) {
    uint64_t process = messenger_process(messenger, link);
    return process != 0 && messenger_process_at(messenger, address) == process;
}

void messenger_end(messenger *messenger, link_id link) {
    transport transport = messenger->env->transport;
    transport.ops->close(transport.self, link);
}

const char *messenger_trouble(const messenger *messenger, const char *address) {
    const box *box = find_box(messenger, address);
    return box == NULL ? "" : box->trouble;
}

void messenger_reach(messenger *messenger, const char *address) { (void)box_for(messenger, address); }

bool messenger_is_gone(const messenger *messenger, const char *address) {
    const box *box = find_box(messenger, address);
    return box != NULL && box->gone && box->link.v == 0;
}

void messenger_tell_all(messenger *messenger, span bytes) {
    map_for_each (peer, &messenger->peers) messenger_answer(messenger, (link_id){(uint32_t)peer.key}, bytes);
}

void messenger_forget(messenger *messenger, const char *address) {
    box *box = find_box(messenger, address);
    if (box == NULL) return;
    transport transport = messenger->env->transport;
    if (box->link.v != 0) {
        map_remove(&messenger->by_link, box->link.v);
        transport.ops->close(transport.self, box->link);
    }
    destroy_box(messenger, box);
}

/* ---- Events. */

static void on_open(void *context, link_id link, const peer *peer) {
    messenger *messenger = context;
    MR_ASSERT(peer->process != 0);
    map_put(&messenger->peers, link.v, (void *)(uintptr_t)peer->process);
    box *box = map_get(&messenger->by_link, link.v);
    if (box == NULL) return; /* opened by the peer: carries its messages, and the answers to them */
    box->open = true;
    box->gone = false;
    box->process = peer->process;
    box->trouble[0] = '\0';
    while (!list_empty(&box->messages)) {
        kept *kept = take_message(box);
        if (kept->sent != NULL)
            send_pieces(messenger, link, kept->pieces, kept->count, kept->sent, kept->argument);
        else
            messenger_answer(messenger, link, kept->pieces[0]);
        free(kept);
    }
    CHECK_INVARIANTS(messenger->by_link.count, messenger_check(messenger));
}

static void on_message(void *context, link_id link, const message *message) {
    messenger *messenger = context;
    shared_bytes *bytes = messenger->arriving.count == 0 ? NULL : map_remove(&messenger->arriving, link.v);
    if (bytes != NULL)
        messenger->handlers->on_bytes(messenger->context, link, bytes);
    else if (message->body.size == 0)
        messenger->handlers->on_message(messenger->context, link, message->head);
    shared_bytes_unref(bytes);
}

static void *on_body(void *context, link_id link, span head, uint64_t size) {
    messenger *messenger = context;
    if (messenger->handlers->on_bytes == NULL || size > MESSENGER_MESSAGE_MAX) return NULL;
    shared_bytes *bytes = NULL;
    if (shared_bytes_resize(&bytes, (size_t)size) != MR_OK) return BODY_DISCARD;
    map_put(&messenger->arriving, link.v, bytes);
    return shared_bytes_room(bytes);
}

void messenger_check(const messenger *messenger) {
    size_t linked = 0, lasts = 0;
    list_for_each (item, &messenger->boxes) {
        const box *box = container_of(item, struct box, of_messenger);
        size_t messages = 0;
        list_for_each (letter, &box->messages) messages++;
        MR_ASSERT(messages == box->message_count && messages <= MESSENGER_KEPT);                     /* 1 */
        MR_ASSERT(messages == 0 || (box->link.v != 0 && !box->open));                                /* 1 */
        MR_ASSERT(box->link.v == 0 ? !box->open : map_get(&messenger->by_link, box->link.v) == box); /* 2 */
        linked += box->link.v != 0;
        lasts += box == messenger->last;
    }
    MR_ASSERT(linked == messenger->by_link.count && lasts == (messenger->last != NULL)); /* 2 */
}

static void on_room(void *context, link_id link) {}

static void on_closed(void *context, link_id link, const cause *why) {
    messenger *messenger = context;
    shared_bytes_unref(map_remove(&messenger->arriving, link.v));
    (void)map_remove(&messenger->peers, link.v);
    box *box = map_remove(&messenger->by_link, link.v);
    if (box == NULL) return;
    box->link.v = 0;
    /* the process of an open link that broke may live; the next attempt shows it */
    box->gone = !box->open && (why->status == MR_NOT_FOUND || why->status == MR_PEER_DIED);
    box->open = false;
    memcpy(box->trouble, why->text, sizeof box->trouble);
    lose_messages(box);
    CHECK_INVARIANTS(messenger->by_link.count, messenger_check(messenger));
    char address[MESSENGER_ADDRESS_MAX]; /* a copy: the handler may destroy the box */
    memcpy(address, box->address, sizeof address);
    if (messenger->handlers->on_broken != NULL) messenger->handlers->on_broken(messenger->context, address, why);
}

const transport_events messenger_events = {on_open, on_message, on_body, on_room, on_closed};
