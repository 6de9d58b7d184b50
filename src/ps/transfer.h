/* transfer.h — transfers: large slot messages on their way in pieces, so that no size of a message is special.
 *
 * A message of more than TRANSFER_WINDOW pieces' bytes is not sent as a whole: its bytes go in pieces, and at most
 * TRANSFER_WINDOW pieces are in flight. So the links stay usable for messages of other slots, and no buffer on the way
 * is larger than a few pieces. The receiver puts the pieces together and then takes the message as if it had arrived in
 * one packet: the protocol above does not know about pieces.
 *
 *   sender                                              receiver
 *   a large message  ── PIECE without bytes ──────────► a question; reserves memory
 *                    ◄── TAKEN_PIECE: 0, or LATER ────  LATER: there is no room now
 *   PIECE 0, 1, 2, 3 ─────────────────────────────────► appends the piece at its end, and no other
 *   PIECE 4 …        ◄── TAKEN_PIECE: bytes so far ───
 *   a further message to the same peer and slot, and nothing was taken since the message before:
 *                    ── PIECE without bytes ──────────► a question
 *   goes back        ◄── TAKEN_PIECE: bytes so far ───
 *   all were taken: sends the messages that wait        the message is whole: takes it
 *
 * Order   Messages about a slot to a peer keep their order: those that follow a large one wait for its end. Messages of
 *         other slots do not wait. The protocol repeats a message about a slot until it is answered, so every transfer
 *         whose pieces are lost gets its question: a transfer needs no clock. If only the last TAKEN_PIECE is lost, the
 *         sender has its end with the next message about the slot. A message that repeats another one that
 *         waits or is on its way is dropped; a newer STATE, CUT or SHARD replaces the one that is on its way.
 * Room    A sender may give a message up and never send the rest. A receiver with `room` therefore frees it when
 *         messages are refused for long while no piece arrives (transfers_free_room).
 * End     A transfer belongs to the chain_epoch of its message: a cluster map with a later one ends it, on both sides.
 *         A later transfer about the same slot replaces what has arrived of the one before.
 * Size    PULLED is always one packet: the state machine bounds its answers, and the rank asks for the rest.
 *
 *   bytes   what is cut into pieces
 *   ------  ---------------------------------------------------------------------
 *   53 + n  the fields and the terms of the message, as in a packet (slot_message.h)
 *   0 … 7   zeros, so that the payload begins at a multiple of 8
 *   …       the payload
 *
 * Invariants (transfers_check)
 *   1  taken <= sent <= total, and a transfer to a peer about a slot is the only one.
 *   2  What has arrived is at most the total; its buffer exists until it is whole.
 *
 * Bounds      TRANSFER_WINDOW pieces in flight per peer and slot; a receiver holds one incomplete message per sender
 *             and slot. With `room` it holds as many bytes of incomplete messages, but one of any size.
 * Ownership   payloads in shared buffers are referenced until they are sent; others are copied.
 *
 * Pure. */
#pragma once
#include "ps/cluster_map.h"
#include "ps/slot_message.h"

enum { TRANSFER_PIECE = 4 << 20, TRANSFER_WINDOW = 4 };

typedef struct transfers transfers; /* of one batcher, in both directions */

/* Sends a message, in pieces if it is large: batcher_add. */
typedef void transfers_send_fn(void *context, const char *address, const slot_message *message);

/* `piece`: bytes of a piece; 0: TRANSFER_PIECE. `room`: bytes of incomplete messages that are received; 0: no bound. */
transfers *transfers_create(size_t piece, uint64_t room, transfers_send_fn *send, void *context);
void transfers_destroy(transfers *transfers);

/* True: the message is large, or waits for a large one, and is sent later; false: the caller sends it. */
bool transfers_take(transfers *transfers, const char *address, const slot_message *message);
/* Whether a message of this kind about the slot is on its way to the peer in pieces. If so, asks what has arrived. */
bool transfers_ask(transfers *transfers, const char *address, uint32_t slot, slot_message_kind kind);
/* Bytes of all messages that are on their way in pieces. transfers_ask_all asks what has arrived of each: the end of a
 * transfer that no further message follows may be lost. */
uint64_t transfers_out(const transfers *transfers);
void transfers_ask_all(transfers *transfers);
/* Bytes of all pieces that were ever taken: while it grows, a large message is arriving. */
uint64_t transfers_in(const transfers *transfers);
/* Whether a message was refused for lack of room since the last call. */
bool transfers_refused(transfers *transfers);
/* Drops the incomplete messages that hold room; their senders begin them again at their next question. */
void transfers_free_room(transfers *transfers);
/* The content of a shared buffer is now at `to`, unchanged; it was the tail of messages (slot_message.h). */
void transfers_move(transfers *transfers, const shared_bytes *bytes, span to);
void transfers_take_taken(transfers *transfers, const slot_message *message);

/* Takes a piece. When the message is whole it is in *whole, with its payload in the result, of which the caller owns a
 * reference; otherwise NULL. */
shared_bytes *transfers_take_piece(transfers *transfers, const slot_message_head *from, const slot_message *piece,
                                   slot_message *whole);

void transfers_enter(transfers *transfers, const cluster_map *map);
void transfers_drop(transfers *transfers);        /* the process has another incarnation */
void transfers_check(const transfers *transfers); /* asserts the invariants above (base/invariants.h) */
