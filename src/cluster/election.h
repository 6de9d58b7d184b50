/* election.h — leader election on one key of the metadata store.
 *
 * A candidate tries to write its name under an empty key with a lease of its own, which it renews.
 *
 *              begin              the key is empty: swap          the newest version is not ours any more,
 *   RUNNING ◄───────── election     ────────────────► ELECTED ──── or the lease could not be renewed in time ──► LOST
 *     ▲  │ another is leader: watch
 *     └──┘
 *
 * The version of the swap that elected it is its term. Terms only grow, so they fence the writes of a leader: a
 * leader that was deposed and does not know it yet has a smaller one. A leader that cannot renew for `lease_us` steps
 * down by its own clock before the metadata store gives the key to another, unless clocks differ by more than a third;
 * safety is in the term, never in that.
 *
 * A candidate is LOST, too, when it cannot learn whether its swap was decided: then it stops renewing, and the key is
 * free when the lease has ended. LOST is final; a process that wants to lead again begins another election, with
 * another lease.
 *
 * Invariants (election_check)
 *   1  Each answer that is owed is one about the lease or one about the key, until it is ended.
 *   2  A candidate that was elected has a term; one without a term was never elected.
 *
 * Pure: driven by answers of the metadata store and ticks. */
#pragma once
#include "base/rng.h"
#include "cluster/metadata_store.h"

typedef enum election_phase { ELECTION_RUNNING, ELECTION_ELECTED, ELECTION_LOST } election_phase;

typedef struct election election;

/* `name` is the value that others see there; both texts are copied. The metadata store and the rng are borrowed for its
 * life. */
election *election_begin(metadata_store store, rng *rng, const char *key, const char *name, int64_t lease_us,
                         int64_t now_us);

/* Gives the key back if it was elected, best effort. The metadata store may still owe an answer: the memory stays until
 * it has come, and the metadata store must still be driven or be destroyed. */
void election_end(election *election);

election_phase election_phase_now(const election *election);
uint64_t election_term(const election *election); /* it was elected; else 0 */
int64_t election_next_us(const election *election);
void election_tick(election *election, int64_t now_us);
void election_check(const election *election); /* asserts the invariants above (base/invariants.h) */
