/* runtime_checker.h — checkers of the runtime scenario: every task and every actor call, from its submission to its
 * end.
 *
 * A *work* is a task or an actor call. Its number travels as its first argument, so both sides are compared with the
 * same entry; its expected value follows from its key, the works that are its arguments, and the works that its body
 * starts. A *join* is a work of the library's own (runtime/process/join.c), which returns the values of its inputs and
 * does not report that it runs.
 *
 * Checked  a work ends once: with the right value, or for a true reason (its body fails, it was cancelled, an argument
 *          failed, more processes died than it has retries, its actor died, the node is gone);
 *          it is begun at most once more than it has retries, and again only when the process that ran it is dead;
 *          it is not begun after it has ended, unless it was cancelled;
 *          no work of a batch is begun before the batch is submitted;
 *          a stream of which an item was taken is not begun again (sim_stream.h has the other checks of streams);
 *          an actor begins the calls of one caller in the order in which they were made;
 *          an actor is created at most once more than it has restarts, and again only when its process is dead; a death
 *          that the node itself causes uses no restart; an actor is dead only if it was killed, could not be created,
 *          has no restarts left, its placement group is gone, or (unless it is detached) its job is over; an actor dies
 *          with its placement group; failed starts of workers end no actor without a limit of restarts, unless no
 *          worker of its job has ever joined.
 *
 * When the link between two processes breaks, a work in flight is *unsure*: it may be begun twice, or late. */
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
    size_t parent;     /* of a nested work: the work whose body submitted it; SIZE_MAX: none */
    size_t actor;      /* of an actor call; SIZE_MAX: a task */
    size_t place;      /* of a task in a placement group; SIZE_MAX: none */
    uint32_t sequence; /* of a call: the caller's count of calls to that actor; RUNTIME_UNSENT: not submitted yet */
    uint32_t depth, nested;
    size_t inputs[RUNTIME_INPUTS_MAX], input_count;
    uint32_t retries;
    bool fails, cancelled; /* the body fails; cancellation was requested */
    bool stubborn;         /* the body never checks for cancellation */
    bool large;            /* the result is too large for a message */
    bool is_join, is_held; /* is_held: its batch was not submitted */
    bool streams;          /* the body also yields items, one after another: */
    uint32_t items, ahead; /* number of items; number of items that may wait */
    uint32_t taken;
    bool gave;   /* an item was yielded in some run: if that run is lost, the work is not begun again */
    bool unsure; /* the link of the work broke */
    int64_t submitted_us;
    uint32_t starts, ends; /* begins and ends of its body */
    uint64_t runner;       /* the process that began it last */
    bool settled;
    mr_status status;
} runtime_work;

typedef struct runtime_actor {
    mr_actor id;
    uint64_t owner, process; /* process: where it was created last */
    int64_t created_us;
    uint32_t restarts, starts;
    uint32_t losses; /* deaths of its processes by a fault */
    bool fails, killed;
    bool detached; /* the actor outlives its job */
    size_t place;  /* placement group of the actor; SIZE_MAX: none */
    bool known;    /* the node has confirmed the actor: other processes may get its handle */
} runtime_actor;

typedef struct runtime_place { /* a placement group */
    mr_placement_group id;
    uint64_t owner;
    bool detached, removed; /* removed: its removal was requested */
} runtime_place;

typedef struct runtime_checker {
    sim *sim;
    runtime_work works[RUNTIME_WORKS_MAX];
    size_t count, settled;
    runtime_actor actors[RUNTIME_ACTORS_MAX];
    size_t actor_count;
    runtime_place places[RUNTIME_PLACES_MAX];
    size_t place_count;
    int64_t deaths_us[RUNTIME_DEATHS_MAX]; /* times of process deaths */
    size_t deaths;
    int64_t evictions_us[RUNTIME_DEATHS_MAX]; /* of workers that were ended to free memory, and whose tasks go on */
    size_t evictions;
    int64_t condemned_us[RUNTIME_DEATHS_MAX]; /* of workers that were ended to free memory, and whose task fails */
    size_t condemned;
    uint64_t failed_starts; /* workers that ended before they joined */
    bool node_dead;
    bool large;      /* some works have large results */
    bool streams;    /* some works are streams */
    bool has_resets; /* links broke; the last ones, and the time by which both sides know: */
    struct {
        uint64_t a, b;
        int64_t known_us;
    } resets[RUNTIME_RESETS];
    size_t reset_count;
    uint32_t nesting; /* number of bodies among a thousand that start others */
} runtime_checker;

/* `parent` SIZE_MAX: none; else `index` is its index there. NULL: there are enough works. */
runtime_work *runtime_checker_add(runtime_checker *checker, uint64_t owner, size_t parent, uint32_t index);
runtime_work *runtime_checker_at(runtime_checker *checker, int64_t number);
int64_t runtime_checker_number(const runtime_checker *checker, const runtime_work *work);
int64_t runtime_checker_value(const runtime_checker *checker, const runtime_work *work); /* its expected result */
/* Result of a body with these arguments, and with these values of the works that the body started. */
int64_t runtime_work_join(const int64_t *values, size_t count); /* value of a list of values */
int64_t runtime_work_compute(const runtime_work *work, const int64_t *nested, const int64_t *inputs);
int64_t runtime_work_item(const runtime_work *work, uint32_t index); /* item of a work that streams */
uint32_t runtime_checker_sequence(const runtime_checker *checker, uint64_t owner, size_t actor); /* of the next call */

void runtime_checker_begins(runtime_checker *checker, runtime_work *work, uint64_t process);
void runtime_checker_settled(runtime_checker *checker, runtime_work *work, mr_status status, int64_t value);
void runtime_checker_died(runtime_checker *checker);      /* a process died */
void runtime_checker_evicted(runtime_checker *checker);   /* a worker died, and its tasks are retried in any case */
void runtime_checker_condemned(runtime_checker *checker); /* a worker died, and the task that it ran fails */
void runtime_checker_reset(runtime_checker *checker, uint64_t a, uint64_t b);        /* the links between two break */
void runtime_checker_made(runtime_checker *checker, size_t actor, uint64_t process); /* an actor begins there */

void runtime_checker_lost(runtime_checker *checker, mr_actor id); /* its process died by a fault */
/* Compares an actor with the node's actor table. */
void runtime_checker_check_actor(runtime_checker *checker, mr_actor id, bool dead, uint32_t restarts_left,
                                 bool gives_up); /* failed starts may end it: no worker of its job has ever joined */

/* Whether the placement group was removed, or its job is over (before it was known to be placed), or its placement was
 * never confirmed. */
bool runtime_checker_place_may_be_gone(const runtime_checker *checker, const runtime_place *place);
bool runtime_checker_is_alive(const runtime_checker *checker, uint64_t process);
size_t runtime_checker_open_count(const runtime_checker *checker); /* not settled, with a living owner */
void runtime_checker_complain(const runtime_checker *checker);     /* violation that names an unsettled work */
