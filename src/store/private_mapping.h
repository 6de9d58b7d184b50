/* private_mapping.h — private mapping of the arena for reading objects.
 *
 * Readers use a second mapping of the arena, MAP_PRIVATE: user code that writes into a view (torch has no read-only
 * tensors) changes a private copy of the page in its own process. After the last view of an object such copies are
 * dropped: the next view shows the object as it was sealed. Objects that are read this way begin and end on page
 * boundaries, so that no page has bytes of two objects.
 *
 * A view costs no system call, whatever the object's size. At its end, pages that were only read stay mapped: faulting
 * them in again costs ten times the check for written pages. On Linux 6.7 and later the check is a PAGEMAP_SCAN for the
 * first written page of the range (a microsecond if few pages were touched, a millisecond for a gigabyte that was read
 * completely). On older kernels the process's page map is read, for objects of at most PRIVATE_MAPPING_LOOK_BYTES; for
 * larger objects all pages are dropped.
 *
 * Two thirds of that microsecond are the system call itself. Therefore ranges of up to PRIVATE_MAPPING_LATER_BYTES are
 * checked later, at most PRIVATE_MAPPING_LATER of them, adjacent ones with one call: when no more ranges can wait, or
 * before a view shows a page of one of them. Until then their private copies use memory, at most the size of these
 * ranges. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "miniray/status.h"
#include "net/shm/arena.h"

enum { PRIVATE_MAPPING_LOOK_BYTES = 4 << 20, PRIVATE_MAPPING_LATER = 8, PRIVATE_MAPPING_LATER_BYTES = 2 << 20 };

typedef struct private_mapping_range { /* whole pages */
    uint64_t offset, size;
} private_mapping_range;

typedef struct private_mapping {
    uint8_t *base; /* owned */
    uint64_t size;
    uint64_t page;
    int pagemap_fd; /* owned; -1: unavailable, so all pages are dropped */
    bool can_scan;  /* the kernel has PAGEMAP_SCAN */
    uint32_t later_count;
    /* ranges that are not viewed any more but not checked yet: in order, without common pages */
    private_mapping_range later[PRIVATE_MAPPING_LATER];
} private_mapping;

#define PRIVATE_MAPPING_NONE ((struct private_mapping){.pagemap_fd = -1})

MR_MUST mr_status private_mapping_open(const arena *arena, private_mapping *out);
void private_mapping_close(private_mapping *mapping); /* base NULL: a no-op */

/* The address of these bytes in the private mapping; they have the content that was sealed. */
void *private_mapping_view(private_mapping *mapping, uint64_t offset, uint64_t size);
/* Makes a private copy of each page, which stays valid when the arena changes. */
void private_mapping_keep(private_mapping *mapping, uint64_t offset, uint64_t size);
/* Ends the last view of these bytes: private copies of their pages are dropped. `offset` is a page boundary. */
void private_mapping_drop(private_mapping *mapping, uint64_t offset, uint64_t size);
