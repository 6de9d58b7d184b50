/* lent.c — memory of a worker that servers of its machine see (miniray/ps.h). */
#include "base/error.h"
#include "kv/worker/connection.h"
#include "net/shm/glass.h"

mr_status mr_ps_memory_alloc(mr_ps *ps, size_t size, void **out) {
    if (size == 0) return error_set(MR_INVALID, "memory of 0 bytes");
    connection_lock(ps);
    glass *glass = van_glass(customer_van(connection_customer(ps)));
    mr_status status =
        glass == NULL ? error_set(MR_NOMEM, "there is no memory that others could see") : glass_take(glass, size, out);
    connection_unlock(ps);
    return status;
}

mr_status mr_ps_memory_free(mr_ps *ps, void *memory) {
    if (memory == NULL) return MR_OK;
    connection_lock(ps);
    glass *glass = van_glass(customer_van(connection_customer(ps)));
    bool owns = glass != NULL && glass_owns(glass, memory);
    if (owns) glass_give(glass, memory);
    connection_unlock(ps);
    return owns ? MR_OK : error_set(MR_INVALID, "%p is not memory of this connection, or was freed", memory);
}
