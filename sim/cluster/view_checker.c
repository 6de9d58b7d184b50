/* view_checker.c — see view_checker.h. */
#include "sim/cluster/view_checker.h"

#include <inttypes.h>
#include <stdlib.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "cluster/metadata_store.h"

enum { COUNT_MAX = 100000 }; /* maximal number of views of one generation: more mean an endless loop */

typedef struct decision {
    uint64_t number;
    uint64_t hash;   /* 0: unknown */
    uint64_t leader; /* incarnation */
    uint64_t incarnations[VIEW_CHECKER_MEMBERS_MAX];
    size_t count;
} decision;

typedef struct view_checker_write {
    uint64_t view; /* view in which the write was sent */
    uint64_t process;
} view_checker_write;

void view_checker_init(view_checker *checker, sim *sim) { *checker = (view_checker){.sim = sim}; }

void view_checker_fini(view_checker *checker) {
    map_entry entry;
    for (size_t at = 0; (at = map_next(&checker->decisions, at, &entry)) != 0;) free(entry.value);
    map_fini(&checker->decisions);
    map_fini(&checker->holders);
    free(checker->writes);
}

static uint64_t process_number(const sim_node *node) {
    return ((uint64_t)sim_node_index(node) + 1) << 32 | sim_node_process(node);
}

static decision *decision_at(view_checker *checker, uint64_t number) {
    decision *decision = map_get(&checker->decisions, number);
    if (decision != NULL) return decision;
    decision = xcalloc(1, sizeof *decision);
    decision->number = number;
    map_put(&checker->decisions, number, decision);
    return decision;
}

/* ---- Views. */

void view_checker_given(view_checker *checker, const sim_node *node, uint64_t incarnation) {
    if (map_put(&checker->holders, incarnation, (void *)(uintptr_t)process_number(node)) != NULL)
        sim_violation(checker->sim, "incarnation " METADATA_STORE_FORMAT " was given twice",
                      METADATA_STORE_ARGS(incarnation));
}

static uint64_t hash_view(const membership_view *view) {
    uint8_t bytes[2000];
    writer writer = writer_of(bytes, sizeof bytes);
    membership_view_encode(view, &writer);
    MR_ASSERT(!writer.failed);
    return XXH3_64bits(bytes, writer_size(&writer)) | 1;
}

static void learn(decision *decision, const membership_view *view, uint64_t hash) {
    const membership_view_member *leader = membership_view_leader(view);
    MR_ASSERT(view->count <= VIEW_CHECKER_MEMBERS_MAX);
    decision->hash = hash;
    decision->leader = leader == NULL ? 0 : leader->incarnation;
    decision->count = view->count;
    for (size_t i = 0; i < view->count; i++) decision->incarnations[i] = view->members[i].incarnation;
}

void view_checker_entered(view_checker *checker, const sim_node *node, const membership_view *view, uint64_t *entered) {
    const char *name = sim_node_name(node);
    if (metadata_store_count(view->number) > COUNT_MAX) {
        sim_violation(checker->sim, "the numbers of views run away");
        return;
    }
    decision *decision = decision_at(checker, view->number);
    uint64_t hash = hash_view(view);
    if (decision->hash == 0) {
        learn(decision, view, hash);
        sim_count(checker->sim, "views", 1);
    } else if (decision->hash != hash) {
        sim_violation(checker->sim, "view " METADATA_STORE_FORMAT " was decided twice: %s has entered another one",
                      METADATA_STORE_ARGS(view->number), name);
    }
    if (view->number <= *entered)
        sim_violation(checker->sim, "%s went back from view " METADATA_STORE_FORMAT " to " METADATA_STORE_FORMAT, name,
                      METADATA_STORE_ARGS(*entered), METADATA_STORE_ARGS(view->number));
    *entered = view->number;
    if (view->number > checker->newest && metadata_store_count(view->number) != 0) checker->newest = view->number;
}

static int by_number(const void *a, const void *b) {
    uint64_t x = (*(const decision *const *)a)->number, y = (*(const decision *const *)b)->number;
    return (x > y) - (x < y);
}

/* All decisions, ordered by number; the array is the caller's. */
static decision **sorted_decisions(const view_checker *checker) {
    decision **sorted = xcalloc(checker->decisions.count + 1, sizeof *sorted);
    size_t count = 0;
    map_entry entry;
    for (size_t at = 0; (at = map_next(&checker->decisions, at, &entry)) != 0;) sorted[count++] = entry.value;
    qsort(sorted, count, sizeof *sorted, by_number);
    return sorted;
}

/* Every incarnation is in all known views from its first to its last one. */
void view_checker_check_lives(view_checker *checker) {
    map last = {0}; /* incarnation → number of the last known view that contains it */
    uint64_t before = 0;
    decision **sorted = sorted_decisions(checker);
    for (size_t at = 0; at < checker->decisions.count; at++) {
        uint64_t number = sorted[at]->number;
        for (size_t i = 0; i < sorted[at]->count; i++) {
            uint64_t incarnation = sorted[at]->incarnations[i];
            uint64_t was = (uint64_t)(uintptr_t)map_put(&last, incarnation, (void *)(uintptr_t)number);
            if (was != 0 && was != before)
                sim_violation(checker->sim,
                              "incarnation " METADATA_STORE_FORMAT " was left out of view " METADATA_STORE_FORMAT
                              " and came back in view " METADATA_STORE_FORMAT,
                              METADATA_STORE_ARGS(incarnation), METADATA_STORE_ARGS(before),
                              METADATA_STORE_ARGS(number));
        }
        before = number;
    }
    free(sorted);
    map_fini(&last);
}

/* ---- Writes. */

uint64_t view_checker_sent(view_checker *checker, const sim_node *node, uint64_t entered) {
    if (checker->write_count == checker->write_room) {
        checker->write_room = checker->write_room * 2 + 64;
        checker->writes = xrealloc(checker->writes, checker->write_room * sizeof *checker->writes);
    }
    checker->writes[checker->write_count] = (view_checker_write){.view = entered, .process = process_number(node)};
    return checker->write_count++;
}

void view_checker_accepted(view_checker *checker, const sim_node *node, uint64_t entered, uint64_t write) {
    MR_ASSERT(write < checker->write_count);
    const view_checker_write *record = &checker->writes[write];
    const char *name = sim_node_name(node);
    sim_count(checker->sim, "writes accepted", 1);
    if (record->view != entered) {
        sim_violation(checker->sim,
                      "%s, in view " METADATA_STORE_FORMAT ", accepted a write of view " METADATA_STORE_FORMAT, name,
                      METADATA_STORE_ARGS(entered), METADATA_STORE_ARGS(record->view));
        return;
    }
    uint64_t leader = decision_at(checker, record->view)->leader;
    if ((uint64_t)(uintptr_t)map_get(&checker->holders, leader) != record->process)
        sim_violation(checker->sim,
                      "%s accepted a write of view " METADATA_STORE_FORMAT " from a process that does not lead it",
                      name, METADATA_STORE_ARGS(record->view));
}
