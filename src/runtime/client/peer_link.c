/* peer_link.c — see peer_link.h. */
#include "runtime/client/peer_link.h"

#include <stdlib.h>

#include "base/alloc.h"

enum { ADDRESS_MAX = 64 };

void peer_links_init(peer_links *links, const env *env, peer_link_address_fn *address, void *context) {
    *links = (struct peer_links){.env = env, .address = address, .context = context};
}

void peer_links_fini(peer_links *links) {
    for (map_entry entry; map_next(&links->by_link, 0, &entry) != 0;) {
        peer_link *link = map_remove(&links->by_link, entry.key);
        while (list_pop_front(&link->users) != NULL) {}
        free(link);
    }
    map_fini(&links->by_process);
    map_fini(&links->by_link);
}

static mr_status open_route(peer_links *links, uint64_t process, peer_link **out) {
    char address[ADDRESS_MAX];
    link_id link;
    links->address(links->context, process, address, sizeof address);
    transport transport = links->env->transport;
    MR_TRY(transport.ops->open(transport.self, address, &link));
    peer_link *made = xcalloc_lines(sizeof *made);
    made->process = process;
    made->link = link;
    list_init(&made->users);
    map_put(&links->by_process, process, made);
    map_put(&links->by_link, link.v, made);
    *out = made;
    return MR_OK;
}

mr_status peer_links_use(peer_links *links, uint64_t process, peer_link_user *user, peer_link **out) {
    peer_link *link = map_get(&links->by_process, process);
    if (link == NULL) MR_TRY(open_route(links, process, &link));
    list_push_back(&link->users, &user->place);
    *out = link;
    return MR_OK;
}

void peer_link_leave(peer_link_user *user) { list_remove(&user->place); }

/* A notified user may remove itself and others: each remaining user is notified once. */
void peer_links_opened(peer_links *links, link_id link) {
    peer_link *peer_link = map_get(&links->by_link, link.v);
    if (peer_link == NULL) return;
    peer_link->open = true;
    list told;
    list_init(&told);
    for (list *at; (at = list_pop_front(&peer_link->users)) != NULL;) {
        list_push_back(&told, at);
        peer_link_user *user = container_of(at, peer_link_user, place);
        user->opened(user);
    }
    for (list *at; (at = list_pop_front(&told)) != NULL;) list_push_back(&peer_link->users, at);
}

void peer_links_closed(peer_links *links, link_id link, const cause *why) {
    peer_link *peer_link = map_remove(&links->by_link, link.v);
    if (peer_link == NULL) return;
    map_remove(&links->by_process, peer_link->process);
    for (list *at; (at = list_pop_front(&peer_link->users)) != NULL;) {
        peer_link_user *user = container_of(at, peer_link_user, place);
        user->closed(user, why);
    }
    free(peer_link);
}

bool peer_link_unreachable(const peer_link *link, const cause *why) {
    bool gone = why->status == MR_PEER_DIED || why->status == MR_NOT_FOUND || why->status == MR_CLOSED ||
                why->signal != 0; /* killed, such as with MR_NOMEM by its node */
    return !link->open && !gone;
}
