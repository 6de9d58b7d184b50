/* campaign.c — see campaign.h.
 *
 * Two questions may be open at a time, one about the lease and one about the key; `open` counts them, and memory goes
 * when it is ended and the last has been answered. Tested by tests/coordinator_test.c. */
#include "cluster/campaign.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/clock.h"
#include "base/invariants.h"

#define RETRY_US INT64_C(50000)

struct campaign {
    coordinator coordinator;
    char *key, *name;
    uint64_t lease, term;
    int64_t lease_us;
    campaign_phase phase;
    bool ended;
    unsigned open;

    int64_t now_us;        /* of the last tick */
    int64_t renewed_us;    /* when the question that was answered last was asked; the lease runs at least from there */
    int64_t asked_us;      /* when the open one was */
    bool renewing, asking; /* an answer is owed */
    bool leased;           /* the lease has begun */
    int64_t next_renew_us, next_ask_us;
};

static void release(campaign *campaign) {
    if (!campaign->ended || campaign->open != 0) return;
    free(campaign->key);
    free(campaign->name);
    free(campaign);
}

campaign *campaign_begin(coordinator coordinator, rng *rng, const char *key, const char *name, int64_t lease_us,
                         int64_t now_us) {
    campaign *campaign = xcalloc(1, sizeof *campaign);
    campaign->coordinator = coordinator;
    campaign->key = xstrdup(key);
    campaign->name = xstrdup(name);
    campaign->lease_us = lease_us;
    do campaign->lease = rng_next(rng);
    while (campaign->lease == 0);
    campaign->now_us = campaign->next_renew_us = campaign->next_ask_us = now_us;
    return campaign;
}

static bool answered(campaign *campaign) {
    MR_ASSERT(campaign->open > 0);
    campaign->open--;
    if (!campaign->ended) return true;
    release(campaign);
    return false;
}

static void on_end(void *argument, const coordinator_answer *answer) { (void)answered(argument); }

void campaign_end(campaign *campaign) {
    campaign->ended = true;
    if (campaign->leased) {
        campaign->open++;
        campaign->coordinator.ops->lease(campaign->coordinator.self, campaign->lease, 0, on_end, campaign);
    }
    release(campaign);
}

/* ---- The lease. */

static void on_renewed(void *argument, const coordinator_answer *answer) {
    campaign *campaign = argument;
    if (!answered(campaign)) return;
    campaign->renewing = false;
    if (answer->status == MR_OK) {
        campaign->leased = true;
        campaign->renewed_us = campaign->asked_us;
        campaign->next_renew_us = campaign->asked_us + campaign->lease_us / 4;
    } else {
        campaign->next_renew_us = campaign->now_us + RETRY_US;
    }
}

static void renew(campaign *campaign) {
    MR_ASSERT(!campaign->renewing && !campaign->ended);
    campaign->renewing = true;
    campaign->asked_us = campaign->now_us;
    campaign->open++;
    campaign->coordinator.ops->lease(campaign->coordinator.self, campaign->lease, campaign->lease_us, on_renewed,
                                     campaign);
}

/* ---- The key. */

static void on_watched(void *argument, const coordinator_answer *answer);

/* Answered at once where `known` is 0: every version is larger. */
static void ask_key(campaign *campaign, uint64_t known) {
    MR_ASSERT(!campaign->asking && !campaign->ended);
    campaign->asking = true;
    campaign->open++;
    campaign->coordinator.ops->watch(campaign->coordinator.self, campaign->key, known, on_watched, campaign);
}

static void ask_later(campaign *campaign) { campaign->next_ask_us = campaign->now_us + RETRY_US; }

static void on_swapped(void *argument, const coordinator_answer *answer) {
    campaign *campaign = argument;
    if (!answered(campaign)) return;
    campaign->asking = false;
    if (answer->status == MR_OK && campaign->phase == CAMPAIGN_RUNNING) {
        campaign->phase = CAMPAIGN_ELECTED;
        campaign->term = answer->version;
        ask_key(campaign, campaign->term);
    } else if (answer->status == MR_STALE) {
        ask_key(campaign, 0);
    } else if (answer->status == MR_NOT_FOUND) { /* the lease: it took too long */
        campaign->leased = false;
        campaign->next_renew_us = campaign->now_us;
    } else {
        campaign->phase = CAMPAIGN_LOST;
    }
}

static void run(campaign *campaign, uint64_t expected) {
    campaign->asking = true;
    campaign->open++;
    campaign->coordinator.ops->compare_and_swap(campaign->coordinator.self, campaign->key, expected,
                                                span_of(campaign->name, strlen(campaign->name)), campaign->lease,
                                                on_swapped, campaign);
}

static void on_newest(campaign *campaign, const coordinator_answer *answer) {
    if (campaign->phase == CAMPAIGN_ELECTED) {
        if (answer->version > campaign->term)
            campaign->phase = CAMPAIGN_LOST;
        else
            ask_key(campaign, campaign->term);
    } else if (answer->value.size == 0) {
        run(campaign, answer->version);
    } else {
        ask_key(campaign, answer->version);
    }
}

static void on_watched(void *argument, const coordinator_answer *answer) {
    campaign *campaign = argument;
    if (!answered(campaign)) return;
    campaign->asking = false;
    if (campaign->phase == CAMPAIGN_LOST) return;
    if (answer->status == MR_OK)
        on_newest(campaign, answer);
    else
        ask_later(campaign);
}

/* ---- Time. */

campaign_phase campaign_phase_now(const campaign *campaign) { return campaign->phase; }
uint64_t campaign_term(const campaign *campaign) { return campaign->phase == CAMPAIGN_ELECTED ? campaign->term : 0; }

static int64_t steps_down_us(const campaign *campaign) {
    return campaign->phase == CAMPAIGN_ELECTED ? campaign->renewed_us + campaign->lease_us * 2 / 3 : CLOCK_NEVER_US;
}

int64_t campaign_next_us(const campaign *campaign) {
    if (campaign->phase == CAMPAIGN_LOST) return CLOCK_NEVER_US;
    int64_t next_us = steps_down_us(campaign);
    if (!campaign->renewing && campaign->next_renew_us < next_us) next_us = campaign->next_renew_us;
    if (!campaign->asking && campaign->leased && campaign->next_ask_us < next_us) next_us = campaign->next_ask_us;
    return next_us;
}

void campaign_tick(campaign *campaign, int64_t now_us) {
    campaign->now_us = now_us;
    if (campaign->phase == CAMPAIGN_LOST) return;
    if (now_us >= steps_down_us(campaign)) {
        campaign->phase = CAMPAIGN_LOST;
        return;
    }
    if (!campaign->renewing && now_us >= campaign->next_renew_us) renew(campaign);
    if (!campaign->asking && campaign->leased && now_us >= campaign->next_ask_us) ask_key(campaign, campaign->term);
    CHECK_INVARIANTS(campaign->open, campaign_check(campaign));
}

void campaign_check(const campaign *campaign) {
    MR_ASSERT(campaign->ended || campaign->open == (unsigned)campaign->renewing + campaign->asking); /* 1 */
    MR_ASSERT(campaign->phase != CAMPAIGN_ELECTED || campaign->term != 0);                           /* 2 */
}
