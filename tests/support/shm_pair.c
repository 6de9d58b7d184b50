/* shm_pair.c — see shm_pair.h. */
#include "tests/support/shm_pair.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void on_open(void *context, link_id link, const peer *peer) {
    shm_end *end = context;
    end->opened++;
    end->link = link;
    end->peer = *peer;
}

static void on_message(void *context, link_id link, const message *message) {
    shm_end *end = context;
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

static void *on_body(void *context, link_id link, span head, uint64_t size) { return ((shm_end *)context)->body; }

static void on_room(void *context, link_id link) { ((shm_end *)context)->rooms++; }

static void on_closed(void *context, link_id link, const cause *why) {
    shm_end *end = context;
    end->closed++;
    end->cause = *why;
}

static const transport_events events = {on_open, on_message, on_body, on_room, on_closed};

mr_status shm_end_open(shm_end *end, const broker_process *process, const char *name) {
    memset(end, 0, sizeof *end);
    shm_transport_options options = {.broker = process->path, .name = name, .ring_idle_us = 50 * 1000};
    MR_TRY(shm_transport_open(&options, &events, end, &end->shm_transport));
    end->transport = shm_transport_transport(end->shm_transport);
    return MR_OK;
}

int shm_pair_set_up(void **state) {
    shm_pair *pair = calloc(1, sizeof *pair);
    broker_process_start(&pair->process, 0, NULL);
    assert_int_equal(shm_end_open(&pair->a, &pair->process, "alice"), MR_OK);
    assert_int_equal(shm_end_open(&pair->b, &pair->process, "bob"), MR_OK);
    *state = pair;
    return 0;
}

int shm_pair_tear_down(void **state) {
    shm_pair *pair = *state;
    shm_transport_close(pair->a.shm_transport);
    shm_transport_close(pair->b.shm_transport);
    int code = broker_process_stop(&pair->process);
    free(pair);
    return code;
}

bool shm_pair_until(shm_pair *pair, const unsigned *counter, unsigned value) {
    int64_t deadline = clock_now_us(clock_real()) + SHM_PATIENCE_US;
    while (*counter < value) {
        size_t did = shm_transport_poll(pair->a.shm_transport) + shm_transport_poll(pair->b.shm_transport);
        if (did == 0) {
            shm_transport_wait(pair->a.shm_transport, NULL, 500);
            if (clock_now_us(clock_real()) > deadline) return false;
        }
    }
    return true;
}

void shm_pair_join(shm_pair *pair) {
    assert_int_equal(pair->a.transport.ops->open(pair->a.transport.self, "shm:bob", &pair->a.link), MR_OK);
    assert_true(shm_pair_until(pair, &pair->a.opened, 1));
    assert_true(shm_pair_until(pair, &pair->b.opened, 1));
}

mr_status shm_end_send(shm_end *end, uint64_t number, size_t size) {
    uint8_t *at;
    MR_TRY(end->transport.ops->reserve(end->transport.self, end->link, size, &at));
    memcpy(at, &number, sizeof number);
    for (size_t i = sizeof number; i < size; i++) at[i] = (uint8_t)(number + i);
    end->transport.ops->commit(end->transport.self, end->link, size);
    return MR_OK;
}

void shm_pair_await_room(shm_pair *pair, const shm_end *end) {
    unsigned rooms = end->rooms;
    assert_true(shm_pair_until(pair, &end->rooms, rooms + 1));
}

void shm_pair_send(shm_pair *pair, shm_end *end, uint64_t number, size_t size) {
    for (;;) {
        mr_status status = shm_end_send(end, number, size);
        if (status == MR_OK) return;
        assert_int_equal(status, MR_BUSY);
        shm_pair_await_room(pair, end);
    }
}
