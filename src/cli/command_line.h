/* command_line.h — the arguments and the help of a command, in the same form for all: usage, description, options,
 * examples, exit status. */
#pragma once
#include <argp.h>
#include <stdbool.h>
#include <stddef.h>

#include "cli/command.h"

/* Like argp_parse, with -h, --help, --usage and the only argument `help`, whose texts go to stdout with status 0. Wrong
 * arguments end the program with COMMAND_USAGE. `examples` are command lines, one per line. */
void command_line_parse(const struct argp *argp, int argc, char **argv, unsigned flags, void *input,
                        const char *examples);

/* Ends the program with COMMAND_USAGE, after this text on one line and the way to the help. */
_Noreturn void command_line_error(const struct argp_state *state, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* "; did you mean --json?" if `word` is similar to a known name, before which `begin` stands; otherwise "". */
enum { COMMAND_LINE_HINT_MAX = 128 };
const char *command_line_hint(const char *word, const char *const *known, size_t count, const char *begin,
                              char out[COMMAND_LINE_HINT_MAX]);

/* ---- A command with subcommands: `TITLE [help] NAME ARGUMENT...`. */

typedef struct command_choice {
    const command *commands;
    size_t count;
    const char *kind;      /* "command" or "role", for errors */
    const command *chosen; /* NULL: none is given */
    int at;                /* its index in argv; its arguments follow */
    bool helps;            /* its help is asked for */
} command_choice;

const command *command_line_find(const command_choice *choice, const char *name);
/* Parser of argp for a command with subcommands, with ARGP_IN_ORDER; its input is a command_choice. */
error_t command_line_choose(int key, char *text, struct argp_state *state);
char *command_line_list(int key, const char *text, void *input); /* help_filter: the list of subcommands */
/* Runs `chosen` as "TITLE NAME" with the arguments after it; returns its exit status. */
int command_line_run(const command_choice *choice, const char *title, int argc, char **argv);
