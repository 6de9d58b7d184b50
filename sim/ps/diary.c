/* diary.c — see diary.h. */
#include "sim/ps/diary.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "ps/tape.h"

void ps_diary_fini(ps_diary *diary) {
    free(diary->questions);
    *diary = (ps_diary){0};
}

static size_t add(ps_diary *diary, uint32_t rank, uint64_t name, int64_t now_us) {
    if (diary->count == diary->capacity) {
        diary->capacity = 2 * diary->capacity + 64;
        diary->questions = xrealloc(diary->questions, diary->capacity * sizeof *diary->questions);
    }
    diary->questions[diary->count] =
        (ps_question){.rank = rank, .name = name, .asked_us = now_us, .answered_us = LIN_NEVER};
    return diary->count++;
}

static ps_question *find(const ps_diary *diary, uint32_t rank, uint64_t name) {
    for (size_t i = diary->count; i-- > 0;)
        if (diary->questions[i].rank == rank && diary->questions[i].name == name) return &diary->questions[i];
    return NULL;
}

void ps_diary_push(ps_diary *diary, uint32_t rank, uint64_t name, int64_t now_us) {
    if (find(diary, rank, name) == NULL) (void)add(diary, rank, name, now_us);
}

void ps_diary_pushed(ps_diary *diary, uint32_t rank, uint64_t name, int64_t now_us) {
    ps_question *question = find(diary, rank, name);
    if (question != NULL && question->answered_us == LIN_NEVER) question->answered_us = now_us;
}

size_t ps_diary_pull(ps_diary *diary, int64_t now_us) { return add(diary, 0, 0, now_us); }

void ps_diary_pulled(ps_diary *diary, size_t pull, uint64_t lsn, int64_t now_us) {
    MR_ASSERT(pull < diary->count && diary->questions[pull].name == 0);
    diary->questions[pull].answered_us = now_us;
    diary->questions[pull].lsn = lsn;
}

/* ---- The check. */

static bool changes(const ps_event *event) {
    return event->kind == TAPE_PUSH && event->name != name_tick(name_step(event->name));
}

/* Versions behind each entry; versions[0] is before all of them. The caller's. */
static uint64_t *number(const ps_event *events, size_t count) {
    uint64_t *versions = xcalloc(count + 1, sizeof *versions);
    for (size_t i = 0; i < count; i++) versions[i + 1] = versions[i] + changes(&events[i]);
    return versions;
}

/* Which push made which version. False: one that nobody asked for. */
static bool find_versions(ps_diary *diary, const ps_event *events, size_t count, size_t origin,
                          const uint64_t *versions) {
    for (size_t i = origin; i < count; i++) {
        if (!changes(&events[i])) continue;
        ps_question *question = find(diary, events[i].rank, events[i].name);
        if (question == NULL) return false;
        question->version = versions[i + 1];
    }
    return true;
}

bool ps_diary_check(ps_diary *diary, const ps_event *events, size_t count, size_t origin) {
    uint64_t *versions = number(events, count);
    lin_history history = {0};
    bool good = find_versions(diary, events, count, origin, versions);
    for (size_t i = 0; good && i < diary->count; i++) {
        const ps_question *question = &diary->questions[i];
        bool pull = question->name == 0, answered = question->answered_us != LIN_NEVER;
        if (pull ? !answered : question->version == 0) continue; /* it shows nothing, or never happened */
        uint64_t version = pull ? versions[question->lsn] : question->version;
        size_t request = lin_ask(&history, pull ? LIN_LOOK : LIN_SWAP, version - 1, question->asked_us);
        if (answered) lin_answer(&history, request, version, question->answered_us);
    }
    good = good && lin_check(&history, versions[origin], NULL);
    lin_fini(&history);
    free(versions);
    return good;
}
