/* role.h — one rank of the parameter scenario, as one process plays it in one stint: it trains (load.h).
 *
 * It is shown all slots, computes, pushes, and takes its time between two steps. */
#pragma once
#include "sim/ps/feed.h"

typedef struct ps_role ps_role;

/* `send` has the context; `feed`: where its data comes from, NULL: it needs none. All borrowed for its life. */
ps_role *ps_role_begin(ps_seat *seat, const env *env, const player *player, ps_feed *feed, uint32_t rank,
                       uint64_t stint, void (*send)(void *context, const char *address, span bytes), void *context);
void ps_role_end(ps_role *role);

void ps_role_take(ps_role *role, span bytes);
/* Another rank says what it has had acknowledged, by slot. It is heard only by one that knows the chart that the
 * speaker knew: what follows from it is asked of servers that have everything that the speaker had acknowledged. */
void ps_role_told(ps_role *role, const chart *known, const uint64_t own[PS_SLOTS_MAX]);
int64_t ps_role_next_us(const ps_role *role);
void ps_role_tick(ps_role *role, int64_t now_us);
/* It has ended this step, and all of it is acknowledged; false: it is in that step, or about to end it. */
bool ps_role_stands(const ps_role *role, uint64_t *step);
bool ps_role_pushes(const ps_role *role); /* something is not acknowledged */
uint64_t ps_role_stint(const ps_role *role);
bool ps_role_done(const ps_role *role); /* all steps, and everything is acknowledged */
