/* runtime_checker.h — every task and every call of an actor, from its submission to its end: the checkers of the
 * runtime scenario.
 *
 * A *work* is either. Its number travels as its first argument, so that both sides are compared with the same entry;
 * its expected value follows from its key, the works it gets as arguments, and the works that its body starts. A *join*
 * is a work of the library's own (runtime/process/join.c), which gives the values of its inputs and does not report
 * that it runs.
 *
 * Checked  a work ends once: with the right value, or for a reason that is true (its body fails, it was cancelled, what
 *          it needs failed, so many processes died that its retries are used up, its actor died, the node is gone);
 *          it is begun at most once more than it has retries, and again only when the process that ran it is dead;
 *          it is not begun after it has ended, unless it was cancelled;
 *          nothing of a group is begun before the group is submitted;
 *          a stream of which something was taken is not begun again (sim_stream.h has the rest);
 *          the calls of one caller are begun by an actor in the order in which they were made;
 *          an actor is made at most once more than it has restarts, and again only when its process is dead; a death of
 *          its process that the node itself has brought about costs it none; it is dead only if it was killed, could
 *          not be made, has no restarts left, its placement group is gone, or (unless it is detached) its program is
 *          over; and with its placement group it is dead.
 *
 * When the link between two processes breaks, a work under way is *unsure*: it may be begun twice, or late. */
#pragma once
#include "miniray/placement.h"
#include "miniray/status.h"
#include "miniray/value.h"
#include "sim/sim.h"

enum {
    RUNTIME_WORKS_MAX = 400,
    RUNTIME_DEATHS_MAX = 256,
    RUNTIME_ACTORS_MAX = 6,
    RUNTIME_PLACES_MAX = 4,
    RUNTIME_RESETS = 8,
    RUNTIME_INPUTS_MAX = 2,
    RUNTIME_NESTED_MAX = 2,
    RUNTIME_DEPTH_MAX = 3,
    RUNTIME_ITEMS_MAX = 12,
    RUNTIME_AHEAD_MAX = 6,
};

#define RUNTIME_UNSENT UINT32_MAX

typedef struct runtime_work {
    uint64_t key;
    uint64_t owner;    /* the process that submitted it */
    size_t parent;     /* of a nested one: the work whose body did; SIZE_MAX: none */
    size_t actor;      /* of a call; SIZE_MAX: a task */
    size_t place;      /* of a task in a placement group; SIZE_MAX: in none */
    uint32_t sequence; /* of a call: the caller's count of calls to that actor; RUNTIME_UNSENT: not submitted yet */
    uint32_t depth, nested;
    size_t inputs[RUNTIME_INPUTS_MAX], input_count;
    uint32_t retries;
    bool fails, cancelled; /* its body fails; it was asked to stop */
    bool stubborn;         /* its body never asks whether it was */
    bool large;            /* what it gives is too large for a message */
    bool is_join, is_held; /* is_held: its group was not submitted */
    bool streams;          /* it gives items besides, one after another: */
    uint32_t items, ahead; /* so many, of which so many may wait */
    uint32_t taken;
    bool gave;   /* something, in some run: if that is lost, it is not begun again */
    bool unsure; /* the link that it was on broke */
    int64_t submitted_us;
    uint32_t starts, ends; /* of its body */
    uint64_t runner;       /* the process that began it last */
    bool settled;
    mr_status status;
} runtime_work;

typedef struct runtime_actor {
    mr_actor id;
    uint64_t owner, process; /* process: where it was made last */
    int64_t created_us;
    uint32_t restarts, starts;
    uint32_t losses; /* of processes that it was in, by a fault */
    bool fails, killed;
    bool detached; /* it outlives its program */
    size_t place;  /* the placement group that it lives in; SIZE_MAX: none */
    bool known;    /* the node has said that it has it: others may be told */
} runtime_actor;

typedef struct runtime_place { /* a placement group */
    mr_placement_group id;
    uint64_t owner;
    bool detached, removed; /* removed: it was asked for */
} runtime_place;

typedef struct runtime_checker {
    sim *sim;
    runtime_work works[RUNTIME_WORKS_MAX];
    size_t count, settled;
    runtime_actor actors[RUNTIME_ACTORS_MAX];
    size_t actor_count;
    runtime_place places[RUNTIME_PLACES_MAX];
    size_t place_count;
    int64_t deaths_us[RUNTIME_DEATHS_MAX]; /* when processes died */
    size_t deaths;
    uint64_t failed_starts; /* of workers that did not come as far as joining */
    bool node_dead;
    bool large;      /* some works give large values */
    bool streams;    /* some are streams */
    bool has_resets; /* links broke; the last ones, and by when both sides know: */
    struct {
        uint64_t a, b;
        int64_t known_us;
    } resets[RUNTIME_RESETS];
    size_t reset_count;
    uint32_t nesting; /* of a thousand bodies, how many start others */
} runtime_checker;

/* `parent` SIZE_MAX: none; else which of its works it is. NULL: there were enough. */
runtime_work *runtime_checker_add(runtime_checker *checker, uint64_t owner, size_t parent, uint32_t index);
runtime_work *runtime_checker_at(runtime_checker *checker, int64_t number);
int64_t runtime_checker_number(const runtime_checker *checker, const runtime_work *work);
int64_t runtime_checker_value(const runtime_checker *checker, const runtime_work *work); /* what it must give */
/* What a body gives that has these arguments, and got these values from what it started. */
int64_t runtime_work_join(const int64_t *values, size_t count); /* what a list of values stands for */
int64_t runtime_work_compute(const runtime_work *work, const int64_t *nested, const int64_t *inputs);
int64_t runtime_work_item(const runtime_work *work, uint32_t index); /* of one that streams */
uint32_t runtime_checker_sequence(const runtime_checker *checker, uint64_t owner, size_t actor); /* the next one */

void runtime_checker_begins(runtime_checker *checker, runtime_work *work, uint64_t process);
void runtime_checker_settled(runtime_checker *checker, runtime_work *work, mr_status status, int64_t value);
void runtime_checker_died(runtime_checker *checker);                                 /* some process */
void runtime_checker_reset(runtime_checker *checker, uint64_t a, uint64_t b);        /* the links between two break */
void runtime_checker_made(runtime_checker *checker, size_t actor, uint64_t process); /* an actor begins there */

void runtime_checker_lost(runtime_checker *checker, mr_actor id); /* its process, by a fault */
/* An actor as the node's book has it. */
void runtime_checker_check_actor(runtime_checker *checker, mr_actor id, bool dead, uint32_t restarts_left);

/* It was removed, or its program is over (and it was not placed, for all that is known), or nobody said that it is. */
bool runtime_checker_place_may_be_gone(const runtime_checker *checker, const runtime_place *place);
bool runtime_checker_is_alive(const runtime_checker *checker, uint64_t process);
size_t runtime_checker_open_count(const runtime_checker *checker); /* not settled, and the owner is alive */
void runtime_checker_complain(const runtime_checker *checker);     /* a violation: which one is not settled */
