/* object_header.h — object header in shared memory; object ids and references.
 *
 * An object is written once, sealed, then immutable. Its *slot* has its id and place; a process that has a *ref*
 * (id, slot, sequence) can find and hold it without asking another process. A slot belongs to the process whose page it
 * lies in.
 *
 *   slot      offset  what                                            written by
 *   --------  ------  ----------------------------------------------  -----------------------------------------------
 *   word      0       sequence << 8 | condemned flag | state          see below
 *   id        8       its maker, and the maker's count                maker, while CREATING
 *   offset    24      where its bytes are in the arena         maker, while CREATING; store server, while SPILLED
 *   size      32      how many                                        maker, while CREATING
 *   used_us   40      when it was last viewed (monotonic)             viewing process; only a hint
 *   moves     48      how often the store server has taken its memory  maker sets 0; store server
 *
 * States (M maker's process, K store server, H any holder):
 *
 *   FREE ──M create──► CREATING ──M seal──► SEALED ──K──► SPILLING ──K written──► SPILLED ──K restored──► SEALED
 *    ▲ ▲                  │                  │ │ ▲           │                       │
 *    │ └──M abort, K died─┘                  │ │ └──H pins───┘                       │ file bad, H deletes
 *    ├──────M frees what it never showed─────┘ └──H deletes──► DOOMED ──K, no pins──► LOST
 *    └──M has taken the memory back── GONE ◄──K── condemned and without a hold
 *
 * *condemned* is a flag on SEALED, SPILLED, DOOMED and LOST: the store server found no holder and asks for objections.
 *
 * Invariants
 *  1 A sequence number of a slot means one object, for ever: leaving for FREE or GONE adds one.
 *  2 Slots are type-stable: a page that was once one of slots stays one until the store server closes, so a stale ref
 *    reads a slot, never something else, and sees by the sequence that its object is gone.
 *  3 Holds are in the hold tables (process_page.h) and nowhere else; an entry of a process that died is void.
 *  4 An object that has a valid hold never becomes GONE, one with a valid pin never SPILLED or LOST:
 *
 *      holder:  entry := slot;  fence;  read word     store server:  word := condemned;  fence;  read all entries
 *
 *    One of the two sees the other. A holder that finds `condemned` clears it, the store server takes the object only
 *    by changing `condemned` to GONE: both by compare-and-swap, so one wins and both know which. SPILLING works the
 *    same way for pins: a holder that pins while it is written puts it back to SEALED, and the store server throws its
 *    file away. (The entry is stored with release, so that a fence and not a lock does; letting go releases too, so
 *    that no process gets the bytes while the last holder still reads them.)
 *  5 Bytes of the arena are used by one owner: the maker's blocks until GONE, SPILLED or LOST is seen (moves > 0
 *    records it for ever), the store server's after that. A stretch that was leased for this one object is the store
 *    server's at once.
 *
 * Order: `word` is stored with release and read with acquire; it orders the other fields, which the maker therefore
 * writes relaxed. A process reads its own hold entries relaxed: it is their one writer. used_us is a hint.
 *
 * An object on its way belongs to the message that carries it: the sender keeps its hold until the receiver has
 * confirmed its own (the answer of the call that carried the ref). Both operations: store_client_ref,
 * store_client_take. */
#pragma once
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cpu.h"

typedef struct object_id { /* owner == 0: none */
    uint64_t owner;        /* the process that made it */
    uint64_t number;       /* its count */
} object_id;

typedef struct object_ref { /* travels in messages; anything may be in it when it comes */
    object_id id;
    uint64_t slot;     /* its offset in the arena */
    uint64_t sequence; /* of the slot */
} object_ref;

typedef enum object_header_state {
    OBJECT_HEADER_FREE,
    OBJECT_HEADER_CREATING,
    OBJECT_HEADER_SEALED,
    OBJECT_HEADER_SPILLING,
    OBJECT_HEADER_SPILLED,
    OBJECT_HEADER_DOOMED,
    OBJECT_HEADER_LOST,
    OBJECT_HEADER_GONE,
    OBJECT_HEADER_STATES,
} object_header_state;

enum { OBJECT_HEADER_CONDEMNED = 0x80, OBJECT_HEADER_PAGE_BYTES = 16384, OBJECT_HEADER_SHIFT = 8 };

typedef struct object_header {
    _Alignas(64) _Atomic uint64_t word;
    _Atomic uint64_t owner, number;
    _Atomic uint64_t offset, size;
    _Atomic int64_t used_us;
    _Atomic uint64_t moves;
} object_header;

enum { OBJECT_HEADERS_PER_PAGE = OBJECT_HEADER_PAGE_BYTES / (int)sizeof(object_header) };
_Static_assert(sizeof(object_header) == 64 && offsetof(object_header, offset) == 24 &&
                   offsetof(object_header, moves) == 48,
               "layout");

static inline uint64_t object_header_word(uint64_t sequence, object_header_state state) {
    return sequence << OBJECT_HEADER_SHIFT | (uint64_t)state;
}
static inline uint64_t object_word_sequence(uint64_t word) { return word >> OBJECT_HEADER_SHIFT; }
static inline object_header_state object_word_state(uint64_t word) { return (object_header_state)(word & 0x7f); }
static inline bool object_word_condemned(uint64_t word) { return (word & OBJECT_HEADER_CONDEMNED) != 0; }

static inline uint64_t object_header_read(const object_header *header) {
    return atomic_load_explicit(&header->word, memory_order_acquire);
}
static inline bool object_header_change(object_header *header, uint64_t from, uint64_t to) {
    return atomic_compare_exchange_strong(&header->word, &from, to);
}

/* Is there an object that can be held? */
static inline bool object_word_holdable(uint64_t word) {
    object_header_state state = object_word_state(word);
    return state >= OBJECT_HEADER_SEALED && state <= OBJECT_HEADER_LOST;
}

/* After the entry was written: is the hold valid? Objects if the store server is about to take it. */
static inline bool object_header_confirm_hold(object_header *header, uint64_t sequence) {
    for (;;) {
        uint64_t word = object_header_read(header);
        if (object_word_sequence(word) != sequence || !object_word_holdable(word)) return false;
        if (!object_word_condemned(word) ||
            object_header_change(header, word, word & ~(uint64_t)OBJECT_HEADER_CONDEMNED))
            return true;
    }
}

/* After the entry was marked as pinned: the state that the pin meets. SEALED: the bytes stay where they are; SPILLED:
 * they have to come back first; DOOMED and LOST: they are gone. Never SPILLING: that is put back. */
static inline object_header_state object_header_confirm_pin(object_header *header) {
    for (;;) {
        uint64_t word = object_header_read(header);
        if (object_word_state(word) != OBJECT_HEADER_SPILLING) return object_word_state(word);
        if (object_header_change(header, word, object_header_word(object_word_sequence(word), OBJECT_HEADER_SEALED)))
            return OBJECT_HEADER_SEALED;
    }
}
