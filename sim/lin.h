/* lin.h — is this history linearizable? Per key, for values that are changed by compare-and-swap.
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

enum { LIN_REQUESTS_MAX = 4096 };
#define LIN_NEVER INT64_MAX

typedef enum lin_kind { LIN_LOOK, LIN_SWAP } lin_kind;

typedef struct lin_request {
    lin_kind kind;
    int64_t asked_us, answered_us; /* LIN_NEVER: it was not */
    uint64_t expected;             /* of a swap */
    uint64_t version;              /* of the answer */
} lin_request;

typedef struct lin_history { /* zero-initialized it is empty and ready */
    lin_request *requests;   /* owned, in the order in which they were asked */
    size_t count, capacity;
} lin_history;

void lin_fini(lin_history *history);

/* The number of a request that is asked now; it is not answered yet. LIN_REQUESTS_MAX: the history is full, and this
 * one is not in it: from then on it says nothing. */
size_t lin_ask(lin_history *history, lin_kind kind, uint64_t expected, int64_t now_us);
void lin_answer(lin_history *history, size_t request, uint64_t version, int64_t now_us);

/* `first`: the version before everything. `forgets`: may a value at `version` begin anew at `next`? NULL: never. */
typedef bool lin_forgets_fn(uint64_t version, uint64_t next);
bool lin_check(const lin_history *history, uint64_t first, lin_forgets_fn *forgets);
