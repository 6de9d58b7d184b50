/* share.h — how a model that is synced in place (miniray/model.h, mr_share) lies in shared memory, and what its owner,
 * a worker, and a server say to each other about it. The owner's side is share.c, the server's is loan.h.
 *
 * It is one object of the store, a tensor of bytes, that its owner holds and views for as long as he lives, so that it
 * stays where it is; a server holds it while it works on it. From its first whole page on:
 *
 *   offset          what
 *   0               share_head, one page
 *   page            half 0
 *   page + bytes    half 1
 *
 * The owner sees the half that is his model through a window, a mapping of its own; the sync writes the other half.
 * What may be done with that one says the head's word, ticket << 32 | pid of the writer << 8 | state:
 *
 *   IDLE ──lend──► LENT ──server begins──► WRITING ──server ends──► WRITTEN ──take: owner changes over──► IDLE
 *                   ▲ └────lend: a new ticket─────┐     │ └──failed──► IDLE                   │
 *                   ├─────────────────────────────┘     └──its process is gone: lend──┐       │
 *                   └─────────────────────────────────────────────────────────────────┴──lend─┘
 *
 * Every arrow is one compare-and-swap, so a loan is written by one server and taken once; while it is WRITING it is not
 * lent again. Nothing but the owner's change-over makes a half the model, and that happens after all of it is there.
 *
 * What travels: the loan (miniray/model.h, mr_loan) from the owner to the server, and back the tuple (MR_LOAN_MARK,
 * ticket, offset of the head in the arena), which says whose it is. */
#pragma once
#include <stdatomic.h>

#include "miniray/model.h"

enum { SHARE_PAGE = 64 * 1024 }; /* no machine's pages are larger */
enum { SHARE_STAND_IN_DIMS = 2 };
enum { SHARE_LOAN_ITEMS = 6, SHARE_ANSWER_ITEMS = 3 };

typedef enum share_state { SHARE_IDLE, SHARE_LENT, SHARE_WRITING, SHARE_WRITTEN } share_state;

typedef struct share_head {
    _Atomic uint64_t word;
} share_head;

static inline uint64_t share_word(uint32_t ticket, uint32_t pid, share_state state) {
    return (uint64_t)ticket << 32 | (uint64_t)(pid & 0xffffff) << 8 | (uint64_t)state;
}

typedef struct share_place { /* where it lies, in the mapping that every process has */
    share_head *head;
    uint8_t *halves[2];
    uint64_t offset; /* of the head in the arena */
    int fd;          /* of the arena; borrowed */
} share_place;

static inline size_t share_region_bytes(size_t half) { return 2 * half + 2 * SHARE_PAGE; }
/* `region`: the object, held by the caller, whose halves have these many bytes. MR_INVALID: it is no such thing.
 * MR_CLOSED: there is no store. */
MR_MUST mr_status share_find(mr_context *mr, const mr_value *region, size_t half, share_place *out);

bool share_is_marked(const mr_value *value, size_t items); /* a tuple of so many that begins with the mark */
