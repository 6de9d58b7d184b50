/* linearizability.c — see linearizability.h. */
#include "sim/linearizability.h"

#include <stdlib.h>
#include <string.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/map.h"

void linearizability_fini(linearizability_history *history) {
    free(history->requests);
    *history = (linearizability_history){0};
}

size_t linearizability_ask(linearizability_history *history, linearizability_kind kind, uint64_t expected,
                           int64_t now_us) {
    if (history->count == LINEARIZABILITY_REQUESTS_MAX) return LINEARIZABILITY_REQUESTS_MAX;
    if (history->count == history->capacity) {
        history->capacity = history->capacity == 0 ? 64 : 2 * history->capacity;
        history->requests = xrealloc(history->requests, history->capacity * sizeof *history->requests);
    }
    MR_ASSERT(history->count == 0 || history->requests[history->count - 1].asked_us <= now_us);
    history->requests[history->count] = (linearizability_request){
        .kind = kind, .asked_us = now_us, .answered_us = LINEARIZABILITY_NEVER, .expected = expected};
    return history->count++;
}

void linearizability_answer(linearizability_history *history, size_t request, uint64_t version, int64_t now_us) {
    if (request == LINEARIZABILITY_REQUESTS_MAX) return;
    linearizability_request *at = &history->requests[request];
    at->answered_us = now_us;
    at->version = version;
}

/* ---- The search. */

typedef struct search {
    const linearizability_history *history;
    linearizability_forgets_fn *forgets;
    uint64_t *done; /* one bit per request that has happened, owned */
    size_t words;
    size_t open; /* requests with an answer that have not happened yet */
    map tried;   /* hashes of states already tried */
} search;

static bool is_done(const search *search, size_t at) { return (search->done[at / 64] >> (at % 64) & 1) != 0; }

static void set_done(search *search, size_t at, bool done) {
    uint64_t bit = UINT64_C(1) << (at % 64);
    search->done[at / 64] = done ? search->done[at / 64] | bit : search->done[at / 64] & ~bit;
    if (search->history->requests[at].answered_us != LINEARIZABILITY_NEVER) search->open += done ? (size_t)-1 : 1;
}

/* Whether the request may happen now. *next: the version after the request. */
static bool makes_sense(const search *search, const linearizability_request *request, uint64_t version,
                        uint64_t *next) {
    bool answered = request->answered_us != LINEARIZABILITY_NEVER;
    *next = version;
    if (request->kind == LINEARIZABILITY_LOOK && answered && search->forgets != NULL &&
        search->forgets(version, request->version))
        *next = request->version;
    if (request->kind == LINEARIZABILITY_LOOK) return answered && request->version == *next;
    *next = version + 1;
    return request->expected == version && (!answered || request->version == *next);
}

/* The version is hashed as one more word: as a hash seed it would collide with the bits of short histories. */
static bool was_tried(search *search, uint64_t version) {
    search->done[search->words] = version;
    uint64_t key = XXH3_64bits(search->done, (search->words + 1) * sizeof *search->done);
    return map_put(&search->tried, key, search) != NULL;
}

/* Tries all orders of the requests that have not happened. All requests before `from` have happened, or never will. */
static bool go_on(search *search, size_t from, uint64_t version) {
    const linearizability_request *requests = search->history->requests;
    size_t count = search->history->count;
    if (search->open == 0) return true;
    if (was_tried(search, version)) return false;
    while (from < count && is_done(search, from)) from++;
    int64_t until_us = LINEARIZABILITY_NEVER; /* earliest answer to a request that has not happened */
    for (size_t at = from; at < count && requests[at].asked_us <= until_us; at++)
        if (!is_done(search, at) && requests[at].answered_us < until_us) until_us = requests[at].answered_us;
    for (size_t at = from; at < count && requests[at].asked_us <= until_us; at++) {
        uint64_t next;
        if (is_done(search, at) || !makes_sense(search, &requests[at], version, &next)) continue;
        set_done(search, at, true);
        if (go_on(search, from, next)) return true;
        set_done(search, at, false);
    }
    return false;
}

bool linearizability_check(const linearizability_history *history, uint64_t first,
                           linearizability_forgets_fn *forgets) {
    if (history->count == LINEARIZABILITY_REQUESTS_MAX) return true;
    search search = {.history = history, .forgets = forgets, .words = history->count / 64 + 2};
    search.done = xcalloc(search.words + 1, sizeof *search.done);
    for (size_t i = 0; i < history->count; i++)
        search.open += history->requests[i].answered_us != LINEARIZABILITY_NEVER;
    bool found = go_on(&search, 0, first);
    map_fini(&search.tried);
    free(search.done);
    return found;
}
