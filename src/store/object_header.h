/* object_header.h — object header in shared memory; object ids and references.
 *
 * An object is written once, sealed, and immutable from then on. The object's *slot* contains its id and offset. A
 * process that has a *ref* (id, slot, sequence) finds and holds the object without a message to another process. A slot
 * belongs to the process that owns the page of the slot.
 *
 *   slot      offset  what                                            written by
 *   --------  ------  ----------------------------------------------  -----------------------------------------------
 *   word      0       sequence << 8 | condemned flag | state          see below
 *   id        8       creating process, and its count of objects      creating process, while CREATING
 *   offset    24      of the object's bytes in the arena              as id; store server, while SPILLED
 *   size      32      of the object in bytes                          as id; store server, while SPILLED
 *   used_us   40      monotonic time of the last view                 viewing process; only a hint
 *   moves     48      count of times the store server took its memory creating process sets 0; store server
 *
 * States (M creating process, K store server, H any holder):
 *
 *   FREE ──M create──► CREATING ──M seal──► SEALED ──K──► SPILLING ──K written──► SPILLED ──K restored──► SEALED
 *    ▲ ▲                  │                  │ │ ▲           │                       │
 *    │ └──M aborts or dies┘                  │ │ └──H pins───┘                       │ file bad, H deletes
 *    ├───M frees an object never shared──────┘ └──H deletes──► DOOMED ──K, no pins──► LOST
 *    └──M has reclaimed the memory─── GONE ◄──K── condemned and without a hold
 *
 * *condemned* is a flag on SEALED, SPILLED, DOOMED and LOST: the store server found no hold. A new holder clears the
 * flag; otherwise the object becomes GONE.
 *
 * Invariants
 *  1 A sequence number of a slot identifies one object and is never used again: each change to FREE or GONE that ends
 *    an object adds one.
 *  2 Slots are type-stable: a page of slots stays a page of slots until the store server closes. A stale ref therefore
 *    reads a slot, and the sequence number shows that the ref's object is gone.
 *  3 Holds are in the hold tables (process_page.h) only; an entry of a process that died is void.
 *  4 An object with a valid hold never becomes GONE; an object with a valid pin never becomes SPILLED or LOST:
 *
 *      holder:  entry := slot;  fence;  read word     store server:  word := condemned;  fence;  read all entries
 *
 *    The fences guarantee that at least one of the two reads the other's write. A holder that finds `condemned` clears
 *    it; the store server takes the object only by changing `condemned` to GONE. Both use compare-and-swap, so exactly
 *    one succeeds. SPILLING works the same way for pins: a holder that pins an object while it is being saved changes
 *    the state back to SEALED, and the store server drops the file. (Adding and removing an entry are release stores:
 *    no process reuses the bytes while the last holder still reads them.)
 *  5 The bytes of an object have one owner: the allocator of the creating process until that process observes GONE,
 *    SPILLED or LOST (moves > 0 records that the store server took the memory), the store server after that. A stretch
 *    that was lent for this object alone belongs to the store server at once.
 *
 * Memory order: `word` is stored with release and read with acquire and orders the other fields, which the creating
 * process therefore writes relaxed. A process reads its own hold entries relaxed, as their only writer.
 *
 * While a message with a ref is under way, the sender keeps its hold until the receiver has confirmed a hold of its own
 * (the answer to the call that carried the ref). The operations are store_client_ref and store_client_take. */
#pragma once
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cpu.h"

typedef struct object_id { /* owner == 0: none */
    uint64_t owner;        /* the process that created the object */
    uint64_t number;       /* count of objects of that process */
} object_id;

typedef struct object_ref { /* sent in messages; a received one may contain any bytes */
    object_id id;
    uint64_t slot;     /* offset of the slot in the arena */
    uint64_t sequence; /* sequence number in the slot */
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

/* Whether the slot has an object that can be held. */
static inline bool object_word_holdable(uint64_t word) {
    object_header_state state = object_word_state(word);
    return state >= OBJECT_HEADER_SEALED && state <= OBJECT_HEADER_LOST;
}

/* Whether the hold, whose entry was written before, is valid. Clears the condemned flag. */
static inline bool object_header_confirm_hold(object_header *header, uint64_t sequence) {
    for (;;) {
        uint64_t word = object_header_read(header);
        if (object_word_sequence(word) != sequence || !object_word_holdable(word)) return false;
        if (!object_word_condemned(word) ||
            object_header_change(header, word, word & ~(uint64_t)OBJECT_HEADER_CONDEMNED))
            return true;
    }
}

/* The state of the object after its hold entry was marked as pinned. SEALED: the bytes stay in place; SPILLED: they
 * must be restored first; DOOMED and LOST: they are gone. Never SPILLING, which is changed back to SEALED. */
static inline object_header_state object_header_confirm_pin(object_header *header) {
    for (;;) {
        uint64_t word = object_header_read(header);
        if (object_word_state(word) != OBJECT_HEADER_SPILLING) return object_word_state(word);
        if (object_header_change(header, word, object_header_word(object_word_sequence(word), OBJECT_HEADER_SEALED)))
            return OBJECT_HEADER_SEALED;
    }
}
