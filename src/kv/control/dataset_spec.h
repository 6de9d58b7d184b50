/* dataset_spec.h — dataset specification: shards and their sizes, agreed once by the workers of a deployment.
 *
 * The first worker decides, by a compare-and-swap of DATASET_SPEC_KEY at the metadata store; later workers must give
 * the same specification. Shards have numbers from 0 on, and so many items each; only workers know what an item is.
 *
 *   bytes  content (v: varint, base/varint.h)
 *   1  DATASET_SPEC_LAYOUT
 *   v v …  shards, and the items of each
 *
 * Threads  that of the metadata store's loop. */
#pragma once
#include "cluster/consumer_group.h"
#include "kv/control/cas_update.h"

#define DATASET_SPEC_KEY "data"
enum { DATASET_SPEC_LAYOUT = 1, DATASET_SPEC_PARTS_MAX = CONSUMER_GROUP_PARTS_MAX };
#define DATASET_SPEC_ITEMS_MAX (UINT64_C(1) << 56) /* of all shards together */

typedef struct dataset_spec { /* zero-initialized: none */
    uint64_t *sizes;          /* owned */
    uint32_t count;
} dataset_spec;

MR_MUST mr_status dataset_spec_init(dataset_spec *spec, const uint64_t *sizes,
                                    uint32_t count); /* copies. MR_INVALID, MR_TOO_LARGE */
void dataset_spec_fini(dataset_spec *spec);

size_t dataset_spec_size(const dataset_spec *spec);
void dataset_spec_encode(const dataset_spec *spec, writer *writer);
MR_MUST mr_status dataset_spec_decode(span bytes, dataset_spec *out); /* MR_CORRUPT; *out is then unchanged */

/* Agrees on this specification at the metadata store; it is borrowed until cas_update_end. MR_EXISTS: another
 * specification holds, and the error describes it. */
cas_update *dataset_spec_decide(metadata_store store, dataset_spec *spec);
