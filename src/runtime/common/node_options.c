/* node_options.c — see node_options.h. */
#include "runtime/common/node_options.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/cpu_limit.h"
#include "base/error.h"
#include "runtime/common/gpus.h"
#include "runtime/common/memory_limit.h"
#include "runtime/common/runtime_config.h"

int mr_num_cpus_default(void) {
    uint32_t count = cpu_limit_count();
    return count > BOOT_WORKERS_MAX ? BOOT_WORKERS_MAX : (int)count;
}

/* Limits num_gpus to the devices in CUDA_VISIBLE_DEVICES, which the node inherits. */
static mr_status check_gpus(double wanted) {
    const char *shown = getenv("CUDA_VISIBLE_DEVICES");
    uint32_t most = gpus_shown(shown);
    if (shown == NULL || !(wanted > most)) return MR_OK;
    return error_set(MR_INVALID, "num_gpus is %g, but CUDA_VISIBLE_DEVICES shows %u (\"%s\")", wanted, most, shown);
}

mr_status node_options_read(const mr_node_options *options, const char *cpus, boot_node *out) {
    config config;
    MR_TRY(runtime_config_load(&config));
    if (options->num_cpus < 0 || options->num_cpus > BOOT_WORKERS_MAX)
        return error_set(MR_INVALID, "%s is %d: 1 to %d, or 0 for the CPUs of the machine", cpus, options->num_cpus,
                         BOOT_WORKERS_MAX);
    memset(out, 0, sizeof *out);
    out->workers = (uint32_t)(options->num_cpus == 0 ? mr_num_cpus_default() : options->num_cpus);
    out->arena_bytes = options->store_bytes != 0 ? options->store_bytes
                       : config.arena_bytes != 0 ? (uint64_t)config.arena_bytes
                                                 : memory_limit_store_bytes();
    MR_TRY(resources_set(&out->total, "cpu", out->workers));
    mr_status status = resources_set(&out->total, "gpu", options->num_gpus);
    if (status != MR_OK) return error_wrap(status, "num_gpus is %g", options->num_gpus);
    MR_TRY(check_gpus(options->num_gpus));
    if (options->resources == NULL) return MR_OK;
    status = resources_parse(&out->total, options->resources);
    return status == MR_OK ? MR_OK : error_wrap(status, "resources is \"%.80s\"", options->resources);
}
