/* miniray.c — the command `miniray`: table of its subcommands, and main. */
#include <argp.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/command.h"
#include "cli/terminal_filter.h"
#include "miniray/status.h"

typedef struct command {
    const char *name;
    command_fn *run;
    const char *doc;
} command;

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
enum { COMMAND_COUNT = sizeof commands / sizeof *commands };

typedef struct chosen {
    const command *command; /* NULL: not parsed yet */
    int at;                 /* index of the command in argv; its arguments follow */
} chosen;

int command_outcome(const char *title, mr_status status) {
    if (status == MR_OK) return 0;
    fprintf(stderr, "%s: %s\n", title, mr_last_error());
    return 1;
}

static const command *find(const char *name) {
    for (size_t i = 0; i < COMMAND_COUNT; i++)
        if (strcmp(commands[i].name, name) == 0) return &commands[i];
    return NULL;
}

/* The first word is the command; the words after it are the command's arguments. */
static error_t parse(int key, char *text, struct argp_state *state) {
    chosen *chosen = state->input;
    switch (key) {
    case ARGP_KEY_ARG:
        chosen->command = find(text);
        if (chosen->command == NULL) argp_error(state, "unknown command '%s'", text);
        chosen->at = state->next - 1;
        state->next = state->argc;
        return 0;
    case ARGP_KEY_NO_ARGS: argp_error(state, "no command is given"); return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

/* Writes the list of commands below the options. argp frees the returned text, unless it is `text`. */
static char *help_text(int key, const char *text, void *input) {
    if (key != ARGP_KEY_HELP_EXTRA) return (char *)(uintptr_t)text; /* other help texts are unchanged */
    char *list = NULL;
    size_t size = 0;
    FILE *stream = open_memstream(&list, &size);
    if (stream == NULL) return NULL;
    fprintf(stream, "Commands (miniray COMMAND --help describes one):\n\n");
    for (size_t i = 0; i < COMMAND_COUNT; i++) fprintf(stream, "  %-10s %s\n", commands[i].name, commands[i].doc);
    return fclose(stream) == 0 ? list : NULL;
}

static void print_version(FILE *stream, struct argp_state *state) { fprintf(stream, "miniray %s\n", mr_version()); }

/* Ends with status 1 if the output could not be written completely. */
static void close_stdout(void) {
    if (fclose(stdout) == 0) return;
    fprintf(stderr, "miniray: cannot write the output: %s\n", strerror(errno));
    _exit(1);
}

static int run(const chosen *chosen, int argc, char **argv) {
    char title[64];
    snprintf(title, sizeof title, "miniray %s", chosen->command->name);
    argv[chosen->at] = title;
    return chosen->command->run(argc - chosen->at, argv + chosen->at);
}

int main(int argc, char **argv) {
    const struct argp argp = {
        .parser = parse,
        .args_doc = "COMMAND [ARGUMENT...]",
        .doc = "Tasks, actors and a parameter server.",
        .help_filter = help_text,
    };
    chosen chosen = {0};
    terminal_filter_install();
    argp_program_version_hook = print_version;
    atexit(close_stdout);
    argp_parse(&argp, argc, argv, ARGP_IN_ORDER, NULL, &chosen);
    return run(&chosen, argc, argv);
}
