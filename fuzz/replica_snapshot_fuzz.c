/* replica_snapshot_fuzz.c — the snapshot of a slot from a checkpoint: the replica serves the whole state, or stays in
 * the phase LOADING. The first three bytes select the consistency, the number of ranks and the slot. */
#include <stdlib.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "fuzz/fuzz.h"
#include "ps/replica.h"
#include "ps/round_state.h"
#include "sim/ps/float_machine.h"

enum { SLOTS = 2, CHECKPOINT = 4 };

static void to_some(void *context, uint32_t whom, const slot_message *message) {}
static void to_one(void *context, const slot_message *message) {}

static void load(const cluster_map *map, uint32_t slot, span shard) {
    const replica_host host = {.values = &float_machine_ops,
                               .incarnation = 1,
                               .to_server = to_some,
                               .to_rank = to_some,
                               .to_controller = to_one,
                               .to_head = to_some,
                               .to_checkpoints = to_one};
    replica *replica = replica_create(&host, slot);
    replica_enter(replica, map);
    MR_ASSERT(replica_look_at(replica).phase == REPLICA_LOADING);
    shared_bytes *bytes = shared_bytes_copy(shard);
    slot_message message = {.kind = SLOT_MESSAGE_SHARD, .slot = slot, .epoch = 1, .name = CHECKPOINT, .lsn = 9};
    message.payload = shared_bytes_bytes(bytes);
    replica_take(replica, 0, &message, bytes);
    replica_look look = replica_look_at(replica);
    MR_ASSERT(look.phase == REPLICA_LOADING || (look.phase == REPLICA_SERVING && look.applied == message.lsn));
    replica_tick(replica, 0);
    shared_bytes_unref(bytes);
    replica_destroy(replica);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < 3) return 0;
    cluster_map map = {
        .number = 1, .generation = 2, .birth = 1, .origin = CHECKPOINT, .copies = 1, .slot_count = SLOTS};
    map.consistency = (consistency){(consistency_kind)(data[0] % 3), 1};
    map.rank_count = 1 + data[1] % 70;
    map.rounds = (cluster_map_rounds){map.rank_count, 0, 0};
    map.slots = xcalloc(SLOTS, sizeof *map.slots);
    for (uint32_t i = 0; i < SLOTS; i++)
        map.slots[i] = (cluster_map_slot){.epoch = 1, .count = 1, .chain = {{0, 1, 1}}};
    load(&map, data[2] % SLOTS, span_of(data + 3, size - 3));
    cluster_map_fini(&map);
    return 0;
}
