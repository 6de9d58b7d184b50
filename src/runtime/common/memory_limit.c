/* memory_limit.c — see memory_limit.h. */
#include "runtime/common/memory_limit.h"

#include <sys/resource.h>

#include "base/log.h"
#include "miniray/admin.h"
#include "net/shm/memory_headroom.h"

static uint64_t share_of(uint64_t bytes) {
    uint64_t megabytes = bytes == MEMORY_HEADROOM_UNKNOWN ? 0 : (bytes >> 20) * MEMORY_LIMIT_STORE_PERCENT / 100;
    return megabytes << 20 > MEMORY_LIMIT_STORE_LEAST ? megabytes << 20 : MEMORY_LIMIT_STORE_LEAST;
}

memory_limit_share memory_limit_share_of(uint64_t total, uint64_t available) {
    uint64_t bytes = share_of(available < total ? available : total);
    return (memory_limit_share){.bytes = bytes, .small = bytes < share_of(total) / 4};
}

/* Each process maps the store twice, so RLIMIT_AS limits the store as memory does. */
static uint64_t within_address_space(uint64_t bytes) {
    struct rlimit space;
    return getrlimit(RLIMIT_AS, &space) == 0 && space.rlim_cur < bytes ? space.rlim_cur : bytes;
}

static memory_limit_share look(uint64_t *total, uint64_t *available) {
    *total = within_address_space(memory_headroom_total());
    *available = within_address_space(memory_headroom_bytes());
    return memory_limit_share_of(*total, *available);
}

uint64_t memory_limit_store_bytes(void) {
    uint64_t total, available;
    memory_limit_share share = look(&total, &available);
    if (share.small)
        log_warn("the object store has only %llu MB: of %llu MB of memory, %llu MB are available to this process; set "
                 "another size with %s",
                 (unsigned long long)(share.bytes >> 20), (unsigned long long)(total >> 20),
                 (unsigned long long)(available >> 20), MEMORY_LIMIT_STORE_OPTIONS);
    return share.bytes;
}

size_t mr_store_bytes_default(void) {
    uint64_t total, available;
    return (size_t)look(&total, &available).bytes;
}

void mr_memory_get(mr_memory *out) {
    uint64_t total = memory_headroom_total(), available = memory_headroom_bytes();
    *out = (mr_memory){.total = total == MEMORY_HEADROOM_UNKNOWN ? 0 : total,
                       .available = available == MEMORY_HEADROOM_UNKNOWN ? 0 : available};
}
