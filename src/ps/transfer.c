/* transfer.c — see transfer.h. */
#include "ps/transfer.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/list.h"
#include "base/mutation.h"

#define TOTAL_MAX (UINT64_C(1) << 40)

typedef struct kept { /* a message with references to its bytes */
    list of_outgoing; /* in `waiting` */
    slot_message message;
    shared_bytes *terms;
} kept;

typedef struct outgoing {
    list of_transfers;
    char address[SLOT_MESSAGE_ADDRESS_MAX];
    kept *kept; /* owned */
    uint64_t id, total, sent, taken;
    uint64_t asked, asked_at; /* number of the last question, and `sent` at that time */
    bool moves;               /* a piece was taken since the last message to this peer about this slot */
    uint8_t front[SLOT_MESSAGE_FRONT_MAX];
    size_t front_size;
    list waiting; /* kept, owned: messages that follow */
} outgoing;

typedef struct incoming { /* the last transfer of a sender about a slot */
    list of_transfers;
    uint32_t who, slot;
    uint64_t incarnation, id, epoch, total, size;
    shared_bytes *bytes; /* owned; NULL: the message was taken */
} incoming;

struct transfers {
    size_t piece;
    uint64_t room; /* 0: no bound */
    transfers_send_fn *send;
    void *context;
    uint64_t last_id, generation;
    uint64_t arrived; /* bytes of all pieces that were taken */
    bool refused;     /* a message was refused since the last transfers_refused */
    list out, in;     /* outgoing, incoming; owned */
};

transfers *transfers_create(size_t piece, uint64_t room, transfers_send_fn *send, void *context) {
    transfers *transfers = XNEW(struct transfers, .piece = piece == 0 ? TRANSFER_PIECE : piece, .room = room,
                                .send = send, .context = context);
    list_init(&transfers->out);
    list_init(&transfers->in);
    return transfers;
}

/* ---- Kept messages. */

static shared_bytes *keep_bytes(span *bytes, shared_bytes *shared) {
    if (shared != NULL || bytes->size == 0) return shared_bytes_ref(shared);
    shared = shared_bytes_copy(*bytes);
    *bytes = shared_bytes_bytes(shared);
    return shared;
}

static kept *keep(const slot_message *message) {
    kept *kept = XNEW(struct kept, .message = *message);
    list_init(&kept->of_outgoing);
    kept->terms = keep_bytes(&kept->message.terms, NULL);
    kept->message.bytes = keep_bytes(&kept->message.payload, message->bytes);
    kept->message.tail.shared = keep_bytes(&kept->message.tail.bytes, message->tail.shared);
    return kept;
}

static void drop_kept(kept *kept) {
    list_remove(&kept->of_outgoing);
    shared_bytes_unref(kept->terms);
    shared_bytes_unref(kept->message.bytes);
    shared_bytes_unref(kept->message.tail.shared);
    free(kept);
}

/* Whether b says the same as a: the receiver needs one of the two. */
static bool repeats(const slot_message *a, const slot_message *b) {
    return a->kind == b->kind && a->entry == b->entry && a->rank == b->rank && a->epoch == b->epoch &&
           a->lsn == b->lsn && a->name == b->name && slot_message_payload_size(a) == slot_message_payload_size(b);
}

/* ---- Sending. */

static bool is_large(const transfers *transfers, const slot_message *message) {
    return slot_message_payload_size(message) > TRANSFER_WINDOW * transfers->piece &&
           message->kind != SLOT_MESSAGE_PULLED && message->kind != SLOT_MESSAGE_MAP;
}

static outgoing *find_out(const transfers *transfers, const char *address, uint32_t slot) {
    list_for_each (item, &transfers->out) {
        outgoing *out = container_of(item, outgoing, of_transfers);
        if (out->kept->message.slot == slot && strcmp(out->address, address) == 0) return out;
    }
    return NULL;
}

/* At most `most` bytes of the payload from `at` on, in one piece of memory. */
static shared_bytes_piece slice(const slot_message *message, uint64_t at, size_t most) {
    bool first = at < message->payload.size;
    span whole = first ? message->payload : message->tail.bytes;
    if (!first) at -= message->payload.size;
    size_t size = whole.size - at < most ? whole.size - at : most;
    return (shared_bytes_piece){span_of(whole.data + at, size), first ? message->bytes : message->tail.shared};
}

static slot_message piece_of(const outgoing *out) {
    return (slot_message){.kind = SLOT_MESSAGE_PIECE,
                          .slot = out->kept->message.slot,
                          .epoch = out->kept->message.epoch,
                          .lsn = out->sent,
                          .commit = out->total,
                          .name = out->id};
}

static void send_piece(const transfers *transfers, outgoing *out) {
    slot_message piece = piece_of(out);
    size_t most = transfers->piece;
    uint64_t at = out->sent;
    if (at < out->front_size) {
        size_t left = out->front_size - at;
        piece.payload = span_of(out->front + at, left < most ? left : most);
        most -= piece.payload.size;
        at += piece.payload.size;
    }
    if (most != 0 && at < out->total) piece.tail = slice(&out->kept->message, at - out->front_size, most);
    out->sent += slot_message_payload_size(&piece);
    MR_ASSERT(out->sent > piece.lsn && out->sent <= out->total);
    transfers->send(transfers->context, out->address, &piece);
}

static void send_pieces(const transfers *transfers, outgoing *out) {
    while (out->sent < out->total && out->sent - out->taken < TRANSFER_WINDOW * transfers->piece)
        send_piece(transfers, out);
}

static void ask(const transfers *transfers, outgoing *out) {
    slot_message question = piece_of(out);
    question.prev = ++out->asked;
    out->asked_at = out->sent;
    transfers->send(transfers->context, out->address, &question);
}

/* Asks, unless a piece was taken since the last time. */
static void ask_again(const transfers *transfers, outgoing *out) {
    if (!out->moves) ask(transfers, out);
    out->moves = false;
}

static void begin(transfers *transfers, outgoing *out, kept *kept) {
    out->kept = kept;
    out->id = ++transfers->last_id;
    out->front_size = slot_message_write_front(&kept->message, out->front);
    out->total = out->front_size + slot_message_payload_size(&kept->message);
    out->sent = out->taken = 0;
    out->moves = true;
    ask(transfers, out);
}

static void start(transfers *transfers, const char *address, const slot_message *message) {
    outgoing *out = xcalloc(1, sizeof *out);
    MR_ASSERT(strlen(address) < sizeof out->address);
    strcpy(out->address, address);
    list_init(&out->waiting);
    list_push_back(&transfers->out, &out->of_transfers);
    begin(transfers, out, keep(message));
}

/* The messages that wait are sent, or dropped. */
static void end(transfers *transfers, outgoing *out, bool sends) {
    list_remove(&out->of_transfers);
    for (list *item; (item = list_pop_front(&out->waiting)) != NULL;) {
        kept *kept = container_of(item, struct kept, of_outgoing);
        if (sends) transfers->send(transfers->context, out->address, &kept->message);
        drop_kept(kept);
    }
    drop_kept(out->kept);
    free(out);
}

/* Whether a newer message of this kind makes the older one useless. */
static bool is_replaced(const slot_message *message) {
    return message->kind == SLOT_MESSAGE_STATE || message->kind == SLOT_MESSAGE_CUT ||
           message->kind == SLOT_MESSAGE_SHARD;
}

static void wait_behind(transfers *transfers, outgoing *out, const slot_message *message) {
    const slot_message *first = &out->kept->message;
    ask_again(transfers, out);
    if (repeats(first, message)) return;
    if (is_large(transfers, message) && is_replaced(message) && message->kind == first->kind) {
        kept *old = out->kept;
        begin(transfers, out, keep(message));
        drop_kept(old);
        return;
    }
    list_for_each (item, &out->waiting)
        if (repeats(&container_of(item, struct kept, of_outgoing)->message, message))
            drop_kept(container_of(item, struct kept, of_outgoing)); /* the later one knows more */
    list_push_back(&out->waiting, &keep(message)->of_outgoing);
}

bool transfers_take(transfers *transfers, const char *address, const slot_message *message) {
    bool large = is_large(transfers, message);
    if (!large && list_empty(&transfers->out)) return false; /* the usual case */
    if (message->kind == SLOT_MESSAGE_PIECE || message->kind == SLOT_MESSAGE_TAKEN_PIECE ||
        message->kind == SLOT_MESSAGE_MAP)
        return false;
    outgoing *out = find_out(transfers, address, message->slot);
    if (out != NULL)
        wait_behind(transfers, out, message);
    else if (large)
        start(transfers, address, message);
    return out != NULL || large;
}

bool transfers_ask(transfers *transfers, const char *address, uint32_t slot, slot_message_kind kind) {
    outgoing *out = find_out(transfers, address, slot);
    if (out == NULL || out->kept->message.kind != kind) return false;
    ask_again(transfers, out);
    return true;
}

void transfers_ask_all(transfers *transfers) {
    list_for_each (item, &transfers->out) ask_again(transfers, container_of(item, outgoing, of_transfers));
}

uint64_t transfers_in(const transfers *transfers) { return transfers->arrived; }

uint64_t transfers_out(const transfers *transfers) {
    uint64_t bytes = 0;
    list_for_each (item, &transfers->out) bytes += container_of(item, outgoing, of_transfers)->total;
    return bytes;
}

/* False: the message lost its bytes. */
static bool move(kept *kept, const shared_bytes *bytes, span to) {
    if (kept->message.tail.shared != bytes || kept->message.tail.bytes.size == 0) return true;
    MR_ASSERT(to.size == 0 || to.size == kept->message.tail.bytes.size);
    kept->message.tail.bytes = to;
    return to.size != 0;
}

void transfers_move(transfers *transfers, const shared_bytes *bytes, span to) {
    if (bytes == NULL) return;
    list_for_each (item, &transfers->out) {
        outgoing *out = container_of(item, outgoing, of_transfers);
        list_for_each (waiting, &out->waiting)
            if (!move(container_of(waiting, struct kept, of_outgoing), bytes, to))
                drop_kept(container_of(waiting, struct kept, of_outgoing));
        if (!move(out->kept, bytes, to)) end(transfers, out, true);
    }
}

/* An answer to a question has all pieces that were sent before the question and not lost. */
void transfers_take_taken(transfers *transfers, const slot_message *message) {
    outgoing *out = NULL;
    list_for_each (item, &transfers->out)
        if (container_of(item, outgoing, of_transfers)->id == message->name)
            out = container_of(item, outgoing, of_transfers);
    if (out == NULL || message->lsn > out->total || message->status == SLOT_MESSAGE_LATER) return;
    bool lost = message->prev != 0 && message->prev == out->asked && message->lsn < out->asked_at;
    if (message->lsn > out->taken || lost) {
        out->taken = message->lsn;
        out->moves = true;
    }
    if (lost || out->sent < out->taken) out->sent = out->taken;
    if (lost) out->asked_at = 0;
    if (out->taken == out->total)
        end(transfers, out, true);
    else
        send_pieces(transfers, out);
}

/* ---- Receiving. */

static void drop_in(incoming *in) {
    list_remove(&in->of_transfers);
    shared_bytes_unref(in->bytes);
    free(in);
}

static incoming *find_in(const transfers *transfers, uint32_t who, uint32_t slot) {
    list_for_each (item, &transfers->in) {
        incoming *in = container_of(item, incoming, of_transfers);
        if (in->who == who && in->slot == slot) return in;
    }
    return NULL;
}

bool transfers_refused(transfers *transfers) {
    bool refused = transfers->refused;
    transfers->refused = false;
    return refused;
}

void transfers_free_room(transfers *transfers) {
    list_for_each (item, &transfers->in) {
        incoming *in = container_of(item, incoming, of_transfers);
        if (in->bytes != NULL) drop_in(in);
    }
}

/* Whether there is memory for a message of this size, if the transfer `gone` is dropped. */
static bool has_room(const transfers *transfers, uint64_t total, const incoming *gone) {
    uint64_t held = 0;
    list_for_each (item, &transfers->in) {
        const incoming *in = container_of(item, incoming, of_transfers);
        if (in != gone && in->bytes != NULL) held += in->total;
    }
    return transfers->room == 0 || held == 0 || held + total <= transfers->room;
}

/* The transfer of a piece or a question; NULL: it is not known here. A question begins it. */
static incoming *receive(transfers *transfers, const slot_message_head *from, const slot_message *piece) {
    incoming *in = find_in(transfers, from->who, piece->slot);
    bool known = in != NULL && in->incarnation == from->incarnation;
    if (known && (in->id == piece->name || (MUTATED("pieces-mixed") && in->bytes != NULL))) return in;
    if (piece->payload.size != 0 || piece->prev == 0 || (known && piece->name < in->id)) return NULL;
    if (piece->commit == 0 || piece->commit > TOTAL_MAX) return NULL;
    if (!has_room(transfers, piece->commit, in)) {
        transfers->refused = true;
        return NULL;
    }
    shared_bytes *bytes = NULL;
    if (shared_bytes_resize(&bytes, (size_t)piece->commit) != MR_OK) return NULL;
    if (in != NULL) drop_in(in);
    in = XNEW(incoming, .who = from->who, .slot = piece->slot, .incarnation = from->incarnation, .id = piece->name,
              .epoch = piece->epoch, .total = piece->commit, .bytes = bytes);
    list_push_back(&transfers->in, &in->of_transfers);
    return in;
}

static bool append(incoming *in, const slot_message *piece) {
    bool hole = MUTATED("pieces-holes") && piece->lsn > in->size && piece->lsn <= in->total;
    bool follows = piece->lsn == in->size || hole;
    if (in->bytes == NULL || !follows || piece->lsn + piece->payload.size > in->total || piece->lsn > in->total)
        return false;
    if (hole) memset(shared_bytes_room(in->bytes) + in->size, 0xa5, piece->lsn - in->size); /* the same in every run */
    if (piece->payload.size != 0)
        memcpy(shared_bytes_room(in->bytes) + piece->lsn, piece->payload.data, piece->payload.size);
    in->size = piece->lsn + piece->payload.size;
    return piece->payload.size != 0;
}

shared_bytes *transfers_take_piece(transfers *transfers, const slot_message_head *from, const slot_message *piece,
                                   slot_message *whole) {
    incoming *in = receive(transfers, from, piece);
    bool taken = in != NULL && append(in, piece);
    if (taken) transfers->arrived += piece->payload.size;
    if (!taken && piece->prev == 0) return NULL;
    transfers->send(transfers->context, from->address,
                    &(slot_message){.kind = SLOT_MESSAGE_TAKEN_PIECE,
                                    .status = in == NULL ? SLOT_MESSAGE_LATER : SLOT_MESSAGE_OK,
                                    .slot = piece->slot,
                                    .rank = from->who,
                                    .lsn = in == NULL ? 0 : in->size,
                                    .name = piece->name,
                                    .prev = piece->prev});
    if (!taken || in->size != in->total) return NULL;
    shared_bytes *bytes = in->bytes;
    in->bytes = NULL;
    if (slot_message_read_front(shared_bytes_bytes(bytes), whole) && whole->slot == in->slot) return bytes;
    shared_bytes_unref(bytes);
    return NULL;
}

/* ---- Cluster maps, end. */

/* Whether the message is of an earlier chain_epoch than the map's. */
static bool is_past(const cluster_map *map, uint32_t slot, uint64_t epoch) {
    return slot >= map->slot_count || epoch < map->slots[slot].epoch;
}

void transfers_enter(transfers *transfers, const cluster_map *map) {
    if (transfers->generation != map->generation) transfers_drop(transfers);
    transfers->generation = map->generation;
    list_for_each (item, &transfers->in) {
        incoming *in = container_of(item, incoming, of_transfers);
        if (is_past(map, in->slot, in->epoch)) drop_in(in);
    }
    list_for_each (item, &transfers->out) {
        outgoing *out = container_of(item, outgoing, of_transfers);
        const slot_message *message = &out->kept->message;
        if (is_past(map, message->slot, message->epoch)) end(transfers, out, false);
    }
}

void transfers_drop(transfers *transfers) {
    list_for_each (item, &transfers->out) end(transfers, container_of(item, outgoing, of_transfers), false);
    list_for_each (item, &transfers->in) drop_in(container_of(item, incoming, of_transfers));
}

void transfers_destroy(transfers *transfers) {
    transfers_drop(transfers);
    free(transfers);
}

void transfers_check(const transfers *transfers) {
    list_for_each (item, &transfers->out) {
        const outgoing *out = container_of(item, outgoing, of_transfers);
        MR_ASSERT(out->taken <= out->sent && out->sent <= out->total);                /* 1 */
        MR_ASSERT(find_out(transfers, out->address, out->kept->message.slot) == out); /* 1 */
    }
    list_for_each (item, &transfers->in) {
        const incoming *in = container_of(item, incoming, of_transfers);
        MR_ASSERT(in->size <= in->total && (in->bytes != NULL) == (in->size < in->total)); /* 2 */
        MR_ASSERT(find_in(transfers, in->who, in->slot) == in);                            /* 2 */
    }
}
