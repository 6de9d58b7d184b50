/* ps_connection.c — a worker's connection (miniray/ps.h): a kv_worker that several threads drive.
 *
 * The lock of the poller guards the kv_worker and everything below it. A waiting thread drives the loop; if another
 * thread drives already, the waiting thread queues, and is woken when its condition holds. The helper drives while no
 * thread waits:
 *
 *   a thread waits ──► no thread drives: it drives ── done ──► passes on to the next in the queue
 *                      the helper drives: it is woken, and passes on
 *   the helper ──► a thread drives, or drove less than HELPER_GRACE_US ago: sleeps
 *                  else: drives, until a thread waits
 *
 * So a program that pushes and waits in a loop is not delayed by the helper, and one that computes is still served.
 *
 * A request without a wait is sent at once if nothing of its slot is under way, but not more often than every LEAVE_US;
 * else with the other gathered requests (slot_queue.h). Completion callbacks are called without the lock, by the thread
 * that has noticed the completion; they must not wait, since that thread may be the one that would end the wait.
 * Tested by tests/ps_misuse_test.c. */
#include "kv/client/ps_connection.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/cpu.h"
#include "base/error.h"
#include "base/futex.h"
#include "kv/client/request_cause.h"
#include "kv/client/ticket.h"
#include "kv/control/id_allocator.h"
#include "kv/dmlc_env.h"
#include "miniray/admin.h"
#include "net/shm/poller.h"
#include "net/socket/supervisor.h"

#define HELPER_GRACE_US INT64_C(2000)
#define LEAVE_US        50
#define SLICE_US        INT64_C(1000000) /* a wait up to this long may be a slice of a longer one */
#define SEARCH_US       INT64_C(100000)  /* longest search for the cause of a timeout */
static _Thread_local bool telling;       /* this thread is in a callback */

typedef struct wish { /* condition of a waiting thread, on its stack */
    list of_ps;
    poller_waiter waiter;
    ps_connection_asked_fn *asked;
    void *argument;
    mr_status status;
    char error[ERROR_TEXT_MAX]; /* text of an error status; another thread may have evaluated the condition */
} wish;

struct mr_ps {
    kv_worker *worker;
    event_loop *loop;
    supervisor_watch *supervisor;
    poller poller;
    list wishes, handles;
    ps_connection_needs needs; /* of the last wait that timed out */
    int64_t driven_us;         /* last time at which a program thread drove */
    uint64_t driven_ticks;     /* same in clock_ticks, for frequent callers; LEAVE_US in clock_ticks */
    uint64_t leave_ticks;
    int64_t looked_us; /* time read by the driving thread, which has not slept since; 0: it has */
    pthread_t helper;
    bool has_helper, closing, is_ready;
    _Atomic uint32_t helper_word; /* changed to wake the helper while it sleeps */
};

/* ---- Driving. */

/* MR_PEER_DIED: the deployment has ended, and the error says how: by a stop, rather than by the end of its
 * supervisor. */
static mr_status check_end(const mr_ps *ps) {
    MR_TRY(kv_worker_check_end(ps->worker));
    return supervisor_watch_check(ps->supervisor);
}

/* Evaluates a condition. While the deployment has ended, one that does not hold cannot hold soon: MR_PEER_DIED. */
static mr_status ask(const mr_ps *ps, ps_connection_asked_fn *asked, void *argument) {
    mr_status status = asked(ps->worker, argument);
    if (status == MR_BUSY) MR_TRY(check_end(ps));
    return status;
}

/* Wakes the threads whose condition holds; the driving thread checks its own condition. */
static void grant(mr_ps *ps) {
    list_for_each (item, &ps->wishes) {
        wish *wish = container_of(item, struct wish, of_ps);
        if (wish->waiter.done) continue;
        wish->status = ask(ps, wish->asked, wish->argument);
        if (wish->status == MR_BUSY) continue;
        if (wish->status != MR_OK) snprintf(wish->error, sizeof wish->error, "%s", mr_last_error());
        poller_finish(&ps->poller, &wish->waiter);
    }
}

static void rouse(void *loop) { event_loop_wake(loop); }

/* Calls completion callbacks. The lock is held before and after, but not during the calls. */
static void tell(mr_ps *ps) {
    void (*done)(void *context, mr_status status);
    void *context;
    mr_status status;
    if (!kv_worker_tells(ps->worker)) return; /* the usual case */
    while (!telling && kv_worker_tell(ps->worker, &done, &context, &status)) {
        poller_unlock(&ps->poller);
        telling = true;
        done(context, status);
        telling = false;
        poller_lock(&ps->poller);
    }
}

/* One iteration: handles events, and if none changed the condition, waits. Other threads get the lock in between, also
 * under constant load. The lock is held, and this thread has the poller. False: the condition holds, or the time is
 * over. */
static bool turn(mr_ps *ps, const bool *done, int64_t until_us) {
    event_loop_run_once(ps->loop, 0);
    grant(ps);
    if (check_end(ps) != MR_OK) kv_worker_fail_callbacks(ps->worker, MR_PEER_DIED);
    tell(ps);
    if (*done) return false;
    ps->looked_us = event_loop_now_us(ps->loop);
    int64_t pause_us = event_loop_pause_us(ps->loop), left_us = until_us - ps->looked_us;
    if (left_us <= 0) return false;
    if (until_us != CLOCK_NEVER_US && (pause_us < 0 || left_us < pause_us)) pause_us = left_us;
    bool brought = false;
    poller_leave(&ps->poller, rouse, ps->loop);
    if (pause_us == 0)
        sched_yield();
    else
        brought = event_loop_pause(ps->loop, pause_us);
    poller_return(&ps->poller);
    if (!brought) ps->looked_us = 0;
    return true;
}

/* Sends the thread's requests before it reads a clock, so that the server works while this thread prepares to wait. A
 * thread that is answered while it spins reads no clock: the start of its spinning is used. until_us is CLOCK_NEVER_US
 * if the thread has not waited yet. */
static void drive(mr_ps *ps, const bool *done, int64_t timeout_us, int64_t until_us) {
    van_hurry(kv_worker_van(ps->worker));
    ps->looked_us = event_loop_now_us(ps->loop);
    if (until_us == CLOCK_NEVER_US) until_us = clock_deadline_us(ps->looked_us, timeout_us);
    while (turn(ps, done, until_us)) continue;
    ps->driven_ticks = clock_ticks();
    ps->driven_us = ps->looked_us != 0 ? ps->looked_us : event_loop_now_us(ps->loop);
}

static void wake_driver(mr_ps *ps) {
    if (ps->poller.away != NULL) event_loop_wake(ps->loop);
}

void ps_connection_leave(mr_ps *ps) {
    if (!kv_worker_eager(ps->worker)) return;
    wake_driver(ps);
    if (ps->poller.driven) return;
    uint64_t now_ticks = clock_ticks();
    if (now_ticks - ps->driven_ticks < ps->leave_ticks) return;
    van_hurry(kv_worker_van(ps->worker)); /* wakes sleeping peers while this thread spins */
    ps->driven_ticks = now_ticks;
    ps->driven_us = event_loop_now_us(ps->loop);
    event_loop_run_once(ps->loop, 0); /* no thread drives, so this one may do so briefly */
    grant(ps);
}

/* ---- Errors of waits. */

/* The ranks that hold this one up, as the scheduler knows them; unlocked during the question. */
static void find_ranks(mr_ps *ps, char cause[REQUEST_CAUSE_MAX]) {
    char scheduler[MR_PS_ADDRESS_MAX];
    mr_ps_processes *processes = NULL;
    snprintf(scheduler, sizeof scheduler, "%s", kv_worker_scheduler(ps->worker));
    poller_unlock(&ps->poller);
    mr_status status = mr_ps_processes_get(scheduler, SEARCH_US, &processes);
    poller_lock(&ps->poller);
    if (status == MR_OK) (void)request_cause_ranks(ps->worker, processes, ps->needs == PS_CONNECTION_BARRIER, cause);
    mr_ps_processes_free(processes);
}

/* Adds time, cause and next step to the error text of a wait that timed out; a known cause is in the text already. */
static mr_status complete(mr_ps *ps, request_cause_kind kind, int64_t waited_us) {
    char own[ERROR_TEXT_MAX], ranks[REQUEST_CAUSE_MAX] = "", more[MR_PS_ADDRESS_MAX + 64] = "";
    snprintf(own, sizeof own, "%s", mr_last_error());
    if (kind == REQUEST_CAUSE_UNKNOWN && ps->needs != PS_CONNECTION_SCHEDULER) find_ranks(ps, ranks);
    if (kind != REQUEST_CAUSE_WHOLE)
        snprintf(more, sizeof more, "; `miniray ps status --scheduler %s` shows more", kv_worker_scheduler(ps->worker));
    return error_set(MR_TIMEOUT, "timed out after %.3g s: %s%s%s%s", (double)waited_us / 1e6, own,
                     ranks[0] == '\0' ? "" : "; ", ranks, more);
}

/* Completes the error text of a wait that timed out. A short wait may be a slice of a longer one (mr_ps_explain): its
 * text has the cause only if this process knows it. */
static mr_status late(mr_ps *ps, ps_connection_needs needs, int64_t timeout_us) {
    char own[ERROR_TEXT_MAX], cause[REQUEST_CAUSE_MAX];
    snprintf(own, sizeof own, "%s", mr_last_error());
    request_cause_kind kind = request_cause_write(ps->worker, cause);
    if (kind != REQUEST_CAUSE_UNKNOWN) (void)error_set(MR_TIMEOUT, "%s; %s", own, cause);
    ps->needs = needs;
    return timeout_us > SLICE_US && ps->is_ready ? complete(ps, kind, timeout_us) : MR_TIMEOUT;
}

void mr_ps_explain(mr_ps *ps, int64_t waited_us) {
    char cause[REQUEST_CAUSE_MAX];
    poller_lock(&ps->poller);
    request_cause_kind kind = request_cause_write(ps->worker, cause);
    (void)complete(ps, kind, waited_us);
    poller_unlock(&ps->poller);
}

/* Names the operation in the error of a deployment that has ended. */
static mr_status conclude(const mr_ps *ps, const char *what, mr_status status) {
    char own[ERROR_TEXT_MAX];
    if (status != MR_PEER_DIED) return status;
    snprintf(own, sizeof own, "%s", mr_last_error());
    if (check_end(ps) == MR_OK) return error_set(status, "%s", own);
    return error_wrap(status, "%s failed", what);
}

mr_status ps_connection_check_wait(void) {
    if (telling) return error_set(MR_DENIED, "a callback of a request must not wait for another request (mr_ps_wait)");
    return MR_OK;
}

mr_status ps_connection_check_rank(const mr_ps *ps, const char *what) {
    if (!kv_worker_reads(ps->worker)) return MR_OK;
    return error_set(
        MR_DENIED,
        "cannot %s: this connection is a reader (MR_PS_READER, reader=True), which only pulls; connect with "
        "a rank",
        what);
}

/* Not inline: gcc 13 would warn of a stored address of the stack, since it does not see that the list drops the address
 * before the caller returns. */
static __attribute__((noinline)) void add_wish(mr_ps *ps, wish *wish) { list_push_back(&ps->wishes, &wish->of_ps); }

/* MR_BUSY: the condition does not hold in time. */
static mr_status wait_until(mr_ps *ps, ps_connection_asked_fn *asked, void *argument, int64_t timeout_us) {
    mr_status first = ask(ps, asked, argument);
    if (first != MR_BUSY) return first;
    wish wish;
    wish.asked = asked;
    wish.argument = argument;
    wish.status = first;
    MR_TRY(ps_connection_check_wait());
    poller_waiter_init(&wish.waiter);
    add_wish(ps, &wish);
    wake_driver(ps);
    int64_t until_us = CLOCK_NEVER_US;
    /* the thread will queue first */
    if (ps->poller.driven) until_us = clock_deadline_us(event_loop_now_us(ps->loop), timeout_us);
    poller_turn what = poller_wait(&ps->poller, &wish.waiter, timeout_us);
    if (what == POLLER_DRIVE) {
        if (!wish.waiter.done && timeout_us != 0) drive(ps, &wish.waiter.done, timeout_us, until_us);
        poller_pass(&ps->poller);
    }
    list_remove(&wish.of_ps);
    if (wish.waiter.done) return wish.status == MR_OK ? MR_OK : error_set(wish.status, "%s", wish.error);
    return ask(ps, asked, argument);
}

mr_status ps_connection_await(mr_ps *ps, const char *what, ps_connection_needs needs, ps_connection_asked_fn *asked,
                              void *argument, int64_t timeout_us) {
    mr_status status = wait_until(ps, asked, argument, timeout_us);
    return status == MR_BUSY ? late(ps, needs, timeout_us) : conclude(ps, what, status);
}

/* ---- The helper. */

static void helper_drive(mr_ps *ps) {
    bool never = false;
    poller_waiter waiter;
    poller_waiter_init(&waiter);
    if (poller_wait(&ps->poller, &waiter, 0) != POLLER_DRIVE) return;
    while (list_empty(&ps->poller.line) && list_empty(&ps->wishes) && !ps->closing)
        (void)turn(ps, &never, CLOCK_NEVER_US);
    poller_pass(&ps->poller);
}

static void *helper_main(void *argument) {
    mr_ps *ps = argument;
    poller_lock(&ps->poller);
    while (!ps->closing) {
        uint32_t word = atomic_load(&ps->helper_word);
        bool busy = ps->poller.driven || event_loop_now_us(ps->loop) - ps->driven_us < HELPER_GRACE_US;
        if (!busy) helper_drive(ps);
        if (ps->closing) break;
        poller_unlock(&ps->poller); /* lets a waiting thread take the lock */
        futex_wait(&ps->helper_word, word, HELPER_GRACE_US, FUTEX_WITHIN);
        poller_lock(&ps->poller);
    }
    poller_unlock(&ps->poller);
    return NULL;
}

static void end_helper(mr_ps *ps) {
    if (!ps->has_helper) return;
    poller_lock(&ps->poller);
    ps->closing = true;
    wake_driver(ps);
    poller_unlock(&ps->poller);
    atomic_fetch_add(&ps->helper_word, 1);
    futex_wake(&ps->helper_word, FUTEX_WITHIN);
    pthread_join(ps->helper, NULL);
}

/* ---- Creation and end. */

static mr_status is_ready(kv_worker *worker, void *argument) { return kv_worker_ready(worker); }
static mr_status is_open(kv_worker *worker, void *argument) { return kv_worker_opened(worker); }
static mr_status has_left(kv_worker *worker, void *round) { return kv_worker_left(worker, round); }
static mr_status is_back(kv_worker *worker, void *argument) { return kv_worker_handed_back(worker); }
static mr_status has_settled(kv_worker *worker, void *argument) { return kv_worker_settled(worker); }
static mr_status has_quit(kv_worker *worker, void *argument) { return kv_worker_quit(worker); }
static mr_status is_done(kv_worker *worker, void *ticket) { return kv_worker_done(worker, *(uint64_t *)ticket); }

/* "pull from table 'rows'" */
static void name_request(mr_ps *ps, uint64_t number, char *out, size_t room) {
    static const char *const kinds[] = {"request to", "push to", "pull from", "push to and pull from"};
    const ticket *ticket = kv_worker_ticket(ps->worker, number);
    const char *name = NULL;
    list_for_each (item, &ps->handles) {
        const ps_connection_handle *handle = container_of(item, ps_connection_handle, link);
        if (ticket != NULL && handle->table == ticket->table) name = handle->name;
    }
    snprintf(out, room, "%s %s%s%s", kinds[ticket == NULL ? 0 : ticket->kind], name == NULL ? "a table" : "table '",
             name == NULL ? "" : name, name == NULL ? "" : "'");
}

mr_status ps_connection_wait(mr_ps *ps, uint64_t ticket, int64_t timeout_us) {
    char what[MR_PS_NAME_MAX + 40];
    mr_status status = wait_until(ps, is_done, &ticket, timeout_us);
    if (status != MR_BUSY && status != MR_PEER_DIED) return status;
    name_request(ps, ticket, what, sizeof what);
    if (status == MR_BUSY) {
        status = kv_worker_late(ps->worker, ticket, what);
        bool is_unsent = kv_worker_is_unsent(ps->worker, ticket);
        return status == MR_TIMEOUT ? late(ps, is_unsent ? PS_CONNECTION_SCHEDULER : PS_CONNECTION_RANKS, timeout_us)
                                    : status;
    }
    MR_TRY(kv_worker_abandon(ps->worker, ticket));
    return conclude(ps, what, status);
}

static mr_status is_admitted(kv_worker *worker, void *pushes) { return kv_worker_admit(worker, *(bool *)pushes); }

bool ps_connection_admit(mr_ps *ps, bool pushes, int64_t timeout_us, mr_status *status) {
    *status =
        ps_connection_await(ps, pushes ? "a push" : "a pull", PS_CONNECTION_RANKS, is_admitted, &pushes, timeout_us);
    return *status == MR_OK;
}

void ps_connection_lock(mr_ps *ps) { poller_lock(&ps->poller); }
void ps_connection_unlock(mr_ps *ps) {
    tell(ps);
    poller_unlock(&ps->poller);
}
kv_worker *ps_connection_worker(mr_ps *ps) { return ps->worker; }
list *ps_connection_handles(mr_ps *ps) { return &ps->handles; }

/* A failure to open a worker beside a scheduler that is gone: the end of the deployment is the cause. */
static mr_status find_cause(const char *scheduler, mr_status status) {
    char own[ERROR_TEXT_MAX];
    snprintf(own, sizeof own, "%s", mr_last_error());
    supervisor_watch *supervisor = supervisor_watch_open(NULL, scheduler);
    mr_status ended = supervisor_watch_check(supervisor);
    supervisor_watch_close(supervisor);
    return ended != MR_OK ? error_wrap(ended, "connecting to %s failed", scheduler) : error_set(status, "%s", own);
}

mr_status mr_ps_connect(const char *scheduler, int rank, int64_t timeout_us, mr_ps **out) {
    char address[DMLC_ADDRESS_MAX];
    if (rank < MR_PS_READER || rank >= ID_ALLOCATOR_MAX) return error_set(MR_INVALID, "rank %d is out of range", rank);
    MR_TRY(dmlc_default(&scheduler, address));
    kv_process_options options = {.scheduler = scheduler,
                                  .role = rank == MR_PS_READER ? CONTROL_READER : CONTROL_WORKER,
                                  .number = rank < 0 ? KV_PROCESS_ANY : (uint32_t)rank};
    mr_ps *ps = xcalloc(1, sizeof *ps);
    poller_init(&ps->poller);
    poller_own(&ps->poller, cpu_thread()); /* the connecting thread is likely the most frequent caller */
    ps->leave_ticks = (uint64_t)(LEAVE_US * clock_ticks_per_us());
    list_init(&ps->wishes);
    list_init(&ps->handles);
    mr_status status = kv_worker_open(&options, &ps->worker);
    if (status != MR_OK) {
        status = find_cause(scheduler, status);
        goto close;
    }
    ps->loop = van_loop(kv_worker_van(ps->worker));
    ps->supervisor = supervisor_watch_open(ps->loop, scheduler);
    if (pthread_create(&ps->helper, NULL, helper_main, ps) != 0) {
        status = error_set(MR_NOMEM, "mr_ps_connect: cannot start a thread");
        goto close;
    }
    ps->has_helper = true;
    poller_lock(&ps->poller);
    status = ps_connection_await(ps, "connecting", PS_CONNECTION_SCHEDULER, is_ready, NULL, timeout_us);
    ps->is_ready = status == MR_OK;
    poller_unlock(&ps->poller);
    if (status != MR_OK) goto close;
    *out = ps;
    return MR_OK;

close:
    mr_ps_close(ps);
    return status;
}

void mr_ps_close(mr_ps *ps) {
    if (ps == NULL) return;
    end_helper(ps);
    for (list *item; (item = list_pop_front(&ps->handles)) != NULL;)
        container_of(item, ps_connection_handle, link)->ps = NULL;
    supervisor_watch_close(ps->supervisor);
    kv_worker_close(ps->worker);
    free(ps);
}

mr_ps_info ps_connection_info(const cluster_map *map, uint32_t rank) {
    return (mr_ps_info){.rank = rank,
                        .ranks = map->rank_count,
                        .slots = cluster_map_table_slots(map),
                        .servers = map->server_count,
                        .replicas = map->copies,
                        .consistency = (mr_ps_consistency)map->consistency.kind,
                        .staleness = map->consistency.bound,
                        .mixed_consistency = map->mixed,
                        .backup_workers = map->rounds.backup,
                        .deadline_us = map->rounds.deadline_us};
}

void mr_ps_info_get(mr_ps *ps, mr_ps_info *out) {
    poller_lock(&ps->poller);
    uint32_t rank = kv_worker_reads(ps->worker) ? UINT32_MAX : kv_worker_rank(ps->worker);
    *out = ps_connection_info(kv_worker_map(ps->worker), rank);
    poller_unlock(&ps->poller);
}

mr_status mr_ps_set_state_dir(mr_ps *ps, const char *folder) {
    struct stat facts;
    if (folder != NULL && (stat(folder, &facts) != 0 || !S_ISDIR(facts.st_mode)))
        return error_set(MR_INVALID, "'%s' is not a directory", folder);
    MR_TRY(ps_connection_check_rank(ps, "keep the state of a rank"));
    poller_lock(&ps->poller);
    mr_status status = kv_worker_keep(ps->worker, folder);
    poller_unlock(&ps->poller);
    return status;
}

void mr_ps_push_stats_get(mr_ps *ps, mr_ps_push_stats *out) {
    poller_lock(&ps->poller);
    const push_encoder *encoder = kv_worker_encoder(ps->worker);
    feedback_file_look state = feedback_file_look_at(encoder->file);
    *out = (mr_ps_push_stats){.push_bytes = encoder->traffic.plain_bytes,
                              .push_bytes_sent = encoder->traffic.sent_bytes,
                              .pushes = encoder->traffic.sections,
                              .encoded = encoder->traffic.encoded,
                              .pull_bytes = encoder->traffic.asked_plain_bytes,
                              .pull_bytes_sent = encoder->traffic.asked_bytes,
                              .pulls_repeated = encoder->traffic.forgotten,
                              .feedback_bytes = state.bytes,
                              .feedback_forgotten = state.forgotten,
                              .feedback_lost = state.begun_empty};
    poller_unlock(&ps->poller);
}

/* ---- Steps and requests. */

mr_status mr_ps_begin(mr_ps *ps, int64_t timeout_us, uint64_t *step) {
    MR_TRY(ps_connection_check_rank(ps, "begin a step"));
    poller_lock(&ps->poller);
    kv_worker_begin(ps->worker);
    mr_status status = ps_connection_await(ps, "the begin of a step", PS_CONNECTION_RANKS, is_open, NULL, timeout_us);
    if (status == MR_OK) *step = kv_worker_step(ps->worker);
    ps_connection_unlock(ps);
    return status;
}

mr_status mr_ps_wait(mr_ps *ps, mr_ps_ticket ticket, int64_t timeout_us) {
    poller_lock(&ps->poller);
    mr_status status = ps_connection_wait(ps, ticket.v, timeout_us);
    ps_connection_unlock(ps);
    return status;
}

mr_status mr_ps_end(mr_ps *ps) {
    MR_TRY(ps_connection_check_rank(ps, "end a step"));
    poller_lock(&ps->poller);
    mr_status status = kv_worker_end(ps->worker);
    ps_connection_leave(ps);
    ps_connection_unlock(ps);
    return status;
}

mr_status mr_ps_skip(mr_ps *ps) {
    MR_TRY(ps_connection_check_rank(ps, "be left out of a step"));
    poller_lock(&ps->poller);
    mr_status status = kv_worker_skip(ps->worker);
    ps_connection_unlock(ps);
    return status;
}

uint64_t mr_ps_skipped(mr_ps *ps) {
    poller_lock(&ps->poller);
    uint64_t skipped = kv_worker_skipped(ps->worker);
    poller_unlock(&ps->poller);
    return skipped;
}

static int64_t left_us(const mr_ps *ps, int64_t until_us) {
    int64_t now_us = event_loop_now_us(ps->loop);
    return until_us > now_us ? until_us - now_us : 0;
}

static mr_status may_end(kv_worker *worker, void *round) {
    return kv_worker_step(worker) >= *(uint64_t *)round ? MR_OK : kv_worker_opened(worker);
}

static mr_status await_leave(mr_ps *ps, ps_connection_asked_fn *asked, void *argument, int64_t until_us) {
    return ps_connection_await(ps, "leaving the rounds", PS_CONNECTION_RANKS, asked, argument, left_us(ps, until_us));
}

/* Leaves the rounds, and then the slots without rounds. Rounds that still include this rank, up to the decided one, end
 * without it. */
static mr_status leave(mr_ps *ps, int64_t until_us) {
    uint64_t round;
    MR_TRY(kv_worker_leave(ps->worker));
    kv_worker_hand_back(ps->worker);
    MR_TRY(await_leave(ps, has_left, &round, until_us));
    while (kv_worker_step(ps->worker) < round) {
        kv_worker_begin(ps->worker);
        MR_TRY(await_leave(ps, may_end, &round, until_us));
        if (kv_worker_step(ps->worker) < round) MR_TRY(kv_worker_pass(ps->worker));
    }
    MR_TRY(await_leave(ps, is_back, NULL, until_us));
    return await_leave(ps, has_quit, NULL, until_us);
}

mr_status mr_ps_leave(mr_ps *ps, int64_t timeout_us) {
    MR_TRY(ps_connection_check_rank(ps, "leave"));
    poller_lock(&ps->poller);
    mr_status status = leave(ps, clock_deadline_us(event_loop_now_us(ps->loop), timeout_us));
    ps_connection_unlock(ps);
    return status;
}

mr_status mr_ps_flush(mr_ps *ps, int64_t timeout_us) {
    poller_lock(&ps->poller);
    mr_status status = ps_connection_await(ps, "the flush", PS_CONNECTION_RANKS, has_settled, NULL, timeout_us);
    ps_connection_unlock(ps);
    return status;
}
