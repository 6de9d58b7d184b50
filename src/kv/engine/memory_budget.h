/* memory_budget.h — memory budget of a server, and the credit it grants from the budget.
 *
 * Of the whole a quarter is for what ranks have under way to it, shared out among them, and an eighth for what comes
 * down the chains: that is what it grants (ps/credit.h). The rest is for the values. They grow with what is pushed;
 * when the process has as much as it may have, pushes are refused until it has less: slots have moved to other
 * servers, rows were evicted, tables dropped. A server never ends for want of memory that it could have seen coming.
 *
 * Threads     that of its owner's loop. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#define MEMORY_BUDGET_LOOK_US INT64_C(50000) /* pause between two looks at what the process has */
#define MEMORY_BUDGET_LEAST   (UINT64_C(64) << 20)

typedef struct memory_budget {
    uint64_t bytes; /* of the whole */
    int64_t look_us;
    bool full;
    bool shared; /* others are in the same process, so what it has says nothing */
} memory_budget;

/* 0: the default; never less than MEMORY_BUDGET_LEAST */
void memory_budget_init(memory_budget *budget, uint64_t bytes);
uint64_t memory_budget_of_ranks(const memory_budget *budget);
uint64_t memory_budget_of_links(const memory_budget *budget);

bool memory_budget_is_full(memory_budget *budget, int64_t now_us); /* looks again if the last look is old */
/* bytes of memory that this process has; 0: not known */
uint64_t memory_budget_resident(const memory_budget *budget);
