/* bench_hub.c — see bench_hub.h. */
#include "bench/bench_hub.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "net/shm/hub.h"

enum { ARENA_BYTES = 256 << 20 };

typedef struct start {
    const char *path;
    int ready_fd;
} start;

static void serve(void *argument) {
    start *start = argument;
    loop *loop;
    hub *hub;
    if (loop_create(&loop) != MR_OK ||
        hub_open(loop, &(hub_options){.path = start->path, .arena_bytes = ARENA_BYTES}, &hub) != MR_OK)
        bench_fail("hub: %s", mr_last_error());
    if (write(start->ready_fd, "r", 1) != 1) bench_fail("cannot say that the hub is there");
    loop_run(loop); /* for ever: it is ended by bench_hub_stop, or with its parent */
}

void bench_hub_start(bench_hub *hub) {
    int ready[2];
    char byte;
    strcpy(hub->folder, "/tmp/miniray-bench-XXXXXX");
    if (mkdtemp(hub->folder) == NULL || pipe(ready) != 0) bench_fail("no folder or pipe for a hub");
    snprintf(hub->path, sizeof hub->path, "%s/hub", hub->folder);
    start start = {hub->path, ready[1]};
    hub->pid = bench_child(serve, &start);
    if (read(ready[0], &byte, 1) != 1) bench_fail("the hub did not come");
    close(ready[0]);
    close(ready[1]);
}

void bench_hub_stop(bench_hub *hub) {
    bench_end(hub->pid);
    unlink(hub->path);
    rmdir(hub->folder);
}
