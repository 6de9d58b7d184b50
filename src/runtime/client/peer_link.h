/* peer_link.h — links to other processes, one for each, shared by their users: leases and actors.
 *
 *  peer_links_use ──► opening ── peer_links_opened ──► open ── peer_links_closed ──► closed    (both notify the users)
 *                      └─────────────────────────────────────────────────────────┘
 *
 * Links are found by process and by link in a map. Pure: the transport is given by env. */
#pragma once
#include "base/list.h"
#include "base/map.h"
#include "net/env.h"
#include "runtime/common/name_table.h"

typedef struct peer_link_user { /* embedded in the user of the link */
    list place;
    void (*opened)(struct peer_link_user *user);
    void (*closed)(struct peer_link_user *user, const cause *why); /* the user is removed before this last call */
} peer_link_user;

typedef struct peer_link { /* link to another process */
    uint64_t process;
    link_id link;
    bool open;
    list users;
    uint64_t known[NAME_TABLE_MAX / 64 + 1]; /* a bit for each number whose name the peer knows */
} peer_link;

static inline bool peer_link_knows(const peer_link *link, uint32_t number) {
    return (link->known[number / 64] >> number % 64 & 1) != 0;
}
/* A call that carried the name was answered. Number 0 stands for no name: no effect. */
static inline void peer_link_learn(peer_link *link, uint32_t number) {
    if (number != 0) link->known[number / 64] |= UINT64_C(1) << number % 64;
}

typedef void peer_link_address_fn(void *context, uint64_t process, char *out, size_t size);

typedef struct peer_links {
    const env *env;                /* borrowed */
    peer_link_address_fn *address; /* writes a process's address for the transport */
    void *context;
    map by_process, by_link; /* elements: peer_link; owned */
} peer_links;

void peer_links_init(peer_links *links, const env *env, peer_link_address_fn *address, void *context);
void peer_links_fini(peer_links *links); /* remaining users are not notified */

/* Uses the link to a process, opened if there is none. Fails as the transport's open does. */
MR_MUST mr_status peer_links_use(peer_links *links, uint64_t process, peer_link_user *user, peer_link **out);
void peer_link_leave(peer_link_user *user); /* the link stays open for the next user */

/* Events of links. Links opened by other processes are ignored. */
void peer_links_opened(peer_links *links, link_id link);
void peer_links_closed(peer_links *links, link_id link, const cause *why);

/* In `closed`: whether the link never opened, though the process may be alive. A retry would fail, too. */
bool peer_link_unreachable(const peer_link *link, const cause *why);
