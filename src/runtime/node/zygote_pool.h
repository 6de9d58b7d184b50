/* zygote_pool.h — the node's side of zygotes (zygote.h): one for each program whose workers are forked, started with
 * the first request for a worker of that program.
 *
 *  none ── zygote_pool_ask ──► warming ── READY ──► warm ── MADE: a worker more
 *                              │                   │
 *             it ends: waiting │                   │ it ends: if it has forked a worker, another is started for the
 *             requests get the ▼                   ▼ remaining requests; else as on the left
 *             reason         none ◄────────────────┘
 *                              REFUSED, at any time ──► cold: workers of this program are started afresh
 *
 * Requests are numbered. A few are under way at a time and the others counted, so the socket is never full. A zygote is
 * over when both its process and its socket have ended: only then no copy can still send MADE.
 *
 * Ownership  a launch spec is borrowed until zygote_pool_drop.
 * Threads  one, that of the loop. No event comes from within zygote_pool_ask and zygote_pool_drop. */
#pragma once
#include <sys/types.h>

#include "net/event_loop.h"
#include "runtime/common/launch_spec.h"

typedef struct zygote_pool zygote_pool;

typedef struct zygote_pool_host { /* operations of the node; all are called with the context */
    mr_status (*start)(void *context, uint32_t program, const launch_spec *spec, int socket_fd, pid_t *pid);
    void (*kill)(void *context, pid_t pid);                   /* a zygote; zygote_pool_ended follows */
    void (*made)(void *context, uint32_t program, pid_t pid); /* a worker was forked, as a child of this process */
    void (*afresh)(void *context, uint32_t program);          /* a worker must be started without a zygote */
    void (*failed)(void *context, uint32_t program, const char *why); /* a worker cannot be started */
} zygote_pool_host;

zygote_pool *zygote_pool_create(event_loop *loop, const zygote_pool_host *host, void *context);
/* the node ends zygotes like all its children; NULL is a no-op */
void zygote_pool_destroy(zygote_pool *pool);

/* Requests a worker of that program: made, afresh or failed follows once, also after zygote_pool_drop. */
MR_MUST mr_status zygote_pool_ask(zygote_pool *pool, uint32_t program, const launch_spec *spec);
bool zygote_pool_is_cold(zygote_pool *pool, uint32_t program); /* it cannot fork: start workers afresh */
void zygote_pool_drop(zygote_pool *pool, uint32_t program);    /* no more requests follow; the program's zygote ends */
void zygote_pool_settle(zygote_pool *pool);                    /* reports all finished forks before returning */
bool zygote_pool_has(zygote_pool *pool, pid_t pid);            /* the pid is a zygote */
void zygote_pool_ended(zygote_pool *pool, pid_t pid, const char *why); /* a zygote has ended: "was killed by …" */
