/* slot_message.h — slot messages between servers and ranks, and packets of them.
 *
 * A slot message is about one slot. Messages for one peer travel together, in order, in one packet; its head has the
 * sender, the generation, and the newest cluster map that the sender knows (cluster_map.h). A packet without messages
 * is a heartbeat, and asks for the newer cluster map if there is one. A message points at its payload: in the bytes of
 * the packet while it is taken, anywhere while it is written. The field `name` of a push is its seq.
 *
 *   kind      from → to           says
 *   --------  ------------------  -----------------------------------------------------------------------------------
 *   PUSH      rank → head         here is `name`, whose predecessor was `prev`. `entry`: ASK, without payload: have you
 *                                 had it? AFAR: it refers to bytes outside it (state_machine.h, settle)
 *   PUSHED    head → rank         status of `name`; RESEND: `prev` is the last seq that is there; of a round: TAKEN,
 *                                 then OK (it counted), MISSED (it did not) or GONE (long over). `commit`: you may have
 *                                 so many bytes under way to me (credit.h). LATER, `lsn` FULL: I have no memory for it
 *   PULL      rank → copy         the values that the payload asks for (state_machine.h), for step `name`, as my
 *                                 request `commit`; I have had `prev` acknowledged and seen `lsn`. `entry`: FRESH, as
 *                                 current as when I asked: of the head
 *   PULLED    copy → rank         status, and the values at `lsn`, version `name`, to the request `commit`; GONE:
 *                                 `name` is the version now
 *   HELLO     rank → head         where am I? In the term `commit`
 *   CLOCK     head → rank         the last seq of yours that was applied; version `lsn`; to the term `commit`; you
 *                                 may have `prev` bytes under way
 *   ENTRY     member → successor  lsn, and what was logged; `commit`: what I know to be committed
 *   LEVEL     successor → member  I have all up to `lsn` in this epoch, and room for `prev` bytes behind it; `commit`
 *                                 likewise; LATER: I had none for what came; GONE: I have no copy, fill me
 *   ENTER     head → members      I am the head of this epoch, and have logged `lsn`
 *   LOG       member → head       an entry that you lack
 *   ENTERED   member → head       that was all; I have logged `lsn`
 *   STATE     tail → joiner       the whole state at `lsn`
 *   JOIN      controller → tail   fill the server `name` of incarnation `prev`
 *   GATE      tail → controller   the joiner `name`/`prev` is my successor; status OK: it has everything
 *   ORDER     → round state's head  JOIN, LEAVE (rank) or DROP (controller), `entry`, of `rank`; `name` numbers its
 *                                   orders
 *   ORDER     controller → head  MARK: cut a checkpoint, `name` or a later one; of BSP to the round state's, else to
 *                                all
 *   ORDERED   round state's head →  status of the order `name`; it holds from round `lsn` on; GONE: refused
 *   ORDERED   head → controller   MARK: the checkpoint `lsn` is cut; status LATER: it will be
 *   FREEZE    round state → heads  do not count `rank` in round `name`
 *   FROZEN    head → round state  status OK: I do not; GONE: that round is closed
 *   TERMS     round state → heads  the round `name` closes with this set
 *   MEASURE   round state → heads  have you a part of the norms of round `name`, phase `rank`?
 *   MEASURED  head → round state  the part of the slot `prev`, for this set of ranks; no bytes: I have none
 *   NORMS     round state → heads  of round `name`, which closes with this set, all `rank` phases
 *   LOAD      head → controller   `lsn` requests for this slot since the last time, `name` of them pulls
 *   CUT       head → checkpoint store  the slot as it was cut at `lsn` for the checkpoint `name`; without payload: do
 *                                      you have that? `commit`: the same for all slots that were cut at the same step
 *                                      of each rank; 0: one of them is in a step
 *   SAVED     checkpoint store → head  it is on disk, or came too late; RESEND: I do not have it
 *   WHOLE     checkpoint store → controller  `name` is the newest complete checkpoint; 0: there is none. Of `lsn`, the
 *                                            one in the making, `commit` slots are saved. Payload: the damaged files;
 *                                            status GONE: without them there is nothing to begin from
 *   SEAL      controller → checkpoint store  complete none before you know a cluster map behind the number `name`
 *   SEALED    checkpoint store → controller  I shall not; `lsn` is the newest complete one, `commit` the highest number
 *                                            at which I was ever sealed
 *   FETCH     copy → checkpoint store  the slot as the checkpoint `name` has it
 *   SHARD     checkpoint store → copy  here it is, cut at `lsn`
 *   TOLD      (none)              the number of this kind is not used
 *   PAUSE     controller → worker  for the checkpoint `name`: end the step that each of your ranks is in, and all up to
 *                                 `lsn`, and begin no other; status GONE: go on
 *   PAUSED    worker → controller  to `name`: `rank`, in the term `commit`, has ended the step `lsn`, and all of it is
 *                                 acknowledged; LATER: it is in that step; GONE: I have heard of a later one, `prev`
 *   REPLACED  controller → process  I know a later process of yours, of incarnation `name`, and ignore you
 *   MAP     all → all           the changes from the cluster map that you know to the newest that I know
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

#define SLOT_MESSAGE_MAGIC   UINT32_C(0x31545350) /* "PST1": format 1 */
#define SLOT_MESSAGE_HAS_MAP UINT32_C(0x80000000)
enum {
    SLOT_MESSAGE_RANK = 1 << 24,
    SLOT_MESSAGE_CONTROLLER = 1 << 25,
    SLOT_MESSAGE_WORKER = 1 << 26,
    SLOT_MESSAGE_CHECKPOINTS = 1 << 27,
    SLOT_MESSAGE_ADDRESS_MAX = 64, /* with its NUL */
    SLOT_MESSAGE_HEAD_MAX = 100,   /* of a packet */
    SLOT_MESSAGE_COUNT_MAX = 4096,
    SLOT_MESSAGE_TERMS_MAX = 255,
    SLOT_MESSAGE_PAYLOAD_MAX = 64 << 20,
};

#define SLOT_MESSAGE_KINDS(X) \
    X(PUSH)                   \
    X(PUSHED)                 \
    X(PULL)                   \
    X(PULLED)                 \
    X(HELLO)                  \
    X(CLOCK)                  \
    X(ENTRY)                  \
    X(LEVEL)                  \
    X(ENTER)                  \
    X(LOG)                    \
    X(ENTERED)                \
    X(STATE)                  \
    X(JOIN)                   \
    X(GATE)                   \
    X(ORDER)                  \
    X(ORDERED)                \
    X(FREEZE)                 \
    X(FROZEN)                 \
    X(TERMS)                  \
    X(LOAD)                   \
    X(CUT)                    \
    X(SAVED)                  \
    X(WHOLE)                  \
    X(SEAL)                   \
    X(SEALED)                 \
    X(FETCH)                  \
    X(SHARD)                  \
    X(TOLD)                   \
    X(MAP)                    \
    X(REPLACED)               \
    X(MEASURE)                \
    X(MEASURED)               \
    X(NORMS)                  \
    X(PAUSE)                  \
    X(PAUSED)

typedef enum slot_message_kind {
#define X(name) SLOT_MESSAGE_##name,
    SLOT_MESSAGE_KINDS(X)
#undef X
        SLOT_MESSAGE_KIND_COUNT
} slot_message_kind;

enum { SLOT_MESSAGE_FULL = 1 }; /* `lsn` of a PUSHED */
enum {                          /* `entry` of PULL and PUSH; the bits 1 and 4 are not used, and ignored */
       SLOT_MESSAGE_PULL_FRESH = 2,
       SLOT_MESSAGE_PUSH_ASK = 8,
       SLOT_MESSAGE_PUSH_AFAR = 16,
};

typedef enum slot_message_status {
    SLOT_MESSAGE_OK,
    SLOT_MESSAGE_LATER,  /* not now: ask again */
    SLOT_MESSAGE_WRONG,  /* I am not the head of that epoch */
    SLOT_MESSAGE_RESEND, /* an earlier message is missing */
    SLOT_MESSAGE_GONE,   /* that version is no longer kept; that round is over, and its set forgotten */
    SLOT_MESSAGE_SAME,   /* (not used: it keeps the numbers of those behind it) */
    SLOT_MESSAGE_TAKEN,  /* it is here; whether it counts is not decided */
    SLOT_MESSAGE_MISSED, /* the round is over, without it */
    SLOT_MESSAGE_STATUS_COUNT
} slot_message_status;

typedef struct slot_message {
    uint8_t kind, status, entry;
    uint8_t priority; /* of a request: larger goes first where something waits */
    uint32_t slot, rank;
    uint64_t epoch, lsn, commit, name, prev;
    span terms, payload; /* borrowed; terms of at most SLOT_MESSAGE_TERMS_MAX bytes */
    /* when writing: the buffer of the payload; NULL: the payload is valid for the call only */
    shared_bytes *bytes;
    /* when writing: continuation of the payload. A message that is read has it in one piece */
    shared_bytes_piece tail;
} slot_message;

typedef struct slot_message_head {
    uint64_t generation, number, incarnation;
    uint32_t who;
    char address[SLOT_MESSAGE_ADDRESS_MAX];
    bool maps; /* when reading: there is a MAP among its messages */
} slot_message_head;

const char *slot_message_kind_name(uint8_t kind);

/* A packet that is being written; zero-initialized it is empty and ready. A packet that points does not copy a payload
 * of SLOT_MESSAGE_POINTED bytes or more in a shared buffer: it holds the buffer until its release or next begin. */
enum { SLOT_MESSAGE_POINTED = 512 };
typedef struct slot_packet {
    buffer bytes;
    uint32_t count;
    bool points;
    bool maps;                         /* there is a MAP in it */
    struct slot_message_piece *pieces; /* owned: payloads that are pointed at */
    size_t piece_count, piece_room, pointed;
    shared_bytes_piece *said; /* owned, as slot_packet_pieces says them */
    size_t said_room;
} slot_packet;

static inline size_t slot_message_payload_size(const slot_message *message) {
    return message->payload.size + message->tail.bytes.size;
}
/* The first bytes of a packet with this head, and their size; then begins a packet with them, and drops its content. */
size_t slot_message_write_head(const slot_message_head *head, uint8_t out[SLOT_MESSAGE_HEAD_MAX]);
void slot_packet_begin_written(slot_packet *packet, span head);
void slot_packet_add(slot_packet *packet, const slot_message *message);
size_t slot_packet_size(const slot_packet *packet);
span slot_packet_end(slot_packet *packet); /* of one that does not point; borrowed until the packet is begun again */
/* The pieces of the packet, one behind the other, for a transport that gathers; borrowed likewise. */
size_t slot_packet_pieces(slot_packet *packet, const shared_bytes_piece **pieces);
void slot_packet_release(slot_packet *packet);       /* of the buffers that it points at, after sending */
shared_bytes *slot_packet_copy(slot_packet *packet); /* all of it in one piece; moved to the caller */
void slot_packet_fini(slot_packet *packet);

/* Reading: the head, then `count` messages. MR_CORRUPT; messages read before are good. */
MR_MUST mr_status slot_message_read_head(reader *reader, slot_message_head *head, uint32_t *count);
/* The head without its address: the sender of a packet, and the newest cluster map that it knows. MR_CORRUPT. */
MR_MUST mr_status slot_message_peek(reader *reader, slot_message_head *head, uint32_t *count);
MR_MUST mr_status slot_message_read(reader *reader, slot_message *message);
