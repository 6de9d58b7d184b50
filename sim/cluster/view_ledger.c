/* view_ledger.c — see view_ledger.h. */
#include "sim/cluster/view_ledger.h"

#include <inttypes.h>
#include <stdlib.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "cluster/coordinator.h"

enum { COUNT_MAX = 100000 }; /* of views in one generation: more is no history, but a loop */

typedef struct decision {
    uint64_t number;
    uint64_t hash;   /* 0: nothing is known yet */
    uint64_t leader; /* incarnation */
    uint64_t incarnations[VIEW_LEDGER_MEMBERS_MAX];
    size_t count;
} decision;

typedef struct view_ledger_write {
    uint64_t view; /* in which it was sent */
    uint64_t process;
} view_ledger_write;

void view_ledger_init(view_ledger *ledger, sim *sim) { *ledger = (view_ledger){.sim = sim}; }

void view_ledger_fini(view_ledger *ledger) {
    map_slot slot;
    for (size_t at = 0; (at = map_next(&ledger->decisions, at, &slot)) != 0;) free(slot.value);
    map_fini(&ledger->decisions);
    map_fini(&ledger->holders);
    free(ledger->writes);
}

static uint64_t process_number(const sim_node *node) {
    return ((uint64_t)sim_node_index(node) + 1) << 32 | sim_node_process(node);
}

static decision *decision_at(view_ledger *ledger, uint64_t number) {
    decision *decision = map_get(&ledger->decisions, number);
    if (decision != NULL) return decision;
    decision = xcalloc(1, sizeof *decision);
    decision->number = number;
    map_put(&ledger->decisions, number, decision);
    return decision;
}

/* ---- Views. */

void view_ledger_given(view_ledger *ledger, const sim_node *node, uint64_t incarnation) {
    if (map_put(&ledger->holders, incarnation, (void *)(uintptr_t)process_number(node)) != NULL)
        sim_violation(ledger->sim, "incarnation " COORDINATOR_FORMAT " was given twice", COORDINATOR_ARGS(incarnation));
}

static uint64_t hash_view(const view *view) {
    uint8_t bytes[2000];
    writer writer = writer_of(bytes, sizeof bytes);
    view_encode(view, &writer);
    MR_ASSERT(!writer.failed);
    return XXH3_64bits(bytes, writer_size(&writer)) | 1;
}

static void learn(decision *decision, const view *view, uint64_t hash) {
    const view_member *leader = view_leader(view);
    MR_ASSERT(view->count <= VIEW_LEDGER_MEMBERS_MAX);
    decision->hash = hash;
    decision->leader = leader == NULL ? 0 : leader->incarnation;
    decision->count = view->count;
    for (size_t i = 0; i < view->count; i++) decision->incarnations[i] = view->members[i].incarnation;
}

void view_ledger_entered(view_ledger *ledger, const sim_node *node, const view *view, uint64_t *entered) {
    const char *name = sim_node_name(node);
    if (coordinator_count(view->number) > COUNT_MAX) {
        sim_violation(ledger->sim, "the numbers of views run away");
        return;
    }
    decision *decision = decision_at(ledger, view->number);
    uint64_t hash = hash_view(view);
    if (decision->hash == 0) {
        learn(decision, view, hash);
        sim_count(ledger->sim, "views", 1);
    } else if (decision->hash != hash) {
        sim_violation(ledger->sim, "view " COORDINATOR_FORMAT " was decided twice: %s has entered another one",
                      COORDINATOR_ARGS(view->number), name);
    }
    if (view->number <= *entered)
        sim_violation(ledger->sim, "%s went back from view " COORDINATOR_FORMAT " to " COORDINATOR_FORMAT, name,
                      COORDINATOR_ARGS(*entered), COORDINATOR_ARGS(view->number));
    *entered = view->number;
    if (view->number > ledger->newest && coordinator_count(view->number) != 0) ledger->newest = view->number;
}

static int by_number(const void *a, const void *b) {
    uint64_t x = (*(const decision *const *)a)->number, y = (*(const decision *const *)b)->number;
    return (x > y) - (x < y);
}

/* All decisions, ordered by number; the array is the caller's. */
static decision **sorted_decisions(const view_ledger *ledger) {
    decision **sorted = xcalloc(ledger->decisions.count + 1, sizeof *sorted);
    size_t count = 0;
    map_slot slot;
    for (size_t at = 0; (at = map_next(&ledger->decisions, at, &slot)) != 0;) sorted[count++] = slot.value;
    qsort(sorted, count, sizeof *sorted, by_number);
    return sorted;
}

/* Every incarnation is in the views from its first to its last one, as far as they are known. */
void view_ledger_check_lives(view_ledger *ledger) {
    map last = {0}; /* incarnation → number of the last known view that it was in */
    uint64_t before = 0;
    decision **sorted = sorted_decisions(ledger);
    for (size_t at = 0; at < ledger->decisions.count; at++) {
        uint64_t number = sorted[at]->number;
        for (size_t i = 0; i < sorted[at]->count; i++) {
            uint64_t incarnation = sorted[at]->incarnations[i];
            uint64_t was = (uint64_t)(uintptr_t)map_put(&last, incarnation, (void *)(uintptr_t)number);
            if (was != 0 && was != before)
                sim_violation(ledger->sim,
                              "incarnation " COORDINATOR_FORMAT " was left out of view " COORDINATOR_FORMAT
                              " and came back in view " COORDINATOR_FORMAT,
                              COORDINATOR_ARGS(incarnation), COORDINATOR_ARGS(before), COORDINATOR_ARGS(number));
        }
        before = number;
    }
    free(sorted);
    map_fini(&last);
}

/* ---- Writes. */

uint64_t view_ledger_sent(view_ledger *ledger, const sim_node *node, uint64_t entered) {
    if (ledger->write_count == ledger->write_room) {
        ledger->write_room = ledger->write_room * 2 + 64;
        ledger->writes = xrealloc(ledger->writes, ledger->write_room * sizeof *ledger->writes);
    }
    ledger->writes[ledger->write_count] = (view_ledger_write){.view = entered, .process = process_number(node)};
    return ledger->write_count++;
}

void view_ledger_accepted(view_ledger *ledger, const sim_node *node, uint64_t entered, uint64_t write) {
    MR_ASSERT(write < ledger->write_count);
    const view_ledger_write *record = &ledger->writes[write];
    const char *name = sim_node_name(node);
    sim_count(ledger->sim, "writes accepted", 1);
    if (record->view != entered) {
        sim_violation(ledger->sim, "%s, in view " COORDINATOR_FORMAT ", accepted a write of view " COORDINATOR_FORMAT,
                      name, COORDINATOR_ARGS(entered), COORDINATOR_ARGS(record->view));
        return;
    }
    uint64_t leader = decision_at(ledger, record->view)->leader;
    if ((uint64_t)(uintptr_t)map_get(&ledger->holders, leader) != record->process)
        sim_violation(ledger->sim,
                      "%s accepted a write of view " COORDINATOR_FORMAT " from a process that does not lead it", name,
                      COORDINATOR_ARGS(record->view));
}
