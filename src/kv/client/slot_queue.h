/* slot_queue.h — per-slot queue of a worker: pushes in batches and pulls in queries, in order.
 *
 *   a batch    gathering ── full; closed; or nothing is under way ──► sent ── acknowledged ──► its parts are over
 *   a query    gathering ── the pushes before it are sent, and no other is asked ──► asked ── answered ──► over
 *
 * Requests that come while others are under way are gathered, and sent as one: so small requests become few messages.
 * Single rows whose keys ascend become one section, too (a run). In rounds (`holds`) a batch gathers until it is
 * closed, at the end of the step: all of a step is one contribution.
 *
 * Seqs      Each section of a batch has a seq, and the batch has that of its last one. A seq that the slot had applied
 *           when this term began is never put into a batch, so no batch contains an applied section, however the
 *           process that died had batched it.
 * Order     Batches are sent in their order. A query is asked behind the pushes that came before it, and shows them; it
 *           may show later ones. They need not be acknowledged: a push and the pull behind it are one round trip. In
 *           rounds they have to be.
 * Key lists A query may name lists of keys that the slot was sent before (key_list_cache.h). If the slot has forgotten
 *           one, the query is asked again, with all keys, before any other.
 * Numbers   Batches and queries are counted, from 1. `known` is the last batch that the slot has for sure.
 *
 * Remote    A block that is read in the server's memory (remote_values.h) and has changed meanwhile is asked for again,
 *           SLOT_QUEUE_LOOKS times in all; then the server sends it.
 *
 * Bounds    SLOT_QUEUE_BATCH bytes in a batch that does not hold, and one section beyond that; SLOT_QUEUE_ANSWER bytes
 *           in an answer, likewise.
 * Ownership a slot queue owns its batches and queries, with their payloads. Pure: the kv_worker sends them. */
#pragma once
#include "kv/client/scatter.h"
#include "kv/client/ticket.h"
#include "kv/client/zero_copy.h"
#include "kv/payload/payload.h"

enum { SLOT_QUEUE_BATCH = 256 * 1024, SLOT_QUEUE_ANSWER = 1 << 20, SLOT_QUEUE_LOOKS = 3, SLOT_QUEUE_PARTS_KEPT = 8 };

/* A section of rows, made of many pushes, while the payload is written row by row. */
typedef struct slot_queue_run {
    uint32_t table;
    payload_op op;
    uint64_t last; /* key */
} slot_queue_run;

typedef struct push_batch {
    list link;
    uint64_t number, name;
    bool closed;
    uint8_t priority;
    payload_writer payload; /* once sent, shared with the sender */
    zero_copy *zero_copy;   /* where the values of its last section lie, shared; NULL: in the payload */
    slot_queue_run run;
    ticket **tickets; /* owned: one for each part */
    size_t ticket_count, ticket_room;
} push_batch;

typedef struct query_batch {
    list link;
    uint64_t number;
    uint64_t step;   /* as rank_pull has it */
    uint64_t behind; /* the seq that has to be sent before it; 0: none */
    uint8_t priority;
    size_t expects; /* estimated bytes of its answer */
    bool names;     /* it names key lists that the slot may have forgotten: its payload is kept until it is answered */
    payload_writer payload;
    scatter *parts; /* owned: one for each section that asks */
    size_t part_count, part_room;
} query_batch;

typedef struct slot_queue { /* slot_queue_init */
    list link;              /* in the list of queues that have something to send */
    uint32_t slot;
    bool holds;
    uint64_t last;  /* the last seq assigned */
    uint64_t there; /* the last seq that the slot has */
    uint64_t sent;  /* the last seq that was sent */
    uint64_t batches, queries, known;
    uint32_t under_way; /* batches that were sent */
    list waiting, out;  /* of batch: not sent yet, the last one may gather; not acknowledged */
    list asking;        /* of query: not asked yet; the last one gathers */
    query_batch *asked; /* NULL: none */
    uint64_t forgotten; /* queries that were asked again, with their keys */
    push_batch *spare;  /* owned: a finished one, for its memory; the same of a query */
    query_batch *spare_batch;
} slot_queue;

void slot_queue_init(slot_queue *queue, uint32_t slot, bool holds);
void slot_queue_fini(slot_queue *queue); /* the queue is empty: slot_queue_fail */

/* The batch that gathers, with room for so many bytes; a new one, if there is none. */
push_batch *slot_queue_gather(slot_queue *queue, size_t bytes);
size_t slot_queue_gathered(const slot_queue *queue); /* bytes in it */
/* a section of it was written */
void slot_queue_part(slot_queue *queue, push_batch *batch, uint64_t name, ticket *ticket);
/* The same for the last section that fits into it: its values are sent without a copy (moved). */
void slot_queue_lend(push_batch *batch, zero_copy *zero_copy);
/* The caller's memory of this ticket is not used any more: its pushes are copied, its pulls are discarded. False: there
 * is no memory for the copy. */
bool slot_queue_abandon(slot_queue *queue, const ticket *ticket);
void slot_queue_skip(slot_queue *queue, uint64_t name); /* the slot has that one already */
/* Closes the batch that gathers, with this seq: the end of a step. Makes an empty batch, if there is none. */
void slot_queue_close(slot_queue *queue, uint64_t name);

/* The query that gathers for this step, to which an answer of so many bytes is added; a new one, if there is none. */
query_batch *slot_queue_ask(slot_queue *queue, uint64_t step, uint64_t behind, size_t answer);
void slot_queue_expect(query_batch *batch, const scatter *part); /* a section of it was written */
/* Writes the section that asks for a block, and expects it. MR_NOMEM, MR_TOO_LARGE. */
MR_MUST mr_status slot_queue_ask_block(query_batch *batch, const scatter *part);

bool slot_queue_owes(const slot_queue *queue, uint64_t name); /* something up to this seq was not sent yet */
push_batch *slot_queue_next(const slot_queue *queue);         /* that can be sent now; NULL: none */
void slot_queue_sent(slot_queue *queue, push_batch *batch);   /* the next one was, with its payload */
query_batch *slot_queue_next_query(const slot_queue *queue);  /* that can be asked now; NULL: none */
void slot_queue_asked(slot_queue *queue, query_batch *batch);

/* A push that the round did not count is MR_STALE. False: no such batch. */
bool slot_queue_acknowledge(slot_queue *queue, tickets *tickets, uint64_t name, bool counted);
bool slot_queue_answer(slot_queue *queue, tickets *tickets, span answer);    /* false: nothing was asked */
void slot_queue_fail(slot_queue *queue, tickets *tickets, mr_status status); /* ends everything in it with the status */

size_t slot_queue_count(const slot_queue *queue); /* unfinished batches and queries */
