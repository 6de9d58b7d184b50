/* van.c — see van.h. */
#include "kv/van.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/list.h"
#include "base/log.h"
#include "net/shm/shm_export.h"
#include "net/socket/socket_transport.h"
#include "ps/batcher.h"

_Static_assert((int)BATCHER_SMALL <= (int)MESSENGER_SMALL, "small batches are small letters");

enum { TICKS_MAX = 64 }; /* consecutive ticks before the sockets are read */

typedef struct own { /* a control message to this process */
    list queued;
    shared_bytes *bytes; /* shared */
} own;

typedef struct shipment { /* a large message that is being sent */
    list of_van;
    size_t count;
    shared_bytes **bytes; /* buffers of the pieces; NULL: a copy behind this struct */
    span pieces[];
} shipment;

struct van {
    const van_host *host;
    void *context;
    event_loop *loop; /* NULL: the van has an env, and the fields up to the socket transport are unused */
    event_loop_idle *idle;
    event_loop_timer *timer;
    int64_t timer_us;   /* current setting of the timer; 0: to be set */
    shm_export *export; /* owned; NULL: none */
    socket_transport *transport;
    messenger *messenger;
    token_finder finder; /* of the token for tcp links */
    env env;
    rng rng;
    list messages;     /* own messages, owned */
    list shipments;    /* shipments, owned until they are sent */
    int64_t looked_us; /* last reading of the clock */
    bool news;         /* the last wait was skipped, since there was data to read */
    bool heard;        /* with an env: a message arrived since the last turn */
    char address[ADDRESS_TEXT_MAX];
    size_t address_size;
    char last[MESSENGER_ADDRESS_MAX]; /* address without role of the last message's receiver, if another process */
};

/* ---- Sending. */

/* The address without its role, in `room` if it has one; NULL: invalid address. */
static const char *base_of(const char *address, char room[MESSENGER_ADDRESS_MAX]) {
    size_t size = (size_t)(strchrnul(address, '#') - address);
    if (size == 0 || size >= MESSENGER_ADDRESS_MAX) return NULL;
    if (address[size] == '\0') return address;
    memcpy(room, address, size);
    room[size] = '\0';
    return room;
}

static size_t size_of(const shared_bytes_piece *pieces, size_t count) {
    size_t size = 0;
    for (size_t i = 0; i < count; i++) size += pieces[i].bytes.size;
    return size;
}

static void gather(uint8_t *to, const shared_bytes_piece *pieces, size_t count) {
    for (size_t i = 0; i < count; to += pieces[i++].bytes.size) memcpy(to, pieces[i].bytes.data, pieces[i].bytes.size);
}

static void keep(van *van, const shared_bytes_piece *pieces, size_t count) {
    own *message = xcalloc(1, sizeof *message);
    message->bytes = shared_bytes_new(size_of(pieces, count));
    gather(shared_bytes_room(message->bytes), pieces, count);
    list_push_back(&van->messages, &message->queued);
}

/* The address for the messenger; NULL: the message was queued for this process, or the address is invalid. */
static const char *route(van *van, const char *address, char room[MESSENGER_ADDRESS_MAX],
                         const shared_bytes_piece *pieces, size_t count) {
    if (van->last[0] != '\0' && strcmp(address, van->last) == 0) return address; /* the usual case */
    size_t size = van->address_size;
    if (strncmp(address, van->address, size) == 0 && (address[size] == '#' || address[size] == '\0')) {
        keep(van, pieces, count);
        return NULL;
    }
    const char *base = base_of(address, room);
    if (base == address) strcpy(van->last, address);
    return base;
}

void van_send(van *van, const char *address, span bytes) {
    char room[MESSENGER_ADDRESS_MAX];
    const char *base = route(van, address, room, &(shared_bytes_piece){bytes, NULL}, 1);
    if (base != NULL) messenger_send(van->messenger, base, bytes);
}

static void shipped(void *argument, mr_status status) {
    shipment *shipment = argument;
    list_remove(&shipment->of_van);
    for (size_t i = 0; i < shipment->count; i++) shared_bytes_unref(shipment->bytes[i]);
    free(shipment);
}

/* Sends a message in pieces. Pieces without a shared buffer (heads of slot messages, a few bytes each) are copied
 * behind the shipment. */
static void ship(van *van, const char *address, const shared_bytes_piece *pieces, size_t count) {
    size_t copied = 0;
    for (size_t i = 0; i < count; i++) copied += pieces[i].shared == NULL ? pieces[i].bytes.size : 0;
    shipment *shipment = xmalloc(sizeof *shipment + count * (sizeof(span) + sizeof(shared_bytes *)) + copied);
    shipment->count = count;
    shipment->bytes = (shared_bytes **)(void *)(shipment->pieces + count);
    uint8_t *at = (uint8_t *)(shipment->bytes + count);
    for (size_t i = 0; i < count; i++) {
        shipment->bytes[i] = shared_bytes_ref(pieces[i].shared);
        shipment->pieces[i] = pieces[i].bytes;
        if (pieces[i].shared != NULL) continue;
        shipment->pieces[i].data = memcpy(at, pieces[i].bytes.data, pieces[i].bytes.size);
        at += pieces[i].bytes.size;
    }
    list_push_back(&van->shipments, &shipment->of_van);
    messenger_send_pieces(van->messenger, address, shipment->pieces, count, shipped, shipment);
}

void van_send_pieces(van *van, const char *address, const shared_bytes_piece *pieces, size_t count) {
    char room[MESSENGER_ADDRESS_MAX];
    const char *base = route(van, address, room, pieces, count);
    uint8_t small[MESSENGER_SMALL];
    size_t size = size_of(pieces, count);
    if (base == NULL) return;
    if (size > sizeof small) {
        ship(van, base, pieces, count);
    } else if (count == 1) {
        messenger_send(van->messenger, base, pieces[0].bytes);
    } else {
        gather(small, pieces, count);
        messenger_send(van->messenger, base, span_of(small, size));
    }
}

static bool holds(const shipment *shipment, const shared_bytes *bytes) {
    for (size_t i = 0; i < shipment->count; i++)
        if (shipment->bytes[i] == bytes) return true;
    return false;
}

void van_move(van *van, const shared_bytes *bytes, span from, span to) {
    list_for_each (item, &van->shipments) {
        const shipment *shipment = container_of(item, struct shipment, of_van);
        if (!holds(shipment, bytes)) continue;
        if (van->transport != NULL) socket_transport_move_pieces(van->transport, shipment, from, to);
        /* last, since it may lose messages whose bytes then are freed */
        messenger_move_pieces(van->messenger, shipment, from, to);
    }
}

void van_hurry(van *van) {
    if (van->host->flush != NULL) van->host->flush(van->context);
    van->env.transport.ops->flush(van->env.transport.self);
}

void van_answer(van *van, link_id link, span bytes) { messenger_answer(van->messenger, link, bytes); }

uint64_t van_sender(const van *van, link_id link) {
    return link.v == 0 ? van_process(van) : messenger_process(van->messenger, link);
}

bool van_is_from(const van *van, link_id link, const char *address) {
    return link.v == 0 || messenger_is_from(van->messenger, link, address);
}

void van_refuse(van *van, link_id link, const char *what) {
    if (link.v == 0) return;
    log_warn("%s: a link was closed, since process %llx sent %s", van->address,
             (unsigned long long)messenger_process(van->messenger, link), what);
    messenger_end(van->messenger, link);
}

const char *van_trouble(const van *van, const char *address) { return messenger_trouble(van->messenger, address); }

void van_send_message(void *van, const char *address, const control_message *message) {
    size_t size;
    uint8_t *bytes = control_message_write(message, &size);
    van_send(van, address, span_of(bytes, size));
    free(bytes);
}

void van_answer_message(void *van, link_id link, const control_message *message) {
    size_t size;
    uint8_t *bytes = control_message_write(message, &size);
    van_answer(van, link, span_of(bytes, size));
    free(bytes);
}

void van_announce(van *van, const control_message *message) {
    size_t size;
    uint8_t *bytes = control_message_write(message, &size);
    messenger_tell_all(van->messenger, span_of(bytes, size));
    free(bytes);
}

void van_send_value(van *van, const char *address, uint8_t kind, stamp stamp, span value) {
    van_send_message(van, address, &(control_message){.kind = kind, .stamp = stamp, .value = value});
}

void van_answer_value(van *van, link_id link, uint8_t kind, stamp stamp, span value) {
    van_answer_message(van, link, &(control_message){.kind = kind, .stamp = stamp, .value = value});
}

/* ---- Receiving. */

static void on_message(void *context, link_id link, span bytes) {
    van *van = context;
    van->heard = true;
    van->host->take(van->context, link, bytes, NULL);
}

static void on_bytes(void *context, link_id link, shared_bytes *bytes) {
    van *van = context;
    van->heard = true;
    van->host->take(van->context, link, shared_bytes_bytes(bytes), bytes);
}

static void on_broken(void *context, const char *address, const cause *why) {
    van *van = context;
    if (van->host->broken != NULL) van->host->broken(van->context, address, why->status == MR_TIMEOUT);
}

static void destroy_own(own *message) {
    shared_bytes_unref(message->bytes);
    free(message);
}

static void take_own(van *van) {
    list now;
    list_init(&now);
    for (list *item; (item = list_pop_front(&van->messages)) != NULL;) list_push_back(&now, item);
    for (list *item; (item = list_pop_front(&now)) != NULL;) {
        own *message = container_of(item, own, queued);
        van->host->take(van->context, (link_id){0}, shared_bytes_bytes(message->bytes), message->bytes);
        destroy_own(message);
    }
}

/* Whether received messages are handled before ticks: once, if the sockets have data to read. */
static bool news_first(van *van) {
    van->news =
        van->transport != NULL && !van->news && list_empty(&van->messages) && socket_transport_has_news(van->transport);
    return van->news;
}

/* Calls all due ticks, and sets the timer for the next one. */
static void on_idle(void *context) {
    van *van = context;
    int64_t next_us = 0, now_us = 0;
    van->heard = false;
    for (int i = 0; i < TICKS_MAX; i++) {
        if (!list_empty(&van->messages)) take_own(van);
        if (van->host->flush != NULL) van->host->flush(van->context);
        if (i == 0 && news_first(van)) return;
        next_us = van->host->next_us(van->context);
        now_us = van->looked_us = van_now_us(van);
        if (now_us < next_us && list_empty(&van->messages)) break;
        if (now_us >= next_us) van->host->tick(van->context, now_us);
    }
    bool due = next_us <= now_us || !list_empty(&van->messages);
    if (van->loop == NULL || (next_us == van->timer_us && !due)) return;
    van->timer_us = due ? 0 : next_us;
    event_loop_timer_set(van->timer, due ? 0 : next_us == CLOCK_NEVER_US ? -1 : next_us - now_us);
}

int64_t van_due_us(van *van) {
    bool due = van->heard || !list_empty(&van->messages);
    return due ? 0 : van->host->next_us(van->context);
}

void van_turn(van *van) { on_idle(van); }

static void on_timer(void *context) { ((van *)context)->timer_us = 0; } /* the timer only ends the wait */

/* ---- Creation and end. */

mr_status van_check_address(const char *text) {
    address address;
    MR_TRY(address_parse(text, &address));
    if (strlen(text) + VAN_SERVICE_ROOM >= SLOT_MESSAGE_ADDRESS_MAX)
        return error_set(MR_INVALID, "the address '%s' is too long: the limit is %d bytes", text,
                         SLOT_MESSAGE_ADDRESS_MAX - VAN_SERVICE_ROOM - 1);
    return MR_OK;
}

/* Prepares the search for the token, unless the van only answers (tests). */
static mr_status prepare_token(van *van, const van_options *options) {
    const char *scheduler = options->scheduler != NULL ? options->scheduler : options->listen;
    address address;
    if (scheduler == NULL) return MR_OK;
    MR_TRY(address_parse(scheduler, &address));
    MR_TRY(address_check_local(&address, options->scheduler != NULL ? "connect to" : "listen on"));
    MR_TRY(token_finder_init(&van->finder, scheduler));
    if (options->listen == NULL || strncmp(options->listen, "tcp:", 4) != 0 || token_finder_may_find(&van->finder))
        return MR_OK;
    return error_set(MR_INVALID,
                     "cannot listen on %s: the scheduler is at %s, so this deployment has no token for tcp; use a "
                     "unix: address, or set " TOKEN_VARIABLE " for all its processes",
                     options->listen, scheduler);
}

static mr_status listen_at(van *van, const van_options *options) {
    if (options->shown != 0 && shm_export_create(options->shown, &van->export) != MR_OK) van->export = NULL;
    MR_TRY(prepare_token(van, options));
    socket_transport_options wire = {.find_token = token_finder_find,
                                     .find_token_context = &van->finder,
                                     .send_high = VAN_SEND_HIGH,
                                     .shares = true,
                                     .export = van->export};
    MR_TRY(socket_transport_open(van->loop, &wire, &messenger_events, van->messenger, &van->transport));
    van->env.transport = socket_transport_transport(van->transport);
    if (options->listen == NULL) return MR_OK;
    MR_TRY(socket_transport_listen(van->transport, options->listen, van->address));
    van->address_size = strlen(van->address);
    return MR_OK;
}

static const messenger_handlers handlers = {.on_message = on_message, .on_broken = on_broken, .on_bytes = on_bytes};

static void open_elsewhere(van *van, const van_options *options) {
    van->env = *options->env;
    van->messenger = messenger_create(&van->env, &handlers, van);
    if (options->listen != NULL) snprintf(van->address, sizeof van->address, "%s", options->listen);
    van->address_size = strlen(van->address);
}

static mr_status open_here(van *van, const van_options *options) {
    van->env = (env){.clock = clock_real(), .rng = &van->rng};
    rng_init(&van->rng, rng_system_seed());
    MR_TRY(event_loop_create(&van->loop));
    event_loop_look_first(van->loop);
    alloc_expect_large();
    if (options->folder != NULL) MR_TRY(disk_open(options->folder, &van->env.disk));
    /* Runs before the transport's own callback: messages of a tick are sent before the loop waits. */
    van->idle = event_loop_idle_add(van->loop, on_idle, van);
    van->timer = event_loop_timer_create(van->loop, on_timer, van);
    van->messenger = messenger_create(&van->env, &handlers, van);
    return listen_at(van, options);
}

mr_status van_open(const van_options *options, const van_host *host, void *context, van **out) {
    if (options->listen != NULL && options->env == NULL) MR_TRY(van_check_address(options->listen));
    van *van = XNEW(struct van, .host = host, .context = context);
    mr_status status = MR_OK;
    list_init(&van->messages);
    list_init(&van->shipments);
    if (options->env != NULL)
        open_elsewhere(van, options);
    else
        status = open_here(van, options);
    if (status == MR_OK)
        *out = van;
    else
        van_close(van);
    return status;
}

static void close_here(van *van) {
    event_loop_timer_destroy(van->timer);
    event_loop_idle_remove(van->idle);
    event_loop_destroy(van->loop);
    shm_export_destroy(van->export);
    if (van->env.disk.ops != NULL) disk_close(van->env.disk);
}

void van_close(van *van) {
    if (van == NULL) return;
    static const van_host nobody = {0}; /* callbacks of closing links are ignored */
    van->host = &nobody;
    if (van->loop != NULL) socket_transport_close(van->transport);
    if (van->messenger != NULL) messenger_destroy(van->messenger);
    for (list *item; (item = list_pop_front(&van->messages)) != NULL;) destroy_own(container_of(item, own, queued));
    if (van->loop != NULL) close_here(van);
    explicit_bzero(&van->finder, sizeof van->finder);
    free(van);
}

/* ---- Imports. */

static link_id link_to(const van *van, const char *address) {
    char room[MESSENGER_ADDRESS_MAX];
    const char *base = base_of(address, room);
    return base == NULL ? (link_id){0} : messenger_link(van->messenger, base);
}

shm_export *van_export(van *van) { return van->export; }
uint64_t van_process(const van *van) { return van->transport == NULL ? 0 : socket_transport_process(van->transport); }

bool van_is_seen(const van *van, const char *address) {
    return van->transport != NULL && socket_transport_is_seen(van->transport, link_to(van, address));
}

const shm_import *van_map_view(const van *van, uint64_t process) {
    return van->transport == NULL ? NULL : socket_transport_import(van->transport, process);
}

uint64_t van_sees(const van *van, const char *address) {
    if (van->transport == NULL) return 0;
    uint64_t process = socket_transport_peer(van->transport, link_to(van, address));
    return process != 0 && van_map_view(van, process) != NULL ? process : 0;
}

void van_own_token(van *van, const token *token) { token_finder_own(&van->finder, token); }

const env *van_env(const van *van) { return &van->env; }
const char *van_address(const van *van) { return van->address; }
messenger *van_messenger(van *van) { return van->messenger; }
event_loop *van_loop(van *van) { return van->loop; }

void van_stop(van *van) {
    if (van->loop != NULL) event_loop_stop(van->loop);
}

int64_t van_looked_us(const van *van) { return van->looked_us; }
int64_t van_now_us(const van *van) { return clock_now_us(van->env.clock); }
