/* sim.h — N machines in one process, from one seed, faster than real time.
 *
 * Time is virtual: the simulator takes the next event from a queue, sets the time to it, and runs it. Equal times come
 * in the order in which they were scheduled, all chance comes from the seed, and nothing else is consulted; so a seed
 * is a whole history, and it replays exactly.
 *
 *   sim ── event queue, trace (hash of everything that happens), chance
 *    ├── network (sim_network.h)   links between nodes: delay, loss, duplicates, reordering, cuts, resets,
 *                                  back-pressure
 *    ├── faults (faults.h)     what goes wrong, when: each seed draws its own mixture, and all of it heals at the end
 *    └── node …                a machine: clock, disk (sim_disk.h), a port of the network, and at most one process
 *
 * A node hosts a program: real code behind `sim_program`. Its process begins with start() and an env; it ends by a
 * crash, after which only the disk is left, or with the simulation. Code of a node runs in three ways: an event of its
 * transport, tick() when next_us() has come, and what the scenario schedules with sim_node_after. Code never runs
 * nested in other nodes' code, and takes no virtual time unless it uses the disk or is told to (sim_node_spend).
 *
 *        sim_node_start              sim_node_crash
 *   down ──────────────► up (process p) ──────────► down ──► up (process p + 1) …
 *                         │      ▲
 *               pause, slow disk: busy, everything for it waits and then comes at once
 */
#pragma once
#include "base/list.h"
#include "base/timer_heap.h"
#include "net/env.h"
#include "sim/scenario.h"
#include "sim/sim_trace.h"

typedef struct sim sim;
typedef struct sim_node sim_node;

enum { SIM_NAME_MAX = 16 };

/* ---- The whole. */

/* The options are borrowed for its life. Their mutation is switched on in the whole process (base/mutation.h) until
 * sim_finish: a mutated run is the only one in its process meanwhile. */
sim *sim_create(const scenario_options *options);

/* Ends every process, writes hash, counters and the violation into the result, and frees everything. */
void sim_finish(sim *sim, scenario_result *result);

/* Runs events up to and including `until_us`; time stands there afterwards. False: stop now, there is nothing more to
 * check (a violation was found, or the events of stop_after are used up). */
MR_MUST bool sim_run(sim *sim, int64_t until_us);

/* The same, but ends with *held = true as soon as `done` holds (asked after each event). */
typedef bool sim_done_fn(void *context);
MR_MUST bool sim_run_until(sim *sim, int64_t until_us, sim_done_fn *done, void *context, bool *held);

/* Keeps the first violation, with the time, and ends the run. */
void sim_violation(sim *sim, const char *format, ...) __attribute__((format(printf, 2, 3)));
bool sim_failed(const sim *sim);

int64_t sim_now_us(const sim *sim);                         /* true time: for checkers, never for what is under test */
rng *sim_rng(sim *sim);                                     /* the scenario's own stream, for its load */
void sim_count(sim *sim, const char *counter, uint64_t by); /* the name is static text */
sim_trace *sim_get_trace(sim *sim);

/* A line of the story; its text is part of the hash. `node` may be NULL. */
void sim_note(sim *sim, const sim_node *node, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* Adds the text of a message to the trace; only called when the trace has a reader. */
typedef void sim_describe_fn(span head, char *text, size_t size);
void sim_describe(sim *sim, sim_describe_fn *describe);

/* Calls back after `delay_us`; nothing is cancelled when nodes crash. */
typedef void sim_fn(void *context, uint64_t argument);
void sim_after(sim *sim, int64_t delay_us, sim_fn *fn, void *context, uint64_t argument);

/* ---- Nodes. */

typedef struct sim_program {
    const char *name;
    /* Begins a process; gives back its state. It calls sim_node_serve if it has a transport's events to take. `env` is
     * borrowed for the life of the process. */
    void *(*start)(sim_node *node, const env *env, void *argument);
    /* Frees the state, after a crash too: what it still sends goes nowhere, and the disk is closed to it. */
    void (*stop)(void *state);
    int64_t (*next_us)(void *state); /* by the node's clock; asked after each time its code ran; NULL: no ticks */
    void (*tick)(void *state, int64_t now_us);
} sim_program;

/* A machine without a process. Its address for transport.open is its name ("n0", "n1", … if name is NULL). */
sim_node *sim_node_add(sim *sim, const char *name, const sim_program *program, void *argument);
size_t sim_node_count(const sim *sim);
sim_node *sim_node_at(const sim *sim, size_t index);

void sim_node_start(sim_node *node); /* it is down */

/* Ends the process at once (after the present callback, if it is the node's own), loses what was not synced. Others
 * see their links close with MR_PEER_DIED, or see nothing at all if it is `silent` (the machine lost its power). */
void sim_node_crash(sim_node *node, bool silent);

/* For start(): where the transport's events of this process go. */
void sim_node_serve(sim_node *node, const transport_events *events, void *context);

bool sim_node_up(const sim_node *node);
size_t sim_node_index(const sim_node *node);
const char *sim_node_name(const sim_node *node);
uint32_t sim_node_process(const sim_node *node); /* how often it was started; names a process together with the node */
void *sim_node_state(const sim_node *node);      /* what start() gave; NULL if it is down */
const env *sim_node_env(const sim_node *node);   /* of the present process */
sim *sim_node_sim(const sim_node *node);
int64_t sim_node_now_us(const sim_node *node); /* its own monotonic clock */

/* Calls back inside the node's process after `delay_us` (as its other events: it waits while the node is busy); not at
 * all if that process has ended by then. `context` must outlive the simulation or the process. */
void sim_node_after(sim_node *node, int64_t delay_us, sim_fn *fn, void *context, uint64_t argument);

/* The node's process does nothing until so much later: its clock goes on, what comes for it waits. */
void sim_node_spend(sim_node *node, int64_t us);

/* The rate of its monotonic clock and what its wall clock says. */
void sim_node_set_drift(sim_node *node, int64_t ppm);
void sim_node_jump_wall(sim_node *node, int64_t by_us);

/* ---- For the simulator's own parts. */

typedef struct sim_event { /* embedded in what it carries; zeroed at first */
    timer_heap_item item;
    list held;
    sim_node *node;                       /* waits while this node is busy; NULL: never waits */
    void (*run)(struct sim_event *self);  /* called once; may free what carries it */
    void (*drop)(struct sim_event *self); /* the simulation ends before it came: frees it; NULL: nothing to free */
} sim_event;

void sim_schedule(sim *sim, sim_event *event, int64_t at_us);
void sim_cancel(sim *sim, sim_event *event); /* it does not come; no-op if it is not scheduled */
void sim_enter(sim_node *node);              /* around every call of a node's code */
void sim_leave(sim_node *node);
bool sim_node_dying(const sim_node *node); /* it has crashed in the callback that runs now */
int64_t
sim_node_free_at_us(const sim_node *node); /* now, or when it is no longer busy: when what it does takes effect */
bool sim_listens(const sim *sim);          /* somebody reads the story */
struct network *sim_get_network(const sim *sim);
struct network_port *sim_node_port(const sim_node *node);
struct sim_disk *sim_node_disk(const sim_node *node);
const transport_events *sim_node_events(const sim_node *node, void **context); /* NULL: it serves nothing */
bool sim_may_crash(const sim_node *node); /* the guard, asked before a part crashes a node by itself */
void sim_guard_crashes(sim *sim, bool (*guard)(void *context, const sim_node *node), void *context);
rng sim_fork_rng(sim *sim, uint64_t stream); /* the same stream for the same number, whatever was drawn before */
bool sim_fault_strikes(const sim *sim, uint64_t index); /* whether this one of the plan is to be carried out */
void sim_describe_head(const sim *sim, span head, char *text, size_t size);
