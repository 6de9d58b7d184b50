/* app_rpc.h — app message RPC of a program: pending requests, retries, and duplicates that were handled already.
 *
 * A request goes straight to the receiving process; the scheduler knows its address (WHO, process_table.h). A request
 * is repeated until it is answered, and has a number, from this process to that one; the receiver keeps its answer
 * until the sender confirms it. So while both processes live a request is handled once, however often it comes:
 *
 *   sender    asked ── WHO is it? ──► sent, again and again ── RESPONSE ──► over
 *                                      └── another process has its number, or it is not here any more: MR_PEER_DIED
 *   receiver  REQUEST ── new ──► handled ── mr_ps_respond ──► answered ── an `oldest` above it ──► forgotten
 *                     ├── answered: the same response again
 *                     └── no handler for the app: MR_NOT_FOUND
 *
 * When the receiver dies it is unknown whether the request was handled; it is never given to another process.
 *
 * Cluster maps  An app message carries its sender's newest cluster map, and a process without that map ignores the
 *               message until it has it: so a receiver that pulls because of the message finds the values it refers to.
 *               The message is sent again.
 * Bounds  APP_RPC_CALLS_MAX calls whose result was not taken; APP_RPC_WINDOW requests under way to one process, others
 *             wait; so many answers are kept for each sender.
 * Threads     that of its owner. Functions to be called (handlers, callbacks) are returned by app_rpc_tell, and called
 *           by the caller. */
#pragma once
#include "base/list.h"
#include "kv/control/app_message.h"
#include "kv/control/process_state.h"

enum { APP_RPC_CALLS_MAX = 4096, APP_RPC_WINDOW = 64, APP_RPC_APPS_MAX = 1024 };
#define APP_RPC_ASK_US       INT64_C(300000) /* where a process is, and whether it lives */
#define APP_RPC_AGAIN_US     INT64_C(50000)  /* twice that after each further time */
#define APP_RPC_AGAIN_MAX_US INT64_C(1000000)
#define APP_RPC_EVERY        UINT32_MAX

typedef struct app_rpc app_rpc;

struct mr_ps_message { /* a request under a handler */
    list link;
    app_rpc *rpc; /* NULL: its process has closed the connection */
    void *owner;  /* as of app_rpc_own */
    mr_ps_handler_fn *handler;
    void *context;
    uint8_t role;
    uint32_t from;
    uint64_t incarnation, number;
    int32_t app, head;
    size_t size;
    uint8_t body[];
};

app_rpc *app_rpc_create(const process_sender *self); /* its state has a role and an address */
void app_rpc_destroy(app_rpc *rpc); /* calls no callbacks; unanswered messages stay, for mr_ps_respond to free */
void app_rpc_own(app_rpc *rpc, void *owner);

/* The state has a number and an incarnation now: nothing is sent or received before. */
void app_rpc_begin(app_rpc *rpc, int64_t now_us);

mr_status app_rpc_check_app(int32_t app); /* an app that a program may use: MR_INVALID */
/* Gives requests for this app to `handler`; NULL: removes the handler. MR_TOO_LARGE: too many apps. */
MR_MUST mr_status app_rpc_handle(app_rpc *rpc, int32_t app, mr_ps_handler_fn *handler, void *context);

typedef struct app_rpc_call { /* a request and its receivers */
    uint8_t roles;            /* one, or of APP_RPC_EVERY a sum */
    uint32_t number;
    int32_t app, head;
    span body;
    void (*done)(void *context, mr_status status); /* may be NULL */
    void *context;
    bool kept; /* the caller takes the result */
} app_rpc_call;

/* MR_BUSY: too many calls. */
MR_MUST mr_status app_rpc_send(app_rpc *rpc, const app_rpc_call *call, int64_t now_us, uint64_t *ticket);
/* MR_BUSY: under way, and the error says what the call waits for. MR_OK: it is over. MR_NOT_FOUND: no such call. */
mr_status app_rpc_status(const app_rpc *rpc, uint64_t ticket);
/* Of a finished call: the answers, moved; the call is forgotten. */
mr_ps_responses *app_rpc_collect(app_rpc *rpc, uint64_t ticket);

/* For a handler: as process_state_report_set. */
MR_MUST mr_status app_rpc_report(app_rpc *rpc, const char *key, double value);
/* Moved: the message is freed. */
void app_rpc_answer(app_rpc *rpc, mr_ps_message *message, mr_status status, int32_t head, span body);

/* False: not for it. */
bool app_rpc_take(app_rpc *rpc, const control_message *message, int64_t now_us);
int64_t app_rpc_next_us(const app_rpc *rpc);
void app_rpc_tick(app_rpc *rpc, int64_t now_us);

/* The next function to be called, with its arguments; false: none. The receiver owns a message that is returned. */
bool app_rpc_tell(app_rpc *rpc, void (**function)(void *context, mr_status status), void **context, mr_status *status);
bool app_rpc_has_told(const app_rpc *rpc); /* there is one */
void app_rpc_call_handlers(app_rpc *rpc);  /* all of them */
