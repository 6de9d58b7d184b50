/* miniray.c — the command line: finds the command that is named in it and lets it run. */
#include <argp.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/command.h"
#include "miniray/status.h"

typedef struct command {
    const char *name;
    command_fn *run;
    const char *doc;
} command;

static const command commands[] = {
    {"config", command_config, "list every option, its value and where that comes from"},
    {"doctor", command_doctor, "check what this machine lacks, and say how to mend it"},
    {"list", command_list, "list tasks, actors, objects, workers or placement groups"},
    {"logs", command_logs, "show what the processes of a run printed"},
    {"memory", command_memory, "show who holds what"},
    {"ps", command_ps, "run a parameter server: its scheduler, a server; show how it stands"},
    {"start", command_start, "start a lasting node, which programs join"},
    {"status", command_status, "show a node on one page"},
    {"stop", command_stop, "end the lasting node and everything it has started"},
    {"timeline", command_timeline, "write what the workers ran lately as a trace for Perfetto"},
    {"version", command_version, "print the version"},
    {"why", command_why, "say what a task, call, object, actor or process waits for"},
};
enum { COMMAND_COUNT = sizeof commands / sizeof *commands };

typedef struct chosen {
    const command *command; /* NULL: none yet */
    int at;                 /* its place in argv; its arguments follow */
} chosen;

static const command *find(const char *name) {
    for (size_t i = 0; i < COMMAND_COUNT; i++)
        if (strcmp(commands[i].name, name) == 0) return &commands[i];
    return NULL;
}

/* The first word is the command; what follows is for it to read. */
static error_t parse(int key, char *text, struct argp_state *state) {
    chosen *chosen = state->input;
    switch (key) {
    case ARGP_KEY_ARG:
        chosen->command = find(text);
        if (chosen->command == NULL) argp_error(state, "there is no command '%s'", text);
        chosen->at = state->next - 1;
        state->next = state->argc;
        return 0;
    case ARGP_KEY_NO_ARGS: argp_error(state, "a command is missing"); return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

/* Writes the list of commands under the options. argp frees what this gives, unless it is what it gave. */
static char *help_text(int key, const char *text, void *input) {
    if (key != ARGP_KEY_HELP_EXTRA) return (char *)(uintptr_t)text; /* as it is */
    char *list = NULL;
    size_t size = 0;
    FILE *stream = open_memstream(&list, &size);
    if (stream == NULL) return NULL;
    fprintf(stream, "Commands (miniray COMMAND --help says more):\n\n");
    for (size_t i = 0; i < COMMAND_COUNT; i++) fprintf(stream, "  %-10s %s\n", commands[i].name, commands[i].doc);
    return fclose(stream) == 0 ? list : NULL;
}

static void print_version(FILE *stream, struct argp_state *state) { fprintf(stream, "miniray %s\n", mr_version()); }

/* What was printed has arrived, or the exit status says that it has not: nobody takes half a list for a whole one. */
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
    argp_program_version_hook = print_version;
    atexit(close_stdout);
    argp_parse(&argp, argc, argv, ARGP_IN_ORDER, NULL, &chosen);
    return run(&chosen, argc, argv);
}
