/* private_mapping.h — private mapping of the arena for reading objects.
 *
 * Readers see the arena through a second mapping, MAP_PRIVATE: user code that writes into a view (torch has no
 * read-only tensors) changes a copy of the page that only its process sees. After the last view of an object such
 * copies go: the next view shows the object as it was sealed. Objects that are read this way begin and end on pages, so
 * that no page has bytes of two.
 *
 * Mapping costs nothing per object, whatever its size. Letting go: pages that were only read stay mapped, for to fault
 * them in again costs ten times the look whether one was written. Linux from 6.7 on is asked for the first written page
 * of a range (PAGEMAP_SCAN: a microsecond where little was touched, a millisecond for a gigabyte that was read
 * through); elsewhere the page map of the process is read, for at most PRIVATE_MAPPING_LOOK_BYTES; larger objects drop
 * all they touched.
 *
 * Two thirds of that microsecond are the system call itself. So ranges up to PRIVATE_MAPPING_LATER_BYTES are looked at
 * later, PRIVATE_MAPPING_LATER of them at most, and those that are neighbours at once: when there is no room for
 * another one, or before a view shows any page of them. Until then their copies stay, which are at most that much. */
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
    int pagemap_fd; /* owned; -1: not to be had here, everything is dropped */
    bool can_scan;  /* PAGEMAP_SCAN is there */
    uint32_t later_count;
    /* dropped, but not looked at yet: in order, without common pages, none is viewed */
    private_mapping_range later[PRIVATE_MAPPING_LATER];
} private_mapping;

#define PRIVATE_MAPPING_NONE ((struct private_mapping){.pagemap_fd = -1})

MR_MUST mr_status private_mapping_open(const arena *arena, private_mapping *out);
void private_mapping_close(private_mapping *mapping); /* one without a mapping (base NULL) is a no-op */

/* The address of these bytes in the private mapping, as others have sealed them. */
void *private_mapping_view(private_mapping *mapping, uint64_t offset, uint64_t size);
/* Makes each page the process's own copy, whatever becomes of the arena. */
void private_mapping_keep(private_mapping *mapping, uint64_t offset, uint64_t size);
/* No view shows them any more. `offset` is the beginning of a page. */
void private_mapping_drop(private_mapping *mapping, uint64_t offset, uint64_t size);
