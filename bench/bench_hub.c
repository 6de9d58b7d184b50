/* bench_hub.c — see bench_hub.h. */
#include "bench/bench_hub.h"

#include <stdio.h>
#include <unistd.h>

#include "net/shm/hub.h"

enum { ARENA_BYTES = 256 << 20 };

static void serve(void *argument, int ready_fd) {
    const bench_hub *self = argument;
    loop *loop;
    hub *hub;
    if (loop_create(&loop) != MR_OK ||
        hub_open(loop, &(hub_options){.path = self->path, .arena_bytes = ARENA_BYTES}, &hub) != MR_OK)
        bench_fail("hub: %s", mr_last_error());
    bench_ready(ready_fd, "r", 1);
    loop_run(loop); /* for ever: it is ended by bench_hub_stop, or with its parent */
}

void bench_hub_start(bench_hub *hub) {
    char byte;
    bench_folder(hub->folder);
    snprintf(hub->path, sizeof hub->path, "%s/hub", hub->folder);
    hub->pid = bench_server(serve, hub, &byte, 1);
}

void bench_hub_stop(bench_hub *hub) {
    bench_end(hub->pid);
    unlink(hub->path);
    rmdir(hub->folder);
}
