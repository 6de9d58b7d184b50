/* data_shard.c — assignment of samples to workers (miniray/train.h).
 *
 * All samples are shuffled by the seed; shard i of n is the range from i/n to (i+1)/n of that order. */
#include <stdlib.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/rng.h"
#include "miniray/train.h"

static size_t data_shard_start(size_t count, size_t shards, size_t shard) { /* the first shards have one sample more */
    size_t extra = count % shards;
    return shard * (count / shards) + (shard < extra ? shard : extra);
}

size_t mr_shard_size(size_t count, size_t shards, size_t shard) {
    if (shard >= shards) return 0;
    return count / shards + (shard < count % shards);
}

mr_status mr_shard_indices(size_t count, size_t shards, size_t shard, uint64_t seed, int64_t *out) {
    if (shard >= shards)
        return error_set(MR_INVALID, "no shard %zu: the shards are 0 to %zu", shard, shards == 0 ? 0 : shards - 1);
    if (count > SIZE_MAX / sizeof *out) return error_set(MR_TOO_LARGE, "%zu samples: the limit is 2^61", count);
    int64_t *order;
    MR_TRY(alloc_try(count * sizeof *order, &order));
    rng chance;
    rng_init(&chance, seed);
    for (size_t i = 0; i < count; i++) order[i] = (int64_t)i;
    rng_shuffle(&chance, order, count, sizeof *order);
    const int64_t *own = order + data_shard_start(count, shards, shard);
    for (size_t i = 0; i < mr_shard_size(count, shards, shard); i++) out[i] = own[i];
    free(order);
    return MR_OK;
}
