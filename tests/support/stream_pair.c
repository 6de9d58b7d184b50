/* stream_pair.c — see stream_pair.h. */
#include "tests/support/stream_pair.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/alloc.h"

int stream_pair_setup(void **state) {
    stream_pair *pair = xcalloc(1, sizeof *pair);
    loop *first; /* libuv keeps a pipe for signals from the first loop on */
    assert_int_equal(loop_create(&first), MR_OK);
    loop_destroy(first);
    pair->fds = open_fd_count();
    assert_true(temp_folder(pair->folder));
    snprintf(pair->unix_address, sizeof pair->unix_address, "unix:%s/socket", pair->folder);
    pair->path = pair->unix_address + strlen("unix:");
    pair->addresses[0] = "tcp:127.0.0.1:0";
    pair->addresses[1] = "tcp:[::1]:0";
    pair->addresses[2] = pair->unix_address;
    assert_int_equal(loop_create(&pair->loop), MR_OK);
    *state = pair;
    return 0;
}

int stream_pair_setup_shared(void **state) {
    stream_pair_setup(state);
    stream_pair *pair = *state;
    pair->shares = true;
    for (int i = 0; i < STREAM_PAIR_ADDRESSES; i++) pair->addresses[i] = pair->unix_address;
    return 0;
}

int stream_pair_teardown(void **state) {
    stream_pair *pair = *state;
    stream_pair_down(pair);
    loop_destroy(pair->loop);
    assert_int_equal(rmdir(pair->folder), 0);
    assert_int_equal(open_fd_count(), pair->fds);
    free(pair);
    return 0;
}

static void start_in(stream_pair *pair, loop *loop, const char *address, const stream_options *server,
                     const stream_options *client) {
    stream_options of_server = server == NULL ? (stream_options){0} : *server;
    stream_options of_client = client == NULL ? (stream_options){0} : *client;
    of_server.shares = of_client.shares = pair->shares;
    assert_true(endpoint_open(&pair->server, loop, &of_server));
    assert_true(endpoint_listen(&pair->server, address));
    assert_true(endpoint_open(&pair->client, pair->loop, &of_client));
}

void stream_pair_start(stream_pair *pair, const char *address, const stream_options *server,
                       const stream_options *client) {
    start_in(pair, pair->loop, address, server, client);
}

void stream_pair_link(stream_pair *pair, const char *address, const stream_options *server,
                      const stream_options *client) {
    stream_pair_start(pair, address, server, client);
    pair->link = endpoint_connect(&pair->client, pair->server.address);
    assert_int_not_equal(pair->link.v, 0);
    WAIT_FOR(pair->loop, pair->client.opened == 1 && pair->server.opened == 1);
    assert_int_equal(pair->client.link.v, pair->link.v);
    assert_int_equal(stream_stats_now(pair->client.stream).ducts, pair->shares);
    assert_int_equal(stream_stats_now(pair->server.stream).ducts, pair->shares);
}

void stream_pair_link_apart(stream_pair *pair, const stream_options *server, const stream_options *client) {
    assert_int_equal(loop_create(&pair->other), MR_OK);
    start_in(pair, pair->other, pair->addresses[0], server, client);
    pair->link = endpoint_connect(&pair->client, pair->server.address);
    while (pair->client.opened == 0 || pair->server.opened == 0) {
        loop_run_once(pair->loop, 1000);
        loop_run_once(pair->other, 1000);
    }
}

void stream_pair_down(stream_pair *pair) {
    if (pair->client.stream != NULL) endpoint_close(&pair->client);
    if (pair->server.stream != NULL) endpoint_close(&pair->server);
    if (pair->other != NULL) loop_destroy(pair->other);
    pair->other = NULL;
}
