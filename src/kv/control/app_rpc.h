/* app_rpc.h — app message RPC of a program: pending requests, retries, and detection of duplicates.
 *
 * A request is sent directly to the receiving process, whose address the scheduler knows (WHO, process_table.h). A
 * request is repeated until it is answered. Requests of one sender to one receiver are numbered, and the receiver keeps
 * each answer until the sender confirms it. So while both processes live a request is handled once, however often it
 * arrives:
 *
 *   sender    asked ── WHO is it? ──► sent, repeatedly ── RESPONSE ──► ended
 *                                      └── another process has its number, or the process is gone: MR_PEER_DIED
 *   receiver  REQUEST ── new ──► handled ── mr_ps_respond ──► answered ── an `oldest` above it ──► deleted
 *                     ├── answered: the same response again
 *                     └── no handler for the app: MR_NOT_FOUND
 *
 * When the receiver dies it is unknown whether the request was handled; the request is never given to another process.
 *
 * Cluster maps  An app message carries its sender's newest cluster map, and a process without that map ignores the
 *               message until it has the map: so a receiver that pulls because of the message finds the values it
 *               refers to. The message is sent again.
 * Bounds  APP_RPC_CALLS_MAX calls whose result was not taken; APP_RPC_WINDOW requests under way to one process, others
 *             wait; so many answers are kept for each sender.
 * Threads     the owner's. app_rpc_tell returns the handlers and callbacks, and its caller calls them. */
#pragma once
#include "base/list.h"
#include "kv/control/app_message.h"
#include "kv/control/process_state.h"

enum { APP_RPC_CALLS_MAX = 4096, APP_RPC_WINDOW = 64, APP_RPC_APPS_MAX = 1024 };
/* interval of questions for the address of a process, and whether it is alive */
#define APP_RPC_ASK_US       INT64_C(300000)
#define APP_RPC_AGAIN_US     INT64_C(50000) /* first interval of repetitions; doubled after each one */
#define APP_RPC_AGAIN_MAX_US INT64_C(1000000)
#define APP_RPC_EVERY        UINT32_MAX

typedef struct app_rpc app_rpc;

struct mr_ps_message { /* a received request while its handler has it */
    list link;
    app_rpc *rpc; /* NULL: the connection is closed */
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

app_rpc *app_rpc_create(const process_sender *self); /* the state in `self` has role and address already */
void app_rpc_destroy(app_rpc *rpc); /* calls no callbacks; unanswered messages remain until mr_ps_respond frees them */
void app_rpc_own(app_rpc *rpc, void *owner);

/* The state in `self` has number and incarnation now; nothing is sent or received before this call. */
void app_rpc_begin(app_rpc *rpc, int64_t now_us);

mr_status app_rpc_check_app(int32_t app); /* MR_INVALID: programs may not use this app */
/* Sets the handler of an app's requests; NULL: removes it. MR_TOO_LARGE: too many apps. */
MR_MUST mr_status app_rpc_handle(app_rpc *rpc, int32_t app, mr_ps_handler_fn *handler, void *context);

typedef struct app_rpc_call { /* a request and its receivers */
    uint8_t roles;            /* one role, or for APP_RPC_EVERY a sum of roles */
    uint32_t number;
    int32_t app, head;
    span body;
    void (*done)(void *context, mr_status status); /* may be NULL */
    void *context;
    bool kept; /* the caller takes the result with app_rpc_collect */
} app_rpc_call;

/* MR_BUSY: too many calls. */
MR_MUST mr_status app_rpc_send(app_rpc *rpc, const app_rpc_call *call, int64_t now_us, uint64_t *ticket);
/* MR_BUSY: under way; the error names what the call waits for. MR_OK: ended. MR_NOT_FOUND: no such call. */
mr_status app_rpc_status(const app_rpc *rpc, uint64_t ticket);
/* Answers of a finished call (moved); the call is freed. */
mr_ps_responses *app_rpc_collect(app_rpc *rpc, uint64_t ticket);

/* For a handler; as process_state_report_set. */
MR_MUST mr_status app_rpc_report(app_rpc *rpc, const char *key, double value);
/* Answers a request and frees the message. */
void app_rpc_answer(app_rpc *rpc, mr_ps_message *message, mr_status status, int32_t head, span body);

/* False: the message is not for this module. */
bool app_rpc_take(app_rpc *rpc, const control_message *message, int64_t now_us);
int64_t app_rpc_next_us(const app_rpc *rpc);
void app_rpc_tick(app_rpc *rpc, int64_t now_us);

/* Next function to be called, with its arguments; false: none. The receiver owns the returned message. */
bool app_rpc_tell(app_rpc *rpc, void (**function)(void *context, mr_status status), void **context, mr_status *status);
/* Ends the calls under way that have a callback with this status; `why` is the body of their responses. */
void app_rpc_fail_callbacks(app_rpc *rpc, mr_status status, const char *why);
bool app_rpc_has_told(const app_rpc *rpc); /* whether app_rpc_tell would return a function */
void app_rpc_call_handlers(app_rpc *rpc);  /* calls all pending handlers */
