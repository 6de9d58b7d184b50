/* shm_export.h — memory that one process exports read-only to other processes of its machine.
 *
 * An export is one memfd, sealed against shrinking; other processes get a read-only descriptor. The owner allocates and
 * frees extents of it; a reader maps the whole file and receives offsets in messages.
 *
 *   bytes      what
 *   ---------  ------------------------------------------------------------------------
 *   8 8        SHM_EXPORT_MAGIC, size of the whole
 *   8 …        SHM_EXPORT_WORDS words; the first is not used
 *   …          extents (extent_allocator.h), from SHM_EXPORT_FRONT on
 *
 * Words       Data that changes while readers may copy it has a word, which counts its changes (a seqlock): the word is
 *             odd during a change. A reader that finds the word unchanged after copying has a copy of the announced
 *             state; otherwise it must request the state again. Words only grow, also when they are reused for other
 *             data: a reader never takes new data for the previous data of that place.
 * Order       change: store odd, release fence, write; write, store even with release. Copying: copy, acquire fence,
 *             load. Bytes that are copied while they change are discarded, so their content does not matter.
 * Memory      Pages are allocated with an extent (fallocate fails where a first access would kill the process). The
 *             size is a bound, not a cost: pages of extents that were never taken do not exist.
 * Trust       A reader checks every offset against the size of the sealed file. The bytes may be arbitrary and may
 *             change while they are read: they are data, never lengths.
 * Threads     One at a time: threads that share an export use a lock. Words synchronize processes. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "miniray/status.h"

#define SHM_EXPORT_MAGIC UINT64_C(0x3073616c675f726d)
enum { SHM_EXPORT_WORDS = 1 << 16, SHM_EXPORT_FRONT = 8 * (SHM_EXPORT_WORDS + 512) };

typedef struct shm_export shm_export;

/* Creates an export of at most `size` bytes, of which SHM_EXPORT_FRONT are its own. MR_INVALID, MR_NOMEM, MR_IO. */
MR_MUST mr_status shm_export_create(uint64_t size, shm_export **out);
void shm_export_destroy(shm_export *export);        /* NULL: no effect. Readers still see the last content */
int shm_export_fd(const shm_export *export);        /* for readers; borrowed */
uint64_t shm_export_used(const shm_export *export); /* bytes in taken extents */

/* Allocates zeroed memory, aligned to a page. MR_NOMEM; MR_INVALID: size 0. */
MR_MUST mr_status shm_export_take(shm_export *export, size_t size, void **out);
void shm_export_give(shm_export *export, void *memory); /* memory from shm_export_take; NULL: no effect */
/* The memory stays mapped after shm_export_destroy, and the caller unmaps it; shm_export_take never returns it
 * again. */
void shm_export_leave(shm_export *export, void *memory);
/* Finds the offset of this memory in the export; false if it is not entirely within it. */
bool shm_export_holds(const shm_export *export, const void *memory, size_t size, uint64_t *offset);
/* Whether the memory came from shm_export_take and was not given back. */
bool shm_export_owns(const shm_export *export, const void *memory);

uint32_t shm_export_word_take(shm_export *export); /* 0: none left */
void shm_export_word_give(shm_export *export, uint32_t word);
void shm_export_change(shm_export *export, uint32_t word);  /* before a change of the word's data */
void shm_export_changed(shm_export *export, uint32_t word); /* after the change */
uint64_t shm_export_word(const shm_export *export, uint32_t word);

/* ---- Readers. */

typedef struct shm_import { /* zero-initialized: empty */
    const uint8_t *base;
    uint64_t size;
} shm_import;

/* The import is valid while the export is, and must not be closed. */
shm_import shm_export_import(const shm_export *export);
/* The descriptor is not kept. MR_CORRUPT: not an export. MR_IO, MR_NOMEM. */
MR_MUST mr_status shm_import_open(int fd, shm_import *out);
void shm_import_close(shm_import *import);

const void *shm_import_at(const shm_import *import, uint64_t offset, size_t size); /* NULL: out of bounds */
/* Copies an extent if the word still has that value afterwards. `streams`: bypasses the caches (simd.h), for copies
 * larger than they are. False: the data has changed, or the extent is out of bounds. */
bool shm_import_copy(const shm_import *import, uint32_t word, uint64_t value, uint64_t offset, size_t size,
                     bool streams, void *to);
