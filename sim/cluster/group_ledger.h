/* group_ledger.h — who came, who did what, what was decided: the checkers of the group scenario.
 *
 * Checked at each decision, against what processes really did:
 *   barriers  when a round opens, every process of the group that is in the roster has come to that very round
 *   parts     a part moves on by a piece that its holder did, from the position where it was, and never goes back; an
 *             epoch ends when every part is done. So in each epoch all of the data is done, once
 *   shares    every part that is not done has a holder that is here, and nobody has two more than another
 *   one truth whoever knows a roster of some number knows the same one */
#pragma once
#include "cluster/roster.h"
#include "sim/sim.h"

enum { GROUP_SEATS_MAX = 8, GROUP_PARTS_MAX = 12, GROUP_ROSTERS_MAX = 4096, GROUP_PIECES_MAX = 4096 };

typedef struct group_coming { /* the last barrier that a process came to */
    uint64_t incarnation, round;
    char name[ROSTER_NAME_MAX];
} group_coming;

typedef struct group_doing { /* one piece that a process did */
    uint32_t id;
    uint64_t incarnation;
    roster_piece piece;
} group_doing;

typedef struct group_ledger {
    sim *sim;
    roster roster;                      /* decided last */
    uint64_t hashes[GROUP_ROSTERS_MAX]; /* of rosters, by their number */
    group_coming comings[GROUP_SEATS_MAX];
    group_doing *doings; /* owned */
    size_t doing_count;
} group_ledger;

void group_ledger_init(group_ledger *ledger, sim *sim);
void group_ledger_fini(group_ledger *ledger);

void group_ledger_came(group_ledger *ledger, uint32_t id, uint64_t incarnation, const char *name, uint64_t round);
void group_ledger_did(group_ledger *ledger, uint32_t id, uint64_t incarnation, const roster_piece *piece);
void group_ledger_decided(group_ledger *ledger, const roster *roster);
void group_ledger_knows(group_ledger *ledger, const sim_node *node, const roster *roster);
