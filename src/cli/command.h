/* command.h — interface of the subcommands of `miniray`: one function each, in a file of its own, named in the table of
 * miniray.c.
 *
 * A command receives its own arguments; argv[0] is "miniray NAME", for messages. The command parses them with
 * command_line_parse,
 * prints results to stdout and errors to stderr, and returns the exit status: COMMAND_OK or COMMAND_FAILED. Wrong
 * arguments end the program inside command_line_parse with COMMAND_USAGE. Commands include public headers only. */
#pragma once
#include "miniray/status.h"

/* Exit status of `miniray`; docs/cli.md has the table. */
enum {
    COMMAND_OK = 0,
    COMMAND_FAILED = 1, /* the error is on stderr; a check or a search found a problem */
    COMMAND_USAGE = 2   /* wrong arguments; the command has done nothing */
};

typedef int command_fn(int argc, char **argv);

typedef struct command {
    const char *name;
    command_fn *run;
    const char *doc; /* one line of the list of commands */
} command;

/* Exit status of a call: COMMAND_OK; or, with the error printed to stderr, COMMAND_USAGE for MR_INVALID and
 * COMMAND_FAILED for all others. `title` is argv[0]. */
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
