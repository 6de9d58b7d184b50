/* rpc_pair.h — two `rpc` objects joined by a loopback, which record all their events. */
#pragma once
#include "net/rpc/rpc.h"
#include "tests/support/loopback.h"

enum { RPC_LOG_MAX = 20000, RPC_TEXT_KEPT = 64 };

typedef struct rpc_outcome { /* arguments of done */
    int count;               /* number of calls of done */
    rpc_call_id id;
    mr_status status;
    char payload[RPC_TEXT_KEPT];
    size_t payload_size;
    span body;
    bool lost; /* why != NULL */
    mr_status why;
} rpc_outcome;

typedef enum rpc_habit {
    RPC_ECHO, /* answers each request at once with its payload; keeps the token if the link is full */
    RPC_HOLD, /* keeps the tokens */
} rpc_habit;

typedef struct rpc_seen { /* a request that a handler received */
    rpc_call_token token;
    uint32_t method;
    int64_t deadline_us;
    char payload[RPC_TEXT_KEPT];
    span body;
} rpc_seen;

typedef struct rpc_side {
    env env;
    rpc *rpc;
    struct rpc_pair *pair;
    int end;
    rpc_habit habit;
    rpc_seen *seen; /* owned, RPC_LOG_MAX of them */
    size_t seen_count;
    rpc_call_token cancelled[32];
    size_t cancelled_count, crossed_count;
    size_t opened, closed, rooms;
    cause closed_why;
    uint8_t body[256]; /* target of bodies */
    bool refuse_bodies;
    size_t bodies; /* number of on_body calls */
    /* Called before the habit handles a request. */
    void (*peek)(struct rpc_side *side, const rpc_call_request *request);
    void (*peek_room)(struct rpc_side *side);
    void (*peek_cancel)(struct rpc_side *side, rpc_call_token token);
    void *test;
} rpc_side;

/* The place for the outcome of a started call. The test's local outcomes may be gone when the teardown ends open
 * calls. */
typedef struct rpc_slot {
    struct rpc_pair *pair;
    rpc_outcome *outcome;
} rpc_slot;

typedef struct rpc_pair {
    loopback loopback;
    virtual_clock clock;
    uint64_t clock_reads;
    rpc_side sides[2];
    uint32_t link;   /* the first link, joined by the set-up */
    rpc_slot *slots; /* owned, RPC_LOG_MAX of them */
    size_t slot_count;
    bool over;
} rpc_pair;

/* For cmocka: *state is the pair. */
int rpc_pair_setup(void **state);
int rpc_pair_teardown(void **state);

link_id rpc_pair_link(const rpc_pair *pair, int end);

/* Begins a call, copies the text, commits. The outcome is written when done is called. */
mr_status rpc_pair_start(rpc_pair *pair, int end, const char *text, const rpc_call_options *options,
                         rpc_outcome *outcome);
mr_status rpc_pair_reply(rpc_pair *pair, int end, rpc_call_token token, const char *text);

void rpc_outcome_done(void *argument, rpc_call_id id, const rpc_call_result *result); /* argument: a rpc_outcome */

/* Moves the clock and ticks both sides. */
void rpc_pair_advance(rpc_pair *pair, int64_t to_us);
