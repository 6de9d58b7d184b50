/* keeper_fuzz.c — a keeper's file, whatever happened to it. */
#include "cluster/image.h"
#include "cluster/keeper.h"
#include "fuzz/sealed.h"

static void try(disk disk) {
    span value;
    rng rng;
    rng_init(&rng, 1);
    keeper *keeper;
    image image = {.disk = disk};
    mr_status status = keeper_open(image_archive(&image), &rng, 0, &keeper);
    if (status != MR_OK) {
        MR_ASSERT(status == MR_CORRUPT || status == MR_TOO_LARGE);
        return;
    }
    uint64_t version;
    keeper_get(keeper, span_of("view", 4), &version, &value);
    MR_ASSERT((coordinator_count(version) != 0 || value.size == 0) && value.size <= KEEPER_VALUE_MAX);
    keeper_close(keeper);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    sealed_try(IMAGE_FILE, data, size, try);
    return 0;
}
