/* call_ledger.h — checkers of the call scenario: every call and its end.
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
#include "net/call.h"
#include "sim/sim.h"

enum { LEDGER_ATTEMPTS_MAX = 8, LEDGER_PAYLOAD_MAX = 256, LEDGER_BODY_MAX = 2000 };

typedef enum call_manner {               /* how the handler behaves; drawn by the caller, carried by the payload */
                           MANNER_NOW,   /* answers in the handler */
                           MANNER_LATER, /* answers after delay_us */
                           MANNER_FAIL,  /* fails after delay_us */
                           MANNER_NEVER,
                           MANNER_RELAY, /* asks another node, answers when that call has ended */
                           MANNER_COUNT
} call_manner;

typedef struct call_plan { /* everything that is drawn about a call */
    call_manner manner;
    uint32_t delay_us;
    uint32_t filler;      /* bytes of payload behind the header */
    uint32_t body;        /* bytes of the request's body */
    uint32_t answer_body; /* bytes of the answer's body */
    bool refuse_body;     /* the caller names no memory for it */
    bool probe;           /* made when the faults were over */
    int64_t timeout_us, attempt_timeout_us;
    int attempts_max;
} call_plan;

typedef struct call_entry {
    uint64_t serial; /* index + 1 */
    call_plan plan;
    sim_node *node;
    uint32_t process;
    void *owner; /* borrowed: what that process needs to go on */
    call_id id;
    int64_t started_us; /* on the node's clock, as deadline_us */
    int64_t deadline_us;
    uint64_t hash; /* of payload and body */
    bool ended, cancelling;
    bool late; /* it was found open after its deadline */
    mr_status status;
    uint8_t runs[LEDGER_ATTEMPTS_MAX + 1];
    uint8_t *body;  /* owned: what is sent */
    bool lent;      /* to the transport */
    uint8_t *place; /* owned: where the answer's body shall lie; NULL: not asked for */
} call_entry;

typedef struct call_ledger {
    sim *sim;
    call_entry *entries; /* owned; never moves */
    size_t count, max;
    size_t ended;
} call_ledger;

void call_ledger_init(call_ledger *ledger, sim *sim, size_t max);
void call_ledger_fini(call_ledger *ledger);

/* The bytes of a call. */
size_t call_plan_payload_size(const call_plan *plan);
call_entry *call_ledger_add(call_ledger *ledger, const call_plan *plan, sim_node *node, uint8_t *payload);
call_entry *call_ledger_read(call_ledger *ledger, span payload); /* NULL after a violation: it is none of ours */

/* A handler has been given this request. NULL after a violation. */
call_entry *call_ledger_ran(call_ledger *ledger, const call_request *request);

enum { LEDGER_ANSWER_SIZE = 16 };
void call_ledger_answer(const call_entry *entry, uint8_t *answer); /* what the handler says */
void call_ledger_fill(const call_entry *entry, uint8_t *body, size_t size);

void *call_ledger_place(call_ledger *ledger, call_entry *entry, uint64_t size); /* for call_options.on_body */
void call_ledger_ended(call_ledger *ledger, call_entry *entry, call_id id, const call_result *result);

void call_ledger_check_deadlines(call_ledger *ledger);
void call_ledger_check_memory(call_ledger *ledger);                             /* of bodies that never arrived */
size_t call_ledger_open_count(const call_ledger *ledger, const sim_node *node); /* of its present process */
