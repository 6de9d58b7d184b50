/* limits_socket.c — two processes that communicate by the simplest use of each kernel primitive. See limits.h. */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/futex.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/clock.h"
#include "base/cpu.h"
#include "bench/limits.h"

enum { SAMPLES_MAX = 1 << 18, SPIN_BATCH = 32, MESSAGES_MIN = 4 };

/* ---- Sockets. */

static void tcp_pair(int fds[2]) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    int one = 1, listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (listener < 0 || bind(listener, (struct sockaddr *)&address, size) != 0 || listen(listener, 1) != 0 ||
        getsockname(listener, (struct sockaddr *)&address, &size) != 0)
        bench_fail("listen on the loopback: %s", strerror(errno));
    fds[0] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fds[0] < 0 || connect(fds[0], (struct sockaddr *)&address, size) != 0)
        bench_fail("connect over the loopback: %s", strerror(errno));
    fds[1] = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    if (fds[1] < 0) bench_fail("accept: %s", strerror(errno));
    close(listener);
    for (int i = 0; i < 2; i++) setsockopt(fds[i], IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
}

void limit_sockets(limit_wire wire, int fds[2]) {
    if (wire == LIMIT_TCP || wire == LIMIT_TCP_EPOLL)
        tcp_pair(fds);
    else if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) != 0)
        bench_fail("socket pair: %s", strerror(errno));
}

static void write_all(int fd, const uint8_t *data, size_t size) {
    while (size > 0) {
        ssize_t count = write(fd, data, size);
        if (count <= 0) bench_fail("write: %s", strerror(errno));
        data += count;
        size -= (size_t)count;
    }
}

/* False at the end of the stream. */
static bool read_all(int fd, uint8_t *data, size_t size) {
    while (size > 0) {
        ssize_t count = read(fd, data, size);
        if (count < 0) bench_fail("read: %s", strerror(errno));
        if (count == 0) return false;
        data += count;
        size -= (size_t)count;
    }
    return true;
}

/* ---- There and back. */

typedef struct cell { /* one word per side, each on its own cache line */
    _Alignas(128) _Atomic uint32_t word;
} cell;

typedef struct ends { /* state of one pair; both processes have it */
    limit_trip trip;
    cell *cells;   /* shared: that side waits for a change of cells[side] */
    int in[2];     /* descriptor that this side reads */
    int out[2];    /* descriptor that this side writes */
    int epolls[2]; /* used only where has_epoll */
} ends;

static bool has_epoll(limit_wire wire) { return wire == LIMIT_UNIX_EPOLL || wire == LIMIT_TCP_EPOLL; }

static void ends_open(ends *ends, const limit_trip *trip) {
    *ends = (struct ends){.trip = *trip, .cells = bench_shared(2 * sizeof(cell))};
    if (trip->wire == LIMIT_SPIN || trip->wire == LIMIT_FUTEX) return;
    if (trip->wire == LIMIT_EVENTFD) {
        for (int i = 0; i < 2; i++)
            if ((ends->in[i] = eventfd(0, EFD_CLOEXEC)) < 0) bench_fail("eventfd: %s", strerror(errno));
        ends->out[0] = ends->in[1];
        ends->out[1] = ends->in[0];
        return;
    }
    limit_sockets(trip->wire, ends->in);
    memcpy(ends->out, ends->in, sizeof ends->in);
    if (!has_epoll(trip->wire)) return;
    for (int i = 0; i < 2; i++) {
        struct epoll_event event = {.events = EPOLLIN};
        ends->epolls[i] = epoll_create1(EPOLL_CLOEXEC);
        if (ends->epolls[i] < 0 || epoll_ctl(ends->epolls[i], EPOLL_CTL_ADD, ends->in[i], &event) != 0)
            bench_fail("epoll: %s", strerror(errno));
    }
}

static void ring(const ends *ends, unsigned side, uint32_t number) {
    uint64_t eight = number;
    _Atomic uint32_t *word = &ends->cells[1 - side].word;
    switch (ends->trip.wire) {
    case LIMIT_SPIN: atomic_store_explicit(word, number, memory_order_release); return;
    case LIMIT_FUTEX:
        atomic_store_explicit(word, number, memory_order_release);
        syscall(SYS_futex, word, FUTEX_WAKE, 1, NULL, NULL, 0);
        return;
    case LIMIT_EVENTFD: eight = 1; __attribute__((fallthrough));
    case LIMIT_UNIX:
    case LIMIT_TCP:
    case LIMIT_UNIX_EPOLL:
    case LIMIT_TCP_EPOLL: write_all(ends->out[side], (const uint8_t *)&eight, sizeof eight); return;
    }
    MR_UNREACHABLE();
}

/* Waits for `number`; false when the other side is gone. */
static bool await(const ends *ends, unsigned side, uint32_t number) {
    uint64_t eight;
    uint32_t seen;
    _Atomic uint32_t *word = &ends->cells[side].word;
    struct epoll_event event;
    switch (ends->trip.wire) {
    case LIMIT_SPIN:
        while (atomic_load_explicit(word, memory_order_acquire) != number) cpu_relax();
        return true;
    case LIMIT_FUTEX:
        while ((seen = atomic_load_explicit(word, memory_order_acquire)) != number)
            syscall(SYS_futex, word, FUTEX_WAIT, seen, NULL, NULL, 0);
        return true;
    case LIMIT_UNIX_EPOLL:
    case LIMIT_TCP_EPOLL:
        while (epoll_wait(ends->epolls[side], &event, 1, -1) != 1) {}
        __attribute__((fallthrough));
    case LIMIT_EVENTFD:
    case LIMIT_UNIX:
    case LIMIT_TCP: return read_all(ends->in[side], (uint8_t *)&eight, sizeof eight);
    }
    MR_UNREACHABLE();
}

static void echo(void *argument) {
    const ends *ends = argument;
    bench_pin(ends->trip.place, 1);
    for (uint32_t number = 1; await(ends, 1, number); number++) ring(ends, 1, number);
}

limit_latency limit_round_trip(const limit_trip *trip, double seconds) {
    ends ends;
    bench_samples samples;
    ends_open(&ends, trip);
    pid_t pid = bench_child(echo, &ends);
    bench_pin(trip->place, 0);
    bench_samples_init(&samples, SAMPLES_MAX);
    /* A spinning round trip is hardly longer than reading the clock: one sample covers many round trips. */
    unsigned batch = trip->wire == LIMIT_SPIN ? SPIN_BATCH : 1;
    int64_t start_ns = clock_ns(), last_ns = start_ns, now_ns;
    int64_t warm_ns = start_ns + (int64_t)(seconds * 1e8), until_ns = warm_ns + (int64_t)(seconds * 1e9);
    uint32_t number = 0;
    do {
        for (unsigned i = 0; i < batch; i++) {
            ring(&ends, 0, ++number);
            if (!await(&ends, 0, number)) bench_fail("the echo is gone");
        }
        now_ns = clock_ns();
        if (now_ns > warm_ns) bench_samples_add(&samples, (double)(now_ns - last_ns) / batch / 1e3);
        last_ns = now_ns;
    } while (now_ns < until_ns);
    bench_end(pid);
    limit_latency latency = {bench_samples_percentile(&samples, 50), bench_samples_percentile(&samples, 99)};
    bench_samples_fini(&samples);
    return latency;
}

void limit_round_trip_fn(const bench_run *run, const void *argument, double *values) {
    limit_latency latency = limit_round_trip(argument, run->seconds);
    values[0] = latency.p50_us;
    values[1] = latency.p99_us;
}

void limit_one_way_fn(const bench_run *run, const void *argument, double *values) {
    limit_round_trip_fn(run, argument, values);
    values[0] /= 2;
    values[1] /= 2;
}

/* ---- Streaming. */

typedef struct sender {
    const limit_flow *flow;
    double seconds;
    int fds[2];
} sender;

static void send_messages(void *argument) {
    const sender *self = argument;
    close(self->fds[0]);
    bench_pin(self->flow->place, 1);
    const uint8_t *data = bench_memory(self->flow->size);
    int64_t until_ns = clock_ns() + (int64_t)(self->seconds * 1e9);
    for (unsigned count = 0; count < MESSAGES_MIN || clock_ns() < until_ns; count++)
        write_all(self->fds[1], data, self->flow->size);
}

/* The first message only warms up; the rate of the others counts. */
static void stream(const limit_flow *flow, double seconds, double *gigabytes, double *messages) {
    sender sender = {.flow = flow, .seconds = seconds};
    uint8_t *data = bench_memory(flow->size);
    limit_sockets(flow->wire, sender.fds);
    pid_t pid = bench_child(send_messages, &sender);
    close(sender.fds[1]);
    bench_pin(flow->place, 0);
    uint64_t count = 0;
    if (!read_all(sender.fds[0], data, flow->size)) bench_fail("the sender is gone");
    int64_t start_ns = clock_ns();
    while (read_all(sender.fds[0], data, flow->size)) count++;
    double spent_ns = (double)(clock_ns() - start_ns);
    close(sender.fds[0]);
    bench_join(pid);
    *gigabytes = (double)count * (double)flow->size / spent_ns;
    *messages = (double)count * 1e9 / spent_ns;
}

double limit_stream(const limit_flow *flow, double seconds) {
    double gigabytes, messages;
    stream(flow, seconds, &gigabytes, &messages);
    return gigabytes;
}

void limit_stream_fn(const bench_run *run, const void *argument, double *values) {
    stream(argument, run->seconds, &values[0], &values[1]);
}
