/* linearizability.h — is this history linearizable? Per key, for values that are changed by compare-and-swap.
 *
 * A history has, for every request, when it was asked, when it was answered, and how. It is linearizable if each
 * request can be given one moment between the two at which it happened, such that one after the other they make sense:
 *
 *   look      answered with version v     the newest is v
 *   swap      from e, answered OK         the newest is e, and becomes e + 1
 *   swap      from e, no answer           the same as OK, at any time from when it was asked; or it never happens
 *
 * The search goes back and forth as Wing and Gong have it: of the requests that may come next (none that is still open
 * was answered before they were asked) one is taken, and another one if nothing comes of it. What was tried, as a set
 * of requests with the version behind them, is remembered and not tried twice. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { LINEARIZABILITY_REQUESTS_MAX = 4096 };
#define LINEARIZABILITY_NEVER INT64_MAX

typedef enum linearizability_kind { LINEARIZABILITY_LOOK, LINEARIZABILITY_SWAP } linearizability_kind;

typedef struct linearizability_request {
    linearizability_kind kind;
    int64_t asked_us, answered_us; /* LINEARIZABILITY_NEVER: it was not */
    uint64_t expected;             /* of a swap */
    uint64_t version;              /* of the answer */
} linearizability_request;

typedef struct linearizability_history { /* zero-initialized it is empty and ready */
    linearizability_request *requests;   /* owned, in the order in which they were asked */
    size_t count, capacity;
} linearizability_history;

void linearizability_fini(linearizability_history *history);

/* The number of a request that is asked now; it is not answered yet. LINEARIZABILITY_REQUESTS_MAX: the history is full,
 * and this one is not in it: from then on it says nothing. */
size_t linearizability_ask(linearizability_history *history, linearizability_kind kind, uint64_t expected,
                           int64_t now_us);
void linearizability_answer(linearizability_history *history, size_t request, uint64_t version, int64_t now_us);

/* `first`: the version before everything. `forgets`: may a value at `version` begin anew at `next`? NULL: never. */
typedef bool linearizability_forgets_fn(uint64_t version, uint64_t next);
bool linearizability_check(const linearizability_history *history, uint64_t first, linearizability_forgets_fn *forgets);
