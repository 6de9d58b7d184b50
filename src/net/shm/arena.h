/* arena.h — the machine's shared memory: one memfd, mapped by every process of the machine.
 *
 * The owner (the broker) creates it; others map the descriptor they are handed. The file is sealed against shrinking
 * and growing, so no process can make another fault by truncating it. Pages are backed before they are handed out: the
 * owner keeps a watermark below which every page exists (fallocate, which fails cleanly where memory has run out, then
 * MADV_POPULATE_WRITE), moves it ahead of use from a helper thread, and never hands out a byte above it: no SIGBUS, and
 * no page fault on the hot path. */
#pragma once
#include <stdbool.h>

#include "miniray/status.h"
#include "net/shm/process_block.h"

#define ARENA_MAGIC UINT64_C(0x414e455241594152)
enum { ARENA_VERSION = 2 };

typedef struct arena { /* a mapping in this process */
    uint8_t *base;
    uint64_t size;
    int fd; /* owned */
} arena;

/* Owner's side: makes and maps it, zeroed. `size` is rounded up to pages; MR_INVALID below ARENA_SIZE_MIN, MR_NOMEM
 * when the machine (or its memory cgroup) has not that much. Only the header and the process blocks are backed at
 * first. */
#define ARENA_SIZE_MIN (ARENA_EXTENTS_OFFSET + (1u << 20))
MR_MUST mr_status arena_create(uint64_t size, arena *out);

/* Client's side: maps a descriptor that was handed over (moved: closed on failure too) after checking its size, seals,
 * magic and version. */
MR_MUST mr_status arena_map(int fd, uint64_t size, arena *out);
void arena_unmap(arena *arena);

static inline process_block *arena_process_block(const arena *arena, uint32_t index) {
    return (process_block *)(void *)(arena->base + ARENA_PROCESS_BLOCKS_OFFSET) + index;
}
/* True if the extent lies wholly behind the process blocks and inside the arena and is aligned to 64 bytes. */
bool arena_holds(const arena *arena, extent extent);
static inline void *arena_at(const arena *arena, uint64_t offset) { return arena->base + offset; }

/* Makes sure that everything below `end` is backed. Owner only; used by the watermark and when it is outrun. MR_NOMEM.
 */
MR_MUST mr_status arena_back(arena *arena, uint64_t from, uint64_t end);

/* Gives the whole pages in between back to the machine; they read as zeros and must be backed again before use. Owner
 * only, and only where no extent is in use. */
MR_MUST mr_status arena_punch(arena *arena, uint64_t from, uint64_t end);

/* Makes this process's page tables point at a stretch that is backed, so that first use does not fault. */
MR_MUST mr_status arena_populate(const arena *arena, uint64_t from, uint64_t end);
