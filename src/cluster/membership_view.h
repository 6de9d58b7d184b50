/* membership_view.h — membership view: a numbered list of members.
 *
 * Views are decided one after the other, each number once (metadata_store.h); a view that was decided never changes. A
 * member is an id (the role, which outlives a crash), the incarnation that holds it (never used twice in a cluster: a
 * newer one is a larger number) and the address of that process. The leader is the oldest member, the one with the
 * smallest incarnation: a member that returns does not take the lead from one that stayed.
 *
 * Invariants (membership_view_check)
 *  1  At most MEMBERSHIP_VIEW_MEMBERS_MAX members, sorted by id, each once.
 *   2  Every member has an incarnation and a valid address.
 *
 *   bytes    what
 *   -------  -----------------------------------------------------
 *   1  version of this layout, MEMBERSHIP_VIEW_LAYOUT
 *   8        number, from 1
 *   4  members, at most MEMBERSHIP_VIEW_MEMBERS_MAX; each:
 *     8        id, larger than the one before
 *     8        incarnation, from 1, unlike all others
 *     1  length of the address, 1 … MEMBERSHIP_VIEW_ADDRESS_MAX - 1
 *     n        the address: printable, no spaces */
#pragma once
#include "base/bytes.h"
#include "miniray/status.h"

enum {
    MEMBERSHIP_VIEW_LAYOUT = 1,
    MEMBERSHIP_VIEW_MEMBERS_MAX = 1024,
    MEMBERSHIP_VIEW_ADDRESS_MAX = 64, /* bytes, NUL included */
    MEMBERSHIP_VIEW_BYTES_MAX = 13 + MEMBERSHIP_VIEW_MEMBERS_MAX * (16 + MEMBERSHIP_VIEW_ADDRESS_MAX),
};

typedef struct membership_view_member {
    uint64_t id;
    uint64_t incarnation;
    char address[MEMBERSHIP_VIEW_ADDRESS_MAX];
} membership_view_member;

typedef struct membership_view { /* a zero-initialized view means "none yet": number 0, no members */
    uint64_t number;
    size_t count, capacity;
    membership_view_member *members; /* owned, sorted by id */
} membership_view;

void membership_view_fini(membership_view *view);
/* `to` is initialized; its content is replaced */
void membership_view_copy(membership_view *to, const membership_view *from);
bool membership_view_equal(const membership_view *a, const membership_view *b);

/* NULL: not a member */
const membership_view_member *membership_view_find(const membership_view *view, uint64_t id);
/* whether the member has this incarnation */
bool membership_view_holds(const membership_view *view, uint64_t id, uint64_t incarnation);
/* NULL: no members */
const membership_view_member *membership_view_leader(const membership_view *view);
void membership_view_remove(membership_view *view, uint64_t id); /* no-op if it is not a member */
/* adds or replaces a member; MR_TOO_LARGE: the view is full, MR_INVALID: malformed address */
MR_MUST mr_status membership_view_put(membership_view *view, uint64_t id, uint64_t incarnation, const char *address);

bool membership_view_address_valid(const char *address);
size_t membership_view_size(const membership_view *view); /* size of the encoding */
void membership_view_encode(const membership_view *view, writer *writer);
uint8_t *membership_view_write(const membership_view *view, size_t *size); /* free with free() */

/* Decodes bytes that are exactly one valid view. MR_CORRUPT: malformed, and *out, which is initialized, is
 * unchanged. */
MR_MUST mr_status membership_view_decode(span bytes, membership_view *out);

void membership_view_check(const membership_view *view); /* asserts the invariants above (base/invariants.h) */
