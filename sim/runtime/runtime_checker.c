/* runtime_checker.c — see runtime_checker.h. */
#include "sim/runtime/runtime_checker.h"

#include <inttypes.h>
#include <string.h>

#include "base/assert.h"

enum {
    FAILED_STARTS = 6, /* after this many the node reports that no workers can start */
    NOTICE_US = 10000, /* after this time all processes know that a process is dead */
};

static uint64_t mix(uint64_t a, uint64_t b) {
    uint64_t x = (a ^ (b + UINT64_C(0x9e3779b97f4a7c15) + (a << 6))) * UINT64_C(0xff51afd7ed558ccd);
    return x ^ x >> 31;
}

/* The key decides whether a body starts other works, and how many. */
static uint32_t nested_of(const runtime_checker *checker, uint64_t key, uint32_t depth) {
    if (depth >= RUNTIME_DEPTH_MAX || mix(key, 1) % 1000 >= checker->nesting) return 0;
    return 1 + (uint32_t)(mix(key, 2) % 2);
}

static uint64_t child_key(uint64_t key, uint32_t index) { return mix(key, 100 + index); }

static bool is_on_broken_link(const runtime_checker *checker, uint64_t process) {
    for (size_t i = 0; i < RUNTIME_RESETS && i < checker->reset_count; i++)
        if ((checker->resets[i].a == process || checker->resets[i].b == process) &&
            sim_now_us(checker->sim) < checker->resets[i].known_us)
            return true;
    return false;
}

runtime_work *runtime_checker_add(runtime_checker *checker, uint64_t owner, size_t parent, uint32_t index) {
    if (checker->count == RUNTIME_WORKS_MAX) return NULL;
    runtime_work *work = &checker->works[checker->count++];
    *work = (runtime_work){.owner = owner,
                           .parent = parent,
                           .actor = SIZE_MAX,
                           .place = SIZE_MAX,
                           .submitted_us = sim_now_us(checker->sim)};
    work->key = mix(checker->count, 7);
    if (parent != SIZE_MAX) {
        work->key = child_key(checker->works[parent].key, index);
        work->depth = checker->works[parent].depth + 1;
    }
    work->nested = nested_of(checker, work->key, work->depth);
    work->stubborn = mix(work->key, 4) % 3 == 0;
    work->unsure = is_on_broken_link(checker, owner);
    work->large = checker->large && mix(work->key, 5) % 2 == 0;
    return work;
}

runtime_work *runtime_checker_at(runtime_checker *checker, int64_t number) {
    MR_ASSERT(number >= 0 && (size_t)number < checker->count);
    return &checker->works[number];
}

int64_t runtime_checker_number(const runtime_checker *checker, const runtime_work *work) {
    return work - checker->works;
}

static uint64_t value_of_key(const runtime_checker *checker, uint64_t key, uint32_t depth) {
    uint64_t value = mix(key, 3);
    uint32_t nested = nested_of(checker, key, depth);
    for (uint32_t i = 0; i < nested; i++) value = mix(value, value_of_key(checker, child_key(key, i), depth + 1));
    return value >> 1; /* the value is sent as a signed number */
}

int64_t runtime_work_compute(const runtime_work *work, const int64_t *nested, const int64_t *inputs) {
    uint64_t value = mix(work->key, 3);
    for (uint32_t i = 0; i < work->nested; i++) value = mix(value, (uint64_t)nested[i]);
    value >>= 1;
    for (size_t i = 0; i < work->input_count; i++) value = mix(value, (uint64_t)inputs[i]) >> 1;
    return (int64_t)value;
}

int64_t runtime_work_join(const int64_t *values, size_t count) {
    uint64_t value = count;
    for (size_t i = 0; i < count; i++) value = mix(value, (uint64_t)values[i]) >> 1;
    return (int64_t)value;
}

static int64_t join_value(const runtime_checker *checker, const runtime_work *work) {
    int64_t values[RUNTIME_INPUTS_MAX];
    for (size_t i = 0; i < work->input_count; i++)
        values[i] = runtime_checker_value(checker, &checker->works[work->inputs[i]]);
    return runtime_work_join(values, work->input_count);
}

int64_t runtime_checker_value(const runtime_checker *checker, const runtime_work *work) {
    if (work->is_join) return join_value(checker, work);
    uint64_t value = value_of_key(checker, work->key, work->depth);
    for (size_t i = 0; i < work->input_count; i++)
        value = mix(value, (uint64_t)runtime_checker_value(checker, &checker->works[work->inputs[i]])) >> 1;
    return (int64_t)value;
}

int64_t runtime_work_item(const runtime_work *work, uint32_t index) {
    return (int64_t)(mix(work->key, 1000 + index) >> 1);
}

uint32_t runtime_checker_sequence(const runtime_checker *checker, uint64_t owner, size_t actor) {
    uint32_t count = 0;
    for (size_t i = 0; i < checker->count; i++)
        count += checker->works[i].owner == owner && checker->works[i].actor == actor &&
                 checker->works[i].sequence != RUNTIME_UNSENT;
    return count;
}

bool runtime_checker_is_alive(const runtime_checker *checker, uint64_t process) {
    const sim_node *node = sim_node_at(checker->sim, (size_t)(process >> 32) - 1);
    return sim_node_up(node) && sim_node_process(node) == (uint32_t)process;
}

/* ---- Begins. */

/* Calls that were lost with a process may be begun again in the next one. */
static void check_order(runtime_checker *checker, const runtime_work *work, uint64_t process) {
    for (size_t i = 0; i < checker->count; i++) {
        const runtime_work *other = &checker->works[i];
        if (other->actor != work->actor || other->owner != work->owner || other->runner != process) continue;
        if (other->unsure || work->unsure) continue;
        if (other->sequence > work->sequence)
            sim_violation(checker->sim, "an actor begins call %u of process %" PRIx64 " after its call %u",
                          work->sequence, work->owner, other->sequence);
    }
}

/* Counts times since then, and recent earlier ones, which may have been unknown then. */
static size_t times_since(const int64_t *times_us, size_t count, int64_t since_us) {
    size_t late = 0;
    for (size_t i = 0; i < count; i++) late += times_us[i] + NOTICE_US >= since_us;
    return late;
}

static size_t deaths_since(const runtime_checker *checker, int64_t since_us) {
    return times_since(checker->deaths_us, checker->deaths, since_us);
}

static uint32_t evictions_since(const runtime_checker *checker, int64_t since_us) {
    return (uint32_t)times_since(checker->evictions_us, checker->evictions, since_us);
}

static size_t ends_since(const runtime_checker *checker, int64_t since_us) {
    return deaths_since(checker, since_us) + evictions_since(checker, since_us);
}

void runtime_checker_begins(runtime_checker *checker, runtime_work *work, uint64_t process) {
    int number = (int)runtime_checker_number(checker, work);
    if (work->actor != SIZE_MAX) check_order(checker, work, process);
    if (work->is_held) sim_violation(checker->sim, "work %d begins, but its group was not submitted", number);
    if (work->settled && !work->unsure && work->status != MR_CANCELLED &&
        runtime_checker_is_alive(checker, work->owner))
        sim_violation(checker->sim, "work %d begins, but it has ended already", number);
    if (work->starts > work->retries + (work->actor == SIZE_MAX ? evictions_since(checker, work->submitted_us) : 0))
        sim_violation(checker->sim, "work %d begins more often than it may", number);
    if (work->starts > 0 && !work->unsure && runtime_checker_is_alive(checker, work->runner))
        sim_violation(checker->sim, "work %d begins again, but the process that ran it lives", number);
    if (work->taken > 0 && !work->unsure)
        sim_violation(checker->sim, "work %d begins again after %u items of it were taken", number, work->taken);
    work->starts++;
    work->runner = process;
}

void runtime_checker_died(runtime_checker *checker) {
    MR_ASSERT(checker->deaths < RUNTIME_DEATHS_MAX);
    checker->deaths_us[checker->deaths++] = sim_now_us(checker->sim);
}

void runtime_checker_evicted(runtime_checker *checker) {
    MR_ASSERT(checker->evictions < RUNTIME_DEATHS_MAX);
    checker->evictions_us[checker->evictions++] = sim_now_us(checker->sim);
}

void runtime_checker_condemned(runtime_checker *checker) {
    MR_ASSERT(checker->condemned < RUNTIME_DEATHS_MAX);
    checker->condemned_us[checker->condemned++] = sim_now_us(checker->sim);
}

void runtime_checker_reset(runtime_checker *checker, uint64_t a, uint64_t b) {
    checker->has_resets = true;
    size_t at = checker->reset_count++ % RUNTIME_RESETS;
    checker->resets[at].a = a, checker->resets[at].b = b;
    checker->resets[at].known_us = sim_now_us(checker->sim) + NOTICE_US;
    runtime_checker_died(checker); /* a broken link loses works as a death does */
    for (size_t i = 0; i < checker->count; i++) {
        runtime_work *work = &checker->works[i];
        if (!work->settled && (work->owner == a || work->owner == b)) work->unsure = true;
    }
}

void runtime_checker_made(runtime_checker *checker, size_t index, uint64_t process) {
    runtime_actor *actor = &checker->actors[index];
    if (actor->starts > actor->restarts) sim_violation(checker->sim, "actor %zu is made more often than it may", index);
    if (actor->starts > 0 && runtime_checker_is_alive(checker, actor->process))
        sim_violation(checker->sim, "actor %zu is made again, but its process lives", index);
    actor->starts++;
    actor->process = process;
}

static runtime_actor *actor_of(runtime_checker *checker, mr_actor id) {
    for (size_t i = 0; i < checker->actor_count; i++)
        if (memcmp(&checker->actors[i].id, &id, sizeof id) == 0) return &checker->actors[i];
    MR_UNREACHABLE();
}

void runtime_checker_lost(runtime_checker *checker, mr_actor id) { actor_of(checker, id)->losses++; }

static bool may_be_evicted(const runtime_checker *checker, const runtime_actor *actor) {
    return actor->place != SIZE_MAX && runtime_checker_place_may_be_gone(checker, &checker->places[actor->place]);
}

void runtime_checker_check_actor(runtime_checker *checker, mr_actor id, bool dead, uint32_t restarts_left,
                                 bool gives_up) {
    const runtime_actor *actor = actor_of(checker, id);
    size_t index = (size_t)(actor - checker->actors);
    bool over = !actor->detached && !runtime_checker_is_alive(checker, actor->owner);
    bool may_be_dead = actor->killed || actor->fails || over || may_be_evicted(checker, actor) ||
                       actor->losses > actor->restarts ||
                       (checker->failed_starts >= FAILED_STARTS && (gives_up || actor->restarts != MR_NO_LIMIT));
    if (dead && !may_be_dead)
        sim_violation(checker->sim, "actor %zu is dead, but it lost its process %u times and has %u restarts", index,
                      actor->losses, actor->restarts);
    uint64_t used = actor->restarts == MR_NO_LIMIT ? 0 : actor->losses;
    if (checker->failed_starts < FAILED_STARTS && !dead && restarts_left + used < actor->restarts)
        sim_violation(checker->sim, "actor %zu has %u of %u restarts left, but lost its process %u times", index,
                      restarts_left, actor->restarts, actor->losses);
}

/* ---- Ends. */

static bool failed_with(const runtime_work *work, mr_status status) { return work->settled && work->status == status; }

/* Whether an argument of the work failed with this status. */
static bool is_inherited(const runtime_checker *checker, const runtime_work *work, mr_status status) {
    for (size_t i = 0; i < work->input_count; i++)
        if (failed_with(&checker->works[work->inputs[i]], status)) return true;
    size_t own = (size_t)(work - checker->works);
    for (size_t i = own; i < checker->count; i++)
        if (checker->works[i].parent == own && failed_with(&checker->works[i], status)) return true;
    return false;
}

static bool actor_is_lost(const runtime_checker *checker, const runtime_work *work) {
    const runtime_actor *actor = &checker->actors[work->actor];
    /* the actor ends with its job */
    if (!actor->detached && !runtime_checker_is_alive(checker, actor->owner)) return true;
    bool died = ends_since(checker, actor->created_us) > actor->restarts; /* also an actor that was not created yet */
    /* runtime_checker_check_actor knows more about actors that may be restarted */
    bool given_up = checker->failed_starts >= FAILED_STARTS && (actor->restarts != MR_NO_LIMIT || actor->starts == 0);
    return given_up || actor->killed || actor->fails || may_be_evicted(checker, actor) || died ||
           ends_since(checker, work->submitted_us) > 0;
}

/* The work, or a work whose body started it, was cancelled or is unsure, or its owner is dead. */
static bool is_cancelled(const runtime_checker *checker, const runtime_work *work) {
    for (;; work = &checker->works[work->parent]) {
        if (work->cancelled || work->unsure || !runtime_checker_is_alive(checker, work->owner)) return true;
        if (work->parent == SIZE_MAX) return false;
    }
}

bool runtime_checker_place_may_be_gone(const runtime_checker *checker, const runtime_place *place) {
    return place->removed || !runtime_checker_is_alive(checker, place->owner);
}

/* Whether the worker that submitted the work is about to be killed, with its job or with its actor. */
static bool is_programs_end(const runtime_checker *checker, const runtime_work *work) {
    if (work->parent == SIZE_MAX) return false;
    const runtime_work *parent = &checker->works[work->parent];
    return !runtime_checker_is_alive(checker, parent->owner) || is_programs_end(checker, parent) ||
           (parent->actor != SIZE_MAX && actor_is_lost(checker, parent));
}

static bool is_true(const runtime_checker *checker, const runtime_work *work, mr_status status) {
    if (work->fails && status == MR_INVALID && work->starts > 0) return true;
    if (status == MR_CANCELLED && is_cancelled(checker, work)) return true;
    if (is_inherited(checker, work, status)) return true;
    if (status == MR_CLOSED) return checker->node_dead || is_programs_end(checker, work);
    if (status == MR_IO) return checker->has_resets; /* the link broke before it was open */
    if (status == MR_WORKER_DIED && checker->failed_starts >= FAILED_STARTS) return true;
    if (work->place != SIZE_MAX && status == MR_NOT_FOUND)
        return runtime_checker_place_may_be_gone(checker, &checker->places[work->place]);
    if (work->actor != SIZE_MAX && status == MR_NOT_FOUND)
        return may_be_evicted(checker, &checker->actors[work->actor]); /* before it was created */
    if (work->actor != SIZE_MAX) return status == MR_ACTOR_DIED && actor_is_lost(checker, work);
    if (status != MR_WORKER_DIED && !(status == MR_OBJECT_LOST && checker->large)) return false;
    if (status == MR_OBJECT_LOST || work->gave) return ends_since(checker, work->submitted_us) > 0;
    return deaths_since(checker, work->submitted_us) > work->retries ||
           times_since(checker->condemned_us, checker->condemned, sim_now_us(checker->sim)) > 0; /* a moment ago */
}

/* Checks a moment later, because the cause of the failure may be recorded after it. */
static void check_reason(void *context, uint64_t number) {
    runtime_checker *checker = context;
    const runtime_work *work = &checker->works[number];
    if (!is_true(checker, work, work->status))
        sim_violation(checker->sim, "work %d failed with %s, for no reason that is true (%u of %u runs)", (int)number,
                      mr_status_name(work->status), work->starts, work->retries + 1);
}

void runtime_checker_settled(runtime_checker *checker, runtime_work *work, mr_status status, int64_t value) {
    int number = (int)runtime_checker_number(checker, work);
    if (work->settled) sim_violation(checker->sim, "work %d ends twice", number);
    work->settled = true;
    work->status = status;
    checker->settled++;
    if (status == MR_OK) {
        if ((work->starts == 0 && !work->is_join) || value != runtime_checker_value(checker, work))
            sim_violation(checker->sim, "work %d has a wrong value after %u runs", number, work->starts);
    } else {
        sim_after(checker->sim, 1, check_reason, checker, (uint64_t)number);
    }
    sim_count(checker->sim, status == MR_OK ? "done" : "failed", 1);
}

size_t runtime_checker_open_count(const runtime_checker *checker) {
    size_t count = 0;
    for (size_t i = 0; i < checker->count; i++)
        count += !checker->works[i].settled && runtime_checker_is_alive(checker, checker->works[i].owner);
    return count;
}

void runtime_checker_complain(const runtime_checker *checker) {
    for (size_t i = 0; i < checker->count; i++) {
        const runtime_work *work = &checker->works[i];
        if (work->settled || !runtime_checker_is_alive(checker, work->owner)) continue;
        sim_violation(checker->sim, "work %zu of process %" PRIx64 " has no end: a %s that was begun %u times", i,
                      work->owner, work->actor == SIZE_MAX ? "task" : "call", work->starts);
        return;
    }
}
