/* ps_checker.h — checkers of the parameter scenario: committed, acknowledged and pulled values.
 *
 * The checker belongs to no process and survives all of them. It records each slot's one history, lsn by lsn, from the
 * first server that applied an entry, and compares all other servers with it.
 *
 * Checked  one history: at one lsn every server applies the same entry, and has the same bytes afterwards;
 *          its own: beyond the point from which a term of a rank goes on, the term gets answers to its own pushes only,
 *          never to those of another process that holds the same rank;
 *          exactly once, in order: the seqs of a rank are applied as the rank gave them, none twice, none left out,
 *          however its processes group them in pushes;
 *          nothing is lost: every acknowledged push is in the history, and every full copy of a newest cluster map has
 *          it;
 *          a push that also pulls shows a state that has the push;
 *          a pull of some keys shows those keys and no others, whatever other ranks pull meanwhile;
 *          one value: outside BSP pushes and fresh pulls of a slot are linearizable (ps_history.h), and the bytes at an
 *          lsn are those of a sequential run of its entries;
 *          causality: a rank is shown its acknowledged pushes, those that others told it of, never less than before;
 *          SSP: no rank is shown a state in which the slowest rank is more than the bound of that pull behind;
 *          beside rounds: when a round is over for the round state, and in every checkpoint, slots without rounds have
 *          all steps up to there of each counted rank; a rank leaves out only steps in whose rounds it was not;
 *          BSP: the set of a round is the same in all slots, and that of the round state: all members, or enough of
 *          them; a rank is told truly whether it counted; no contribution is repeated with other bytes; every version
 *          that is shown is that of a sequential run with that set, bit for bit; no slot is two versions ahead; the
 *          norms of a phase of a round are committed once, and slots close a round with those that are committed by
 *          then, which are those of the sequential run;
 *          bounded: logs and open rounds; the bytes that a server holds for a rank, and for links, are within its
 *          credit, and equal its own count;
 *          checkpoints: a generation begins from one that is no older than any that was reported complete; each slot
 *          begins there with the state, the seqs and, in BSP, the version that it had when it was cut, and its history
 *          goes on from there; of one that is exact, all slots at the same step of each rank, so that nothing is
 *          repeated. Messages of a generation that is over are not checked. */
#pragma once
#include "ps/cluster_map.h"
#include "ps/round_state.h"
#include "ps/slot_server.h"
#include "sim/ps/ps_history.h"
#include "sim/sim.h"

typedef struct ps_contribution { /* the name with which a rank begins that is new */
    size_t at;                   /* behind so many entries: what is before was another's */
    uint32_t rank;
    uint64_t name;
    uint64_t round; /* the first that may be its own */
} ps_contribution;

typedef struct ps_checker_history { /* of one slot */
    ps_event *events;               /* owned; events[lsn - 1] */
    size_t count, capacity;
    ps_contribution *contributions; /* owned; in the order of their places. Who goes back behind one has never had it */
    size_t contribution_count;
    size_t origin;         /* the lsn at which its generation began */
    uint64_t acknowledged; /* the highest lsn */
    uint64_t version;      /* of BSP */
    ps_history history;
} ps_checker_history;

typedef struct ps_round { /* of BSP */
    bool begun, over;     /* its members are known; the set is */
    rank_set members, set;
    uint32_t phases; /* of norms that the round state has committed */
    double norms[STATE_MACHINE_PHASES_MAX];
} ps_round;

typedef struct ps_session {                         /* of one term of a rank */
    uint64_t term, clock[PS_SLOTS_MAX];             /* the names from which it goes on */
    uint64_t own[PS_SLOTS_MAX], seen[PS_SLOTS_MAX]; /* the highest lsn acknowledged, and shown */
    uint64_t told[PS_SLOTS_MAX];                    /* what others had acknowledged and told it */
    uint64_t due[PS_SLOTS_MAX];                     /* what it must be shown, since it asked */
    size_t fresh[PS_SLOTS_MAX];                     /* 1 + the number of a fresh pull; 0: it is none */
    uint64_t wanted[PS_SLOTS_MAX];                  /* the push of its own that must be in it; 0: none in particular */
    uint8_t keys[PS_SLOTS_MAX];                     /* that it asked for */
    consistency consistency[PS_SLOTS_MAX];          /* and how stale that may be; not of rounds */
} ps_session;

enum { PS_SAVED_MAX = 8 }; /* the checkpoint store keeps fewer */

typedef struct ps_saved { /* a checkpoint */
    uint64_t checkpoint;
    uint32_t ranks, known; /* for how many; how many there have been, up to then */
    bool used;             /* a generation has begun from it: */
    rank_set members;      /* of the round with which it went on */
} ps_saved;

typedef struct ps_checker {
    sim *sim;
    uint32_t known;                   /* ranks that there are, or were: their names are in the slots */
    uint32_t value_slots, rank_count; /* where there are rounds the slot behind the values is the round state */
    uint32_t round_slots;             /* the first ones have rounds */
    uint32_t idle;                    /* a bit for each rank that adds nothing to rounds */
    uint32_t items;                   /* of a push */
    float_machine_context machine;    /* with which the values are made */
    cluster_map_rounds terms;
    ps_round *rounds; /* owned */
    size_t round_count;
    uint32_t drops;               /* ranks that were given up so far */
    uint64_t birth;               /* of the newest generation; 0: none yet */
    uint64_t whole;               /* the newest checkpoint that was reported complete */
    bool rots;                    /* it may be damaged since: an older one takes its place */
    ps_saved saved[PS_SAVED_MAX]; /* the last ones that were whole */
    size_t saved_count;
    ps_checker_history histories[PS_SLOTS_MAX];
    uint64_t newest;                                     /* cluster map that was checked */
    double (*models)[PS_SLOTS_MAX][FLOAT_MACHINE_WIDTH]; /* of the sequential run, by version; owned */
    size_t model_count;
} ps_checker;

void ps_checker_init(ps_checker *checker, sim *sim, uint32_t value_slots, uint32_t round_slots, uint32_t ranks,
                     uint32_t items, cluster_map_rounds terms);
void ps_checker_fini(ps_checker *checker);

void ps_checker_applied(ps_checker *checker, const sim_node *node, const replica *replica,
                        const replica_log_entry *entry);
void ps_checker_push(ps_checker *checker, uint32_t rank, uint32_t slot, uint64_t name);      /* values, not of BSP */
void ps_checker_holds(ps_checker *checker, const sim_node *node, const slot_server *server); /* after whatever it did */
void ps_checker_pushed(ps_checker *checker, ps_session *session, uint32_t rank, uint32_t slot, uint64_t name,
                       slot_message_status status);
void ps_checker_round(ps_checker *checker, const round_state_terms *terms); /* that a rank is shown */
void ps_checker_asked(ps_checker *checker, ps_session *session, uint32_t slot, uint8_t keys, consistency consistency,
                      bool fresh); /* a pull */
void ps_checker_pulled(ps_checker *checker, ps_session *session, uint32_t rank, uint32_t slot, uint64_t step,
                       uint64_t version, uint64_t lsn, span values);

void ps_checker_whole(ps_checker *checker, uint64_t checkpoint); /* it is reported */
/* The checkpoint store has made one whole, with this slot as it was at that lsn. */
void ps_checker_saved(ps_checker *checker, uint64_t checkpoint, uint32_t slot, uint64_t lsn);
/* It is to be exact: every slot has the same last step of each rank, and all of it. */
void ps_checker_exact(ps_checker *checker, uint64_t checkpoint);
/* A cluster map is decided; if it is the first of a generation the histories go back to its origin. */
void ps_checker_decided(ps_checker *checker, const cluster_map *map);
void ps_checker_loaded(ps_checker *checker, const sim_node *node, const replica *replica);

void ps_checker_end(ps_checker *checker); /* of the run: what is checked of whole histories */

/* A member of a chain in a newest cluster map, with the copy that its server has. */
void ps_checker_member(ps_checker *checker, const sim_node *node, const cluster_map_slot *slot, uint32_t index,
                       const cluster_map_member *member, uint64_t birth, const replica *replica);

/* Of the keys that the rank looks at in this step. */
uint64_t ps_checker_shown_hash(const double values[][FLOAT_MACHINE_WIDTH], uint32_t rank, uint64_t step,
                               uint32_t slots);
