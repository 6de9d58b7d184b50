/* model_path.h — paths of checkpoints: relative ones are those of the process that names them, not the server's. */
#pragma once
#include <limits.h>

#include "miniray/status.h"

/* MR_INVALID: NULL or "". MR_TOO_LARGE, MR_IO. */
MR_MUST mr_status model_path_resolve(const char *path, char out[PATH_MAX]);
