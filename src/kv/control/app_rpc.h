/* app_rpc.h — app message RPC of a program: pending requests, retries, and duplicates that were handled already.
 *
 * A request goes straight to the process that it is for; where that is says the scheduler (WHO, process_table.h). It is
 * sent again until it is answered, and has a number, from this process to that one; the receiver keeps what it answered
 * until it hears that the sender has it. So while both live a request is handled once, however often it comes:
 *
 *   sender    asked ── WHO is it? ──► sent, again and again ── RESPONSE ──► over
 *                                      └── another process has its number, or it is not here any more: MR_PEER_DIED
 *   receiver  REQUEST ── new ──► handled ── mr_ps_respond ──► answered ── an `oldest` above it ──► forgotten
 *                     ├── answered: the same response again
 *                     └── nobody handles the app: MR_NOT_FOUND
 *
 * When the receiver dies nobody knows whether it was handled; it is never given to another process.
 *
 * Cluster maps  A note bears the newest cluster map of its sender, and is heard by those only who know that one: so
 *               what it
 *             speaks of is there for whoever pulls because of it. Who does not will, when it is sent again.
 * Bounds  APP_RPC_CALLS_MAX calls that are not asked after; APP_RPC_WINDOW requests under way to one process, others
 *             wait; so many answers are kept for each sender.
 * Threads     that of its owner. Functions that are to be called (handlers, those that are told) are given out by
 *           app_rpc_tell, and called by the caller. */
#pragma once
#include "base/list.h"
#include "kv/control/app_message.h"
#include "kv/control/process_state.h"

enum { APP_RPC_CALLS_MAX = 4096, APP_RPC_WINDOW = 64, APP_RPC_APPS_MAX = 1024 };
#define APP_RPC_ASK_US       INT64_C(300000) /* where somebody is, and whether it lives */
#define APP_RPC_AGAIN_US     INT64_C(50000)  /* twice that after each further time */
#define APP_RPC_AGAIN_MAX_US INT64_C(1000000)
#define APP_RPC_EVERY        UINT32_MAX

typedef struct app_rpc app_rpc;

typedef struct app_rpc_options {
    uint8_t role;
    const char *address, *scheduler; /* borrowed for its life */
    process_state *state;            /* likewise: what is said of this process */
    void (*send)(void *context, const char *address, const control_message *message);
    void *context;
} app_rpc_options;

struct mr_ps_message { /* a request that somebody handles */
    list link;
    app_rpc *rpc; /* NULL: its process does not talk any more */
    void *owner;  /* as of app_rpc_own */
    uint8_t role;
    uint32_t from;
    uint64_t incarnation, number;
    int32_t app, head;
    size_t size;
    uint8_t body[];
};

app_rpc *app_rpc_create(const app_rpc_options *options);
void app_rpc_destroy(app_rpc *rpc); /* nobody is told; messages that are not answered stay, for mr_ps_respond to free */
void app_rpc_own(app_rpc *rpc, void *owner);

/* Who this is: nothing is said or heard before. */
void app_rpc_begin(app_rpc *rpc, uint32_t number, uint64_t incarnation, int64_t now_us);
void app_rpc_map(app_rpc *rpc, uint64_t number); /* the newest that is known here */

mr_status app_rpc_check_app(int32_t app); /* that a program may have: MR_INVALID */
/* Requests for this app are given to `handler`; NULL: to nobody any more. MR_TOO_LARGE: too many apps. */
MR_MUST mr_status app_rpc_handle(app_rpc *rpc, int32_t app, mr_ps_handler_fn *handler, void *context);

typedef struct app_rpc_call { /* what is asked, of whom */
    uint8_t roles;            /* one, or of APP_RPC_EVERY a sum */
    uint32_t number;
    int32_t app, head;
    span body;
    void (*done)(void *context, mr_status status); /* may be NULL */
    void *context;
    bool kept; /* somebody asks after it */
} app_rpc_call;

/* MR_BUSY: there are too many. */
MR_MUST mr_status app_rpc_send(app_rpc *rpc, const app_rpc_call *call, int64_t now_us, uint64_t *ticket);
/* MR_BUSY: it is under way, and the error says what it waits for. MR_OK: it is over. MR_NOT_FOUND: no such call. */
mr_status app_rpc_status(const app_rpc *rpc, uint64_t ticket);
/* Of one that is over: moved; it is forgotten here. */
mr_ps_responses *app_rpc_collect(app_rpc *rpc, uint64_t ticket);

/* Of a handler: as process_state_report_set. */
MR_MUST mr_status app_rpc_report(app_rpc *rpc, const char *key, double value);
/* Moved: the message is freed. */
void app_rpc_answer(app_rpc *rpc, mr_ps_message *message, mr_status status, int32_t head, span body);

/* False: not for it. */
bool app_rpc_take(app_rpc *rpc, const control_message *message, int64_t now_us);
int64_t app_rpc_next_us(const app_rpc *rpc);
void app_rpc_tick(app_rpc *rpc, int64_t now_us);

/* The next function that is to be called, with these; false: none. A message that is given out is its receiver's. */
bool app_rpc_tell(app_rpc *rpc, void (**function)(void *context, mr_status status), void **context, mr_status *status);
bool app_rpc_has_told(const app_rpc *rpc); /* there is one */
void app_rpc_call_handlers(app_rpc *rpc);  /* all of them */
