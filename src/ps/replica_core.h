/* replica_core.h — internals of a replica, shared by replica*.c; see replica.h. */
#pragma once
#include "base/assert.h"
#include "ps/ledger.h"
#include "ps/norms.h"
#include "ps/replica.h"

typedef struct replica_successor { /* whoever is sent entries: the next of the chain, or a joiner */
    uint64_t level;                /* it has said to have all up to here, in this epoch */
    uint64_t sent;                 /* and was sent so far */
    uint64_t applied;              /* and this is what it knows to be committed */
    bool heard;                    /* it has said anything in this epoch */
    uint64_t room;                 /* bytes behind its level that it will take */
    uint64_t asked;                /* 1 + its level when it was asked for it; 0: it was not */
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
    bool summed;     /* it is in the sum, and no longer here by itself */
    bool besides;    /* it is here whatever the rank's credit is, and does not use it up */
    uint64_t digest; /* of its bytes */
    span payload;
    bale *bale;
} replica_gift;

typedef struct replica_round { /* what a head has heard of the open round; forgotten with the epoch */
    bool known;                /* its terms */
    bool decided;              /* and the ledger has named the set, which stands in their place */
    ledger_terms terms;
    int64_t due_us; /* of a ledger: its deadline; 0: nobody has come yet */
} replica_round;

typedef struct replica_norms { /* of a head: what its sum needs to know of all slots; forgotten with the sum */
    bale *sum;                 /* owned: the sum, with room for the head of its entry; NULL: it is not whole */
    bool measured;             /* with the norms that are known */
    crowd set;                 /* whose sum that is */
    bale *part;                /* owned: what it reports, and waits for; NULL: nothing */
    bale *bale;                /* owned: norms as the ledger has committed them; NULL: none */
    uint32_t phases;           /* of those */
    uint32_t asked;            /* 1 + the phase for which the ledger has asked; 0: it has not; of the round */
    uint32_t spoke;            /* phases of the round before: who has no part of one now says so */
} replica_norms;

typedef struct replica_inquiry { /* of a ledger's head: which slots have frozen the rank that is given up */
    uint32_t rank;
    uint64_t round;
    uint32_t count;
    bool *frozen; /* by slot, owned; NULL before the first */
} replica_inquiry;

typedef struct replica_cut { /* of a head: the slot as it was, until that is saved */
    uint64_t checkpoint;     /* 0: none */
    uint64_t lsn;
    uint64_t clock; /* steps that ranks had ended, see replica_cut.c */
    bale *bale;     /* shared */
} replica_cut;

typedef struct replica_shown { /* the last large answer to a rank */
    uint64_t request;
    int64_t until_us; /* it is under way so long, for all that is known */
    uint32_t times;   /* that it was shown */
} replica_shown;

struct replica {
    const replica_host *host;
    const values_ops *ops;       /* of the values, or of the ledger */
    uint32_t ledger, slot_count; /* which slot that is, and how many there are */
    uint32_t round_slots;        /* the first ones: those whose rounds it keeps */
    chart_rounds rounds;
    replica_round round;
    replica_inquiry inquiry;
    replica_norms norms;
    norms gathered; /* of a ledger's head */
    int64_t now_us; /* of the last tick */
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
    uint32_t name_count; /* at least as many: of ranks that an earlier generation had, too (replica_state.c) */
    void *values;        /* owned; NULL: no copy */
    uint64_t *names;     /* by rank, applied */
    uint64_t *logged;    /* by rank, the last in the log or applied */
    uint64_t version;
    uint64_t marked; /* the checkpoint that was cut last; of slots with rounds the ledger knows it */
    uint64_t origin; /* the checkpoint from which its generation begins */
    replica_cut cut;
    unsigned loading; /* ticks since it began to wait for its shard */
    uint64_t changed; /* the lsn of the last round, or at which the values were taken over */
    part *waiters;    /* pulls, owned, of the highest priority first; what they ask for is held */
    size_t waiter_count, waiter_room;
    replica_shown *shown; /* by rank, owned */
    bool moved;           /* something was applied since they were looked at */
    bool news;            /* something was applied since the ledger told what follows */
    bool closing;         /* the sum of the open round is in the log */
    replica_gift *gifts;  /* by rank */
    uint32_t gift_count;
    bool adds; /* there is a sum: of those that are summed, the first ones of the set, in its order */
    void *sum; /* owned */
    replica_dispute dispute;
    crowd frozen; /* ranks whose contributions to the open round do not count */
    crowd past;   /* who was counted in the round before */
};

/* replica.c */
static inline bool replica_is_tail(const replica *replica) {
    return replica->place >= 0 && replica->place == replica->chain.count - 1;
}
static inline bool replica_is_head(const replica *replica) { return replica->place == 0; }
void replica_tell(replica *replica, uint32_t server, part_kind kind, const tape_entry *entry, uint64_t lsn);
/* The rest of the part is there already: it is made whole in its place. */
void replica_reply(replica *replica, uint32_t rank, part_kind kind, part_status status, part *part);
/* To a push; `last`: the name that is there, of RESEND. */
void replica_acknowledge(replica *replica, uint32_t rank, part_status status, uint64_t name, uint64_t last);
void replica_tell_gate(replica *replica); /* to the director: whether the joiner may be a member */
void replica_make_copy(replica *replica); /* an empty one */
void replica_drop_copy(replica *replica);

/* replica_chain.c */
void replica_log(replica *replica, const tape_entry *entry);
void replica_count_logged(replica *replica, const tape_entry *entry);
void replica_commit(replica *replica, uint64_t lsn);
void replica_advance(replica *replica); /* the level has grown, or somebody's has */
void replica_take_entry(replica *replica, uint32_t from, const part *part, bale *bale);
void replica_tell_level(replica *replica, uint32_t server, part_status status); /* LATER: it had no room */
void replica_take_level(replica *replica, uint32_t from, const part *part);
void replica_ask_levels(replica *replica); /* what may be lost */

/* replica_state.c; a state that is no state leaves a copy that is none: drop it */
bale *replica_write_state(const replica *replica); /* moved to the caller */
bale *replica_write_shard(const replica *replica);
bool replica_read_state(replica *replica, span bytes);
bool replica_read_shard(replica *replica, span bytes);

/* replica_cut.c */
void replica_make_cut(replica *replica, uint64_t checkpoint); /* as the head; else nothing */
void replica_drop_cut(replica *replica);
void replica_take_saved(replica *replica, const part *part);
void replica_take_mark(replica *replica, const part *part);
void replica_apply_mark(replica *replica, const tape_entry *entry);
void replica_load(replica *replica);                         /* its copy is that of the origin */
bool replica_take_shard(replica *replica, const part *part); /* true: it has its copy */
void replica_tick_cut(replica *replica);

/* replica_round.c */
void replica_drop_gifts(replica *replica); /* and all that was heard of the round */
void replica_take_gift(replica *replica, const part *part, bale *bale);
void replica_ask_gift(replica *replica, const part *part); /* has it been taken? */
void replica_try_close(replica *replica);                  /* the round, if all are there */
void replica_end_round(replica *replica, const tape_entry *entry);
void replica_freeze(replica *replica, const tape_entry *entry);
void replica_take_freeze(replica *replica, const part *part);
void replica_take_terms(replica *replica, const part *part);

/* replica_norms.c: of a head whose sum is whole. False: it waits for norms. */
bool replica_measure(replica *replica, const ledger_terms *terms);
bale *replica_take_sum(replica *replica,
                       const ledger_terms *terms); /* as the entry of its round; moved to the caller */
void replica_drop_norms(replica *replica);
void replica_tick_norms(replica *replica);
void replica_take_measure(replica *replica, const part *part);
void replica_take_norms(replica *replica, const part *part);
/* Of a ledger. */
void replica_take_measured(replica *replica, const part *part);
void replica_apply_norms(replica *replica, const tape_entry *entry);
void replica_try_norms(replica *replica); /* if all have reported, they are committed */
void replica_tick_gathered(replica *replica);

/* replica_ledger.c */
static inline bool replica_is_ledger(const replica *replica) { return replica->slot == replica->ledger; }
void replica_take_order(replica *replica, const part *part);
void replica_take_frozen(replica *replica, const part *part);
void replica_forget_inquiry(replica *replica);
void replica_apply_order(replica *replica, const tape_entry *entry);
void replica_tell_terms(replica *replica); /* to the heads of all slots, whatever they need to know and to do */

/* replica_serve.c */
void replica_append(replica *replica, const tape_entry *entry); /* as the head: logs it, passes it down */
void replica_apply(replica *replica, const tape_entry *entry);
void replica_take_push(replica *replica, const part *part, bale *bale);
void replica_take_hello(replica *replica, const part *part);

/* replica_pull.c */
void replica_take_pull(replica *replica, const part *part, bale *bale);
void replica_show(replica *replica, uint32_t rank, uint64_t request, span query); /* of what there is now */
bool replica_may_show(const replica *replica); /* a copy that pulls may be answered from */
void replica_answer_waiters(replica *replica);
void replica_forget_waiters(replica *replica);
