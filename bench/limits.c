/* limits.c — the suite that reports the limits of this machine, and those limits that need no file of their own. */
#include "bench/limits.h"

#include <pthread.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "bench/suites.h"

/* ---- Costs of system calls. */

static double average_us(void (*operation)(void), unsigned batch, double seconds) {
    int64_t start_ns = clock_ns(), end_ns, until_ns = start_ns + (int64_t)(seconds * 1e9);
    uint64_t count = 0;
    do {
        for (unsigned i = 0; i < batch; i++) operation();
        count += batch;
        end_ns = clock_ns();
    } while (end_ns < until_ns);
    return (double)(end_ns - start_ns) / (double)count / 1e3;
}

static void fork_and_wait(void) {
    pid_t pid = fork();
    if (pid == 0) _exit(0);
    if (pid < 0 || waitpid(pid, NULL, 0) != pid) bench_fail("fork and wait");
}

static void *do_nothing(void *argument) { return argument; }

static void create_and_join(void) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, do_nothing, NULL) != 0) bench_fail("no thread to be had");
    pthread_join(thread, NULL);
}

static void cheapest_syscall(void) { syscall(SYS_getppid); }

double limit_fork_us(double seconds) { return average_us(fork_and_wait, 1, seconds); }
double limit_thread_us(double seconds) { return average_us(create_and_join, 1, seconds); }
double limit_syscall_us(double seconds) { return average_us(cheapest_syscall, 1000, seconds); }

static void page_fn(const bench_run *run, const void *argument, double *values) {
    values[0] = limit_page_us(*(const limit_page *)argument, run->seconds);
}
static void fork_fn(const bench_run *run, const void *argument, double *values) {
    values[0] = limit_fork_us(run->seconds);
}
static void thread_fn(const bench_run *run, const void *argument, double *values) {
    values[0] = limit_thread_us(run->seconds);
}
static void syscall_fn(const bench_run *run, const void *argument, double *values) {
    values[0] = limit_syscall_us(run->seconds);
}

/* ---- The suite. */

static void limit(bench *b, const char *name, const char *unit, bench_fn *fn, const void *argument) {
    bench_measure(b, &(bench_pair){.ours = fn, .argument = argument}, &(bench_row){.name = name, .unit = unit}, 1);
}

void limits_bench(bench *b) {
    enum { KB = 1 << 10, MB = 1 << 20 };
    limit(b, "memcpy 64 KB, 1 thread", "GB/s", limit_memcpy_fn, &(limit_copy){64 * KB, 1});
    limit(b, "memcpy 64 KB, 2 threads", "GB/s", limit_memcpy_fn, &(limit_copy){64 * KB, 2});
    limit(b, "memcpy 1 MB, 1 thread", "GB/s", limit_memcpy_fn, &(limit_copy){MB, 1});
    limit(b, "memcpy 1 MB, 2 threads", "GB/s", limit_memcpy_fn, &(limit_copy){MB, 2});
    limit(b, "memcpy 1 MB, just written by another CPU", "GB/s", limit_memcpy_across_fn, &(limit_copy){MB, 1});
    limit(b, "memcpy 256 MB, 1 thread", "GB/s", limit_memcpy_fn, &(limit_copy){256 * MB, 1});
    limit(b, "memcpy 256 MB, 2 threads", "GB/s", limit_memcpy_fn, &(limit_copy){256 * MB, 2});

    limit(b, "one way: spin", "us", limit_one_way_fn, &(limit_trip){LIMIT_SPIN, BENCH_TWO_CPUS});
    limit(b, "one way: futex", "us", limit_one_way_fn, &(limit_trip){LIMIT_FUTEX, BENCH_TWO_CPUS});
    limit(b, "one way: eventfd", "us", limit_one_way_fn, &(limit_trip){LIMIT_EVENTFD, BENCH_TWO_CPUS});
    limit(b, "one way: unix socket", "us", limit_one_way_fn, &(limit_trip){LIMIT_UNIX, BENCH_TWO_CPUS});
    limit(b, "one way: tcp", "us", limit_one_way_fn, &(limit_trip){LIMIT_TCP, BENCH_TWO_CPUS});
    limit(b, "one way: unix socket with epoll", "us", limit_one_way_fn,
          &(limit_trip){LIMIT_UNIX_EPOLL, BENCH_TWO_CPUS});
    limit(b, "one way: tcp with epoll", "us", limit_one_way_fn, &(limit_trip){LIMIT_TCP_EPOLL, BENCH_TWO_CPUS});
    limit(b, "one way, one cpu: futex", "us", limit_one_way_fn, &(limit_trip){LIMIT_FUTEX, BENCH_ONE_CPU});
    limit(b, "one way, one cpu: unix socket", "us", limit_one_way_fn, &(limit_trip){LIMIT_UNIX, BENCH_ONE_CPU});

    limit(b, "stream of 1 MB: tcp", "GB/s", limit_stream_fn, &(limit_flow){LIMIT_TCP, MB, BENCH_TWO_CPUS});
    limit(b, "stream of 1 MB: unix socket", "GB/s", limit_stream_fn, &(limit_flow){LIMIT_UNIX, MB, BENCH_TWO_CPUS});

    limit(b, "fresh page: anonymous", "us", page_fn, &(limit_page){LIMIT_PAGE_ANONYMOUS});
    limit(b, "fresh page: memfd", "us", page_fn, &(limit_page){LIMIT_PAGE_MEMFD});
    limit(b, "fresh page: second mapping of a memfd", "us", page_fn, &(limit_page){LIMIT_PAGE_SECOND_MAPPING});
    limit(b, "fork and wait", "us", fork_fn, NULL);
    limit(b, "thread create and join", "us", thread_fn, NULL);
    limit(b, "syscall", "us", syscall_fn, NULL);
}
