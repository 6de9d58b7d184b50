/* faults.c — see faults.h.
 *
 * Conditions hold the whole time; strikes are single faults, each kind with its own mean gap. Strikes are numbered in
 * order of time. To shrink a failing seed, shrink.c carries out only the first n of them
 * (scenario_options.faults_max). */
#include "sim/faults.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"

enum { STREAM_FAULTS = 4 };

#define RESTART_GAP_MAX_US INT64_C(1000000)
#define HEAL_MAX_US        INT64_C(300000)

struct faults {
    sim *sim;
    fault_limits limits;
    rng rng;
    uint32_t kinds;
    int64_t gap_us[FAULT_COUNT]; /* mean time between strikes */
    int64_t last_us;             /* maximal duration of a strike */
    uint64_t strikes;
    bool dead[FAULTS_NODES_MAX];
    size_t dead_count;
};

static const char *const kind_names[] = {
#define X(name, text) [FAULT_##name] = text,
    FAULT_KINDS(X)
#undef X
};

/* ---- Drawing. */

static bool has(const faults *faults, fault_kind kind) { return (faults->kinds & FAULT_BIT(kind)) != 0; }

/* Draws log-uniformly: every order of magnitude is equally likely. */
static double draw_share(faults *faults, double low, double high) {
    int doublings = 0;
    for (double value = low; value * 2 <= high; value *= 2) doublings++;
    double share = low;
    for (int64_t i = rng_between(&faults->rng, 0, doublings); i > 0; i--) share *= 2;
    return share;
}

static int64_t draw_time(faults *faults, int64_t low_us, int64_t high_us) {
    int64_t time_us = (int64_t)draw_share(faults, (double)low_us, (double)high_us);
    return rng_between(&faults->rng, time_us, time_us * 2 < high_us ? time_us * 2 : high_us);
}

static void draw_kinds(faults *faults) {
    for (int kind = 0; kind < FAULT_COUNT; kind++)
        if (rng_chance(&faults->rng, 0.5)) faults->kinds |= FAULT_BIT(kind);
    faults->kinds &= faults->limits.allowed;
    int64_t span_us = faults->limits.until_us - faults->limits.from_us;
    for (int kind = 0; kind < FAULT_COUNT; kind++) faults->gap_us[kind] = draw_time(faults, span_us / 40, span_us / 2);
    faults->last_us = draw_time(faults, 10000, span_us / 2);
}

static void draw_network(faults *faults) {
    sim_network_conditions now = sim_network_calm;
    now.delay_max_us = draw_time(faults, 200, 20000);
    now.reorder_max_us = draw_time(faults, 1000, 100000);
    now.hold = (double)rng_below(&faults->rng, 3) / 2;
    now.pause_body = 0.3;
    double loss = draw_share(faults, 0.002, 0.25), duplicate = draw_share(faults, 0.002, 0.25),
           reorder = draw_share(faults, 0.002, 0.25), slow = draw_share(faults, 0.001, 0.1),
           busy = draw_share(faults, 0.002, 0.25), reset = draw_share(faults, 0.0002, 0.02);
    int64_t slow_max_us = draw_time(faults, 20000, 3000000);
    uint32_t window = (uint32_t)rng_between(&faults->rng, 1, 32);
    if (has(faults, FAULT_LOSS)) now.loss = loss;
    if (has(faults, FAULT_DUPLICATE)) now.duplicate = duplicate;
    if (has(faults, FAULT_REORDER)) now.reorder = reorder;
    if (has(faults, FAULT_RESET)) now.reset = reset;
    if (has(faults, FAULT_SLOW)) {
        now.slow = slow;
        now.slow_max_us = slow_max_us;
    }
    if (has(faults, FAULT_BUSY)) {
        now.busy = busy;
        now.window = window;
    }
    sim_network_set(sim_get_network(faults->sim), &now);
}

static void draw_disk(faults *faults, sim_node *node) {
    sim_disk_conditions now = sim_disk_calm;
    double error = draw_share(faults, 0.005, 0.3), full = draw_share(faults, 0.005, 0.3),
           crash = draw_share(faults, 0.005, 0.3);
    int64_t delay_us = draw_time(faults, 1000, 500000);
    bool bad = rng_chance(&faults->rng, 0.7);
    if (bad && has(faults, FAULT_DISK_SLOW)) now.delay_max_us = delay_us;
    if (bad && has(faults, FAULT_DISK_ERROR)) {
        now.write_error = now.sync_error = now.read_error = error;
        now.full = full;
        if (faults->limits.allowed & FAULT_BIT(FAULT_CRASH)) now.crash = crash;
    }
    sim_disk_set(sim_node_disk(node), &now);
}

static void draw_clock(faults *faults, sim_node *node) {
    int64_t ppm = rng_between(&faults->rng, -20000, 20000);
    if (has(faults, FAULT_CLOCK)) sim_node_set_drift(node, ppm);
}

/* ---- Strikes. */

static sim_node *any_node(faults *faults) {
    return sim_node_at(faults->sim, (size_t)rng_below(&faults->rng, sim_node_count(faults->sim)));
}

static size_t down_count(const faults *faults) {
    size_t down = 0;
    for (size_t i = 0; i < sim_node_count(faults->sim); i++) down += !sim_node_up(sim_node_at(faults->sim, i));
    return down;
}

static bool may_crash(void *context, const sim_node *node) {
    const faults *faults = context;
    if (!sim_node_up(node) || down_count(faults) >= faults->limits.down_max) return false;
    return faults->limits.may_crash == NULL ||
           faults->limits.may_crash(faults->limits.context, sim_node_at(faults->sim, sim_node_index(node)));
}

static void uncut(void *context, uint64_t pair) {
    faults *faults = context;
    sim_network_cut(sim_get_network(faults->sim), sim_node_at(faults->sim, pair >> 32),
                    sim_node_at(faults->sim, pair & UINT32_MAX), false);
}

/* Cuts one direction for a while, at most until the end of all faults. */
static void cut(faults *faults, sim_node *from, sim_node *to, int64_t for_us) {
    if (from == to) return;
    sim_network_cut(sim_get_network(faults->sim), from, to, true);
    sim_after(faults->sim, for_us, uncut, faults, (uint64_t)sim_node_index(from) << 32 | sim_node_index(to));
}

static void partition(faults *faults, int64_t for_us) {
    uint64_t group = rng_next(&faults->rng);
    if (rng_chance(&faults->rng, 0.4)) group = UINT64_C(1) << sim_node_index(any_node(faults)); /* a single node */
    size_t count = sim_node_count(faults->sim);
    for (size_t i = 0; i < count; i++)
        for (size_t j = 0; j < count; j++)
            if ((group >> i & 1) != (group >> j & 1))
                cut(faults, sim_node_at(faults->sim, i), sim_node_at(faults->sim, j), for_us);
}

static void crash(faults *faults, sim_node *node, bool silent, bool for_good) {
    if (!may_crash(faults, node)) return;
    bool mortal = faults->limits.may_die == NULL || faults->limits.may_die(faults->limits.context, node);
    if (for_good && mortal && faults->dead_count < faults->limits.dead_max) {
        faults->dead[sim_node_index(node)] = true;
        faults->dead_count++;
    }
    sim_node_crash(node, silent);
}

/* Pauses the node from now on. The pause and the current busy time overlap: the node is busy until the later end of the
 * two. */
static void pause_node(faults *faults, sim_node *node, int64_t for_us) {
    int64_t more_us = sim_now_us(faults->sim) + for_us - sim_node_free_at_us(node);
    bool allowed = faults->limits.may_crash == NULL || faults->limits.may_crash(faults->limits.context, node);
    if (sim_node_up(node) && allowed && more_us > 0) sim_node_spend(node, more_us);
}

static void carry_out(faults *faults, fault_kind kind, bool really) {
    sim_node *a = any_node(faults), *b = any_node(faults);
    int64_t left_us = faults->limits.until_us - sim_now_us(faults->sim);
    int64_t for_us = draw_time(faults, 5000, faults->last_us),
            jump_us = rng_between(&faults->rng, -7200000000, 7200000000);
    if (for_us > left_us) for_us = left_us;
    bool silent = rng_chance(&faults->rng, 0.3), for_good = rng_chance(&faults->rng, 0.2);
    if (!really) return;
    sim_note(faults->sim, a, "fault: %s, %lld ms", kind_names[kind], (long long)(for_us / 1000));
    switch (kind) {
    case FAULT_CUT: cut(faults, a, b, for_us); break;
    case FAULT_PARTITION: partition(faults, for_us); break;
    case FAULT_RESET: sim_network_break_links(sim_get_network(faults->sim), a, b); break;
    case FAULT_CRASH: crash(faults, a, silent, for_good); break;
    case FAULT_PAUSE: pause_node(faults, a, for_us); break;
    case FAULT_CLOCK: sim_node_jump_wall(a, jump_us); break;
    default: MR_UNREACHABLE();
    }
}

static void strike(void *context, uint64_t kind) {
    faults *faults = context;
    if (sim_now_us(faults->sim) >= faults->limits.until_us) return;
    bool really = sim_fault_strikes(faults->sim, faults->strikes++);
    if (really) sim_count(faults->sim, kind_names[kind], 1);
    carry_out(faults, (fault_kind)kind, really);
    sim_after(faults->sim, rng_between(&faults->rng, 1, 2 * faults->gap_us[kind]), strike, faults, kind);
}

/* Starts one of the nodes that are down, at random intervals, whatever ended it. */
static void nurse(void *context, uint64_t unused) {
    faults *faults = context;
    if (sim_now_us(faults->sim) >= faults->limits.until_us) return;
    sim_node *node = any_node(faults);
    if (!sim_node_up(node) && !faults_dead(faults, node)) sim_node_start(node);
    sim_after(faults->sim, draw_time(faults, 1000, RESTART_GAP_MAX_US), nurse, faults, 0);
}

/* ---- Begin and end. */

static void begin(void *context, uint64_t unused) {
    static const fault_kind striking[] = {FAULT_CUT,   FAULT_PARTITION, FAULT_RESET,
                                          FAULT_CRASH, FAULT_PAUSE,     FAULT_CLOCK};
    faults *faults = context;
    draw_network(faults);
    for (size_t i = 0; i < sim_node_count(faults->sim); i++) {
        draw_disk(faults, sim_node_at(faults->sim, i));
        draw_clock(faults, sim_node_at(faults->sim, i));
    }
    for (size_t i = 0; i < sizeof striking / sizeof *striking; i++) {
        fault_kind kind = striking[i];
        int64_t after_us = rng_between(&faults->rng, 0, 2 * faults->gap_us[kind]);
        if (has(faults, kind)) sim_after(faults->sim, after_us, strike, faults, (uint64_t)kind);
    }
    nurse(faults, 0);
}

static void start_node(void *context, uint64_t unused) {
    if (!sim_node_up(context)) sim_node_start(context);
}

static void heal(void *context, uint64_t unused) {
    faults *faults = context;
    sim_network_set(sim_get_network(faults->sim), &sim_network_calm);
    sim_network_heal(sim_get_network(faults->sim));
    sim_note(faults->sim, NULL, "all faults end");
    for (size_t i = 0; i < sim_node_count(faults->sim); i++) {
        sim_node *node = sim_node_at(faults->sim, i);
        sim_disk_set(sim_node_disk(node), &sim_disk_calm);
        sim_node_set_drift(node, 0);
        if (!sim_node_up(node) && !faults_dead(faults, node))
            sim_after(faults->sim, rng_between(&faults->rng, 0, HEAL_MAX_US), start_node, node, 0);
    }
}

static void tell_plan(const faults *faults) {
    char text[200] = "";
    for (int kind = 0; kind < FAULT_COUNT; kind++)
        if (has(faults, (fault_kind)kind)) strcat(strcat(text, " "), kind_names[kind]);
    sim_note(faults->sim, NULL, "faults of this seed:%s", text);
}

faults *faults_create(sim *sim, const fault_limits *limits) {
    MR_ASSERT(limits->until_us > limits->from_us && limits->from_us >= sim_now_us(sim));
    MR_ASSERT(sim_node_count(sim) <= FAULTS_NODES_MAX);
    faults *faults = xcalloc(1, sizeof *faults);
    faults->sim = sim;
    faults->limits = *limits;
    faults->rng = sim_fork_rng(sim, STREAM_FAULTS);
    draw_kinds(faults);
    tell_plan(faults);
    sim_guard_crashes(sim, may_crash, faults);
    sim_after(sim, limits->from_us - sim_now_us(sim), begin, faults, 0);
    sim_after(sim, limits->until_us - sim_now_us(sim), heal, faults, 0);
    return faults;
}

void faults_destroy(faults *faults) {
    sim_guard_crashes(faults->sim, NULL, NULL);
    free(faults);
}

uint32_t faults_kinds(const faults *faults) { return faults->kinds; }
bool faults_dead(const faults *faults, const sim_node *node) { return faults->dead[sim_node_index(node)]; }
