/* memory_budget.c — see memory_budget.h. */
#include "kv/engine/memory_budget.h"

#include <malloc.h>
#include <stdio.h>
#include <unistd.h>

#include "base/log.h"
#include "base/text_file.h"
#include "net/shm/memory_headroom.h"

/* Half of the free memory of the machine, or of the process's cgroup; 1 GB if that is unknown. */
static uint64_t default_bytes(void) {
    uint64_t left = memory_headroom_bytes();
    return left == MEMORY_HEADROOM_UNKNOWN ? UINT64_C(1) << 30 : left / 2;
}

void memory_budget_init(memory_budget *budget, uint64_t bytes) {
    if (bytes == 0) bytes = default_bytes();
    *budget = (struct memory_budget){.bytes = bytes < MEMORY_BUDGET_LEAST ? MEMORY_BUDGET_LEAST : bytes,
                                     .look_us = INT64_MIN};
}

uint64_t memory_budget_of_ranks(const memory_budget *budget) { return budget->bytes / 4; }
uint64_t memory_budget_of_links(const memory_budget *budget) { return budget->bytes / 8; }

uint64_t memory_budget_resident(const memory_budget *budget) {
    char text[128];
    unsigned long long pages;
    bool known = !budget->shared && text_file_read("/proc/self/statm", text, sizeof text) &&
                 sscanf(text, "%*s %llu", &pages) == 1;
    return known ? pages * (uint64_t)sysconf(_SC_PAGESIZE) : 0;
}

/* Freed memory counts as used until the allocator returns it to the system. */
bool memory_budget_is_full(memory_budget *budget, int64_t now_us) {
    if (now_us < budget->look_us) return budget->full;
    bool was = budget->full;
    budget->look_us = now_us + MEMORY_BUDGET_LOOK_US;
    budget->full = memory_budget_resident(budget) >= budget->bytes;
    if (budget->full) {
        malloc_trim(0);
        budget->full = memory_budget_resident(budget) >= budget->bytes;
    }
    if (budget->full && !was)
        log_warn("this server has used its memory (%llu MB): pushes wait until some is free; start more servers, or "
                 "raise --memory",
                 (unsigned long long)(budget->bytes >> 20));
    return budget->full;
}
