/* socket_pair.c — see socket_pair.h. */
#include "tests/support/socket_pair.h"

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

int socket_pair_setup(void **state) {
    socket_pair *pair = xcalloc(1, sizeof *pair);
    event_loop *first; /* the first loop opens libuv's pipe for signals, which stays open */
    assert_int_equal(event_loop_create(&first), MR_OK);
    event_loop_destroy(first);
    pair->fds = open_fd_count();
    assert_true(temp_dir_folder(pair->folder));
    snprintf(pair->unix_address, sizeof pair->unix_address, "unix:%s/socket", pair->folder);
    pair->path = pair->unix_address + strlen("unix:");
    pair->addresses[0] = "tcp:127.0.0.1:0";
    pair->addresses[1] = "tcp:[::1]:0";
    pair->addresses[2] = pair->unix_address;
    assert_int_equal(event_loop_create(&pair->loop), MR_OK);
    *state = pair;
    return 0;
}

int socket_pair_setup_shared(void **state) {
    socket_pair_setup(state);
    socket_pair *pair = *state;
    pair->shares = true;
    for (int i = 0; i < SOCKET_PAIR_ADDRESSES; i++) pair->addresses[i] = pair->unix_address;
    return 0;
}

int socket_pair_teardown(void **state) {
    socket_pair *pair = *state;
    socket_pair_down(pair);
    event_loop_destroy(pair->loop);
    assert_int_equal(rmdir(pair->folder), 0);
    assert_int_equal(open_fd_count(), pair->fds);
    free(pair);
    return 0;
}

static void start_in(socket_pair *pair, event_loop *loop, const char *address, const socket_transport_options *server,
                     const socket_transport_options *client) {
    socket_transport_options of_server = server == NULL ? (socket_transport_options){0} : *server;
    socket_transport_options of_client = client == NULL ? (socket_transport_options){0} : *client;
    of_server.shares = of_client.shares = pair->shares;
    /* A busy machine may stop this process for longer than the default timeout, and would then close the link. */
    if (of_server.hello_timeout_us == 0) of_server.hello_timeout_us = SOCKET_END_PATIENCE_US;
    if (of_client.hello_timeout_us == 0) of_client.hello_timeout_us = SOCKET_END_PATIENCE_US;
    assert_true(socket_end_open(&pair->server, loop, &of_server));
    assert_true(socket_end_listen(&pair->server, address));
    assert_true(socket_end_open(&pair->client, pair->loop, &of_client));
}

void socket_pair_start(socket_pair *pair, const char *address, const socket_transport_options *server,
                       const socket_transport_options *client) {
    start_in(pair, pair->loop, address, server, client);
}

void socket_pair_link(socket_pair *pair, const char *address, const socket_transport_options *server,
                      const socket_transport_options *client) {
    socket_pair_start(pair, address, server, client);
    pair->link = socket_end_connect(&pair->client, pair->server.address);
    assert_int_not_equal(pair->link.v, 0);
    WAIT_FOR(pair->loop, pair->client.opened == 1 && pair->server.opened == 1);
    assert_int_equal(pair->client.link.v, pair->link.v);
    assert_int_equal(socket_transport_stats_now(pair->client.transport).pipes, pair->shares);
    assert_int_equal(socket_transport_stats_now(pair->server.transport).pipes, pair->shares);
}

void socket_pair_link_apart(socket_pair *pair, const socket_transport_options *server,
                            const socket_transport_options *client) {
    assert_int_equal(event_loop_create(&pair->other), MR_OK);
    start_in(pair, pair->other, pair->addresses[0], server, client);
    pair->link = socket_end_connect(&pair->client, pair->server.address);
    int64_t give_up_us = clock_now_us(clock_real()) + SOCKET_END_PATIENCE_US;
    while ((pair->client.opened == 0 || pair->server.opened == 0) && clock_now_us(clock_real()) < give_up_us) {
        event_loop_run_once(pair->loop, 1000);
        event_loop_run_once(pair->other, 1000);
        assert_int_equal(pair->client.closed + pair->server.closed, 0);
    }
    assert_true(pair->client.opened == 1 && pair->server.opened == 1);
}

void socket_pair_down(socket_pair *pair) {
    if (pair->client.transport != NULL) socket_end_close(&pair->client);
    if (pair->server.transport != NULL) socket_end_close(&pair->server);
    if (pair->other != NULL) event_loop_destroy(pair->other);
    pair->other = NULL;
}
