/* view_checker.h — every view that anyone ever entered, and every write that was sent: the checkers of the view
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
#include "cluster/membership_view.h"
#include "sim/sim.h"

enum { VIEW_CHECKER_MEMBERS_MAX = 8 };

typedef struct view_checker {
    sim *sim;
    map decisions;   /* number → what is known of it, owned */
    uint64_t newest; /* number that was decided and that anyone has entered */
    map holders;     /* incarnation → process, as a number that is not 0 */
    struct view_checker_write *writes;
    size_t write_count, write_room;
} view_checker;

void view_checker_init(view_checker *checker, sim *sim);
void view_checker_fini(view_checker *checker);

void view_checker_given(view_checker *checker, const sim_node *node, uint64_t incarnation);

/* The process on that node enters a view; *entered is the newest it has entered, 0 at first. */
void view_checker_entered(view_checker *checker, const sim_node *node, const membership_view *view, uint64_t *entered);

uint64_t view_checker_sent(view_checker *checker, const sim_node *node, uint64_t entered); /* the number of the write */
void view_checker_accepted(view_checker *checker, const sim_node *node, uint64_t entered, uint64_t write);

void view_checker_check_lives(view_checker *checker); /* at the end */
