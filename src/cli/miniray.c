/* miniray.c — the command `miniray`: table of its subcommands, and main. */
#include <argp.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/command_line.h"
#include "cli/terminal_filter.h"
#include "miniray/status.h"

static const command commands[] = {
    {"config", command_config, "list every option, its value and its source"},
    {"doctor", command_doctor, "check this machine for everything Miniray needs"},
    {"list", command_list, "list tasks, actors, objects, workers or placement groups"},
    {"logs", command_logs, "show the output of a session's processes"},
    {"memory", command_memory, "show shared memory and the objects of each process"},
    {"ps", command_ps, "run a parameter server, show its status, manage checkpoints"},
    {"start", command_start, "start a standalone node, which drivers join"},
    {"status", command_status, "show the state of a node on one page"},
    {"stop", command_stop, "stop the standalone node and all processes it started"},
    {"timeline", command_timeline, "write the latest calls of the workers as a trace for Perfetto"},
    {"version", command_version, "print the version"},
    {"why", command_why, "explain what a task, call, object, actor or process waits for"},
};

int command_outcome(const char *title, mr_status status) {
    if (status == MR_OK) return COMMAND_OK;
    fprintf(stderr, "%s: %s\n", title, mr_last_error());
    return status == MR_INVALID ? COMMAND_USAGE : COMMAND_FAILED;
}

static error_t parse(int key, char *text, struct argp_state *state) {
    switch (key) {
    case 'V': printf("miniray %s\n", mr_version()); exit(COMMAND_OK);
    case ARGP_KEY_NO_ARGS: command_line_error(state, "no command is given"); return 0;
    default: return command_line_choose(key, text, state);
    }
}

/* Ends with status 1 if the output could not be written completely. */
static void close_stdout(void) {
    if (fclose(stdout) == 0) return;
    fprintf(stderr, "miniray: cannot write the output: %s\n", strerror(errno));
    _exit(COMMAND_FAILED);
}

int main(int argc, char **argv) {
    const struct argp_option options[] = {{"version", 'V', NULL, 0, "Print the version", -1}, {0}};
    const struct argp argp = {
        .options = options,
        .parser = parse,
        .args_doc = "COMMAND [ARGUMENT...]\nhelp COMMAND",
        .doc = "Tasks, actors and a parameter server.",
        .help_filter = command_line_list,
    };
    command_choice choice = {.commands = commands, .count = sizeof commands / sizeof *commands, .kind = "command"};
    terminal_filter_install();
    atexit(close_stdout);
    command_line_parse(&argp, argc, argv, ARGP_IN_ORDER, &choice, "miniray start --num-cpus 4\nminiray help status");
    return command_line_run(&choice, "miniray", argc, argv);
}
