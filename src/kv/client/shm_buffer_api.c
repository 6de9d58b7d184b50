/* shm_buffer_api.c — mr_ps_buffer_*: buffers of a worker that servers of its machine can read (miniray/ps.h). */
#include "base/error.h"
#include "kv/client/ps_connection.h"
#include "net/shm/shm_export.h"

mr_status mr_ps_buffer_alloc(mr_ps *ps, size_t size, void **out) {
    if (size == 0) return error_set(MR_INVALID, "mr_ps_buffer_alloc: a buffer of 0 bytes; the minimum is 1");
    ps_connection_lock(ps);
    shm_export *export = van_export(kv_worker_van(ps_connection_worker(ps)));
    mr_status status = export == NULL ? error_set(MR_NOMEM, "mr_ps_buffer_alloc: no shared memory for %zu bytes", size)
                                      : shm_export_take(export, size, out);
    ps_connection_unlock(ps);
    return status;
}

static mr_status let_go(mr_ps *ps, void *memory, void (*how)(shm_export *export, void *memory)) {
    if (memory == NULL) return MR_OK;
    ps_connection_lock(ps);
    shm_export *export = van_export(kv_worker_van(ps_connection_worker(ps)));
    bool owns = export != NULL && shm_export_owns(export, memory);
    if (owns) how(export, memory);
    ps_connection_unlock(ps);
    return owns ? MR_OK : error_set(MR_INVALID, "%p is not a buffer of this connection, or was freed", memory);
}

mr_status mr_ps_buffer_free(mr_ps *ps, void *memory) { return let_go(ps, memory, shm_export_give); }
mr_status mr_ps_buffer_detach(mr_ps *ps, void *memory) { return let_go(ps, memory, shm_export_leave); }
