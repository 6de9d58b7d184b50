/* ps_supervision.c — see mr_ps_supervise (miniray/admin.h): the directory of a deployment whose processes a program
 * starts itself, and how it is removed. Tested by tests/python/test_kv_start.py. */
#include <stdlib.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "miniray/admin.h"
#include "net/socket/supervisor.h"
#include "runtime/common/socket_dir.h"
#include "runtime/node/reaper.h"

struct mr_ps_supervision {
    socket_dir dir;
    pid_t reaper; /* -1: none */
};

static void remove_directory(pid_t supervisor, const void *context) {
    socket_dir dir = *(const socket_dir *)context;
    socket_dir_close(&dir);
}

mr_status mr_ps_supervise(mr_ps_supervision **out) {
    if (out == NULL) return error_set(MR_INVALID, "mr_ps_supervise: out is NULL");
    mr_ps_supervision *supervision;
    MR_TRY(alloc_try(sizeof *supervision, &supervision));
    mr_status status = socket_dir_open(NULL, SUPERVISOR_DIR_PREFIX, &supervision->dir);
    if (status == MR_OK) {
        status = supervisor_write(supervision->dir.path, getpid(), "the supervisor");
        if (status != MR_OK) socket_dir_close(&supervision->dir);
    }
    if (status != MR_OK) {
        free(supervision);
        return status;
    }
    supervision->reaper = reaper_open(remove_directory, &supervision->dir);
    *out = supervision;
    return MR_OK;
}

const char *mr_ps_supervision_dir(const mr_ps_supervision *supervision) { return supervision->dir.path; }

void mr_ps_supervision_end(mr_ps_supervision *supervision) {
    if (supervision == NULL) return;
    reaper_close(supervision->reaper);
    socket_dir_close(&supervision->dir);
    free(supervision);
}
