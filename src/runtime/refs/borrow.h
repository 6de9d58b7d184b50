/* borrow.h — references to objects of other processes: owners, borrowers, and the life of a borrowed reference.
 *
 * A reference is an owner (a process) and a serial, the same in every process. A process that finds one inside a value
 * borrows it:
 *
 *   CARRIED ── borrow_keep ──► ASKED ── owner's answer ────► HELD
 *      │                         │                            │
 *      │                         └── borrow_let_go: RETURN ◄──┘
 *      └── borrow_let_go: no message
 *   each ── the owner is gone ──► LOST
 *
 * While a reference is CARRIED, the sender of the value keeps it: an argument until the answer, a result until the
 * receiver reports it as taken. A reference that shall live longer is kept before that: a *gate* opens when the owners
 * of all references kept through it have answered, or are gone, and only then the message is answered or reported as
 * taken. So there are no counters, no reference is released too early, and references used only while a body runs cost
 * no message.
 *
 * The owner has, for each of its borrowers, the set of borrowed serials; the set is freed when the borrower's link
 * closes.
 *
 * Invariants
 *  1 Messages to one owner (BORROW, RETURN) are sent in the order in which they were decided, each in one message at a
 *    time; the link keeps the order. So a reference that is released and found again is borrowed at the end.
 *  2 A gate opens once, when each BORROW that went through it has been answered or its owner is gone.
 *  3 An object of this process is held once for each borrower that has it in its set.
 *
 * Pure: messages are sent through borrow_ops, and received as calls of the functions below. No clock, no threads. */
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

typedef struct borrowed_ref { /* state of one reference; embedded in its object */
    uint64_t owner, serial;
    borrowed_ref_state state;
} borrowed_ref;

typedef struct borrow_gate {
    uint32_t left;
    void (*open)(struct borrow_gate *gate); /* called after the last answer, not before borrow_through */
} borrow_gate;

typedef enum borrow_verb { BORROW, RETURN } borrow_verb;
enum { BORROW_BATCH = 256 };

typedef struct borrow_message { /* a message to an owner */
    list place;
    uint64_t owner;
    borrow_verb verb;
    borrow_gate *gate; /* gate of a BORROW; NULL: none */
    bool sent;
    uint32_t count;
    uint64_t serials[BORROW_BATCH];
} borrow_message;

typedef struct borrow_ops {
    /* Sends a message. MR_OK: borrow_answered or borrow_owner_gone follows. MR_BUSY: retried by borrow_feed. */
    mr_status (*send)(void *host, borrow_message *message);
    borrowed_ref *(*find)(void *host, uint64_t owner, uint64_t serial); /* NULL: released meanwhile */
    void *(*hold)(void *host, uint64_t serial); /* holds an object of this process; NULL: there is none */
    void (*drop)(void *host, void *object);
} borrow_ops;

typedef struct borrow {
    const borrow_ops *ops; /* borrowed, like the host */
    void *host;
    map owners;      /* process → list of borrow_message, in order, sent ones first; owned */
    map borrowers;   /* link → map of serial → object, held for the borrower; owned */
    size_t borrowed; /* number of holds, over all borrowers */
    uint32_t batch;  /* serials in one message; BORROW_BATCH unless the host sets less */
} borrow;

void borrow_init(borrow *borrow, const borrow_ops *ops, void *host);
void borrow_fini(borrow *borrow); /* drops pending messages and holds of borrowers */

/* ---- For borrowers. */

void borrow_keep(borrow *borrow, borrowed_ref *ref, borrow_gate *gate); /* no-op for HELD and LOST */
/* After the last keep: sends the messages. True: the gate is open already, and `open` is not called. */
bool borrow_through(borrow *borrow, borrow_gate *gate);
void borrow_let_go(borrow *borrow, borrowed_ref *ref); /* RETURNs wait for borrow_feed, or the next BORROW */

bool borrow_feed(borrow *borrow); /* sends waiting messages; false: some still wait */
void borrow_answered(borrow *borrow, borrow_message *message);
void borrow_owner_gone(borrow *borrow, uint64_t owner); /* the host finds its borrowed references and marks them LOST */

/* ---- For owners. `link` names the borrower. */

void borrow_lend(borrow *borrow, uint64_t link, const uint64_t *serials, uint32_t count);
void borrow_take_back(borrow *borrow, uint64_t link, const uint64_t *serials, uint32_t count);
void borrow_borrower_gone(borrow *borrow, uint64_t link);
