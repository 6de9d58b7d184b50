/* actor_ledger.c — see actor_ledger.h. */
#include "sim/runtime/actor_ledger.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"

static const char *const state_names[] = {"PENDING", "STARTING", "ALIVE", "DEAD"};

size_t actor_ledger_index(mr_actor id) { return (size_t)id.word[1] - 1; }

static actor_entry *entry_of(actor_ledger *ledger, const node_actor *actor) {
    return &ledger->entries[actor_ledger_index(actor->id)];
}

/* ---- What the book asks of its host goes through here. */

static uint64_t request(void *host, node_actor *actor) {
    actor_ledger *ledger = host;
    return entry_of(ledger, actor)->ticket = ledger->ops.request(ledger->host, actor);
}

static void forget(void *host, node_actor *actor, uint64_t ticket) {
    actor_ledger *ledger = host;
    for (size_t i = 0; i < ledger->count; i++)
        if (ledger->entries[i].ticket == ticket) ledger->entries[i].forgot = true;
    ledger->ops.forget(ledger->host, actor, ticket);
}

static void start(void *host, node_actor *actor) {
    actor_ledger *ledger = host;
    ledger->ops.start(ledger->host, actor);
}

static void kill_process(void *host, uint64_t process) {
    actor_ledger *ledger = host;
    for (size_t i = 0; i < ledger->count; i++)
        if (ledger->entries[i].process == process) ledger->entries[i].killed = true;
    ledger->ops.kill(ledger->host, process);
}

static void tell(void *host, call_token token, node_actor *actor) {
    actor_ledger *ledger = host;
    actor_asker *asker = &ledger->askers[token.number - 1];
    if (asker->told) sim_violation(ledger->sim, "who asked for actor %zu is told twice", asker->actor);
    if (asker->actor != actor_ledger_index(actor->id))
        sim_violation(ledger->sim, "who asked for actor %zu is told of another", asker->actor);
    if (actor->state != NODE_ACTOR_ALIVE && actor->state != NODE_ACTOR_DEAD)
        sim_violation(ledger->sim, "who asked for actor %zu is told that it is %s", asker->actor,
                      state_names[actor->state]);
    asker->told = true;
}

static void died(void *host, node_actor *actor) {
    actor_ledger *ledger = host;
    if (actor->state != NODE_ACTOR_DEAD) sim_violation(ledger->sim, "an actor that lives has died");
    ledger->ops.died(ledger->host, actor);
}

static const node_actor_ops own_ops = {
    .request = request, .forget = forget, .start = start, .kill = kill_process, .tell = tell, .died = died};

void actor_ledger_init(actor_ledger *ledger, sim *sim, const node_actor_ops *ops, void *host) {
    *ledger = (actor_ledger){.sim = sim, .ops = *ops, .host = host};
    node_actors_init(&ledger->book, &own_ops, ledger);
    mr_status status = bundle_create(NULL, 0, &ledger->args);
    MR_ASSERT(status == MR_OK);
}

void actor_ledger_fini(actor_ledger *ledger) {
    node_actors_fini(&ledger->book);
    if (ledger->args->refs != 1) sim_violation(ledger->sim, "the arguments of an actor are left");
    bundle_unref(ledger->args);
}

/* ---- The entries against the book. */

static void check_actor(actor_ledger *ledger, size_t index) {
    const actor_entry *entry = &ledger->entries[index];
    const node_actor *actor = node_actor_find(&ledger->book, entry->id);
    if (actor == NULL) {
        if (entry->state != NODE_ACTOR_DEAD) sim_violation(ledger->sim, "actor %zu is forgotten", index);
        return;
    }
    if (actor->state != entry->state)
        sim_violation(ledger->sim, "actor %zu is %s, but must be %s", index, state_names[actor->state],
                      state_names[entry->state]);
    if (actor->starts != entry->starts || actor->process != entry->process)
        sim_violation(ledger->sim,
                      "actor %zu was started %u times, last in process %" PRIu64 "; it should be %u, %" PRIu64, index,
                      actor->starts, actor->process, entry->starts, entry->process);
    for (size_t i = 0; i < index && entry->process != 0; i++)
        if (ledger->entries[i].process == entry->process)
            sim_violation(ledger->sim, "actors %zu and %zu live in one process", i, index);
}

static void check_names(actor_ledger *ledger) {
    for (size_t i = 0; i < ledger->count; i++) {
        const actor_entry *entry = &ledger->entries[i];
        if (entry->name[0] == '\0' || entry->state == NODE_ACTOR_DEAD) continue;
        const node_actor *named = node_actor_named(&ledger->book, (span){0}, span_of(entry->name, strlen(entry->name)));
        if (named == NULL || actor_ledger_index(named->id) != i)
            sim_violation(ledger->sim, "'%s' is not found by its name, or is another", entry->name);
    }
}

static void check(actor_ledger *ledger) {
    for (size_t i = 0; i < ledger->count; i++) check_actor(ledger, i);
    check_names(ledger);
}

/* What the actor still had must have been given up. */
static void die(actor_ledger *ledger, actor_entry *entry, bool process_lives) {
    if (entry->state == NODE_ACTOR_PENDING && !entry->forgot)
        sim_violation(ledger->sim, "a worker is still asked for, although actor %zu is dead",
                      (size_t)(entry - ledger->entries));
    if (entry->process != 0 && process_lives && !entry->killed)
        sim_violation(ledger->sim, "actor %zu is dead, but its process was not ended",
                      (size_t)(entry - ledger->entries));
    entry->state = NODE_ACTOR_DEAD;
    entry->process = entry->ticket = 0;
}

/* ---- Events. */

static const actor_entry *named(const actor_ledger *ledger, const char *name) {
    for (size_t i = 0; i < ledger->count && name[0] != '\0'; i++)
        if (ledger->entries[i].state != NODE_ACTOR_DEAD && strcmp(ledger->entries[i].name, name) == 0)
            return &ledger->entries[i];
    return NULL;
}

bool actor_ledger_create(actor_ledger *ledger, uint32_t program, const char *name, uint32_t restarts,
                         const resources *need) {
    if (ledger->count == ACTOR_LEDGER_MAX) return false;
    bool taken = named(ledger, name) != NULL;
    actor_entry *entry = &ledger->entries[ledger->count++];
    *entry = (actor_entry){.id = {{7, ledger->count}}, .program = program, .restarts = restarts, .group = need->group};
    snprintf(entry->name, sizeof entry->name, "%s", name);
    node_actor_plan plan = {.id = entry->id,
                            .class_name = span_of("thing", 5),
                            .name = span_of(entry->name, strlen(entry->name)),
                            .restarts = restarts,
                            .need = *need,
                            .args = ledger->args};
    mr_status status = node_actor_create(&ledger->book, &plan);
    if (status != (taken ? MR_EXISTS : MR_OK))
        sim_violation(ledger->sim, "'%s' is made with %s, although the name is %s", name, mr_status_name(status),
                      taken ? "taken" : "free");
    if (taken) ledger->count--;
    check(ledger);
    return !taken;
}

void actor_ledger_granted(actor_ledger *ledger, uint64_t ticket, uint64_t process) {
    node_actor *actor = node_actor_ticket(&ledger->book, ticket);
    if (actor == NULL) {
        sim_violation(ledger->sim, "a worker is granted to an actor that does not wait for it");
        return;
    }
    actor_entry *entry = entry_of(ledger, actor);
    entry->state = NODE_ACTOR_STARTING;
    entry->process = process;
    entry->starts++;
    node_actor_granted(&ledger->book, actor, process);
    check(ledger);
}

void actor_ledger_created(actor_ledger *ledger, size_t index, uint32_t start, bool failed) {
    actor_entry *entry = &ledger->entries[index];
    failure *why = failed ? failure_create(MR_INVALID, "no", "thing", NULL) : NULL;
    entry->killed = false;
    node_actor_created(&ledger->book, entry->id, start, why);
    failure_unref(why);
    if (entry->state == NODE_ACTOR_STARTING && entry->starts == start) {
        if (failed)
            die(ledger, entry, true);
        else
            entry->state = NODE_ACTOR_ALIVE;
    }
    check(ledger);
}

void actor_ledger_process_gone(actor_ledger *ledger, uint64_t process) {
    cause why = {.status = MR_PEER_DIED};
    for (size_t i = 0; i < ledger->count; i++) {
        actor_entry *entry = &ledger->entries[i];
        if (entry->process != process) continue;
        if (entry->restarts == 0) {
            die(ledger, entry, false);
            continue;
        }
        entry->restarts--;
        entry->process = 0;
        entry->state = NODE_ACTOR_PENDING;
    }
    node_actor_process_gone(&ledger->book, process, &why);
    check(ledger);
}

void actor_ledger_kill(actor_ledger *ledger, size_t index) {
    actor_entry *entry = &ledger->entries[index];
    entry->forgot = entry->killed = false;
    node_actor *actor = node_actor_find(&ledger->book, entry->id);
    if (actor != NULL) node_actor_kill(&ledger->book, actor);
    if (entry->state != NODE_ACTOR_DEAD) die(ledger, entry, true);
    check(ledger);
}

void actor_ledger_evict(actor_ledger *ledger, uint64_t group) {
    for (size_t i = 0; i < ledger->count; i++) ledger->entries[i].forgot = ledger->entries[i].killed = false;
    node_actors_evict(&ledger->book, group, "its group is gone");
    for (size_t i = 0; i < ledger->count; i++) {
        actor_entry *entry = &ledger->entries[i];
        if (entry->group != group || entry->state == NODE_ACTOR_DEAD) continue;
        sim_count(ledger->sim, "actors evicted", 1);
        die(ledger, entry, true);
    }
    check(ledger);
}

void actor_ledger_where(actor_ledger *ledger, size_t index) {
    node_actor *actor = node_actor_find(&ledger->book, ledger->entries[index].id);
    if (actor == NULL || ledger->asker_count == ACTOR_LEDGER_ASKERS_MAX) return;
    actor_asker *asker = &ledger->askers[ledger->asker_count++];
    *asker = (actor_asker){.actor = index};
    node_actor_where(&ledger->book, actor, (call_token){.number = ledger->asker_count});
    bool settled = actor->state == NODE_ACTOR_ALIVE || actor->state == NODE_ACTOR_DEAD;
    if (asker->told != settled) sim_violation(ledger->sim, "who asks for actor %zu is told too early or late", index);
}

const actor_entry *actor_ledger_in(const actor_ledger *ledger, uint64_t process) {
    for (size_t i = 0; i < ledger->count; i++)
        if (ledger->entries[i].process == process) return &ledger->entries[i];
    return NULL;
}

void actor_ledger_check_told(actor_ledger *ledger) {
    for (size_t i = 0; i < ledger->asker_count; i++)
        if (!ledger->askers[i].told)
            sim_violation(ledger->sim, "who asked for actor %zu was never told", ledger->askers[i].actor);
}
