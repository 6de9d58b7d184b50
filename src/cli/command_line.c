/* command_line.c — see command_line.h. Tested by src/cli/miniray_test.c. */
#include "cli/command_line.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/text_table.h"

enum { USAGE = 0x1000 };

typedef struct line {
    const struct argp *argp; /* the command's own */
    void *input;             /* of that */
    const char *examples;
} line;

static error_t parse(int key, char *text, struct argp_state *state) {
    const line *line = state->input;
    switch (key) {
    case ARGP_KEY_INIT: state->child_inputs[0] = line->input; return 0;
    case ARGP_KEY_ARG:
        if (state->arg_num != 0 || state->next < state->argc || strcmp(text, "help") != 0) return ARGP_ERR_UNKNOWN;
        argp_state_help(state, stdout, ARGP_HELP_STD_HELP);
        return 0;
    case 'h': argp_state_help(state, stdout, ARGP_HELP_STD_HELP); return 0;
    case USAGE: argp_state_help(state, stdout, ARGP_HELP_USAGE | ARGP_HELP_EXIT_OK); return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

static void print_examples(FILE *stream, const char *examples) {
    fprintf(stream, strchr(examples, '\n') == NULL ? "Example:\n" : "Examples:\n");
    for (size_t size; *examples != '\0'; examples += size + (examples[size] == '\n')) {
        size = strcspn(examples, "\n");
        fprintf(stream, "  %.*s\n", (int)size, examples);
    }
    fputc('\n', stream);
}

/* Writes what follows the options and the description. argp frees the returned text, unless it is `text`. */
static char *help_text(int key, const char *text, void *input) {
    const line *line = input;
    if (key == ARGP_KEY_HELP_DUP_ARGS_NOTE) return NULL;
    if (key != ARGP_KEY_HELP_EXTRA || line == NULL) return (char *)(uintptr_t)text; /* other texts are unchanged */
    char *own = line->argp->help_filter == NULL ? NULL : line->argp->help_filter(key, text, line->input), *all = NULL;
    size_t size = 0;
    FILE *stream = text_table_must(open_memstream(&all, &size));
    if (own != NULL) fprintf(stream, "%s\n", own);
    free(own);
    print_examples(stream, line->examples);
    fputs("Exit status: 0 success, 1 failure, 2 wrong arguments.", stream);
    return fclose(stream) == 0 ? all : NULL;
}

void command_line_parse(const struct argp *argp, int argc, char **argv, unsigned flags, void *input,
                        const char *examples) {
    static const struct argp_option options[] = {
        {"help", 'h', NULL, 0, "Show this help", -1}, {"usage", USAGE, NULL, OPTION_HIDDEN, NULL, -1}, {0}};
    struct argp own = *argp;
    own.help_filter = NULL;
    own.doc = NULL;
    const struct argp_child children[] = {{&own, 0, NULL, 0}, {0}};
    const struct argp all = {
        .options = options, .parser = parse, .doc = argp->doc, .children = children, .help_filter = help_text};
    line line = {argp, input, examples};
    argp_err_exit_status = COMMAND_USAGE;
    argp_parse(&all, argc, argv, flags | ARGP_NO_HELP, NULL, &line);
}

/* ---- A command with subcommands. */

const command *command_line_find(const command_choice *choice, const char *name) {
    for (size_t i = 0; i < choice->count; i++)
        if (strcmp(choice->commands[i].name, name) == 0) return &choice->commands[i];
    return NULL;
}

error_t command_line_choose(int key, char *text, struct argp_state *state) {
    command_choice *choice = state->input;
    switch (key) {
    case ARGP_KEY_ARG:
        if (!choice->helps && strcmp(text, "help") == 0) {
            choice->helps = true;
            return 0;
        }
        choice->chosen = command_line_find(choice, text);
        if (choice->chosen == NULL) argp_error(state, "unknown %s '%s'", choice->kind, text);
        choice->at = state->next - 1;
        state->next = state->argc; /* the words after it are its arguments */
        return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

char *command_line_list(int key, const char *text, void *input) {
    const command_choice *choice = input;
    if (key != ARGP_KEY_HELP_EXTRA || choice == NULL) return (char *)(uintptr_t)text;
    char *list = NULL;
    size_t size = 0;
    FILE *stream = text_table_must(open_memstream(&list, &size));
    fprintf(stream, "%c%ss:\n", choice->kind[0] - 'a' + 'A', choice->kind + 1);
    for (size_t i = 0; i < choice->count; i++)
        fprintf(stream, "  %-10s %s\n", choice->commands[i].name, choice->commands[i].doc);
    return fclose(stream) == 0 ? list : NULL;
}

int command_line_run(const command_choice *choice, const char *title, int argc, char **argv) {
    char name[64], help[] = "--help", **words = text_table_must(calloc((size_t)argc + 2, sizeof *words));
    int count = 0;
    snprintf(name, sizeof name, "%s %s", title, choice->chosen->name);
    words[count++] = name;
    for (int i = choice->at + 1; i < argc; i++) words[count++] = argv[i];
    if (choice->helps) words[count++] = help;
    int code = choice->chosen->run(count, words);
    free(words);
    return code;
}
