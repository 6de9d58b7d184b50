/* runtime_config.c — see runtime_config.h. */
#include "runtime/common/runtime_config.h"

#include <unistd.h>

#include "net/shm/extent_allocator.h"

mr_status runtime_config_load(config *out) {
    MR_TRY(config_load(NULL, (const char *const *)environ, out));
    config_apply(out);
    return MR_OK;
}

static uint64_t whole_units(int64_t bytes) { return ((uint64_t)bytes + EXTENT_UNIT - 1) / EXTENT_UNIT * EXTENT_UNIT; }

broker_options runtime_config_broker(const config *config, const char *path, uint64_t arena_bytes) {
    return (broker_options){.path = path,
                            .arena_bytes = arena_bytes,
                            .ring_bytes = whole_units(config->ring_bytes),
                            .ring_bytes_max = whole_units(config->ring_bytes_max)};
}

shm_transport_options runtime_config_port(const config *config, const char *broker, const char *name) {
    return (shm_transport_options){.broker = broker,
                                   .name = name,
                                   .spin_us = config->spin_us == 0 ? -1 : config->spin_us, /* 0 would be the default */
                                   .ring_bytes_max = whole_units(config->ring_bytes_max)};
}
