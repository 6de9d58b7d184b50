/* replica_core.h — what the files of a replica share; see replica.h. */
#pragma once
#include "ps/replica.h"

typedef struct replica_successor { /* whoever is sent entries: the next of the chain, or a joiner */
    uint64_t level;                /* it has said to have all up to here, in this epoch */
    uint64_t sent;                 /* and was sent so far */
    uint64_t applied;              /* and this is what it knows to be committed */
} replica_successor;

typedef struct replica_join { /* of a tail */
    bool wanted;
    bool filled; /* the state was sent; what comes behind it is kept */
    bool begun;  /* it has said where it is */
    bool gated, ready;
    uint32_t server;
    uint64_t incarnation;
    replica_successor successor;
    unsigned ticks;
} replica_join;

typedef struct replica_gift { /* a rank's contribution to the open round */
    bool there;
    span payload;
    bale *bale;
    uint32_t order; /* in which it came */
} replica_gift;

struct replica {
    const replica_host *host;
    replica_mutations mutations;
    uint32_t slot;
    replica_phase phase;
    uint64_t epoch, since, birth;
    chart_slot chain;
    int place; /* -1: not in the chain */

    tape tape;
    uint64_t level, base;
    uint64_t inherited; /* logged when it entered the epoch: committed, for all it knows */
    replica_successor successor;
    replica_join join;
    uint32_t answered; /* ENTERING: a bit for each place */

    consistency consistency;
    uint32_t rank_count;
    void *values;     /* owned; NULL: no copy */
    uint64_t *names;  /* by rank, applied */
    uint64_t *logged; /* by rank, the last in the log or applied */
    uint64_t version;
    bool closing;        /* the sum of the open round is in the log */
    replica_gift *gifts; /* by rank */
    uint32_t gift_count;
    buffer kept; /* the values of the version before */
};

/* replica.c */
static inline bool replica_is_tail(const replica *replica) {
    return replica->place >= 0 && replica->place == replica->chain.count - 1;
}
static inline bool replica_is_head(const replica *replica) { return replica->place == 0; }
void replica_tell(replica *replica, uint32_t server, part_kind kind, const tape_entry *entry, uint64_t lsn);
void replica_reply(replica *replica, uint32_t rank, part_kind kind, part_status status, const part *rest);
void replica_fill_state(replica *replica); /* to the joiner */
void replica_take_state(replica *replica, const part *part);

/* replica_chain.c */
void replica_log(replica *replica, const tape_entry *entry);
void replica_commit(replica *replica, uint64_t lsn);
void replica_advance(replica *replica); /* the level has grown, or somebody's has */
void replica_take_entry(replica *replica, uint32_t from, const part *part, bale *bale);
void replica_tell_level(replica *replica, uint32_t server);
void replica_take_level(replica *replica, uint32_t from, const part *part);
void replica_resend(replica *replica);

/* replica_serve.c */
void replica_drop_gifts(replica *replica);
void replica_apply(replica *replica, const tape_entry *entry);
void replica_take_push(replica *replica, const part *part, bale *bale);
void replica_take_pull(replica *replica, const part *part);
void replica_take_hello(replica *replica, const part *part);
