/* sim.c — see sim.h.
 *
 * Invariants  time never goes back; an event of a busy node waits in the node's list, in order of arrival,
 *             and later events wait behind it; a node's code runs only between sim_enter and sim_leave, one
 *             node at a time; a crash inside a node's code takes effect when that code returns, but from the crash on
 *             nothing that it does leaves the node.
 * Ownership   the sim owns its nodes; an event belongs to the struct that embeds it. */
#include "sim/sim.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/mutation.h"
#include "sim/sim_disk.h"
#include "sim/sim_network.h"

enum { EVENTS_NODES = 64 };

enum {
    STREAM_SCENARIO = 1, /* numbers of random streams; the network and the faults have their own */
    STREAM_CLOCKS = 2,
    STREAM_DISKS = 1000,
    STREAM_PROCESSES = 1000000,
};

#define EVENTS_MAX      UINT64_C(1000000)         /* per EVENTS_NODES nodes; a seed that needs more hangs */
#define TIMER_FAR_US    INT64_C(1000000000000)    /* a later tick is scheduled again when this time comes */
#define CLOCK_START_MAX INT64_C(1000000000)       /* maximal initial value of monotonic clocks */
#define WALL_START_US   INT64_C(1700000000000000) /* initial value of wall clocks */

struct sim_node {
    sim *sim;
    uint32_t index;
    char name[SIM_NAME_MAX];
    const sim_program *program;
    void *argument; /* borrowed */
    network_port *port;
    sim_disk *disk;
    /* The process. */
    void *state;
    bool up, inside, dying, dying_silent;
    uint32_t process;
    mr_status doom;
    struct env env;
    rng rng;
    const transport_events *events;
    void *events_context;
    sim_event timer;
    /* The clock: shows local_us at true time true_us, and runs with the drift from there. */
    int64_t true_us, local_us, drift_ppm, wall_offset_us;
    /* Busy time. */
    int64_t busy_until_us;
    list held; /* events that wait for the end of the busy time */
    sim_event resume;
};

struct sim {
    const scenario_options *options;
    int64_t now_us;
    uint64_t events;
    timer_heap queue;
    sim_trace trace;
    rng rng, clock_rng;
    network *network;
    sim_node **nodes; /* owned */
    size_t node_count, node_room;
    sim_node *current;
    sim_describe_fn *describe;
    bool (*guard)(void *context, const sim_node *node);
    void *guard_context;
    char violation[SCENARIO_TEXT_MAX];
    scenario_counter counters[SCENARIO_COUNTERS_MAX];
    size_t counter_count;
};

/* ---- The queue. */

rng sim_fork_rng(sim *sim, uint64_t stream) {
    rng parent, child;
    rng_init(&parent, sim->options->seed);
    rng_init(&child, rng_next(&parent) ^ (stream * UINT64_C(0x9e3779b97f4a7c15)));
    return child;
}

void sim_schedule(sim *sim, sim_event *event, int64_t at_us) {
    MR_ASSERT(event->run != NULL);
    timer_heap_add(&sim->queue, &event->item, at_us < sim->now_us ? sim->now_us : at_us);
}

void sim_cancel(sim *sim, sim_event *event) {
    timer_heap_remove(&sim->queue, &event->item);
    if (event->held.next != NULL) list_remove(&event->held);
}

static bool stopped(const sim *sim) {
    return sim_failed(sim) || (sim->options->stop_after != 0 && sim->events >= sim->options->stop_after);
}

static void run_event(sim *sim, sim_event *event) {
    sim->events++;
    uint64_t most = EVENTS_MAX * (1 + sim->node_count / EVENTS_NODES);
    if (sim->events == most) sim_violation(sim, "it does not end: %" PRIu64 " events were not enough", most);
    event->run(event);
}

static void step(sim *sim) {
    sim_event *event = container_of(timer_heap_first(&sim->queue), sim_event, item);
    timer_heap_remove(&sim->queue, &event->item);
    sim->now_us = event->item.at_us;
    sim_node *node = event->node;
    bool waits = node != NULL && node->up && (sim->now_us < node->busy_until_us || !list_empty(&node->held));
    if (waits)
        list_push_back(&node->held, &event->held);
    else
        run_event(sim, event);
}

bool sim_run_until(sim *sim, int64_t until_us, sim_done_fn *done, void *context, bool *held) {
    *held = false;
    while (!stopped(sim) && timer_heap_next_us(&sim->queue) <= until_us) {
        step(sim);
        if (done != NULL && !stopped(sim) && done(context)) {
            *held = true;
            return true;
        }
    }
    if (stopped(sim)) return false;
    if (until_us > sim->now_us) sim->now_us = until_us;
    return true;
}

bool sim_run(sim *sim, int64_t until_us) {
    bool held;
    return sim_run_until(sim, until_us, NULL, NULL, &held);
}

typedef struct later { /* one sim_after or sim_node_after */
    sim_event event;
    sim_node *node; /* NULL: an event of the scenario */
    uint32_t process;
    sim_fn *fn;
    void *context;
    uint64_t argument;
} later;

static void later_drop(sim_event *event) { free(container_of(event, later, event)); }

static void later_run(sim_event *event) {
    later *later = container_of(event, struct later, event);
    sim_node *node = later->node;
    if (node == NULL) {
        later->fn(later->context, later->argument);
    } else if (node->up && node->process == later->process) {
        sim_enter(node);
        later->fn(later->context, later->argument);
        sim_leave(node);
    }
    free(later);
}

static void schedule_later(sim *sim, sim_node *node, int64_t delay_us, sim_fn *fn, void *context, uint64_t argument) {
    later *later = xcalloc(1, sizeof *later);
    later->event = (sim_event){.node = node, .run = later_run, .drop = later_drop};
    later->node = node;
    later->process = node == NULL ? 0 : node->process;
    later->fn = fn;
    later->context = context;
    later->argument = argument;
    sim_schedule(sim, &later->event, sim->now_us + delay_us);
}

void sim_after(sim *sim, int64_t delay_us, sim_fn *fn, void *context, uint64_t argument) {
    schedule_later(sim, NULL, delay_us, fn, context, argument);
}

void sim_node_after(sim_node *node, int64_t delay_us, sim_fn *fn, void *context, uint64_t argument) {
    schedule_later(node->sim, node, delay_us, fn, context, argument);
}

/* ---- The clock of a node. */

static int64_t local_at(const sim_node *node, int64_t true_us) {
    int64_t passed = true_us - node->true_us;
    return node->local_us + passed + passed * node->drift_ppm / 1000000;
}

/* The first true time at which the node's clock shows at least `local_us`. */
static int64_t true_at(const sim_node *node, int64_t local_us) {
    int64_t ahead = local_us - node->local_us;
    if (ahead <= 0) return node->true_us;
    if (ahead > TIMER_FAR_US) ahead = TIMER_FAR_US;
    int64_t true_us = node->true_us + ahead * 1000000 / (1000000 + node->drift_ppm);
    while (local_at(node, true_us) < node->local_us + ahead) true_us++;
    return true_us;
}

int64_t sim_node_free_at_us(const sim_node *node) {
    int64_t now_us = node->sim->now_us;
    return node->busy_until_us > now_us ? node->busy_until_us : now_us;
}

int64_t sim_node_now_us(const sim_node *node) { return local_at(node, sim_node_free_at_us(node)); }

static int64_t node_monotonic_us(void *self) { return sim_node_now_us(self); }
static int64_t node_wall_us(void *self) {
    const sim_node *node = self;
    return sim_node_free_at_us(node) + node->wall_offset_us;
}
static const clock_ops node_clock = {node_monotonic_us, node_wall_us};

void sim_node_jump_wall(sim_node *node, int64_t by_us) { node->wall_offset_us += by_us; }

/* ---- Running a node's code. */

void sim_enter(sim_node *node) {
    MR_ASSERT(node->up && !node->inside && node->sim->current == NULL);
    node->inside = true;
    node->sim->current = node;
}

static void crash_now(sim_node *node, bool silent);

/* A timer event of a busy node keeps its place in the list. */
static void arm_timer(sim_node *node) {
    if (node->program->next_us == NULL || !list_empty(&node->timer.held)) return;
    int64_t next_us = node->program->next_us(node->state);
    if (next_us == CLOCK_NEVER_US) {
        timer_heap_remove(&node->sim->queue, &node->timer.item);
        return;
    }
    int64_t at_us = true_at(node, next_us);
    if (at_us < node->sim->now_us) at_us = node->sim->now_us;
    if (!timer_heap_holds(&node->timer.item) || node->timer.item.at_us != at_us)
        sim_schedule(node->sim, &node->timer, at_us);
}

void sim_node_set_drift(sim_node *node, int64_t ppm) {
    MR_ASSERT(ppm > -1000000 && ppm < 1000000);
    int64_t at_us = sim_node_free_at_us(node);
    node->local_us = local_at(node, at_us);
    node->true_us = at_us;
    node->drift_ppm = ppm;
    if (node->up && !node->inside) arm_timer(node);
}

void sim_leave(sim_node *node) {
    MR_ASSERT(node->inside && node->sim->current == node);
    node->inside = false;
    node->sim->current = NULL;
    if (node->dying)
        crash_now(node, node->dying_silent);
    else
        arm_timer(node);
}

static void timer_run(sim_event *event) {
    sim_node *node = container_of(event, sim_node, timer);
    int64_t now_us = sim_node_now_us(node);
    sim_trace_record(&node->sim->trace, node->sim->now_us, node->index, SIM_TRACE_TICK, (uint64_t)now_us, 0);
    sim_enter(node);
    node->program->tick(node->state, now_us);
    sim_leave(node);
}

static void resume_run(sim_event *event) {
    sim_node *node = container_of(event, sim_node, resume);
    uint32_t process = node->process;
    while (node->up && node->process == process && node->sim->now_us >= node->busy_until_us &&
           !list_empty(&node->held) && !stopped(node->sim))
        run_event(node->sim, container_of(list_pop_front(&node->held), sim_event, held));
}

void sim_node_spend(sim_node *node, int64_t us) {
    MR_ASSERT(us >= 0);
    if (us == 0) return;
    node->busy_until_us = sim_node_free_at_us(node) + us;
    sim_trace_record(&node->sim->trace, node->sim->now_us, node->index, SIM_TRACE_PAUSE, (uint64_t)us, 0);
    sim_schedule(node->sim, &node->resume, node->busy_until_us);
}

/* ---- Starting and ending a node's process. */

void sim_node_doom(sim_node *node, mr_status status) { node->doom = status; }
mr_status sim_node_doomed(const sim_node *node) { return node->doom; }

sim_node *sim_node_add(sim *sim, const char *name, const sim_program *program, void *argument) {
    sim_node *node = xcalloc(1, sizeof *node);
    node->sim = sim;
    node->index = (uint32_t)sim->node_count;
    if (name == NULL)
        snprintf(node->name, sizeof node->name, "n%" PRIu32, node->index);
    else
        snprintf(node->name, sizeof node->name, "%s", name);
    node->program = program;
    node->argument = argument;
    node->true_us = sim->now_us;
    node->local_us = rng_between(&sim->clock_rng, 1, CLOCK_START_MAX);
    node->wall_offset_us = WALL_START_US + rng_between(&sim->clock_rng, -50000, 50000);
    list_init(&node->held);
    node->timer = (sim_event){.node = node, .run = timer_run};
    list_init(&node->timer.held);
    node->resume = (sim_event){.run = resume_run};
    node->port = sim_network_port_create(sim->network, node);
    node->disk = sim_disk_create(node, sim_fork_rng(sim, STREAM_DISKS + node->index));
    if (sim->node_count == sim->node_room) {
        sim->node_room = sim->node_room == 0 ? EVENTS_NODES : 2 * sim->node_room;
        sim->nodes = xrealloc(sim->nodes, sim->node_room * sizeof(sim_node *));
    }
    sim->nodes[sim->node_count++] = node;
    return node;
}

void sim_node_start(sim_node *node) {
    MR_ASSERT(!node->up);
    sim *sim = node->sim;
    node->process++;
    node->doom = MR_PEER_DIED;
    node->rng = sim_fork_rng(sim, STREAM_PROCESSES * (node->index + UINT64_C(1)) + node->process);
    node->env = (struct env){.clock = {&node_clock, node},
                             .rng = &node->rng,
                             .transport = sim_network_port_up(node->port),
                             .disk = sim_disk_ops(node->disk)};
    node->up = true;
    sim_trace_record(&sim->trace, sim->now_us, node->index, SIM_TRACE_START, node->process, 0);
    sim_trace_tell(&sim->trace, sim->now_us, node->name, "starts as process %" PRIu32, node->process);
    sim_enter(node);
    node->state = node->program->start(node, &node->env, node->argument);
    sim_leave(node);
}

/* Events that waited for the process are delivered now, and find no process. */
static void release_held(sim_node *node) {
    sim_cancel(node->sim, &node->timer);
    sim_cancel(node->sim, &node->resume);
    for (list *item; (item = list_pop_front(&node->held)) != NULL;)
        sim_schedule(node->sim, container_of(item, sim_event, held), node->sim->now_us);
    node->busy_until_us = 0;
}

static void end_process(sim_node *node, bool silent) {
    node->up = false;
    node->dying = false;
    sim_network_port_down(node->port, silent);
    release_held(node);
    sim_disk_crash(node->disk);
    node->program->stop(node->state);
    node->state = NULL;
    node->events = NULL;
}

static void crash_now(sim_node *node, bool silent) {
    sim *sim = node->sim;
    sim_trace_record(&sim->trace, sim->now_us, node->index, SIM_TRACE_CRASH, node->process, silent);
    sim_trace_tell(&sim->trace, sim->now_us, node->name, silent ? "loses its power" : "crashes");
    sim_count(sim, "crashes", 1);
    end_process(node, silent);
}

void sim_node_crash(sim_node *node, bool silent) {
    MR_ASSERT(node->up);
    if (!node->inside) {
        crash_now(node, silent);
    } else if (!node->dying) {
        node->dying = true;
        node->dying_silent = silent;
    }
}

void sim_node_serve(sim_node *node, const transport_events *events, void *context) {
    node->events = events;
    node->events_context = context;
}

const transport_events *sim_node_events(const sim_node *node, void **context) {
    *context = node->events_context;
    return node->events;
}

bool sim_may_crash(const sim_node *node) {
    return node->sim->guard == NULL || node->sim->guard(node->sim->guard_context, node);
}

void sim_guard_crashes(sim *sim, bool (*guard)(void *context, const sim_node *node), void *context) {
    sim->guard = guard;
    sim->guard_context = context;
}

bool sim_node_up(const sim_node *node) { return node->up; }
bool sim_node_dying(const sim_node *node) { return node->dying; }
size_t sim_node_index(const sim_node *node) { return node->index; }
const char *sim_node_name(const sim_node *node) { return node->name; }
uint32_t sim_node_process(const sim_node *node) { return node->process; }
void *sim_node_state(const sim_node *node) { return node->state; }
const env *sim_node_env(const sim_node *node) { return &node->env; }
sim *sim_node_sim(const sim_node *node) { return node->sim; }
network_port *sim_node_port(const sim_node *node) { return node->port; }
sim_disk *sim_node_disk(const sim_node *node) { return node->disk; }
size_t sim_node_count(const sim *sim) { return sim->node_count; }
sim_node *sim_node_at(const sim *sim, size_t index) {
    MR_ASSERT(index < sim->node_count);
    return sim->nodes[index];
}

/* ---- The simulation. */

const char *mutation_now;

sim *sim_create(const scenario_options *options) {
    sim *sim = xcalloc(1, sizeof *sim);
    sim->options = options;
    mutation_now = options->mutation;
    sim_trace_init(&sim->trace, options->seed, options->verbose);
    sim->rng = sim_fork_rng(sim, STREAM_SCENARIO);
    sim->clock_rng = sim_fork_rng(sim, STREAM_CLOCKS);
    sim->network = sim_network_create(sim);
    return sim;
}

static void drop_events(sim *sim) {
    for (timer_heap_item *item; (item = timer_heap_first(&sim->queue)) != NULL;) {
        sim_event *event = container_of(item, sim_event, item);
        timer_heap_remove(&sim->queue, item);
        if (event->drop != NULL) event->drop(event);
    }
    timer_heap_fini(&sim->queue);
}

void sim_finish(sim *sim, scenario_result *result) {
    memset(result, 0, sizeof *result);
    result->hash = sim->trace.hash;
    result->events = sim->events;
    result->virtual_us = sim->now_us;
    for (size_t i = 0; i < sim->node_count; i++)
        if (sim->nodes[i]->up) end_process(sim->nodes[i], true);
    sim_network_report(sim->network);
    memcpy(result->violation, sim->violation, sizeof result->violation);
    memcpy(result->counters, sim->counters, sizeof result->counters);
    result->counter_count = sim->counter_count;
    drop_events(sim);
    for (size_t i = 0; i < sim->node_count; i++) sim_disk_destroy(sim->nodes[i]->disk);
    sim_network_destroy(sim->network);
    for (size_t i = 0; i < sim->node_count; i++) free(sim->nodes[i]);
    free(sim->nodes);
    free(sim);
    mutation_now = NULL;
}

void sim_violation(sim *sim, const char *format, ...) {
    if (sim_failed(sim)) return;
    char text[SCENARIO_TEXT_MAX - 40];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    snprintf(sim->violation, sizeof sim->violation, "at %" PRId64 ".%06" PRId64 " s: %s", sim->now_us / 1000000,
             sim->now_us % 1000000, text);
    sim_trace_tell(&sim->trace, sim->now_us, NULL, "VIOLATION %s", text);
}

bool sim_failed(const sim *sim) { return sim->violation[0] != '\0'; }
int64_t sim_now_us(const sim *sim) { return sim->now_us; }
rng *sim_rng(sim *sim) { return &sim->rng; }
sim_trace *sim_get_trace(sim *sim) { return &sim->trace; }
network *sim_get_network(const sim *sim) { return sim->network; }
bool sim_fault_strikes(const sim *sim, uint64_t index) {
    bool skipped = index < 64 && (sim->options->faults_skipped >> index & 1) != 0;
    return index < sim->options->faults_max && !skipped;
}
bool sim_listens(const sim *sim) { return sim->trace.listens; }

void sim_count(sim *sim, const char *counter, uint64_t by) {
    size_t at = 0;
    while (at < sim->counter_count && strcmp(sim->counters[at].name, counter) != 0) at++;
    MR_ASSERT(at < SCENARIO_COUNTERS_MAX);
    if (at == sim->counter_count) sim->counters[sim->counter_count++].name = counter;
    sim->counters[at].value += by;
}

void sim_note(sim *sim, const sim_node *node, const char *format, ...) {
    char text[SCENARIO_TEXT_MAX];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    sim_trace_record(&sim->trace, sim->now_us, node == NULL ? UINT32_MAX : node->index, SIM_TRACE_NOTE, 0, 0);
    sim_trace_bytes(&sim->trace, span_of(text, strlen(text)));
    sim_trace_tell(&sim->trace, sim->now_us, node == NULL ? NULL : node->name, "%s", text);
}

void sim_describe(sim *sim, sim_describe_fn *describe) { sim->describe = describe; }

void sim_describe_head(const sim *sim, span head, char *text, size_t size) {
    if (sim->describe != NULL) {
        sim->describe(head, text, size);
        return;
    }
    text[0] = '\0';
    for (size_t i = 0, used = 0; i < head.size && i < 24 && used + 4 < size; i++)
        used += (size_t)snprintf(text + used, size - used, "%02x ", head.data[i]);
}
