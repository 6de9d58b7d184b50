/* slot_message.h — slot messages between servers and ranks, and packets of them.
 *
 * A slot message is about one slot. Messages for one peer travel together, in order, in one packet; the packet's head
 * has the sender, the generation, and the number of the newest cluster map that the sender knows (cluster_map.h). A
 * packet without messages is a heartbeat, and requests the newer cluster map if there is one. A message points at its
 * payload: in the bytes of the packet while it is read, anywhere while it is written. The field `name` of a push is its
 * seq. "Head" is the head of the slot's chain, "members" are all servers of the chain.
 *
 *   kind      from → to           content
 *   --------  ------------------  -----------------------------------------------------------------------------------
 *   PUSH      rank → head         the push `name`; the rank's push before it is `prev`. `entry`: ASK, without payload:
 *                                 asks whether the head has it; AFAR: the payload refers to bytes outside the message
 *                                 (state_machine.h, settle)
 *   PUSHED    head → rank         status of the push `name`. RESEND: `prev` is the last seq that the head has. In a
 *                                 round: TAKEN, then OK (it counted), MISSED (it did not) or GONE (the round ended long
 *                                 ago). LATER with `lsn` FULL: the server has no memory for it. `commit`: bytes that
 *                                 the rank may have in flight to this server (credit.h)
 *   PULL      rank → replica      request `commit` for the values that the payload names (state_machine.h), at step
 *                                 `name`, with rounds at version `name` (all bits set: the one that the slot has); the
 *                                 rank has an acknowledgement of `prev` and has seen `lsn`. `entry`: FRESH: as current
 *                                 as at the time of the request, for the head only
 *   PULLED    replica → rank      status of request `commit`, the values at `lsn`, version `name`; GONE: `name` is the
 *                                 current version
 *   HELLO     rank → head         asks for the rank's position, in the term `commit`
 *   CLOCK     head → rank         the rank's last applied seq; version `lsn`, or without rounds, for a rank that has
 *                                 left, the last step that all others have ended; of the term `commit`; the rank may
 *                                 have `prev` bytes in flight
 *   ENTRY     member → successor  the log entry `lsn`; `commit`: lsn up to which the sender knows entries as committed
 *   LEVEL     successor → member  the successor has all entries up to `lsn` of this chain_epoch, and room for `prev`
 *                                 bytes after it; `commit` as in ENTRY. LATER: it had no room for an entry. GONE: it
 *                                 has no replica and must be filled
 *   ENTER     head → members      the sender is the head of this chain_epoch, and its log ends at `lsn`
 *   LOG       member → head       a log entry that the head lacks
 *   ENTERED   member → head       end of the LOG entries; the member's log ends at `lsn`
 *   STATE     tail → joiner       the whole state at `lsn`
 *   JOIN      controller → tail   order to fill the server `name` of incarnation `prev`
 *   GATE      tail → controller   the joiner `name`/`prev` is the tail's successor; OK: it has everything
 *   ORDER     controller, rank → round state's head  JOIN, LEAVE (from a rank) or DROP (from the controller), `entry`,
 *                                 of `rank`; `name` numbers the sender's orders
 *   ORDER     controller → head   MARK: cut the checkpoint `name` or a later one; in BSP to the round state's head,
 *                                 else to all heads; `lsn`, to slots without rounds of a mixed deployment: 1 + the
 *                                 version of the rounds in that checkpoint. With `prev` NOW, to heads of slots with
 *                                 rounds: cut the version `lsn` - 1, open or the one before; without `lsn`: asks for
 *                                 the open version
 *   ORDERED   round state's head → sender  status of the order `name`; it holds from round `lsn` on; GONE: refused
 *   ORDERED   head → controller   MARK: the checkpoint `lsn` is cut; LATER: it will be. With `prev` NOW: `lsn` is the
 *                                 open version; OK: the ordered version is cut for the checkpoint `name`
 *   FREEZE    round state → heads  order not to count `rank` in round `name`
 *   FROZEN    head → round state  OK: `rank` is not counted; GONE: the round is closed
 *   TERMS     round state → heads  the round `name` closes with this set of ranks
 *   MEASURE   round state → heads  asks for a slot's part of the norms of round `name`, phase `rank`
 *   MEASURED  head → round state  the part of the slot `prev`, for this set of ranks; without payload: it has none
 *   NORMS     round state → heads  norms of round `name`, which closes with this set of ranks, all `rank` phases
 *   LOAD      head → controller   `lsn` requests for this slot since the last report, `name` of them pulls
 *   CUT       head → checkpoint store  the slot as it was cut at `lsn` for the checkpoint `name`; without payload: asks
 *                                 whether the store has it. `commit`: equal for all slots that were cut at the same
 *                                 step of each rank; 0: a rank was inside a step. `prev`: 1 + the version of the
 *                                 slots with rounds in the checkpoint; 0: it has none
 *   SAVED     checkpoint store → head  the cut is on disk, or came too late; RESEND: the store does not have it
 *   WHOLE     checkpoint store → controller  `name` is the newest complete checkpoint; 0: there is none. Of the
 *                                 checkpoint `lsn`, which is being made, `commit` slots are saved. `prev`: 1 + the
 *                                 version of rounds in `name`; 0: unknown. `epoch`: bytes of cuts that
 *                                 have arrived in pieces. Payload: the damaged files; GONE: without
 *                                 them no checkpoint can be used
 *   SEAL      controller → checkpoint store  order to complete no checkpoint before the store knows a cluster map with
 *                                 a number above `name`
 *   SEALED    checkpoint store → controller  the order is in force; `lsn` is the newest complete checkpoint, `commit`
 *                                 the highest number of an order so far
 *   FETCH     replica → checkpoint store  asks for the slot's state in the checkpoint `name`
 *   SHARD     checkpoint store → replica  that state, cut at `lsn`
 *   PAUSE     controller → worker  for the checkpoint `name`: each rank of the worker ends the step that it is in, and
 *                                 all steps up to `lsn`, and begins no other; GONE: the pause is over
 *   PAUSED    worker → controller  for `name`: `rank`, in the term `commit`, has ended the step `lsn`, and all of it is
 *                                 acknowledged; all bits of `lsn` set: it has left; LATER: the rank is in that step;
 *                                 GONE: the worker knows a later pause, `prev`
 *   REPORTED  worker → controller  this process has told its program the loss with which the generation `name` began
 *   REPLACED  controller → process  a later process of the same number exists, of incarnation `name`; messages of the
 *                                 receiver are ignored
 *   PIECE     all → all           bytes of a large message from `lsn` on, of `commit` in all, in the sender's transfer
 *                                 `name` (transfer.h). Without payload: the question `prev` what has arrived
 *   TAKEN_PIECE  all → all        the first `lsn` bytes of the transfer `name` of the sender `rank` have arrived;
 *                                 `prev`: answer to that question; LATER: there is no room for the message now
 *   MAP       all → all           changes from the receiver's cluster map to the newest that the sender knows
 *                                 (cluster_map.h)
 *
 *   bytes    packet
 *   -------  --------------------------------------------------------------------------
 *   4 4      SLOT_MESSAGE_MAGIC, number of messages, and SLOT_MESSAGE_HAS_MAP if there is a MAP among them
 *   8 8 8    generation, number of the cluster map, incarnation of the sender
 *   4        sender: a server's id, or SLOT_MESSAGE_RANK | rank (whose term stands for the incarnation), or
 *            SLOT_MESSAGE_WORKER | its id, or SLOT_MESSAGE_CONTROLLER, or SLOT_MESSAGE_CHECKPOINTS
 *   1 + n    its address
 *   …        the messages, each: 1 kind, 1 status, 1 entry (replica_log.h), 1 priority, 4 slot, 4 rank, 8 epoch, 8 lsn,
 *            8 commit, 8 name, 8 prev, 1 + n terms of the round (round_state.h), 1 + n zeros, 4 + n payload: a large
 *            one begins at a multiple of 8 of the packet, so that numbers in it can be read where they lie */
#pragma once
#include "base/bytes.h"
#include "base/shared_bytes.h"
#include "miniray/status.h"

#define SLOT_MESSAGE_MAGIC   UINT32_C(0x32545350) /* "PST2": format 2 */
#define SLOT_MESSAGE_HAS_MAP UINT32_C(0x80000000)
enum {
    SLOT_MESSAGE_RANK = 1 << 24,
    SLOT_MESSAGE_CONTROLLER = 1 << 25,
    SLOT_MESSAGE_WORKER = 1 << 26,
    SLOT_MESSAGE_CHECKPOINTS = 1 << 27,
    SLOT_MESSAGE_ADDRESS_MAX = 64, /* bytes, NUL included */
    SLOT_MESSAGE_HEAD_MAX = 100,   /* largest head of a packet */
    SLOT_MESSAGE_COUNT_MAX = 4096,
    SLOT_MESSAGE_TERMS_MAX = 255,
    SLOT_MESSAGE_FRONT_MAX = 312, /* largest front: see slot_message_write_front */
    SLOT_MESSAGE_PAYLOAD_MAX = 64 << 20,
};

/* Name and number on the wire; 27 is not used. */
#define SLOT_MESSAGE_KINDS(X) \
    X(PUSH, 0)                \
    X(PUSHED, 1)              \
    X(PULL, 2)                \
    X(PULLED, 3)              \
    X(HELLO, 4)               \
    X(CLOCK, 5)               \
    X(ENTRY, 6)               \
    X(LEVEL, 7)               \
    X(ENTER, 8)               \
    X(LOG, 9)                 \
    X(ENTERED, 10)            \
    X(STATE, 11)              \
    X(JOIN, 12)               \
    X(GATE, 13)               \
    X(ORDER, 14)              \
    X(ORDERED, 15)            \
    X(FREEZE, 16)             \
    X(FROZEN, 17)             \
    X(TERMS, 18)              \
    X(LOAD, 19)               \
    X(CUT, 20)                \
    X(SAVED, 21)              \
    X(WHOLE, 22)              \
    X(SEAL, 23)               \
    X(SEALED, 24)             \
    X(FETCH, 25)              \
    X(SHARD, 26)              \
    X(MAP, 28)                \
    X(REPLACED, 29)           \
    X(MEASURE, 30)            \
    X(MEASURED, 31)           \
    X(NORMS, 32)              \
    X(PAUSE, 33)              \
    X(PAUSED, 34)             \
    X(PIECE, 35)              \
    X(TAKEN_PIECE, 36)        \
    X(REPORTED, 37)

typedef enum slot_message_kind {
#define X(name, number) SLOT_MESSAGE_##name = number,
    SLOT_MESSAGE_KINDS(X)
#undef X
        SLOT_MESSAGE_KIND_COUNT
} slot_message_kind;

enum { SLOT_MESSAGE_FULL = 1 };     /* `lsn` of a PUSHED with the status LATER */
enum { SLOT_MESSAGE_MARK_NOW = 1 }; /* `prev` of an ORDER and an ORDERED about a MARK */
enum {                              /* `entry` of PULL and PUSH; the bits 1 and 4 are not used, and ignored */
       SLOT_MESSAGE_PULL_FRESH = 2,
       SLOT_MESSAGE_PUSH_ASK = 8,
       SLOT_MESSAGE_PUSH_AFAR = 16,
};

typedef enum slot_message_status {
    SLOT_MESSAGE_OK,
    SLOT_MESSAGE_LATER,  /* not now: ask again */
    SLOT_MESSAGE_WRONG,  /* the receiver is not the head of that epoch */
    SLOT_MESSAGE_RESEND, /* an earlier message is missing */
    SLOT_MESSAGE_GONE,   /* that version is no longer kept; that round is over, and its set is not known any more */
    SLOT_MESSAGE_SAME,   /* not used; keeps the numbers of those after it */
    SLOT_MESSAGE_TAKEN,  /* the contribution has arrived; whether it counts is undecided */
    SLOT_MESSAGE_MISSED, /* the round is over, without the contribution */
    SLOT_MESSAGE_STATUS_COUNT
} slot_message_status;

typedef struct slot_message {
    uint8_t kind, status, entry;
    uint8_t priority; /* requests: larger priorities first where requests wait */
    uint32_t slot, rank;
    uint64_t epoch, lsn, commit, name, prev;
    span terms, payload; /* borrowed; `terms` has at most SLOT_MESSAGE_TERMS_MAX bytes */
    /* when writing: the buffer of the payload; NULL: the payload is valid during the call only */
    shared_bytes *bytes;
    /* when writing: continuation of the payload; a message that is read has one piece */
    shared_bytes_piece tail;
} slot_message;

typedef struct slot_message_head {
    uint64_t generation, number, incarnation;
    uint32_t who;
    char address[SLOT_MESSAGE_ADDRESS_MAX];
    bool maps; /* when reading: a MAP is among the packet's messages */
} slot_message_head;

const char *slot_message_kind_name(uint8_t kind);

/* A packet that is being written; ready when zero-initialized. A packet with `points` does not copy a payload of
 * SLOT_MESSAGE_POINTED bytes or more in a shared buffer: it holds the buffer until its release or next begin. */
enum { SLOT_MESSAGE_POINTED = 512 };
typedef struct slot_packet {
    buffer bytes;
    uint32_t count;
    bool points;
    bool maps;                         /* has a MAP */
    struct slot_message_piece *pieces; /* owned: payloads that are referenced */
    size_t piece_count, piece_room, pointed;
    shared_bytes_piece *said; /* owned: result of slot_packet_pieces */
    size_t said_room;
} slot_packet;

static inline size_t slot_message_payload_size(const slot_message *message) {
    return message->payload.size + message->tail.bytes.size;
}
/* Writes the first bytes of a packet with this head; returns their size. slot_packet_begin_written drops a packet's
 * content and begins it with those bytes. */
size_t slot_message_write_head(const slot_message_head *head, uint8_t out[SLOT_MESSAGE_HEAD_MAX]);
void slot_packet_begin_written(slot_packet *packet, span head);
void slot_packet_add(slot_packet *packet, const slot_message *message);
size_t slot_packet_size(const slot_packet *packet);
span slot_packet_end(slot_packet *packet); /* for a packet without `points`; borrowed until the next begin */
/* Pieces of the packet in order, for a transport that gathers; borrowed until the next begin. */
size_t slot_packet_pieces(slot_packet *packet, const shared_bytes_piece **pieces);
void slot_packet_release(slot_packet *packet);       /* drops the references to buffers, after sending */
shared_bytes *slot_packet_copy(slot_packet *packet); /* the packet in one piece; the caller owns a reference */
void slot_packet_fini(slot_packet *packet);

/* Writes the fields and the terms of a message that travels in pieces (transfer.h), then zeros up to a multiple of 8;
 * returns the size. The payload follows. */
size_t slot_message_write_front(const slot_message *message, uint8_t out[SLOT_MESSAGE_FRONT_MAX]);
/* Reads a front and the payload up to the end of the bytes. False: malformed. */
bool slot_message_read_front(span bytes, slot_message *out);

/* Reads the head, then `count` messages. MR_CORRUPT: malformed; messages read before are valid. */
MR_MUST mr_status slot_message_read_head(reader *reader, slot_message_head *head, uint32_t *count);
/* Reads the head without the address: the sender, and the newest cluster map that it knows. MR_CORRUPT: malformed. */
MR_MUST mr_status slot_message_peek(reader *reader, slot_message_head *head, uint32_t *count);
MR_MUST mr_status slot_message_read(reader *reader, slot_message *message);
