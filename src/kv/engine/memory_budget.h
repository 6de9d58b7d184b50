/* memory_budget.h — memory budget of a server, and the credit it grants from the budget.
 *
 * A server grants (ps/credit.h) a quarter of the budget to the ranks, for pushes in flight, and an eighth to its
 * predecessors in the chains. The rest is for the values. A server whose process has reached the budget refuses pushes
 * until it uses less memory, because slots have moved to other servers, rows were evicted or tables were dropped.
 *
 * Threads     the one that runs the owner's event loop. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#define MEMORY_BUDGET_LOOK_US INT64_C(50000) /* interval between two readings of the process's memory use */
#define MEMORY_BUDGET_LEAST   (UINT64_C(64) << 20)

typedef struct memory_budget {
    uint64_t bytes; /* the whole budget */
    int64_t look_us;
    bool full;
    bool shared; /* the process has other parts, so its memory use is not the server's */
} memory_budget;

/* `bytes` 0: the default. The budget is at least MEMORY_BUDGET_LEAST. */
void memory_budget_init(memory_budget *budget, uint64_t bytes);
uint64_t memory_budget_of_ranks(const memory_budget *budget);
uint64_t memory_budget_of_links(const memory_budget *budget);

/* reads the memory use again if the last reading is old */
bool memory_budget_is_full(memory_budget *budget, int64_t now_us);
/* Bytes of memory of this process; 0: unknown. */
uint64_t memory_budget_resident(const memory_budget *budget);
