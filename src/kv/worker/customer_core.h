/* customer_core.h — internals of the worker process, shared by customer*.c; see customer.h. */
#pragma once
#include "kv/worker/chute.h"
#include "kv/worker/coder.h"
#include "kv/worker/customer.h"
#include "kv/worker/feed.h"
#include "kv/worker/kv_session.h"
#include "kv/worker/splitter.h"
#include "ps/player.h"
#include "ps/rank.h"

#define CUSTOMER_MORE_MEMORY "; start more servers, or give it more (--memory)"
enum { CUSTOMER_NAMES = 1024, CUSTOMER_LISTS = 64 << 20 }; /* a power of two; bytes */

struct customer {
    postoffice *postoffice;
    uint64_t incarnation;
    player *player; /* NULL: it is not here yet */
    rank *rank;     /* NULL: it plays none */
    kv_session session;
    bool crowded; /* every rank has a process: a fact of registering, of interest only before the rank is known */
    bool dirty;   /* something can be sent before the loop waits */
    uint64_t generation; /* counts those that it has seen */
    uint32_t slot_count;
    chute *chutes; /* by slot, owned */
    list eager;    /* of chute: those that may have something to send */
    tickets tickets;
    splitter splitter;
    uint64_t *offsets; /* owned scratch: where the values of vectors begin */
    size_t offset_room;
    coder coder;
    lists lists;                        /* of keys that were pulled more than once */
    uint64_t pulled[CUSTOMER_NAMES];    /* names of lists that were pulled, the lower halves */
    bool kept_elsewhere;                /* the program says where the state of the rank is kept */
    afar_sight sight;                   /* of the servers of this machine */
    bool lends;                         /* something that was pushed spoke of this process's memory */
    feed *feed;                         /* owned; NULL: it wants no data */
    uint64_t ended_chart, ended_breaks; /* when its last step was ended: what it sent then came once, if it came */
    uint32_t *drops;                    /* owned: ids of tables that slots have to be told of */
    uint32_t drop_count;
};

static inline const chart *customer_stage(const customer *customer) { return rank_chart(customer->rank); }
static inline bool customer_is_ready(const customer *customer) { return kv_session_is_ready(&customer->session); }
static inline bool customer_is_open(const customer *customer) { return kv_session_is_open(&customer->session); }
static inline bool customer_in_round(const customer *customer) { return customer->session.state == KV_SESSION_ROUND; }
size_t customer_under_way(const customer *customer); /* messages that are not acknowledged */
bool customer_rounds_rest(const customer *customer); /* none of them is of a round */

/* The address of the server that leads a slot; NULL: nobody does. */
const char *customer_head(const customer *customer, uint32_t slot);

/* MR_STALE: what was lost, and what the tables continue from. The program has heard of it with that. */
mr_status customer_say_lost(customer *customer);

/* ---- Steps and rounds (kv_worker_steps.c). */

/* The term ends, or another generation begins: everything under way is MR_STALE. */
void customer_interrupt(customer *customer, const chart *chart, kv_session_state to);
void customer_skip_to(customer *customer, uint64_t step); /* steps before this one were over without this rank */
/* Begins the wanted step as soon as it can begin, and asks for the owed rounds one after the other. */
void customer_go_on(customer *customer);
void customer_on_ready(void *context); /* as rank.h has them, like those that follow */
void customer_on_over(void *context);
void customer_on_round(void *context, const ledger_terms *terms);
void customer_on_gone(void *context, uint32_t slot, uint64_t version);
void customer_on_ordered(void *context, tape_kind kind, bool done, uint64_t round);

/* ---- Parts of customer.c that steps need. */

void customer_fail_all(customer *customer, mr_status status); /* every request under way is over */
void customer_open_chutes(customer *customer, uint32_t slot_count);
void customer_recall(customer *customer); /* the rank's codec state, from its file */

void customer_moved(void *context, const bale *bale, span from, span to); /* of a lease of this customer (lease.h) */

/* What can go goes now, and whoever drives the loop is still to look after it: while a large request is cut, what was
 * cut of it is on its way, and still in the caches. */
void customer_ship(customer *customer);

/* If this chute has something that can go, it goes before anybody waits. */
static inline void customer_wakes(customer *customer, chute *chute) {
    if (!list_empty(&chute->link) || (chute_next(chute) == NULL && chute_next_query(chute) == NULL)) return;
    list_push_back(&customer->eager, &chute->link);
    customer->dirty = true;
}
