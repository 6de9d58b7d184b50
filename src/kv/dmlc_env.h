/* dmlc_env.h — ps-lite's environment: DMLC_PS_ROOT_URI, DMLC_PS_ROOT_PORT, DMLC_NUM_WORKER, DMLC_NUM_SERVER. */
#pragma once
#include <stdint.h>

#include "miniray/status.h"

enum { DMLC_ADDRESS_MAX = 128 };

/* "tcp:URI:PORT", in numbers: a name is looked up. MR_INVALID: a variable is missing or malformed; the error names
 * it. */
MR_MUST mr_status dmlc_scheduler(char address[DMLC_ADDRESS_MAX]);
/* The same if *scheduler is NULL: *scheduler then points at `room`. */
MR_MUST mr_status dmlc_default(const char **scheduler, char room[DMLC_ADDRESS_MAX]);

/* A number above 0. MR_INVALID: the variable is missing or malformed. */
MR_MUST mr_status dmlc_number(const char *name, uint32_t *out);
