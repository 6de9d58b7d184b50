/* slot_queue.h — per-slot queue of a worker: pushes in batches and pulls in queries, in order.
 *
 *   a batch    gathering ── full; closed; or nothing is under way ──► sent ── acknowledged ──► its parts end
 *   a query    gathering ── the pushes before it are sent, and no other is asked ──► asked ── answered ──► ended
 *
 * Requests made while others are under way are gathered into one message. Consecutive pushes of single rows whose keys
 * ascend, with the same learning rate, become one section (a run). In rounds (`holds`) a batch gathers until it is
 * closed at the end of the step, so that a step is one contribution.
 *
 * Seqs      Each section of a batch has a seq, and the batch has that of its last one. A seq that the slot had applied
 *           when this term began is never put into a batch, so no batch contains an applied section, regardless of how
 *           the dead process had batched its pushes.
 * Order     Batches are sent in their order. A query is sent after the pushes that precede it, and its answer shows
 *           them; it may show later ones. Outside rounds these pushes need not be acknowledged first: a push and the
 *           following pull take one round trip.
 * Key lists A query may name lists of keys that the slot was sent before (key_list_cache.h). If the slot no longer
 *           caches a list, the query is sent again, with all keys, before any other.
 * Readers   A query of a reader's pull (reader_pull.h) has no other requests, is kept when it is answered, and may be
 *           asked again. The queries that follow from answers (a block, vectors or a range, see below) are not kept.
 * Numbers   Batches and queries are counted, from 1. `known` is the last acknowledged batch that was counted.
 *
 * Remote    A block that is read from the server's memory (remote_values.h) and changes meanwhile is asked for again,
 *           SLOT_QUEUE_LOOKS times in all; then the server sends its values.
 * Lengths   A query for vectors of unknown lengths (vector_gather.h) whose answer would be too large is divided into
 *           two, and so on; one vector always fits.
 * Ranges    A range is asked for in answers of a bounded number of rows, one after the other (gather.h).
 *
 * Bounds    a batch outside rounds has SLOT_QUEUE_BATCH bytes, plus at most one section; an answer has
 *           SLOT_QUEUE_ANSWER bytes, likewise.
 * Ownership a slot queue owns its batches and queries, with their payloads. Pure: the kv_worker sends them. */
#pragma once
#include "kv/client/reader_pull.h"
#include "kv/client/scatter.h"
#include "kv/client/ticket.h"
#include "kv/client/zero_copy.h"
#include "kv/payload/payload.h"

enum { SLOT_QUEUE_BATCH = 256 * 1024, SLOT_QUEUE_ANSWER = 1 << 20, SLOT_QUEUE_LOOKS = 3, SLOT_QUEUE_PARTS_KEPT = 8 };

/* The section of single rows that pushes are being appended to. */
typedef struct slot_queue_run {
    uint32_t table;
    payload_op op;
    mr_dtype dtype; /* of the values */
    bool rated;     /* the pushes have the learning rate `rate` */
    float rate;
    uint64_t last; /* last key */
} slot_queue_run;

typedef struct push_batch {
    list link;
    uint64_t number, name;
    bool closed;
    uint8_t priority;
    payload_writer payload; /* once sent, shared with the sender */
    zero_copy *zero_copy;   /* memory of the values of the last section, shared; NULL: they are in the payload */
    slot_queue_run run;
    ticket **tickets; /* owned: one for each part */
    size_t ticket_count, ticket_room;
} push_batch;

typedef struct query_batch {
    list link;
    uint64_t number;
    uint64_t step;   /* as of rank_pull */
    uint64_t behind; /* seq of the last push that must be sent before the query; 0: none */
    uint8_t priority;
    size_t expects;    /* estimated bytes of the answer */
    reader_pull *pull; /* the reader's pull that it belongs to; NULL: none */
    uint32_t slot;
    bool follows; /* follows from an answer */
    bool names; /* the query names key lists that the slot may no longer cache: its payload is kept until the answer */
    payload_writer payload;
    scatter *parts; /* owned: one for each asking section */
    size_t part_count, part_room;
} query_batch;

typedef struct slot_queue { /* initialized by slot_queue_init */
    list link;              /* in the list of queues with something to send */
    uint32_t slot;
    bool holds;
    uint64_t last;  /* the last seq assigned */
    uint64_t there; /* last seq that the slot has */
    uint64_t sent;  /* the last seq that was sent */
    uint64_t batches, queries, known;
    uint32_t under_way; /* batches that are sent and not acknowledged */
    list waiting, out;  /* batches: not sent, of which the last may gather; sent, not acknowledged */
    list asking;        /* queries that are not asked yet; the last one gathers */
    query_batch *asked; /* query under way; NULL: none */
    uint64_t forgotten; /* queries that were sent again with all keys */
    push_batch *spare;  /* owned: a finished batch whose memory is reused; likewise a query */
    query_batch *spare_batch;
} slot_queue;

void slot_queue_init(slot_queue *queue, uint32_t slot, bool holds);
void slot_queue_fini(slot_queue *queue); /* the queue must be empty (slot_queue_fail) */

/* The gathering batch, with room for these bytes; begins a batch if none gathers. */
push_batch *slot_queue_gather(slot_queue *queue, size_t bytes);
size_t slot_queue_gathered(const slot_queue *queue); /* bytes in the gathering batch */
/* Records that a section was written to the batch. */
void slot_queue_part(slot_queue *queue, push_batch *batch, uint64_t name, ticket *ticket);
/* Same, for the last section of a batch: its values are sent without a copy (moved). */
void slot_queue_lend(push_batch *batch, zero_copy *zero_copy);
/* The memory of this ticket's caller is not used afterwards: its pushes are copied, its pulls are discarded. False: no
 * memory for the copy. */
bool slot_queue_abandon(slot_queue *queue, const ticket *ticket);
void slot_queue_skip(slot_queue *queue, uint64_t name); /* the slot has already applied this push */
/* Writes what remains of the gathering batch if the rank is left out of the round: the schemas and dropped tables of
 * the batch, and a SKIP. MR_NOMEM: `out` has a part of it. */
MR_MUST mr_status slot_queue_write_rest(slot_queue *queue, payload_writer *out);
/* Replaces the payload of the gathering batch (moved), and begins a batch if none gathers. */
void slot_queue_replace(slot_queue *queue, payload_writer *payload);
/* Closes the gathering batch with this seq, at the end of a step. Makes an empty batch if there is none. */
void slot_queue_close(slot_queue *queue, uint64_t name);

/* The gathering query for this step, to which the answer's bytes are added; begins a query if none gathers. */
query_batch *slot_queue_ask(slot_queue *queue, uint64_t step, uint64_t behind, size_t answer);
/* Same, for a query of a reader's pull. */
query_batch *slot_queue_read(slot_queue *queue, reader_pull *pull, size_t answer);
/* records the receiver of a section that was written */
void slot_queue_expect(query_batch *batch, const scatter *part);
/* Writes the section that asks for a block, and records its receiver. MR_NOMEM, MR_TOO_LARGE. */
MR_MUST mr_status slot_queue_ask_block(query_batch *batch, const scatter *part);

bool slot_queue_owes(const slot_queue *queue, uint64_t name); /* a push up to this seq is not sent yet */
push_batch *slot_queue_next(const slot_queue *queue);         /* next batch that can be sent now; NULL: none */
void slot_queue_sent(slot_queue *queue, push_batch *batch); /* records that the next batch was sent, with its payload */
query_batch *slot_queue_next_query(const slot_queue *queue); /* next query that can be asked now; NULL: none */
void slot_queue_asked(slot_queue *queue, query_batch *batch);

/* Ends a batch; MR_STALE for pushes that the round did not count. False: no such batch. */
bool slot_queue_acknowledge(slot_queue *queue, tickets *tickets, uint64_t name, bool counted);
/* `version`: of the answer, in rounds. False: no query is under way. */
bool slot_queue_answer(slot_queue *queue, tickets *tickets, uint64_t version, span answer);
/* The version is gone that the query of a reader's pull is for; the slot has this one. False: no such query. */
bool slot_queue_gone(slot_queue *queue, tickets *tickets, uint64_t version);
/* Ends the queries of this pull that are not asked yet. */
void slot_queue_drop(slot_queue *queue, tickets *tickets, const reader_pull *pull);
/* The pull ends, without memory to write all of its queries: no query belongs to it any more. */
void slot_queue_release(slot_queue *queue, tickets *tickets, const reader_pull *pull);
/* Prepares kept queries of a pull to be asked once more: their destinations have no answer, and versions of the
 * caller's memory are forgotten. MR_NOMEM. */
MR_MUST mr_status slot_queue_renew(const reader_pull *pull);
void slot_queue_repeat(slot_queue *queue, query_batch *batch, uint64_t step); /* asks a kept query again */
void slot_queue_abandon_kept(const reader_pull *pull); /* as slot_queue_abandon, of the kept queries */
void slot_queue_forget(reader_pull *pull, bool valid); /* frees the kept queries; `valid`: the memory has the values */
/* ends every batch and query with the status */
void slot_queue_fail(slot_queue *queue, tickets *tickets, mr_status status);

size_t slot_queue_count(const slot_queue *queue); /* unfinished batches and queries */
