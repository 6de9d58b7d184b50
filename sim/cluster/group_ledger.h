/* group_ledger.h — checkers of the group scenario: decisions and finished pieces.
 *
 * Checked at each decision:
 *   parts     the position of a part never goes back in an epoch, nor does the epoch
 *   claims    a step of a rank has one piece, for ever; no item is in the pieces of two steps of one epoch, and none is
 *             left out of an epoch that is over. So in each epoch all of the data is given out, once
 *   shares    every part that is not claimed to its end has a holder that is here, and nobody has two more than another
 *   one truth whoever knows a roster of some number knows the same one
 *
 * And whenever a worker does a step: the piece is the one that was decided for it. */
#pragma once
#include "cluster/roster.h"
#include "sim/sim.h"

enum {
    GROUP_SEATS_MAX = 8,
    GROUP_PARTS_MAX = 12,
    GROUP_ITEMS_MAX = 6, /* of a part */
    GROUP_EPOCHS_MAX = 3,
    GROUP_STEPS_MAX = 1024, /* of a rank */
    GROUP_ROSTERS_MAX = 4096
};

typedef struct group_step {
    bool given;
    claims_piece piece;
} group_step;

typedef struct group_ledger {
    sim *sim;
    roster roster;                        /* decided last */
    uint64_t hashes[GROUP_ROSTERS_MAX];   /* of rosters, by their number */
    group_step (*steps)[GROUP_STEPS_MAX]; /* owned; by rank, which is the id of its worker */
    bool given[GROUP_EPOCHS_MAX][GROUP_PARTS_MAX][GROUP_ITEMS_MAX];
    uint64_t counted; /* epochs that are over, and were looked through */
} group_ledger;

void group_ledger_init(group_ledger *ledger, sim *sim);
void group_ledger_fini(group_ledger *ledger);

void group_ledger_did(group_ledger *ledger, uint32_t rank, uint64_t step, const claims_piece *piece);
void group_ledger_decided(group_ledger *ledger, const roster *roster);
void group_ledger_knows(group_ledger *ledger, const sim_node *node, const roster *roster);
