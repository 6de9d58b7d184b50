/* actor_checker.c — see actor_checker.h. */
#include "sim/runtime/actor_checker.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"

static const char *const state_names[] = {"PENDING", "STARTING", "ALIVE", "DEAD"};

size_t actor_checker_index(mr_actor id) { return (size_t)id.word[1] - 1; }

static actor_entry *entry_of(actor_checker *checker, const node_actor *actor) {
    return &checker->entries[actor_checker_index(actor->id)];
}

/* ---- Calls of the actor table to its host pass through here. */

static uint64_t request(void *host, node_actor *actor) {
    actor_checker *checker = host;
    return entry_of(checker, actor)->ticket = checker->ops.request(checker->host, actor);
}

static void forget(void *host, node_actor *actor, uint64_t ticket) {
    actor_checker *checker = host;
    for (size_t i = 0; i < checker->count; i++)
        if (checker->entries[i].ticket == ticket) checker->entries[i].forgot = true;
    checker->ops.forget(checker->host, actor, ticket);
}

static void start(void *host, node_actor *actor) {
    actor_checker *checker = host;
    checker->ops.start(checker->host, actor);
}

static void kill_process(void *host, uint64_t process) {
    actor_checker *checker = host;
    for (size_t i = 0; i < checker->count; i++)
        if (checker->entries[i].process == process) checker->entries[i].killed = true;
    checker->ops.kill(checker->host, process);
}

static void tell(void *host, rpc_call_token token, node_actor *actor) {
    actor_checker *checker = host;
    actor_asker *asker = &checker->askers[token.number - 1];
    if (asker->told) sim_violation(checker->sim, "who asked for actor %zu is told twice", asker->actor);
    if (asker->actor != actor_checker_index(actor->id))
        sim_violation(checker->sim, "who asked for actor %zu is told of another", asker->actor);
    if (actor->state != NODE_ACTOR_ALIVE && actor->state != NODE_ACTOR_DEAD)
        sim_violation(checker->sim, "who asked for actor %zu is told that it is %s", asker->actor,
                      state_names[actor->state]);
    asker->told = true;
}

static void died(void *host, node_actor *actor) {
    actor_checker *checker = host;
    if (actor->state != NODE_ACTOR_DEAD) sim_violation(checker->sim, "an actor that lives has died");
    checker->ops.died(checker->host, actor);
}

static const node_actor_ops own_ops = {
    .request = request, .forget = forget, .start = start, .kill = kill_process, .tell = tell, .died = died};

void actor_checker_init(actor_checker *checker, sim *sim, const node_actor_ops *ops, void *host) {
    *checker = (actor_checker){.sim = sim, .ops = *ops, .host = host};
    node_actors_init(&checker->book, &own_ops, checker);
    mr_status status = value_pack_create(NULL, 0, &checker->args);
    MR_ASSERT(status == MR_OK);
}

void actor_checker_fini(actor_checker *checker) {
    node_actors_fini(&checker->book);
    if (checker->args->refs != 1) sim_violation(checker->sim, "the arguments of an actor are left");
    value_pack_unref(checker->args);
}

/* ---- The entries compared with the actor table. */

static void check_actor(actor_checker *checker, size_t index) {
    const actor_entry *entry = &checker->entries[index];
    const node_actor *actor = node_actor_find(&checker->book, entry->id);
    if (actor == NULL) {
        if (entry->state != NODE_ACTOR_DEAD) sim_violation(checker->sim, "actor %zu is forgotten", index);
        return;
    }
    if (actor->state != entry->state)
        sim_violation(checker->sim, "actor %zu is %s, but must be %s", index, state_names[actor->state],
                      state_names[entry->state]);
    if (actor->starts != entry->starts || actor->process != entry->process)
        sim_violation(checker->sim,
                      "actor %zu was started %u times, last in process %" PRIu64 "; it should be %u, %" PRIu64, index,
                      actor->starts, actor->process, entry->starts, entry->process);
    for (size_t i = 0; i < index && entry->process != 0; i++)
        if (checker->entries[i].process == entry->process)
            sim_violation(checker->sim, "actors %zu and %zu live in one process", i, index);
}

static void check_names(actor_checker *checker) {
    for (size_t i = 0; i < checker->count; i++) {
        const actor_entry *entry = &checker->entries[i];
        if (entry->name[0] == '\0' || entry->state == NODE_ACTOR_DEAD) continue;
        const node_actor *named =
            node_actor_named(&checker->book, (span){0}, span_of(entry->name, strlen(entry->name)));
        if (named == NULL || actor_checker_index(named->id) != i)
            sim_violation(checker->sim, "'%s' is not found by its name, or is another", entry->name);
    }
}

static void check(actor_checker *checker) {
    for (size_t i = 0; i < checker->count; i++) check_actor(checker, i);
    check_names(checker);
}

/* The resources that the actor still had must have been given up. */
static void die(actor_checker *checker, actor_entry *entry, bool process_lives) {
    if (entry->state == NODE_ACTOR_PENDING && !entry->forgot)
        sim_violation(checker->sim, "a worker is still asked for, although actor %zu is dead",
                      (size_t)(entry - checker->entries));
    if (entry->process != 0 && process_lives && !entry->killed)
        sim_violation(checker->sim, "actor %zu is dead, but its process was not ended",
                      (size_t)(entry - checker->entries));
    entry->state = NODE_ACTOR_DEAD;
    entry->process = entry->ticket = 0;
}

/* ---- Events. */

static const actor_entry *named(const actor_checker *checker, const char *name) {
    for (size_t i = 0; i < checker->count && name[0] != '\0'; i++)
        if (checker->entries[i].state != NODE_ACTOR_DEAD && strcmp(checker->entries[i].name, name) == 0)
            return &checker->entries[i];
    return NULL;
}

bool actor_checker_create(actor_checker *checker, uint32_t program, const char *name, uint32_t restarts,
                          const resources *need) {
    if (checker->count == ACTOR_CHECKER_MAX) return false;
    bool taken = named(checker, name) != NULL;
    actor_entry *entry = &checker->entries[checker->count++];
    *entry = (actor_entry){.id = {{7, checker->count}}, .program = program, .restarts = restarts, .group = need->group};
    snprintf(entry->name, sizeof entry->name, "%s", name);
    node_actor_plan plan = {.id = entry->id,
                            .class_name = span_of("thing", 5),
                            .name = span_of(entry->name, strlen(entry->name)),
                            .restarts = restarts,
                            .need = *need,
                            .args = checker->args};
    mr_status status = node_actor_create(&checker->book, &plan);
    if (status != (taken ? MR_EXISTS : MR_OK))
        sim_violation(checker->sim, "'%s' is made with %s, although the name is %s", name, mr_status_name(status),
                      taken ? "taken" : "free");
    if (taken) checker->count--;
    check(checker);
    return !taken;
}

void actor_checker_granted(actor_checker *checker, uint64_t ticket, uint64_t process) {
    node_actor *actor = node_actor_ticket(&checker->book, ticket);
    if (actor == NULL) {
        sim_violation(checker->sim, "a worker is granted to an actor that does not wait for it");
        return;
    }
    actor_entry *entry = entry_of(checker, actor);
    entry->state = NODE_ACTOR_STARTING;
    entry->process = process;
    entry->starts++;
    node_actor_granted(&checker->book, actor, process);
    check(checker);
}

void actor_checker_created(actor_checker *checker, size_t index, uint32_t start, bool failed) {
    actor_entry *entry = &checker->entries[index];
    failure *why = failed ? failure_create(MR_INVALID, "no", "thing", NULL) : NULL;
    entry->killed = false;
    node_actor_created(&checker->book, entry->id, start, why);
    failure_unref(why);
    if (entry->state == NODE_ACTOR_STARTING && entry->starts == start) {
        if (failed)
            die(checker, entry, true);
        else
            entry->state = NODE_ACTOR_ALIVE;
    }
    check(checker);
}

void actor_checker_process_gone(actor_checker *checker, uint64_t process) {
    cause why = {.status = MR_PEER_DIED};
    for (size_t i = 0; i < checker->count; i++) {
        actor_entry *entry = &checker->entries[i];
        if (entry->process != process) continue;
        if (entry->restarts == 0) {
            die(checker, entry, false);
            continue;
        }
        entry->restarts--;
        entry->process = 0;
        entry->state = NODE_ACTOR_PENDING;
    }
    node_actor_process_gone(&checker->book, process, &why);
    check(checker);
}

void actor_checker_kill(actor_checker *checker, size_t index) {
    actor_entry *entry = &checker->entries[index];
    entry->forgot = entry->killed = false;
    node_actor *actor = node_actor_find(&checker->book, entry->id);
    if (actor != NULL) node_actor_kill(&checker->book, actor);
    if (entry->state != NODE_ACTOR_DEAD) die(checker, entry, true);
    check(checker);
}

void actor_checker_evict(actor_checker *checker, uint64_t group) {
    for (size_t i = 0; i < checker->count; i++) checker->entries[i].forgot = checker->entries[i].killed = false;
    node_actors_evict(&checker->book, group, "its group is gone");
    for (size_t i = 0; i < checker->count; i++) {
        actor_entry *entry = &checker->entries[i];
        if (entry->group != group || entry->state == NODE_ACTOR_DEAD) continue;
        sim_count(checker->sim, "actors evicted", 1);
        die(checker, entry, true);
    }
    check(checker);
}

void actor_checker_where(actor_checker *checker, size_t index) {
    node_actor *actor = node_actor_find(&checker->book, checker->entries[index].id);
    if (actor == NULL || checker->asker_count == ACTOR_CHECKER_ASKERS_MAX) return;
    actor_asker *asker = &checker->askers[checker->asker_count++];
    *asker = (actor_asker){.actor = index};
    node_actor_where(&checker->book, actor, (rpc_call_token){.number = checker->asker_count});
    bool settled = actor->state == NODE_ACTOR_ALIVE || actor->state == NODE_ACTOR_DEAD;
    if (asker->told != settled) sim_violation(checker->sim, "who asks for actor %zu is told too early or late", index);
}

const actor_entry *actor_checker_in(const actor_checker *checker, uint64_t process) {
    for (size_t i = 0; i < checker->count; i++)
        if (checker->entries[i].process == process) return &checker->entries[i];
    return NULL;
}

void actor_checker_check_told(actor_checker *checker) {
    for (size_t i = 0; i < checker->asker_count; i++)
        if (!checker->askers[i].told)
            sim_violation(checker->sim, "who asked for actor %zu was never told", checker->askers[i].actor);
}
