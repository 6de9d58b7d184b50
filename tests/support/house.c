/* house.c — see house.h. */
#include "tests/support/house.h"

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

int house_build(house *house) {
    *house = (struct house){0};
    if (!temp_folder(house->folder)) return -1;
    snprintf(house->path, sizeof house->path, "%s/hub", house->folder);
    return loop_create(&house->loop) == MR_OK ? 0 : -1;
}

mr_status house_open(house *house, const hub_options *options) {
    hub_options chosen = options == NULL ? (hub_options){0} : *options;
    chosen.path = house->path;
    if (chosen.arena_bytes == 0) chosen.arena_bytes = 16 << 20;
    return hub_open(house->loop, &chosen, &house->hub);
}

int house_raze(house *house) {
    hub_close(house->hub);
    loop_destroy(house->loop);
    return rmdir(house->folder);
}

/* ---- Visitors. */

static void on_link(void *context, const guest_link *link) {
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

static void on_hub_gone(void *context, const cause *why) {
    visitor *visitor = context;
    visitor->hub_gone_count++;
    visitor->why = *why;
}

static const guest_events visitor_events = {on_link, on_refused, on_resized, on_gone, on_hub_gone};

mr_status visitor_join(visitor *visitor, const char *path, const char *name) {
    *visitor = (struct visitor){.event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
    if (visitor->event_fd < 0) return error_errno("an eventfd");
    mr_status status = guest_join(path, name, visitor->event_fd, HOUSE_PATIENCE_US, &visitor->guest);
    if (status == MR_OK) return MR_OK;
    snprintf(visitor->join_text, sizeof visitor->join_text, "%s", mr_last_error());
    close(visitor->event_fd);
    visitor->guest = NULL;
    return status;
}

void visitor_leave(visitor *visitor) {
    guest_leave(visitor->guest);
    close(visitor->event_fd);
    visitor->guest = NULL;
}

void visitor_poll(visitor *visitor) {
    if (visitor->guest != NULL) guest_poll(visitor->guest, &visitor_events, visitor);
}

void visitor_wait(visitor *visitor, int64_t timeout_us) {
    struct pollfd wait = {.fd = guest_fd(visitor->guest), .events = POLLIN};
    (void)poll(&wait, 1, (int)(timeout_us / 1000));
    visitor_poll(visitor);
}

typedef struct join_call {
    house *house;
    visitor *visitor;
    const char *name;
    mr_status status;
    _Atomic bool done;
} join_call;

static void *join_in_thread(void *argument) {
    join_call *call = argument;
    call->status = visitor_join(call->visitor, call->house->path, call->name);
    atomic_store(&call->done, true);
    loop_wake(call->house->loop);
    return NULL;
}

mr_status house_join(house *house, visitor *visitor, const char *name) {
    join_call call = {.house = house, .visitor = visitor, .name = name};
    pthread_t thread;
    if (pthread_create(&thread, NULL, join_in_thread, &call) != 0) abort();
    while (!atomic_load(&call.done)) loop_run_once(house->loop, 100000);
    pthread_join(thread, NULL);
    return call.status;
}

/* ---- Running. */

void house_pump(house *house, visitor *visitors, size_t count) {
    loop_run_once(house->loop, count == 0 ? 1000 : 0);
    for (size_t i = 0; i < count; i++) visitor_poll(&visitors[i]);
}

bool house_is_empty(house *house) {
    hub_check(house->hub);
    hub_stats stats = hub_stats_now(house->hub);
    return stats.guests == 0 && stats.links == 0 && stats.rings == 0 && stats.used == 0;
}

/* The hub's helper thread looks into /proc and /sys now and then: those do not count. */
static bool is_passing(const char *name) {
    char path[300], target[16] = {0};
    snprintf(path, sizeof path, "/proc/self/fd/%s", name);
    return readlink(path, target, sizeof target - 1) < 0 || strncmp(target, "/proc/", 6) == 0 ||
           strncmp(target, "/sys/", 5) == 0;
}

size_t house_fds(void) {
    size_t count = 0;
    DIR *folder = opendir("/proc/self/fd");
    if (folder == NULL) return SIZE_MAX;
    for (const struct dirent *item; (item = readdir(folder)) != NULL;)
        if (!is_passing(item->d_name)) count++;
    closedir(folder);
    return count;
}
