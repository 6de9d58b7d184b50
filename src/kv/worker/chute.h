/* chute.h — per-slot queue of a worker: pushes in batches and pulls in queries, in order.
 *
 *   a batch    gathering ── full; closed; or nothing is under way ──► sent ── acknowledged ──► its parts are over
 *   a query    gathering ── the pushes before it are sent, and no other is asked ──► asked ── answered ──► over
 *
 * What comes while something is under way gathers, and goes as one: that is how small requests become few messages.
 * Single rows whose keys ascend become one section, too (a run). In rounds (`holds`) a batch gathers until it is
 * closed, at the end of the step: all of a step is one contribution.
 *
 * Names     Each section of a batch has a name, and the batch has that of its last one. A name that the slot had
 *           applied when this stint began is never put into a batch, so none has a part of what is there already,
 *           however the process that died had batched it.
 * Order     Batches are sent in their order. A query is asked behind the pushes that came before it, and shows them; it
 *           may show later ones. They need not be acknowledged: a push and the pull behind it are one round trip. In
 *           rounds they have to be.
 * Names of keys   A query may name lists of keys that the slot was sent before (lists.h). If it has forgotten one, the
 *           query is asked again, with all keys, before any other.
 * Numbers   Batches and queries are counted, from 1. `known` is the last batch that the slot has for sure.
 *
 * Looks     A block that is looked for in the server's memory (afar.h) and has changed meanwhile is asked for again,
 *           CHUTE_LOOKS times in all; then the server sends it.
 *
 * Bounds    CHUTE_BATCH bytes in a batch that does not hold, and one section beyond that; CHUTE_ANSWER bytes in an
 *           answer, likewise.
 * Ownership a chute owns its batches and queries, with their parcels. Pure: the customer sends them. */
#pragma once
#include "kv/parcel.h"
#include "kv/worker/lease.h"
#include "kv/worker/scatter.h"
#include "kv/worker/ticket.h"

enum { CHUTE_BATCH = 256 * 1024, CHUTE_ANSWER = 1 << 20, CHUTE_LOOKS = 3, CHUTE_PARTS_KEPT = 8 };

/* A section of rows, made of many pushes, while the parcel is written row by row. */
typedef struct chute_run {
    uint32_t table;
    parcel_op op;
    uint64_t last; /* key */
} chute_run;

typedef struct batch {
    list link;
    uint64_t number, name;
    bool closed;
    uint8_t priority;
    parcel_writer parcel; /* once it is sent, what is shared with whoever sends it */
    lease *lease;         /* where the values of its last section lie, shared; NULL: in the parcel */
    chute_run run;
    ticket **tickets; /* owned: one for each part */
    size_t ticket_count, ticket_room;
} batch;

typedef struct query {
    list link;
    uint64_t number;
    uint64_t step;   /* as rank_pull has it */
    uint64_t behind; /* the name that has to be sent before it; 0: none */
    uint8_t priority;
    size_t expects; /* bytes of its answer, about */
    bool names;     /* keys that the slot may have forgotten: its parcel is kept until it is answered */
    parcel_writer parcel;
    scatter *parts; /* owned: one for each section that asks */
    size_t part_count, part_room;
} query;

typedef struct chute { /* chute_init */
    list link;         /* of those that have something to send */
    uint32_t slot;
    bool holds;
    uint64_t last;  /* the name that was given last */
    uint64_t there; /* the last that the slot has */
    uint64_t sent;  /* the last that was sent to it */
    uint64_t batches, queries, known;
    uint32_t under_way; /* batches that were sent */
    list waiting, out;  /* of batch: not sent yet, the last one may gather; not acknowledged */
    list asking;        /* of query: not asked yet; the last one gathers */
    query *asked;       /* NULL: none is */
    uint64_t forgotten; /* queries that were asked again, with their keys */
    batch *spare;       /* owned: one that is over, for its memory; the same of a query */
    query *spare_query;
} chute;

void chute_init(chute *chute, uint32_t slot, bool holds);
void chute_fini(chute *chute); /* nothing is in it: chute_fail */

/* The batch that gathers, with room for so many bytes; another one, if there is none. */
batch *chute_gather(chute *chute, size_t bytes);
size_t chute_gathered(const chute *chute);                                  /* bytes in it */
void chute_part(chute *chute, batch *batch, uint64_t name, ticket *ticket); /* a section of it was written */
/* The same of the last one that fits into it: its values are lent (moved). */
void chute_lend(batch *batch, lease *lease);
/* The caller's memory of this ticket is not used any more: what it pushes is copied, what it pulls goes nowhere. False:
 * there is no memory to copy it to. */
bool chute_abandon(chute *chute, const ticket *ticket);
void chute_skip(chute *chute, uint64_t name); /* that one is there already */
/* The batch that gathers is full now, and has this name: the end of a step. One of nothing, if there is none. */
void chute_close(chute *chute, uint64_t name);

/* The query that gathers for this step, to which an answer of so many bytes is added; another one, if there is none. */
query *chute_ask(chute *chute, uint64_t step, uint64_t behind, size_t answer);
void chute_expect(query *query, const scatter *part); /* a section of it was written */
/* Writes the section that asks for a block, and expects it. MR_NOMEM, MR_TOO_LARGE. */
MR_MUST mr_status chute_ask_block(query *query, const scatter *part);

bool chute_owes(const chute *chute, uint64_t name); /* something up to this name was not sent yet */
batch *chute_next(const chute *chute);              /* that can be sent now; NULL: none */
void chute_sent(chute *chute, batch *batch);        /* the next one was, with its parcel */
query *chute_next_query(const chute *chute);        /* that can be asked now; NULL: none */
void chute_asked(chute *chute, query *query);

/* What was not counted, by a round, is MR_STALE. False: there is no such one. */
bool chute_acknowledge(chute *chute, tickets *tickets, uint64_t name, bool counted);
bool chute_answer(chute *chute, tickets *tickets, span answer);    /* false: nothing was asked */
void chute_fail(chute *chute, tickets *tickets, mr_status status); /* all that is in it is over */

size_t chute_count(const chute *chute); /* batches and queries that are not over */
