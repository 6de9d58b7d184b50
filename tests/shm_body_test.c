/* shm_body_test.c — the shared-memory transport, with a real broker: bodies arrive complete, in the requested
 * memory. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "net/shm/lane.h"
#include "tests/support/shm_pair.h"

typedef struct sent {
    unsigned count;
    mr_status status;
} sent;

static void body_sent(void *argument, mr_status status) {
    sent *sent = argument;
    sent->count++;
    sent->status = status;
}

static void send_body(shm_pair *pair, shm_end *end, uint64_t number, span body, sent *sent) {
    uint8_t *at;
    for (;;) {
        mr_status status = end->transport.ops->reserve(end->transport.self, end->link, sizeof number, &at);
        if (status == MR_OK) break;
        assert_int_equal(status, MR_BUSY);
        shm_pair_await_room(pair, end);
    }
    memcpy(at, &number, sizeof number);
    end->transport.ops->commit_body(end->transport.self, end->link, sizeof number, body, body_sent, sent);
}

static void bodies_of_every_size_arrive_where_they_are_wanted(void **state) {
    shm_pair *pair = *state;
    shm_pair_join(pair);
    static const size_t sizes[] = {0, 1, 7, 100, 4096, 65536, 1000001, 20u << 20};
    uint8_t *out = malloc(20u << 20), *in = malloc(20u << 20);
    for (size_t i = 0; i < 20u << 20; i++) out[i] = (uint8_t)(i * 2654435761u >> 13);
    pair->b.body = in;
    pair->b.expected_body = out;
    for (unsigned i = 0; i < 8; i++) {
        sent sent = {0};
        memset(in, 0, sizes[i]);
        send_body(pair, &pair->a, i, span_of(out, sizes[i]), &sent);
        assert_true(shm_pair_until(pair, &pair->b.messages, i + 1));
        assert_true(shm_pair_until(pair, &sent.count, 1));
        assert_int_equal(sent.status, MR_OK);
        assert_int_equal(pair->b.wrong, 0);
        if (sizes[i] != 0) {
            assert_int_equal(pair->b.body_size, sizes[i]);
            assert_memory_equal(in, out, sizes[i]);
        }
    }
    assert_int_equal(pair->b.bodies, 7);
    free(out);
    free(in);
}

/* Sends a body in three pieces, one of them empty. */
static bool send_now(shm_end *end, uint64_t number, span body) {
    uint8_t *at;
    mr_status status = end->transport.ops->reserve(end->transport.self, end->link, sizeof number, &at);
    if (status == MR_BUSY) return false;
    assert_int_equal(status, MR_OK);
    memcpy(at, &number, sizeof number);
    size_t first = body.size / 3;
    span pieces[] = {{body.data, first}, {NULL, 0}, {body.data + first, body.size - first}};
    lane *lane = end->transport.ops->lane(end->transport.self, end->link);
    return lane_commit_body(lane, sizeof number, pieces, 3);
}

static void bodies_that_leave_at_once_leave_whole_or_not_at_all(void **state) {
    enum { MOST = 80 * 1024 };
    shm_pair *pair = *state;
    shm_pair_join(pair);
    uint8_t *out = malloc(MOST), *in = malloc(MOST), *at;
    for (size_t i = 0; i < MOST; i++) out[i] = (uint8_t)(i * 2654435761u >> 13);
    pair->b.body = in;
    pair->b.expected_body = out;
    unsigned sent = 0, refused = 0;
    for (size_t size = 0; size < MOST; size += size < 40 || (size > 4080 && size < 4120) ? 1 : size / 9) {
        if (send_now(&pair->a, sent, span_of(out, size))) {
            assert_true(shm_pair_until(pair, &pair->b.messages, ++sent));
            assert_int_equal(pair->b.body_size, size);
        } else {
            refused++; /* no room until the ring has grown */
        }
        assert_int_equal(pair->b.wrong, 0);
    }
    assert_true(sent > 40 && refused >= 1);
    int64_t deadline = clock_now_us(clock_real()) + SHM_PATIENCE_US;
    while (!send_now(&pair->a, sent, span_of(out, 10000)) && clock_now_us(clock_real()) < deadline) {
        shm_transport_poll(pair->a.shm_transport); /* an otherwise idle reader returns read memory */
        shm_transport_poll(pair->b.shm_transport);
    }
    unsigned row = 1;
    for (sent++; row < 1000 && send_now(&pair->a, sent, span_of(out, 10000)); row++) sent++;
    assert_true(row < 1000); /* the ring is full, since no process reads */
    mr_status status = pair->a.transport.ops->reserve(pair->a.transport.self, pair->a.link, sizeof(uint64_t), &at);
    assert_true(status == MR_OK || status == MR_BUSY); /* the link is unchanged */
    assert_true(shm_pair_until(pair, &pair->b.messages, sent));
    shm_pair_send(pair, &pair->a, sent, 100);
    assert_true(shm_pair_until(pair, &pair->b.messages, sent + 1));
    assert_int_equal(pair->b.wrong, 0);
    free(out);
    free(in);
}

static void an_unwanted_body_is_thrown_away_and_the_link_goes_on(void **state) {
    shm_pair *pair = *state;
    shm_pair_join(pair);
    uint8_t *out = calloc(1, 3 << 20);
    sent sent = {0};
    pair->b.body = BODY_DISCARD;
    send_body(pair, &pair->a, 0, span_of(out, 3 << 20), &sent);
    assert_true(shm_pair_until(pair, &pair->b.messages, 1));
    assert_int_equal(pair->b.body_size, 3 << 20);
    shm_pair_send(pair, &pair->a, 1, 8);
    assert_true(shm_pair_until(pair, &pair->b.messages, 2));
    assert_int_equal(pair->b.wrong, 0);
    free(out);
}

static void a_refused_body_closes_the_link(void **state) {
    shm_pair *pair = *state;
    shm_pair_join(pair);
    uint8_t *out = calloc(1, 30 << 20);
    sent sent = {0};
    send_body(pair, &pair->a, 0, span_of(out, 30 << 20), &sent);
    assert_true(shm_pair_until(pair, &pair->b.closed, 1));
    assert_int_equal(pair->b.cause.status, MR_TOO_LARGE);
    assert_true(shm_pair_until(pair, &pair->a.closed, 1));
    assert_int_equal(sent.count, 1);
    assert_int_not_equal(sent.status, MR_OK);
    free(out);
}

static void a_body_still_leaves_when_its_link_is_closed(void **state) {
    shm_pair *pair = *state;
    shm_pair_join(pair);
    uint8_t *out = malloc(8 << 20), *in = malloc(8 << 20);
    memset(out, 0x5a, 8 << 20);
    pair->b.body = in;
    pair->b.expected_body = out;
    sent sent = {0};
    send_body(pair, &pair->a, 0, span_of(out, 8 << 20), &sent);
    pair->a.transport.ops->close(pair->a.transport.self, pair->a.link);
    assert_true(shm_pair_until(pair, &pair->a.closed, 1));
    assert_int_equal(sent.count, 1);
    assert_int_equal(sent.status, MR_OK);
    assert_true(shm_pair_until(pair, &pair->b.closed, 1));
    assert_int_equal(pair->b.bodies, 1);
    assert_int_equal(pair->b.wrong, 0);
    free(out);
    free(in);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(bodies_of_every_size_arrive_where_they_are_wanted, shm_pair_set_up,
                                        shm_pair_tear_down),
        cmocka_unit_test_setup_teardown(bodies_that_leave_at_once_leave_whole_or_not_at_all, shm_pair_set_up,
                                        shm_pair_tear_down),
        cmocka_unit_test_setup_teardown(an_unwanted_body_is_thrown_away_and_the_link_goes_on, shm_pair_set_up,
                                        shm_pair_tear_down),
        cmocka_unit_test_setup_teardown(a_refused_body_closes_the_link, shm_pair_set_up, shm_pair_tear_down),
        cmocka_unit_test_setup_teardown(a_body_still_leaves_when_its_link_is_closed, shm_pair_set_up,
                                        shm_pair_tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
