/* stream_pair.h — two streams for a test, their loop, and an address of each kind to meet at.
 *
 *   setup ── stream_pair_start ──► both there ── stream_pair_link ──► linked ── stream_pair_down ──► neither ──► …
 *     └───── stream_pair_link_apart: linked, each in a loop of its own, so that one can stand still ─────┘
 *
 * The teardown asserts that whatever the test did, no descriptor and no file is left. */
#pragma once
#include "tests/support/endpoint.h"
#include "tests/support/temp.h"

enum { STREAM_PAIR_ADDRESSES = 3 };

typedef struct stream_pair {
    char folder[TEMP_FOLDER_MAX], unix_address[TEMP_FOLDER_MAX + 16];
    const char *path;                             /* of the unix socket */
    const char *addresses[STREAM_PAIR_ADDRESSES]; /* tcp, tcp over IPv6, unix */
    loop *loop;                                   /* of both, or of the client */
    struct loop *other;                           /* of the server, if they are apart */
    endpoint server, client;
    link_id link; /* the client's */
    size_t fds;
    bool shares; /* both offer ducts */
} stream_pair;

/* For cmocka: *state is the pair. */
int stream_pair_setup(void **state);
int stream_pair_setup_shared(void **state); /* bytes go through shared memory; all addresses are the unix one */
int stream_pair_teardown(void **state);

/* The options are those of the server and of the client; NULL: the usual ones. */
void stream_pair_start(stream_pair *pair, const char *address, const stream_options *server,
                       const stream_options *client);
void stream_pair_link(stream_pair *pair, const char *address, const stream_options *server,
                      const stream_options *client);
void stream_pair_link_apart(stream_pair *pair, const stream_options *server, const stream_options *client);
void stream_pair_down(stream_pair *pair);
