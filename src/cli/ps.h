/* ps.h — `miniray ps local`, `status` and `checkpoint`, apart from the roles that `miniray ps` starts. */
#pragma once
#include <argp.h>

#include "cli/command.h"

command_fn ps_local;      /* argv[0] is "miniray ps local" */
command_fn ps_status;     /* argv[0] is "miniray ps status" */
command_fn ps_checkpoint; /* argv[0] is "miniray ps checkpoint" */

extern const struct argp ps_scheduler_argp; /* its input is a mr_ps_scheduler_options */

/* A program that starts a role, which is the context, reads from here where it is. */
void ps_say_address(void *context, const char *address);
