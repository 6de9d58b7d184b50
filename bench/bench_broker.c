/* bench_broker.c — see bench_broker.h. */
#include "bench/bench_broker.h"

#include <stdio.h>
#include <unistd.h>

#include "net/shm/broker.h"

enum { ARENA_BYTES = 256 << 20 };

static void serve(void *argument, int ready_fd) {
    const bench_broker *self = argument;
    event_loop *loop;
    broker *broker;
    if (event_loop_create(&loop) != MR_OK ||
        broker_open(loop, &(broker_options){.path = self->path, .arena_bytes = ARENA_BYTES}, &broker) != MR_OK)
        bench_fail("hub: %s", mr_last_error());
    bench_ready(ready_fd, "r", 1);
    event_loop_run(loop); /* serves until bench_broker_stop or until its parent dies */
}

void bench_broker_start(bench_broker *broker) {
    char byte;
    bench_folder(broker->folder);
    snprintf(broker->path, sizeof broker->path, "%s/hub", broker->folder);
    broker->pid = bench_server(serve, broker, &byte, 1);
}

void bench_broker_stop(bench_broker *broker) {
    bench_end(broker->pid);
    unlink(broker->path);
    rmdir(broker->folder);
}
