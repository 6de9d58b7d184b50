/* shm_wait.c — waiting of an idle shared-memory transport: spinning, sleeping, or waiting in an event loop; see
 * shm_transport.h. Tested by tests/threads_test.c. */
#include <poll.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/clock.h"
#include "base/failpoint.h"
#include "net/shm/shm_internal.h"

enum { FUTEX_SLICE_US = 10 * 1000 }; /* then sleep in ppoll, which also detects the broker's death, and an interrupt */

static void take_event(const shm_transport *transport) {
    uint64_t rings;
    ssize_t got = read(transport->event_fd, &rings, sizeof rings);
    (void)got; /* an empty counter is no error */
}

/* Sleeps until the doorbell, the broker's socket or death, or the program's descriptor wakes it. True: one of the last
 * two did. */
static bool sleep_in_poll(const shm_transport *transport, int interrupt_fd, int64_t timeout_us) {
    struct pollfd fds[] = {
        {.fd = transport->event_fd, .events = POLLIN},
        {.fd = transport->broker_gone ? -1 : broker_client_fd(transport->host.client), .events = POLLIN},
        {.fd = interrupt_fd, .events = POLLIN}};
    struct timespec timeout = {.tv_sec = timeout_us / 1000000, .tv_nsec = timeout_us % 1000000 * 1000};
    int ready = ppoll(fds, 3, timeout_us < 0 ? NULL : &timeout, NULL);
    if (ready <= 0) return false;
    if (fds[0].revents != 0) take_event(transport);
    return fds[1].revents != 0 || fds[2].revents != 0;
}

/* Stores how the transport is about to sleep, makes every sender ring, and checks once more. False: do not sleep. */
static bool prepare_sleep(shm_transport *transport, doorbell_state how) {
    doorbell_arm(transport->host.self, how);
    while (transport->hot_count > 0) shm_transport_arm(transport, transport->hot[transport->hot_count - 1]);
    if (!doorbell_marked(transport->host.self) && list_empty(&transport->to_visit) && !transport->control_due)
        return true;
    doorbell_disarm(transport->host.self);
    return false;
}

static int64_t until(int64_t deadline_us) {
    if (deadline_us == CLOCK_NEVER_US) return -1;
    int64_t left = deadline_us - clock_now_us(clock_real());
    return left > 0 ? left : 0;
}

/* State that a driver reads while it spins without the lock: only the driver moves a tail, and shared memory stays
 * mapped whatever other threads do with the links. */
typedef struct watch {
    const process_block *self;
    uint32_t count;
    const uint8_t *words[SHM_TRANSPORT_HOT_MAX]; /* where the next record of each hot ring will appear */
    uint64_t patience, held_ticks; /* maximum wait for a held run, and the start of the current wait; 0: none */
    bool impatient;
    shm_ahead ahead;
} watch;

static void watch_begin(watch *watch, shm_transport *transport) {
    watch->ahead = transport->host.ahead;
    transport->host.ahead.lines = 0;
    watch->self = transport->host.self;
    watch->patience = transport->patience;
    watch->held_ticks = 0;
    watch->impatient = false;
    watch->count = transport->hot_count;
    for (uint32_t i = 0; i < transport->hot_count; i++) watch->words[i] = ring_next(&transport->hot[i]->receive);
}

/* Called when only a held run is there. True: it has been waited for long enough. */
static bool has_waited(watch *watch) {
    uint64_t now = clock_ticks();
    if (watch->held_ticks == 0) watch->held_ticks = now;
    watch->impatient = now - watch->held_ticks > watch->patience;
    return watch->impatient;
}

/* Prefetches some lines between two polls. */
static void ask_ahead(shm_ahead *ahead) {
    enum { AT_ONCE = 8 }; /* lines that arrive approximately before the next poll */
    for (int i = 0; i < AT_ONCE && ahead->lines > 0; i++, ahead->lines--) {
        cpu_prefetch_write(ahead->data + ahead->offset);
        ahead->offset += SHM_LINE;
        if (ahead->offset >= ahead->capacity) ahead->offset = 0;
    }
}

static bool watch_sees(void *context) {
    watch *watch = context;
    for (uint32_t i = 0; i < watch->count; i++) {
        uint64_t word = ring_load_word(watch->words[i]);
        if (word != 0 && ((word & RING_HELD) == 0 || has_waited(watch))) return true;
    }
    if (watch->ahead.lines > 0) ask_ahead(&watch->ahead);
    return doorbell_marked(watch->self);
}

/* Makes shm_transport_wait return. Callable from any thread. */
static void rouse(void *away) {
    shm_transport *transport = away;
    doorbell_mark(transport->host.self, PROCESS_BLOCK_BROKER_INDEX); /* costs a poll of the broker's socket */
    doorbell_ring(transport->host.self, transport->event_fd);
}

static void let_go(shm_transport *transport, poller *lock) {
    if (lock != NULL) poller_leave(lock, rouse, transport);
}

static void take_back(poller *lock) {
    if (lock != NULL) poller_return(lock);
}

/* Publishes messages held back, and ends holding. */
static void show(shm_transport *transport) {
    lane_runs *runs = &transport->host.runs;
    if (runs->holder != NULL) lane_show(runs->holder);
    *runs = (lane_runs){0};
}

static bool spin(shm_transport *transport, poller *lock) {
    watch watch;
    watch_begin(&watch, transport);
    const shm_link *last = transport->last;
    const process_block *peer = last == NULL || transport->host.wait.spin_ticks == 0 ? NULL : last->peer_block;
    bool may_nudge =
        last != NULL && broker_client_process_block(transport->host.client) > last->peer_process_block_index;
    let_go(transport, lock);
    bool seen = spin_wait_spin(&transport->host.wait, transport->host.self, peer, may_nudge, watch_sees, &watch);
    take_back(lock);
    transport->host.impatient |= watch.impatient;
    return seen;
}

/* Sleeps after an unsuccessful spin. */
static __attribute__((noinline)) void sleep_for(shm_transport *transport, poller *lock, int64_t timeout_us) {
    int64_t deadline_us = timeout_us < 0 ? CLOCK_NEVER_US : clock_deadline_us(clock_now_us(clock_real()), timeout_us);
    if (!prepare_sleep(transport, DOORBELL_FUTEX)) return;
    FAILPOINT("port.sleep");
    spin_wait_count(&transport->sleeps_futex);
    transport->polls = SHM_TRANSPORT_CLOCK_EVERY; /* time will have passed */
    let_go(transport, lock);
    doorbell_sleep(transport->host.self, timeout_us >= 0 && timeout_us < FUTEX_SLICE_US ? timeout_us : FUTEX_SLICE_US);
    doorbell_disarm(transport->host.self);
    spin_wait_woken(transport->host.self);
    take_back(lock);
    if (doorbell_marked(transport->host.self)) return;
    if (transport->idle_look_us < deadline_us) deadline_us = transport->idle_look_us;
    int64_t left = until(deadline_us);
    if (left == 0 || !prepare_sleep(transport, DOORBELL_LOOP)) return;
    spin_wait_count(&transport->sleeps_loop);
    int interrupt_fd = transport->interrupt_fd; /* read with the lock */
    let_go(transport, lock);
    bool due = sleep_in_poll(transport, interrupt_fd, left);
    doorbell_disarm(transport->host.self);
    take_back(lock);
    transport->control_due |= due;
}

static bool is_due(const shm_transport *transport) {
    return !list_empty(&transport->to_visit) || transport->control_due;
}

void shm_transport_wait(shm_transport *transport, poller *lock, int64_t timeout_us) {
    show(transport);
    if (is_due(transport) || spin(transport, lock) || timeout_us == 0) return;
    sleep_for(transport, lock, timeout_us);
}

void shm_transport_sleep(shm_transport *transport, poller *lock, int64_t timeout_us) {
    show(transport);
    if (!is_due(transport) && timeout_us != 0) sleep_for(transport, lock, timeout_us);
}

bool shm_transport_is_crowded(const shm_transport *transport) { return spin_wait_is_crowded(&transport->host.wait); }

/* ---- In an event loop. */

static void polled_by_loop(void *context) {
    shm_transport *transport = context;
    transport->polls = SHM_TRANSPORT_CLOCK_EVERY;
    doorbell_disarm(transport->host.self);
    take_event(transport);
    while (shm_transport_poll(transport) != 0) {}
}

static void broker_readable(void *context) {
    shm_transport *transport = context;
    transport->control_due = true;
    polled_by_loop(transport);
}

/* Called before the loop sleeps: from now on senders write to the event descriptor. */
static void before_loop_sleeps(void *context) {
    shm_transport *transport = context;
    show(transport);
    while (!prepare_sleep(transport, DOORBELL_LOOP)) {
        while (shm_transport_poll(transport) != 0) {}
    }
    int64_t left = until(transport->idle_look_us);
    event_loop_timer_set(transport->timer, left);
}

mr_status shm_transport_attach(shm_transport *transport, event_loop *loop) {
    MR_ASSERT(transport->watch_event == NULL);
    MR_TRY(event_loop_watch_add(loop, transport->event_fd, polled_by_loop, transport, &transport->watch_event));
    mr_status status = event_loop_watch_add(loop, broker_client_fd(transport->host.client), broker_readable, transport,
                                            &transport->watch_broker);
    if (status != MR_OK) {
        event_loop_watch_remove(transport->watch_event);
        transport->watch_event = NULL;
        return status;
    }
    transport->timer = event_loop_timer_create(loop, polled_by_loop, transport);
    transport->idle = event_loop_idle_add(loop, before_loop_sleeps, transport);
    return MR_OK;
}

void shm_transport_detach(shm_transport *transport) {
    if (transport->watch_event == NULL) return;
    event_loop_idle_remove(transport->idle);
    event_loop_timer_destroy(transport->timer);
    event_loop_watch_remove(transport->watch_broker);
    event_loop_watch_remove(transport->watch_event);
    transport->watch_event = NULL;
    doorbell_disarm(transport->host.self);
}
