/* route.c — see route.h. */
#include "runtime/route.h"

#include <stdlib.h>

#include "base/alloc.h"

enum { ADDRESS_MAX = 64 };

void routes_init(routes *routes, const env *env, route_address_fn *address, void *context) {
    *routes = (struct routes){.env = env, .address = address, .context = context};
}

void routes_fini(routes *routes) {
    for (map_slot slot; map_next(&routes->by_link, 0, &slot) != 0;) {
        route *route = map_remove(&routes->by_link, slot.key);
        while (list_pop_front(&route->users) != NULL) {}
        free(route);
    }
    map_fini(&routes->by_process);
    map_fini(&routes->by_link);
}

static mr_status open_route(routes *routes, uint64_t process, route **out) {
    char address[ADDRESS_MAX];
    link_id link;
    routes->address(routes->context, process, address, sizeof address);
    transport transport = routes->env->transport;
    MR_TRY(transport.ops->open(transport.self, address, &link));
    route *made = xcalloc_lines(sizeof *made);
    made->process = process;
    made->link = link;
    list_init(&made->users);
    map_put(&routes->by_process, process, made);
    map_put(&routes->by_link, link.v, made);
    *out = made;
    return MR_OK;
}

mr_status routes_use(routes *routes, uint64_t process, route_user *user, route **out) {
    route *route = map_get(&routes->by_process, process);
    if (route == NULL) MR_TRY(open_route(routes, process, &route));
    list_push_back(&route->users, &user->place);
    *out = route;
    return MR_OK;
}

void route_leave(route_user *user) { list_remove(&user->place); }

/* A user that is told may leave, and so may others then: each is told once, whoever is still there. */
void routes_opened(routes *routes, link_id link) {
    route *route = map_get(&routes->by_link, link.v);
    if (route == NULL) return;
    route->open = true;
    list told;
    list_init(&told);
    while (!list_empty(&route->users)) {
        list *at = list_pop_front(&route->users);
        list_push_back(&told, at);
        route_user *user = container_of(at, route_user, place);
        user->opened(user);
    }
    for (list *at; (at = list_pop_front(&told)) != NULL;) list_push_back(&route->users, at);
}

void routes_closed(routes *routes, link_id link, const cause *why) {
    route *route = map_remove(&routes->by_link, link.v);
    if (route == NULL) return;
    map_remove(&routes->by_process, route->process);
    for (list *at; (at = list_pop_front(&route->users)) != NULL;) {
        route_user *user = container_of(at, route_user, place);
        user->closed(user, why);
    }
    free(route);
}

bool route_unreachable(const route *route, const cause *why) {
    bool gone = why->status == MR_PEER_DIED || why->status == MR_NOT_FOUND || why->status == MR_CLOSED;
    return !route->open && !gone;
}
