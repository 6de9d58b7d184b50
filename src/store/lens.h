/* lens.h — private mapping of the arena for reading objects.
 *
 * Readers see the arena through a second mapping, MAP_PRIVATE: user code that writes into what it was given (torch has
 * no read-only tensors) changes a copy of the page that only its process sees. After the last view of an object such
 * copies go: the next view shows the object as it was sealed. Objects that are read this way begin and end on pages, so
 * that no page has bytes of two.
 *
 * Mapping costs nothing per object, whatever its size. Letting go: pages that were only read stay mapped, for to fault
 * them in again costs ten times the look whether one was written. Linux from 6.7 on is asked for the first written page
 * of a range (PAGEMAP_SCAN: a microsecond where little was touched, a millisecond for a gigabyte that was read
 * through); elsewhere the page map of the process is read, for at most LENS_LOOK_BYTES; larger objects drop all they
 * touched.
 *
 * Two thirds of that microsecond are the system call itself. So ranges up to LENS_LATER_BYTES are looked at later,
 * LENS_LATER of them at most, and those that are neighbours at once: when there is no room for another one, or before a
 * view shows any page of them. Until then their copies stay, which are at most that much. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "miniray/status.h"
#include "net/shm/arena.h"

enum { LENS_LOOK_BYTES = 4 << 20, LENS_LATER = 8, LENS_LATER_BYTES = 2 << 20 };

typedef struct lens_range { /* whole pages */
    uint64_t offset, size;
} lens_range;

typedef struct lens {
    uint8_t *base; /* owned */
    uint64_t size;
    uint64_t page;
    int pagemap_fd; /* owned; -1: not to be had here, everything is dropped */
    bool can_scan;  /* PAGEMAP_SCAN is there */
    uint32_t later_count;
    lens_range later[LENS_LATER]; /* dropped, but not looked at yet: in order, without common pages, none is viewed */
} lens;

#define LENS_NONE ((struct lens){.pagemap_fd = -1})

MR_MUST mr_status lens_open(const arena *arena, lens *out);
void lens_close(lens *lens); /* one without a mapping (base NULL) is a no-op */

/* Where these bytes are seen, as others have sealed them. */
void *lens_view(lens *lens, uint64_t offset, uint64_t size);
/* Makes each page the process's own copy, whatever becomes of the arena. */
void lens_keep(lens *lens, uint64_t offset, uint64_t size);
/* Nobody views them any more. `offset` is the beginning of a page. */
void lens_drop(lens *lens, uint64_t offset, uint64_t size);
