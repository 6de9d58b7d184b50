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
 *
 * What is asked for without waiting leaves at once if nothing of its slot is under way, but not more often than every
 * LEAVE_US; else with what else gathers (chute.h). Functions that are told of the end of a request are called without
 * the lock, by whoever has found out; they must not wait, since what they would wait for may be theirs to bring about.
 * Tested by tests/ps_misuse_test.c. */
#include "kv/worker/connection.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/cpu.h"
#include "base/error.h"
#include "base/futex.h"
#include "kv/dmlc.h"
#include "kv/office/seats.h"
#include "net/shm/baton.h"

#define HELPER_GRACE_US INT64_C(2000)
#define LEAVE_US        50
static _Thread_local bool telling; /* this thread is in a function that is told of something */

typedef struct wish { /* what a thread waits for; lives on its stack */
    list of_ps;
    baton_waiter waiter;
    connection_asked_fn *asked;
    void *argument;
    mr_status status;
    char error[ERROR_TEXT_MAX]; /* of a status that is one: another thread may have met it */
} wish;

struct mr_ps {
    customer *customer;
    loop *loop;
    baton baton;
    list wishes, handles;
    int64_t driven_us;     /* when a thread of the program drove last */
    uint64_t driven_ticks; /* the same for who is in a hurry (clock_ticks), and LEAVE_US */
    uint64_t leave_ticks;
    int64_t looked_us; /* at the clock, by who drives, and has not slept since; 0: it has */
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

/* Those who are to be told of the end of a request. Locked, before and after, but not meanwhile. */
static void tell(mr_ps *ps) {
    void (*done)(void *context, mr_status status);
    void *context;
    mr_status status;
    if (!customer_tells(ps->customer)) return; /* as it is nearly always */
    while (!telling && customer_tell(ps->customer, &done, &context, &status)) {
        baton_unlock(&ps->baton);
        telling = true;
        done(context, status);
        telling = false;
        baton_lock(&ps->baton);
    }
}

/* One turn: what is there, and if nothing came of it, a wait for more; others get the lock in between, also while there
 * is always more. Locked; the baton is this thread's. False: what was waited for is there, or it is too late. */
static bool turn(mr_ps *ps, const bool *done, int64_t until_us) {
    loop_run_once(ps->loop, 0);
    grant(ps);
    tell(ps);
    if (*done) return false;
    ps->looked_us = loop_now_us(ps->loop);
    int64_t pause_us = loop_pause_us(ps->loop), left_us = until_us - ps->looked_us;
    if (left_us <= 0) return false;
    if (until_us != CLOCK_NEVER_US && (pause_us < 0 || left_us < pause_us)) pause_us = left_us;
    bool brought = false;
    baton_leave(&ps->baton, rouse, ps->loop);
    if (pause_us == 0)
        sched_yield();
    else
        brought = loop_pause(ps->loop, pause_us);
    baton_return(&ps->baton);
    if (!brought) ps->looked_us = 0;
    return true;
}

/* What the thread has asked for leaves before it looks at a clock: the server has it while this one gets ready to wait.
 * And whoever is answered while it looks has no time for a clock: when it began to look will do. until_us is
 * CLOCK_NEVER_US if it has not waited yet. */
static void drive(mr_ps *ps, const bool *done, int64_t timeout_us, int64_t until_us) {
    van_hurry(customer_van(ps->customer));
    ps->looked_us = loop_now_us(ps->loop);
    if (until_us == CLOCK_NEVER_US) until_us = clock_deadline_us(ps->looked_us, timeout_us);
    while (turn(ps, done, until_us)) continue;
    ps->driven_ticks = clock_ticks();
    ps->driven_us = ps->looked_us != 0 ? ps->looked_us : loop_now_us(ps->loop);
}

static void wake_driver(mr_ps *ps) {
    if (ps->baton.away != NULL) loop_wake(ps->loop);
}

void connection_leave(mr_ps *ps) {
    if (!customer_eager(ps->customer)) return;
    wake_driver(ps);
    if (ps->baton.driven) return;
    uint64_t now_ticks = clock_ticks();
    if (now_ticks - ps->driven_ticks < ps->leave_ticks) return;
    van_hurry(customer_van(ps->customer)); /* who is to be woken wakes up while we look for what has come */
    ps->driven_ticks = now_ticks;
    ps->driven_us = loop_now_us(ps->loop);
    loop_run_once(ps->loop, 0); /* nobody drives, so it is ours for a moment */
    grant(ps);
}

/* The error says what this process waits for; and the scheduler what everything does, if it does. */
static mr_status late(const mr_ps *ps) {
    const char *awaited = office_awaited(customer_office(ps->customer));
    char own[ERROR_TEXT_MAX];
    if (awaited[0] == '\0') return MR_TIMEOUT;
    snprintf(own, sizeof own, "%s", mr_last_error());
    return error_set(MR_TIMEOUT, "%s; %s", own, awaited);
}

mr_status connection_check_wait(void) {
    if (telling) return error_set(MR_DENIED, "a callback of a request must not wait for another request (mr_ps_wait)");
    return MR_OK;
}

/* Not inline: gcc 13 would warn of an address on the stack that is kept, for it does not see that the list lets go of
 * it before the caller returns. */
static __attribute__((noinline)) void add_wish(mr_ps *ps, wish *wish) { list_push_back(&ps->wishes, &wish->of_ps); }

mr_status connection_await(mr_ps *ps, connection_asked_fn *asked, void *argument, int64_t timeout_us) {
    mr_status first = asked(ps->customer, argument);
    if (first != MR_BUSY) return first;
    wish wish;
    wish.asked = asked;
    wish.argument = argument;
    wish.status = first;
    MR_TRY(connection_check_wait());
    baton_waiter_init(&wish.waiter);
    add_wish(ps, &wish);
    wake_driver(ps);
    int64_t until_us = CLOCK_NEVER_US;
    if (ps->baton.driven) until_us = clock_deadline_us(loop_now_us(ps->loop), timeout_us); /* it stands in line first */
    baton_turn what = baton_wait(&ps->baton, &wish.waiter, timeout_us);
    if (what == BATON_DRIVE) {
        if (!wish.waiter.done && timeout_us != 0) drive(ps, &wish.waiter.done, timeout_us, until_us);
        baton_pass(&ps->baton);
    }
    list_remove(&wish.of_ps);
    if (wish.waiter.done) return wish.status == MR_OK ? MR_OK : error_set(wish.status, "%s", wish.error);
    mr_status status = asked(ps->customer, argument);
    return status == MR_BUSY ? late(ps) : status;
}

/* ---- The helper. */

static void helper_drive(mr_ps *ps) {
    bool never = false;
    baton_waiter waiter;
    baton_waiter_init(&waiter);
    if (baton_wait(&ps->baton, &waiter, 0) != BATON_DRIVE) return;
    while (list_empty(&ps->baton.line) && list_empty(&ps->wishes) && !ps->closing)
        (void)turn(ps, &never, CLOCK_NEVER_US);
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

static mr_status is_ready(customer *customer, void *argument) { return customer_ready(customer); }
static mr_status is_open(customer *customer, void *argument) { return customer_opened(customer); }
static mr_status has_left(customer *customer, void *round) { return customer_left(customer, round); }
static mr_status is_back(customer *customer, void *argument) { return customer_handed_back(customer); }
static mr_status has_settled(customer *customer, void *argument) { return customer_settled(customer); }
mr_status connection_is_answered(customer *customer, void *ticket) {
    return notes_status(office_notes(customer_office(customer)), *(uint64_t *)ticket);
}
static mr_status is_done(customer *customer, void *ticket) { return customer_done(customer, *(uint64_t *)ticket); }

mr_status connection_wait(mr_ps *ps, uint64_t ticket, int64_t timeout_us) {
    mr_status status = connection_await(ps, is_done, &ticket, timeout_us);
    if (status == MR_TIMEOUT) status = customer_late(ps->customer, ticket);
    return status == MR_TIMEOUT ? late(ps) : status;
}

static mr_status is_admitted(customer *customer, void *pushes) { return customer_admit(customer, *(bool *)pushes); }

bool connection_admit(mr_ps *ps, bool pushes, int64_t timeout_us, mr_status *status) {
    *status = connection_await(ps, is_admitted, &pushes, timeout_us);
    return *status == MR_OK;
}

void connection_lock(mr_ps *ps) { baton_lock(&ps->baton); }
void connection_unlock(mr_ps *ps) {
    tell(ps);
    baton_unlock(&ps->baton);
}
customer *connection_customer(mr_ps *ps) { return ps->customer; }
list *connection_handles(mr_ps *ps) { return &ps->handles; }

mr_status mr_ps_connect(const char *scheduler, int rank, int64_t timeout_us, mr_ps **out) {
    char address[DMLC_ADDRESS_MAX];
    if (rank < MR_PS_ANY_RANK || rank >= SEATS_MAX) return error_set(MR_INVALID, "rank %d is out of range", rank);
    MR_TRY(dmlc_default(&scheduler, address));
    postoffice_options options = {.scheduler = scheduler,
                                  .number = rank == MR_PS_ANY_RANK ? POSTOFFICE_ANY : (uint32_t)rank};
    mr_ps *ps = xcalloc(1, sizeof *ps);
    baton_init(&ps->baton);
    baton_own(&ps->baton, cpu_thread()); /* who connects is who asks most */
    ps->leave_ticks = (uint64_t)(LEAVE_US * clock_ticks_per_us());
    list_init(&ps->wishes);
    list_init(&ps->handles);
    mr_status status = customer_open(&options, &ps->customer);
    if (status != MR_OK) goto free_ps;
    ps->loop = van_loop(customer_van(ps->customer));
    if (pthread_create(&ps->helper, NULL, helper_main, ps) != 0) {
        status = error_set(MR_NOMEM, "mr_ps_connect: cannot start a thread");
        goto close;
    }
    ps->has_helper = true;
    baton_lock(&ps->baton);
    status = connection_await(ps, is_ready, NULL, timeout_us);
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
    for (list *item; (item = list_pop_front(&ps->handles)) != NULL;)
        container_of(item, connection_handle, link)->ps = NULL;
    customer_close(ps->customer);
    free(ps);
}

mr_ps_info connection_info(const chart *chart, uint32_t rank) {
    return (mr_ps_info){.rank = rank,
                        .ranks = chart->rank_count,
                        .slots = chart_table_slots(chart),
                        .servers = chart->server_count,
                        .replicas = chart->copies,
                        .consistency = (mr_ps_consistency)chart->consistency.kind,
                        .staleness = chart->consistency.bound,
                        .mixed_consistency = chart->mixed,
                        .backup_workers = chart->rounds.backup,
                        .deadline_us = chart->rounds.deadline_us};
}

void mr_ps_info_get(mr_ps *ps, mr_ps_info *out) {
    baton_lock(&ps->baton);
    *out = connection_info(customer_chart(ps->customer), customer_rank(ps->customer));
    baton_unlock(&ps->baton);
}

mr_status mr_ps_set_state_dir(mr_ps *ps, const char *folder) {
    struct stat facts;
    if (folder != NULL && (stat(folder, &facts) != 0 || !S_ISDIR(facts.st_mode)))
        return error_set(MR_INVALID, "'%s' is not a directory", folder);
    baton_lock(&ps->baton);
    mr_status status = customer_keep(ps->customer, folder);
    baton_unlock(&ps->baton);
    return status;
}

void mr_ps_push_stats_get(mr_ps *ps, mr_ps_push_stats *out) {
    baton_lock(&ps->baton);
    const coder *coder = customer_coder(ps->customer);
    memoir_look state = memoir_look_at(coder->memoir);
    *out = (mr_ps_push_stats){.push_bytes = coder->traffic.plain_bytes,
                              .push_bytes_sent = coder->traffic.sent_bytes,
                              .pushes = coder->traffic.sections,
                              .encoded = coder->traffic.encoded,
                              .pull_bytes = coder->traffic.asked_plain_bytes,
                              .pull_bytes_sent = coder->traffic.asked_bytes,
                              .pulls_repeated = coder->traffic.forgotten,
                              .feedback_bytes = state.bytes,
                              .feedback_forgotten = state.forgotten,
                              .feedback_lost = state.begun_empty};
    baton_unlock(&ps->baton);
}

/* ---- Steps and requests. */

mr_status mr_ps_begin(mr_ps *ps, int64_t timeout_us, uint64_t *step) {
    baton_lock(&ps->baton);
    customer_begin(ps->customer);
    mr_status status = connection_await(ps, is_open, NULL, timeout_us);
    if (status == MR_OK) *step = customer_step(ps->customer);
    connection_unlock(ps);
    return status;
}

mr_status mr_ps_wait(mr_ps *ps, mr_ps_ticket ticket, int64_t timeout_us) {
    baton_lock(&ps->baton);
    mr_status status = connection_wait(ps, ticket.v, timeout_us);
    connection_unlock(ps);
    return status;
}

mr_status mr_ps_end(mr_ps *ps) {
    baton_lock(&ps->baton);
    mr_status status = customer_end(ps->customer);
    connection_leave(ps);
    connection_unlock(ps);
    return status;
}

static int64_t left_us(const mr_ps *ps, int64_t until_us) {
    int64_t now_us = loop_now_us(ps->loop);
    return until_us > now_us ? until_us - now_us : 0;
}

static mr_status may_end(customer *customer, void *round) {
    return customer_step(customer) >= *(uint64_t *)round ? MR_OK : customer_opened(customer);
}

/* Rounds that have it, for nobody knew, get nothing of it. */
static mr_status leave(mr_ps *ps, int64_t until_us) {
    uint64_t round;
    MR_TRY(customer_leave(ps->customer));
    customer_hand_back(ps->customer);
    MR_TRY(connection_await(ps, has_left, &round, left_us(ps, until_us)));
    while (customer_step(ps->customer) < round) {
        customer_begin(ps->customer);
        MR_TRY(connection_await(ps, may_end, &round, left_us(ps, until_us)));
        if (customer_step(ps->customer) < round) MR_TRY(customer_end(ps->customer));
    }
    MR_TRY(connection_await(ps, is_back, NULL, left_us(ps, until_us)));
    return connection_await(ps, has_settled, NULL, left_us(ps, until_us));
}

mr_status mr_ps_leave(mr_ps *ps, int64_t timeout_us) {
    baton_lock(&ps->baton);
    mr_status status = leave(ps, clock_deadline_us(loop_now_us(ps->loop), timeout_us));
    connection_unlock(ps);
    return status;
}

mr_status mr_ps_flush(mr_ps *ps, int64_t timeout_us) {
    baton_lock(&ps->baton);
    mr_status status = connection_await(ps, has_settled, NULL, timeout_us);
    connection_unlock(ps);
    return status;
}
