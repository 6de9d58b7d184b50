/* cmd_ps.h — commands of `miniray ps` that have a file of their own: local, status, checkpoint. */
#pragma once
#include <argp.h>

#include "cli/command.h"

command_fn ps_local;      /* argv[0] is "miniray ps local" */
command_fn ps_status;     /* argv[0] is "miniray ps status" */
command_fn ps_checkpoint; /* argv[0] is "miniray ps checkpoint" */

extern const struct argp ps_scheduler_argp; /* its input is an mr_ps_scheduler_options */

/* Prints the address at which a process listens, for the program that started it; `context` is the role's name. */
void ps_say_address(void *context, const char *address);
