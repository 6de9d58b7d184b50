/* lent.c — mr_ps_memory_*: buffers of a worker that servers of its machine can read (miniray/ps.h). */
#include "base/error.h"
#include "kv/worker/connection.h"
#include "net/shm/glass.h"

mr_status mr_ps_buffer_alloc(mr_ps *ps, size_t size, void **out) {
    if (size == 0) return error_set(MR_INVALID, "mr_ps_buffer_alloc: a buffer of 0 bytes; the minimum is 1");
    connection_lock(ps);
    glass *glass = van_glass(customer_van(connection_customer(ps)));
    mr_status status = glass == NULL ? error_set(MR_NOMEM, "mr_ps_buffer_alloc: no shared memory for %zu bytes", size)
                                     : glass_take(glass, size, out);
    connection_unlock(ps);
    return status;
}

static mr_status let_go(mr_ps *ps, void *memory, void (*how)(glass *glass, void *memory)) {
    if (memory == NULL) return MR_OK;
    connection_lock(ps);
    glass *glass = van_glass(customer_van(connection_customer(ps)));
    bool owns = glass != NULL && glass_owns(glass, memory);
    if (owns) how(glass, memory);
    connection_unlock(ps);
    return owns ? MR_OK : error_set(MR_INVALID, "%p is not a buffer of this connection, or was freed", memory);
}

mr_status mr_ps_buffer_free(mr_ps *ps, void *memory) { return let_go(ps, memory, glass_give); }
mr_status mr_ps_buffer_detach(mr_ps *ps, void *memory) { return let_go(ps, memory, glass_leave); }
