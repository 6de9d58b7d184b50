/* rpc_link_test.c — calls and their links: windows, closing, faulty peers, callbacks that call, memory. */
#include "net/rpc/rpc.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/alloc.h"
#include "base/rng.h"
#include "net/rpc/rpc_header.h"
#include "tests/support/rpc_pair.h"
#include "tests/support/test_child.h"

enum { CLIENT = 0, SERVER = 1 };

static void run(rpc_pair *pair) { loopback_run(&pair->loopback); }
static size_t queued(const rpc_pair *pair, int from) { return pair->loopback.ends[from].count; }
static rpc_call_stats stats(const rpc_pair *pair, int end) { return rpc_stats(pair->sides[end].rpc); }
static size_t open_count(const rpc_pair *pair) { return rpc_open_count(pair->sides[CLIENT].rpc); }

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

static const rpc_call_options persistent = {.timeout_us = 10000, .attempt_timeout_us = 1000, .attempts_max = 4};

/* ---- Links. */

static void when_a_link_closes_its_calls_end_with_the_cause(void **state) {
    rpc_pair *pair = *state;
    rpc_side *server = &pair->sides[SERVER];
    server->habit = RPC_HOLD;
    rpc_outcome outcomes[20];
    for (int i = 0; i < 20; i++) start(pair, "x", i % 2 ? &persistent : NULL, &outcomes[i]);
    run(pair);
    loopback_break(&pair->loopback, pair->link, MR_PEER_DIED, "process 7 was killed by signal 9");
    for (int i = 0; i < 20; i++) {
        assert_ended(&outcomes[i], MR_PEER_DIED, "process 7 was killed by signal 9");
        assert_true(outcomes[i].lost);
        assert_int_equal(outcomes[i].why, MR_PEER_DIED);
    }
    assert_int_equal(open_count(pair), 0);
    assert_int_equal(rpc_next_us(pair->sides[CLIENT].rpc), CLOCK_NEVER_US);
    assert_int_equal(pair->sides[CLIENT].closed, 1);
    assert_int_equal(pair->sides[CLIENT].closed_why.status, MR_PEER_DIED);
    assert_int_equal(rpc_pair_reply(pair, SERVER, server->seen[0].token, "late"), MR_CLOSED);
    rpc_outcome outcome;
    assert_int_equal(rpc_pair_start(pair, CLIENT, "x", NULL, &outcome), MR_CLOSED);
    assert_int_equal(rpc_cancel(pair->sides[CLIENT].rpc, outcomes[0].id), MR_NOT_FOUND);
    assert_int_equal(stats(pair, CLIENT).lost, 20);
    assert_int_equal(server->cancelled_count, 0);
}

static void links_do_not_mix(void **state) {
    rpc_pair *pair = *state;
    enum { LINKS = 40 };
    uint32_t first = pair->link;
    rpc_outcome outcomes[LINKS];
    uint32_t links[LINKS] = {first};
    for (int i = 1; i < LINKS; i++) links[i] = loopback_join(&pair->loopback);
    assert_int_equal(pair->sides[CLIENT].opened, LINKS);
    for (int i = 0; i < LINKS; i++) {
        pair->link = links[i];
        start(pair, "x", NULL, &outcomes[i]);
        assert_int_equal(outcomes[i].id.number, RPC_CALL_WINDOW); /* the same number on every link */
    }
    loopback_break(&pair->loopback, links[5], MR_IO, "reset");
    run(pair);
    for (int i = 0; i < LINKS; i++)
        assert_int_equal(rpc_has_link(pair->sides[CLIENT].rpc, loopback_link(links[i], CLIENT)), i != 5);
    for (int i = 0; i < LINKS; i++)
        if (i == 5)
            assert_ended(&outcomes[i], MR_IO, "reset");
        else
            assert_ended(&outcomes[i], MR_OK, "x");
    assert_int_equal(pair->sides[SERVER].seen_count, LINKS - 1);
}

static void a_link_that_never_opened_is_still_reported(void **state) {
    rpc_pair *pair = *state;
    cause why;
    cause_set(&why, MR_NOT_FOUND, "nobody listens there");
    rpc_events.on_closed(pair->sides[CLIENT].rpc, (link_id){77}, &why);
    assert_int_equal(pair->sides[CLIENT].closed, 1);
    assert_int_equal(pair->sides[CLIENT].closed_why.status, MR_NOT_FOUND);
}

static void the_window_bounds_the_open_calls_of_a_link(void **state) {
    rpc_pair *pair = *state;
    rpc_side *server = &pair->sides[SERVER];
    server->habit = RPC_HOLD;
    rpc_outcome *outcomes = xcalloc(RPC_CALL_WINDOW, sizeof *outcomes);
    for (int i = 0; i < RPC_CALL_WINDOW; i++) start(pair, "x", NULL, &outcomes[i]);
    rpc_outcome extra;
    assert_int_equal(rpc_pair_start(pair, CLIENT, "x", NULL, &extra), MR_BUSY);
    run(pair);
    assert_int_equal(server->seen_count, RPC_CALL_WINDOW);
    assert_int_equal(pair->sides[CLIENT].rooms, 0);
    assert_int_equal(rpc_pair_reply(pair, SERVER, server->seen[77].token, "y"), MR_OK);
    run(pair);
    assert_ended(&outcomes[77], MR_OK, "y");
    assert_int_equal(pair->sides[CLIENT].rooms, 1);
    start(pair, "x", NULL, &extra);
    assert_int_equal(rpc_call_place(extra.id.number), rpc_call_place(outcomes[77].id.number));
    assert_int_equal(rpc_pair_start(pair, CLIENT, "x", NULL, &outcomes[77]), MR_BUSY);
    loopback_break(&pair->loopback, pair->link, MR_CLOSED, "over");
    assert_int_equal(pair->sides[CLIENT].rooms, 1);
    assert_int_equal(open_count(pair), 0);
    free(outcomes);
}

static void a_long_call_does_not_delay_others(void **state) {
    rpc_pair *pair = *state;
    rpc_side *server = &pair->sides[SERVER];
    server->habit = RPC_HOLD;
    rpc_outcome slow, quick;
    start(pair, "slow", NULL, &slow);
    run(pair);
    server->habit = RPC_ECHO;
    for (int i = 0; i < 3 * RPC_CALL_WINDOW; i++) {
        start(pair, "quick", NULL, &quick);
        run(pair);
        assert_int_equal(quick.status, MR_OK);
    }
    assert_int_equal(rpc_pair_reply(pair, SERVER, server->seen[0].token, "done"), MR_OK);
    run(pair);
    assert_ended(&slow, MR_OK, "done");
}

/* ---- Faulty peers. */

static void assert_condemned(rpc_pair *pair, int end) {
    run(pair);
    assert_int_equal(stats(pair, end).bad_messages, 1);
    assert_int_equal(pair->sides[end].closed, 1);
    assert_int_equal(pair->sides[end].closed_why.status, MR_CORRUPT);
    assert_int_equal(pair->sides[1 - end].closed_why.status, MR_CLOSED);
    pair->link = loopback_join(&pair->loopback);
    rpc_outcome outcome;
    assert_int_equal(rpc_pair_start(pair, CLIENT, "a new link works", NULL, &outcome), MR_OK);
    run(pair);
    assert_ended(&outcome, MR_OK, "a new link works");
}

static void rubbish_condemns_the_link(void **state) {
    rpc_pair *pair = *state;
    rpc_outcome outcomes[2];
    start(pair, "x", NULL, &outcomes[0]);
    start(pair, "y", &persistent, &outcomes[1]);
    while (queued(pair, CLIENT) > 0) loopback_drop(&pair->loopback, CLIENT, 0);
    loopback_inject(&pair->loopback, SERVER, pair->link, span_of("rubbish of some length", 22), (span){0});
    loopback_inject(&pair->loopback, SERVER, pair->link, span_of("more", 4), (span){0}); /* not read any more */
    loopback_deliver(&pair->loopback, SERVER, 0);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(outcomes[i].count, 1); /* before the transport has closed the link */
        assert_int_equal(outcomes[i].status, MR_CORRUPT);
    }
    rpc_outcome outcome;
    assert_int_equal(rpc_pair_start(pair, CLIENT, "x", NULL, &outcome), MR_CLOSED);
    assert_condemned(pair, CLIENT);
}

static void an_empty_message_condemns_the_link(void **state) {
    rpc_pair *pair = *state;
    loopback_inject(&pair->loopback, CLIENT, pair->link, span_of("", 0), (span){0});
    assert_condemned(pair, SERVER);
}

static void an_answer_to_nothing_condemns_the_link(void **state) {
    rpc_pair *pair = *state;
    inject(pair, SERVER, (rpc_header){.kind = RPC_CALL_ANSWER, .attempt = 1, .number = RPC_CALL_WINDOW});
    assert_condemned(pair, CLIENT);
}

static void an_answer_to_a_future_number_condemns_the_link(void **state) {
    rpc_pair *pair = *state;
    rpc_outcome outcome;
    start(pair, "x", NULL, &outcome);
    run(pair);
    inject(pair, SERVER,
           (rpc_header){.kind = RPC_CALL_ANSWER, .attempt = 1, .number = outcome.id.number + RPC_CALL_WINDOW});
    assert_condemned(pair, CLIENT);
}

static void an_answer_to_a_future_attempt_condemns_the_link(void **state) {
    rpc_pair *pair = *state;
    rpc_outcome outcome;
    start(pair, "x", &persistent, &outcome);
    loopback_drop(&pair->loopback, CLIENT, 0);
    inject(pair, SERVER, (rpc_header){.kind = RPC_CALL_ANSWER, .attempt = 2, .number = outcome.id.number});
    loopback_deliver(&pair->loopback, SERVER, 0);
    assert_int_equal(outcome.status, MR_CORRUPT);
    assert_condemned(pair, CLIENT);
}

static void a_cancellation_of_an_unknown_call_does_no_harm(void **state) {
    rpc_pair *pair = *state;
    inject(pair, CLIENT,
           (rpc_header){.kind = RPC_CALL_CANCEL, .attempt = 1, .number = 99 * (uint64_t)RPC_CALL_WINDOW + 4000});
    run(pair);
    assert_int_equal(pair->sides[SERVER].closed, 0);
    assert_int_equal(pair->sides[SERVER].cancelled_count, 0);
}

/* Random bytes can only cause a closed link. */
static void random_messages_do_no_harm(void **state) {
    rpc_pair *pair = *state;
    rpc_side *client = &pair->sides[CLIENT];
    client->habit = RPC_HOLD;
    rng rng;
    rng_init(&rng, 11);
    rpc_outcome outcome = {.count = 1};
    uint64_t condemned = 0;
    for (int round = 0; round < 8000; round++) {
        uint8_t bytes[48];
        rng_fill(&rng, bytes, sizeof bytes);
        size_t size = rng_below(&rng, sizeof bytes);
        if (rng_chance(&rng, 0.9)) { /* nearly valid, to reach later checks */
            rpc_header header = {.kind = (uint8_t)rng_between(&rng, 1, 3),
                                 .attempt = (uint16_t)rng_between(&rng, 1, 3),
                                 .number = (uint64_t)rng_between(&rng, 0, 2) * RPC_CALL_WINDOW + rng_below(&rng, 3),
                                 .budget_us = rng_below(&rng, 3)};
            memcpy(bytes, &header, sizeof header);
            size = header.kind == RPC_CALL_REQUEST ? 24 : 16;
        }
        span body = span_of(bytes, rng_chance(&rng, 0.2) ? rng_below(&rng, sizeof bytes) : 0);
        if (outcome.count == 1) {
            start(pair, "x", NULL, &outcome);
            loopback_drop(&pair->loopback, CLIENT, 0);
        }
        client->seen_count = client->cancelled_count = 0;
        loopback_inject(&pair->loopback, SERVER, pair->link, span_of(bytes, size), body);
        run(pair);
        if (pair->loopback.state[pair->link] != LOOPBACK_GONE) continue;
        assert_int_equal(outcome.count, 1);
        assert_int_equal(stats(pair, CLIENT).bad_messages, ++condemned);
        pair->link = loopback_join(&pair->loopback);
    }
    assert_true(condemned > 1000 && stats(pair, CLIENT).answered + stats(pair, CLIENT).failed > 30);
    assert_true(stats(pair, CLIENT).requests > 500);
    if (outcome.count == 0) rpc_cancel(client->rpc, outcome.id);
}

/* ---- Callbacks that call. */

typedef struct chain {
    rpc_pair *pair;
    int left;
    rpc_call_id victim;
    mr_status status;
} chain;

static void next_of_chain(void *argument, rpc_call_id id, const rpc_call_result *result) {
    chain *chain = argument;
    rpc *rpc = chain->pair->sides[CLIENT].rpc;
    link_id link = rpc_pair_link(chain->pair, CLIENT);
    uint8_t *payload;
    if (chain->left-- == 0) return;
    chain->status = rpc_begin(rpc, link, 1, 0, &payload);
    if (chain->status == MR_OK) rpc_commit(rpc, 0, link, 0, NULL, next_of_chain, chain);
}

static void done_may_start_the_next_call(void **state) {
    rpc_pair *pair = *state;
    chain chain = {.pair = pair, .left = 1000};
    next_of_chain(&chain, (rpc_call_id){0}, NULL);
    run(pair);
    assert_int_equal(chain.left, -1);
    assert_int_equal(stats(pair, CLIENT).answered, 1000);
    assert_int_equal(pair->sides[SERVER].seen[999].token.number, 1000 * RPC_CALL_WINDOW); /* all in one place */
}

static void done_at_the_end_of_a_link_may_not_start_one_there(void **state) {
    rpc_pair *pair = *state;
    chain chain = {.pair = pair, .left = 2};
    next_of_chain(&chain, (rpc_call_id){0}, NULL);
    loopback_break(&pair->loopback, pair->link, MR_IO, "reset");
    assert_int_equal(chain.status, MR_CLOSED);
    assert_int_equal(open_count(pair), 0);
}

static void cancel_another(void *argument, rpc_call_id id, const rpc_call_result *result) {
    chain *chain = argument;
    chain->left++;
    chain->status = rpc_cancel(chain->pair->sides[CLIENT].rpc, chain->victim);
}

static rpc_call_id start_canceller(chain *chain) {
    rpc *rpc = chain->pair->sides[CLIENT].rpc;
    link_id link = rpc_pair_link(chain->pair, CLIENT);
    uint8_t *payload;
    assert_int_equal(rpc_begin(rpc, link, 1, 0, &payload), MR_OK);
    return rpc_commit(rpc, 1000, link, 0, &(rpc_call_options){.timeout_us = 50}, cancel_another, chain);
}

static void done_may_cancel_another_call(void **state) {
    rpc_pair *pair = *state;
    rpc_outcome victim;
    chain chain = {.pair = pair};
    start_canceller(&chain);
    start(pair, "victim", &persistent, &victim);
    chain.victim = victim.id;
    rpc_pair_advance(pair, 1050);
    assert_int_equal(chain.status, MR_OK);
    assert_ended(&victim, MR_CANCELLED, "");
}

/* Also while the calls of a link are being ended, the cancelled call ends exactly once. */
static void done_may_cancel_another_call_of_a_closing_link(void **state) {
    rpc_pair *pair = *state;
    rpc_outcome victim;
    chain chain = {.pair = pair};
    start_canceller(&chain);
    start(pair, "victim", NULL, &victim);
    chain.victim = victim.id;
    loopback_break(&pair->loopback, pair->link, MR_IO, "reset");
    assert_int_equal(chain.status, MR_OK);
    assert_ended(&victim, MR_CANCELLED, "");
    assert_int_equal(chain.left, 1);
}

static void done_may_not_cancel_its_own_call(void **state) {
    rpc_pair *pair = *state;
    chain chain = {.pair = pair};
    chain.victim = start_canceller(&chain);
    rpc_pair_advance(pair, 1050);
    assert_int_equal(chain.status, MR_NOT_FOUND);
    assert_int_equal(chain.left, 1);
}

static void close_the_link(rpc_side *side, const rpc_call_request *request) {
    side->env.transport.ops->close(side->env.transport.self, request->token.link);
}

static void a_handler_may_close_its_link(void **state) {
    rpc_pair *pair = *state;
    pair->sides[SERVER].peek = close_the_link;
    rpc_outcome outcome;
    start(pair, "x", NULL, &outcome);
    run(pair);
    assert_ended(&outcome, MR_CLOSED, "closed on purpose");
}

static void break_the_link(rpc_side *side, const rpc_call_request *request) {
    side->peek = NULL;
    loopback_break(&side->pair->loopback, side->pair->link, MR_IO, "broken inside the handler");
}

/* A handler that drives the transport while it waits may have its own link closed. */
static void a_link_may_go_inside_its_own_handler(void **state) {
    rpc_pair *pair = *state;
    pair->sides[SERVER].peek = break_the_link;
    rpc_outcome outcomes[2];
    start(pair, "x", NULL, &outcomes[0]);
    start(pair, "y", NULL, &outcomes[1]);
    loopback_deliver(&pair->loopback, CLIENT, 0);
    assert_ended(&outcomes[0], MR_IO, "broken inside the handler");
    assert_ended(&outcomes[1], MR_IO, "broken inside the handler");
    assert_int_equal(pair->sides[SERVER].closed, 1);
}

static void break_inside(void *argument, rpc_call_id id, const rpc_call_result *result) {
    rpc_pair *pair = argument;
    if (result->status == MR_OK) loopback_break(&pair->loopback, pair->link, MR_IO, "broken inside done");
}

static void a_link_may_go_inside_the_end_of_its_own_call(void **state) {
    rpc_pair *pair = *state;
    rpc *rpc = pair->sides[CLIENT].rpc;
    link_id link = rpc_pair_link(pair, CLIENT);
    rpc_outcome before, after;
    uint8_t *payload;
    start(pair, "x", NULL, &before);
    assert_int_equal(rpc_begin(rpc, link, 1, 0, &payload), MR_OK);
    rpc_commit(rpc, 0, link, 0, NULL, break_inside, pair);
    start(pair, "y", NULL, &after);
    loopback_deliver(&pair->loopback, CLIENT, 1);
    loopback_deliver(&pair->loopback, SERVER, 0);
    assert_ended(&before, MR_IO, "broken inside done");
    assert_ended(&after, MR_IO, "broken inside done");
}

static void start_more(rpc_side *side) {
    rpc_outcome *outcome = side->test;
    if (outcome->count == 0) assert_int_equal(rpc_pair_start(side->pair, side->end, "more", NULL, outcome), MR_OK);
}

static void on_room_may_start_calls(void **state) {
    rpc_pair *pair = *state;
    rpc_outcome outcome, more = {0};
    pair->loopback.ends[CLIENT].room = 1;
    start(pair, "x", NULL, &outcome);
    assert_int_equal(rpc_pair_start(pair, CLIENT, "y", NULL, &outcome), MR_BUSY);
    pair->sides[CLIENT].peek_room = start_more;
    pair->sides[CLIENT].test = &more;
    run(pair);
    assert_ended(&more, MR_OK, "more");
}

/* ---- Memory and lifetime. */

static void without_memory_a_call_is_not_started(void **state) {
    rpc_pair *pair = *state;
    rpc_outcome outcome;
    for (size_t nth = 1; nth <= 2; nth++) {
        alloc_fail_at(nth);
        assert_int_equal(rpc_pair_start(pair, CLIENT, "x", NULL, &outcome), MR_NOMEM);
    }
    start(pair, "x", NULL, &outcome);
    run(pair);
    assert_ended(&outcome, MR_OK, "x");
}

static void without_memory_for_a_copy_a_call_asks_once(void **state) {
    rpc_pair *pair = *state;
    rpc_outcome warm, outcome;
    start(pair, "warm", NULL, &warm);
    run(pair);
    alloc_fail_at(1);
    start(pair, "x", &persistent, &outcome);
    rpc_pair_advance(pair, 2000);
    assert_ended(&outcome, MR_TIMEOUT, "no answer in time");
    assert_int_equal(stats(pair, CLIENT).asked_again, 0);
}

static void without_memory_to_remember_calls_a_link_is_given_up(void **state) {
    rpc_pair *pair = *state;
    rpc_outcome outcome;
    start(pair, "x", NULL, &outcome);
    alloc_fail_at(1);
    run(pair);
    assert_int_equal(pair->sides[SERVER].seen_count, 0);
    assert_int_equal(pair->sides[SERVER].closed_why.status, MR_NOMEM);
    assert_int_equal(outcome.status, MR_CLOSED);
    assert_int_equal(stats(pair, SERVER).bad_messages, 0);
}

static void a_warm_link_allocates_nothing_per_call(void **state) {
    rpc_pair *pair = *state;
    rpc_outcome outcome;
    start(pair, "warm", NULL, &outcome);
    run(pair);
    alloc_fail_at(1);
    for (int i = 0; i < 1000; i++) {
        start(pair, "x", &(rpc_call_options){.timeout_us = 1000}, &outcome);
        run(pair);
        assert_ended(&outcome, MR_OK, "x");
    }
    void *memory;
    assert_int_equal(alloc_try(1, &memory), MR_NOMEM); /* no allocation in between */
}

static void destroying_ends_what_is_open(void **state) {
    rpc_pair *pair = *state;
    rpc_outcome outcomes[3];
    start(pair, "x", NULL, &outcomes[0]);
    start(pair, "y", &persistent, &outcomes[1]);
    pair->link = loopback_join(&pair->loopback);
    start(pair, "z", NULL, &outcomes[2]);
    chain chain = {.pair = pair, .left = 1};
    next_of_chain(&chain, (rpc_call_id){0}, NULL);
    chain.left = 1;
    rpc_destroy(pair->sides[CLIENT].rpc);
    pair->sides[CLIENT].rpc = NULL;
    for (int i = 0; i < 3; i++) assert_ended(&outcomes[i], MR_CLOSED, "this process shut down its RPCs (4 were open)");
    assert_int_equal(chain.status, MR_CLOSED);
    assert_int_equal(pair->sides[CLIENT].closed, 0);
}

static void destroying_sends_nothing(void **state) {
    rpc_pair *pair = *state;
    rpc_outcome victim;
    chain chain = {.pair = pair};
    start_canceller(&chain);
    start(pair, "victim", NULL, &victim);
    chain.victim = victim.id;
    rpc_destroy(pair->sides[CLIENT].rpc);
    pair->sides[CLIENT].rpc = NULL;
    assert_ended(&victim, MR_CANCELLED, "");
    assert_int_equal(queued(pair, CLIENT), 2); /* the two requests and no cancellation */
}

static void destroy_inside(void *argument, rpc_call_id id, const rpc_call_result *result) { rpc_destroy(argument); }

static int destroy_in_a_callback(void *argument) {
    rpc_pair *pair = argument;
    rpc *rpc = pair->sides[CLIENT].rpc;
    uint8_t *payload;
    TEST_CHILD_CHECK(rpc_begin(rpc, rpc_pair_link(pair, CLIENT), 1, 0, &payload) == MR_OK);
    rpc_commit(rpc, 0, rpc_pair_link(pair, CLIENT), 0, NULL, destroy_inside, rpc);
    run(pair);
    return 0;
}

static int commit_without_begin(void *argument) {
    rpc_pair *pair = argument;
    rpc_commit(pair->sides[CLIENT].rpc, 0, rpc_pair_link(pair, CLIENT), 0, NULL, destroy_inside, NULL);
    return 0;
}

static int commit_after_a_refusal(void *argument) {
    rpc_pair *pair = argument;
    rpc *rpc = pair->sides[CLIENT].rpc;
    uint8_t *payload;
    TEST_CHILD_CHECK(rpc_begin(rpc, rpc_pair_link(pair, CLIENT), 1, 0, &payload) == MR_OK);
    pair->loopback.ends[CLIENT].room = 0;
    TEST_CHILD_CHECK(rpc_begin(rpc, rpc_pair_link(pair, CLIENT), 1, 0, &payload) == MR_BUSY);
    rpc_commit(rpc, 0, rpc_pair_link(pair, CLIENT), 0, NULL, destroy_inside, NULL);
    return 0;
}

static int cancel_inside_begin(void *argument) { /* another message was sent on the link in between */
    rpc_pair *pair = argument;
    rpc *rpc = pair->sides[CLIENT].rpc;
    rpc_outcome outcome;
    uint8_t *payload;
    TEST_CHILD_CHECK(rpc_pair_start(pair, CLIENT, "x", NULL, &outcome) == MR_OK);
    TEST_CHILD_CHECK(rpc_begin(rpc, rpc_pair_link(pair, CLIENT), 1, 8, &payload) == MR_OK);
    rpc_cancel(rpc, outcome.id);
    rpc_commit(rpc, 0, rpc_pair_link(pair, CLIENT), 8, NULL, destroy_inside, NULL);
    return 0;
}

static void misuse_is_caught(void **state) {
    rpc_pair *pair = *state;
    assert_int_equal(test_child_run(destroy_in_a_callback, pair, 10000), -SIGABRT);
    assert_int_equal(test_child_run(commit_without_begin, pair, 10000), -SIGABRT);
    assert_int_equal(test_child_run(commit_after_a_refusal, pair, 10000), -SIGABRT);
    assert_int_equal(test_child_run(cancel_inside_begin, pair, 10000), -SIGABRT);
}

#define WITH_PAIR(test) cmocka_unit_test_setup_teardown(test, rpc_pair_setup, rpc_pair_teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        WITH_PAIR(when_a_link_closes_its_calls_end_with_the_cause),
        WITH_PAIR(links_do_not_mix),
        WITH_PAIR(a_link_that_never_opened_is_still_reported),
        WITH_PAIR(the_window_bounds_the_open_calls_of_a_link),
        WITH_PAIR(a_long_call_does_not_delay_others),
        WITH_PAIR(rubbish_condemns_the_link),
        WITH_PAIR(an_empty_message_condemns_the_link),
        WITH_PAIR(an_answer_to_nothing_condemns_the_link),
        WITH_PAIR(an_answer_to_a_future_number_condemns_the_link),
        WITH_PAIR(an_answer_to_a_future_attempt_condemns_the_link),
        WITH_PAIR(a_cancellation_of_an_unknown_call_does_no_harm),
        WITH_PAIR(random_messages_do_no_harm),
        WITH_PAIR(done_may_start_the_next_call),
        WITH_PAIR(done_at_the_end_of_a_link_may_not_start_one_there),
        WITH_PAIR(done_may_cancel_another_call),
        WITH_PAIR(done_may_cancel_another_call_of_a_closing_link),
        WITH_PAIR(done_may_not_cancel_its_own_call),
        WITH_PAIR(a_handler_may_close_its_link),
        WITH_PAIR(a_link_may_go_inside_its_own_handler),
        WITH_PAIR(a_link_may_go_inside_the_end_of_its_own_call),
        WITH_PAIR(on_room_may_start_calls),
        WITH_PAIR(without_memory_a_call_is_not_started),
        WITH_PAIR(without_memory_for_a_copy_a_call_asks_once),
        WITH_PAIR(without_memory_to_remember_calls_a_link_is_given_up),
        WITH_PAIR(a_warm_link_allocates_nothing_per_call),
        WITH_PAIR(destroying_ends_what_is_open),
        WITH_PAIR(destroying_sends_nothing),
        WITH_PAIR(misuse_is_caught),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
