/* context.c — see context.h.
 *
 * States, with the function on each arrow; enter() asserts that an arrow exists:
 *
 *   (zeroed page) ── context_open ──► JOINING ── context_open ──► OPEN ── context_see_others_out ──► CLOSING
 *                                        │                         │                                    │
 *                                        └────────────┬────────────┴────────────────────────────────────┘
 *                                                     │ context_close
 *                                                     ▼
 *                                  STOPPING ── context_close ──► DETACHED ── context_close ──► CLOSED
 *                                                                                                │ context_left, with
 *                                                                                                ▼ the last view
 *   in a forked child: any state ── fork (the kernel zeroes the page) ──► FORKED                freed
 *
 * Invariants  1. the state changes with the lock held, and never back;
 *             2. the progress thread exists in OPEN, CLOSING and the beginning of STOPPING;
 *             3. no thread waits, polls the transport or receives from the node from DETACHED on.
 * Tested by tests/runtime_life_test.c. */
#include "runtime/process/context.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"
#include "net/shm/spin_wait.h"
#include "runtime/common/fd_limit.h"
#include "runtime/common/runtime_config.h"
#include "runtime/common/shutdown_error.h"
#include "runtime/process/callback.h"
#include "runtime/process/context_extension.h"
#include "runtime/process/driver_output.h"
#include "runtime/process/submit_batch.h"
#include "runtime/worker/worker.h"

enum {
    PAUSE_US = 1000,
    JOIN_TIMEOUT_US = 10 * 1000 * 1000,
    ASK_US = 50 * 1000, /* interval of calls of give_up */
    LEAVE_US = 10 * 1000 * 1000,
    LENDS_AFTER_US = 300,            /* wait of a worker's thread after which its resources are lent */
    INTERRUPTS_AFTER_US = 10 * 1000, /* wait after which the function of mr_on_interrupt is called first */
};

/* The only function that changes the state. */
static void enter(mr_context *mr, context_state next) {
    static const uint8_t before[] = {
        [CONTEXT_JOINING] = 1 << CONTEXT_FORKED, /* a new page is zeroed */
        [CONTEXT_OPEN] = 1 << CONTEXT_JOINING,
        [CONTEXT_CLOSING] = 1 << CONTEXT_OPEN,
        [CONTEXT_STOPPING] = 1 << CONTEXT_JOINING | 1 << CONTEXT_OPEN | 1 << CONTEXT_CLOSING,
        [CONTEXT_DETACHED] = 1 << CONTEXT_STOPPING,
        [CONTEXT_CLOSED] = 1 << CONTEXT_DETACHED,
    };
    MR_ASSERT((before[next] >> context_state_of(mr) & 1) != 0);
    atomic_store_explicit(mr->state, (uint32_t)next, memory_order_relaxed);
}

/* ---- Driving. */

/* Deadline after a spin. A timeout that is not longer than the spin gets no sleep: the kernel would make it 50 µs. */
static int64_t deadline_of_spun(int64_t now_us, int64_t timeout_us) {
    return clock_deadline_us(now_us, timeout_us > SPIN_WAIT_SPIN_US ? timeout_us - SPIN_WAIT_SPIN_US : 0);
}

/* Wakes the thread of worker_loop_out when the worker is not needed any more: the last message was handled, and the
 * driving thread is about to sleep. */
static __attribute__((noinline)) bool has_drained(mr_context *mr) {
    if (worker_is_needed(mr->worker.worker)) return false;
    mr->drains = false;
    context_wake(mr, &mr->idle, true);
    return true;
}

/* Sleeps, after a spin without a message. Returns as context_await_more. */
static __attribute__((noinline)) bool rest(mr_context *mr, int64_t timeout_us, int64_t *deadline_us) {
    if (mr->drains && has_drained(mr)) return true;
    int64_t now_us = clock_now_us(mr->env.clock);
    if (*deadline_us == 0) *deadline_us = timeout_us < 0 ? CLOCK_NEVER_US : deadline_of_spun(now_us, timeout_us);
    if (now_us >= *deadline_us) return false;
    int64_t until_us = core_worker_tick(&mr->worker, now_us);
    if (*deadline_us < until_us) until_us = *deadline_us;
    event_ring_rest(&mr->worker.writer.ring, now_us);
    shm_transport_sleep(mr->transport, &mr->poller,
                        until_us == CLOCK_NEVER_US ? -1
                        : until_us > now_us        ? until_us - now_us
                                                   : 0);
    event_ring_slept(&mr->worker.writer.ring);
    mr->worker.now_us = 0;
    if (context_poll(mr) && mr->progress.rest == PROGRESS_PARKED) progress_thread_end_rest(mr);
    return true;
}

/* Spins first, without reading the clock, unless makes_way is set: most answers arrive within that time. */
bool context_await_more(mr_context *mr, int64_t timeout_us, int64_t *deadline_us) {
    event_ring_idle(&mr->worker.writer.ring);
    if (!mr->makes_way) shm_transport_wait(mr->transport, &mr->poller, 0);
    return context_poll(mr) || rest(mr, timeout_us, deadline_us);
}

/* Who else ends a wait, besides its answer and its timeout. */
typedef enum wait_kind {
    WAIT_STAYS,   /* no other event */
    WAIT_CLOSES,  /* the end of the context */
    WAIT_ANSWERS, /* likewise, and an interrupt, if the thread has asked for them */
} wait_kind;

static bool is_interrupted(const mr_context *mr, wait_kind kind) {
    return kind == WAIT_ANSWERS && mr->interrupt.due && mr->interrupt.thread == cpu_thread();
}

static bool is_over(const mr_context *mr, wait_kind kind) {
    return (kind != WAIT_STAYS && context_state_of(mr) >= CONTEXT_CLOSING) || is_interrupted(mr, kind);
}

/* Drives until the waiter is done. False: timeout, or another event that ends waits of this kind. */
static bool drive(mr_context *mr, poller_waiter *waiter, int64_t timeout_us, wait_kind kind) {
    int64_t deadline_us = 0;
    while (!waiter->done) {
        if (context_poll(mr) || waiter->done) continue;
        if (is_over(mr, kind) || !context_await_more(mr, timeout_us, &deadline_us)) return false;
    }
    return true;
}

static inline mr_status wait_or_leave(mr_context *mr, poller_waiter *waiter, int64_t timeout_us, wait_kind kind) {
    if (context_state_of(mr) >= CONTEXT_DETACHED) return shutdown_error_error();
    mr->progress.presence++;
    mr->waiting++;
    if (mr->poller.driven && mr->progress.rest == PROGRESS_DRIVES && timeout_us != 0) progress_thread_end_rest(mr);
    poller_turn turn = poller_wait(&mr->poller, waiter, timeout_us);
    if (turn == POLLER_DRIVE) {
        bool done = drive(mr, waiter, timeout_us, kind);
        poller_pass(&mr->poller);
        turn = done ? POLLER_DONE : POLLER_TIMEOUT;
        if (mr->progress.rest == PROGRESS_PARKED) progress_thread_end_rest(mr);
        if (!list_empty(&mr->watches)) progress_thread_nudge(mr); /* the progress thread drives from now on */
    }
    mr->waiting--;
    mr->progress.presence++;
    if (turn == POLLER_DONE) return MR_OK;
    if (kind != WAIT_STAYS && context_state_of(mr) >= CONTEXT_CLOSING) return shutdown_error_error();
    if (is_interrupted(mr, kind)) return CONTEXT_INTERRUPTED;
    return error_set(MR_TIMEOUT, "timed out after %.3g s", (double)timeout_us / 1e6);
}

mr_status context_wait(mr_context *mr, poller_waiter *waiter, int64_t timeout_us) {
    return wait_or_leave(mr, waiter, timeout_us, WAIT_STAYS);
}

static __attribute__((noinline)) mr_status wait_or_close(mr_context *mr, poller_waiter *waiter, int64_t timeout_us) {
    return wait_or_leave(mr, waiter, timeout_us, WAIT_CLOSES);
}

/* The same for the thread of mr_on_interrupt, whose function is called once before a long wait. After
 * CONTEXT_INTERRUPTED, interrupt.left_us is the rest of the timeout. */
static __attribute__((noinline)) mr_status wait_for_interrupt(mr_context *mr, poller_waiter *waiter,
                                                              int64_t timeout_us) {
    context_interrupt *interrupt = &mr->interrupt;
    bool whole = interrupt->is_resumed || (timeout_us >= 0 && timeout_us <= INTERRUPTS_AFTER_US);
    int64_t begun_us = timeout_us > 0 ? clock_now_us(mr->env.clock) : 0;
    interrupt->waiter = waiter;
    mr_status status = wait_or_leave(mr, waiter, whole ? timeout_us : INTERRUPTS_AFTER_US, WAIT_ANSWERS);
    interrupt->waiter = NULL;
    if (status == MR_TIMEOUT && !whole) status = CONTEXT_INTERRUPTED;
    if (status != CONTEXT_INTERRUPTED) return status;
    int64_t spent_us = timeout_us > 0 ? clock_now_us(mr->env.clock) - begun_us : 0;
    interrupt->left_us = timeout_us < 0 ? -1 : spent_us < timeout_us ? timeout_us - spent_us : 0;
    return status;
}

static inline mr_status wait_once(mr_context *mr, poller_waiter *waiter, int64_t timeout_us, bool answers) {
    return answers && mr->interrupt.thread == cpu_thread() ? wait_for_interrupt(mr, waiter, timeout_us)
                                                           : wait_or_close(mr, waiter, timeout_us);
}

static void end_lending(mr_context *mr, uint64_t event, mr_status status) {
    event_ring_leave(&mr->worker.writer.ring, event, status);
    context_blocked(mr, -1);
}

/* Waits while the worker's resources are lent, which an interrupt does not end. */
static mr_status wait_lent(mr_context *mr, poller_waiter *waiter, int64_t timeout_us, bool answers, uint64_t event) {
    mr_status status = wait_once(mr, waiter, timeout_us, answers);
    if (status == CONTEXT_INTERRUPTED) {
        mr->interrupt.is_lent = true;
        mr->interrupt.event = event;
    } else {
        end_lending(mr, event, status);
    }
    return status;
}

static mr_status wait_lending(mr_context *mr, poller_waiter *waiter, int64_t timeout_us, bool answers) {
    if (mr->worker.worker == NULL || (timeout_us >= 0 && timeout_us <= LENDS_AFTER_US))
        return wait_once(mr, waiter, timeout_us, answers);
    int64_t later_us = timeout_us < 0 ? -1 : timeout_us - LENDS_AFTER_US;
    mr_status status = wait_once(mr, waiter, LENDS_AFTER_US, answers);
    if (status == CONTEXT_INTERRUPTED) mr->interrupt.left_us = later_us < 0 ? -1 : mr->interrupt.left_us + later_us;
    if (status != MR_TIMEOUT) return status;
    context_blocked(mr, 1);
    uint64_t event = event_writer_begin(&mr->worker.writer, EVENT_WAIT, (rpc_call_token){0}, "waits", 5, 0);
    return wait_lent(mr, waiter, later_us, answers, event);
}

mr_status context_wait_lending(mr_context *mr, poller_waiter *waiter, int64_t timeout_us) {
    return wait_lending(mr, waiter, timeout_us, false);
}

mr_status context_wait_answering(mr_context *mr, poller_waiter *waiter, int64_t timeout_us) {
    if (timeout_us == 0 || mr->interrupt.thread != cpu_thread()) return wait_lending(mr, waiter, timeout_us, false);
    if (!mr->interrupt.is_lent) return wait_lending(mr, waiter, timeout_us, true);
    mr->interrupt.is_lent = false;
    return wait_lent(mr, waiter, timeout_us, true, mr->interrupt.event);
}

/* ---- Interrupts. */

/* The descriptor is readable. */
static void interrupt_came(void *context) {
    mr_context *mr = context;
    mr->interrupt.due = true;
    if (mr->interrupt.waiter != NULL) poller_interrupt(&mr->poller, mr->interrupt.waiter);
}

/* A sleep that has begun does not watch the descriptor yet. */
static void watch_interrupts(mr_context *mr) {
    if (context_state_of(mr) >= CONTEXT_DETACHED) return;
    mr->interrupt.due = false;
    shm_transport_watch(mr->transport, mr->interrupt.fd, interrupt_came, mr);
    poller_rouse(&mr->poller);
}

mr_status mr_on_interrupt(mr_context *mr, int fd, mr_interrupt_fn *fn, void *user) {
    MR_TRY(context_check(mr, mr));
    if (fn != NULL && fd < 0) return error_set(MR_INVALID, "mr_on_interrupt: `fd` is %d, which is no descriptor", fd);
    context_lock(mr);
    mr->interrupt = (context_interrupt){
        .fd = fn == NULL ? -1 : fd, .fn = fn, .user = user, .thread = fn == NULL ? 0 : cpu_thread()};
    watch_interrupts(mr);
    return context_done(mr, MR_OK);
}

static mr_status step_again(mr_context *mr, context_step_fn *step, void *what, int64_t timeout_us, int64_t left_us) {
    context_interrupt *interrupt = &mr->interrupt;
    if (interrupt->due) watch_interrupts(mr);
    interrupt->is_resumed = true;
    interrupt->waited_us = timeout_us < 0 ? 0 : timeout_us - left_us;
    mr_status status = step(mr, what, left_us);
    interrupt->is_resumed = false;
    interrupt->waited_us = 0;
    if (status != CONTEXT_INTERRUPTED && interrupt->is_lent) { /* the step did not wait again */
        interrupt->is_lent = false;
        end_lending(mr, interrupt->event, status);
    }
    return status;
}

/* The program's function runs without the lock and outside of all waits, since it may wait itself or, in a driver, end
 * the runtime. */
mr_status context_resume(mr_context *mr, context_step_fn *step, void *what, int64_t timeout_us) {
    for (;;) {
        context_interrupt left = mr->interrupt;
        mr->interrupt.is_lent = false;
        bool ends = left.fn(left.user);
        if (!ends || left.is_lent) context_lock(mr);
        if (ends && left.is_lent) {
            end_lending(mr, left.event, MR_CANCELLED);
            context_unlock(mr);
        }
        if (ends)
            return error_set(MR_CANCELLED, "the wait was ended by the function of mr_on_interrupt for descriptor %d",
                             left.fd);
        mr->interrupt.is_lent = left.is_lent;
        mr->interrupt.event = left.event;
        mr_status status = step_again(mr, step, what, timeout_us, left.left_us);
        context_unlock(mr);
        if (status != CONTEXT_INTERRUPTED) return status;
    }
}

int64_t context_waited_us(const mr_context *mr) {
    return mr->interrupt.thread == cpu_thread() ? mr->interrupt.waited_us : 0;
}

typedef struct in_line { /* waiting thread; on its stack */
    list place;
    poller_waiter waiter;
} in_line;

static mr_status wait_in(mr_context *mr, list *line, context_wait_fn *wait, int64_t timeout_us) {
    in_line self;
    poller_waiter_init(&self.waiter);
    list_push_back(line, &self.place);
    mr_status status = wait(mr, &self.waiter, timeout_us);
    list_remove(&self.place);
    return status;
}

mr_status context_wait_in(mr_context *mr, list *line, int64_t timeout_us) {
    return wait_in(mr, line, context_wait, timeout_us);
}

static mr_status wait_answering(mr_context *mr, poller_waiter *waiter, int64_t timeout_us) {
    return wait_once(mr, waiter, timeout_us, true);
}

mr_status context_wait_in_answering(mr_context *mr, list *line, int64_t timeout_us) {
    return wait_in(mr, line, wait_answering, timeout_us);
}

void context_wake(mr_context *mr, const list *line, bool all) {
    list_for_each (at, line) {
        poller_waiter *waiter = &container_of(at, in_line, place)->waiter;
        if (waiter->done) continue;
        poller_finish(&mr->poller, waiter);
        if (!all) return;
    }
}

void context_look(mr_context *mr) {
    if (mr->poller.driven || context_state_of(mr) >= CONTEXT_DETACHED) return;
    mr->progress.presence++;
    context_poll(mr);
}

void context_pause(mr_context *mr) {
    poller_waiter pause;
    poller_waiter_init(&pause);
    if (context_wait(mr, &pause, PAUSE_US) == MR_OK) MR_UNREACHABLE();
}

/* ---- Requests to the node that wait for the answer. */

typedef struct node_answer {
    wire_call call;
    mr_context *mr;
    poller_waiter waiter;
    failure *failed; /* owned; NULL: answered */
    void *out;
    size_t room, size;
} node_answer;

static failure *too_long(const node_answer *answer) {
    char text[96];
    snprintf(text, sizeof text, "the node's answer has %zu bytes; expected at most %zu", answer->size, answer->room);
    return failure_create(MR_CORRUPT, text, "", NULL);
}

static void node_answered(wire_call *call, const rpc_call_result *result) {
    node_answer *answer = container_of(call, node_answer, call);
    answer->size = result->payload.size;
    if (result->status != MR_OK)
        answer->failed = wire_failure(result, "the node");
    else if (answer->size > answer->room)
        answer->failed = too_long(answer);
    else if (answer->size > 0)
        memcpy(answer->out, result->payload.data, answer->size);
    poller_finish(&answer->mr->poller, &answer->waiter);
}

static mr_status call_node(mr_context *mr, context_wait_fn *wait, wire_method method, span fields, int64_t timeout_us,
                           void *out, size_t room, size_t *size) {
    node_answer answer = {.call = {.done = node_answered}, .mr = mr, .out = out, .room = room};
    const wire_message message = {.fields = fields};
    mr_status status;
    poller_waiter_init(&answer.waiter);
    while ((status = core_worker_ask_node(&mr->worker, method, &message, &answer.call)) == MR_BUSY) context_pause(mr);
    MR_TRY(status);
    status = wait(mr, &answer.waiter, timeout_us);
    if (status != MR_OK) {
        if (rpc_cancel(mr->worker.rpc, answer.call.id) != MR_OK) MR_UNREACHABLE(); /* the call has not ended */
        if (status == CONTEXT_INTERRUPTED || status == MR_CLOSED) return status;
        error_set(
            status,
            "timed out after %.1f s waiting for the node's answer to request %d; `miniray status` shows whether the "
            "node answers",
            (double)timeout_us / 1e6, (int)method);
    } else if (answer.failed != NULL) {
        status = failure_raise(answer.failed);
    } else if (size != NULL) {
        *size = answer.size;
    }
    failure_unref(answer.failed);
    return status;
}

mr_status context_call_node(mr_context *mr, wire_method method, span fields, int64_t timeout_us, void *out, size_t room,
                            size_t *size) {
    return call_node(mr, context_wait, method, fields, timeout_us, out, room, size);
}

mr_status context_call_node_answering(mr_context *mr, wire_method method, span fields, int64_t timeout_us) {
    return call_node(mr, context_wait_answering, method, fields, timeout_us, NULL, 0, NULL);
}

void context_blocked(mr_context *mr, int change) {
    mr->blocked = (uint32_t)((int)mr->blocked + change);
    uint8_t lends = mr->blocked > 0 && mr->blocked >= worker_running(mr->worker.worker);
    if (mr->lends == (lends != 0)) return;
    mr->lends = lends != 0;
    worker_waits(mr->worker.worker, mr->lends);
    core_worker_tell_node(&mr->worker, NODE_BLOCKED, span_of(&lends, 1));
}

static void lock(void *context) { context_lock(context); }
static void unlock(void *context) { context_unlock(context); }

static void explain_end(void *context, const cause *why, char *out, size_t size) {
    mr_context *mr = context;
    if (mr->worker.role == WIRE_DRIVER) node_end_text(&mr->end, why, mr->worker.folder, out, size);
}

static mr_status check(void *context) { return context_check(context, context); }

/* ---- Start and end. */

static void address_of(void *context, uint64_t process, char *out, size_t size) {
    snprintf(out, size, "shm:#%llx", (unsigned long long)process);
}

/* Sets the worker's GPUs. WORKER_GPUS arrives before the work that needs them, while the worker has no other. */
static void see_gpus(void *context, span devices) {
    mr_context *mr = context;
    snprintf(mr->gpus, sizeof mr->gpus, "%.*s", (int)devices.size, devices.size == 0 ? "" : (const char *)devices.data);
    setenv("CUDA_VISIBLE_DEVICES", mr->gpus, 1);
}

size_t mr_gpu_ids(mr_context *mr, int *out, size_t room) {
    size_t count = 0;
    if (!context_is_ours(mr)) return 0;
    if (out == NULL) room = 0;
    context_lock(mr);
    for (const char *at = mr->gpus; *at != '\0'; at += *at == ',') {
        size_t size = strcspn(at, ",");
        bool numbered = strspn(at, "0123456789") == size;
        if (count++ < room) out[count - 1] = numbered ? (int)strtol(at, NULL, 10) : -1;
        at += size;
    }
    context_unlock(mr);
    return count;
}

/* Bytes in a stream's file. The output of workers goes to files, which only grow until the node truncates them. */
static uint64_t printed(void *context, std_stream std_stream) {
    struct stat stat;
    return fstat(std_stream_fd(std_stream), &stat) == 0 && S_ISREG(stat.st_mode) ? (uint64_t)stat.st_size : 0;
}

/* Wakes one thread for each arriving call, and all threads when the worker is over. */
static void called(void *context) {
    mr_context *mr = context;
    context_wake(mr, &mr->idle, worker_is_over(mr->worker.worker));
}

/* Ends this process with its running bodies, which cannot be asked to end. */
static void end_now(void *context) { kill(getpid(), SIGKILL); }

/* Calls give_up at a limited rate, since waits may be short. */
static bool gives_up(mr_context *mr) {
    int64_t now_us = clock_now_us(mr->env.clock);
    if (mr->give_up == NULL || now_us - mr->asked_us < ASK_US) return false;
    mr->asked_us = now_us;
    mr_interrupt_fn *fn = mr->give_up;
    void *user = mr->give_up_user;
    context_unlock(mr);
    bool wanted = fn(user);
    context_lock(mr);
    return wanted;
}

void mr_on_memory_wait(mr_context *mr, mr_interrupt_fn *fn, void *user) {
    if (!context_is_ours(mr)) return;
    context_lock(mr);
    mr->give_up = fn;
    mr->give_up_user = user;
    context_unlock(mr);
}

static mr_status wait_for_store_server(void *context, int64_t timeout_us) {
    mr_context *mr = context;
    mr_status status = context_wait_in(mr, &mr->store_server_waits, timeout_us);
    if (context_state_of(mr) >= CONTEXT_CLOSING || (status != MR_OK && status != MR_TIMEOUT)) return MR_CLOSED;
    return gives_up(mr) ? MR_CANCELLED : MR_OK;
}

static void store_server_answered(void *context) {
    mr_context *mr = context;
    context_wake(mr, &mr->store_server_waits, true);
}

static mr_status join_node(mr_context *mr) {
    MR_TRY(core_worker_start(&mr->worker, shm_transport_process(mr->transport), shm_transport_arena(mr->transport)));
    int64_t deadline_us = 0;
    bool serves = mr->worker.role == WIRE_WORKER; /* the first call is to be recorded */
    while ((!mr->worker.joined || (serves && event_writer_is_asked(&mr->worker.writer))) && mr->worker.over == NULL)
        if (!context_poll(mr) && !context_await_more(mr, JOIN_TIMEOUT_US, &deadline_us))
            return error_set(MR_TIMEOUT, "cannot join the node: no answer within %d s", JOIN_TIMEOUT_US / 1000000);
    return mr->worker.over == NULL ? MR_OK : failure_raise(mr->worker.over);
}

mr_status context_refuse(const mr_context *mr) {
    if (mr == NULL) return error_set(MR_INVALID, "the context is NULL: call mr_init first");
    if (!context_is_ours(mr))
        return error_set(MR_INVALID, "the context belongs to the process that forked this one (%d): call mr_init here",
                         (int)getpid());
    return error_set(MR_INVALID, "the output argument `out` is NULL");
}

/* The state has a page of its own, which the kernel zeroes in a forked child. */
static mr_status make_state(mr_context *mr) {
    size_t size = (size_t)sysconf(_SC_PAGESIZE);
    void *page = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED)
        return error_errno("no memory for the runtime in process %d: a page of %zu bytes", (int)getpid(), size);
    (void)madvise(page, size, MADV_WIPEONFORK); /* fails before Linux 4.14: a forked child is then not detected */
    mr->state = page;
    enter(mr, CONTEXT_JOINING);
    return MR_OK;
}

static void free_context(mr_context *mr) {
    munmap(mr->state, (size_t)sysconf(_SC_PAGESIZE));
    core_worker_fini(&mr->worker);
    slab_fini(&mr->views);
    free(mr);
}

mr_status context_open(const char *path, const context_entry *entry, mr_context **out) {
    config config;
    MR_TRY(runtime_config_load(&config));
    if (entry->role != WIRE_WATCHER) fd_limit_raise();
    char why[ERROR_TEXT_MAX];
    mr_context *mr;
    MR_TRY(alloc_try_lines(sizeof(mr_context), &mr));
    mr_status status = make_state(mr);
    if (status != MR_OK) {
        free(mr);
        return status;
    }
    poller_init(&mr->poller);
    mr->owner = cpu_thread();
    if (membarrier_register_is_quick()) poller_own(&mr->poller, mr->owner);
    list_init(&mr->store_server_waits);
    rng_init(&mr->rng, rng_system_seed());
    mr->lifeline_fd = -1;
    if (entry->role == WIRE_DRIVER) node_end_init(&mr->end);
    mr->print = entry->print;
    mr->print_user = entry->print_user;
    snprintf(mr->address, sizeof mr->address, "%s", path);
    mr->env = (env){.clock = clock_real(), .rng = &mr->rng};
    mr->host = (core_worker_host){.context = mr,
                                  .mr = mr,
                                  .node = "shm:node",
                                  .about = entry->about,
                                  .cpus = cpu_count(),
                                  .print = driver_output_post,
                                  .see_gpus = see_gpus,
                                  .describe = describe_begin,
                                  .printed = printed,
                                  .address = address_of,
                                  .stirred = progress_thread_stirred,
                                  .called = called,
                                  .end = end_now,
                                  .cancelled = callback_cancelled,
                                  .wait = wait_for_store_server,
                                  .answered = store_server_answered,
                                  .lock = lock,
                                  .unlock = unlock,
                                  .explain_end = explain_end,
                                  .check = check};
    list_init(&mr->groups);
    list_init(&mr->peers);
    list_init(&mr->notices);
    list_init(&mr->watches);
    list_init(&mr->idle);
    context_views_init(mr);
    core_worker_init(&mr->worker, &mr->env, &mr->host, entry->role, (int)getpid());
    mr->worker.tasks.evictions_max = (uint32_t)config.task_oom_retries;
    if (entry->role == WIRE_WORKER) worker_attach(&mr->worker);
    status = progress_thread_start(mr); /* first: without it the process must not be counted as a worker */
    if (status != MR_OK) goto fini_client;
    shm_transport_options options = runtime_config_port(&config, path, "");
    status = shm_transport_open(&options, &rpc_events, mr->worker.rpc, &mr->transport);
    if (status != MR_OK) {
        status = error_wrap(status, "joining the node");
        goto join_thread;
    }
    mr->env.transport = shm_transport_transport(mr->transport);
    context_lock(mr);
    status = join_node(mr);
    context_unlock(mr);
    mr->host.about = (span){0}; /* borrowed until here */
    if (status != MR_OK) goto close_port;
    context_lock(mr);
    enter(mr, CONTEXT_OPEN);
    context_unlock(mr);
    progress_thread_begin(mr);
    *out = mr;
    return MR_OK;

close_port:
    snprintf(why, sizeof why, "%s", mr_last_error()); /* context_close ends calls, which set other errors */
    context_close(mr, false);
    return error_set(status, "%s", why);
join_thread:
    context_lock(mr);
    enter(mr, CONTEXT_STOPPING);
    context_unlock(mr);
    progress_thread_join(mr);
fini_client:
    free_context(mr);
    return status;
}

/* Contexts that are never freed, reachable so that a leak checker does not report them. */
static _Atomic(mr_context *) kept;

static void keep_for_ever(mr_context *mr) {
    if (mr->kept) return;
    mr->kept = true;
    mr->kept_before = atomic_load(&kept);
    while (!atomic_compare_exchange_weak(&kept, &mr->kept_before, mr)) {}
}

/* A waiting thread leaves when it drives, and passes the poller on; a thread that waits for the node's answer or packs
 * a value is done soon. */
void context_see_others_out(mr_context *mr, bool keeps) {
    int64_t deadline_us = clock_now_us(mr->env.clock) + LEAVE_US;
    context_lock(mr);
    if (context_state_of(mr) < CONTEXT_CLOSING) enter(mr, CONTEXT_CLOSING);
    while ((mr->waiting > 0 || atomic_load(&mr->packing) > 0) && clock_now_us(mr->env.clock) < deadline_us) {
        if (keeps) keep_for_ever(mr);
        poller_rouse(&mr->poller);
        context_unlock(mr);
        nanosleep(&(struct timespec){.tv_nsec = 100 * 1000}, NULL);
        context_lock(mr);
    }
    context_unlock(mr);
}

void context_close(mr_context *mr, bool alone) {
    context_lock(mr);
    enter(mr, CONTEXT_STOPPING);
    context_unlock(mr);
    progress_thread_join(mr);
    context_lock(mr);
    submit_batches_drop(&mr->groups);
    context_extensions_close(mr);
    core_worker_end(&mr->worker, failure_create(MR_CLOSED, SHUTDOWN_ERROR_TEXT, "", NULL));
    core_worker_leave(&mr->worker, alone);
    describe_fini(mr);
    enter(mr, CONTEXT_DETACHED);
    shm_transport_close(mr->transport); /* ends every call and fails its futures, which another thread may be reading */
    callbacks_end(mr);
    enter(mr, CONTEXT_CLOSED);
    context_left(mr);
}

void context_left(mr_context *mr) {
    bool over = context_state_of(mr) == CONTEXT_CLOSED && mr->view_count == 0 && !mr->kept;
    context_unlock(mr);
    if (over) free_context(mr);
}
