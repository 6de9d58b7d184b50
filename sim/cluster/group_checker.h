/* group_checker.h — checkers of the group scenario: decisions and finished steps.
 *
 * Checked at each decision:
 *   shards    the position of a shard never goes back in an epoch, nor does the epoch
 *   claims    a step of a rank has one batch, for ever; no item is in the batches of two steps of one epoch, and none
 *             is left out of an epoch that is over. So each epoch gives out all of the data, once
 *   holders   every shard that is not claimed to its end has a connected holder, and none has two more than another
 *   agreement all processes that know a consumer group of some number know the same one
 *
 * Checked at each step of a worker: it uses the batch that was decided for the step. */
#pragma once
#include "cluster/consumer_group.h"
#include "sim/sim.h"

enum {
    GROUP_SITES_MAX = 8,
    GROUP_PARTS_MAX = 12,
    GROUP_ITEMS_MAX = 6, /* in a shard */
    GROUP_EPOCHS_MAX = 3,
    GROUP_STEPS_MAX = 1024, /* per rank */
    GROUP_GROUPS_MAX = 4096
};

typedef struct group_step {
    bool given;
    batch_claims_piece piece;
} group_step;

typedef struct group_checker {
    sim *sim;
    consumer_group group;                 /* the newest decision */
    uint64_t hashes[GROUP_GROUPS_MAX];    /* hashes of consumer groups, indexed by their number */
    group_step (*steps)[GROUP_STEPS_MAX]; /* owned; indexed by rank, which is the id of its worker */
    bool given[GROUP_EPOCHS_MAX][GROUP_PARTS_MAX][GROUP_ITEMS_MAX];
    uint64_t counted; /* finished epochs that were checked */
} group_checker;

void group_checker_init(group_checker *checker, sim *sim);
void group_checker_fini(group_checker *checker);

void group_checker_did(group_checker *checker, uint32_t rank, uint64_t step, const batch_claims_piece *piece);
void group_checker_decided(group_checker *checker, const consumer_group *group);
void group_checker_knows(group_checker *checker, const sim_node *node, const consumer_group *group);
