/* rpc_checker.h — checkers of the RPC scenario: every call and its end.
 *
 * The checker belongs to no process: it survives crashes, knows true time, and does not see sequence numbers, windows
 * or attempts of the code under test. Each entry is a call that was started; its serial travels in the payload, with
 * the behaviour of the handler, so both ends are compared with the same entry.
 *
 * Checked  a handler runs at most once for each attempt, with exactly the bytes that were sent;
 *          done is called once, with the answer to this call and no other, or with a true reason;
 *          a call whose deadline has passed on its node's clock has ended, as soon as the node is not busy;
 *          memory for an answer's body is not written after the call ended. */
#pragma once
#include "net/rpc/rpc.h"
#include "sim/sim.h"

enum { RPC_CHECKER_ATTEMPTS_MAX = 8, RPC_CHECKER_PAYLOAD_MAX = 256, RPC_CHECKER_BODY_MAX = 2000 };

typedef enum rpc_manner {               /* behaviour of the handler; drawn by the caller, carried by the payload */
                          MANNER_NOW,   /* answers in the handler */
                          MANNER_LATER, /* answers after delay_us */
                          MANNER_FAIL,  /* fails after delay_us */
                          MANNER_NEVER,
                          MANNER_RELAY, /* calls another node, answers when that call has ended */
                          MANNER_COUNT
} rpc_manner;

typedef struct rpc_plan { /* all random choices about a call */
    rpc_manner manner;
    uint32_t delay_us;
    uint32_t filler;      /* bytes of payload after the header */
    uint32_t body;        /* bytes of the request's body */
    uint32_t answer_body; /* bytes of the answer's body */
    bool refuse_body;     /* the caller provides no memory for the body */
    bool probe;           /* made after the faults ended */
    int64_t timeout_us, attempt_timeout_us;
    int attempts_max;
} rpc_plan;

typedef struct rpc_entry {
    uint64_t serial; /* index + 1 */
    rpc_plan plan;
    sim_node *node;
    uint32_t process;
    void *owner; /* borrowed: the caller's context in its process */
    rpc_call_id id;
    int64_t started_us; /* on the node's clock, like deadline_us */
    int64_t deadline_us;
    uint64_t hash; /* of payload and body */
    bool ended, cancelling;
    bool late; /* an earlier check found the call open after its deadline */
    mr_status status;
    uint8_t runs[RPC_CHECKER_ATTEMPTS_MAX + 1];
    uint8_t *body;  /* owned: the request's body */
    bool borrowed;  /* the transport has borrowed the body */
    uint8_t *place; /* owned: memory for the answer's body; NULL: not requested */
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
rpc_entry *rpc_checker_read(rpc_checker *checker, span payload); /* NULL after a violation: malformed payload */

/* Records that a handler received this request. NULL after a violation. */
rpc_entry *rpc_checker_ran(rpc_checker *checker, const rpc_call_request *request);

enum { RPC_CHECKER_ANSWER_SIZE = 16 };
void rpc_checker_answer(const rpc_entry *entry, uint8_t *answer); /* writes the handler's answer */
void rpc_checker_fill(const rpc_entry *entry, uint8_t *body, size_t size);

void *rpc_checker_place(rpc_checker *checker, rpc_entry *entry, uint64_t size); /* for rpc_call_options.on_body */
void rpc_checker_ended(rpc_checker *checker, rpc_entry *entry, rpc_call_id id, const rpc_call_result *result);

void rpc_checker_check_deadlines(rpc_checker *checker);
void rpc_checker_check_memory(rpc_checker *checker);                             /* for bodies that never arrived */
size_t rpc_checker_open_count(const rpc_checker *checker, const sim_node *node); /* of the node's current process */
