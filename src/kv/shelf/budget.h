/* budget.h — memory budget of a server, and the credit it grants from the budget.
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

#define BUDGET_LOOK_US INT64_C(50000) /* pause between two looks at what the process has */
#define BUDGET_LEAST   (UINT64_C(64) << 20)

typedef struct budget {
    uint64_t bytes; /* of the whole */
    int64_t look_us;
    bool full;
    bool shared; /* others are in the same process, so what it has says nothing */
} budget;

void budget_init(budget *budget, uint64_t bytes); /* 0: the default; never less than BUDGET_LEAST */
uint64_t budget_of_ranks(const budget *budget);
uint64_t budget_of_links(const budget *budget);

bool budget_is_full(budget *budget, int64_t now_us); /* looks again if the last look is old */
uint64_t budget_resident(const budget *budget);      /* bytes of memory that this process has; 0: not known */
