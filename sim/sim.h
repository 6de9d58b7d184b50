/* sim.h — simulates N machines in one process, from one seed, faster than real time.
 *
 * Time is virtual: the simulator takes the next event from a queue, sets the time to it, and runs it. Events with equal
 * times run in the order of their scheduling, all random numbers come from the seed, and there is no other input; so a
 * seed determines a whole history, and replays exactly.
 *
 *   sim ── event queue, trace (hash of everything that happens), random streams
 *    ├── network (sim_network.h)   links between nodes: delay, loss, duplicates, reordering, cuts, resets,
 *                                  back-pressure
 *    ├── faults (faults.h)     schedule of faults: each seed draws its own mixture, and all faults heal at the end
 *    └── node …                a machine: clock, disk (sim_disk.h), a port of the network, and at most one process
 *
 * A node hosts a program: real code behind `sim_program`. Its process begins with start() and an env; it ends by a
 * crash, after which only the disk is left, or with the simulation. Code of a node runs in three ways: on an event of
 * its transport, in tick() when next_us() has come, and in a callback that the scenario schedules with sim_node_after.
 * Code never runs nested in other nodes' code, and takes no virtual time unless it uses the disk or the scenario calls
 * sim_node_spend.
 *
 *        sim_node_start              sim_node_crash
 *   down ──────────────► up (process p) ──────────► down ──► up (process p + 1) …
 *                         │      ▲
 *               pause, slow disk: busy, its events wait and are delivered together afterwards */
#pragma once
#include "base/list.h"
#include "base/timer_heap.h"
#include "net/env.h"
#include "sim/scenario.h"
#include "sim/sim_trace.h"

typedef struct sim sim;
typedef struct sim_node sim_node;

enum { SIM_NAME_MAX = 16 };

/* ---- The simulation. */

/* The options are borrowed for the life of the simulation. Their mutation is switched on in the whole process
 * (base/mutation.h) until sim_finish: a process with a mutated run may have no other run at that time. */
sim *sim_create(const scenario_options *options);

/* Ends every process, writes hash, counters and the violation into the result, and frees everything. */
void sim_finish(sim *sim, scenario_result *result);

/* Runs events up to and including `until_us`; the time is `until_us` afterwards. False: the scenario must stop without
 * further checks (a violation was found, or the events of stop_after are used up). */
MR_MUST bool sim_run(sim *sim, int64_t until_us);

/* As sim_run, but ends with *held = true as soon as `done` returns true (called after each event). */
typedef bool sim_done_fn(void *context);
MR_MUST bool sim_run_until(sim *sim, int64_t until_us, sim_done_fn *done, void *context, bool *held);

/* Records the first violation, with its time, and ends the run. */
void sim_violation(sim *sim, const char *format, ...) __attribute__((format(printf, 2, 3)));
bool sim_failed(const sim *sim);

int64_t sim_now_us(const sim *sim);                         /* true time: for checkers, never for the code under test */
rng *sim_rng(sim *sim);                                     /* random stream of the scenario, for its workload */
void sim_count(sim *sim, const char *counter, uint64_t by); /* the name is static text */
sim_trace *sim_get_trace(sim *sim);

/* Adds a line to the trace; its text is part of the hash. `node` may be NULL. */
void sim_note(sim *sim, const sim_node *node, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* Adds the text of a message to the trace; called only when the trace is printed. */
typedef void sim_describe_fn(span head, char *text, size_t size);
void sim_describe(sim *sim, sim_describe_fn *describe);

/* Calls back after `delay_us`; a crash of a node does not cancel the callback. */
typedef void sim_fn(void *context, uint64_t argument);
void sim_after(sim *sim, int64_t delay_us, sim_fn *fn, void *context, uint64_t argument);

/* ---- Nodes. */

typedef struct sim_program {
    const char *name;
    /* Begins a process and returns its state. The function calls sim_node_serve if the process receives events of a
     * transport. `env` is borrowed for the life of the process. */
    void *(*start)(sim_node *node, const env *env, void *argument);
    /* Frees the state, after a crash too. Messages sent by this function are dropped, and the disk is closed. */
    void (*stop)(void *state);
    int64_t (*next_us)(void *state); /* next tick, by the node's clock; called whenever its code ran; NULL: none */
    void (*tick)(void *state, int64_t now_us);
} sim_program;

/* Adds a machine without a process. Its address for transport.open is its name ("n0", "n1", … if name is NULL). */
sim_node *sim_node_add(sim *sim, const char *name, const sim_program *program, void *argument);
size_t sim_node_count(const sim *sim);
sim_node *sim_node_at(const sim *sim, size_t index);

void sim_node_start(sim_node *node); /* the node must be down */

/* Ends the process at once (after the current callback, if that is the node's own); writes that were not synced are
 * lost. Other nodes see their links close with MR_PEER_DIED, or see nothing if the crash is `silent` (the machine lost
 * its power). */
void sim_node_crash(sim_node *node, bool silent);
/* Links to the process that runs now close with this status instead of MR_PEER_DIED when it crashes: the processes of a
 * machine may know why one was killed. */
void sim_node_doom(sim_node *node, mr_status status);
mr_status sim_node_doomed(const sim_node *node); /* MR_PEER_DIED: not doomed */

/* For start(): sets the receiver of the transport's events of this process. */
void sim_node_serve(sim_node *node, const transport_events *events, void *context);

bool sim_node_up(const sim_node *node);
size_t sim_node_index(const sim_node *node);
const char *sim_node_name(const sim_node *node);
uint32_t sim_node_process(const sim_node *node); /* number of starts; identifies a process together with the node */
void *sim_node_state(const sim_node *node);      /* state returned by start(); NULL if the node is down */
const env *sim_node_env(const sim_node *node);   /* env of the present process */
sim *sim_node_sim(const sim_node *node);
int64_t sim_node_now_us(const sim_node *node); /* the node's own monotonic clock */

/* Calls back inside the node's process after `delay_us`; like other events, the callback waits while the node is busy.
 * If that process has ended by then, the callback is dropped. `context` must outlive the simulation or the process. */
void sim_node_after(sim_node *node, int64_t delay_us, sim_fn *fn, void *context, uint64_t argument);

/* Makes the node busy for this time: its process does nothing, its clock continues, its events wait. */
void sim_node_spend(sim_node *node, int64_t us);

/* Sets the rate of the node's monotonic clock and the value of its wall clock. */
void sim_node_set_drift(sim_node *node, int64_t ppm);
void sim_node_jump_wall(sim_node *node, int64_t by_us);

/* ---- For other modules of the simulator. */

typedef struct sim_event { /* embedded in the struct that the event is about; zeroed at first */
    timer_heap_item item;
    list held;
    sim_node *node;                       /* the event waits while this node is busy; NULL: it never waits */
    void (*run)(struct sim_event *self);  /* called once; may free the struct that embeds the event */
    void (*drop)(struct sim_event *self); /* frees an event left at the end of the simulation; NULL: no-op */
} sim_event;

void sim_schedule(sim *sim, sim_event *event, int64_t at_us);
void sim_cancel(sim *sim, sim_event *event); /* unschedules the event; no-op if it is not scheduled */
void sim_enter(sim_node *node);              /* around every call of a node's code */
void sim_leave(sim_node *node);
bool sim_node_dying(const sim_node *node);         /* the node has crashed in the callback that runs now */
int64_t sim_node_free_at_us(const sim_node *node); /* effects of its code begin then: now, or after its busy time */
bool sim_listens(const sim *sim);                  /* the trace is printed */
struct network *sim_get_network(const sim *sim);
struct network_port *sim_node_port(const sim_node *node);
struct sim_disk *sim_node_disk(const sim_node *node);
const transport_events *sim_node_events(const sim_node *node, void **context); /* NULL: it receives none */
bool sim_may_crash(const sim_node *node); /* modules ask this before they crash a node */
void sim_guard_crashes(sim *sim, bool (*guard)(void *context, const sim_node *node), void *context);
rng sim_fork_rng(sim *sim, uint64_t stream); /* the same stream for the same number, independent of earlier draws */
bool sim_fault_strikes(const sim *sim, uint64_t index); /* whether this fault of the plan is to be carried out */
void sim_describe_head(const sim *sim, span head, char *text, size_t size);
