/* view_ledger.h — every view that anyone ever entered, and every write that was sent: the checkers of the view
 * scenario.
 *
 * It belongs to no process: it survives crashes and knows what no member can know, which process was given which
 * incarnation, and who sent each write in which view. It compares that knowledge, and does not ask the code under test
 * what it thinks of its own conditions.
 *
 * Checked  one decision: all that any process ever entered under one number is one and the same view;
 *          only forward: the numbers that a process enters grow;
 *          one life: an incarnation is given once, and once left out of a view it is in no later one;
 *          fencing: a write that is accepted was sent, in the newest view that the resource has entered, by the very
 *          process that leads that view. */
#pragma once
#include "base/map.h"
#include "cluster/view.h"
#include "sim/sim.h"

enum { VIEW_LEDGER_MEMBERS_MAX = 8 };

typedef struct view_ledger {
    sim *sim;
    map decisions;   /* number → what is known of it, owned */
    uint64_t newest; /* number that was decided and that anyone has entered */
    map holders;     /* incarnation → process, as a number that is not 0 */
    struct view_ledger_write *writes;
    size_t write_count, write_room;
} view_ledger;

void view_ledger_init(view_ledger *ledger, sim *sim);
void view_ledger_fini(view_ledger *ledger);

void view_ledger_given(view_ledger *ledger, const sim_node *node, uint64_t incarnation);

/* The process on that node enters a view; *entered is the newest it has entered, 0 at first. */
void view_ledger_entered(view_ledger *ledger, const sim_node *node, const view *view, uint64_t *entered);

uint64_t view_ledger_sent(view_ledger *ledger, const sim_node *node, uint64_t entered); /* the number of the write */
void view_ledger_accepted(view_ledger *ledger, const sim_node *node, uint64_t entered, uint64_t write);

void view_ledger_check_lives(view_ledger *ledger); /* at the end */
