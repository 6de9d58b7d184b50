/* borrow.h — references to objects of other processes: owners, borrowers, and the life of a borrowed reference.
 *
 * A reference is an owner (a process) and a serial, wherever it goes. A process that finds one inside a value has it on
 * loan:
 *
 *   CARRIED ── borrow_keep ──► ASKED ── the owner's word ──► HELD
 *      │                         │                            │
 *      │                         └── borrow_let_go: RETURN ◄──┘
 *      └── borrow_let_go: nothing is said
 *   each ── the owner is gone ──► LOST
 *
 * While it is CARRIED, the sender of the value keeps it: until the answer, if it was an argument; until it is told that
 * the result was taken. What shall live longer is kept before that: a *gate* opens when the owners of all that was kept
 * through it have given their word, or are gone, and only then the message is answered or said to be taken. So there
 * are no counters, no reference is let go of too early, and what is used only while a body runs costs no message at
 * all.
 *
 * The owner has, for each of its borrowers, the set of what that one has; it goes when the borrower's link closes.
 *
 * Invariants
 *  1 What is said to one owner (BORROW, RETURN) is sent in the order in which it was decided, each in one message at a
 *    time; the link keeps the order. So a reference that is let go of and found again is borrowed at the end.
 *  2 A gate opens once, when each BORROW that went through it has been answered or its owner is gone.
 *  3 An object of ours is held once for each borrower that has it in its set.
 *
 * Pure: messages go out through borrow_ops and come in as calls of the functions below. No clock, no threads. */
#pragma once
#include "base/list.h"
#include "base/map.h"
#include "miniray/status.h"

typedef enum borrowed_ref_state {
    BORROWED_REF_CARRIED,
    BORROWED_REF_ASKED,
    BORROWED_REF_HELD,
    BORROWED_REF_LOST
} borrowed_ref_state;

typedef struct borrowed_ref { /* of one reference; lives in what the process knows of it */
    uint64_t owner, serial;
    borrowed_ref_state state;
} borrowed_ref;

typedef struct borrow_gate {
    uint32_t left;
    void (*open)(struct borrow_gate *gate); /* called when the last is there, not before borrow_through */
} borrow_gate;

typedef enum borrow_verb { BORROW, RETURN } borrow_verb;
enum { BORROW_BATCH = 256 };

typedef struct borrow_message { /* on its way to an owner */
    list place;
    uint64_t owner;
    borrow_verb verb;
    borrow_gate *gate; /* of a BORROW */
    bool sent;
    uint32_t count;
    uint64_t serials[BORROW_BATCH];
} borrow_message;

typedef struct borrow_ops {
    /* Sends it. MR_OK: borrow_answered or borrow_owner_gone follows. MR_BUSY: not now, borrow_feed. */
    mr_status (*send)(void *host, borrow_message *message);
    borrowed_ref *(*find)(void *host, uint64_t owner, uint64_t serial); /* NULL: let go of meanwhile */
    void *(*hold)(void *host, uint64_t serial);                         /* an object of ours; NULL: there is none */
    void (*drop)(void *host, void *object);
} borrow_ops;

typedef struct borrow {
    const borrow_ops *ops; /* borrowed, like the host */
    void *host;
    map owners;      /* process → its messages in order; owned */
    map borrowers;   /* link → the set of what it has; owned */
    size_t borrowed; /* how many objects, over all borrowers */
    uint32_t batch;  /* serials in one message; BORROW_BATCH unless the host sets less */
} borrow;

void borrow_init(borrow *borrow, const borrow_ops *ops, void *host);
void borrow_fini(borrow *borrow); /* forgets what is on its way, drops what is lent */

/* ---- Of those who have something on loan. */

void borrow_keep(borrow *borrow, borrowed_ref *ref, borrow_gate *gate); /* HELD and LOST need no more */
/* After all that was kept: sends it. True: the gate is open already, and `open` is not called. */
bool borrow_through(borrow *borrow, borrow_gate *gate);
void borrow_let_go(borrow *borrow, borrowed_ref *ref); /* RETURNs wait for borrow_feed, or the next BORROW */

bool borrow_feed(borrow *borrow); /* sends what waits; false: something still does */
void borrow_answered(borrow *borrow, borrow_message *message);
void borrow_owner_gone(borrow *borrow, uint64_t owner); /* its loans are for the host to find and mark LOST */

/* ---- Of owners. `link` names the borrower. */

void borrow_lend(borrow *borrow, uint64_t link, const uint64_t *serials, uint32_t count);
void borrow_take_back(borrow *borrow, uint64_t link, const uint64_t *serials, uint32_t count);
void borrow_borrower_gone(borrow *borrow, uint64_t link);
