/* ps_history.c — see ps_history.h. */
#include "sim/ps/ps_history.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "ps/replica_log.h"

void ps_history_fini(ps_history *history) {
    free(history->questions);
    *history = (ps_history){0};
}

static size_t add(ps_history *history, uint32_t rank, uint64_t name, int64_t now_us) {
    if (history->count == history->capacity) {
        history->capacity = 2 * history->capacity + 64;
        history->questions = xrealloc(history->questions, history->capacity * sizeof *history->questions);
    }
    history->questions[history->count] =
        (ps_question){.rank = rank, .name = name, .asked_us = now_us, .answered_us = LINEARIZABILITY_NEVER};
    return history->count++;
}

static ps_question *find(const ps_history *history, uint32_t rank, uint64_t name) {
    for (size_t i = history->count; i-- > 0;)
        if (history->questions[i].rank == rank && history->questions[i].name == name) return &history->questions[i];
    return NULL;
}

void ps_history_push(ps_history *history, uint32_t rank, uint64_t name, int64_t now_us) {
    if (find(history, rank, name) == NULL) (void)add(history, rank, name, now_us);
}

void ps_history_pushed(ps_history *history, uint32_t rank, uint64_t name, int64_t now_us) {
    ps_question *question = find(history, rank, name);
    if (question != NULL && question->answered_us == LINEARIZABILITY_NEVER) question->answered_us = now_us;
}

size_t ps_history_pull(ps_history *history, int64_t now_us) { return add(history, 0, 0, now_us); }

void ps_history_pulled(ps_history *history, size_t pull, uint64_t lsn, int64_t now_us) {
    MR_ASSERT(pull < history->count && history->questions[pull].name == 0);
    history->questions[pull].answered_us = now_us;
    history->questions[pull].lsn = lsn;
}

/* ---- The check. */

static bool changes(const ps_event *event) {
    return event->kind == REPLICA_LOG_PUSH && event->name != seq_tick(seq_step(event->name)) &&
           !seq_is_left(event->name);
}

/* The version after each entry; versions[0] is before all entries. The caller frees the array. */
static uint64_t *number(const ps_event *events, size_t count) {
    uint64_t *versions = xcalloc(count + 1, sizeof *versions);
    for (size_t i = 0; i < count; i++) versions[i + 1] = versions[i] + changes(&events[i]);
    return versions;
}

/* Assigns to each push the version that it made. False: a version was made without a request. */
static bool find_versions(ps_history *history, const ps_event *events, size_t count, size_t origin,
                          const uint64_t *versions) {
    for (size_t i = origin; i < count; i++) {
        if (!changes(&events[i])) continue;
        ps_question *question = find(history, events[i].rank, events[i].name);
        if (question == NULL) return false;
        question->version = versions[i + 1];
    }
    return true;
}

bool ps_history_check(ps_history *recording, const ps_event *events, size_t count, size_t origin) {
    uint64_t *versions = number(events, count);
    linearizability_history history = {0};
    bool good = find_versions(recording, events, count, origin, versions);
    for (size_t i = 0; good && i < recording->count; i++) {
        const ps_question *question = &recording->questions[i];
        bool pull = question->name == 0, answered = question->answered_us != LINEARIZABILITY_NEVER;
        if (pull ? !answered : question->version == 0) continue; /* an unanswered pull, or a push not applied */
        uint64_t version = pull ? versions[question->lsn] : question->version;
        size_t request = linearizability_ask(&history, pull ? LINEARIZABILITY_LOOK : LINEARIZABILITY_SWAP, version - 1,
                                             question->asked_us);
        if (answered) linearizability_answer(&history, request, version, question->answered_us);
    }
    good = good && linearizability_check(&history, versions[origin], NULL);
    linearizability_fini(&history);
    free(versions);
    return good;
}
