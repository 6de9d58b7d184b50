/* broker_process.c — see broker_process.h. */
#include "tests/support/broker_process.h"

#include <dirent.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/failpoint.h"
#include "tests/support/test_child.h"

typedef struct setup {
    broker_options options;
    const char *failpoint;
    int stop_fd, ready_fd;
    uint32_t *visits;
    size_t visits_max;
} setup;

static int open_descriptors(void) {
    DIR *folder = opendir("/proc/self/fd");
    int count = 0;
    while (readdir(folder) != NULL) count++;
    closedir(folder);
    return count;
}

static void stop_asked(void *context) { event_loop_stop(context); }

static bool all_gone(const broker *broker) {
    broker_stats stats = broker_stats_now(broker);
    return stats.peers == 0 && stats.links == 0 && stats.rings == 0 && stats.used == 0;
}

static int serve(void *argument) {
    setup *setup = argument;
    event_loop *loop;
    broker *broker;
    event_loop_watch *watch;
    TEST_CHILD_CHECK(event_loop_create(&loop) == MR_OK);
    TEST_CHILD_CHECK(event_loop_watch_add(loop, setup->stop_fd, stop_asked, loop, &watch) == MR_OK);
    TEST_CHILD_CHECK(broker_open(loop, &setup->options, &broker) == MR_OK);
    event_loop_run_once(loop, 0);
    int before = open_descriptors();
    failpoint_disarm_all(); /* counts failpoint visits from here on, since the broker is ready */
    if (setup->failpoint != NULL && failpoint_arm(setup->failpoint) != MR_OK) return 2;
    TEST_CHILD_CHECK(write(setup->ready_fd, "r", 1) == 1);
    event_loop_run(loop);
    event_loop_watch_remove(watch);
    int64_t deadline = clock_now_us(clock_real()) + 2 * 1000 * 1000;
    int after; /* one check suffices in which the broker's helper has no file of /proc open */
    while (((after = open_descriptors()) > before || !all_gone(broker)) && clock_now_us(clock_real()) < deadline)
        event_loop_run_once(loop, 10 * 1000);
    broker_stats stats = broker_stats_now(broker);
    if (!all_gone(broker))
        fprintf(stderr, "hub: left over: %u guests, %u links, %u rings, %llu bytes\n", stats.peers, stats.links,
                stats.rings, (unsigned long long)stats.used);
    TEST_CHILD_CHECK(all_gone(broker));
    if (after > before) fprintf(stderr, "hub: %d descriptors, %d at the beginning\n", after, before);
    TEST_CHILD_CHECK(after <= before);
    broker_close(broker);
    event_loop_destroy(loop);
    for (size_t i = 0; setup->visits != NULL && i < failpoint_count() && i < setup->visits_max; i++)
        setup->visits[i] = failpoint_at(i)->visits;
    return 0;
}

/* Starts the process; false: the process ended before it was ready. */
static bool start(broker_process *process, setup *setup) {
    int stop[2], ready[2];
    assert_int_equal(pipe(stop), 0);
    assert_int_equal(pipe(ready), 0);
    setup->stop_fd = stop[0];
    setup->ready_fd = ready[1];
    fflush(NULL);
    process->pid = fork();
    assert_true(process->pid >= 0);
    if (process->pid == 0) {
        close(stop[1]);
        close(ready[0]);
        int code = serve(setup);
        fflush(NULL);
        _exit(code);
    }
    close(stop[0]);
    close(ready[1]);
    struct pollfd wait = {.fd = ready[0], .events = POLLIN};
    assert_int_equal(poll(&wait, 1, 10 * 1000), 1);
    char byte;
    bool is_ready = read(ready[0], &byte, 1) == 1;
    close(ready[0]);
    process->stop_fd = stop[1];
    return is_ready;
}

/* A failpoint in the broker's helper thread may kill the process before it reports that it is ready; such a start is
 * repeated. */
void broker_process_start(broker_process *process, uint64_t arena_bytes, const char *failpoint) {
    enum { TRIES = 10 };
    assert_true(temp_dir_folder(process->folder));
    snprintf(process->path, sizeof process->path, "%s/hub", process->folder);
    setup setup = {.options = {.path = process->path, .arena_bytes = arena_bytes != 0 ? arena_bytes : 64u << 20},
                   .failpoint = failpoint,
                   .visits = process->visits,
                   .visits_max = process->visits_max};
    for (int i = 0; !start(process, &setup); i++) {
        assert_true(failpoint != NULL && i < TRIES);
        close(process->stop_fd);
        assert_int_equal(test_child_wait(process->pid, 10 * 1000), -SIGKILL);
        unlink(process->path);
    }
}

int broker_process_stop(broker_process *process) {
    close(process->stop_fd);
    int code = test_child_wait(process->pid, 10 * 1000);
    if (code == -SIGKILL) unlink(process->path); /* a killed broker cannot remove its socket */
    if (rmdir(process->folder) != 0 && code == 0) code = 90;
    return code;
}
