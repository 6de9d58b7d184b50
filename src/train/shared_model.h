/* shared_model.h — layout in shared memory of a model that is synced in place (miniray/model.h, mr_shared_model), and
 * the protocol between its owner, a worker, and the model server. shared_model.c has the functions of the owner,
 * shared_model_access.h those of the server.
 *
 * A shared model is a region of the store (store_region.h) that its owner keeps until it closes the model; a server
 * holds the region during a sync:
 *
 *   offset          what
 *   0               shared_model_head, one page
 *   page            half 0
 *   page + bytes    half 1
 *
 * The owner maps one half as its model; the sync writes the other half. The head's word, ticket << 32 | pid of the
 * writer << 8 | state, determines which operations are allowed on that other half:
 *
 *   IDLE ──export──► EXPORTED ──server begins──► WRITING ──server ends──► WRITTEN ──import: owner switches──► IDLE
 *                     ▲ └──export: a new ticket──┐│ └──failed──► IDLE        │
 *                     ├──────────────────────────┘└──process gone: export──┐ │
 *                     └────────────────────────────────────────────────────┴─┘ export
 *
 * After the death of a server its process may be restarted and its call repeated: a half that is WRITTEN, or was
 * WRITING at the death, is then written again, with the same bits.
 *
 * Every arrow is one compare-and-swap, so one server at a time writes a half, and a result is imported once. A half
 * that a live process is WRITING is not exported again. A half becomes the model only when the owner switches to it,
 * after it is complete.
 *
 * A worker that keeps its model in other memory exports a model copy (model_copy.c): a region with a head and one half,
 * which the server only reads:
 *
 *   IDLE ──copied, export──► EXPORTED ──read by the server──► READ ──export: a new ticket──► IDLE
 *                             └──no sync waits for it: export, a new ticket───────────────────┘
 *
 * A copy that is EXPORTED or READ may be read any number of times. The owner changes the ticket before it writes, so a
 * server that finds the same ticket before and after reading has read the exported bytes.
 *
 * A worker that has exported or imported its model yields its CPU to the other workers of the sync (mr_yield_cpu). The
 * server does not, because its next call follows soon.
 *
 * Values: the owner sends the server the tuple (MR_SHARED_MODEL_MARK, store_region_name, ticket, number of the half
 * that is the model or SHARED_MODEL_IS_COPY, bytes of a half, weights). `weights` is the tree with a stand-in for each
 * tensor: an empty tensor of the same dtype and kind, with the shape {0, offset in the half, the tensor's shape…}. For
 * a model written in place, the server returns the tuple (MR_SHARED_MODEL_MARK, ticket, offset of the head in the
 * arena), which identifies the model. */
#pragma once
#include <stdatomic.h>

#include "miniray/model.h"
#include "train/store_region.h"

enum { SHARED_MODEL_PAGE = STORE_REGION_PAGE };
enum { SHARED_MODEL_STAND_IN_DIMS = 2 };
enum { SHARED_MODEL_LOAN_ITEMS = 6, SHARED_MODEL_ANSWER_ITEMS = 3 };
enum { SHARED_MODEL_IS_COPY = 2 }; /* in place of the number of a half */

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
bool shared_model_writer_is_gone(uint64_t word); /* for a word with the state WRITING: the writer's process has ended */

typedef struct shared_model_place { /* addresses in this process's mapping of the arena */
    shared_model_head *head;
    uint8_t *halves[2]; /* a model copy has only the first */
} shared_model_place;

static inline size_t shared_model_region_bytes(size_t half) { return 2 * half + SHARED_MODEL_PAGE; }
static inline size_t shared_model_copy_bytes(size_t half) { return half + SHARED_MODEL_PAGE; }
static inline shared_model_place shared_model_place_of(const store_region_place *region, size_t half) {
    uint8_t *first = region->bytes + SHARED_MODEL_PAGE;
    return (shared_model_place){(shared_model_head *)region->bytes, {first, first + half}};
}

/* The value that the owner sends: a tuple whose items are written to `items`; `weights` is the tree with stand-ins. */
mr_arg shared_model_loan(const store_region_name *name, uint32_t ticket, int64_t half, size_t bytes, mr_arg weights,
                         mr_arg items[SHARED_MODEL_LOAN_ITEMS]);
bool shared_model_is_marked(const mr_value *value,
                            size_t items); /* true: a tuple of `items` items that begins with the mark */
