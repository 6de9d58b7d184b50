/* zygote_pool.c — see zygote_pool.h. */
#include "runtime/node/zygote_pool.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"
#include "base/log.h"
#include "base/map.h"
#include "runtime/common/process_limit.h"
#include "runtime/common/zygote.h"

enum { UNDER_WAY_MAX = 8 };

typedef struct zygote {
    zygote_pool *pool;
    uint32_t program;
    const launch_spec *spec; /* borrowed; NULL: dropped */
    pid_t pid;               /* 0: ended, or not started */
    int socket_fd;           /* -1: ended, or not started */
    event_loop_watch *watch;
    bool ready, cold;
    bool failing;    /* the host is being called: must not be freed */
    uint32_t made;   /* workers forked by this process */
    uint32_t wanted; /* requests not sent yet */
    uint32_t last;   /* number of the last request */
    map under_way;   /* numbers of requests in flight */
    char why[400];   /* why the last process ended */
} zygote;

struct zygote_pool {
    event_loop *loop;
    const zygote_pool_host *host;
    void *context;
    map zygotes; /* of zygote, owned, by program */
    map by_pid;  /* the same zygotes while they have a process */
};

/* ---- Requests. */

static void ask(zygote *zygote) {
    while (zygote->ready && zygote->wanted > 0 && zygote->under_way.count < UNDER_WAY_MAX) {
        zygote_request request = {.number = ++zygote->last};
        if (send(zygote->socket_fd, &request, sizeof request, MSG_NOSIGNAL | MSG_DONTWAIT) < 0) return;
        map_put(&zygote->under_way, request.number, zygote);
        zygote->wanted--;
    }
}

static uint32_t take_all_wanted(zygote *zygote) {
    uint32_t count = zygote->wanted + (uint32_t)zygote->under_way.count;
    zygote->wanted = 0;
    map_fini(&zygote->under_way);
    return count;
}

static void fail_all(zygote *zygote, const char *why) {
    const zygote_pool *pool = zygote->pool;
    zygote->failing = true;
    for (uint32_t count = take_all_wanted(zygote); count > 0; count--)
        pool->host->failed(pool->context, zygote->program, why);
    zygote->failing = false;
}

/* ---- Process of a zygote. */

static void hear(void *context);

static void hang_up(zygote *zygote) {
    if (zygote->socket_fd < 0) return;
    event_loop_watch_remove(zygote->watch);
    close(zygote->socket_fd);
    zygote->socket_fd = -1;
}

static mr_status start(zygote *zygote) {
    zygote_pool *pool = zygote->pool;
    int fds[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) != 0)
        return error_errno("cannot create a socket to the zygote of job %u", zygote->program);
    mr_status status = event_loop_watch_add(pool->loop, fds[0], hear, zygote, &zygote->watch);
    if (status != MR_OK) {
        close(fds[0]);
        close(fds[1]);
        return status;
    }
    status = pool->host->start(pool->context, zygote->program, zygote->spec, fds[1], &zygote->pid);
    close(fds[1]);
    zygote->socket_fd = fds[0];
    zygote->ready = false;
    zygote->made = 0;
    if (status == MR_OK) {
        map_put(&pool->by_pid, (uint64_t)zygote->pid, zygote);
        return MR_OK;
    }
    hang_up(zygote);
    zygote->pid = 0;
    return status;
}

static void zygote_free(zygote *zygote) {
    zygote_pool *pool = zygote->pool;
    hang_up(zygote);
    if (zygote->pid != 0) map_remove(&pool->by_pid, (uint64_t)zygote->pid);
    map_remove(&pool->zygotes, zygote->program);
    map_fini(&zygote->under_way);
    free(zygote);
}

/* Both the process and the socket of the zygote have ended. One that has forked nothing is not followed by another at
 * once: the host decides when it asks again. */
static void over(zygote *zygote) {
    if (zygote->spec != NULL && zygote->made > 0) {
        zygote->wanted = take_all_wanted(zygote);
        if (zygote->wanted == 0) return; /* the next request starts another */
        log_warn("%s; starting another", zygote->why);
        if (start(zygote) == MR_OK) return;
        snprintf(zygote->why, sizeof zygote->why, "%s", mr_last_error());
    }
    char why[sizeof zygote->why];
    memcpy(why, zygote->why, sizeof why); /* the host may start another zygote during the call */
    fail_all(zygote, why);
    if (zygote->spec == NULL && zygote->pid == 0 && zygote->socket_fd < 0) zygote_free(zygote);
}

bool zygote_pool_has(zygote_pool *pool, pid_t pid) { return map_get(&pool->by_pid, (uint64_t)pid) != NULL; }

void zygote_pool_ended(zygote_pool *pool, pid_t pid, const char *why) {
    zygote *zygote = map_remove(&pool->by_pid, (uint64_t)pid);
    MR_ASSERT(zygote != NULL);
    zygote->pid = 0;
    zygote->ready = false;
    snprintf(zygote->why, sizeof zygote->why, "the zygote of workers %s", why);
    if (zygote->socket_fd < 0) over(zygote);
}

/* ---- Packets from zygotes. */

static void no_longer(zygote *zygote) {
    hang_up(zygote);
    zygote->ready = false;
    if (zygote->pid == 0)
        over(zygote);
    else
        zygote->pool->host->kill(zygote->pool->context, zygote->pid); /* still runs, but has no socket */
}

static void refused(zygote *zygote, int value) {
    const zygote_pool *pool = zygote->pool;
    uint32_t program = zygote->program;
    zygote->cold = true;
    zygote->ready = false;
    if (value > 0)
        log_info("workers of job %u are started with exec: its zygote has %d threads and cannot fork", program, value);
    else
        log_warn("workers of job %u are started with exec: its zygote could not fork: %s", program, strerror(-value));
    if (zygote->pid != 0) pool->host->kill(pool->context, zygote->pid);
    for (uint32_t count = take_all_wanted(zygote); count > 0; count--) pool->host->afresh(pool->context, program);
}

/* The system starts no more processes at the moment: only this request fails. */
static void lacks_processes(zygote *zygote, const zygote_report *report) {
    const zygote_pool *pool = zygote->pool;
    char limits[2 * PROCESS_LIMIT_TEXT_MAX], why[sizeof limits + 100];
    if (map_remove(&zygote->under_way, report->number) == NULL) return;
    process_limit_text(-report->value, limits, sizeof limits);
    snprintf(why, sizeof why, "the zygote (process %d) could not fork: %s; %s", (int)zygote->pid,
             strerror(-report->value), limits);
    zygote->failing = true;
    pool->host->failed(pool->context, zygote->program, why);
    zygote->failing = false;
    ask(zygote);
}

static void heard(zygote *zygote, const zygote_report *report) {
    const zygote_pool *pool = zygote->pool;
    switch (report->kind) {
    case ZYGOTE_READY:
        zygote->ready = true;
        ask(zygote);
        break;
    case ZYGOTE_MADE:
        if (map_remove(&zygote->under_way, report->number) == NULL) break; /* zygote and copy both report */
        zygote->made++;
        pool->host->made(pool->context, zygote->program, report->value);
        ask(zygote);
        break;
    case ZYGOTE_REFUSED:
        if (process_limit_is(-report->value))
            lacks_processes(zygote, report);
        else if (!zygote->cold)
            refused(zygote, report->value);
        break;
    default: break;
    }
}

/* Reads all packets so far. False: the socket has ended. */
static bool listen_to(zygote *zygote) {
    for (;;) {
        zygote_report report;
        ssize_t got = recv(zygote->socket_fd, &report, sizeof report, MSG_DONTWAIT);
        /* recv returns ECONNRESET once if the zygote ended with unread requests; its earlier packets are still
         * readable. */
        if (got < 0 && (errno == EINTR || errno == ECONNRESET)) continue;
        if (got < 0 && errno == EAGAIN) return true;
        if (got != (ssize_t)sizeof report) return false;
        heard(zygote, &report);
    }
}

static void hear(void *context) {
    zygote *zygote = context;
    if (!listen_to(zygote)) no_longer(zygote);
}

/* A closed socket is left to the event loop. */
void zygote_pool_settle(zygote_pool *pool) {
    map_for_each (slot, &pool->zygotes) {
        zygote *zygote = slot.value;
        if (zygote->socket_fd >= 0) (void)listen_to(zygote);
    }
}

/* ---- Creation and destruction. */

zygote_pool *zygote_pool_create(event_loop *loop, const zygote_pool_host *host, void *context) {
    return XNEW(struct zygote_pool, .loop = loop, .host = host, .context = context);
}

void zygote_pool_destroy(zygote_pool *pool) {
    map_entry entry;
    if (pool == NULL) return;
    while (map_next(&pool->zygotes, 0, &entry) != 0) zygote_free(entry.value);
    map_fini(&pool->zygotes);
    map_fini(&pool->by_pid);
    free(pool);
}

bool zygote_pool_is_cold(zygote_pool *pool, uint32_t program) {
    const zygote *zygote = map_get(&pool->zygotes, program);
    return zygote != NULL && zygote->cold;
}

mr_status zygote_pool_ask(zygote_pool *pool, uint32_t program, const launch_spec *spec) {
    zygote *zygote = map_get(&pool->zygotes, program);
    if (zygote == NULL) {
        zygote = XNEW(struct zygote, .pool = pool, .program = program, .spec = spec, .socket_fd = -1);
        map_put(&pool->zygotes, program, zygote);
    }
    if (zygote->pid == 0 && zygote->socket_fd < 0) MR_TRY(start(zygote));
    zygote->wanted++;
    ask(zygote);
    return MR_OK;
}

void zygote_pool_drop(zygote_pool *pool, uint32_t program) {
    zygote *zygote = map_get(&pool->zygotes, program);
    if (zygote == NULL) return;
    zygote->spec = NULL;
    zygote->ready = false;
    if (zygote->pid != 0)
        pool->host->kill(pool->context, zygote->pid);
    else if (zygote->socket_fd < 0 && !zygote->failing)
        zygote_free(zygote);
}
