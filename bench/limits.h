/* limits.h — limits of the machine, measured without Miniray. The suite `limits` reports these; other suites use them
 * as the reference of their rows, in the same run.
 *
 * Each limit comes in two forms: a plain function, and a bench_fn for bench_pair, whose argument is the structure named
 * beside it. All are called inside a measurement (bench.h). */
#pragma once
#include "bench/bench.h"

/* ---- Copying. */

typedef struct limit_copy {
    size_t size;      /* bytes of one memcpy, repeated with the same source and target */
    unsigned threads; /* each thread with buffers of its own; 0 counts as 1 */
} limit_copy;

double limit_memcpy(const limit_copy *copy, double seconds); /* GB/s of all threads together */
bench_fn limit_memcpy_fn;                                    /* limit_copy; values: GB/s */

/* Copies bytes that another CPU has just written, the upper bound for receiving a message: one thread writes `size`
 * bytes, another copies them, in turns; only the copying counts. Median GB/s. */
double limit_memcpy_across(size_t size, double seconds);
bench_fn limit_memcpy_across_fn; /* limit_copy, one thread; values: GB/s */

/* ---- Waking another process. */

typedef enum limit_wire {
    LIMIT_SPIN,       /* one side polls a word that the other writes */
    LIMIT_FUTEX,      /* futex wait on that word */
    LIMIT_EVENTFD,    /* blocking read */
    LIMIT_UNIX,       /* stream socket, blocking read */
    LIMIT_TCP,        /* loopback, TCP_NODELAY, blocking read */
    LIMIT_UNIX_EPOLL, /* the same with an event loop: epoll, then read */
    LIMIT_TCP_EPOLL,
} limit_wire;

typedef struct limit_trip {
    limit_wire wire;
    bench_place place;
} limit_trip;

typedef struct limit_latency {
    double p50_us, p99_us;
} limit_latency;

/* 8 bytes there and 8 bytes back. */
limit_latency limit_round_trip(const limit_trip *trip, double seconds);
bench_fn limit_round_trip_fn; /* limit_trip; values: p50, p99 of the round trip in µs */
bench_fn limit_one_way_fn;    /* limit_trip; the same halved */

/* ---- Streaming. */

typedef struct limit_flow {
    limit_wire wire; /* LIMIT_UNIX or LIMIT_TCP */
    size_t size;     /* bytes of one message: written whole, read whole into the same buffer */
    bench_place place;
} limit_flow;

double limit_stream(const limit_flow *flow, double seconds); /* GB/s */
bench_fn limit_stream_fn;                                    /* limit_flow; values: GB/s, messages per second */

/* Two connected sockets of the given kind: sides 0 and 1. The caller closes them. */
void limit_sockets(limit_wire wire, int fds[2]);

/* ---- The system. */

typedef enum limit_page { LIMIT_PAGE_ANONYMOUS, LIMIT_PAGE_MEMFD, LIMIT_PAGE_SECOND_MAPPING } limit_page;

double limit_page_us(limit_page page, double seconds); /* first write to a 4 KB page; second mapping: first read */
double limit_fork_us(double seconds);                  /* fork, exit, wait */
double limit_thread_us(double seconds);                /* create, join */
double limit_syscall_us(double seconds);
