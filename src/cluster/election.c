/* election.c — see election.h.
 *
 * Two requests may be pending at a time, one about the lease and one about the key; `open` counts them. After
 * election_end the memory is freed when the last one is answered. Tested by tests/metadata_store_test.c. */
#include "cluster/election.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/clock.h"
#include "base/invariants.h"

#define RETRY_US INT64_C(50000)

struct election {
    metadata_store store;
    char *key, *name;
    uint64_t lease, term;
    int64_t lease_us;
    election_phase phase;
    bool ended;
    unsigned open;

    int64_t now_us;        /* time of the last tick */
    int64_t renewed_us;    /* send time of the last renewal that was answered; the lease runs at least from then */
    int64_t asked_us;      /* send time of the pending renewal */
    bool renewing, asking; /* answers are pending, about the lease and about the key */
    bool leased;           /* the lease was granted */
    int64_t next_renew_us, next_ask_us;
};

static void release(election *election) {
    if (!election->ended || election->open != 0) return;
    free(election->key);
    free(election->name);
    free(election);
}

election *election_begin(metadata_store store, rng *rng, const char *key, const char *name, int64_t lease_us,
                         int64_t now_us) {
    election *election =
        XNEW(struct election, .store = store, .key = xstrdup(key), .name = xstrdup(name), .lease_us = lease_us);
    do election->lease = rng_next(rng);
    while (election->lease == 0);
    election->now_us = election->next_renew_us = election->next_ask_us = now_us;
    return election;
}

static bool answered(election *election) {
    MR_ASSERT(election->open > 0);
    election->open--;
    if (!election->ended) return true;
    release(election);
    return false;
}

static void on_end(void *argument, const metadata_store_answer *answer) { (void)answered(argument); }

void election_end(election *election) {
    election->ended = true;
    if (election->leased) {
        election->open++;
        election->store.ops->lease(election->store.self, election->lease, 0, on_end, election);
    }
    release(election);
}

/* ---- The lease. */

static void on_renewed(void *argument, const metadata_store_answer *answer) {
    election *election = argument;
    if (!answered(election)) return;
    election->renewing = false;
    if (answer->status == MR_OK) {
        election->leased = true;
        election->renewed_us = election->asked_us;
        election->next_renew_us = election->asked_us + election->lease_us / 4;
    } else {
        election->next_renew_us = election->now_us + RETRY_US;
    }
}

static void renew(election *election) {
    MR_ASSERT(!election->renewing && !election->ended);
    election->renewing = true;
    election->asked_us = election->now_us;
    election->open++;
    election->store.ops->lease(election->store.self, election->lease, election->lease_us, on_renewed, election);
}

/* ---- The key. */

static void on_watched(void *argument, const metadata_store_answer *answer);

/* Requests the key's next version above `known`; with 0 the answer comes at once. */
static void ask_key(election *election, uint64_t known) {
    MR_ASSERT(!election->asking && !election->ended);
    election->asking = true;
    election->open++;
    election->store.ops->watch(election->store.self, election->key, known, on_watched, election);
}

static void on_swapped(void *argument, const metadata_store_answer *answer) {
    election *election = argument;
    if (!answered(election)) return;
    election->asking = false;
    if (answer->status == MR_OK && election->phase == ELECTION_RUNNING) {
        election->phase = ELECTION_ELECTED;
        election->term = answer->version;
        ask_key(election, election->term);
    } else if (answer->status == MR_STALE) {
        ask_key(election, 0);
    } else if (answer->status == MR_NOT_FOUND) { /* the lease ended: the renewal took too long */
        election->leased = false;
        election->next_renew_us = election->now_us;
    } else {
        election->phase = ELECTION_LOST;
    }
}

static void run(election *election, uint64_t expected) {
    election->asking = true;
    election->open++;
    election->store.ops->compare_and_swap(election->store.self, election->key, expected,
                                          span_of(election->name, strlen(election->name)), election->lease, on_swapped,
                                          election);
}

static void on_newest(election *election, const metadata_store_answer *answer) {
    if (election->phase == ELECTION_ELECTED) {
        if (answer->version > election->term)
            election->phase = ELECTION_LOST;
        else
            ask_key(election, election->term);
    } else if (answer->value.size == 0) {
        run(election, answer->version);
    } else {
        ask_key(election, answer->version);
    }
}

static void on_watched(void *argument, const metadata_store_answer *answer) {
    election *election = argument;
    if (!answered(election)) return;
    election->asking = false;
    if (election->phase == ELECTION_LOST) return;
    if (answer->status == MR_OK)
        on_newest(election, answer);
    else
        election->next_ask_us = election->now_us + RETRY_US;
}

/* ---- Time. */

election_phase election_phase_now(const election *election) { return election->phase; }
uint64_t election_term(const election *election) { return election->phase == ELECTION_ELECTED ? election->term : 0; }

static int64_t steps_down_us(const election *election) {
    return election->phase == ELECTION_ELECTED ? election->renewed_us + election->lease_us * 2 / 3 : CLOCK_NEVER_US;
}

int64_t election_next_us(const election *election) {
    if (election->phase == ELECTION_LOST) return CLOCK_NEVER_US;
    int64_t next_us = steps_down_us(election);
    if (!election->renewing && election->next_renew_us < next_us) next_us = election->next_renew_us;
    if (!election->asking && election->leased && election->next_ask_us < next_us) next_us = election->next_ask_us;
    return next_us;
}

void election_tick(election *election, int64_t now_us) {
    election->now_us = now_us;
    if (election->phase == ELECTION_LOST) return;
    if (now_us >= steps_down_us(election)) {
        election->phase = ELECTION_LOST;
        return;
    }
    if (!election->renewing && now_us >= election->next_renew_us) renew(election);
    if (!election->asking && election->leased && now_us >= election->next_ask_us) ask_key(election, election->term);
    CHECK_INVARIANTS(election->open, election_check(election));
}

void election_check(const election *election) {
    MR_ASSERT(election->ended || election->open == (unsigned)election->renewing + election->asking); /* 1 */
    MR_ASSERT(election->phase != ELECTION_ELECTED || election->term != 0);                           /* 2 */
}
