/* command_line.c — see command_line.h. Tested by src/cli/miniray_test.c. */
#include "cli/command_line.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/text_table.h"
#include "miniray/status.h"

enum { USAGE = 0x1000, NAMES_MAX = 128 };

static _Noreturn void end_with_usage(const char *title, const char *format, va_list values) {
    fprintf(stderr, "%s: ", title);
    vfprintf(stderr, format, values);
    fprintf(stderr, "\nTry `%s --help` for the options and examples.\n", title);
    exit(COMMAND_USAGE);
}

static _Noreturn void refuse(const char *title, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void refuse(const char *title, const char *format, ...) {
    va_list values;
    va_start(values, format);
    end_with_usage(title, format, values);
}

void command_line_error(const struct argp_state *state, const char *format, ...) {
    va_list values;
    va_start(values, format);
    end_with_usage(state->name, format, values);
}

const char *command_line_hint(const char *word, const char *const *known, size_t count, const char *begin,
                              char out[COMMAND_LINE_HINT_MAX]) {
    const char *meant = mr_nearest_name(word, known, count);
    out[0] = '\0';
    if (meant != NULL && strcmp(meant, word) != 0)
        snprintf(out, COMMAND_LINE_HINT_MAX, "; did you mean %s%s?", begin, meant);
    return out;
}

/* ---- Options, checked before argp sees them: its errors suggest no names. */

typedef struct option_names {
    const struct argp_option *options[NAMES_MAX];
    const char *names[NAMES_MAX]; /* without "--" */
    size_t count;
} option_names;

static void collect(const struct argp *argp, option_names *found) {
    for (const struct argp_option *option = argp->options; option != NULL && (option->name || option->key); option++)
        if (option->name != NULL && found->count < NAMES_MAX) {
            found->names[found->count] = option->name;
            found->options[found->count++] = option;
        }
    for (const struct argp_child *child = argp->children; child != NULL && child->argp != NULL; child++)
        collect(child->argp, found);
}

/* The option with this name, or with a name of which this is the begin; ends the program if there is none. */
static const struct argp_option *long_option(const option_names *known, const char *title, const char *name) {
    const struct argp_option *found = NULL;
    char hint[COMMAND_LINE_HINT_MAX];
    size_t size = strlen(name);
    for (size_t i = 0; i < known->count; i++) {
        if (strncmp(known->names[i], name, size) != 0) continue;
        if (known->names[i][size] == '\0') return known->options[i];
        if (found != NULL) refuse(title, "option --%s is ambiguous: --%s or --%s", name, found->name, known->names[i]);
        found = known->options[i];
    }
    if (found == NULL)
        refuse(title, "unknown option '--%s'%s", name, command_line_hint(name, known->names, known->count, "--", hint));
    return found;
}

static const struct argp_option *short_option(const option_names *known, const char *title, char letter) {
    for (size_t i = 0; i < known->count; i++)
        if (known->options[i]->key == letter) return known->options[i];
    refuse(title, "unknown option '-%c'", letter);
}

/* Whether the option in argv[at] takes the next word as its value. */
static bool takes_next(const option_names *known, const char *title, char *word) {
    const struct argp_option *option = NULL;
    const char *value;
    if (word[1] == '-') {
        char *name = text_table_must(strdup(word + 2));
        name[strcspn(name, "=")] = '\0';
        option = long_option(known, title, name);
        free(name);
        value = strchr(word, '=');
        if (option->arg == NULL && value != NULL) refuse(title, "option --%s takes no value", option->name);
        return option->arg != NULL && value == NULL;
    }
    for (value = word + 1; *value != '\0'; value++) {
        option = short_option(known, title, *value);
        if (option->arg != NULL) return value[1] == '\0';
    }
    return false;
}

static void check_options(const struct argp *argp, int argc, char **argv, bool in_order) {
    option_names known = {.count = 0};
    const char *slash = strrchr(argv[0], '/'), *title = slash == NULL ? argv[0] : slash + 1;
    collect(argp, &known);
    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++) {
        bool is_option = argv[i][0] == '-' && argv[i][1] != '\0';
        if (!is_option && in_order) return;
        if (!is_option || !takes_next(&known, title, argv[i])) continue;
        if (++i == argc) refuse(title, "option %s needs a value", argv[i - 1]);
    }
}

/* ---- Help. */

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

/* An argument that the command has not taken. */
static error_t parse_rest(int key, char *text, struct argp_state *state) {
    if (key != ARGP_KEY_ARG) return ARGP_ERR_UNKNOWN;
    command_line_error(state, "unexpected argument '%s'", text);
}

void command_line_parse(const struct argp *argp, int argc, char **argv, unsigned flags, void *input,
                        const char *examples) {
    static const struct argp_option options[] = {
        {"help", 'h', NULL, 0, "Show this help", -1}, {"usage", USAGE, NULL, OPTION_HIDDEN, NULL, -1}, {0}};
    struct argp own = *argp;
    own.help_filter = NULL;
    own.doc = NULL;
    const struct argp rest = {.parser = parse_rest};
    const struct argp_child children[] = {{&own, 0, NULL, 0}, {&rest, 0, NULL, 0}, {0}};
    const struct argp all = {
        .options = options, .parser = parse, .doc = argp->doc, .children = children, .help_filter = help_text};
    line line = {argp, input, examples};
    argp_err_exit_status = COMMAND_USAGE;
    check_options(&all, argc, argv, (flags & ARGP_IN_ORDER) != 0);
    argp_parse(&all, argc, argv, flags | ARGP_NO_HELP, NULL, &line);
}

/* ---- A command with subcommands. */

const command *command_line_find(const command_choice *choice, const char *name) {
    for (size_t i = 0; i < choice->count; i++)
        if (strcmp(choice->commands[i].name, name) == 0) return &choice->commands[i];
    return NULL;
}

static void refuse_command(const command_choice *choice, const char *name, struct argp_state *state) {
    enum { LISTED_MAX = 6 };
    const char *known[NAMES_MAX];
    char hint[COMMAND_LINE_HINT_MAX], listed[COMMAND_LINE_HINT_MAX] = "";
    size_t size = 0;
    for (size_t i = 0; i < choice->count; i++) {
        known[i] = choice->commands[i].name;
        if (choice->count <= LISTED_MAX && size < sizeof listed)
            size +=
                (size_t)snprintf(listed + size, sizeof listed - size, "%s%s", i == 0 ? "; expected " : ", ", known[i]);
    }
    command_line_error(state, "unknown %s '%s'%s%s", choice->kind, name, listed,
                       command_line_hint(name, known, choice->count, "", hint));
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
        if (choice->chosen == NULL) refuse_command(choice, text, state);
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
