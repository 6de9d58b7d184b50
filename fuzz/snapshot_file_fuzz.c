/* snapshot_file_fuzz.c — arbitrary bytes as a slot snapshot file and as a slot snapshot: a file that decodes gives a
 * snapshot, and every snapshot is decoded from its file byte for byte. */
#include "kv/checkpoint/snapshot_file.h"

#include "base/assert.h"
#include "fuzz/fuzz.h"

enum { LIMIT = 64 << 20 };

/* With the check of the encoder, and without it. */
static void round_trip(span shard, size_t checked) {
    const table_catalog none = {0};
    buffer file, again;
    buffer_init(&file, LIMIT);
    buffer_init(&again, LIMIT);
    MR_ASSERT(snapshot_file_encode(1, shard, &none, checked, &(byte_sink){buffer_put, &file}) == MR_OK);
    MR_ASSERT(snapshot_file_decode(span_of(file.data, file.size), &again) == MR_OK);
    MR_ASSERT(again.size == shard.size && (shard.size == 0 || memcmp(again.data, shard.data, shard.size) == 0));
    buffer_fini(&file);
    buffer_fini(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    buffer shard;
    buffer_init(&shard, LIMIT);
    if (snapshot_file_decode(span_of(data, size), &shard) == MR_OK) round_trip(span_of(shard.data, shard.size), 0);
    for (size_t checked = 0; checked <= LIMIT; checked += LIMIT) round_trip(span_of(data, size), checked);
    buffer_fini(&shard);
    return 0;
}
