/* checkpoint_store_fuzz.c — the manifest of a checkpoint store as arbitrary bytes. */
#include "fuzz/fix_checksum.h"
#include "ps/checkpoint_store.h"

static void send(void *context, const char *address, span bytes) {}

static void try(disk disk) {
    checkpoint_store_options options = {.address = "depot", .controller = "director", .disk = disk, .send = send};
    checkpoint_store *store = checkpoint_store_create(&options, 0);
    checkpoint_store_tick(store, 0);
    MR_ASSERT(checkpoint_store_lsn(store, CLUSTER_MAP_SLOTS_MAX) == 0 &&
              checkpoint_store_next_us(store) == CHECKPOINT_STORE_TICK_US);
    checkpoint_store_destroy(store);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    fix_checksum_try(CHECKPOINT_STORE_MANIFEST, data, size, try);
    return 0;
}
