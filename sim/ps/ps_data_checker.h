/* ps_data_checker.h — which data the ranks of the parameter scenario were given, and with which they did their steps.
 *
 * Checked  a step has one piece, for ever: whoever plays it, and however often, does it with that;
 *  what is done is what the consumer group has: a step is begun with the piece that was decided, not before;
 *          once in an epoch: no item is given to two steps, and when an epoch is over none was left out;
 *          only what is over is handed back, and only what was not in its round; what a player says was not spent is
 *          handed back when it is over.
 *
 * Since each step of a rank is applied once (ps_checker.h), each item is used once in an epoch. */
#pragma once
#include "cluster/consumer_group.h"
#include "sim/ps/ps_checker.h"
#include "sim/sim.h"

enum { PS_PARTS_MAX = 8, PS_STEPS_MAX = 128, PS_EPOCHS_MAX = 1024 };

typedef struct ps_given {
    bool given, back; /* back: and handed back since */
    batch_claims_piece piece;
} ps_given;

typedef struct ps_said { /* what players say of the steps before one */
    bool said, differs;  /* differs: not all of them the same */
    batch_claims_past past;
} ps_said;

typedef struct ps_data_checker { /* zero-initialized with its sim and its ledger it is ready */
    sim *sim;
    const ps_checker *checker;
    uint64_t newest; /* consumer group */
    ps_given steps[PS_RANKS_MAX][PS_STEPS_MAX];
    ps_said said[PS_RANKS_MAX][PS_STEPS_MAX];
    uint64_t over[PS_RANKS_MAX];
    uint64_t items[PS_EPOCHS_MAX]; /* that were given */
} ps_data_checker;

void ps_data_checker_knows(ps_data_checker *checker, const consumer_group *group); /* somebody knows this one */
void ps_data_checker_says(ps_data_checker *checker, uint32_t rank, const batch_claims_past *past);
void ps_data_checker_used(ps_data_checker *checker, uint32_t rank, uint64_t step, const batch_claims_piece *piece);
