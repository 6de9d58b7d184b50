/* socket_pair.h — two socket transports for a test, their event loop, and an address of each kind.
 *
 *   setup ── socket_pair_start ──► both open ── socket_pair_link ──► linked ── socket_pair_down ──► both closed ──► …
 *     └───── socket_pair_link_apart: linked, each in a loop of its own, so that one can pause ─────┘
 *
 * The teardown asserts that no descriptor and no file is left. */
#pragma once
#include "tests/support/socket_end.h"
#include "tests/support/temp_dir.h"

enum { SOCKET_PAIR_ADDRESSES = 3 };

typedef struct socket_pair {
    char folder[TEMP_DIR_FOLDER_MAX], unix_address[TEMP_DIR_FOLDER_MAX + 16];
    const char *path;                             /* path of the unix socket */
    const char *addresses[SOCKET_PAIR_ADDRESSES]; /* tcp, tcp over IPv6, unix */
    event_loop *loop;                             /* loop of both sides, or of the client */
    struct event_loop *other;                     /* loop of the server, if the sides have separate loops */
    socket_end server, client;
    link_id link; /* the client's link */
    size_t fds;
    bool shares; /* both offer shm pipes */
} socket_pair;

/* For cmocka: *state is the pair. */
int socket_pair_setup(void **state);
int socket_pair_setup_shared(void **state); /* bytes go through shared memory; all addresses are the unix one */
int socket_pair_teardown(void **state);

/* Options of the server and of the client; NULL: the defaults. */
void socket_pair_start(socket_pair *pair, const char *address, const socket_transport_options *server,
                       const socket_transport_options *client);
void socket_pair_link(socket_pair *pair, const char *address, const socket_transport_options *server,
                      const socket_transport_options *client);
void socket_pair_link_apart(socket_pair *pair, const socket_transport_options *server,
                            const socket_transport_options *client);
void socket_pair_down(socket_pair *pair);
