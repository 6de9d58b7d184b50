/* ps.h — `miniray ps status`, apart from the roles that `miniray ps` starts. */
#pragma once
#include "cli/command.h"

command_fn ps_status; /* argv[0] is "miniray ps status" */
