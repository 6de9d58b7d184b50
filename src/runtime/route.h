/* route.h — our links to the other processes, one for each, shared by those who use it: leases and actors.
 *
 *   routes_use ──► opening ── routes_opened: users are told ──► open ── routes_closed: users are told ──► gone
 *                     └──────────────────────────────────────────────────┘
 *
 * Found by process and by link, however many there are. Pure: the transport comes in through env. */
#pragma once
#include "base/list.h"
#include "base/map.h"
#include "net/env.h"
#include "runtime/names.h"

typedef struct route_user { /* lives inside what uses the route */
    list place;
    void (*opened)(struct route_user *user);
    void (*closed)(struct route_user *user, const cause *why); /* removed before; the last call */
} route_user;

typedef struct route { /* to another process */
    uint64_t process;
    link_id link;
    bool open;
    list users;
    uint64_t known[NAMES_MAX / 64 + 1]; /* a bit for each number whose name the other side has */
} route;

static inline bool route_knows(const route *route, uint32_t number) {
    return (route->known[number / 64] >> number % 64 & 1) != 0;
}
/* A call that carried the name was answered. 0 is no number: nothing is learnt. */
static inline void route_learn(route *route, uint32_t number) {
    if (number != 0) route->known[number / 64] |= UINT64_C(1) << number % 64;
}

typedef void route_address_fn(void *context, uint64_t process, char *out, size_t size);

typedef struct routes {
    const env *env;            /* borrowed */
    route_address_fn *address; /* of a process, for the transport */
    void *context;
    map by_process, by_link; /* of route; owned */
} routes;

void routes_init(routes *routes, const env *env, route_address_fn *address, void *context);
void routes_fini(routes *routes); /* whoever still uses one is not told */

/* Uses the route to a process, opening it if there is none. Fails as the transport's open does. */
MR_MUST mr_status routes_use(routes *routes, uint64_t process, route_user *user, route **out);
void route_leave(route_user *user); /* the link stays for the next one */

/* What happens to links. Those that others opened are none of ours. */
void routes_opened(routes *routes, link_id link);
void routes_closed(routes *routes, link_id link, const cause *why);

/* In `closed`: the link never opened, though the process may well live. Asking again would not help. */
bool route_unreachable(const route *route, const cause *why);
