/* dataset_spec.h — dataset specification: shards and their sizes, agreed once by the workers of a deployment.
 *
 * The first worker decides, by a compare-and-swap of DATASET_SPEC_KEY at the metadata store; later workers must give
 * the same specification. Shards are numbered from 0, each with a number of items; only workers know what an item is.
 *
 *   bytes  content (v: varint, base/varint.h)
 *   1  DATASET_SPEC_LAYOUT
 *   v v …  shards, and the items of each
 *
 * Threads  the one that runs the metadata store's event loop. */
#pragma once
#include "cluster/consumer_group.h"
#include "kv/control/cas_update.h"

#define DATASET_SPEC_KEY "data"
enum { DATASET_SPEC_LAYOUT = 1, DATASET_SPEC_PARTS_MAX = CONSUMER_GROUP_PARTS_MAX };
#define DATASET_SPEC_ITEMS_MAX (UINT64_C(1) << 56) /* sum over all shards */

typedef struct dataset_spec { /* zero-initialized: no shards */
    uint64_t *sizes;          /* owned */
    uint32_t count;
} dataset_spec;

MR_MUST mr_status dataset_spec_init(dataset_spec *spec, const uint64_t *sizes,
                                    uint32_t count); /* the sizes are copied. MR_INVALID, MR_TOO_LARGE */
void dataset_spec_fini(dataset_spec *spec);

size_t dataset_spec_size(const dataset_spec *spec);
void dataset_spec_encode(const dataset_spec *spec, writer *writer);
MR_MUST mr_status dataset_spec_decode(span bytes, dataset_spec *out); /* MR_CORRUPT: *out is unchanged */

/* Stores this specification unless one is stored; borrowed until cas_update_end. MR_EXISTS: another specification is
 * stored, and the error describes it. */
cas_update *dataset_spec_decide(metadata_store store, dataset_spec *spec);
