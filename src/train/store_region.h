/* store_region.h — object of the store that its owner, a worker, keeps writable and other processes find by name.
 *
 * A region is one object of the store, a tensor of bytes, that its owner holds and views, so that the object does not
 * move. A process that gets the region's name takes a hold of its own without a message to another process, or finds
 * that the region was deleted: no reference travels, which would have to be borrowed, kept and given back
 * (runtime/refs). */
#pragma once
#include "miniray/runtime.h"
#include "store/object_header.h"

struct stored_object;

enum { STORE_REGION_PAGE = 64 * 1024 }; /* no machine's pages are larger */

typedef struct store_region_name { /* travels as bytes; the same machine reads it, and anything may be in it */
    object_ref ref;
    uint64_t size; /* of the object */
} store_region_name;
_Static_assert(sizeof(store_region_name) == 40, "layout");

typedef struct store_region_place { /* where it lies, in the mapping that every process has: on a page */
    uint8_t *bytes;
    uint64_t offset; /* in the arena */
    int fd;          /* of the arena; borrowed */
} store_region_place;

/* ---- Of the owner. A zeroed one holds nothing. */

typedef struct store_region {
    mr_context *mr; /* borrowed */
    mr_ref ref;
    mr_value held; /* and viewed: it is neither freed nor moved */
    store_region_name name;
    store_region_place place;
} store_region;

/* The initial content is undefined. MR_NOMEM, MR_TOO_LARGE; MR_CLOSED: this process has no store. */
MR_MUST mr_status store_region_open(mr_context *mr, size_t bytes, store_region *out);
void store_region_close(store_region *region); /* also after mr_shutdown */

/* ---- Of others. */

/* A hold, and the place of the region while held. MR_OBJECT_LOST: the region is gone. MR_INVALID, MR_CORRUPT: the name
 * is not that of a region, or the region is smaller than `bytes`. MR_CLOSED: there is no store. */
MR_MUST mr_status store_region_hold(mr_context *mr, const store_region_name *name, size_t bytes,
                                    struct stored_object **held, store_region_place *out);
void store_region_let_go(mr_context *mr, struct stored_object *held);
