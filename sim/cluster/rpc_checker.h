/* rpc_checker.h — checkers of the call scenario: every call and its end.
 *
 * It belongs to no process: it survives crashes, knows true time, and knows nothing of numbers, windows or attempts
 * that the code under test does not show. Each entry is a call that was started; its serial travels in the payload,
 * with how the handler shall behave, so that both ends can be held against the same entry.
 *
 * Checked  a handler runs at most once for each attempt, with the very bytes that were sent;
 *          done comes once, with the answer to this call and no other, or for a reason that is true;
 *          a call whose deadline has passed on its node's clock has ended, as soon as the node is not busy;
 *          memory that was named for an answer's body is not touched after the call ended. */
#pragma once
#include "net/rpc/rpc.h"
#include "sim/sim.h"

enum { RPC_CHECKER_ATTEMPTS_MAX = 8, RPC_CHECKER_PAYLOAD_MAX = 256, RPC_CHECKER_BODY_MAX = 2000 };

typedef enum rpc_manner {               /* how the handler behaves; drawn by the caller, carried by the payload */
                          MANNER_NOW,   /* answers in the handler */
                          MANNER_LATER, /* answers after delay_us */
                          MANNER_FAIL,  /* fails after delay_us */
                          MANNER_NEVER,
                          MANNER_RELAY, /* asks another node, answers when that call has ended */
                          MANNER_COUNT
} rpc_manner;

typedef struct rpc_plan { /* everything that is drawn about a call */
    rpc_manner manner;
    uint32_t delay_us;
    uint32_t filler;      /* bytes of payload behind the header */
    uint32_t body;        /* bytes of the request's body */
    uint32_t answer_body; /* bytes of the answer's body */
    bool refuse_body;     /* the caller names no memory for it */
    bool probe;           /* made when the faults were over */
    int64_t timeout_us, attempt_timeout_us;
    int attempts_max;
} rpc_plan;

typedef struct rpc_entry {
    uint64_t serial; /* index + 1 */
    rpc_plan plan;
    sim_node *node;
    uint32_t process;
    void *owner; /* borrowed: what that process needs to go on */
    rpc_call_id id;
    int64_t started_us; /* on the node's clock, as deadline_us */
    int64_t deadline_us;
    uint64_t hash; /* of payload and body */
    bool ended, cancelling;
    bool late; /* it was found open after its deadline */
    mr_status status;
    uint8_t runs[RPC_CHECKER_ATTEMPTS_MAX + 1];
    uint8_t *body;  /* owned: what is sent */
    bool borrowed;  /* to the transport */
    uint8_t *place; /* owned: where the answer's body shall lie; NULL: not asked for */
} rpc_entry;

typedef struct rpc_checker {
    sim *sim;
    rpc_entry *entries; /* owned; never moves */
    size_t count, max;
    size_t ended;
} rpc_checker;

void rpc_checker_init(rpc_checker *checker, sim *sim, size_t max);
void rpc_checker_fini(rpc_checker *checker);

/* The bytes of a call. */
size_t rpc_plan_payload_size(const rpc_plan *plan);
rpc_entry *rpc_checker_add(rpc_checker *checker, const rpc_plan *plan, sim_node *node, uint8_t *payload);
rpc_entry *rpc_checker_read(rpc_checker *checker, span payload); /* NULL after a violation: it is none of ours */

/* A handler has been given this request. NULL after a violation. */
rpc_entry *rpc_checker_ran(rpc_checker *checker, const rpc_call_request *request);

enum { RPC_CHECKER_ANSWER_SIZE = 16 };
void rpc_checker_answer(const rpc_entry *entry, uint8_t *answer); /* what the handler says */
void rpc_checker_fill(const rpc_entry *entry, uint8_t *body, size_t size);

void *rpc_checker_place(rpc_checker *checker, rpc_entry *entry, uint64_t size); /* for rpc_call_options.on_body */
void rpc_checker_ended(rpc_checker *checker, rpc_entry *entry, rpc_call_id id, const rpc_call_result *result);

void rpc_checker_check_deadlines(rpc_checker *checker);
void rpc_checker_check_memory(rpc_checker *checker);                             /* of bodies that never arrived */
size_t rpc_checker_open_count(const rpc_checker *checker, const sim_node *node); /* of its present process */
