/* arena.h — the machine's shared memory: one memfd, mapped by every process of the machine.
 *
 * The owner (the broker) creates the arena; other processes map the descriptor that they receive. The file is sealed
 * against shrinking and growing, so no process can make another one fault by truncating it. Pages are backed before
 * use: the owner has a watermark below which every page exists (fallocate, which fails cleanly without memory, then
 * MADV_POPULATE_WRITE), raises it ahead of use in a helper thread, and allocates nothing above it: no SIGBUS, and no
 * page fault on the hot path.
 *
 * A client's mapping is read-only behind the process blocks, except where arena_allow was called: its rings, its
 * extents and the slots of objects that it has taken. A stray write into an object of another process ends the writer
 * with SIGSEGV. A range that is returned stays writable: changing warm pages back costs a large part of copying them
 * (docs/decisions/034-stray-writes.md). */
#pragma once
#include <stdatomic.h>
#include <stdbool.h>

#include "miniray/status.h"
#include "net/shm/process_block.h"

#define ARENA_MAGIC UINT64_C(0x414e455241594152)
enum { ARENA_VERSION = 2 };

typedef struct arena { /* a mapping in this process */
    uint8_t *base;
    uint64_t size;
    int fd; /* owned */
    _Atomic uint64_t
        *allowed; /* owned: a bit for each ARENA_ALLOW_BYTES that arena_allow made writable; NULL: all are */
} arena;

enum { ARENA_ALLOW_BYTES = 4096 };

/* Owner: creates and maps an arena, zeroed. `size` is rounded up to pages; MR_INVALID below ARENA_SIZE_MIN, MR_NOMEM if
 * the machine (or its memory cgroup) has less memory. Initially only the header and the process blocks are backed. */
#define ARENA_SIZE_MIN (ARENA_EXTENTS_OFFSET + (1u << 20))
MR_MUST mr_status arena_create(uint64_t size, arena *out);

/* Client: maps a received descriptor (moved: closed on failure too) after checking its size, seals, magic and
 * version. */
MR_MUST mr_status arena_map(int fd, uint64_t size, arena *out);
void arena_unmap(arena *arena);

static inline process_block *arena_process_block(const arena *arena, uint32_t index) {
    return (process_block *)(void *)(arena->base + ARENA_PROCESS_BLOCKS_OFFSET) + index;
}
/* True if the extent is entirely after the process blocks and within the arena, and aligned to 64 bytes. */
bool arena_holds(const arena *arena, extent extent);
static inline void *arena_at(const arena *arena, uint64_t offset) { return arena->base + offset; }

/* Backs all pages between `from` and `end`. Owner only; used to raise the watermark. MR_NOMEM. */
MR_MUST mr_status arena_back(arena *arena, uint64_t from, uint64_t end);

/* Returns the whole pages in between to the machine; they read as zeros and must be backed again before use. Owner
 * only, and only where no extent is in use. */
MR_MUST mr_status arena_punch(arena *arena, uint64_t from, uint64_t end);

/* Makes a range writable in this process; a comparison if it is already. Callable from any thread. If the kernel
 * refuses (too many mappings), the whole arena becomes writable. */
void arena_allow_now(const arena *arena, uint64_t from, uint64_t end);
static inline bool arena_allows(const arena *arena, uint64_t offset) { /* one byte */
    uint64_t unit = offset / ARENA_ALLOW_BYTES;
    return arena->allowed == NULL || offset < ARENA_EXTENTS_OFFSET ||
           (atomic_load_explicit(&arena->allowed[unit / 64], memory_order_relaxed) >> (unit % 64) & 1) != 0;
}
static inline void arena_allow(const arena *arena, extent extent) {
    if (arena->allowed != NULL) arena_allow_now(arena, extent.offset, extent.offset + extent.size);
}

/* Allows and fills this process's page tables for a backed range, so that first use does not fault. */
MR_MUST mr_status arena_populate(const arena *arena, uint64_t from, uint64_t end);
