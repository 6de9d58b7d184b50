/* call_pair.h — two `calls` objects joined by a loopback, that write down everything that happens to them. */
#pragma once
#include "net/call.h"
#include "tests/support/loopback.h"

enum { CALL_LOG_MAX = 20000, CALL_TEXT_KEPT = 64 };

typedef struct call_outcome { /* what done said */
    int count;                /* how often it came */
    call_id id;
    mr_status status;
    char payload[CALL_TEXT_KEPT];
    size_t payload_size;
    span body;
    bool lost; /* why != NULL */
    mr_status why;
} call_outcome;

typedef enum call_habit {
    CALL_ECHO, /* answers each request with its payload, at once; keeps the token if the link is full */
    CALL_HOLD, /* keeps the tokens */
} call_habit;

typedef struct call_seen { /* what a handler saw */
    call_token token;
    uint32_t method;
    int64_t deadline_us;
    char payload[CALL_TEXT_KEPT];
    span body;
} call_seen;

typedef struct call_side {
    env env;
    calls *calls;
    struct call_pair *pair;
    int end;
    call_habit habit;
    call_seen *seen; /* owned, CALL_LOG_MAX of them */
    size_t seen_count;
    call_token cancelled[32];
    size_t cancelled_count, crossed_count;
    size_t opened, closed, rooms;
    cause closed_why;
    uint8_t body[256]; /* where bodies go */
    bool refuse_bodies;
    size_t bodies; /* how often on_body came */
    /* A test may look at a request before the habit does. */
    void (*peek)(struct call_side *side, const call_request *request);
    void (*peek_room)(struct call_side *side);
    void (*peek_cancel)(struct call_side *side, call_token token);
    void *test;
} call_side;

/* Where a started call writes its outcome. A test may end with open calls: its outcomes are gone by the teardown. */
typedef struct call_slot {
    struct call_pair *pair;
    call_outcome *outcome;
} call_slot;

typedef struct call_pair {
    loopback loopback;
    virtual_clock clock;
    uint64_t clock_reads;
    call_side sides[2];
    uint32_t link;    /* the first link, joined already */
    call_slot *slots; /* owned, CALL_LOG_MAX of them */
    size_t slot_count;
    bool over;
} call_pair;

/* For cmocka: *state is the pair. */
int call_pair_setup(void **state);
int call_pair_teardown(void **state);

link_id call_pair_link(const call_pair *pair, int end);

/* The whole of it: begin, copy the text, commit. The outcome is written when done comes. */
mr_status call_pair_start(call_pair *pair, int end, const char *text, const call_options *options,
                          call_outcome *outcome);
mr_status call_pair_reply(call_pair *pair, int end, call_token token, const char *text);

void call_outcome_done(void *argument, call_id id, const call_result *result); /* argument: a call_outcome */

/* Moves the clock and ticks both sides. */
void call_pair_advance(call_pair *pair, int64_t to_us);
