/* letter.h — control messages between members and the metadata store.
 *
 * Every letter begins with its kind and a stamp: who says it, and in which view. That is what fencing looks at, before
 * anything else in the letter is believed. A sender that is in no view (it is entering, or it is the keeper) leaves
 * zeros where it has nothing to say.
 *
 *   bytes    what
 *   -------  -------------------------------------------------------------------------------
 *   1        kind
 *   24       stamp: view, id, incarnation
 *   …        HEARTBEAT   nothing
 *            VIEW        the newest view that the sender knows (view.h), to the end
 *            GET         8 request, 4 + n key, 8 newest version that the sender knows
 *            SWAP        8 request, 4 + n key, 8 expected version, 8 lease, 4 + n value
 *            ANSWER      8 request, 4 status, 8 version, 4 + n value
 *            WATCH       as GET
 *            LEASE       8 request, 8 lease, 8 time to live in µs
 *
 * Kinds from LETTER_USER on are for those who use members; their content begins behind the stamp. */
#pragma once
#include "base/bytes.h"
#include "miniray/status.h"

enum {
    LETTER_HEARTBEAT = 1,
    LETTER_VIEW,
    LETTER_GET,
    LETTER_SWAP,
    LETTER_ANSWER,
    LETTER_WATCH,
    LETTER_LEASE,
    LETTER_USER = 64
};
enum { LETTER_HEAD_SIZE = 25, LETTER_KEY_MAX = 64, LETTER_VALUE_MAX = 128 * 1024 };
enum { LETTER_SIZE_MAX = LETTER_HEAD_SIZE + 40 + LETTER_KEY_MAX + LETTER_VALUE_MAX };

typedef struct stamp { /* who says it, in which view */
    uint64_t view, id, incarnation;
} stamp;

typedef struct letter { /* keys and values are borrowed from the bytes */
    uint8_t kind;
    stamp stamp;
    uint64_t request, version; /* version: of SWAP the expected one, of GET and WATCH the newest one known */
    uint64_t lease, ttl_us;    /* of SWAP and LEASE */
    mr_status status;
    span key, value; /* value: of VIEW and of users' kinds all that follows */
} letter;

size_t letter_size(const letter *letter);
void letter_encode(const letter *letter, writer *writer);
uint8_t *letter_write(const letter *letter, size_t *size); /* in memory of its own: the caller's */
MR_MUST mr_status letter_decode(span bytes, letter *out);  /* MR_CORRUPT */
