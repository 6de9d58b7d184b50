/* ps_checker.h — checkers of the parameter scenario: committed, acknowledged and pulled values.
 *
 * The checker belongs to no process and survives all of them. It records the history of each slot, lsn by lsn, from the
 * first server that applied an entry, and compares all other servers with it.
 *
 * Checked  one history: at one lsn every server applies the same entry, and has the same bytes afterwards;
 *          its own: after the point from which a term of a rank continues, the term gets answers to its own pushes
 *          only, never to those of another process that holds the same rank;
 *          exactly once, in order: the seqs of a rank are applied in order, none twice, none left out, however its
 *          processes group them in pushes;
 *          nothing is lost: every acknowledged push is in the history, and every full replica of the newest cluster map
 *          has it;
 *          a push that also pulls gets a state that contains the push;
 *          a pull of some keys gets those keys and no others, whatever other ranks pull meanwhile;
 *          one value: outside BSP pushes and fresh pulls of a slot are linearizable (ps_history.h), and the bytes at an
 *          lsn are those of a sequential run of its entries;
 *          causality: a rank pulls a state with its acknowledged pushes, with those that other ranks reported to it,
 *          and never an older state than before;
 *          SSP: no pull gets a state in which the slowest rank is behind by more than the bound of that pull;
 *          beside rounds: when the round state closes a round, and in every checkpoint, slots without rounds have all
 *          steps up to that round of each counted rank; a rank skips only steps of rounds that were closed without it;
 *          BSP: the set of a round is the same in all slots and in the round state: all members, or enough of them; a
 *          rank gets the true answer whether it counted; no contribution is repeated with other bytes; every pulled
 *          version equals that of a sequential run with that set, bit for bit; no slot is two versions ahead; the norms
 *          of a phase of a round are committed once, and slots close a round with the norms committed by then, which
 *          are those of the sequential run;
 *          bounded: logs and open rounds; the bytes that a server holds for a rank, and for links, are within its
 *          credit, and equal its own count;
 *          checkpoints: all slots with rounds are cut at one version; a generation begins from a checkpoint that is no
 *          older than any reported as complete; each slot
 *          begins with the state, the seqs and, in BSP, the version of its snapshot, and its history continues from
 *          there; an exact checkpoint has all slots at the same step of each rank, so that nothing is repeated.
 *          Messages of an ended generation are not checked. */
#pragma once
#include "ps/cluster_map.h"
#include "ps/round_state.h"
#include "ps/slot_server.h"
#include "sim/ps/ps_history.h"
#include "sim/ps/ps_saved.h"
#include "sim/sim.h"

typedef struct ps_contribution { /* first seq of a rank that is new in a generation */
    size_t at;                   /* number of entries before it: earlier ones are of another rank with this number */
    uint32_t rank;
    uint64_t name;
    uint64_t round; /* first round that may count it */
} ps_contribution;

typedef struct ps_checker_history { /* of one slot */
    ps_event *events;               /* owned; events[lsn - 1] */
    size_t count, capacity;
    ps_contribution *contributions; /* owned; ordered by `at`. A restore before one removes it */
    size_t contribution_count;
    size_t origin;         /* lsn at which the generation began */
    uint64_t acknowledged; /* highest acknowledged lsn */
    uint64_t version;      /* BSP: current version */
    ps_history history;
} ps_checker_history;

typedef struct ps_round { /* a BSP round */
    bool begun, over;     /* its members are known; its final set is known */
    rank_set members, set;
    uint32_t phases; /* phases whose norms the round state has committed */
    double norms[STATE_MACHINE_PHASES_MAX];
} ps_round;

typedef struct ps_session {                         /* one term of a rank */
    uint64_t term, clock[PS_SLOTS_MAX];             /* seqs from which it continues */
    uint64_t own[PS_SLOTS_MAX], seen[PS_SLOTS_MAX]; /* highest lsn acknowledged, and pulled */
    uint64_t told[PS_SLOTS_MAX];                    /* highest acknowledged lsn that other ranks reported to it */
    uint64_t due[PS_SLOTS_MAX];                     /* lowest lsn that the pull may return, fixed at its request */
    size_t fresh[PS_SLOTS_MAX];                     /* 1 + the number of a fresh pull; 0: the pull is not fresh */
    uint64_t wanted[PS_SLOTS_MAX];                  /* own push that the pull must contain; 0: none */
    uint8_t keys[PS_SLOTS_MAX];                     /* requested keys */
    consistency consistency[PS_SLOTS_MAX];          /* allowed staleness; unused with rounds */
} ps_session;

typedef struct ps_checker {
    sim *sim;
    uint32_t known;                   /* ranks that exist or have existed: their seqs are in the slots */
    uint32_t value_slots, rank_count; /* with rounds, the slot after the value slots is the round state */
    uint32_t round_slots;             /* the first round_slots slots have rounds */
    uint32_t idle;                    /* one bit per rank that adds nothing to rounds */
    uint32_t items;                   /* per push */
    float_machine_context machine;    /* context of the values */
    cluster_map_rounds terms;
    ps_round *rounds; /* owned */
    size_t round_count;
    uint32_t drops; /* number of ranks dropped so far */
    uint64_t birth; /* incarnation of the newest generation; 0: none yet */
    uint64_t whole; /* newest checkpoint reported as complete */
    bool rots;      /* checkpoints may be damaged: then an older one is restored */
    ps_saved_list saved;
    ps_checker_history histories[PS_SLOTS_MAX];
    uint64_t newest;                                     /* newest cluster map that was checked */
    double (*models)[PS_SLOTS_MAX][FLOAT_MACHINE_WIDTH]; /* versions of the sequential run; owned */
    size_t model_count;
} ps_checker;

void ps_checker_init(ps_checker *checker, sim *sim, uint32_t value_slots, uint32_t round_slots, uint32_t ranks,
                     uint32_t items, cluster_map_rounds terms);
void ps_checker_fini(ps_checker *checker);

void ps_checker_applied(ps_checker *checker, const sim_node *node, const replica *replica,
                        const replica_log_entry *entry);
void ps_checker_push(ps_checker *checker, uint32_t rank, uint32_t slot, uint64_t name);      /* outside BSP */
void ps_checker_holds(ps_checker *checker, const sim_node *node, const slot_server *server); /* after each action */
void ps_checker_pushed(ps_checker *checker, ps_session *session, uint32_t rank, uint32_t slot, uint64_t name,
                       slot_message_status status);
void ps_checker_round(ps_checker *checker, const round_state_terms *terms); /* members that a rank received */
void ps_checker_asked(ps_checker *checker, ps_session *session, uint32_t slot, uint8_t keys, consistency consistency,
                      bool fresh); /* a pull */
void ps_checker_pulled(ps_checker *checker, ps_session *session, uint32_t rank, uint32_t slot, uint64_t step,
                       uint64_t version, uint64_t lsn, span values);

void ps_checker_whole(ps_checker *checker, uint64_t checkpoint); /* the completion is reported */
/* The checkpoint store has completed a checkpoint, or found it on its disk, with the slots at these lsns. */
void ps_checker_saved(ps_checker *checker, uint64_t checkpoint, const uint64_t lsn[PS_SLOTS_MAX]);
/* Checks that the checkpoint is exact: every slot has the same last step of each rank, and all of that step. */
void ps_checker_exact(ps_checker *checker, uint64_t checkpoint);
/* A cluster map is decided; if it is the first of a generation, the histories go back to its checkpoint. */
void ps_checker_decided(ps_checker *checker, const cluster_map *map);
void ps_checker_loaded(ps_checker *checker, const sim_node *node, const replica *replica);

void ps_checker_end(ps_checker *checker); /* at the end of the run: checks of whole histories */

/* A member of a chain in a newest cluster map, with the copy that its server has. */
void ps_checker_member(ps_checker *checker, const sim_node *node, const cluster_map_slot *slot, uint32_t index,
                       const cluster_map_member *member, uint64_t birth, const replica *replica);

/* Hash of the values of the keys that the rank pulls in this step. */
uint64_t ps_checker_shown_hash(const double values[][FLOAT_MACHINE_WIDTH], uint32_t rank, uint64_t step,
                               uint32_t slots);
