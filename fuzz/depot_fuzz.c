/* depot_fuzz.c — the manifest of a depot, whatever happened to it. */
#include "fuzz/sealed.h"
#include "ps/depot.h"

static void send(void *context, const char *address, span bytes) {}

static void try(disk disk) {
    depot_options options = {.address = "depot", .director = "director", .disk = disk, .send = send};
    depot *depot = depot_create(&options, 0);
    depot_tick(depot, 0);
    MR_ASSERT(depot_lsn(depot, CHART_SLOTS_MAX) == 0 && depot_next_us(depot) == DEPOT_TICK_US);
    depot_destroy(depot);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    sealed_try(DEPOT_MANIFEST, data, size, try);
    return 0;
}
