/* rpc_body_test.c — bodies: their memory, their refusal, and ownership when something ends midway. */
#include "net/rpc/rpc.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "net/rpc/rpc_header.h"
#include "tests/support/rpc_pair.h"

enum { CLIENT = 0, SERVER = 1 };

static void run(rpc_pair *pair) { loopback_run(&pair->loopback); }
static rpc_call_stats stats(const rpc_pair *pair, int end) { return rpc_stats(pair->sides[end].rpc); }

/* A call whose answer has a body, and all its events. */
typedef struct asked {
    rpc_pair *pair;
    rpc_outcome outcome;
    uint8_t memory[64];
    bool refuse, cancel; /* what on_body does */
    int bodies, sents;
    mr_status sent_status;
    uint64_t body_size;
    char head[16];
} asked;

static void *answer_body(void *argument, rpc_call_id id, span payload, uint64_t size) {
    asked *asked = argument;
    asked->bodies++;
    asked->body_size = size;
    assert_true(payload.size < sizeof asked->head);
    memcpy(asked->head, payload.data, payload.size);
    if (asked->cancel) assert_int_equal(rpc_cancel(asked->pair->sides[CLIENT].rpc, id), MR_OK);
    return asked->refuse || size > sizeof asked->memory ? NULL : asked->memory;
}

static void asked_done(void *argument, rpc_call_id id, const rpc_call_result *result) {
    rpc_outcome_done(&((asked *)argument)->outcome, id, result);
}

static void asked_sent(void *argument, mr_status status) {
    asked *asked = argument;
    asked->sents++;
    asked->sent_status = status;
}

static rpc_call_id ask(rpc_pair *pair, asked *asked, span body, rpc_call_options options) {
    rpc *rpc = pair->sides[CLIENT].rpc;
    link_id link = rpc_pair_link(pair, CLIENT);
    uint8_t *payload;
    asked->pair = pair;
    assert_int_equal(rpc_begin(rpc, link, 7, 3, &payload), MR_OK);
    memcpy(payload, "ask", 3);
    if (body.size == 0) return rpc_commit(rpc, pair->clock.now_us, link, 3, &options, asked_done, asked);
    return rpc_commit_body(rpc, pair->clock.now_us, link, 3, body, asked_sent, &options, asked_done, asked);
}

static void reply_with_body(rpc_pair *pair, rpc_call_token token, asked *asked) {
    rpc *rpc = pair->sides[SERVER].rpc;
    uint8_t *payload;
    assert_int_equal(rpc_reply_begin(rpc, token, 4, &payload), MR_OK);
    memcpy(payload, "head", 4);
    rpc_reply_commit_body(rpc, token, 4, span_of("the body of it", 14), asked_sent, asked);
}

/* Runs until the answer and its body are being delivered. */
static rpc_call_id ask_for_body(rpc_pair *pair, asked *asked, rpc_call_options options) {
    pair->sides[SERVER].habit = RPC_HOLD;
    rpc_call_id id = ask(pair, asked, (span){0}, options);
    run(pair);
    reply_with_body(pair, pair->sides[SERVER].seen[pair->sides[SERVER].seen_count - 1].token, asked);
    return id;
}

static void assert_link_works(rpc_pair *pair) {
    pair->sides[SERVER].habit = RPC_ECHO;
    rpc_outcome outcome;
    assert_int_equal(rpc_pair_start(pair, CLIENT, "still here", NULL, &outcome), MR_OK);
    run(pair);
    assert_int_equal(outcome.count, 1);
    assert_string_equal(outcome.payload, "still here");
    assert_int_equal(pair->sides[CLIENT].closed + pair->sides[SERVER].closed, 0);
}

/* ---- Requests. */

static void a_request_s_body_lies_where_on_body_said(void **state) {
    rpc_pair *pair = *state;
    rpc_side *server = &pair->sides[SERVER];
    asked asked = {0};
    ask(pair, &asked, span_of("some bytes", 10), (rpc_call_options){0});
    assert_int_equal(asked.sents, 0);
    run(pair);
    assert_int_equal(server->bodies, 1);
    assert_ptr_equal(server->seen[0].body.data, server->body);
    assert_int_equal(server->seen[0].body.size, 10);
    assert_memory_equal(server->body, "some bytes", 10);
    assert_int_equal(asked.sents, 1);
    assert_int_equal(asked.sent_status, MR_OK);
    assert_int_equal(asked.outcome.status, MR_OK);
}

static void a_refused_body_is_the_handler_s_to_answer(void **state) {
    rpc_pair *pair = *state;
    rpc_side *server = &pair->sides[SERVER];
    server->refuse_bodies = true;
    server->habit = RPC_HOLD;
    asked asked = {0};
    ask(pair, &asked, span_of("some bytes", 10), (rpc_call_options){0});
    run(pair);
    assert_null(server->seen[0].body.data);
    assert_int_equal(server->seen[0].body.size, 10);
    assert_int_equal(rpc_fail(server->rpc, server->seen[0].token, MR_TOO_LARGE, "too much"), MR_OK);
    run(pair);
    assert_int_equal(asked.outcome.status, MR_TOO_LARGE);
    assert_link_works(pair);
}

static void a_repeated_request_gets_no_memory(void **state) {
    rpc_pair *pair = *state;
    asked asked = {0};
    ask(pair, &asked, span_of("some bytes", 10), (rpc_call_options){0});
    loopback_double(&pair->loopback, CLIENT, 0);
    run(pair);
    assert_int_equal(pair->sides[SERVER].bodies, 1);
    assert_int_equal(pair->sides[SERVER].seen_count, 1);
    assert_link_works(pair);
}

static void a_call_with_a_body_asks_once(void **state) {
    rpc_pair *pair = *state;
    asked asked = {0};
    ask(pair, &asked, span_of("some bytes", 10), (rpc_call_options){.attempt_timeout_us = 10, .attempts_max = 5});
    loopback_drop(&pair->loopback, CLIENT, 0);
    rpc_pair_advance(pair, 1010);
    assert_int_equal(pair->loopback.ends[CLIENT].count, 0);
    assert_int_equal(asked.outcome.status, MR_TIMEOUT);
}

/* The body belongs to the transport until sent is called, even if the call has ended. */
static void a_deadline_does_not_wait_for_a_body_that_is_being_sent(void **state) {
    rpc_pair *pair = *state;
    asked asked = {0};
    ask(pair, &asked, span_of("some bytes", 10), (rpc_call_options){.timeout_us = 10});
    rpc_pair_advance(pair, 1010);
    assert_int_equal(asked.outcome.status, MR_TIMEOUT);
    assert_int_equal(asked.sents, 0);
    run(pair);
    assert_int_equal(asked.sents, 1);
    assert_int_equal(asked.outcome.count, 1);
}

/* ---- Answers. */

static void an_answer_s_body_lies_where_the_caller_said(void **state) {
    rpc_pair *pair = *state;
    asked asked = {0};
    ask_for_body(pair, &asked, (rpc_call_options){.on_body = answer_body});
    run(pair);
    assert_int_equal(asked.bodies, 1);
    assert_int_equal(asked.body_size, 14);
    assert_string_equal(asked.head, "head");
    assert_int_equal(asked.outcome.count, 1);
    assert_int_equal(asked.outcome.status, MR_OK);
    assert_string_equal(asked.outcome.payload, "head");
    assert_ptr_equal(asked.outcome.body.data, asked.memory);
    assert_int_equal(asked.outcome.body.size, 14);
    assert_memory_equal(asked.memory, "the body of it", 14);
    assert_int_equal(asked.sents, 1);
    assert_int_equal(pair->loopback.ends[CLIENT].discards, 0);
}

static void an_unwanted_body_costs_the_call_and_not_the_link(void **state) {
    rpc_pair *pair = *state;
    asked none = {0}, refused = {.refuse = true};
    ask_for_body(pair, &none, (rpc_call_options){0});
    ask_for_body(pair, &refused, (rpc_call_options){.on_body = answer_body});
    run(pair);
    asked *both[] = {&none, &refused};
    for (int i = 0; i < 2; i++) {
        assert_int_equal(both[i]->outcome.count, 1);
        assert_int_equal(both[i]->outcome.status, MR_TOO_LARGE);
        assert_string_equal(both[i]->outcome.payload, "the caller refused the response's body of 14 bytes");
        assert_int_equal(both[i]->outcome.body.size, 0);
    }
    assert_int_equal(stats(pair, CLIENT).failed, 2);
    assert_link_works(pair);
}

static void a_call_does_not_inherit_the_memory_of_the_one_before(void **state) {
    rpc_pair *pair = *state;
    asked asked = {0};
    ask_for_body(pair, &asked, (rpc_call_options){.on_body = answer_body});
    run(pair);
    pair->sides[SERVER].habit = RPC_HOLD;
    rpc_outcome outcome;
    assert_int_equal(rpc_pair_start(pair, CLIENT, "x", NULL, &outcome), MR_OK);
    run(pair);
    reply_with_body(pair, pair->sides[SERVER].seen[1].token, &asked);
    run(pair);
    assert_int_equal(outcome.status, MR_TOO_LARGE);
    assert_int_equal(asked.bodies, 1);
}

static void a_late_answer_s_body_is_thrown_away(void **state) {
    rpc_pair *pair = *state;
    asked asked = {0};
    ask_for_body(pair, &asked, (rpc_call_options){.on_body = answer_body, .timeout_us = 10});
    rpc_pair_advance(pair, 1010);
    run(pair);
    assert_int_equal(asked.bodies, 0);
    assert_int_equal(asked.outcome.status, MR_TIMEOUT);
    assert_int_equal(stats(pair, CLIENT).late_answers, 1);
    assert_link_works(pair);
}

static void assert_untouched(const asked *asked) {
    for (size_t i = 0; i < sizeof asked->memory; i++) assert_int_equal(asked->memory[i], 0);
}

static void a_deadline_in_the_middle_of_a_body_gives_the_memory_back(void **state) {
    rpc_pair *pair = *state;
    asked asked = {0};
    ask_for_body(pair, &asked, (rpc_call_options){.on_body = answer_body, .timeout_us = 10});
    loopback_body_start(&pair->loopback, SERVER, 0);
    assert_int_equal(asked.bodies, 1);
    rpc_pair_advance(pair, 1010);
    assert_int_equal(asked.outcome.status, MR_TIMEOUT);
    assert_int_equal(pair->loopback.ends[CLIENT].discards, 1);
    run(pair);
    assert_untouched(&asked);
    assert_int_equal(asked.outcome.count, 1);
    assert_link_works(pair);
}

static void so_does_a_cancellation(void **state) {
    rpc_pair *pair = *state;
    asked asked = {0};
    rpc_call_id id = ask_for_body(pair, &asked, (rpc_call_options){.on_body = answer_body});
    loopback_body_start(&pair->loopback, SERVER, 0);
    assert_int_equal(rpc_cancel(pair->sides[CLIENT].rpc, id), MR_OK);
    assert_int_equal(pair->loopback.ends[CLIENT].discards, 1);
    run(pair);
    assert_untouched(&asked);
    assert_link_works(pair);
}

static void so_does_the_end_of_everything(void **state) {
    rpc_pair *pair = *state;
    asked asked = {0};
    ask_for_body(pair, &asked, (rpc_call_options){.on_body = answer_body});
    loopback_body_start(&pair->loopback, SERVER, 0);
    rpc_destroy(pair->sides[CLIENT].rpc);
    pair->sides[CLIENT].rpc = NULL;
    assert_int_equal(pair->loopback.ends[CLIENT].discards, 1);
    assert_int_equal(asked.outcome.status, MR_CLOSED);
    loopback_drop(&pair->loopback, SERVER, 0);
    assert_int_equal(asked.sents, 1);
}

static void a_link_that_closes_in_the_middle_of_a_body_ends_the_call(void **state) {
    rpc_pair *pair = *state;
    asked asked = {0};
    ask_for_body(pair, &asked, (rpc_call_options){.on_body = answer_body});
    loopback_body_start(&pair->loopback, SERVER, 0);
    loopback_break(&pair->loopback, pair->link, MR_PEER_DIED, "gone");
    assert_int_equal(asked.outcome.count, 1);
    assert_int_equal(asked.outcome.status, MR_PEER_DIED);
    assert_int_equal(pair->loopback.ends[CLIENT].discards, 0);
}

static void another_call_may_end_meanwhile(void **state) {
    rpc_pair *pair = *state;
    asked asked = {0};
    rpc_outcome other;
    assert_int_equal(rpc_pair_start(pair, CLIENT, "other", &(rpc_call_options){.timeout_us = 10}, &other), MR_OK);
    ask_for_body(pair, &asked, (rpc_call_options){.on_body = answer_body});
    loopback_body_start(&pair->loopback, SERVER, 0);
    rpc_pair_advance(pair, 2000);
    run(pair);
    assert_int_equal(asked.outcome.status, MR_OK);
    assert_memory_equal(asked.memory, "the body of it", 14);
}

static void on_body_may_cancel_its_own_call(void **state) {
    rpc_pair *pair = *state;
    asked asked = {.cancel = true};
    ask_for_body(pair, &asked, (rpc_call_options){.on_body = answer_body});
    run(pair);
    assert_int_equal(asked.outcome.count, 1);
    assert_int_equal(asked.outcome.status, MR_CANCELLED);
    assert_untouched(&asked);
    assert_link_works(pair);
}

/* ---- Bad peers. */

static void a_body_in_a_bad_message_finds_no_memory(void **state) {
    rpc_pair *pair = *state;
    rpc_header cancel = {.kind = RPC_CALL_CANCEL, .attempt = 1, .number = RPC_CALL_WINDOW};
    uint8_t bytes[RPC_CALL_OVERHEAD];
    rpc_header_encode(&cancel, bytes, 0);
    loopback_inject(&pair->loopback, CLIENT, pair->link, span_of(bytes, RPC_HEADER_SIZE), span_of("body", 4));
    run(pair);
    assert_int_equal(pair->sides[SERVER].bodies, 0);
    assert_int_equal(pair->sides[SERVER].closed_why.status, MR_CORRUPT);
    pair->link = loopback_join(&pair->loopback);
    loopback_inject(&pair->loopback, CLIENT, pair->link, span_of("rubbish", 7), span_of("body", 4));
    run(pair);
    assert_int_equal(pair->sides[SERVER].bodies, 0);
    assert_int_equal(stats(pair, SERVER).bad_messages, 2);
}

#define WITH_PAIR(test) cmocka_unit_test_setup_teardown(test, rpc_pair_setup, rpc_pair_teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        WITH_PAIR(a_request_s_body_lies_where_on_body_said),
        WITH_PAIR(a_refused_body_is_the_handler_s_to_answer),
        WITH_PAIR(a_repeated_request_gets_no_memory),
        WITH_PAIR(a_call_with_a_body_asks_once),
        WITH_PAIR(a_deadline_does_not_wait_for_a_body_that_is_being_sent),
        WITH_PAIR(an_answer_s_body_lies_where_the_caller_said),
        WITH_PAIR(an_unwanted_body_costs_the_call_and_not_the_link),
        WITH_PAIR(a_call_does_not_inherit_the_memory_of_the_one_before),
        WITH_PAIR(a_late_answer_s_body_is_thrown_away),
        WITH_PAIR(a_deadline_in_the_middle_of_a_body_gives_the_memory_back),
        WITH_PAIR(so_does_a_cancellation),
        WITH_PAIR(so_does_the_end_of_everything),
        WITH_PAIR(a_link_that_closes_in_the_middle_of_a_body_ends_the_call),
        WITH_PAIR(another_call_may_end_meanwhile),
        WITH_PAIR(on_body_may_cancel_its_own_call),
        WITH_PAIR(a_body_in_a_bad_message_finds_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
