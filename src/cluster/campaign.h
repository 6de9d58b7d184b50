/* campaign.h — leader election on one key of the metadata store.
 *
 * A candidate tries to write its name under an empty key with a lease of its own, which it renews.
 *
 *              begin              the key is empty: swap          the newest version is not ours any more,
 *   RUNNING ◄───────── campaign     ────────────────► ELECTED ──── or the lease could not be renewed in time ──► LOST
 *     ▲  │ somebody is it: watch
 *     └──┘
 *
 * The version of the swap that elected it is its term. Terms only grow, so what a leader writes can be fenced by it: a
 * leader that was deposed and does not know it yet has a smaller one. A leader that cannot renew for `lease_us` steps
 * down by its own clock before the coordinator gives the key to another, unless clocks differ by more than a third;
 * safety is in the term, never in that.
 *
 * It is LOST, too, when nobody can tell it whether its swap was decided: then it stops renewing, and the key is free
 * when the lease has ended. LOST is final; a process that wants to lead again begins another campaign, with another
 * lease.
 *
 * Invariants (campaign_check)
 *   1  Each answer that is owed is one about the lease or one about the key, until it is ended.
 *   2  Who was elected has a term; who has none was never elected.
 *
 * Pure: driven by answers of the coordinator and ticks. */
#pragma once
#include "base/rng.h"
#include "cluster/coordinator.h"

typedef enum campaign_phase { CAMPAIGN_RUNNING, CAMPAIGN_ELECTED, CAMPAIGN_LOST } campaign_phase;

typedef struct campaign campaign;

/* `name` is what others see there; both texts are copied. The coordinator and the rng are borrowed for its life. */
campaign *campaign_begin(coordinator coordinator, rng *rng, const char *key, const char *name, int64_t lease_us,
                         int64_t now_us);

/* Gives the key back if it was elected, best effort. The coordinator may still owe an answer: the memory stays until it
 * has come, and the coordinator must still be driven or be destroyed. */
void campaign_end(campaign *campaign);

campaign_phase campaign_phase_now(const campaign *campaign);
uint64_t campaign_term(const campaign *campaign); /* it was elected; else 0 */
int64_t campaign_next_us(const campaign *campaign);
void campaign_tick(campaign *campaign, int64_t now_us);
void campaign_check(const campaign *campaign); /* asserts the invariants above (base/invariants.h) */
