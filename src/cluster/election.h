/* election.h — leader election on one key of the metadata store.
 *
 * A candidate tries to write its name under an empty key with a lease of its own, which it renews.
 *
 *              begin              the key is empty: swap          a newer version exists, or the lease
 *   RUNNING ◄───────── election     ────────────────► ELECTED ──── could not be renewed in time ──────────► LOST
 *     ▲  │ another is leader: watch
 *     └──┘
 *
 * The version of the swap that elected a leader is its term. Terms only grow, so they fence the writes of a leader: a
 * deposed leader that does not know it yet has a smaller one. A leader that cannot renew for two thirds of `lease_us`
 * steps down by its own clock before the metadata store gives the key to another, unless clocks differ by more than a
 * third; safety depends on the term, never on clocks.
 *
 * A candidate is LOST, too, when it cannot learn whether its swap was decided: then it stops renewing, and the key is
 * free when the lease has ended. LOST is final; a process that wants to lead again begins another election, with
 * another lease.
 *
 * Invariants (election_check)
 *   1  Until the election is ended, each pending answer is one about the lease or one about the key.
 *   2  A candidate that was elected has a term; one without a term was never elected.
 *
 * Pure: driven by answers of the metadata store and ticks. */
#pragma once
#include "base/rng.h"
#include "cluster/metadata_store.h"

typedef enum election_phase { ELECTION_RUNNING, ELECTION_ELECTED, ELECTION_LOST } election_phase;

typedef struct election election;

/* `name` is the value of the key while this candidate leads; both texts are copied. The metadata store and the rng
 * are borrowed for the election's life. */
election *election_begin(metadata_store store, rng *rng, const char *key, const char *name, int64_t lease_us,
                         int64_t now_us);

/* Ends the election, and the lease if one was granted, without waiting for the answer. The memory is freed after the
 * last pending answer, so the metadata store must still be driven or be destroyed. */
void election_end(election *election);

election_phase election_phase_now(const election *election);
uint64_t election_term(const election *election); /* 0 unless elected */
int64_t election_next_us(const election *election);
void election_tick(election *election, int64_t now_us);
void election_check(const election *election); /* asserts the invariants above (base/invariants.h) */
