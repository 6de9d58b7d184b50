/* dmlc_env.h — ps-lite's environment: DMLC_PS_ROOT_URI, DMLC_PS_ROOT_PORT, DMLC_NUM_WORKER, DMLC_NUM_SERVER. */
#pragma once
#include <stdint.h>

#include "miniray/status.h"

enum { DMLC_ADDRESS_MAX = 128 };

/* Writes "tcp:URI:PORT" with a numeric address; names are resolved. MR_INVALID: a variable is missing or malformed; the
 * error names it. */
MR_MUST mr_status dmlc_scheduler(char address[DMLC_ADDRESS_MAX]);
/* As dmlc_scheduler if *scheduler is NULL: *scheduler then points at `room`. */
MR_MUST mr_status dmlc_default(const char **scheduler, char room[DMLC_ADDRESS_MAX]);

/* Reads a number above 0. MR_INVALID: the variable is missing or malformed. */
MR_MUST mr_status dmlc_number(const char *name, uint32_t *out);
