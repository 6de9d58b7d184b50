/* zygote_pool.h — the node's side of zygotes (zygote.h): one for each program whose workers are forked, started with
 * the first request for a worker of that program.
 *
 *  none ── zygote_pool_ask ──► warming ── READY ──► warm ── MADE: a worker more
 *                              │                   │
 *              it ends: those  │                   │ it ends: another is started, which is asked for what is still
 *              who wait are    ▼                   ▼ wanted; if a few in a row have made nothing, as on the left
 *              told why      none ◄────────────────┘
 *                              REFUSED, at any time ──► cold: workers of this program are started afresh
 *
 * Requests are numbered. A few are under way at a time and the others counted, so the socket is never full. A zygote
 * is over when its process has ended and its socket has too: only then no copy can still say that it was made.
 *
 * Ownership  a launch spec is borrowed until zygote_pool_drop.
 * Threads  one, that of the loop. No event comes from within zygote_pool_ask and zygote_pool_drop. */
#pragma once
#include <sys/types.h>

#include "net/event_loop.h"
#include "runtime/common/launch_spec.h"

typedef struct zygote_pool zygote_pool;

typedef struct zygote_pool_host { /* what the node does for it; all are called with the context */
    mr_status (*start)(void *context, uint32_t program, const launch_spec *spec, int socket_fd, pid_t *pid);
    void (*kill)(void *context, pid_t pid);                           /* a zygote; zygote_pool_ended follows */
    void (*made)(void *context, uint32_t program, pid_t pid);         /* a worker, a child of this process */
    void (*afresh)(void *context, uint32_t program);                  /* one that must be started otherwise */
    void (*failed)(void *context, uint32_t program, const char *why); /* one that will not be */
} zygote_pool_host;

zygote_pool *zygote_pool_create(event_loop *loop, const zygote_pool_host *host, void *context);
/* zygotes are the node's children, and end as all of them; NULL: a no-op */
void zygote_pool_destroy(zygote_pool *pool);

/* A worker of that program, soon: made, afresh or failed follows, once, also after zygote_pool_drop. */
MR_MUST mr_status zygote_pool_ask(zygote_pool *pool, uint32_t program, const launch_spec *spec);
bool zygote_pool_is_cold(zygote_pool *pool, uint32_t program); /* there is nothing to copy: start its workers afresh */
void zygote_pool_drop(zygote_pool *pool, uint32_t program);    /* no more of it are asked for; its zygote ends */
void zygote_pool_settle(zygote_pool *pool);                    /* what was made by now is told before this returns */
bool zygote_pool_has(zygote_pool *pool, pid_t pid);            /* it is one of the zygotes */
void zygote_pool_ended(zygote_pool *pool, pid_t pid, const char *why); /* one of them: "was killed by …" */
