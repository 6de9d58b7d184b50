/* rpc_test.c — the promises of rpc.h: calls, answers, deadlines, repeats, cancellation. Links and faulty peers are in
 * rpc_link_test.c, bodies in rpc_body_test.c. */
#include "net/rpc/rpc.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "base/rng.h"
#include "net/rpc/rpc_header.h"
#include "net/rpc/rpc_internal.h"
#include "tests/support/rpc_pair.h"

enum { CLIENT = 0, SERVER = 1 };

static void run(rpc_pair *pair) { loopback_run(&pair->loopback); }
static size_t queued(const rpc_pair *pair, int from) { return pair->loopback.ends[from].count; }
static rpc_call_stats stats(const rpc_pair *pair, int end) { return rpc_stats(pair->sides[end].rpc); }
static size_t open_count(const rpc_pair *pair) {
    rpc_check(pair->sides[CLIENT].rpc);
    return rpc_open_count(pair->sides[CLIENT].rpc);
}

static rpc_header sent_head(const rpc_pair *pair, int from, size_t index) {
    const loopback_message *message = &pair->loopback.ends[from].queue[index];
    rpc_header header;
    span payload;
    assert_int_equal(rpc_header_decode(span_of(message->head, message->head_size), &header, &payload), MR_OK);
    return header;
}

static void inject(rpc_pair *pair, int from, rpc_header header) {
    uint8_t bytes[RPC_CALL_OVERHEAD];
    size_t size = rpc_header_encode(&header, bytes, 0);
    loopback_inject(&pair->loopback, from, pair->link, span_of(bytes, size), (span){0});
}

static void start(rpc_pair *pair, const char *text, const rpc_call_options *options, rpc_outcome *outcome) {
    assert_int_equal(rpc_pair_start(pair, CLIENT, text, options, outcome), MR_OK);
}

static void assert_ended(const rpc_outcome *outcome, mr_status status, const char *payload) {
    assert_int_equal(outcome->count, 1);
    assert_int_equal(outcome->status, status);
    assert_string_equal(outcome->payload, payload);
}

/* ---- Calls and answers. */

static void an_answer_ends_the_call(void **state) {
    rpc_pair *pair = *state;
    rpc_outcome outcome;
    start(pair, "hello", NULL, &outcome);
    rpc_call_id id = outcome.id;
    assert_true(id.number != 0);
    assert_int_equal(open_count(pair), 1);
    assert_int_equal(outcome.count, 0);
    run(pair);
    assert_ended(&outcome, MR_OK, "hello");
    assert_int_equal(outcome.id.number, id.number);
    assert_int_equal(outcome.id.link.v, id.link.v);
    assert_false(outcome.lost);
    assert_int_equal(open_count(pair), 0);
    assert_int_equal(pair->sides[SERVER].seen[0].method, 7);
    assert_int_equal(pair->sides[SERVER].seen[0].deadline_us, CLOCK_NEVER_US);
    assert_int_equal(stats(pair, CLIENT).answered, 1);
    assert_int_equal(stats(pair, SERVER).requests, 1);
}

static void both_sides_may_ask(void **state) {
    rpc_pair *pair = *state;
    rpc_outcome left, right;
    start(pair, "left", NULL, &left);
    assert_int_equal(rpc_pair_start(pair, SERVER, "right", NULL, &right), MR_OK);
    run(pair);
    assert_ended(&left, MR_OK, "left");
    assert_ended(&right, MR_OK, "right");
}

static void a_small_call_is_made_in_one_step(void **state) {
    rpc_pair *pair = *state;
    rpc *rpc = pair->sides[CLIENT].rpc;
    rpc_outcome outcome = {0};
    static const char text[16] = "eight and seven";
    uint64_t words[2];
    memcpy(words, text, sizeof words);
    rpc_call_small small = {.method = 7, .count = 2, .words = words, .done = rpc_outcome_done, .argument = &outcome};
    rpc_call_id id;
    assert_int_equal(rpc_ask(rpc, rpc_pair_link(pair, CLIENT), &small, &id), MR_OK);
    assert_int_equal(open_count(pair), 1);
    run(pair);
    assert_ended(&outcome, MR_OK, text);
    assert_int_equal(outcome.id.number, id.number);
    assert_int_equal(rpc_ask(rpc, (link_id){12345}, &small, &id), MR_CLOSED);
    assert_int_equal(stats(pair, CLIENT).started, 1);
}

static void a_small_answer_is_given_in_one_step(void **state) {
    rpc_pair *pair = *state;
    rpc_outcome outcome;
    pair->sides[SERVER].habit = RPC_HOLD;
    start(pair, "hello", NULL, &outcome);
    run(pair);
    rpc *rpc = pair->sides[SERVER].rpc;
    rpc_call_token token = pair->sides[SERVER].seen[0].token;
    uint64_t word;
    memcpy(&word, "goodbye", sizeof word);
    assert_int_equal(rpc_reply(rpc, token, &word, 1, false), MR_OK);
    assert_int_equal(rpc_reply(rpc, token, &word, 1, false), MR_CLOSED);
    run(pair);
    assert_ended(&outcome, MR_OK, "goodbye");
}

static void an_empty_payload_travels(void **state) {
    rpc_pair *pair = *state;
    rpc_outcome outcome;
    start(pair, "", NULL, &outcome);
    run(pair);
    assert_ended(&outcome, MR_OK, "");
}

static void a_payload_may_shrink_and_a_begun_call_may_be_given_up(void **state) {
    rpc_pair *pair = *state;
    rpc *rpc = pair->sides[CLIENT].rpc;
    uint8_t *payload;
    assert_int_equal(rpc_begin(rpc, rpc_pair_link(pair, CLIENT), 1, 100, &payload), MR_OK);
    assert_int_equal(open_count(pair), 0);
    assert_int_equal(rpc_begin(rpc, rpc_pair_link(pair, CLIENT), 2, 50, &payload), MR_OK);
    memcpy(payload, "abc", 3);
    rpc_outcome outcome = {0};
    rpc_commit(rpc, 0, rpc_pair_link(pair, CLIENT), 3, NULL, rpc_outcome_done, &outcome);
    run(pair);
    assert_ended(&outcome, MR_OK, "abc");
    assert_int_equal(pair->sides[SERVER].seen_count, 1);
    assert_int_equal(pair->sides[SERVER].seen[0].method, 2);
    assert_int_equal(stats(pair, CLIENT).started, 1);
}

static void the_largest_payload_fits_and_a_larger_one_does_not(void **state) {
    rpc_pair *pair = *state;
    rpc *rpc = pair->sides[CLIENT].rpc;
    uint8_t *payload;
    assert_int_equal(rpc_begin(rpc, rpc_pair_link(pair, CLIENT), 1, RPC_CALL_PAYLOAD_MAX + 1, &payload), MR_TOO_LARGE);
    assert_int_equal(rpc_begin(rpc, rpc_pair_link(pair, CLIENT), 1, SIZE_MAX, &payload), MR_TOO_LARGE);
    assert_int_equal(rpc_begin(rpc, rpc_pair_link(pair, CLIENT), 1, RPC_CALL_PAYLOAD_MAX, &payload), MR_OK);
    memset(payload, 'x', RPC_CALL_PAYLOAD_MAX);
    rpc_outcome outcome = {0};
    rpc_commit(rpc, 0, rpc_pair_link(pair, CLIENT), RPC_CALL_PAYLOAD_MAX, NULL, rpc_outcome_done, &outcome);
    run(pair);
    assert_int_equal(outcome.status, MR_OK);
    assert_int_equal(outcome.payload_size, RPC_CALL_PAYLOAD_MAX);
}

static void answers_may_come_later_and_in_any_order(void **state) {
    rpc_pair *pair = *state;
    rpc_side *server = &pair->sides[SERVER];
    server->habit = RPC_HOLD;
    rpc_outcome outcomes[3];
    for (int i = 0; i < 3; i++) start(pair, "ask", NULL, &outcomes[i]);
    run(pair);
    assert_int_equal(server->seen_count, 3);
    assert_int_equal(rpc_pair_reply(pair, SERVER, server->seen[2].token, "two"), MR_OK);
    assert_int_equal(rpc_pair_reply(pair, SERVER, server->seen[0].token, "zero"), MR_OK);
    assert_int_equal(rpc_pair_reply(pair, SERVER, server->seen[1].token, "one"), MR_OK);
    run(pair);
    assert_ended(&outcomes[0], MR_OK, "zero");
    assert_ended(&outcomes[1], MR_OK, "one");
    assert_ended(&outcomes[2], MR_OK, "two");
}

static void a_request_is_answered_once(void **state) {
    rpc_pair *pair = *state;
    rpc_side *server = &pair->sides[SERVER];
    server->habit = RPC_HOLD;
    rpc_outcome outcome;
    start(pair, "ask", NULL, &outcome);
    run(pair);
    assert_int_equal(rpc_pair_reply(pair, SERVER, server->seen[0].token, "one"), MR_OK);
    assert_int_equal(rpc_pair_reply(pair, SERVER, server->seen[0].token, "two"), MR_CLOSED);
    assert_int_equal(rpc_fail(server->rpc, server->seen[0].token, MR_DENIED, "no"), MR_CLOSED);
    run(pair);
    assert_ended(&outcome, MR_OK, "one");
}

static void a_failure_has_a_status_and_a_text(void **state) {
    rpc_pair *pair = *state;
    rpc_side *server = &pair->sides[SERVER];
    server->habit = RPC_HOLD;
    rpc_outcome outcomes[3];
    for (int i = 0; i < 3; i++) start(pair, "ask", NULL, &outcomes[i]);
    run(pair);
    char text[RPC_CALL_TEXT_MAX + 100];
    memset(text, 'x', sizeof text);
    text[sizeof text - 1] = 0;
    assert_int_equal(rpc_fail(server->rpc, server->seen[0].token, MR_DENIED, "not yours"), MR_OK);
    assert_int_equal(rpc_fail(server->rpc, server->seen[1].token, MR_NOT_FOUND, NULL), MR_OK);
    assert_int_equal(rpc_fail(server->rpc, server->seen[2].token, MR_IO, text), MR_OK);
    run(pair);
    assert_ended(&outcomes[0], MR_DENIED, "not yours");
    assert_ended(&outcomes[1], MR_NOT_FOUND, "");
    assert_int_equal(outcomes[2].payload_size, RPC_CALL_TEXT_MAX);
    assert_int_equal(stats(pair, CLIENT).failed, 3);
}

static void an_answer_that_meets_a_full_link_is_given_later(void **state) {
    rpc_pair *pair = *state;
    rpc_side *server = &pair->sides[SERVER];
    server->habit = RPC_HOLD;
    rpc_outcome outcomes[2];
    for (int i = 0; i < 2; i++) start(pair, "ask", NULL, &outcomes[i]);
    run(pair);
    pair->loopback.ends[SERVER].room = 1;
    assert_int_equal(rpc_pair_reply(pair, SERVER, server->seen[0].token, "one"), MR_OK);
    assert_int_equal(rpc_pair_reply(pair, SERVER, server->seen[1].token, "two"), MR_BUSY);
    assert_int_equal(rpc_fail(server->rpc, server->seen[1].token, MR_IO, "two"), MR_BUSY);
    assert_int_equal(server->rooms, 0);
    run(pair);
    assert_int_equal(server->rooms, 1);
    assert_int_equal(rpc_pair_reply(pair, SERVER, server->seen[1].token, "two"), MR_OK);
    run(pair);
    assert_ended(&outcomes[1], MR_OK, "two");
}

/* ---- Deadlines. */

static void a_deadline_ends_the_call_when_it_comes_and_not_before(void **state) {
    rpc_pair *pair = *state;
    rpc_outcome outcome;
    assert_int_equal(rpc_next_us(pair->sides[CLIENT].rpc), CLOCK_NEVER_US);
    start(pair, "late", &(rpc_call_options){.timeout_us = 500}, &outcome);
    loopback_drop(&pair->loopback, CLIENT, 0);
    assert_int_equal(rpc_next_us(pair->sides[CLIENT].rpc), 1500);
    rpc_pair_advance(pair, 1499);
    assert_int_equal(outcome.count, 0);
    rpc_pair_advance(pair, 1500);
    assert_ended(&outcome, MR_TIMEOUT, "no answer in time");
    assert_int_equal(rpc_next_us(pair->sides[CLIENT].rpc), CLOCK_NEVER_US);
    assert_int_equal(stats(pair, CLIENT).timed_out, 1);
    assert_int_equal(stats(pair, CLIENT).asked_again, 0);
}

static void a_late_answer_is_dropped(void **state) {
    rpc_pair *pair = *state;
    rpc_outcome outcome, next;
    start(pair, "late", &(rpc_call_options){.timeout_us = 500}, &outcome);
    loopback_deliver(&pair->loopback, CLIENT, 0);
    rpc_pair_advance(pair, 2000);
    start(pair, "next", NULL, &next); /* takes the same place */
    loopback_deliver(&pair->loopback, SERVER, 0);
    assert_ended(&outcome, MR_TIMEOUT, "no answer in time");
    assert_int_equal(next.count, 0);
    assert_int_equal(stats(pair, CLIENT).late_answers, 1);
    run(pair);
    assert_ended(&next, MR_OK, "next");
}

static void an_answer_in_time_leaves_no_timer(void **state) {
    rpc_pair *pair = *state;
    rpc_outcome outcome;
    start(pair, "x", &(rpc_call_options){.timeout_us = 500}, &outcome);
    run(pair);
    assert_int_equal(rpc_next_us(pair->sides[CLIENT].rpc), CLOCK_NEVER_US);
    rpc_pair_advance(pair, 5000);
    assert_ended(&outcome, MR_OK, "x");
}

static void the_budget_that_is_left_travels(void **state) {
    rpc_pair *pair = *state;
    rpc_outcome outcome;
    start(pair, "x", &(rpc_call_options){.timeout_us = 500, .attempt_timeout_us = 200, .attempts_max = 5}, &outcome);
    assert_int_equal(sent_head(pair, CLIENT, 0).budget_us, 500);
    loopback_drop(&pair->loopback, CLIENT, 0);
    rpc_pair_advance(pair, 1200);
    assert_int_equal(sent_head(pair, CLIENT, 0).budget_us, 300);
    run(pair);
    assert_int_equal(pair->sides[SERVER].seen[0].deadline_us, 1500);
}

static void a_request_without_budget_is_not_run(void **state) {
    rpc_pair *pair = *state;
    inject(pair, CLIENT,
           (rpc_header){.kind = RPC_CALL_REQUEST, .attempt = 1, .number = RPC_CALL_WINDOW, .budget_us = 0});
    run(pair);
    assert_int_equal(pair->sides[SERVER].seen_count, 0);
    assert_int_equal(stats(pair, SERVER).expired, 1);
    assert_int_equal(pair->sides[SERVER].closed, 0);
}

static void a_call_without_deadline_reads_no_clock(void **state) {
    rpc_pair *pair = *state;
    for (int i = 0; i < 100; i++) {
        rpc_outcome outcome;
        start(pair, "x", NULL, &outcome);
        run(pair);
        assert_int_equal(outcome.count, 1);
    }
    assert_int_equal(pair->clock_reads, 0);
}

static void many_deadlines_end_in_their_order(void **state) {
    rpc_pair *pair = *state;
    rpc_outcome outcomes[300];
    rng rng;
    rng_init(&rng, 3);
    int64_t at_us[300];
    for (int i = 0; i < 300; i++) {
        at_us[i] = rng_between(&rng, 1, 1000);
        start(pair, "x", &(rpc_call_options){.timeout_us = at_us[i]}, &outcomes[i]);
    }
    for (int64_t now_us = 1; now_us <= 1000; now_us += 37) {
        rpc_pair_advance(pair, 1000 + now_us);
        for (int i = 0; i < 300; i++) assert_int_equal(outcomes[i].count, at_us[i] <= now_us);
    }
}

/* ---- Retries. */

static const rpc_call_options persistent = {.timeout_us = 10000, .attempt_timeout_us = 1000, .attempts_max = 4};

static void a_lost_request_is_asked_again(void **state) {
    rpc_pair *pair = *state;
    rpc_outcome outcome;
    start(pair, "again", &persistent, &outcome);
    loopback_drop(&pair->loopback, CLIENT, 0);
    rpc_pair_advance(pair, 1999);
    assert_int_equal(queued(pair, CLIENT), 0);
    rpc_pair_advance(pair, 2000);
    rpc_header header = sent_head(pair, CLIENT, 0);
    assert_int_equal(header.attempt, 2);
    assert_int_equal(header.number, outcome.id.number);
    assert_int_equal(header.method, 7);
    run(pair);
    assert_ended(&outcome, MR_OK, "again");
    assert_int_equal(pair->sides[SERVER].seen[0].token.attempt, 2);
    assert_int_equal(stats(pair, CLIENT).asked_again, 1);
}

static void any_attempt_s_answer_ends_the_call(void **state) {
    rpc_pair *pair = *state;
    rpc_side *server = &pair->sides[SERVER];
    server->habit = RPC_HOLD;
    rpc_outcome outcome;
    start(pair, "slow", &persistent, &outcome);
    run(pair);
    rpc_pair_advance(pair, 2000);
    run(pair);
    assert_int_equal(server->seen_count, 2);
    assert_string_equal(server->seen[1].payload, "slow");
    assert_int_equal(rpc_pair_reply(pair, SERVER, server->seen[0].token, "first"), MR_OK);
    assert_int_equal(rpc_pair_reply(pair, SERVER, server->seen[1].token, "second"), MR_CLOSED);
    run(pair);
    assert_ended(&outcome, MR_OK, "first");
}

static void after_a_lost_answer_the_handler_runs_again_for_the_next_attempt(void **state) {
    rpc_pair *pair = *state;
    rpc_outcome outcome;
    start(pair, "x", &persistent, &outcome);
    loopback_deliver(&pair->loopback, CLIENT, 0);
    loopback_drop(&pair->loopback, SERVER, 0);
    rpc_pair_advance(pair, 2000);
    run(pair);
    assert_ended(&outcome, MR_OK, "x");
    assert_int_equal(pair->sides[SERVER].seen_count, 2);
}

static void the_last_attempt_s_silence_ends_the_call(void **state) {
    rpc_pair *pair = *state;
    rpc_outcome outcome, once;
    start(pair, "x", &(rpc_call_options){.attempt_timeout_us = 100, .attempts_max = 3}, &outcome);
    start(pair, "y", &(rpc_call_options){.attempt_timeout_us = 100}, &once);
    for (int i = 1; i <= 3; i++) {
        assert_int_equal(outcome.count, 0);
        rpc_pair_advance(pair, 1000 + 100 * i);
    }
    assert_ended(&outcome, MR_TIMEOUT, "no answer in time");
    assert_ended(&once, MR_TIMEOUT, "no answer in time");
    assert_int_equal(queued(pair, CLIENT), 4); /* three attempts of one call, one of the other */
}

static void attempts_are_bounded(void **state) {
    rpc_pair *pair = *state;
    rpc_outcome outcome;
    start(pair, "x", &(rpc_call_options){.attempt_timeout_us = 1, .attempts_max = 1000000}, &outcome);
    for (int i = 0; i < 2 * RPC_CALL_ATTEMPTS_MAX; i++) rpc_pair_advance(pair, 1001 + i);
    assert_ended(&outcome, MR_TIMEOUT, "no answer in time");
    assert_int_equal(stats(pair, CLIENT).asked_again, RPC_CALL_ATTEMPTS_MAX - 1);
}

static void asking_again_waits_for_room(void **state) {
    rpc_pair *pair = *state;
    rpc_outcome outcome, other;
    start(pair, "x", &persistent, &outcome);
    loopback_drop(&pair->loopback, CLIENT, 0);
    start(pair, "other", NULL, &other);
    pair->loopback.ends[CLIENT].room = 1;
    rpc_pair_advance(pair, 2000);
    assert_int_equal(queued(pair, CLIENT), 1);
    pair->clock.now_us = 2500;
    loopback_deliver(&pair->loopback, CLIENT, 0); /* makes room, which causes on_room */
    assert_int_equal(sent_head(pair, CLIENT, 0).attempt, 2);
    assert_int_equal(rpc_next_us(pair->sides[CLIENT].rpc), 3500);
    assert_int_equal(pair->sides[CLIENT].rooms, 1);
    run(pair);
    assert_ended(&outcome, MR_OK, "x");
}

static void a_deadline_comes_while_an_attempt_waits_for_room(void **state) {
    rpc_pair *pair = *state;
    rpc_outcome outcome, other;
    start(pair, "x", &(rpc_call_options){.timeout_us = 1500, .attempt_timeout_us = 1000, .attempts_max = 2}, &outcome);
    loopback_drop(&pair->loopback, CLIENT, 0);
    start(pair, "other", NULL, &other);
    pair->loopback.ends[CLIENT].room = 1;
    rpc_pair_advance(pair, 2000);
    pair->clock.now_us = 2500; /* on_room precedes the tick: nothing without budget is sent */
    run(pair);
    assert_int_equal(outcome.count, 0);
    rpc_pair_advance(pair, 2500);
    assert_ended(&outcome, MR_TIMEOUT, "no answer in time");
    assert_int_equal(stats(pair, CLIENT).asked_again, 0);
    assert_int_equal(stats(pair, SERVER).expired, 0);
}

static void an_answer_comes_while_an_attempt_waits_for_room(void **state) {
    rpc_pair *pair = *state;
    rpc_outcome outcome, other;
    start(pair, "x", &persistent, &outcome);
    loopback_deliver(&pair->loopback, CLIENT, 0);
    start(pair, "other", NULL, &other);
    pair->loopback.ends[CLIENT].room = 1;
    rpc_pair_advance(pair, 2000);
    loopback_deliver(&pair->loopback, SERVER, 0);
    assert_ended(&outcome, MR_OK, "x");
    run(pair);
    assert_int_equal(pair->sides[SERVER].seen_count, 2);
    assert_int_equal(stats(pair, CLIENT).asked_again, 0);
}

/* Starts a call with the largest payload and drops its request. */
static void start_and_lose_a_large_one(rpc_pair *pair, rpc_outcome *outcome) {
    rpc *rpc = pair->sides[CLIENT].rpc;
    link_id link = rpc_pair_link(pair, CLIENT);
    uint8_t *payload;
    assert_int_equal(rpc_begin(rpc, link, 1, RPC_CALL_PAYLOAD_MAX, &payload), MR_OK);
    memset(payload, 'x', RPC_CALL_PAYLOAD_MAX);
    *outcome = (rpc_outcome){0};
    rpc_commit(rpc, pair->clock.now_us, link, RPC_CALL_PAYLOAD_MAX, &persistent, rpc_outcome_done, outcome);
    loopback_drop(&pair->loopback, CLIENT, pair->loopback.ends[CLIENT].count - 1);
}

static void remembered_answers_are_bounded(void **state) {
    rpc_pair *pair = *state;
    enum { CALLS = RPC_CALL_KEPT_MAX / RPC_CALL_PAYLOAD_MAX + 1 };
    rpc_outcome outcomes[CALLS], again;
    for (int i = 0; i < CALLS; i++) start_and_lose_a_large_one(pair, &outcomes[i]);
    rpc_pair_advance(pair, 2000);
    assert_int_equal(stats(pair, CLIENT).asked_again, CALLS - 1);
    assert_int_equal(outcomes[CALLS - 1].count, 1); /* a single attempt */
    assert_int_equal(outcomes[CALLS - 1].status, MR_TIMEOUT);
    rpc_pair_advance(pair, 11000);
    assert_int_equal(open_count(pair), 0);
    start_and_lose_a_large_one(pair, &again); /* there is memory for a copy again */
    rpc_pair_advance(pair, 12000);
    assert_int_equal(stats(pair, CLIENT).asked_again, CALLS);
    rpc_pair_advance(pair, 30000);
    assert_int_equal(again.status, MR_TIMEOUT);
}

/* ---- Repeats. */

static void a_repeated_request_runs_once(void **state) {
    rpc_pair *pair = *state;
    rpc_outcome outcome;
    start(pair, "x", NULL, &outcome);
    for (int i = 0; i < 5; i++) loopback_double(&pair->loopback, CLIENT, 0);
    run(pair);
    assert_ended(&outcome, MR_OK, "x");
    assert_int_equal(pair->sides[SERVER].seen_count, 1);
    assert_int_equal(stats(pair, SERVER).repeats, 5);
}

static void an_attempt_that_was_overtaken_does_not_run(void **state) {
    rpc_pair *pair = *state;
    rpc_outcome outcome;
    start(pair, "x", &persistent, &outcome);
    rpc_pair_advance(pair, 2000);
    loopback_deliver(&pair->loopback, CLIENT, 1); /* the second attempt */
    loopback_deliver(&pair->loopback, CLIENT, 0);
    assert_int_equal(pair->sides[SERVER].seen_count, 1);
    assert_int_equal(pair->sides[SERVER].seen[0].token.attempt, 2);
}

static void a_repeat_of_a_call_that_is_over_does_not_run(void **state) {
    rpc_pair *pair = *state;
    rpc_outcome first, second;
    start(pair, "first", NULL, &first);
    loopback_double(&pair->loopback, CLIENT, 0);
    loopback_deliver(&pair->loopback, CLIENT, 0);
    loopback_deliver(&pair->loopback, SERVER, 0);
    start(pair, "second", NULL, &second); /* the same place, a larger number */
    assert_int_equal(second.id.number, first.id.number + RPC_CALL_WINDOW);
    loopback_deliver(&pair->loopback, CLIENT, 1);
    loopback_deliver(&pair->loopback, CLIENT, 0);
    assert_int_equal(pair->sides[SERVER].seen_count, 2);
    assert_int_equal(stats(pair, SERVER).repeats, 1);
}

static void a_repeated_answer_ends_nothing_else(void **state) {
    rpc_pair *pair = *state;
    rpc_outcome first, second;
    start(pair, "first", NULL, &first);
    loopback_deliver(&pair->loopback, CLIENT, 0);
    loopback_double(&pair->loopback, SERVER, 0);
    loopback_deliver(&pair->loopback, SERVER, 0);
    start(pair, "second", NULL, &second);
    loopback_deliver(&pair->loopback, SERVER, 0);
    assert_int_equal(second.count, 0);
    assert_int_equal(first.count, 1);
    assert_int_equal(stats(pair, CLIENT).late_answers, 1);
}

/* ---- Cancellation. */

static void a_cancelled_call_ends_at_once_and_the_other_side_is_told(void **state) {
    rpc_pair *pair = *state;
    rpc_side *server = &pair->sides[SERVER];
    server->habit = RPC_HOLD;
    rpc_outcome outcome;
    start(pair, "x", NULL, &outcome);
    rpc_call_id id = outcome.id;
    run(pair);
    assert_int_equal(rpc_cancel(pair->sides[CLIENT].rpc, id), MR_OK);
    assert_ended(&outcome, MR_CANCELLED, "");
    assert_int_equal(rpc_cancel(pair->sides[CLIENT].rpc, id), MR_NOT_FOUND);
    run(pair);
    assert_int_equal(server->cancelled_count, 1);
    assert_int_equal(server->cancelled[0].number, server->seen[0].token.number);
    assert_int_equal(rpc_pair_reply(pair, SERVER, server->seen[0].token, "late"), MR_CLOSED);
    run(pair);
    assert_int_equal(outcome.count, 1);
    assert_int_equal(stats(pair, CLIENT).cancelled, 1);
}

static void an_answer_that_crosses_a_cancellation_is_dropped(void **state) {
    rpc_pair *pair = *state;
    rpc_outcome outcome;
    start(pair, "x", NULL, &outcome);
    loopback_deliver(&pair->loopback, CLIENT, 0);
    assert_int_equal(rpc_cancel(pair->sides[CLIENT].rpc, outcome.id), MR_OK);
    run(pair);
    assert_ended(&outcome, MR_CANCELLED, "");
    assert_int_equal(stats(pair, CLIENT).late_answers, 1);
    assert_int_equal(pair->sides[SERVER].cancelled_count, 0); /* answered before the cancellation, */
    assert_int_equal(pair->sides[SERVER].crossed_count, 1);   /* which crossed with the answer */
}

static void a_cancellation_that_overtakes_its_request_prevents_it(void **state) {
    rpc_pair *pair = *state;
    rpc_outcome outcome, next;
    start(pair, "x", NULL, &outcome);
    assert_int_equal(rpc_cancel(pair->sides[CLIENT].rpc, outcome.id), MR_OK);
    loopback_deliver(&pair->loopback, CLIENT, 1);
    loopback_deliver(&pair->loopback, CLIENT, 0);
    assert_int_equal(pair->sides[SERVER].seen_count, 0);
    start(pair, "next", NULL, &next);
    run(pair);
    assert_ended(&next, MR_OK, "next");
}

static void cancelling_what_was_never_started_finds_nothing(void **state) {
    rpc_pair *pair = *state;
    rpc *rpc = pair->sides[CLIENT].rpc;
    link_id link = rpc_pair_link(pair, CLIENT);
    assert_int_equal(rpc_cancel(rpc, (rpc_call_id){0}), MR_NOT_FOUND);
    assert_int_equal(rpc_cancel(rpc, (rpc_call_id){.number = RPC_CALL_WINDOW, .link = link}), MR_NOT_FOUND);
    rpc_outcome outcome;
    start(pair, "x", NULL, &outcome);
    assert_int_equal(rpc_cancel(rpc, (rpc_call_id){.number = UINT64_MAX, .link = link}), MR_NOT_FOUND);
    assert_int_equal(rpc_cancel(rpc, (rpc_call_id){.number = outcome.id.number, .link = {99}}), MR_NOT_FOUND);
    assert_int_equal(rpc_cancel(rpc, (rpc_call_id){.number = outcome.id.number + 1, .link = link}), MR_NOT_FOUND);
    assert_int_equal(outcome.count, 0);
}

static void a_cancellation_waits_for_room_and_holds_its_place(void **state) {
    rpc_pair *pair = *state;
    rpc_outcome first, second;
    start(pair, "first", NULL, &first);
    pair->loopback.ends[CLIENT].room = 1;
    assert_int_equal(rpc_cancel(pair->sides[CLIENT].rpc, first.id), MR_OK);
    assert_ended(&first, MR_CANCELLED, "");
    assert_int_equal(open_count(pair), 0);
    assert_int_equal(queued(pair, CLIENT), 1);
    pair->loopback.ends[CLIENT].room = 2;
    start(pair, "second", NULL, &second);
    assert_int_not_equal(rpc_call_place(second.id.number), rpc_call_place(first.id.number));
    pair->sides[SERVER].habit = RPC_HOLD;
    loopback_deliver(&pair->loopback, CLIENT, 0);
    run(pair);
    assert_int_equal(pair->sides[SERVER].cancelled_count, 1);
    assert_int_equal(pair->sides[SERVER].cancelled[0].number, first.id.number);
    assert_int_equal(pair->sides[SERVER].seen_count, 2); /* nothing else was sent */
    assert_int_equal(stats(pair, SERVER).repeats, 0);
}

static void answer_the_cancelled(rpc_side *side, rpc_call_token token) {
    assert_int_equal(rpc_pair_reply(side->pair, side->end, token, "late"), MR_CLOSED);
}

static void a_call_whose_time_is_over_is_cancelled_when_its_place_is_taken(void **state) {
    rpc_pair *pair = *state;
    rpc_side *server = &pair->sides[SERVER];
    server->habit = RPC_HOLD;
    rpc_outcome outcome, next;
    start(pair, "x", &(rpc_call_options){.timeout_us = 10}, &outcome);
    run(pair);
    rpc_pair_advance(pair, 2000);
    start(pair, "next", NULL, &next);
    server->peek_cancel = answer_the_cancelled;
    run(pair);
    assert_int_equal(server->cancelled_count, 1);
    assert_int_equal(server->cancelled[0].number, outcome.id.number);
    assert_int_equal(rpc_pair_reply(pair, SERVER, server->seen[0].token, "late"), MR_CLOSED);
    assert_int_equal(rpc_pair_reply(pair, SERVER, server->seen[1].token, "good"), MR_OK);
    run(pair);
    assert_ended(&next, MR_OK, "good");
}

#define WITH_PAIR(test) cmocka_unit_test_setup_teardown(test, rpc_pair_setup, rpc_pair_teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        WITH_PAIR(an_answer_ends_the_call),
        WITH_PAIR(both_sides_may_ask),
        WITH_PAIR(a_small_call_is_made_in_one_step),
        WITH_PAIR(a_small_answer_is_given_in_one_step),
        WITH_PAIR(an_empty_payload_travels),
        WITH_PAIR(a_payload_may_shrink_and_a_begun_call_may_be_given_up),
        WITH_PAIR(the_largest_payload_fits_and_a_larger_one_does_not),
        WITH_PAIR(answers_may_come_later_and_in_any_order),
        WITH_PAIR(a_request_is_answered_once),
        WITH_PAIR(a_failure_has_a_status_and_a_text),
        WITH_PAIR(an_answer_that_meets_a_full_link_is_given_later),
        WITH_PAIR(a_deadline_ends_the_call_when_it_comes_and_not_before),
        WITH_PAIR(a_late_answer_is_dropped),
        WITH_PAIR(an_answer_in_time_leaves_no_timer),
        WITH_PAIR(the_budget_that_is_left_travels),
        WITH_PAIR(a_request_without_budget_is_not_run),
        WITH_PAIR(a_call_without_deadline_reads_no_clock),
        WITH_PAIR(many_deadlines_end_in_their_order),
        WITH_PAIR(a_lost_request_is_asked_again),
        WITH_PAIR(any_attempt_s_answer_ends_the_call),
        WITH_PAIR(after_a_lost_answer_the_handler_runs_again_for_the_next_attempt),
        WITH_PAIR(the_last_attempt_s_silence_ends_the_call),
        WITH_PAIR(attempts_are_bounded),
        WITH_PAIR(asking_again_waits_for_room),
        WITH_PAIR(a_deadline_comes_while_an_attempt_waits_for_room),
        WITH_PAIR(an_answer_comes_while_an_attempt_waits_for_room),
        WITH_PAIR(remembered_answers_are_bounded),
        WITH_PAIR(a_repeated_request_runs_once),
        WITH_PAIR(an_attempt_that_was_overtaken_does_not_run),
        WITH_PAIR(a_repeat_of_a_call_that_is_over_does_not_run),
        WITH_PAIR(a_repeated_answer_ends_nothing_else),
        WITH_PAIR(a_cancelled_call_ends_at_once_and_the_other_side_is_told),
        WITH_PAIR(an_answer_that_crosses_a_cancellation_is_dropped),
        WITH_PAIR(a_cancellation_that_overtakes_its_request_prevents_it),
        WITH_PAIR(cancelling_what_was_never_started_finds_nothing),
        WITH_PAIR(a_cancellation_waits_for_room_and_holds_its_place),
        WITH_PAIR(a_call_whose_time_is_over_is_cancelled_when_its_place_is_taken),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
