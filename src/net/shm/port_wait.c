/* port_wait.c — waiting of an idle shared-memory transport: it spins, sleeps, or leaves that to a loop; see port.h.
 * Tested by tests/threads_test.c. */
#include <poll.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/clock.h"
#include "base/failpoint.h"
#include "net/shm/port_core.h"

enum { FUTEX_SLICE_US = 10 * 1000 }; /* then the process sleeps where it also sees its hub die */

static void take_event(port *port) {
    uint64_t rings;
    ssize_t got = read(port->event_fd, &rings, sizeof rings);
    (void)got; /* empty is as good */
}

/* Sleeps where it sees the doorbell, the hub's socket and the hub's death. True: the hub said something. */
static bool sleep_in_poll(port *port, int64_t timeout_us) {
    struct pollfd fds[2] = {{.fd = port->event_fd, .events = POLLIN},
                            {.fd = port->hub_gone ? -1 : guest_fd(port->host.guest), .events = POLLIN}};
    struct timespec timeout = {.tv_sec = timeout_us / 1000000, .tv_nsec = timeout_us % 1000000 * 1000};
    int ready = ppoll(fds, 2, timeout_us < 0 ? NULL : &timeout, NULL);
    if (ready <= 0) return false;
    if (fds[0].revents != 0) take_event(port);
    return fds[1].revents != 0;
}

/* Says how the port is about to sleep, makes every sender ring, and looks once more. False: do not sleep. */
static bool prepare_sleep(port *port, bell_state how) {
    bell_arm(port->host.self, how);
    while (port->hot_count > 0) port_arm(port, port->hot[port->hot_count - 1]);
    if (!bell_marked(port->host.self) && list_empty(&port->todo) && !port->control_due) return true;
    bell_disarm(port->host.self);
    return false;
}

static int64_t until(int64_t deadline_us) {
    if (deadline_us == CLOCK_NEVER_US) return -1;
    int64_t left = deadline_us - clock_now_us(clock_real());
    return left > 0 ? left : 0;
}

/* What a driver looks at while it spins without the lock: only the driver moves a tail, and shared memory stays mapped
 * whatever the other threads do to the links. */
typedef struct watch {
    const station *self;
    uint32_t count;
    const uint8_t *words[PORT_HOT_MAX]; /* by which the next record of each hot ring will be seen */
    uint64_t patience, held_ticks;      /* how long a run may keep us waiting, and since when one does; 0: none does */
    bool impatient;
    port_ahead ahead;
} watch;

static void watch_begin(watch *watch, port *port) {
    watch->ahead = port->host.ahead;
    port->host.ahead.lines = 0;
    watch->self = port->host.self;
    watch->patience = port->patience;
    watch->held_ticks = 0;
    watch->impatient = false;
    watch->count = port->hot_count;
    for (uint32_t i = 0; i < port->hot_count; i++) watch->words[i] = ring_next(&port->hot[i]->receive);
}

/* There is the beginning of a run, and no more. */
static bool has_waited(watch *watch) {
    uint64_t now = clock_ticks();
    if (watch->held_ticks == 0) watch->held_ticks = now;
    watch->impatient = now - watch->held_ticks > watch->patience;
    return watch->impatient;
}

/* Between two looks. */
static void ask_ahead(port_ahead *ahead) {
    enum { AT_ONCE = 8 }; /* what is asked for at once is there before the next look, nearly */
    for (int i = 0; i < AT_ONCE && ahead->lines > 0; i++, ahead->lines--) {
        cpu_prefetch_write(ahead->data + ahead->offset);
        ahead->offset += PORT_LINE;
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
    return bell_marked(watch->self);
}

/* port_wait returns. From any thread. */
static void rouse(void *away) {
    port *port = away;
    bell_mark(port->host.self, STATION_HUB_INDEX); /* costs a look at the hub's socket */
    bell_ring(port->host.self, port->event_fd);
}

static void let_go(port *port, baton *lock) {
    if (lock != NULL) baton_leave(lock, rouse, port);
}

static void take_back(baton *lock) {
    if (lock != NULL) baton_return(lock);
}

/* What is held back leaves, and what comes next does at once. */
static void show(port *port) {
    lane_runs *runs = &port->host.runs;
    if (runs->holder != NULL) lane_show(runs->holder);
    *runs = (lane_runs){0};
}

static bool spin(port *port, baton *lock) {
    watch watch;
    watch_begin(&watch, port);
    const port_link *last = port->last;
    const station *peer = last == NULL || port->host.waiter.spin_ticks == 0 ? NULL : last->peer_station;
    bool may_nudge = last != NULL && guest_station(port->host.guest) > last->peer_station_index;
    let_go(port, lock);
    bool seen = waiter_spin(&port->host.waiter, port->host.self, peer, may_nudge, watch_sees, &watch);
    take_back(lock);
    port->host.impatient |= watch.impatient;
    return seen;
}

/* Nothing came while it was worth spinning. */
static __attribute__((noinline)) void sleep_for(port *port, baton *lock, int64_t timeout_us) {
    int64_t deadline_us = timeout_us < 0 ? CLOCK_NEVER_US : clock_deadline_us(clock_now_us(clock_real()), timeout_us);
    if (!prepare_sleep(port, BELL_FUTEX)) return;
    FAILPOINT("port.sleep");
    port->sleeps_futex++;
    port->polls = PORT_CLOCK_EVERY; /* time will have passed */
    let_go(port, lock);
    bell_sleep(port->host.self, timeout_us >= 0 && timeout_us < FUTEX_SLICE_US ? timeout_us : FUTEX_SLICE_US);
    bell_disarm(port->host.self);
    waiter_woken(port->host.self);
    take_back(lock);
    if (bell_marked(port->host.self)) return;
    if (port->idle_look_us < deadline_us) deadline_us = port->idle_look_us;
    int64_t left = until(deadline_us);
    if (left == 0 || !prepare_sleep(port, BELL_LOOP)) return;
    port->sleeps_loop++;
    let_go(port, lock);
    bool hub_spoke = sleep_in_poll(port, left);
    bell_disarm(port->host.self);
    take_back(lock);
    port->control_due |= hub_spoke;
}

static bool is_due(const port *port) { return !list_empty(&port->todo) || port->control_due; }

void port_wait(port *port, baton *lock, int64_t timeout_us) {
    show(port);
    if (is_due(port) || spin(port, lock) || timeout_us == 0) return;
    sleep_for(port, lock, timeout_us);
}

void port_sleep(port *port, baton *lock, int64_t timeout_us) {
    show(port);
    if (!is_due(port) && timeout_us != 0) sleep_for(port, lock, timeout_us);
}

bool port_is_crowded(const port *port) { return waiter_is_crowded(&port->host.waiter); }

/* ---- In a loop. */

static void polled_by_loop(void *context) {
    port *port = context;
    port->polls = PORT_CLOCK_EVERY;
    bell_disarm(port->host.self);
    take_event(port);
    while (port_poll(port) != 0) {}
}

static void hub_readable(void *context) {
    port *port = context;
    port->control_due = true;
    polled_by_loop(port);
}

/* Before the loop sleeps: whoever sends from now on writes to the event descriptor. */
static void before_loop_sleeps(void *context) {
    port *port = context;
    show(port);
    while (!prepare_sleep(port, BELL_LOOP)) {
        while (port_poll(port) != 0) {}
    }
    int64_t left = until(port->idle_look_us);
    loop_timer_set(port->timer, left);
}

mr_status port_attach(port *port, loop *loop) {
    MR_ASSERT(port->watch_event == NULL);
    MR_TRY(loop_watch_add(loop, port->event_fd, polled_by_loop, port, &port->watch_event));
    mr_status status = loop_watch_add(loop, guest_fd(port->host.guest), hub_readable, port, &port->watch_hub);
    if (status != MR_OK) {
        loop_watch_remove(port->watch_event);
        port->watch_event = NULL;
        return status;
    }
    port->timer = loop_timer_create(loop, polled_by_loop, port);
    port->idle = loop_idle_add(loop, before_loop_sleeps, port);
    return MR_OK;
}

void port_detach(port *port) {
    if (port->watch_event == NULL) return;
    loop_idle_remove(port->idle);
    loop_timer_destroy(port->timer);
    loop_watch_remove(port->watch_hub);
    loop_watch_remove(port->watch_event);
    port->watch_event = NULL;
    bell_disarm(port->host.self);
}
