/* view_checker.h — checkers of the view scenario: every view that a process entered, and every write that was sent.
 *
 * The checker belongs to no process: it survives crashes, and knows facts that no member can know: the process of each
 * incarnation, and the sender and the view of each write. It compares these facts, and does not use conditions computed
 * by the code under test.
 *
 * Checked  one decision: all processes that enter a view under one number enter the same view;
 *          only forward: the numbers that a process enters grow;
 *          one life: an incarnation is given once, and once left out of a view it is in no later one;
 *          fencing: an accepted write was sent in the newest view that the resource has entered, by the process that
 *          leads that view. */
#pragma once
#include "base/map.h"
#include "cluster/membership_view.h"
#include "sim/sim.h"

enum { VIEW_CHECKER_MEMBERS_MAX = 8 };

typedef struct view_checker {
    sim *sim;
    map decisions;   /* view number → decision, owned */
    uint64_t newest; /* highest number that a process has entered */
    map holders;     /* incarnation → process, as a nonzero number */
    struct view_checker_write *writes;
    size_t write_count, write_room;
} view_checker;

void view_checker_init(view_checker *checker, sim *sim);
void view_checker_fini(view_checker *checker);

void view_checker_given(view_checker *checker, const sim_node *node, uint64_t incarnation);

/* The process on that node enters a view; *entered is the newest view it has entered, 0 at first. */
void view_checker_entered(view_checker *checker, const sim_node *node, const membership_view *view, uint64_t *entered);

uint64_t view_checker_sent(view_checker *checker, const sim_node *node, uint64_t entered); /* returns its number */
void view_checker_accepted(view_checker *checker, const sim_node *node, uint64_t entered, uint64_t write);

void view_checker_check_lives(view_checker *checker); /* at the end */
