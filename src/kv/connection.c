/* connection.c — a worker's connection (miniray/ps.h): a customer that several threads drive.
 *
 * The lock of the baton guards the customer and everything below it. Whoever waits drives the loop; when somebody
 * drives already it stands in line, and is told when what it waits for is there. The helper drives while nobody waits:
 *
 *   a thread waits ──► nobody drives: it drives ── done ──► passes on to the next in line
 *                      the helper drives: it is woken, and passes on
 *   the helper ──► somebody drives, or drove HELPER_GRACE_US ago: sleeps so long
 *                  else: drives, until somebody comes
 *
 * So a program that pushes and waits again and again is not held up by the helper, and one that computes is heard of.
 */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/futex.h"
#include "base/list.h"
#include "kv/customer.h"
#include "kv/dmlc.h"
#include "kv/seats.h"
#include "miniray/ps.h"
#include "net/shm/baton.h"

#define HELPER_GRACE_US INT64_C(2000)
_Static_assert((int)MR_PS_FLOATS_MAX == (int)CUSTOMER_FLOATS_MAX, "the public limit is the internal one");

/* MR_BUSY: not yet. */
typedef mr_status asked_fn(customer *customer, uint64_t argument);

typedef struct wish { /* what a thread waits for; lives on its stack */
    list of_ps;
    baton_waiter waiter;
    asked_fn *asked;
    uint64_t argument;
    mr_status status;
    char error[ERROR_TEXT_MAX]; /* of a status that is one: another thread may have met it */
} wish;

struct mr_ps {
    customer *customer;
    loop *loop;
    baton baton;
    list wishes;
    int64_t driven_us; /* when a thread of the program drove last */
    pthread_t helper;
    bool has_helper, closing;
    _Atomic uint32_t helper_word; /* changed to wake it while it sleeps */
};

/* ---- Driving. */

/* Tells those whose wish has come true; the driver finds out by itself. */
static void grant(mr_ps *ps) {
    list_for_each (item, &ps->wishes) {
        wish *wish = container_of(item, struct wish, of_ps);
        if (wish->waiter.done) continue;
        wish->status = wish->asked(ps->customer, wish->argument);
        if (wish->status == MR_BUSY) continue;
        if (wish->status != MR_OK) snprintf(wish->error, sizeof wish->error, "%s", mr_last_error());
        baton_finish(&ps->baton, &wish->waiter);
    }
}

static void rouse(void *loop) { loop_wake(loop); }

/* One turn: what is there, and if nothing came of it, a wait for more; others get the lock in between, also while there
 * is always more. Locked; the baton is this thread's. */
static void turn(mr_ps *ps, const bool *done, int64_t until_us) {
    loop_run_once(ps->loop, 0);
    grant(ps);
    int64_t pause_us = loop_pause_us(ps->loop), left_us = until_us - loop_now_us(ps->loop);
    if (*done || left_us <= 0) return;
    if (until_us != CLOCK_NEVER_US && (pause_us < 0 || left_us < pause_us)) pause_us = left_us;
    baton_leave(&ps->baton, rouse, ps->loop);
    if (pause_us == 0)
        sched_yield();
    else
        loop_pause(ps->loop, pause_us);
    baton_return(&ps->baton);
}

static void wake_driver(mr_ps *ps) {
    if (ps->baton.away != NULL) loop_wake(ps->loop);
}

/* Locked. MR_TIMEOUT: the error is that of the last time it asked. */
static mr_status await(mr_ps *ps, asked_fn *asked, uint64_t argument, int64_t timeout_us) {
    wish wish = {.asked = asked, .argument = argument, .status = asked(ps->customer, argument)};
    if (wish.status != MR_BUSY) return wish.status;
    int64_t until_us = clock_deadline_us(loop_now_us(ps->loop), timeout_us);
    list_init(&wish.of_ps);
    baton_waiter_init(&wish.waiter);
    list_push_back(&ps->wishes, &wish.of_ps);
    wake_driver(ps);
    baton_turn what = baton_wait(&ps->baton, &wish.waiter, timeout_us);
    while (what == BATON_DRIVE && !wish.waiter.done && loop_now_us(ps->loop) < until_us)
        turn(ps, &wish.waiter.done, until_us);
    if (what == BATON_DRIVE) {
        ps->driven_us = loop_now_us(ps->loop);
        baton_pass(&ps->baton);
    }
    list_remove(&wish.of_ps);
    if (wish.waiter.done) return wish.status == MR_OK ? MR_OK : error_set(wish.status, "%s", wish.error);
    mr_status status = asked(ps->customer, argument);
    return status == MR_BUSY ? MR_TIMEOUT : status;
}

/* ---- The helper. */

static void helper_drive(mr_ps *ps) {
    bool never = false;
    baton_waiter waiter;
    baton_waiter_init(&waiter);
    if (baton_wait(&ps->baton, &waiter, 0) != BATON_DRIVE) return;
    while (list_empty(&ps->baton.line) && list_empty(&ps->wishes) && !ps->closing) turn(ps, &never, CLOCK_NEVER_US);
    baton_pass(&ps->baton);
}

static void *helper_main(void *argument) {
    mr_ps *ps = argument;
    baton_lock(&ps->baton);
    while (!ps->closing) {
        uint32_t word = atomic_load(&ps->helper_word);
        bool busy = ps->baton.driven || loop_now_us(ps->loop) - ps->driven_us < HELPER_GRACE_US;
        if (!busy) helper_drive(ps);
        if (ps->closing) break;
        baton_unlock(&ps->baton); /* for whoever has come */
        futex_wait(&ps->helper_word, word, HELPER_GRACE_US, FUTEX_WITHIN);
        baton_lock(&ps->baton);
    }
    baton_unlock(&ps->baton);
    return NULL;
}

static void end_helper(mr_ps *ps) {
    if (!ps->has_helper) return;
    baton_lock(&ps->baton);
    ps->closing = true;
    wake_driver(ps);
    baton_unlock(&ps->baton);
    atomic_fetch_add(&ps->helper_word, 1);
    futex_wake(&ps->helper_word, FUTEX_WITHIN);
    pthread_join(ps->helper, NULL);
}

/* ---- Life. */

static mr_status is_ready(customer *customer, uint64_t argument) { return customer_ready(customer); }
static mr_status is_open(customer *customer, uint64_t argument) { return customer_opened(customer); }
static mr_status is_done(customer *customer, uint64_t ticket) { return customer_done(customer, ticket); }

static mr_status late(mr_status status, uint64_t ticket) {
    if (status != MR_TIMEOUT) return status;
    return error_set(status, "request %llu is under way: servers do not answer", (unsigned long long)ticket);
}

static mr_status has_settled(customer *customer, uint64_t argument) {
    if (customer_open_count(customer) == 0) return MR_OK;
    return error_set(MR_BUSY, "%zu requests are not acknowledged", customer_open_count(customer));
}

static mr_status check_timeout(int64_t timeout_us) {
    return timeout_us < 0 ? error_set(MR_INVALID, "a timeout is not negative: nothing waits for ever") : MR_OK;
}

mr_status mr_ps_connect(const char *scheduler, int rank, int64_t timeout_us, mr_ps **out) {
    char address[DMLC_ADDRESS_MAX];
    MR_TRY(check_timeout(timeout_us));
    if (rank < MR_PS_ANY_RANK || rank >= SEATS_MAX) return error_set(MR_INVALID, "there is no rank %d", rank);
    MR_TRY(dmlc_default(&scheduler, address));
    postoffice_options options = {.scheduler = scheduler,
                                  .number = rank == MR_PS_ANY_RANK ? POSTOFFICE_ANY : (uint32_t)rank};
    mr_ps *ps = xcalloc(1, sizeof *ps);
    baton_init(&ps->baton);
    list_init(&ps->wishes);
    mr_status status = customer_open(&options, &ps->customer);
    if (status != MR_OK) goto free_ps;
    ps->loop = van_loop(customer_van(ps->customer));
    if (pthread_create(&ps->helper, NULL, helper_main, ps) != 0) {
        status = error_set(MR_NOMEM, "no thread can be started");
        goto close;
    }
    ps->has_helper = true;
    baton_lock(&ps->baton);
    status = await(ps, is_ready, 0, timeout_us);
    baton_unlock(&ps->baton);
    if (status != MR_OK) goto close;
    *out = ps;
    return MR_OK;

close:
    mr_ps_close(ps);
    return status;
free_ps:
    free(ps);
    return status;
}

void mr_ps_close(mr_ps *ps) {
    if (ps == NULL) return;
    end_helper(ps);
    customer_close(ps->customer);
    free(ps);
}

void mr_ps_info_get(mr_ps *ps, mr_ps_info *out) {
    baton_lock(&ps->baton);
    const chart *chart = customer_chart(ps->customer);
    *out = (mr_ps_info){.rank = customer_rank(ps->customer),
                        .ranks = chart->rank_count,
                        .slots = chart_value_slots(chart),
                        .servers = chart->server_count,
                        .copies = chart->copies,
                        .consistency = (mr_ps_consistency)chart->consistency.kind,
                        .staleness = chart->consistency.bound};
    baton_unlock(&ps->baton);
}

/* ---- Steps and requests. */

mr_status mr_ps_begin(mr_ps *ps, int64_t timeout_us, uint64_t *step) {
    MR_TRY(check_timeout(timeout_us));
    baton_lock(&ps->baton);
    customer_begin(ps->customer);
    mr_status status = await(ps, is_open, 0, timeout_us);
    if (status == MR_OK) *step = customer_step(ps->customer);
    baton_unlock(&ps->baton);
    return status;
}

/* Locked: what was asked for leaves soon, also if nobody waits for it. */
static mr_status asked(mr_ps *ps, mr_status status, uint64_t number, mr_ps_ticket *ticket) {
    if (status == MR_OK && ticket == NULL) {
        status = late(await(ps, is_done, number, MR_PS_TIMEOUT_US), number);
    } else if (status == MR_OK) {
        ticket->v = number;
        wake_driver(ps);
    }
    baton_unlock(&ps->baton);
    return status;
}

mr_status mr_ps_push(mr_ps *ps, uint32_t slot, const float *values, size_t count, mr_ps_ticket *ticket) {
    if (count > MR_PS_FLOATS_MAX) count = MR_PS_FLOATS_MAX + 1; /* refused below, whatever it was */
    uint64_t number = 0;
    baton_lock(&ps->baton);
    mr_status status = customer_push(ps->customer, slot, span_of(values, count * sizeof *values), &number);
    return asked(ps, status, number, ticket);
}

mr_status mr_ps_pull(mr_ps *ps, uint32_t slot, float *values, size_t count, mr_ps_ticket *ticket) {
    uint64_t number = 0;
    baton_lock(&ps->baton);
    mr_status status = customer_pull(ps->customer, slot, values, count, &number);
    return asked(ps, status, number, ticket);
}

mr_status mr_ps_wait(mr_ps *ps, mr_ps_ticket ticket, int64_t timeout_us) {
    MR_TRY(check_timeout(timeout_us));
    baton_lock(&ps->baton);
    mr_status status = late(await(ps, is_done, ticket.v, timeout_us), ticket.v);
    baton_unlock(&ps->baton);
    return status;
}

mr_status mr_ps_end(mr_ps *ps) {
    baton_lock(&ps->baton);
    mr_status status = customer_end(ps->customer);
    wake_driver(ps);
    baton_unlock(&ps->baton);
    return status;
}

mr_status mr_ps_settle(mr_ps *ps, int64_t timeout_us) {
    MR_TRY(check_timeout(timeout_us));
    baton_lock(&ps->baton);
    mr_status status = await(ps, has_settled, 0, timeout_us);
    baton_unlock(&ps->baton);
    return status;
}
