/* shared_model.h — layout in shared memory of a model that is synced in place (miniray/model.h, mr_shared_model), and
 * the protocol between its owner, a worker, and the model server. The owner's side is shared_model.c, the server's is
 * shared_model_access.h.
 *
 * A shared model is a region of the store (store_region.h) that its owner keeps for life; a server holds the region
 * while the server works on it:
 *
 *   offset          what
 *   0               shared_model_head, one page
 *   page            half 0
 *   page + bytes    half 1
 *
 * The owner sees its model, one half, through a mapping of its own; the sync writes the other half. The
 * head's word, ticket << 32 | pid of the writer << 8 | state, says which operations are allowed on that half:
 *
 *   IDLE ──lend──► LENT ──server begins──► WRITING ──server ends──► WRITTEN ──take: owner changes over──► IDLE
 *                   ▲ └────lend: a new ticket─────┐     │ └──failed──► IDLE                   │
 *                   ├─────────────────────────────┘     └──its process is gone: lend──┐       │
 *                   └─────────────────────────────────────────────────────────────────┴──lend─┘
 *
 * A server that died after it had begun may be started again, and its call tried again: then a half that is WRITTEN, or
 * was WRITING at the death, is begun once more, with the same bits as the result.
 *
 * Every arrow is one compare-and-swap, so a half is written by one server at a time and taken once; a half that is
 * WRITING is not lent again. Only the owner's change-over makes a half the model, after the half is complete.
 *
 * A worker that keeps its model elsewhere lends a model copy (model_copy.c): a region with a head and one half, which
 * the server only reads:
 *
 *   IDLE ──written, lend──► LENT ──server has read it──► READ ──lend: a new ticket──► IDLE
 *                            └──────────no server will: lend: a new ticket───────────┘
 *
 * A copy that is LENT or READ may be read any number of times; the owner changes the ticket before it writes, so a
 * server that finds the same ticket before and after has read the lent bytes.
 *
 * A worker that has shared or taken back its model yields its CPU to the others until they have, too (mr_yield_cpu).
 * The server does not: the answer to its result comes soon.
 *
 * Values: from the owner to the server the tuple (MR_SHARED_MODEL_MARK, store_region_name, ticket, which half is
 * the model or SHARED_MODEL_ON_TRAY, bytes of a half, weights), where weights are the tree with a stand-in for each
 * tensor: one without numbers, of the same dtype and kind, and of the shape {0, offset in the half, the tensor's
 * shape…}. And back, for a model written in place, the tuple (MR_SHARED_MODEL_MARK, ticket, offset of the head in the
 * arena), which identifies the model. */
#pragma once
#include <stdatomic.h>

#include "miniray/model.h"
#include "train/store_region.h"

enum { SHARED_MODEL_PAGE = STORE_REGION_PAGE };
enum { SHARED_MODEL_STAND_IN_DIMS = 2 };
enum { SHARED_MODEL_LOAN_ITEMS = 6, SHARED_MODEL_ANSWER_ITEMS = 3 };
enum { SHARED_MODEL_IS_COPY = 2 }; /* in place of a half */

typedef enum shared_model_state {
    SHARED_MODEL_IDLE,
    SHARED_MODEL_EXPORTED,
    SHARED_MODEL_WRITING,
    SHARED_MODEL_WRITTEN,
    SHARED_MODEL_READ
} shared_model_state;

typedef struct shared_model_head {
    _Atomic uint64_t word;
} shared_model_head;

static inline uint64_t shared_model_word(uint32_t ticket, uint32_t pid, shared_model_state state) {
    return (uint64_t)ticket << 32 | (uint64_t)(pid & 0xffffff) << 8 | (uint64_t)state;
}

static inline uint32_t shared_model_ticket(uint64_t word) { return (uint32_t)(word >> 32); }
static inline shared_model_state shared_model_state_of(uint64_t word) { return (shared_model_state)(word & 0xff); }
bool shared_model_writer_is_gone(uint64_t word); /* of one that is being written: its process has ended */

typedef struct shared_model_place { /* where it lies, in the mapping that every process has */
    shared_model_head *head;
    uint8_t *halves[2]; /* of a model copy only the first */
} shared_model_place;

static inline size_t shared_model_region_bytes(size_t half) { return 2 * half + SHARED_MODEL_PAGE; }
static inline size_t shared_model_copy_bytes(size_t half) { return half + SHARED_MODEL_PAGE; }
static inline shared_model_place shared_model_place_of(const store_region_place *region, size_t half) {
    uint8_t *first = region->bytes + SHARED_MODEL_PAGE;
    return (shared_model_place){(shared_model_head *)region->bytes, {first, first + half}};
}

/* The value that the owner returns: a tuple, in `items`; `weights` is the tree with stand-ins. */
mr_arg shared_model_loan(const store_region_name *name, uint32_t ticket, int64_t half, size_t bytes, mr_arg weights,
                         mr_arg items[SHARED_MODEL_LOAN_ITEMS]);
bool shared_model_is_marked(const mr_value *value, size_t items); /* a tuple of so many that begins with the mark */
