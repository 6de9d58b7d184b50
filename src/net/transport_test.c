/* transport_test.c — a body of pieces arrives as one, also where a transport does not gather. */
#include "net/transport.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "tests/support/loopback.h"

typedef struct side {
    char got[64], body[64];
    size_t sent;
    mr_status status;
} side;

static void on_open(void *context, link_id link, const peer *peer) {}
static void on_room(void *context, link_id link) {}
static void on_closed(void *context, link_id link, const cause *why) {}
static void *on_body(void *context, link_id link, span head, uint64_t size) {
    return size <= sizeof((side *)context)->body ? ((side *)context)->body : NULL;
}

static void on_message(void *context, link_id link, const message *message) {
    memcpy(((side *)context)->got, message->body.data, message->body.size);
}

static void on_sent(void *argument, mr_status status) {
    ((side *)argument)->sent++;
    ((side *)argument)->status = status;
}

static const transport_events events = {on_open, on_message, on_body, on_room, on_closed};

static void pieces_are_joined(void **state) {
    loopback *loopback = xcalloc(1, sizeof *loopback);
    side sides[2] = {0};
    uint8_t *place;
    const span pieces[] = {span_of("one ", 4), span_of("", 0), span_of("two ", 4), span_of("three", 6)};
    loopback_init(loopback);
    for (int i = 0; i < 2; i++) loopback_listen(loopback, i, &events, &sides[i]);
    link_id link = loopback_link(loopback_join(loopback), 0);
    transport transport = loopback_transport(loopback, 0);
    assert_null(transport.ops->commit_pieces);
    assert_int_equal(transport.ops->reserve(transport.self, link, 1, &place), MR_OK);
    alloc_fail_at(1);
    transport_commit_pieces(transport, link, 1, pieces, 4, on_sent, &sides[0]);
    alloc_fail_at(0);
    assert_true(sides[0].sent == 1 && sides[0].status == MR_NOMEM);
    for (size_t count = 1; count <= 4; count += 3) {
        assert_int_equal(transport.ops->reserve(transport.self, link, 1, &place), MR_OK);
        *place = 1;
        transport_commit_pieces(transport, link, 1, pieces, count, on_sent, &sides[0]);
        loopback_run(loopback);
        assert_true(sides[0].sent == (count == 1 ? 2 : 3) && sides[0].status == MR_OK);
        assert_memory_equal(sides[1].got, "one two three", count == 1 ? 4 : 14);
    }
    loopback_fini(loopback);
    free(loopback);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(pieces_are_joined)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
