/* dmlc_env.h — ps-lite's environment: DMLC_PS_ROOT_URI, DMLC_PS_ROOT_PORT, DMLC_NUM_WORKER, DMLC_NUM_SERVER. */
#pragma once
#include <stdint.h>

#include "miniray/status.h"

enum { DMLC_ADDRESS_MAX = 128 };

/* "tcp:URI:PORT", in numbers: a name is looked up. MR_INVALID: one of the two is missing or is no such thing; the error
 * names it. */
MR_MUST mr_status dmlc_scheduler(char address[DMLC_ADDRESS_MAX]);
/* The same unless one is given: *scheduler, if it is NULL, points at `room` then. */
MR_MUST mr_status dmlc_default(const char **scheduler, char room[DMLC_ADDRESS_MAX]);

/* A number above 0. MR_INVALID: the variable is missing, or something else. */
MR_MUST mr_status dmlc_number(const char *name, uint32_t *out);
