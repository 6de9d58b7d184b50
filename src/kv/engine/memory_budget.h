/* memory_budget.h — memory budget of a server, and the credit it grants from the budget.
 *
 * A server grants (ps/credit.h) a quarter of the budget to the ranks, for pushes under way, and an eighth to its
 * predecessors in the chains. The rest is for the values, which grow with the pushes. When the process has reached its
 * budget, the server refuses pushes until it uses less: slots have moved to other servers, rows were evicted, tables
 * dropped. A server never ends for want of memory that it could have foreseen.
 *
 * Threads     that of its owner's loop. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#define MEMORY_BUDGET_LOOK_US INT64_C(50000) /* pause between two readings of the process's memory */
#define MEMORY_BUDGET_LEAST   (UINT64_C(64) << 20)

typedef struct memory_budget {
    uint64_t bytes; /* of the whole */
    int64_t look_us;
    bool full;
    bool shared; /* the process has other parts, so its memory use says nothing */
} memory_budget;

/* 0: the default; never less than MEMORY_BUDGET_LEAST */
void memory_budget_init(memory_budget *budget, uint64_t bytes);
uint64_t memory_budget_of_ranks(const memory_budget *budget);
uint64_t memory_budget_of_links(const memory_budget *budget);

bool memory_budget_is_full(memory_budget *budget, int64_t now_us); /* reads the memory use again if it is old */
/* bytes of memory of this process; 0: not known */
uint64_t memory_budget_resident(const memory_budget *budget);
