/* threads_test.c — several threads of one process make RPCs over one shm transport: one waiting thread polls, the
 * others sleep until their answer arrives. Run under ThreadSanitizer too. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "net/rpc/rpc.h"
#include "net/shm/poller.h"
#include "net/shm/shm_transport.h"
#include "tests/support/broker_process.h"
#include "tests/support/test_child.h"

enum { THREADS = 4, CALLS = 1500, METHOD_DOUBLE = 7 };

typedef struct process { /* a transport with RPC on top */
    env env;
    rng rng;
    rpc *rpc;
    shm_transport *transport;
    poller poller;
    link_id link;
    bool open, closed;
} process;

/* ---- The answering process: one thread. */

static void on_request(void *context, const rpc_call_request *request) {
    process *process = context;
    uint64_t value = 0;
    uint8_t *at;
    if (request->payload.size == sizeof value) memcpy(&value, request->payload.data, sizeof value);
    value *= 2;
    if (rpc_reply_begin(process->rpc, request->token, sizeof value, &at) != MR_OK) return;
    memcpy(at, &value, sizeof value);
    rpc_reply_commit(process->rpc, request->token, sizeof value);
}

static void on_link_open(void *context, link_id link, const peer *peer) {
    process *process = context;
    process->link = link;
    process->open = true;
}

static void on_link_closed(void *context, link_id link, const cause *why) { ((process *)context)->closed = true; }

static const rpc_call_handlers handlers = {
    .on_request = on_request, .on_link_open = on_link_open, .on_link_closed = on_link_closed};

static mr_status process_open(process *process, const char *broker, const char *name) {
    memset(process, 0, sizeof *process);
    poller_init(&process->poller);
    rng_init(&process->rng, 1);
    process->env = (env){.clock = clock_real(), .rng = &process->rng};
    process->rpc = rpc_create(&process->env, &handlers, process);
    mr_status status = shm_transport_open(&(shm_transport_options){.broker = broker, .name = name}, &rpc_events,
                                          process->rpc, &process->transport);
    if (status != MR_OK) {
        rpc_destroy(process->rpc);
        return status;
    }
    process->env.transport = shm_transport_transport(process->transport);
    return MR_OK;
}

static void process_close(process *process) {
    shm_transport_close(process->transport);
    rpc_destroy(process->rpc);
}

typedef struct child_args {
    const char *broker;
    int ready_fd;
} child_args;

static int answer(void *argument) {
    child_args *args = argument;
    process process;
    TEST_CHILD_CHECK(process_open(&process, args->broker, "doubler") == MR_OK);
    TEST_CHILD_CHECK(write(args->ready_fd, "r", 1) == 1);
    while (!process.closed)
        if (shm_transport_poll(process.transport) == 0) shm_transport_wait(process.transport, NULL, 100 * 1000);
    process_close(&process);
    return 0;
}

/* ---- The calling process: many threads. */

typedef struct wait { /* one call of one thread */
    process *process;
    poller_waiter waiter;
    mr_status status;
    uint64_t answer;
} wait;

static void on_done(void *argument, rpc_call_id id, const rpc_call_result *result) {
    wait *wait = argument;
    wait->status = result->status;
    if (result->payload.size == sizeof wait->answer) memcpy(&wait->answer, result->payload.data, sizeof wait->answer);
    poller_finish(&wait->process->poller, &wait->waiter);
}

/* The polling thread: reads the rings with the lock held; shm_transport_wait releases it. */
static void drive(process *process, poller_waiter *mine) {
    while (!mine->done) {
        if (shm_transport_poll(process->transport) == 0)
            shm_transport_wait(process->transport, &process->poller, 10 * 1000);
    }
    poller_pass(&process->poller);
}

static mr_status call_double(process *process, uint64_t value, uint64_t *out) {
    wait wait = {.process = process};
    poller_waiter_init(&wait.waiter);
    poller_lock(&process->poller);
    uint8_t *at;
    mr_status status = rpc_begin(process->rpc, process->link, METHOD_DOUBLE, sizeof value, &at);
    if (status == MR_OK) {
        memcpy(at, &value, sizeof value);
        rpc_commit(process->rpc, 0, process->link, sizeof value, NULL, on_done, &wait);
        while (poller_wait(&process->poller, &wait.waiter, -1) != POLLER_DONE) drive(process, &wait.waiter);
        status = wait.status;
        *out = wait.answer;
    }
    poller_unlock(&process->poller);
    return status;
}

typedef struct caller {
    process *process;
    uint64_t first;
    unsigned wrong;
} caller;

static void *call_often(void *argument) {
    caller *caller = argument;
    for (uint64_t i = 0; i < CALLS; i++) {
        uint64_t answer = 0;
        if (call_double(caller->process, caller->first + i, &answer) != MR_OK || answer != 2 * (caller->first + i))
            caller->wrong++;
    }
    return NULL;
}

static void threads_share_a_port(void **state) {
    broker_process host = {.visits = NULL};
    broker_process_start(&host, 0, NULL);
    int ready[2];
    char byte;
    assert_int_equal(pipe(ready), 0);
    child_args args = {host.path, ready[1]};
    pid_t pid = test_child_start(answer, &args);
    close(ready[1]);
    assert_int_equal(read(ready[0], &byte, 1), 1);
    close(ready[0]);

    process process;
    assert_int_equal(process_open(&process, host.path, "asker"), MR_OK);
    link_id link;
    assert_int_equal(process.env.transport.ops->open(process.env.transport.self, "shm:doubler", &link), MR_OK);
    while (!process.open && !process.closed)
        if (shm_transport_poll(process.transport) == 0) shm_transport_wait(process.transport, NULL, 10 * 1000);
    assert_true(process.open);

    pthread_t threads[THREADS];
    caller callers[THREADS];
    for (unsigned i = 0; i < THREADS; i++) {
        callers[i] = (caller){&process, i * 1000000ull, 0};
        assert_int_equal(pthread_create(&threads[i], NULL, call_often, &callers[i]), 0);
    }
    for (unsigned i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        assert_int_equal(callers[i].wrong, 0);
    }
    assert_int_equal(rpc_stats(process.rpc).answered, THREADS * CALLS);
    process_close(&process);
    assert_int_equal(test_child_wait(pid, 5000), 0);
    assert_int_equal(broker_process_stop(&host), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(threads_share_a_port)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
