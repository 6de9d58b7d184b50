/* customer_core.h — what the files of a customer share; see customer.h. */
#pragma once
#include "kv/chute.h"
#include "kv/coder.h"
#include "kv/customer.h"
#include "kv/splitter.h"
#include "ps/player.h"
#include "ps/rank.h"

struct customer {
    postoffice *postoffice;
    uint64_t incarnation;
    player *player; /* NULL: it is not here yet */
    rank *rank;     /* NULL: it plays none */
    bool ready, opening, asked, open, deposed, out, dirty;
    bool begun;          /* its program has begun a step */
    uint64_t first;      /* with which it came into this generation, as its program counts */
    uint64_t step;       /* BSP: the version; else from 1 */
    uint64_t generation; /* counts those that it has seen */
    uint32_t slot_count;
    chute *chutes; /* by slot, owned */
    list eager;    /* of chute: those that may have something to send */
    tickets tickets;
    splitter splitter;
    uint64_t *offsets; /* owned scratch: where the values of vectors begin */
    size_t offset_room;
    coder coder;
    bool kept_elsewhere; /* the program says where the state of the rank is kept */
    uint32_t *drops;     /* owned: ids of tables that slots have to be told of */
    uint32_t drop_count;
};

static inline bool customer_in_rounds(const customer *customer) {
    return player_chart(customer->player)->consistency.kind == CONSISTENCY_BSP;
}

/* If this chute has something that can go, it goes before anybody waits. */
static inline void customer_wakes(customer *customer, chute *chute) {
    if (!list_empty(&chute->link) || (chute_next(chute) == NULL && chute_next_query(chute) == NULL)) return;
    list_push_back(&customer->eager, &chute->link);
    customer->dirty = true;
}
