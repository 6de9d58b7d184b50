/* rpc_process_test.c — RPCs between two real processes, over unix sockets, tcp and shared memory: answers, deadlines,
 * cancellation, large bodies, back-pressure, and a peer that is stopped or killed. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/list.h"
#include "tests/support/broker_process.h"
#include "tests/support/rpc_peer.h"
#include "tests/support/test_child.h"

enum { PATIENCE_US = 60 * 1000 * 1000, BODY_MAX = 64 << 20 };

enum {                 /* methods of the server */
       METHOD_ECHO,    /* answers with the payload, and with the body if there is one */
       METHOD_HOLD,    /* never answers */
       METHOD_CANCELS, /* answers with the number of cancellations it has seen */
       METHOD_BODY,    /* answers with a body of the size in the payload (u64) */
       METHOD_DIE,     /* kills itself with SIGKILL */
};

/* Fills a body word by word, since a sanitizer makes each store expensive. Sizes are multiples of eight. */
static void fill(uint8_t *body, size_t size) {
    for (size_t i = 0; i < size; i += 8) memcpy(body + i, &(uint64_t){i * UINT64_C(0x9e3779b97f4a7c15)}, 8);
}

/* ---- The server. */

typedef struct server {
    rpc_peer_wire wire;
    const char *broker;
    int address_fd; /* the server writes its address there */
    rpc_peer peer;
    list waiting; /* answers that wait for room in the link */
    uint8_t *body;
    uint64_t cancels, links;
    bool had_links;
} server;

typedef struct answer {
    list item;
    rpc_call_token token;
    uint8_t *body;
    size_t size, body_size;
    uint8_t payload[];
} answer;

static void free_body(void *argument, mr_status status) { free(argument); }

/* Sends an answer, and frees it unless the link is full. */
static void try_answer(server *server, answer *answer) {
    uint8_t *payload;
    mr_status status = rpc_reply_begin(server->peer.rpc, answer->token, answer->size, &payload);
    if (status == MR_BUSY) {
        list_push_back(&server->waiting, &answer->item);
        return;
    }
    if (status == MR_OK) {
        if (answer->size != 0) memcpy(payload, answer->payload, answer->size);
        if (answer->body == NULL)
            rpc_reply_commit(server->peer.rpc, answer->token, answer->size);
        else
            rpc_reply_commit_body(server->peer.rpc, answer->token, answer->size,
                                  span_of(answer->body, answer->body_size), free_body, answer->body);
    } else {
        free(answer->body);
    }
    free(answer);
}

static void on_request(void *context, const rpc_call_request *request) {
    server *server = context;
    if (request->method == METHOD_DIE) raise(SIGKILL);
    if (request->method == METHOD_HOLD) return;
    answer *answer = xcalloc(1, sizeof *answer + request->payload.size + 8);
    answer->token = request->token;
    answer->size = request->payload.size;
    if (request->payload.size != 0) memcpy(answer->payload, request->payload.data, request->payload.size);
    if (request->method == METHOD_CANCELS) {
        memcpy(answer->payload, &server->cancels, 8);
        answer->size = 8;
    } else if (request->method == METHOD_BODY) {
        memcpy(&answer->body_size, request->payload.data, 8);
        answer->body = xmalloc(answer->body_size);
        fill(answer->body, answer->body_size);
    } else if (request->body.size != 0) {
        answer->body = server->body; /* the answer owns the body now */
        answer->body_size = request->body.size;
        server->body = NULL;
    }
    try_answer(server, answer);
}

static void *on_body(void *context, link_id link, uint32_t method, span payload, uint64_t size) {
    server *server = context;
    return size > BODY_MAX ? NULL : (server->body = xmalloc(size));
}

static void on_cancel(void *context, rpc_call_token token) { ((server *)context)->cancels++; }

static void on_room(void *context, link_id link) {
    server *server = context;
    list waiting;
    list_init(&waiting);
    for (list *item; (item = list_pop_front(&server->waiting)) != NULL;) list_push_back(&waiting, item);
    for (list *item; (item = list_pop_front(&waiting)) != NULL;) try_answer(server, container_of(item, answer, item));
}

static void on_server_link(void *context, link_id link, const peer *peer) {
    server *server = context;
    server->links++;
    server->had_links = true;
}

static void on_server_unlink(void *context, link_id link, const cause *why) {
    server *server = context;
    server->links--;
    free(server->body);
    server->body = NULL;
}

static const rpc_call_handlers server_handlers = {.on_request = on_request,
                                                  .on_cancel = on_cancel,
                                                  .on_body = on_body,
                                                  .on_room = on_room,
                                                  .on_link_open = on_server_link,
                                                  .on_link_closed = on_server_unlink};

static int serve(void *argument) {
    server *server = argument;
    list_init(&server->waiting);
    TEST_CHILD_CHECK(rpc_peer_open(&server->peer, server->wire, server->broker, "server", &server_handlers, server) ==
                     MR_OK);
    char address[ADDRESS_TEXT_MAX] = "shm:server", asked[ADDRESS_TEXT_MAX] = "tcp:127.0.0.1:0";
    if (server->wire == WIRE_UNIX) snprintf(asked, sizeof asked, "unix:%s.call", server->broker);
    if (server->wire != WIRE_SHM)
        TEST_CHILD_CHECK(socket_transport_listen(server->peer.transport, asked, address) == MR_OK);
    TEST_CHILD_CHECK(write(server->address_fd, address, sizeof address) == sizeof address);
    while (!server->had_links || server->links > 0) rpc_peer_turn(&server->peer, 1000 * 1000);
    for (list *item; (item = list_pop_front(&server->waiting)) != NULL;) {
        answer *answer = container_of(item, struct answer, item);
        free(answer->body);
        free(answer);
    }
    rpc_peer_close(&server->peer);
    return 0;
}

/* ---- The client. */

typedef struct client {
    rpc_peer_wire wire;
    broker_process broker;
    server server;
    pid_t server_pid;
    rpc_peer peer;
    link_id link;
    unsigned opened, closed, rooms;
    cause why;
} client;

typedef struct outcome {
    unsigned count;
    mr_status status;
    char text[CAUSE_TEXT_MAX];
    size_t size;
    uint64_t value; /* the first bytes of the payload */
    cause why;
    uint8_t *body; /* owned */
    size_t body_size;
    unsigned sents;
} outcome;

static void on_link_open(void *context, link_id link, const peer *peer) { ((client *)context)->opened++; }
static void on_link_closed(void *context, link_id link, const cause *why) {
    client *client = context;
    client->closed++;
    client->why = *why;
}
static void on_client_room(void *context, link_id link) { ((client *)context)->rooms++; }
static void refuse_request(void *context, const rpc_call_request *request) { abort(); }

static const rpc_call_handlers client_handlers = {.on_request = refuse_request,
                                                  .on_link_open = on_link_open,
                                                  .on_link_closed = on_link_closed,
                                                  .on_room = on_client_room};

static bool until(client *client, const unsigned *counter, unsigned value) {
    int64_t deadline_us = clock_now_us(clock_real()) + PATIENCE_US;
    while (*counter < value) {
        rpc_peer_turn(&client->peer, 100 * 1000);
        if (clock_now_us(clock_real()) > deadline_us) return false;
    }
    return true;
}

static client *client_open(rpc_peer_wire wire) {
    client *client = xcalloc(1, sizeof *client);
    client->wire = wire;
    broker_process_start(&client->broker, 0, NULL); /* the broker's folder also contains the unix socket */
    int fds[2];
    assert_int_equal(pipe(fds), 0);
    client->server = (server){.wire = wire, .broker = client->broker.path, .address_fd = fds[1]};
    client->server_pid = test_child_start(serve, &client->server);
    close(fds[1]);
    char address[ADDRESS_TEXT_MAX];
    assert_int_equal(read(fds[0], address, sizeof address), sizeof address);
    close(fds[0]);
    assert_int_equal(rpc_peer_open(&client->peer, wire, client->broker.path, "client", &client_handlers, client),
                     MR_OK);
    transport transport = client->peer.env.transport;
    assert_int_equal(transport.ops->open(transport.self, address, &client->link), MR_OK);
    assert_true(until(client, &client->opened, 1));
    return client;
}

static void client_close(client *client, int server_code) {
    rpc_peer_close(&client->peer);
    assert_int_equal(test_child_wait(client->server_pid, 20000), server_code);
    if (server_code != 0 && client->wire == WIRE_UNIX) { /* a killed server cannot remove its socket */
        char path[sizeof client->broker.path + 8];
        snprintf(path, sizeof path, "%s.call", client->broker.path);
        assert_int_equal(unlink(path), 0);
    }
    assert_int_equal(broker_process_stop(&client->broker), 0);
    free(client);
}

static void done(void *argument, rpc_call_id id, const rpc_call_result *result) {
    outcome *outcome = argument;
    outcome->count++;
    outcome->status = result->status;
    outcome->size = result->payload.size;
    if (result->payload.size >= 8) memcpy(&outcome->value, result->payload.data, 8);
    if (result->why != NULL) outcome->why = *result->why;
    assert_true(result->body.size == 0 || result->body.data == outcome->body);
    outcome->body_size = result->body.size;
}

static void *name_body(void *argument, rpc_call_id id, span payload, uint64_t size) {
    outcome *outcome = argument;
    return outcome->body = xmalloc(size);
}

static void sent(void *argument, mr_status status) { ((outcome *)argument)->sents++; }

static mr_status ask(client *client, uint32_t method, uint64_t value, int64_t timeout_us, outcome *outcome) {
    uint8_t *payload;
    MR_TRY(rpc_begin(client->peer.rpc, client->link, method, 8, &payload));
    memcpy(payload, &value, 8);
    *outcome = (struct outcome){0};
    rpc_call_options options = {.timeout_us = timeout_us, .on_body = name_body};
    rpc_commit(client->peer.rpc, clock_now_us(clock_real()), client->link, 8, &options, done, outcome);
    return MR_OK;
}

static void assert_echo(client *client) {
    outcome outcome;
    assert_int_equal(ask(client, METHOD_ECHO, 4711, 0, &outcome), MR_OK);
    assert_true(until(client, &outcome.count, 1));
    assert_int_equal(outcome.status, MR_OK);
    assert_int_equal(outcome.value, 4711);
}

/* ---- The tests, over each wire. */

static void deadlines_and_cancellations(void **state) {
    for (rpc_peer_wire wire = 0; wire < WIRE_COUNT; wire++) {
        client *client = client_open(wire);
        assert_echo(client);
        outcome late, given_up, count;
        assert_int_equal(ask(client, METHOD_HOLD, 1, 20 * 1000, &late), MR_OK);
        assert_true(until(client, &late.count, 1));
        assert_int_equal(late.status, MR_TIMEOUT);
        assert_echo(client); /* this call reuses the place, which tells the server that the first call is over */

        uint8_t *payload;
        assert_int_equal(rpc_begin(client->peer.rpc, client->link, METHOD_HOLD, 0, &payload), MR_OK);
        given_up = (outcome){0};
        rpc_call_id id = rpc_commit(client->peer.rpc, 0, client->link, 0, NULL, done, &given_up);
        assert_echo(client);
        assert_int_equal(rpc_cancel(client->peer.rpc, id), MR_OK);
        assert_int_equal(given_up.count, 1);
        assert_int_equal(given_up.status, MR_CANCELLED);
        assert_int_equal(ask(client, METHOD_CANCELS, 0, 0, &count), MR_OK);
        assert_true(until(client, &count.count, 1));
        assert_int_equal(count.value, 2);
        client_close(client, 0);
    }
}

static void a_killed_peer_ends_its_calls_with_the_cause(void **state) {
    enum { CALLS = 10 };
    for (rpc_peer_wire wire = 0; wire < WIRE_COUNT; wire++) {
        client *client = client_open(wire);
        outcome outcomes[CALLS], last;
        for (int i = 0; i < CALLS; i++) assert_int_equal(ask(client, METHOD_HOLD, 1, 0, &outcomes[i]), MR_OK);
        assert_echo(client);
        int64_t before_us = clock_now_us(clock_real());
        assert_int_equal(ask(client, METHOD_DIE, 1, 0, &last), MR_OK);
        assert_true(until(client, &last.count, 1));
        assert_true(clock_now_us(clock_real()) - before_us < 1000 * 1000); /* ten times the bar */
        for (int i = 0; i < CALLS; i++) {
            assert_int_equal(outcomes[i].count, 1);
            assert_int_equal(outcomes[i].status, MR_PEER_DIED);
            assert_int_equal(outcomes[i].why.status, MR_PEER_DIED);
            assert_true(strlen(outcomes[i].why.text) > 0);
            assert_int_equal(outcomes[i].why.pid, client->server_pid);
            if (wire == WIRE_SHM) assert_int_equal(outcomes[i].why.signal, SIGKILL); /* the broker reports the cause */
        }
        assert_int_equal(client->closed, 1);
        assert_int_equal(rpc_open_count(client->peer.rpc), 0);
        outcome after;
        assert_int_equal(ask(client, METHOD_ECHO, 1, 0, &after), MR_CLOSED);
        client_close(client, -SIGKILL);
    }
}

static void a_stopped_peer_costs_deadlines_and_not_the_link(void **state) {
    for (rpc_peer_wire wire = 0; wire < WIRE_COUNT; wire++) {
        client *client = client_open(wire);
        assert_echo(client);
        assert_int_equal(kill(client->server_pid, SIGSTOP), 0);
        outcome outcome;
        assert_int_equal(ask(client, METHOD_ECHO, 1, 50 * 1000, &outcome), MR_OK);
        assert_true(until(client, &outcome.count, 1));
        assert_int_equal(outcome.status, MR_TIMEOUT);
        assert_int_equal(kill(client->server_pid, SIGCONT), 0);
        assert_echo(client);
        client_close(client, 0);
    }
}

static void large_bodies_go_there_and_back(void **state) {
    enum { SIZE = 16 << 20 };
    uint8_t *body = xmalloc(SIZE);
    fill(body, SIZE);
    for (rpc_peer_wire wire = 0; wire < WIRE_COUNT; wire++) {
        client *client = client_open(wire);
        outcome outcome = {0};
        uint8_t *payload;
        assert_int_equal(rpc_begin(client->peer.rpc, client->link, METHOD_ECHO, 0, &payload), MR_OK);
        rpc_commit_body(client->peer.rpc, 0, client->link, 0, span_of(body, SIZE), sent,
                        &(rpc_call_options){.on_body = name_body}, done, &outcome);
        assert_true(until(client, &outcome.count, 1));
        assert_int_equal(outcome.status, MR_OK);
        assert_int_equal(outcome.sents, 1);
        assert_int_equal(outcome.body_size, SIZE);
        assert_memory_equal(outcome.body, body, SIZE);
        free(outcome.body);
        client_close(client, 0);
    }
    free(body);
}

/* Pieces leave at once only through shared memory; over other transports, or without room, the call is unchanged. */
static void a_body_in_pieces_leaves_at_once_or_not_at_all(void **state) {
    enum { SIZE = 10 * 1000, MORE = 16 << 20 };
    uint8_t *body = xmalloc(MORE);
    fill(body, MORE);
    for (rpc_peer_wire wire = 0; wire < WIRE_COUNT; wire++) {
        client *client = client_open(wire);
        bool here = wire == WIRE_SHM;
        for (int i = 0; i < 3; i++) {
            outcome outcome = {0};
            uint8_t *payload;
            rpc_call_id id;
            size_t size = i == 1 ? MORE : SIZE;
            span pieces[] = {span_of(body, 1), span_of(body + 1, 99), span_of(body + 100, size - 100)};
            assert_int_equal(rpc_begin(client->peer.rpc, client->link, METHOD_ECHO, 0, &payload), MR_OK);
            bool left = rpc_commit_now(client->peer.rpc, client->link, 0, pieces, 3, name_body, done, &outcome, &id);
            assert_int_equal(left, here && size == SIZE);
            if (!left)
                rpc_commit_body(client->peer.rpc, 0, client->link, 0, span_of(body, size), sent,
                                &(rpc_call_options){.on_body = name_body}, done, &outcome);
            assert_true(until(client, &outcome.count, 1));
            assert_int_equal(outcome.status, MR_OK);
            assert_int_equal(outcome.sents, left ? 0 : 1);
            assert_int_equal(outcome.body_size, size);
            assert_memory_equal(outcome.body, body, size);
            free(outcome.body);
        }
        client_close(client, 0);
    }
    free(body);
}

/* The caller cancels a call whose answer is still in flight: the call ends at once, and the link continues. */
static void a_call_is_given_up_in_the_middle_of_a_body(void **state) {
    enum { SIZE = 16 << 20 }; /* the server sends nothing while it fills them, and must not be suspected */
    for (rpc_peer_wire wire = 0; wire < WIRE_COUNT; wire++) {
        client *client = client_open(wire);
        outcome outcome;
        assert_int_equal(ask(client, METHOD_BODY, SIZE, 0, &outcome), MR_OK);
        int64_t deadline_us = clock_now_us(clock_real()) + PATIENCE_US;
        while (outcome.body == NULL && clock_now_us(clock_real()) < deadline_us) /* until the body begins to arrive */
            rpc_peer_turn(&client->peer, 100 * 1000);
        assert_non_null(outcome.body);
        if (outcome.count == 0) { /* the whole body may have arrived at once */
            rpc_call_id id = {.number = RPC_CALL_WINDOW, .link = client->link};
            assert_int_equal(rpc_cancel(client->peer.rpc, id), MR_OK);
            free(outcome.body);
            outcome.body = NULL;
        }
        assert_echo(client);
        assert_int_equal(outcome.count, 1);
        free(outcome.body);
        client_close(client, 0);
    }
}

static void many_calls_meet_full_links(void **state) {
    enum { CALLS = 20000 };
    outcome *outcomes = xcalloc(CALLS, sizeof *outcomes);
    for (rpc_peer_wire wire = 0; wire < WIRE_COUNT; wire++) {
        client *client = client_open(wire);
        for (unsigned i = 0; i < CALLS; i++) {
            unsigned rooms = client->rooms;
            mr_status status;
            while ((status = ask(client, METHOD_ECHO, i, 0, &outcomes[i])) == MR_BUSY) {
                assert_true(until(client, &client->rooms, rooms + 1));
                rooms = client->rooms;
            }
            assert_int_equal(status, MR_OK);
        }
        assert_true(client->rooms > 0);
        for (unsigned i = 0; i < CALLS; i++) {
            assert_true(until(client, &outcomes[i].count, 1));
            assert_int_equal(outcomes[i].status, MR_OK);
            assert_int_equal(outcomes[i].value, i);
        }
        client_close(client, 0);
    }
    free(outcomes);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(deadlines_and_cancellations),
        cmocka_unit_test(a_killed_peer_ends_its_calls_with_the_cause),
        cmocka_unit_test(a_stopped_peer_costs_deadlines_and_not_the_link),
        cmocka_unit_test(large_bodies_go_there_and_back),
        cmocka_unit_test(a_body_in_pieces_leaves_at_once_or_not_at_all),
        cmocka_unit_test(a_call_is_given_up_in_the_middle_of_a_body),
        cmocka_unit_test(many_calls_meet_full_links),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
