/* clerk.h — metadata service: requests to the metadata store arrive as control messages, responses leave at once or
 * later.
 *
 * Everything is answered at once but a WATCH of a version that is still the newest: that one waits until a change
 * answers it, or CLERK_WATCH_US have passed (MR_TIMEOUT). Waiting requests are lost with the process; their senders
 * notice, and ask again.
 *
 *   question ──► answered
 *      └─ WATCH, nothing newer ──► waits ── a change, or time ──► answered
 *
 * Invariants (clerk_check)
 *   1  Every watch that waits has a key and a deadline; there are at most CLERK_WAITING_MAX of them.
 *   2  After a question and after a tick no watch waits for a version that is there.
 *
 * Bounds      CLERK_WAITING_MAX watches wait; one more is answered MR_BUSY.
 * Ownership   the keeper is borrowed for its life. */
#pragma once
#include "base/clock.h"
#include "cluster/keeper.h"
#include "net/transport.h"

enum { CLERK_WAITING_MAX = 1024 };
#define CLERK_WATCH_US INT64_C(4000000)

typedef struct clerk clerk;

/* The answer to what came over `link`; it is borrowed for the call. It may not drive the clerk. */
typedef void clerk_answer_fn(void *context, link_id link, const letter *answer);

clerk *clerk_create(keeper *keeper, clerk_answer_fn *answer, void *context);
void clerk_destroy(clerk *clerk); /* what waits is not answered */

bool clerk_take(clerk *clerk, link_id link, const letter *letter, int64_t now_us); /* false: not for a keeper */
int64_t clerk_next_us(const clerk *clerk);
void clerk_tick(clerk *clerk, int64_t now_us);

void clerk_check(const clerk *clerk); /* asserts the invariants above (base/invariants.h) */
