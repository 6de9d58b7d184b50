/* shard_fuzz.c — the state of a slot as a checkpoint has it, for a table of other numbers of ranks and of any
 * consistency: a copy begins with all of it, or goes on asking. The first three bytes choose the table. */
#include <stdlib.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "fuzz/fuzz.h"
#include "ps/ledger.h"
#include "ps/replica.h"
#include "sim/ps/float_machine.h"

enum { SLOTS = 2, CHECKPOINT = 4 };

static void to_some(void *context, uint32_t whom, const part *part) {}
static void to_one(void *context, const part *part) {}

static void load(const chart *chart, uint32_t slot, span shard) {
    const replica_host host = {.values = &float_machine_ops,
                               .incarnation = 1,
                               .to_server = to_some,
                               .to_rank = to_some,
                               .to_director = to_one,
                               .to_head = to_some,
                               .to_depot = to_one};
    replica *replica = replica_create(&host, slot);
    replica_enter(replica, chart);
    MR_ASSERT(replica_look_at(replica).phase == REPLICA_LOADING);
    bale *bale = bale_copy(shard);
    part part = {.kind = PART_SHARD, .slot = slot, .epoch = 1, .name = CHECKPOINT, .lsn = 9};
    part.payload = bale_bytes(bale);
    replica_take(replica, 0, &part, bale);
    replica_look look = replica_look_at(replica);
    MR_ASSERT(look.phase == REPLICA_LOADING || (look.phase == REPLICA_SERVING && look.applied == part.lsn));
    replica_tick(replica, 0);
    bale_unref(bale);
    replica_destroy(replica);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < 3) return 0;
    chart chart = {.number = 1, .generation = 2, .birth = 1, .origin = CHECKPOINT, .copies = 1, .slot_count = SLOTS};
    chart.consistency = (consistency){(consistency_kind)(data[0] % 3), 1};
    chart.rank_count = 1 + data[1] % 70;
    chart.rounds = (chart_rounds){chart.rank_count, 0, 0};
    chart.slots = xcalloc(SLOTS, sizeof *chart.slots);
    for (uint32_t i = 0; i < SLOTS; i++) chart.slots[i] = (chart_slot){.epoch = 1, .count = 1, .chain = {{0, 1, 1}}};
    load(&chart, data[2] % SLOTS, span_of(data + 3, size - 3));
    chart_fini(&chart);
    return 0;
}
