/* broker_fixture.c — see broker_fixture.h. */
#include "tests/support/broker_fixture.h"

#include <dirent.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/error.h"

int broker_fixture_build(broker_fixture *fixture) {
    *fixture = (struct broker_fixture){0};
    if (!temp_dir_folder(fixture->folder)) return -1;
    snprintf(fixture->path, sizeof fixture->path, "%s/hub", fixture->folder);
    return event_loop_create(&fixture->loop) == MR_OK ? 0 : -1;
}

mr_status broker_fixture_open(broker_fixture *fixture, const broker_options *options) {
    broker_options chosen = options == NULL ? (broker_options){0} : *options;
    chosen.path = fixture->path;
    if (chosen.arena_bytes == 0) chosen.arena_bytes = 16 << 20;
    return broker_open(fixture->loop, &chosen, &fixture->broker);
}

int broker_fixture_raze(broker_fixture *fixture) {
    broker_close(fixture->broker);
    event_loop_destroy(fixture->loop);
    return rmdir(fixture->folder);
}

/* ---- Clients. */

static void on_link(void *context, const broker_client_link *link) {
    visitor *visitor = context;
    visitor->links[visitor->link_count++ % VISITOR_LINKS_MAX] = *link;
    close(link->peer_event_fd);
}

static void on_refused(void *context, uint32_t tag, const cause *why) {
    visitor *visitor = context;
    visitor->refused_count++;
    visitor->refused_tag = tag;
    visitor->why = *why;
}

static void on_resized(void *context, uint32_t link, extent send) {
    visitor *visitor = context;
    visitor->resized_count++;
    visitor->resized_link = link;
    visitor->resized = send;
}

static void on_gone(void *context, uint32_t link, const cause *why) {
    visitor *visitor = context;
    visitor->gone_count++;
    visitor->gone_link = link;
    for (uint32_t i = 0; i < visitor->link_count && i < VISITOR_LINKS_MAX; i++)
        if (visitor->links[i].link == link) visitor->links[i].tag = VISITOR_GONE;
    visitor->why = *why;
}

static void on_broker_gone(void *context, const cause *why) {
    visitor *visitor = context;
    visitor->broker_gone_count++;
    visitor->why = *why;
}

static const broker_client_events visitor_events = {on_link, on_refused, on_resized, on_gone, on_broker_gone};

mr_status visitor_join(visitor *visitor, const char *path, const char *name) {
    *visitor = (struct visitor){.event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
    if (visitor->event_fd < 0) return error_errno("an eventfd");
    mr_status status = broker_client_join(path, name, visitor->event_fd, BROKER_FIXTURE_PATIENCE_US, &visitor->client);
    if (status == MR_OK) return MR_OK;
    snprintf(visitor->join_text, sizeof visitor->join_text, "%s", mr_last_error());
    close(visitor->event_fd);
    visitor->client = NULL;
    return status;
}

void visitor_leave(visitor *visitor) {
    broker_client_leave(visitor->client);
    close(visitor->event_fd);
    visitor->client = NULL;
}

void visitor_poll(visitor *visitor) {
    if (visitor->client != NULL) broker_client_poll(visitor->client, &visitor_events, visitor);
}

void visitor_wait(visitor *visitor, int64_t timeout_us) {
    struct pollfd wait = {.fd = broker_client_fd(visitor->client), .events = POLLIN};
    (void)poll(&wait, 1, (int)(timeout_us / 1000));
    visitor_poll(visitor);
}

typedef struct join_call {
    broker_fixture *fixture;
    visitor *visitor;
    const char *name;
    mr_status status;
    _Atomic bool done;
} join_call;

static void *join_in_thread(void *argument) {
    join_call *call = argument;
    call->status = visitor_join(call->visitor, call->fixture->path, call->name);
    atomic_store(&call->done, true);
    event_loop_wake(call->fixture->loop);
    return NULL;
}

mr_status broker_fixture_join(broker_fixture *fixture, visitor *visitor, const char *name) {
    join_call call = {.fixture = fixture, .visitor = visitor, .name = name};
    pthread_t thread;
    if (pthread_create(&thread, NULL, join_in_thread, &call) != 0) abort();
    while (!atomic_load(&call.done)) event_loop_run_once(fixture->loop, 100000);
    pthread_join(thread, NULL);
    return call.status;
}

/* ---- Running. */

void broker_fixture_pump(broker_fixture *fixture, visitor *visitors, size_t count) {
    event_loop_run_once(fixture->loop, count == 0 ? 1000 : 0);
    for (size_t i = 0; i < count; i++) visitor_poll(&visitors[i]);
}

bool broker_fixture_is_empty(broker_fixture *fixture) {
    broker_check(fixture->broker);
    broker_stats stats = broker_stats_now(fixture->broker);
    return stats.peers == 0 && stats.links == 0 && stats.rings == 0 && stats.used == 0;
}

/* Whether a descriptor does not count: the broker's helper thread opens files of /proc and /sys at times. */
static bool is_passing(const char *name) {
    char path[300], target[16] = {0};
    snprintf(path, sizeof path, "/proc/self/fd/%s", name);
    return readlink(path, target, sizeof target - 1) < 0 || strncmp(target, "/proc/", 6) == 0 ||
           strncmp(target, "/sys/", 5) == 0;
}

size_t broker_fixture_fds(void) {
    size_t count = 0;
    DIR *folder = opendir("/proc/self/fd");
    if (folder == NULL) return SIZE_MAX;
    for (const struct dirent *item; (item = readdir(folder)) != NULL;)
        if (!is_passing(item->d_name)) count++;
    closedir(folder);
    return count;
}
