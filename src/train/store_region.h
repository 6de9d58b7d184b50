/* store_region.h — object of the store that its owner, a worker, writes at any time and other processes find by name.
 *
 * A region is one object of the store, a tensor of bytes, that its owner holds and views, so that the object does not
 * move. A process that receives the region's name takes a hold of its own without a message to another process, or
 * finds that the region was deleted. A name needs no borrow protocol (runtime/refs), as a reference would. */
#pragma once
#include "miniray/runtime.h"
#include "store/object_header.h"

struct stored_object;

enum { STORE_REGION_PAGE = 64 * 1024 }; /* the largest page size of any supported machine */

typedef struct store_region_name { /* sent as bytes on the same machine; a received one may contain any bytes */
    object_ref ref;
    uint64_t size; /* of the object */
} store_region_name;
_Static_assert(sizeof(store_region_name) == 40, "layout");

typedef struct store_region_place { /* the page-aligned place in this process's mapping of the arena */
    uint8_t *bytes;
    uint64_t offset; /* in the arena */
    int fd;          /* of the arena; borrowed */
} store_region_place;

/* ---- Owner. A zeroed store_region is closed. */

typedef struct store_region {
    mr_context *mr; /* borrowed */
    mr_ref ref;
    mr_value held; /* a view: the object is neither freed nor moved */
    store_region_name name;
    store_region_place place;
} store_region;

/* The initial content is undefined. MR_NOMEM, MR_TOO_LARGE; MR_CLOSED: this process has no store. */
MR_MUST mr_status store_region_open(mr_context *mr, size_t bytes, store_region *out);
void store_region_close(store_region *region); /* also after mr_shutdown */

/* ---- Other processes. */

/* Takes a hold. *out is the place of the region while it is held. MR_OBJECT_LOST: the region is gone. MR_INVALID,
 * MR_CORRUPT: the name is not that of a region, or the region is smaller than `bytes`. MR_CLOSED: this process has no
 * store. */
MR_MUST mr_status store_region_hold(mr_context *mr, const store_region_name *name, size_t bytes,
                                    struct stored_object **held, store_region_place *out);
void store_region_let_go(mr_context *mr, struct stored_object *held);
