/* ps_data_checker.h — checks the data that the ranks of the parameter scenario receive and use in their steps.
 *
 * Checked  a step has one batch, for ever: every process that repeats the step uses the same batch;
 *          steps follow the consumer group: a step is begun with the batch that was decided, not before;
 *          once in an epoch: no item is given to two steps, and when an epoch is over none was left out;
 *          only a batch whose step is over is handed back, and only if the step was not in its round; a batch that a
 *          rank reports as not used is handed back when its step is over.
 *
 * Since each step of a rank is applied once (ps_checker.h), each item is used once in an epoch. */
#pragma once
#include "cluster/consumer_group.h"
#include "sim/ps/ps_checker.h"
#include "sim/sim.h"

enum { PS_PARTS_MAX = 8, PS_STEPS_MAX = 128, PS_EPOCHS_MAX = 1024 };

typedef struct ps_given {
    bool given, back; /* back: handed back since */
    batch_claims_piece piece;
} ps_given;

typedef struct ps_said { /* reports of ranks about the steps before a step */
    bool said, differs;  /* differs: the reports are not equal */
    batch_claims_past past;
} ps_said;

typedef struct ps_data_checker { /* ready when it is zero-initialized except for sim and checker */
    sim *sim;
    const ps_checker *checker;
    uint64_t newest; /* newest consumer group */
    ps_given steps[PS_RANKS_MAX][PS_STEPS_MAX];
    ps_said said[PS_RANKS_MAX][PS_STEPS_MAX];
    uint64_t over[PS_RANKS_MAX];
    uint64_t items[PS_EPOCHS_MAX]; /* items given, per epoch */
} ps_data_checker;

void ps_data_checker_knows(ps_data_checker *checker, const consumer_group *group); /* a process knows this group */
void ps_data_checker_says(ps_data_checker *checker, uint32_t rank, const batch_claims_past *past);
void ps_data_checker_used(ps_data_checker *checker, uint32_t rank, uint64_t step, const batch_claims_piece *piece);
