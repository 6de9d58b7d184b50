/* membership.h — cluster membership: heartbeats, suspicion, views, fencing.
 *
 *              takes an incarnation, then a place in the next view          the newest view has this id with a
 *                    (two compare-and-swaps)                                       newer incarnation
 *   ENTERING ──────────────────────────────────────────► IN ──────────────────────────────────────────► REPLACED
 *      ▲                                                 │                                                  ▲
 *      └──── the newest view is without this member ─────┘                                                  │
 *      └──── it is entering, and the newest view has this id with a newer incarnation ──────────────────────┘
 *
 * Views     Kept by the metadata store under MEMBERSHIP_VIEW_KEY; the version is the number of the view. A member
 *           adopts every view that is newer than its own, from the metadata store or from another member, and no
 *           other. A version without a value is a view without members: a metadata store that has lost its decisions
 *           begins with one, above every known number, and every member enters again (metadata_store.h).
 * Leaving   A member that the detector suspects is left out of the next view, proposed by the member that notices. A
 *           member that is removed by mistake learns that from any member it writes to (or from the metadata store,
 *           which it polls), stops acting at once, and enters again with a new incarnation. A false suspicion costs no
 *           more.
 * Fencing   Every message of a member carries a stamp: view, id, incarnation. membership_admit decides whether the
 *           message may be acted upon: only if the sender is in the same view as this member. A sender with an older
 *           view is refused and sent the newer view; a sender with a newer view is refused until this member has that
 *           view. So once a member has entered view n, no message of an earlier view has any effect on it: no clock,
 *           no lease, no waiting.
 * Bound     With a reachable metadata store and control messages that arrive, a member that stops is out of the newest
 *           view at most suspect_us + 3 heartbeat_us later, and all others have entered that view one heartbeat_us
 *           after that.
 *
 * Invariants (membership_check)
 *  1  At most one request to the metadata store is open.
 *   2  The number of the view only grows, and the view is sound (membership_view.h).
 *   3  A member that is IN has an incarnation, the view has it with that, and the detector watches all others in it.
 *   4  A member that is not IN watches no other; one that was REPLACED has no incarnation.
 *
 * Pure: driven by control messages, answers of the metadata store and ticks. Each member writes to every other one, n²
 * control messages per heartbeat_us in all: suitable for tens or hundreds of processes.
 *
 * Incarnations are compared within a generation of the metadata store only: across a loss their order is unknown.
 * REPLACED is final: otherwise two processes with one id would remove each other without end. */
#pragma once
#include "cluster/control_message.h"
#include "cluster/membership_view.h"
#include "cluster/messenger.h"
#include "cluster/metadata_store.h"

#define MEMBERSHIP_VIEW_KEY        "view"
#define MEMBERSHIP_INCARNATION_KEY "incarnation" /* its version is the last incarnation that was given */

typedef struct membership_options {
    uint64_t id;
    const char *address; /* address of this process for others; copied */
    /* 0: 100 ms, 500 ms, 1 s; poll_us: interval of requests to the metadata store */
    int64_t heartbeat_us, suspect_us, poll_us;
} membership_options;

typedef enum membership_phase { MEMBERSHIP_ENTERING, MEMBERSHIP_IN, MEMBERSHIP_REPLACED } membership_phase;

typedef struct membership_events { /* called after the change; they may not destroy the membership */
    void (*on_incarnation)(void *context, uint64_t incarnation); /* this member got an incarnation; may be NULL */
    /* the newest view changed; this member may not be in it */
    void (*on_view)(void *context, const membership_view *view);
    void (*on_phase)(void *context, membership_phase phase); /* may be NULL */
} membership_events;

typedef struct membership membership;

/* All arguments are borrowed for the membership's life. */
membership *membership_create(const env *env, metadata_store store, messenger *messenger,
                              const membership_options *options, const membership_events *events, void *context);
/* sends nothing; the caller ensures that no answer of the metadata store is pending */
void membership_destroy(membership *membership);

/* true: the message was for the membership, and is handled */
bool membership_take(membership *membership, link_id link, const control_message *message);
void membership_broken(membership *membership, const char *address); /* for messenger_handlers.on_broken */
int64_t membership_next_us(const membership *membership);
void membership_tick(membership *membership, int64_t now_us);

membership_phase membership_phase_now(const membership *membership);
/* the newest known view; borrowed until the next call */
const membership_view *membership_current(const membership *membership);
uint64_t membership_incarnation(const membership *membership); /* 0: none at present */
bool membership_leads(const membership *membership);  /* whether this member is IN, and the leader of its view */
stamp membership_stamp(const membership *membership); /* stamp for the member's messages; it is IN */

/* Whether a message with this stamp may be acted upon.
 *   MR_OK      yes
 *   MR_STALE   never: the sender is in an older view, or not in it; it is sent the newer view over `link`
 *   MR_BUSY    not yet: this member's view is older, and it requests the newer one
 *   MR_CLOSED  this member is not IN */
MR_MUST mr_status membership_admit(membership *membership, link_id link, const stamp *stamp);

void membership_check(const membership *membership); /* asserts the invariants above (base/invariants.h) */
