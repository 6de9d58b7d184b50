/* replica_internal.h — internals of a replica, shared by replica*.c; see replica.h. */
#pragma once
#include "base/assert.h"
#include "ps/norm_reports.h"
#include "ps/replica.h"
#include "ps/round_state.h"

typedef struct replica_successor { /* receiver of entries: the next member of the chain, or a joiner */
    uint64_t level;                /* last reported level: the receiver has all entries up to here in this epoch */
    uint64_t sent;                 /* last entry sent */
    uint64_t applied;              /* last entry that the receiver knows to be committed */
    bool heard;                    /* a LEVEL has arrived in this epoch */
    uint64_t room;                 /* bytes after `level` that the receiver can take */
    uint64_t asked;                /* 1 + level when the receiver was last asked; 0: not asked */
} replica_successor;

typedef struct replica_join { /* a tail's joiner */
    bool wanted;
    bool filled; /* the state was sent; later entries are kept */
    bool begun;  /* the joiner has reported its level */
    bool gated, ready;
    uint32_t server;
    uint64_t incarnation;
    replica_successor successor;
    unsigned ticks;
} replica_join;

typedef struct replica_contribution { /* a rank's contribution to the open round */
    bool there;
    bool summed;     /* the bytes are in the sum and were released */
    bool besides;    /* taken without regard to the rank's credit, and not counted in it */
    uint64_t digest; /* digest of the bytes */
    span payload;
    shared_bytes *bytes;
} replica_contribution;

typedef struct replica_round { /* a head's view of the open round; dropped with the epoch */
    bool known;                /* `terms` are known */
    bool decided;              /* the round state decided the set in `terms.members` */
    round_state_terms terms;
    int64_t due_us; /* at the round state: deadline of the round; 0: no contribution yet */
} replica_round;

typedef struct replica_norms { /* at a head: norms of all slots that its sum needs; dropped with the sum */
    shared_bytes *sum;         /* owned: the sum, with room for the head of its entry; NULL: not complete */
    bool measured;             /* `measure` was called with the known norms */
    rank_set set;              /* ranks of the sum */
    shared_bytes *part;        /* owned: the part that was reported, while its norms are missing; NULL: none */
    shared_bytes *bytes;       /* owned: norms that the round state committed; NULL: none */
    uint32_t phases;           /* number of phases in `bytes` */
    uint32_t asked;            /* 1 + the phase that the round state asked for in this round; 0: none */
    uint32_t spoke;            /* phases with a part in the round before; a slot without one now reports that */
} replica_norms;

typedef struct replica_inquiry { /* at the round state's head: slots that have frozen the rank that is being dropped */
    uint32_t rank;
    uint64_t round;
    uint32_t count;
    bool *frozen; /* by slot, owned; NULL: no inquiry */
} replica_inquiry;

typedef struct replica_cut { /* at a head: state of the slot for a checkpoint, until it is saved */
    uint64_t checkpoint;     /* number of the checkpoint; 0: none */
    uint64_t lsn;
    uint64_t version;    /* with rounds: 1 + the version that was cut; 0: without rounds */
    uint64_t clock;      /* digest of the ranks' steps (replica_checkpoint.c) */
    shared_bytes *bytes; /* shared */
} replica_cut;

typedef struct replica_shown { /* last large answer to a rank */
    uint64_t request;
    int64_t until_us; /* presumed in flight until then */
    uint32_t times;   /* number of repetitions */
} replica_shown;

struct replica {
    const replica_host *host;
    const state_machine_ops *ops;     /* operations of the values or of the round state */
    uint32_t round_state, slot_count; /* slot of the round state; number of slots */
    uint32_t round_slots;             /* number of slots with rounds and values; they come first */
    cluster_map_rounds rounds;
    replica_round round;
    replica_inquiry inquiry;
    replica_norms norms;
    norm_reports gathered; /* at the round state's head */
    int64_t now_us;        /* time of the last tick */
    uint32_t slot;
    replica_phase phase;
    uint64_t epoch, since, birth;
    cluster_map_slot chain;
    int place; /* -1: not in the chain */

    replica_log log;
    uint64_t level, base;
    uint64_t inherited; /* last lsn when the epoch was entered: may be committed */
    replica_successor successor;
    replica_join join;
    uint32_t answered; /* in ENTERING: a bit for each place that has answered */

    consistency consistency;
    uint32_t rank_count;
    uint32_t client_count; /* ranks and readers: those that pull */
    uint32_t name_count;   /* at least rank_count: includes ranks of an earlier generation (replica_snapshot.c) */
    void *values;          /* owned; NULL: no replica */
    uint64_t *names;       /* last applied seq, by rank */
    uint64_t *logged;      /* last seq in the log, otherwise the last applied one, by rank */
    uint64_t version;
    uint64_t marked;         /* last checkpoint that was cut; with rounds only the round state has it */
    uint32_t marked_version; /* in a mixed deployment, of a slot without rounds: 1 + the version of the rounds in it */
    uint64_t origin;         /* checkpoint from which the generation begins */
    replica_cut cut;
    uint64_t stored;       /* at a head: the checkpoint whose cut the checkpoint store has taken last */
    unsigned loading;      /* ticks in the phase LOADING */
    uint64_t changed;      /* lsn of the last round, or of the state that was loaded */
    uint64_t turned;       /* lsn of the last round; 0: the version before is not known */
    slot_message *waiters; /* waiting pulls, owned, by descending priority; queries are held */
    size_t waiter_count, waiter_room;
    replica_shown *shown;                /* last large answers, by rank, then the readers, owned */
    bool moved;                          /* an entry was applied since the waiters were checked */
    bool news;                           /* an entry was applied since the round state sent its terms */
    bool closing;                        /* the sum of the open round is in the log */
    replica_contribution *contributions; /* by rank, owned */
    uint32_t contribution_count;
    bool adds; /* `sum` exists: contributions of the first ranks of the set, in order */
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
/* Completes and sends a message whose other fields are set. */
void replica_reply(replica *replica, uint32_t rank, slot_message_kind kind, slot_message_status status,
                   slot_message *message);
/* Answers a push. `last`: last seq received, for RESEND. */
void replica_acknowledge(replica *replica, uint32_t rank, slot_message_status status, uint64_t name, uint64_t last);
void replica_tell_gate(replica *replica); /* reports to the controller whether the joiner may become a member */
void replica_make_copy(replica *replica); /* makes an empty replica */
void replica_drop_copy(replica *replica);

/* replica_chain.c */
void replica_append_log(replica *replica, const replica_log_entry *entry);
void replica_count_logged(replica *replica, const replica_log_entry *entry);
void replica_commit(replica *replica, uint64_t lsn);
void replica_advance(replica *replica); /* after the level, or a successor's level, has grown */
void replica_take_entry(replica *replica, uint32_t from, const slot_message *message, shared_bytes *bytes);
/* LATER: no room for an entry */
void replica_tell_level(replica *replica, uint32_t server, slot_message_status status);
void replica_take_level(replica *replica, uint32_t from, const slot_message *message);
void replica_ask_levels(replica *replica); /* repeats questions for levels that may be lost */

/* replica_snapshot.c; after invalid state bytes the replica is unusable and must be dropped */
shared_bytes *replica_write_state(const replica *replica);            /* the caller owns a reference */
shared_bytes *replica_write_shard(const replica *replica, bool kept); /* kept: of the version before */
bool replica_read_state(replica *replica, span bytes);
bool replica_read_shard(replica *replica, span bytes);

/* replica_checkpoint.c */
/* No-op if this replica is not the head. `kept`: cuts the version before. */
void replica_make_cut(replica *replica, uint64_t checkpoint, bool kept);
void replica_drop_cut(replica *replica);
void replica_take_saved(replica *replica, const slot_message *message);
void replica_take_mark(replica *replica, const slot_message *message);
void replica_apply_mark(replica *replica, const replica_log_entry *entry);
void replica_load(replica *replica); /* fetches the state from the origin's checkpoint */
bool replica_take_shard(replica *replica, const slot_message *message); /* true: the state was loaded */
void replica_tick_cut(replica *replica);

/* replica_round.c */
void replica_drop_contributions(replica *replica); /* also resets the view of the round */
void replica_take_contribution(replica *replica, const slot_message *message, shared_bytes *bytes);
void replica_ask_contribution(replica *replica, const slot_message *message); /* answers TAKEN or RESEND */
void replica_try_close(replica *replica); /* closes the round if all contributions are there */
void replica_end_round(replica *replica, const replica_log_entry *entry);
void replica_freeze(replica *replica, const replica_log_entry *entry);
void replica_take_freeze(replica *replica, const slot_message *message);
void replica_take_terms(replica *replica, const slot_message *message);

/* replica_norms.c. At a head whose sum is complete. False: norms are missing. */
bool replica_measure(replica *replica, const round_state_terms *terms);
/* Returns the sum as the entry of its round; the caller owns a reference. */
shared_bytes *replica_take_sum(replica *replica, const round_state_terms *terms);
void replica_drop_norms(replica *replica);
void replica_tick_norms(replica *replica);
void replica_take_measure(replica *replica, const slot_message *message);
void replica_take_norms(replica *replica, const slot_message *message);
/* At the round state. */
void replica_take_measured(replica *replica, const slot_message *message);
void replica_apply_norms(replica *replica, const replica_log_entry *entry);
void replica_try_norms(replica *replica); /* commits norms if all slots have reported */
void replica_tick_gathered(replica *replica);

/* replica_round_state.c */
static inline bool replica_is_round_state(const replica *replica) { return replica->slot == replica->round_state; }
void replica_take_order(replica *replica, const slot_message *message);
void replica_take_frozen(replica *replica, const slot_message *message);
void replica_forget_inquiry(replica *replica);
void replica_apply_order(replica *replica, const replica_log_entry *entry);
void replica_tell_terms(replica *replica); /* sends terms and orders to the heads that need them */

/* replica_serve.c */
/* at the head: logs the entry and sends it down the chain */
void replica_append(replica *replica, const replica_log_entry *entry);
void replica_apply(replica *replica, const replica_log_entry *entry);
void replica_take_push(replica *replica, const slot_message *message, shared_bytes *bytes);
void replica_take_hello(replica *replica, const slot_message *message);

/* replica_pull.c */
void replica_take_pull(replica *replica, const slot_message *message, shared_bytes *bytes);
void replica_show(replica *replica, uint32_t rank, uint64_t request, span query); /* answers from the current state */
bool replica_may_show(const replica *replica); /* whether pulls may be answered from this replica */
void replica_answer_waiters(replica *replica);
void replica_forget_waiters(replica *replica);
