/* slot_file_fuzz.c — the file of a slot from anywhere, and the shard of a slot from anywhere: what comes out of a file
 * is a shard that has a file, and every shard comes back from its file byte for byte. Whoever only looks at a file is
 * shown tables, rows and blocks that lie in it, or is told that it is damaged. */
#include "kv/shelf/slot_look.h"

#include "base/assert.h"
#include "fuzz/fuzz.h"

enum { LIMIT = 64 << 20 };

static bool within(span file, span part) {
    return part.size == 0 || (part.data >= file.data && part.size <= (size_t)(file.data + file.size - part.data));
}

static void look_at(span file) {
    slot_look look;
    if (slot_look_open(file, &look) != MR_OK) return;
    for (uint32_t i = 0; i < look.tables; i++) {
        slot_table table;
        if (slot_look_table(&look, i, &table) != MR_OK) continue;
        MR_ASSERT(within(file, table.keys) && within(file, table.values));
        for (uint32_t k = 0; k < table.blocks; k++) {
            slot_block block;
            MR_ASSERT(slot_look_block(&look, &table, k, &block) == MR_OK && within(file, block.values));
        }
    }
    slot_look_close(&look);
}

static void round_trip(span shard) {
    const catalogue none = {0};
    buffer file, again;
    buffer_init(&file, LIMIT);
    buffer_init(&again, LIMIT);
    MR_ASSERT(slot_file_encode(1, shard, &none, &file) == MR_OK);
    look_at(span_of(file.data, file.size));
    MR_ASSERT(slot_file_decode(span_of(file.data, file.size), &again) == MR_OK);
    MR_ASSERT(again.size == shard.size && (shard.size == 0 || memcmp(again.data, shard.data, shard.size) == 0));
    buffer_fini(&file);
    buffer_fini(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    buffer shard;
    buffer_init(&shard, LIMIT);
    if (slot_file_decode(span_of(data, size), &shard) == MR_OK) round_trip(span_of(shard.data, shard.size));
    round_trip(span_of(data, size));
    look_at(span_of(data, size));
    buffer_fini(&shard);
    return 0;
}
