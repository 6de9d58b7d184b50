/* process_block.h — process block: the state of a process in the machine's shared memory.
 *
 * The arena begins with its header, then PROCESS_BLOCKS_MAX process blocks, then extents (rings, and later objects). A
 * process block belongs to one process: its doorbell (sleep word), the CPU it runs on (so that a waiter can decide
 * whether to spin) and its ready bitmap (which of its incoming rings have records). All references are offsets; other
 * processes write these bytes, so they are checked before use.
 *
 *   field      offset  what                                       written by
 *   ---------  ------  -----------------------------------------  ------------------------------
 *   identity   0       state, pid, process id                     broker
 *   doorbell   64      sleep word, see doorbell.h                 armed by the owner, cleared by senders
 *   cpu        128     CPU it runs on, or PROCESS_BLOCK_CPU_NONE  owner
 *   woke       136     time of its last wake-up, in ticks          owner
 *   summary    192     bit i: ready[i] may be non-zero            senders set, owner clears
 *   ready      256     bit j of word i: link 64 i + j             senders set, owner clears
 */
#pragma once
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

enum {
    PROCESS_BLOCKS_MAX = 2048,
    PROCESS_BLOCK_LINKS_MAX = 4096, /* incoming rings of one process */
    PROCESS_BLOCK_READY_WORDS = PROCESS_BLOCK_LINKS_MAX / 64,
    PROCESS_BLOCK_NONE = PROCESS_BLOCKS_MAX, /* no process block */
    PROCESS_BLOCK_BROKER_INDEX = 0,          /* ready bit of the broker's socket: it has a message */
};
#define PROCESS_BLOCK_CPU_NONE UINT32_MAX

typedef enum process_block_state { PROCESS_BLOCK_FREE, PROCESS_BLOCK_ALIVE, PROCESS_BLOCK_DEAD } process_block_state;

typedef struct process_block {
    _Alignas(64) _Atomic uint32_t state; /* process_block_state */
    uint32_t pid;
    uint64_t process; /* never reused */
    _Alignas(64) _Atomic uint32_t sleep;
    _Alignas(64) _Atomic uint32_t cpu;
    _Atomic uint64_t woke;
    _Alignas(64) _Atomic uint64_t summary;
    _Alignas(64) _Atomic uint64_t ready[PROCESS_BLOCK_READY_WORDS];
} process_block;

_Static_assert(offsetof(process_block, sleep) == 64 && offsetof(process_block, cpu) == 128, "layout");
_Static_assert(offsetof(process_block, summary) == 192 && offsetof(process_block, ready) == 256, "layout");
_Static_assert(sizeof(process_block) == 768, "layout");

typedef struct extent {    /* a range of the arena */
    uint64_t offset, size; /* size == 0: none */
} extent;

typedef struct arena_header {
    uint64_t magic;                          /* ARENA_MAGIC */
    uint32_t version;                        /* ARENA_VERSION; another one is refused */
    uint32_t process_blocks;                 /* PROCESS_BLOCKS_MAX */
    uint64_t size;                           /* of the whole arena */
    uint64_t generation;                     /* random, identifies the arena */
    _Alignas(64) _Atomic uint32_t processes; /* number of process blocks ever used: later ones are free */
} arena_header;

enum { ARENA_PROCESS_BLOCKS_OFFSET = 4096 };
#define ARENA_EXTENTS_OFFSET \
    ((uint64_t)ARENA_PROCESS_BLOCKS_OFFSET + (uint64_t)PROCESS_BLOCKS_MAX * sizeof(process_block))
_Static_assert(ARENA_EXTENTS_OFFSET % 4096 == 0, "extents begin on a page");
