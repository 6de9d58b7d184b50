/* command.h — interface of the subcommands of `miniray`: one function each, in a file of its own, named in the table of
 * miniray.c.
 *
 * A command receives its own arguments; argv[0] is "miniray NAME", for messages. The command parses them with argp,
 * prints results to stdout and errors to stderr, and returns the exit status: 0 or 1. Wrong arguments end the program
 * inside argp with EX_USAGE (64). Commands include public headers only. */
#pragma once
#include "miniray/status.h"

typedef int command_fn(int argc, char **argv);

/* Exit status of a call: 0; or 1, with the error printed to stderr. `title` is argv[0]. */
int command_outcome(const char *title, mr_status status);

command_fn command_config;
command_fn command_doctor;
command_fn command_list;
command_fn command_logs;
command_fn command_memory;
command_fn command_ps;
command_fn command_start;
command_fn command_status;
command_fn command_stop;
command_fn command_timeline;
command_fn command_version;
command_fn command_why;
