/* shm_export.h — memory that one process exports read-only to other processes of its machine.
 *
 * One memfd, sealed against shrinking, of which others get a descriptor that can only be read. The owner allocates and
 * frees extents of it; a reader maps all of it, and receives the offsets in messages.
 *
 *   bytes      what
 *   ---------  ------------------------------------------------------------------------
 *   8 8        SHM_EXPORT_MAGIC, size of the whole
 *   8 …        words, SHM_EXPORT_WORDS of them; the first is not used
 *   …          extents (extent_allocator.h), from SHM_EXPORT_FRONT on
 *
 * Words       Data that changes while readers may copy it has a word, which counts its changes (a seqlock): the word is
 *             odd while a change is under way. A reader that finds the word unchanged after copying has a copy of the
 *             state that was announced to it; otherwise it asks again. Words only grow, also when they stand for other
 *             data later: so no reader takes new data for the data that lay there before.
 * Order       change: store odd, release fence, write; write, store even with release. Copying: copy, acquire fence,
 *             load. Bytes that are copied while they change are thrown away, so their content does not matter.
 * Memory      Pages exist before an extent is handed out (fallocate fails where a first touch would kill). The size
 *             is a bound, not a cost: pages of extents that were never taken do not exist.
 * Trust       A reader checks every offset against the size of the sealed file. The bytes may be anything, and may
 *             change while they are read: numbers, never lengths.
 * Threads     one at a time: threads that share an export have a lock. Words are for processes. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "miniray/status.h"

#define SHM_EXPORT_MAGIC UINT64_C(0x3073616c675f726d)
enum { SHM_EXPORT_WORDS = 1 << 16, SHM_EXPORT_FRONT = 8 * (SHM_EXPORT_WORDS + 512) };

typedef struct shm_export shm_export;

/* At most `size` bytes, SHM_EXPORT_FRONT of which are its own. MR_INVALID, MR_NOMEM, MR_IO. */
MR_MUST mr_status shm_export_create(uint64_t size, shm_export **out);
void shm_export_destroy(shm_export *export);        /* NULL: no-op. Readers still see its last content */
int shm_export_fd(const shm_export *export);        /* for readers; borrowed */
uint64_t shm_export_used(const shm_export *export); /* bytes that are taken */

/* Zeroed, and aligned to a page. MR_NOMEM; MR_INVALID: of nothing. */
MR_MUST mr_status shm_export_take(shm_export *export, size_t size, void **out);
void shm_export_give(shm_export *export, void *memory); /* that shm_export_take gave; NULL: no-op */
/* The memory stays when the export is gone, for the caller to unmap then; shm_export_take gives it to no one again. */
void shm_export_leave(shm_export *export, void *memory);
/* The offset of that memory in the export; false: it does not lie in it, or not wholly. */
bool shm_export_holds(const shm_export *export, const void *memory, size_t size, uint64_t *offset);
/* shm_export_take gave it, and it was not given back */
bool shm_export_owns(const shm_export *export, const void *memory);

uint32_t shm_export_word_take(shm_export *export); /* 0: there is none left */
void shm_export_word_give(shm_export *export, uint32_t word);
void shm_export_change(shm_export *export, uint32_t word);  /* the word's data is about to change */
void shm_export_changed(shm_export *export, uint32_t word); /* it has */
uint64_t shm_export_word(const shm_export *export, uint32_t word);

/* ---- Readers. */

typedef struct shm_import { /* zeroed: of nothing */
    const uint8_t *base;
    uint64_t size;
} shm_import;

/* valid while the export is; not to be closed */
shm_import shm_export_import(const shm_export *export);
/* fd is not kept. MR_CORRUPT: it is no export. MR_IO, MR_NOMEM */
MR_MUST mr_status shm_import_open(int fd, shm_import *out);
void shm_import_close(shm_import *import);

const void *shm_import_at(const shm_import *import, uint64_t offset, size_t size); /* NULL: it has no such extent */
/* Copies an extent as it was when the word had that value; `streams`: past the caches (simd.h), for more than they
 * have room for. False: it has changed since, or cannot be. */
bool shm_import_copy(const shm_import *import, uint32_t word, uint64_t value, uint64_t offset, size_t size,
                     bool streams, void *to);
