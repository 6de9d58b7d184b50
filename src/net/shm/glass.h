/* glass.h — memory that one process exports read-only to other processes of its machine.
 *
 * One memfd, sealed against shrinking, of which others get a descriptor that can only be read. The owner allocates and
 * frees extents of it; a reader maps all of it, and is told the offsets.
 *
 *   bytes      what
 *   ---------  ------------------------------------------------------------------------
 *   8 8        GLASS_MAGIC, size of the whole
 *   8 …        words, GLASS_WORDS of them; the first is not used
 *   …          stretches (extents.h), from GLASS_FRONT on
 *
 * Words       What changes while somebody may look at it has a word, which counts its changes: it is odd while there is
 *             one under way. A reader that finds the word unchanged after copying has a copy of the state it was told
 *             of; otherwise it asks again. Words only grow, also when they stand for something else later:
 *             so nobody takes what lies there now for what lay there before.
 * Order       change: store odd, release fence, write; write, store even with release. Copying: copy, acquire fence,
 *             load. Bytes that are copied while they change are thrown away, so what was in them does not matter.
 * Memory      Pages are there before a stretch is handed out (fallocate fails where a first touch would kill). The size
 *             is a bound, not a cost: pages that nobody has taken do not exist.
 * Trust       A reader checks every offset against the size of the sealed file. The bytes may be anything, and may
 *             change while they are read: numbers, never lengths.
 * Threads     none: those who share one have a lock. Words are for processes. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "miniray/status.h"

#define GLASS_MAGIC UINT64_C(0x3073616c675f726d)
enum { GLASS_WORDS = 1 << 16, GLASS_FRONT = 8 * (GLASS_WORDS + 512) };

typedef struct glass glass;

/* At most `size` bytes, GLASS_FRONT of which are its own. MR_INVALID, MR_NOMEM, MR_IO. */
MR_MUST mr_status glass_create(uint64_t size, glass **out);
void glass_destroy(glass *glass);        /* NULL: no-op. Those who look still see what was there */
int glass_fd(const glass *glass);        /* for those who look; borrowed */
uint64_t glass_used(const glass *glass); /* bytes that are taken */

/* Zeroed, and aligned to a page. MR_NOMEM; MR_INVALID: of nothing. */
MR_MUST mr_status glass_take(glass *glass, size_t size, void **out);
void glass_give(glass *glass, void *memory); /* what was taken; NULL: no-op */
/* It stays when the glass is gone, and is the caller's to unmap, then; nobody takes it again. */
void glass_leave(glass *glass, void *memory);
/* Where that lies in it; false: it does not, or not wholly. */
bool glass_holds(const glass *glass, const void *memory, size_t size, uint64_t *offset);
bool glass_owns(const glass *glass, const void *memory); /* glass_take gave it, and it was not given back */

uint32_t glass_word_take(glass *glass); /* 0: there is none left */
void glass_word_give(glass *glass, uint32_t word);
void glass_change(glass *glass, uint32_t word);  /* what it stands for is about to change */
void glass_changed(glass *glass, uint32_t word); /* it has */
uint64_t glass_word(const glass *glass, uint32_t word);

/* ---- For those who look. */

typedef struct glass_view { /* zeroed: of nothing */
    const uint8_t *base;
    uint64_t size;
} glass_view;

glass_view glass_own_view(const glass *glass);         /* good while that is there; not to be looked away from */
MR_MUST mr_status glass_look(int fd, glass_view *out); /* fd is not kept. MR_CORRUPT: it is no glass. MR_IO, MR_NOMEM */
void glass_look_away(glass_view *view);

const void *glass_at(const glass_view *view, uint64_t offset, size_t size); /* NULL: it has no such stretch */
/* Copies a stretch as it was when the word had that value; `streams`: past the caches (vector.h), for more than they
 * have room for. False: it has changed since, or cannot be. */
bool glass_copy(const glass_view *view, uint32_t word, uint64_t value, uint64_t offset, size_t size, bool streams,
                void *to);
