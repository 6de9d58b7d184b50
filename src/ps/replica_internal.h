/* replica_internal.h — internals of a replica, shared by replica*.c; see replica.h. */
#pragma once
#include "base/assert.h"
#include "ps/norm_reports.h"
#include "ps/replica.h"
#include "ps/round_state.h"

typedef struct replica_successor { /* receiver of entries: the next of the chain, or a joiner */
    uint64_t level;                /* its last report: it has all up to here, in this epoch */
    uint64_t sent;                 /* last entry sent to it */
    uint64_t applied;              /* last entry that it knows to be committed */
    bool heard;                    /* it has reported in this epoch */
    uint64_t room;                 /* bytes behind its level that it will take */
    uint64_t asked;                /* 1 + its level when it was asked for it; 0: it was not */
} replica_successor;

typedef struct replica_join { /* of a tail */
    bool wanted;
    bool filled; /* the state was sent; entries behind it are kept */
    bool begun;  /* it has reported its level */
    bool gated, ready;
    uint32_t server;
    uint64_t incarnation;
    replica_successor successor;
    unsigned ticks;
} replica_join;

typedef struct replica_contribution { /* a rank's contribution to the open round */
    bool there;
    bool summed;     /* it is in the sum, and no longer here by itself */
    bool besides;    /* taken without regard to the rank's credit, and not counted in it */
    uint64_t digest; /* of its bytes */
    span payload;
    shared_bytes *bytes;
} replica_contribution;

typedef struct replica_round { /* what a head knows of the open round; dropped with the epoch */
    bool known;                /* its terms */
    bool decided;              /* and the round state has named the set, which stands in their place */
    round_state_terms terms;
    int64_t due_us; /* of a round state: its deadline; 0: no rank has ended the step yet */
} replica_round;

typedef struct replica_norms { /* of a head: norms of all slots that its sum needs; dropped with the sum */
    shared_bytes *sum;         /* owned: the sum, with room for the head of its entry; NULL: not complete */
    bool measured;             /* with the norms that are known */
    rank_set set;              /* whose sum that is */
    shared_bytes *part;        /* owned: its report, whose norms it waits for; NULL: none */
    shared_bytes *bytes;       /* owned: norms as the round state has committed them; NULL: none */
    uint32_t phases;           /* of those */
    uint32_t asked;            /* 1 + the phase for which the round state has asked; 0: it has not; of the round */
    uint32_t spoke;            /* phases reported in the round before: a slot without a part of one now says so */
} replica_norms;

typedef struct replica_inquiry { /* of a round state's head: which slots have frozen the rank that is given up */
    uint32_t rank;
    uint64_t round;
    uint32_t count;
    bool *frozen; /* by slot, owned; NULL before the first */
} replica_inquiry;

typedef struct replica_cut { /* of a head: the slot as it was, until that is saved */
    uint64_t checkpoint;     /* 0: none */
    uint64_t lsn;
    uint64_t clock;      /* steps that ranks had ended, see replica_checkpoint.c */
    shared_bytes *bytes; /* shared */
} replica_cut;

typedef struct replica_shown { /* the last large answer to a rank */
    uint64_t request;
    int64_t until_us; /* assumed to be under way until then */
    uint32_t times;   /* that it was shown */
} replica_shown;

struct replica {
    const replica_host *host;
    const state_machine_ops *ops;     /* of the values, or of the round state */
    uint32_t round_state, slot_count; /* its slot, and the number of slots */
    uint32_t round_slots;             /* the first ones: those whose rounds it keeps */
    cluster_map_rounds rounds;
    replica_round round;
    replica_inquiry inquiry;
    replica_norms norms;
    norm_reports gathered; /* of a round state's head */
    int64_t now_us;        /* of the last tick */
    uint32_t slot;
    replica_phase phase;
    uint64_t epoch, since, birth;
    cluster_map_slot chain;
    int place; /* -1: not in the chain */

    replica_log log;
    uint64_t level, base;
    uint64_t inherited; /* logged when it entered the epoch: possibly committed */
    replica_successor successor;
    replica_join join;
    uint32_t answered; /* ENTERING: a bit for each place */

    consistency consistency;
    uint32_t rank_count;
    uint32_t name_count; /* at least as many: includes ranks of an earlier generation (replica_snapshot.c) */
    void *values;        /* owned; NULL: no copy */
    uint64_t *names;     /* by rank, applied */
    uint64_t *logged;    /* by rank, the last in the log or applied */
    uint64_t version;
    uint64_t marked; /* the checkpoint that was cut last; of slots with rounds the round state knows it */
    uint64_t origin; /* the checkpoint from which its generation begins */
    replica_cut cut;
    unsigned loading;      /* ticks since it began to wait for its snapshot */
    uint64_t changed;      /* the lsn of the last round, or at which the values were taken over */
    slot_message *waiters; /* pulls, owned, of the highest priority first; their queries are held */
    size_t waiter_count, waiter_room;
    replica_shown *shown;                /* by rank, owned */
    bool moved;                          /* an entry was applied since the waiters were checked */
    bool news;                           /* an entry was applied since the round state sent its terms */
    bool closing;                        /* the sum of the open round is in the log */
    replica_contribution *contributions; /* by rank */
    uint32_t contribution_count;
    bool adds; /* there is a sum: of the first contributions of the set, in its order */
    void *sum; /* owned */
    replica_dispute dispute;
    rank_set frozen; /* ranks whose contributions to the open round do not count */
    rank_set past;   /* ranks counted in the round before */
};

/* replica.c */
static inline bool replica_is_tail(const replica *replica) {
    return replica->place >= 0 && replica->place == replica->chain.count - 1;
}
static inline bool replica_is_head(const replica *replica) { return replica->place == 0; }
void replica_tell(replica *replica, uint32_t server, slot_message_kind kind, const replica_log_entry *entry,
                  uint64_t lsn);
/* The other fields of the message are set: this completes it in place and sends it. */
void replica_reply(replica *replica, uint32_t rank, slot_message_kind kind, slot_message_status status,
                   slot_message *message);
/* To a push; `last`: the last seq received, of RESEND. */
void replica_acknowledge(replica *replica, uint32_t rank, slot_message_status status, uint64_t name, uint64_t last);
void replica_tell_gate(replica *replica); /* to the controller: whether the joiner may be a member */
void replica_make_copy(replica *replica); /* an empty one */
void replica_drop_copy(replica *replica);

/* replica_chain.c */
void replica_append_log(replica *replica, const replica_log_entry *entry);
void replica_count_logged(replica *replica, const replica_log_entry *entry);
void replica_commit(replica *replica, uint64_t lsn);
void replica_advance(replica *replica); /* the level has grown, or that of a successor */
void replica_take_entry(replica *replica, uint32_t from, const slot_message *message, shared_bytes *bytes);
void replica_tell_level(replica *replica, uint32_t server, slot_message_status status); /* LATER: it had no room */
void replica_take_level(replica *replica, uint32_t from, const slot_message *message);
void replica_ask_levels(replica *replica); /* asks for levels that may be lost */

/* replica_snapshot.c; invalid state bytes leave an unusable copy: drop it */
shared_bytes *replica_write_state(const replica *replica); /* moved to the caller */
shared_bytes *replica_write_shard(const replica *replica);
bool replica_read_state(replica *replica, span bytes);
bool replica_read_shard(replica *replica, span bytes);

/* replica_checkpoint.c */
void replica_make_cut(replica *replica, uint64_t checkpoint); /* as the head; else nothing */
void replica_drop_cut(replica *replica);
void replica_take_saved(replica *replica, const slot_message *message);
void replica_take_mark(replica *replica, const slot_message *message);
void replica_apply_mark(replica *replica, const replica_log_entry *entry);
void replica_load(replica *replica);                                    /* its copy is that of the origin */
bool replica_take_shard(replica *replica, const slot_message *message); /* true: it has its copy */
void replica_tick_cut(replica *replica);

/* replica_round.c */
void replica_drop_contributions(replica *replica); /* and all that is known of the round */
void replica_take_contribution(replica *replica, const slot_message *message, shared_bytes *bytes);
void replica_ask_contribution(replica *replica, const slot_message *message); /* true: it has been taken */
void replica_try_close(replica *replica);                                     /* the round, if all are there */
void replica_end_round(replica *replica, const replica_log_entry *entry);
void replica_freeze(replica *replica, const replica_log_entry *entry);
void replica_take_freeze(replica *replica, const slot_message *message);
void replica_take_terms(replica *replica, const slot_message *message);

/* replica_norms.c: of a head whose sum is complete. False: it waits for norms. */
bool replica_measure(replica *replica, const round_state_terms *terms);
shared_bytes *replica_take_sum(replica *replica,
                               const round_state_terms *terms); /* as the entry of its round; moved to the caller */
void replica_drop_norms(replica *replica);
void replica_tick_norms(replica *replica);
void replica_take_measure(replica *replica, const slot_message *message);
void replica_take_norms(replica *replica, const slot_message *message);
/* Of a round state. */
void replica_take_measured(replica *replica, const slot_message *message);
void replica_apply_norms(replica *replica, const replica_log_entry *entry);
void replica_try_norms(replica *replica); /* if all have reported, they are committed */
void replica_tick_gathered(replica *replica);

/* replica_round_state.c */
static inline bool replica_is_round_state(const replica *replica) { return replica->slot == replica->round_state; }
void replica_take_order(replica *replica, const slot_message *message);
void replica_take_frozen(replica *replica, const slot_message *message);
void replica_forget_inquiry(replica *replica);
void replica_apply_order(replica *replica, const replica_log_entry *entry);
void replica_tell_terms(replica *replica); /* to the heads of all slots: terms and orders that they need */

/* replica_serve.c */
void replica_append(replica *replica, const replica_log_entry *entry); /* as the head: logs it, passes it down */
void replica_apply(replica *replica, const replica_log_entry *entry);
void replica_take_push(replica *replica, const slot_message *message, shared_bytes *bytes);
void replica_take_hello(replica *replica, const slot_message *message);

/* replica_pull.c */
void replica_take_pull(replica *replica, const slot_message *message, shared_bytes *bytes);
void replica_show(replica *replica, uint32_t rank, uint64_t request, span query); /* from the current state */
bool replica_may_show(const replica *replica); /* a copy that pulls may be answered from */
void replica_answer_waiters(replica *replica);
void replica_forget_waiters(replica *replica);
