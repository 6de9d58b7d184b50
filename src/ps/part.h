/* part.h — slot messages between servers and ranks, and packets of them.
 *
 * A part is about one slot. Parts for one peer travel together, in order, in one batch; its head says who speaks, in
 * which generation, and the newest chart it knows (chart.h). A batch without parts is a sign of life, and asks for the
 * newer chart if there is one. A part points at its payload: the bytes of the batch while it is taken, anybody's while
 * it is written.
 *
 *   kind      from → to           says
 *   --------  ------------------  -----------------------------------------------------------------------------------
 *   PUSH      rank → head         here is `name`, whose predecessor was `prev`. `entry`: ASK, without payload: have you
 *                                 had it? AFAR: it speaks of bytes that lie elsewhere (values.h, settle)
 *   PUSHED    head → rank         status of `name`; RESEND: `prev` is the last name that is there; of a round: TAKEN,
 *                                 then OK (it counted), MISSED (it did not) or GONE (long over). `commit`: you may have
 *                                 so many bytes under way to me (credit.h). LATER, `lsn` FULL: I have no memory for it
 *   PULL      rank → copy         the values that the payload asks for (values.h), for step `name`, as my request
 *                                 `commit`; I have had `prev` acknowledged and seen `lsn`. `entry`: FRESH, as current
 *                                 as when I asked: of the head
 *   PULLED    copy → rank         status, and the values at `lsn`, version `name`, to the request `commit`; GONE:
 *                                 `name` is the version now
 *   HELLO     rank → head         where am I? In the stint `commit`
 *   CLOCK     head → rank         the last name of yours that was applied; version `lsn`; to the stint `commit`; you
 *                                 may have `prev` bytes under way
 *   ENTRY     member → successor  lsn, and what was logged; `commit`: what I know to be committed
 *   LEVEL     successor → member  I have all up to `lsn` in this epoch, and room for `prev` bytes behind it; `commit`
 *                                 likewise; LATER: I had none for what came; GONE: I have no copy, fill me
 *   ENTER     head → members      I am the head of this epoch, and have logged `lsn`
 *   LOG       member → head       an entry that you lack
 *   ENTERED   member → head       that was all; I have logged `lsn`
 *   STATE     tail → joiner       the whole state at `lsn`
 *   JOIN      director → tail     fill the server `name` of incarnation `prev`
 *   GATE      tail → director     the joiner `name`/`prev` is my successor; status OK: it has everything
 *   ORDER     → ledger's head     JOIN, LEAVE (rank) or DROP (director), `entry`, of `rank`; `name` numbers its orders
 *   ORDER     director → head     MARK: cut a checkpoint, `name` or a later one; of BSP to the ledger's, else to all
 *   ORDERED   ledger's head →     status of the order `name`; it holds from round `lsn` on; GONE: refused
 *   ORDERED   head → director     MARK: the checkpoint `lsn` is cut; status LATER: it will be
 *   FREEZE    ledger → heads      do not count `rank` in round `name`
 *   FROZEN    head → ledger       status OK: I do not; GONE: that round is closed
 *   TERMS     ledger → heads      the round `name` closes with this set
 *   MEASURE   ledger → heads      have you a part of the norms of round `name`, phase `rank`?
 *   MEASURED  head → ledger       of the slot `prev`, for this set of ranks: this is it; no bytes: I have none
 *   NORMS     ledger → heads      of round `name`, which closes with this set, all `rank` phases
 *   LOAD      head → director     `lsn` requests for this slot since the last time, `name` of them pulls
 *   CUT       head → depot        the slot as it was cut at `lsn` for the checkpoint `name`; without payload: do you
 *                                 have that? `commit`: the same for all slots that were cut at the same step of each
 *                                 rank; 0: one of them is in a step
 *   SAVED     depot → head        it is on disk, or came too late; RESEND: I do not have it
 *   WHOLE     depot → director    `name` is the newest checkpoint that is whole; 0: there is none. Of `lsn`, the one in
 *                                 the making, `commit` slots are saved. Payload: what is damaged; status GONE: without
 *                                 it there is nothing to begin from
 *   SEAL      director → depot    make none whole before you know a chart behind the number `name`
 *   SEALED    depot → director    I shall not; `lsn` is the newest that is whole, `commit` the highest number at which
 *                                 I was ever sealed
 *   FETCH     copy → depot        the slot as the checkpoint `name` has it
 *   SHARD     depot → copy        here it is, cut at `lsn`
 *   TOLD      (nobody)            the number of this kind is not used
 *   PAUSE     director → worker   for the checkpoint `name`: end the step that each of your ranks is in, and all up to
 *                                 `lsn`, and begin no other; status GONE: go on
 *   PAUSED    worker → director   to `name`: `rank`, in the stint `commit`, has ended the step `lsn`, and all of it is
 *                                 acknowledged; LATER: it is in that step; GONE: I have heard of a later one, `prev`
 *   REPLACED  director → process  I know a later process of yours, of incarnation `name`: you are not heard
 *   CHART     all → all           what changed between the chart that you know and the newest that I know (chart.h)
 *
 *   bytes    batch
 *   -------  --------------------------------------------------------------------------
 *   4 4      PART_MAGIC, number of parts, and PART_CHARTED if there is a CHART among them
 *   8 8 8    generation, number of the chart, incarnation of the sender
 *   4        who: a server's id, or PART_RANK | rank (whose stint stands for the incarnation), or PART_WORKER | its id,
 *            or PART_DIRECTOR, or PART_DEPOT
 *   1 + n    its address
 *   …        the parts, each: 1 kind, 1 status, 1 entry (tape.h), 1 priority, 4 slot, 4 rank, 8 epoch, 8 lsn, 8 commit,
 *            8 name, 8 prev, 1 + n terms of the round (ledger.h), 1 + n zeros, 4 + n payload: a large one begins at a
 *            multiple of 8 of the batch, so that numbers in it can be read where they lie */
#pragma once
#include "base/bale.h"
#include "base/bytes.h"
#include "miniray/status.h"

#define PART_MAGIC   UINT32_C(0x31545350) /* "PST1": format 1 */
#define PART_CHARTED UINT32_C(0x80000000)
enum {
    PART_RANK = 1 << 24,
    PART_DIRECTOR = 1 << 25,
    PART_WORKER = 1 << 26,
    PART_DEPOT = 1 << 27,
    PART_ADDRESS_MAX = 64, /* with its NUL */
    PART_HEAD_MAX = 100,   /* of a batch */
    PART_COUNT_MAX = 4096,
    PART_TERMS_MAX = 255,
    PART_PAYLOAD_MAX = 64 << 20,
};

#define PART_KINDS(X) \
    X(PUSH)           \
    X(PUSHED)         \
    X(PULL)           \
    X(PULLED)         \
    X(HELLO)          \
    X(CLOCK)          \
    X(ENTRY)          \
    X(LEVEL)          \
    X(ENTER)          \
    X(LOG)            \
    X(ENTERED)        \
    X(STATE)          \
    X(JOIN)           \
    X(GATE)           \
    X(ORDER)          \
    X(ORDERED)        \
    X(FREEZE)         \
    X(FROZEN)         \
    X(TERMS)          \
    X(LOAD)           \
    X(CUT)            \
    X(SAVED)          \
    X(WHOLE)          \
    X(SEAL)           \
    X(SEALED)         \
    X(FETCH)          \
    X(SHARD)          \
    X(TOLD)           \
    X(CHART)          \
    X(REPLACED)       \
    X(MEASURE)        \
    X(MEASURED)       \
    X(NORMS)          \
    X(PAUSE)          \
    X(PAUSED)

typedef enum part_kind {
#define X(name) PART_##name,
    PART_KINDS(X)
#undef X
        PART_KIND_COUNT
} part_kind;

enum { PART_FULL = 1 }; /* `lsn` of a PUSHED */
enum {                  /* `entry` of PULL and PUSH; the bits 1 and 4 are not used, and ignored */
       PART_PULL_FRESH = 2,
       PART_PUSH_ASK = 8,
       PART_PUSH_AFAR = 16,
};

typedef enum part_status {
    PART_OK,
    PART_LATER,  /* not now: ask again */
    PART_WRONG,  /* I am not the head of that epoch */
    PART_RESEND, /* something before it is missing */
    PART_GONE,   /* that version is no longer kept; that round is over, and who was in it forgotten */
    PART_SAME,   /* (not used: it keeps the numbers of those behind it) */
    PART_TAKEN,  /* it is here; whether it counts is not decided */
    PART_MISSED, /* the round is over, without it */
    PART_STATUS_COUNT
} part_status;

typedef struct part {
    uint8_t kind, status, entry;
    uint8_t priority; /* of a request: larger goes first where something waits */
    uint32_t slot, rank;
    uint64_t epoch, lsn, commit, name, prev;
    span terms, payload; /* borrowed; terms of at most PART_TERMS_MAX bytes */
    bale *bale;          /* of one that is written: where the payload lies; NULL: it is there for the call only */
    bale_piece tail;     /* of one that is written: the payload goes on there. What is read has it in one piece */
} part;

typedef struct part_head {
    uint64_t generation, number, incarnation;
    uint32_t who;
    char address[PART_ADDRESS_MAX];
    bool charts; /* of one that is read: there is a CHART among its parts */
} part_head;

const char *part_kind_name(uint8_t kind);

/* A batch that is being written; zero-initialized it is empty and ready. One that points does not copy a payload of
 * PART_POINTED bytes or more that lies in a bale: it holds that until it lets go or is begun again. */
enum { PART_POINTED = 512 };
typedef struct part_batch {
    buffer bytes;
    uint32_t count;
    bool points;
    bool charts;               /* there is a CHART in it */
    struct part_piece *pieces; /* owned: payloads that are pointed at */
    size_t piece_count, piece_room, pointed;
    bale_piece *said; /* owned, as part_pieces says them */
    size_t said_room;
} part_batch;

static inline size_t part_payload_size(const part *part) { return part->payload.size + part->tail.bytes.size; }
/* How a batch with this head begins, and its size; then a batch with that, and whatever was in it is dropped. */
size_t part_write_head(const part_head *head, uint8_t out[PART_HEAD_MAX]);
void part_begin_written(part_batch *batch, span head);
void part_add(part_batch *batch, const part *part);
size_t part_size(const part_batch *batch);
span part_end(part_batch *batch); /* of one that does not point; borrowed until the batch is begun again */
/* What makes up the batch, one behind the other, for a transport that gathers; borrowed likewise. */
size_t part_pieces(part_batch *batch, const bale_piece **pieces);
void part_let_go(part_batch *batch); /* of what it points at: it was sent */
bale *part_copy(part_batch *batch);  /* all of it in one piece; moved to the caller */
void part_batch_fini(part_batch *batch);

/* Reading: the head, then so many parts. MR_CORRUPT; what was read before is good. */
MR_MUST mr_status part_read_head(reader *reader, part_head *head, uint32_t *count);
/* The head without its address, for who wants to know whom a batch is from and what its sender knows. MR_CORRUPT. */
MR_MUST mr_status part_peek(reader *reader, part_head *head, uint32_t *count);
MR_MUST mr_status part_read(reader *reader, part *part);
