/* nursery.h — the node's side of zygotes (template.h): one for each program whose workers are forked, started with the
 * first request for a worker of that program.
 *
 *   none ── nursery_ask ──► warming ── READY ──► warm ── MADE: a worker more
 *                              │                   │
 *              it ends: those  │                   │ it ends: another is started, which is asked for what is still
 *              who wait are    ▼                   ▼ wanted; if a few in a row have made nothing, as on the left
 *              told why      none ◄────────────────┘
 *                              REFUSED, at any time ──► cold: workers of this program are started afresh
 *
 * Requests are numbered. A few are under way at a time and the others counted, so the socket is never full. A template
 * is over when its process has ended and its socket has too: only then no copy can still say that it was made.
 *
 * Ownership  a recipe is borrowed until nursery_drop.
 * Threads    one, that of the loop. No event comes from within nursery_ask and nursery_drop. */
#pragma once
#include <sys/types.h>

#include "net/loop.h"
#include "runtime/recipe.h"

typedef struct nursery nursery;

typedef struct nursery_host { /* what the node does for it; all are called with the context */
    mr_status (*start)(void *context, uint32_t program, const recipe *recipe, int socket_fd, pid_t *pid);
    void (*kill)(void *context, pid_t pid);                           /* a template; nursery_ended follows */
    void (*made)(void *context, uint32_t program, pid_t pid);         /* a worker, a child of this process */
    void (*afresh)(void *context, uint32_t program);                  /* one that must be started otherwise */
    void (*failed)(void *context, uint32_t program, const char *why); /* one that will not be */
} nursery_host;

nursery *nursery_create(loop *loop, const nursery_host *host, void *context);
void nursery_destroy(nursery *nursery); /* templates are the node's children, and end as all of them; NULL: a no-op */

/* A worker of that program, soon: made, afresh or failed follows, once, also after nursery_drop. */
MR_MUST mr_status nursery_ask(nursery *nursery, uint32_t program, const recipe *recipe);
bool nursery_is_cold(nursery *nursery, uint32_t program); /* there is nothing to copy: start its workers afresh */
void nursery_drop(nursery *nursery, uint32_t program);    /* no more of it are asked for; its template ends */
void nursery_settle(nursery *nursery);                    /* what was made by now is told before this returns */
bool nursery_has(nursery *nursery, pid_t pid);            /* it is one of the templates */
void nursery_ended(nursery *nursery, pid_t pid, const char *why); /* one of them: "was killed by …" */
