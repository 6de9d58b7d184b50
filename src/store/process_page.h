/* process_page.h — page of a process in the object store: its hold table, and counters shared with the store server.
 *
 *   page       offset  what                                                       written by
 *   ---------  ------  ---------------------------------------------------------  ------------
 *   released   0       count of holds and pins that the process removed           process
 *   taken      64      count of times objects of the process became GONE          store server
 *   wanted     72      count of requests to return unused stretches               store server
 *   moved      80      count of times objects of the process were spilled, lost   store server
 *   entries    128     the hold table's first entries                             process
 *
 * An entry is the offset of the slot of an object that the process holds (0: none), with HOLD_PINNED while the process
 * has a view of the object. The table grows by chunks that consist of entries only. The store server has a record of
 * each chunk and checks every entry that it reads. */
#pragma once
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

enum { PROCESS_PAGE_BYTES = 16384, HOLDS_CHUNK_BYTES = 16384, PROCESS_PAGE_HEAD_BYTES = 128 };
#define HOLD_PINNED (UINT64_C(1) << 63)

typedef _Atomic uint64_t hold_entry;

typedef struct process_page {
    _Alignas(64) _Atomic uint64_t released;
    _Alignas(64) _Atomic uint64_t taken;
    _Atomic uint64_t wanted;
    _Atomic uint64_t moved;
    _Alignas(64) hold_entry entries[(PROCESS_PAGE_BYTES - PROCESS_PAGE_HEAD_BYTES) / sizeof(hold_entry)];
} process_page;

_Static_assert(offsetof(process_page, taken) == 64 && offsetof(process_page, entries) == PROCESS_PAGE_HEAD_BYTES,
               "layout");
_Static_assert(sizeof(process_page) == PROCESS_PAGE_BYTES, "layout");
enum {
    PROCESS_PAGE_ENTRIES = (PROCESS_PAGE_BYTES - PROCESS_PAGE_HEAD_BYTES) / (int)sizeof(hold_entry),
    CHUNK_ENTRIES = HOLDS_CHUNK_BYTES / (int)sizeof(hold_entry),
};

static inline uint64_t hold_slot(uint64_t entry) { return entry & ~HOLD_PINNED; }
