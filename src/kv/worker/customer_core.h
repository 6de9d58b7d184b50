/* customer_core.h — what the files of a customer share; see customer.h. */
#pragma once
#include "kv/worker/chute.h"
#include "kv/worker/coder.h"
#include "kv/worker/customer.h"
#include "kv/worker/feed.h"
#include "kv/worker/splitter.h"
#include "ps/player.h"
#include "ps/rank.h"

#define CUSTOMER_MORE_MEMORY ". More servers take slots from it, or it needs more (--memory)"
enum { CUSTOMER_NAMES = 1024, CUSTOMER_LISTS = 64 << 20 }; /* a power of two; bytes */

/* NONE ── customer_leave ──► LEAVING ── decided ──► LEFT | KEPT: it is the last one
 * NONE ── begun, and not in the round ──► JOINING ── decided ──► NONE
 * LEAVING ── another generation ──► LOST */
typedef enum customer_order {
    ORDER_NONE,
    ORDER_LEAVING,
    ORDER_LEFT,
    ORDER_KEPT,
    ORDER_JOINING,
    ORDER_LOST
} customer_order;

struct customer {
    postoffice *postoffice;
    uint64_t incarnation;
    player *player; /* NULL: it is not here yet */
    rank *rank;     /* NULL: it plays none */
    bool ready, opening, asked, open, deposed, crowded, out, dirty;
    bool begun;            /* its program has begun a step */
    bool lost;             /* acknowledged pushes are lost, and the program has not heard of it */
    uint64_t told;         /* the generation of whose beginning, by a loss, it has heard; 0: of none */
    uint64_t first;        /* with which it came into this generation, as its program counts */
    uint64_t begun_before; /* steps before this one some slot may have of an earlier process of the rank */
    bool joins;            /* it takes part in rounds: its steps are rounds, from the next one on that it begins */
    bool joined;           /* and the open step is one */
    uint64_t step;         /* counted from 0; of names from 1, of rounds it is the version that is pulled */
    uint64_t round;        /* that it takes part in next; before the step: it owes rounds to which it adds nothing */
    uint64_t generation;   /* counts those that it has seen */
    customer_order order;
    uint64_t order_round; /* from which an order to the ledger holds, once it is done */
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
    bool jumped;                        /* the last round was over without it: some slots may be behind by one */
    uint64_t ended_chart, ended_breaks; /* when its last step was ended: what it sent then came once, if it came */
    uint32_t *drops;                    /* owned: ids of tables that slots have to be told of */
    uint32_t drop_count;
};

static inline const chart *customer_stage(const customer *customer) { return rank_chart(customer->rank); }
size_t customer_under_way(const customer *customer); /* messages that are not acknowledged */
bool customer_rounds_rest(const customer *customer); /* none of them is of a round */

/* The address of the server that leads a slot; NULL: nobody does. */
const char *customer_head(const customer *customer, uint32_t slot);

/* MR_STALE: what was lost, and what the tables continue from. The program has heard of it with that. */
mr_status customer_say_lost(customer *customer);

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
