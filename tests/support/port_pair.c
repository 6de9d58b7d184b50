/* port_pair.c — see port_pair.h. */
#include "tests/support/port_pair.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void on_open(void *context, link_id link, const peer *peer) {
    port_end *end = context;
    end->opened++;
    end->link = link;
    end->peer = *peer;
}

static void on_message(void *context, link_id link, const message *message) {
    port_end *end = context;
    uint64_t number = UINT64_MAX;
    if (message->head.size >= sizeof number) memcpy(&number, message->head.data, sizeof number);
    if (number != end->next_number++) end->wrong++;
    for (size_t i = sizeof number; i < message->head.size; i++)
        if (message->head.data[i] != (uint8_t)(number + i)) end->wrong++;
    end->messages++;
    if (message->body.size != 0) {
        end->bodies++;
        end->body_size = message->body.size;
        if (message->body.data != NULL && end->expected_body != NULL &&
            memcmp(message->body.data, end->expected_body, message->body.size) != 0)
            end->wrong++;
    }
    if (end->echo && transport_send(end->transport, link, message->head) != MR_OK) end->wrong++;
    if (end->close_on_message) end->transport.ops->close(end->transport.self, link);
}

static void *on_body(void *context, link_id link, span head, uint64_t size) { return ((port_end *)context)->body; }

static void on_room(void *context, link_id link) { ((port_end *)context)->rooms++; }

static void on_closed(void *context, link_id link, const cause *why) {
    port_end *end = context;
    end->closed++;
    end->cause = *why;
}

static const transport_events events = {on_open, on_message, on_body, on_room, on_closed};

mr_status port_end_open(port_end *end, const hub_host *host, const char *name) {
    memset(end, 0, sizeof *end);
    port_options options = {.hub = host->path, .name = name, .ring_idle_us = 50 * 1000};
    MR_TRY(port_open(&options, &events, end, &end->port));
    end->transport = port_transport(end->port);
    return MR_OK;
}

int port_pair_set_up(void **state) {
    port_pair *pair = calloc(1, sizeof *pair);
    hub_host_start(&pair->host, 0, NULL);
    assert_int_equal(port_end_open(&pair->a, &pair->host, "alice"), MR_OK);
    assert_int_equal(port_end_open(&pair->b, &pair->host, "bob"), MR_OK);
    *state = pair;
    return 0;
}

int port_pair_tear_down(void **state) {
    port_pair *pair = *state;
    port_close(pair->a.port);
    port_close(pair->b.port);
    int code = hub_host_stop(&pair->host);
    free(pair);
    return code;
}

bool port_pair_until(port_pair *pair, const unsigned *counter, unsigned value) {
    int64_t deadline = clock_now_us(clock_real()) + PORT_PATIENCE_US;
    while (*counter < value) {
        size_t did = port_poll(pair->a.port) + port_poll(pair->b.port);
        if (did == 0) {
            port_wait(pair->a.port, NULL, 500);
            if (clock_now_us(clock_real()) > deadline) return false;
        }
    }
    return true;
}

void port_pair_join(port_pair *pair) {
    assert_int_equal(pair->a.transport.ops->open(pair->a.transport.self, "shm:bob", &pair->a.link), MR_OK);
    assert_true(port_pair_until(pair, &pair->a.opened, 1));
    assert_true(port_pair_until(pair, &pair->b.opened, 1));
}

mr_status port_end_send(port_end *end, uint64_t number, size_t size) {
    uint8_t *at;
    MR_TRY(end->transport.ops->reserve(end->transport.self, end->link, size, &at));
    memcpy(at, &number, sizeof number);
    for (size_t i = sizeof number; i < size; i++) at[i] = (uint8_t)(number + i);
    end->transport.ops->commit(end->transport.self, end->link, size);
    return MR_OK;
}

void port_pair_await_room(port_pair *pair, const port_end *end) {
    unsigned rooms = end->rooms;
    assert_true(port_pair_until(pair, &end->rooms, rooms + 1));
}

void port_pair_send(port_pair *pair, port_end *end, uint64_t number, size_t size) {
    for (;;) {
        mr_status status = port_end_send(end, number, size);
        if (status == MR_OK) return;
        assert_int_equal(status, MR_BUSY);
        port_pair_await_room(pair, end);
    }
}
