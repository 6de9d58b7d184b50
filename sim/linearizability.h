/* linearizability.h — checks whether a history is linearizable, per key, for values that change by compare-and-swap.
 *
 * A history has, for every request, the time of the request, the time of its answer, and the answer. It is linearizable
 * if each request can be assigned one moment between the two times, such that the sequence of requests in order of
 * these moments is valid:
 *
 *   look      answered with version v     the newest is v
 *   swap      from e, answered OK         the newest is e, and becomes e + 1
 *   swap      from e, no answer           the same as OK, at any time from when it was asked; or it never happens
 *
 * The search backtracks as in Wing and Gong's algorithm: it tries each request that may come next (a request may come
 * next if every request answered before it was asked has happened). It remembers each state tried, a set of requests
 * and the version after them, and tries no state twice. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { LINEARIZABILITY_REQUESTS_MAX = 4096 };
#define LINEARIZABILITY_NEVER INT64_MAX

typedef enum linearizability_kind { LINEARIZABILITY_LOOK, LINEARIZABILITY_SWAP } linearizability_kind;

typedef struct linearizability_request {
    linearizability_kind kind;
    int64_t asked_us, answered_us; /* LINEARIZABILITY_NEVER: no answer */
    uint64_t expected;             /* version that a swap expects */
    uint64_t version;              /* version in the answer */
} linearizability_request;

typedef struct linearizability_history { /* zero-initialized it is empty and ready */
    linearizability_request *requests;   /* owned, in the order of the requests */
    size_t count, capacity;
} linearizability_history;

void linearizability_fini(linearizability_history *history);

/* Adds a request that is made now and returns its number. LINEARIZABILITY_REQUESTS_MAX: the history is full, and from
 * then on it proves nothing. */
size_t linearizability_ask(linearizability_history *history, linearizability_kind kind, uint64_t expected,
                           int64_t now_us);
void linearizability_answer(linearizability_history *history, size_t request, uint64_t version, int64_t now_us);

/* `first`: the version before all requests. `forgets`: whether a value at `version` may begin anew at `next`; NULL:
 * never. */
typedef bool linearizability_forgets_fn(uint64_t version, uint64_t next);
bool linearizability_check(const linearizability_history *history, uint64_t first, linearizability_forgets_fn *forgets);
