/* view.h — membership view: a numbered list of members.
 *
 * Views are decided one after the other, each number once (coordinator.h); a view that was decided never changes. A
 * member is an id (the role: it comes back after a crash), the incarnation that plays it (never used twice in a
 * cluster: a newer one is a larger number) and the address of that process. The leader is the member that has been here
 * longest, the one with the smallest incarnation: a member that comes back does not take the lead from one that stayed.
 *
 * Invariants (view_check)
 *   1  At most VIEW_MEMBERS_MAX members, sorted by id, each once.
 *   2  Every member has an incarnation and an address that can be one.
 *
 *   bytes    what
 *   -------  -----------------------------------------------------
 *   1        version of this layout, VIEW_LAYOUT
 *   8        number, from 1
 *   4        members, at most VIEW_MEMBERS_MAX; each:
 *     8        id, larger than the one before
 *     8        incarnation, from 1, unlike all others
 *     1        length of the address, 1 … VIEW_ADDRESS_MAX - 1
 *     n        the address: printable, no spaces */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"
#include "miniray/status.h"

enum {
    VIEW_LAYOUT = 1,
    VIEW_MEMBERS_MAX = 1024,
    VIEW_ADDRESS_MAX = 64, /* with its NUL */
    VIEW_BYTES_MAX = 13 + VIEW_MEMBERS_MAX * (16 + VIEW_ADDRESS_MAX),
};

typedef struct view_member {
    uint64_t id;
    uint64_t incarnation;
    char address[VIEW_ADDRESS_MAX];
} view_member;

typedef struct view { /* zero-initialized it is "no view yet": number 0, nobody */
    uint64_t number;
    size_t count, capacity;
    view_member *members; /* owned, sorted by id */
} view;

void view_fini(view *view);
void view_copy(view *to, const view *from); /* `to` is initialized; its content is replaced */
bool view_equal(const view *a, const view *b);

const view_member *view_find(const view *view, uint64_t id);          /* NULL: not in it */
bool view_holds(const view *view, uint64_t id, uint64_t incarnation); /* this very process */
const view_member *view_leader(const view *view);                     /* NULL: nobody is in it */
void view_remove(view *view, uint64_t id);                            /* no-op if it is not in */
MR_MUST mr_status view_put(view *view, uint64_t id, uint64_t incarnation, const char *address); /* adds or replaces;
    MR_TOO_LARGE: full, MR_INVALID: no such address can be */

bool view_address_valid(const char *address);
size_t view_size(const view *view); /* of its encoding */
void view_encode(const view *view, writer *writer);

/* The bytes are exactly one valid view, else MR_CORRUPT and *out is unchanged. `out` is initialized. */
MR_MUST mr_status view_decode(span bytes, view *out);

void view_check(const view *view); /* asserts the invariants above (base/invariants.h) */
