/* member.h — cluster membership: heartbeats, suspicion, views, fencing.
 *
 *              takes an incarnation, then a place in the next view          the newest view has this id with a
 *                    (two compare-and-swaps)                                       newer incarnation
 *   ENTERING ──────────────────────────────────────────► IN ──────────────────────────────────────────► REPLACED
 *      ▲                                                 │                                                  ▲
 *      └──── the newest view is without this member ─────┘                                                  │
 *      └──── it is entering, and the newest view has this id with a newer incarnation ──────────────────────┘
 *
 * Views     Kept by the coordinator under MEMBER_VIEW_KEY; the version is the number of the view. A member adopts
 *           whatever is newer than what it has, from the coordinator or from another member, and never anything else.
 *           A version without a value is a view without members: a coordinator that has forgotten its decisions begins
 *           so, above every number that is known, and everybody enters again (coordinator.h).
 * Leaving   A member that the detector suspects is left out of the next view, proposed by whoever notices. Who is left
 *           out by mistake learns it from anyone it writes to (or from the coordinator, which it asks now and then),
 *           stops acting at once, and enters again with a new incarnation. That is all that a false suspicion costs.
 * Fencing   Everything a member says carries a stamp: view, id, incarnation. member_admit says whether it may be acted
 *           upon: only if it comes from a process that is in the very view this member is in. A stale sender is refused
 *           and sent the newer view; a sender that is ahead is refused until this member has caught up with it. So once
 *           a member has entered view n, nothing that was said in an earlier view has any effect on it: no clock, no
 *           lease, no waiting.
 * Bound     With the coordinator there and letters that arrive, a member that stops is out of the newest view at most
 *           suspect_us + 3 heartbeat_us later, and all others have entered that view one heartbeat_us after that.
 *
 * Invariants (member_check)
 *   1  At most one request to the coordinator is open.
 *   2  The number of the view only grows, and the view is sound (view.h).
 *   3  A member that is IN has an incarnation, the view has it with that, and the detector watches all others in it.
 *   4  A member that is not IN watches nobody; one that was REPLACED has no incarnation.
 *
 * Pure: driven by letters, answers of the coordinator and ticks. Each member writes to every other one, n² letters per
 * heartbeat_us in all: meant for the processes of a cluster that are tens or hundreds.
 *
 * Incarnations are compared within a generation of the coordinator only: across a loss nobody knows who came later.
 * REPLACED is final: two processes that play one id would throw each other out for ever. */
#pragma once
#include "cluster/coordinator.h"
#include "cluster/letter.h"
#include "cluster/mail.h"
#include "cluster/view.h"

#define MEMBER_VIEW_KEY        "view"
#define MEMBER_INCARNATION_KEY "incarnation" /* its version is the last incarnation that was given */

typedef struct member_options {
    uint64_t id;
    const char *address;                       /* where others reach this process; copied */
    int64_t heartbeat_us, suspect_us, poll_us; /* 0: 100 ms, 500 ms, 1 s (how often the coordinator is asked) */
} member_options;

typedef enum member_phase { MEMBER_ENTERING, MEMBER_IN, MEMBER_REPLACED } member_phase;

typedef struct member_events { /* called when what they say is already so; they may not destroy the member */
    void (*on_incarnation)(void *context, uint64_t incarnation); /* it was given this one; may be NULL */
    void (*on_view)(void *context, const view *view);            /* it has entered this view, which it may not be in */
    void (*on_phase)(void *context, member_phase phase);         /* may be NULL */
} member_events;

typedef struct member member;

/* Everything is borrowed for its life. */
member *member_create(const env *env, coordinator coordinator, mail *mail, const member_options *options,
                      const member_events *events, void *context);
void member_destroy(member *member); /* says nothing to others; the coordinator owes it no answer any more */

bool member_take(member *member, link_id link, const letter *letter); /* true: it was a member's, and is dealt with */
void member_broken(member *member, const char *address);              /* for mail_handlers.on_broken */
int64_t member_next_us(const member *member);
void member_tick(member *member, int64_t now_us);

member_phase member_phase_now(const member *member);
const view *member_view(const member *member);     /* the newest it knows; borrowed until it is driven again */
uint64_t member_incarnation(const member *member); /* 0: none at present */
bool member_leads(const member *member);           /* it is IN, and the leader of its view */
stamp member_stamp(const member *member);          /* for what it says; it is IN */

/* May what bears this stamp be acted upon?
 *   MR_OK      yes
 *   MR_STALE   never: the sender is in an older view, or not in it; it is sent the newer view over `link`
 *   MR_BUSY    not yet: this member is behind, and asks
 *   MR_CLOSED  this member is not IN */
MR_MUST mr_status member_admit(member *member, link_id link, const stamp *stamp);

void member_check(const member *member); /* asserts the invariants above (base/invariants.h) */
