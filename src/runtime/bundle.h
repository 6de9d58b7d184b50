/* bundle.h — the values of one call, packed into one piece of memory: the arguments of a task, or what it returns.
 *
 *   offset        bundle
 *   ------------  ------------------------------------------------------------------------------------------
 *   0             count u32, then 4 zero bytes
 *   8 + 32 i      of value i: parcel offset u64, parcel size u64, region offset u64, region size u64
 *                 parcels, each at a multiple of 8; regions, each at a multiple of 64 (net/value.h)
 *
 * A bundle travels inside a message if it is small and as its body otherwise, and is used where it arrived: nothing is
 * copied out of it. It is shared: each object, view and task that uses it holds a reference. Not thread-safe:
 * references are counted with the context's lock held. */
#pragma once
#include "base/bytes.h"
#include "miniray/value.h"

enum { BUNDLE_VALUES_MAX = 65536, BUNDLE_INLINE_MAX = 32 * 1024, BUNDLE_OUT_OF_LINE = 1024 };

typedef struct bundle { /* its bytes follow, 64 behind its own address, which is a multiple of 64 */
    uint32_t refs;
    uint32_t count;
    size_t size;
    uint8_t *bytes;
    void *memory; /* what was allocated */
} bundle;

typedef struct bundle_item { /* a value to pack: an argument, or a value of another bundle */
    const mr_arg *arg;
    const bundle *from;
    uint32_t index;
} bundle_item;

MR_MUST mr_status bundle_create(const bundle_item *items, size_t count, bundle **out); /* MR_INVALID, MR_NOMEM */

/* Room for a bundle that arrives; after its bytes are there, bundle_check says whether they are one. */
MR_MUST mr_status bundle_room(size_t size, bundle **out);
MR_MUST mr_status bundle_check(bundle *bundle);

bundle *bundle_ref(bundle *bundle);
void bundle_unref(bundle *bundle); /* NULL is a no-op */

void bundle_value(const bundle *bundle, uint32_t index, span *parcel, span *region);
