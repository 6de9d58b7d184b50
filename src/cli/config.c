/* config.c — `miniray config`: every option, its value and where that comes from. */
#include <argp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "cli/command.h"
#include "cli/json_output.h"
#include "miniray/config.h"

static error_t parse(int key, char *text, struct argp_state *state) {
    bool *as_json = state->input;
    if (key != 'j') return ARGP_ERR_UNKNOWN;
    *as_json = true;
    return 0;
}

static void print_row(void *argument, const mr_config_option *option) {
    static const char format[] = "%-17s %-9s %-12s %-9s %s\n";
    bool *is_first = argument;
    if (*is_first) printf(format, "OPTION", "VALUE", "SOURCE", "DEFAULT", "WHAT IT IS");
    *is_first = false;
    printf(format, option->name, option->value, option->source, option->initial, option->doc);
}

static mr_status print_json(void) {
    char *text = NULL;
    MR_TRY(mr_config_json(NULL, &text));
    json_output_print_text(text);
    free(text);
    return MR_OK;
}

int command_config(int argc, char **argv) {
    const struct argp_option options[] = {
        {"json", 'j', NULL, 0, "As one JSON object, numbers in the unit of the name", 0}, {0}};
    const struct argp argp = {
        .options = options,
        .parser = parse,
        .doc =
            "Lists every option: its value, where that comes from, its default and what it is.\v"
            "Each is set in the environment by MINIRAY_ and its name in capitals: MINIRAY_LOG_LEVEL=info. Bytes take "
            "k, M or G, durations us, ms or s.",
    };
    bool as_json = false, is_first = true;
    argp_parse(&argp, argc, argv, 0, NULL, &as_json);
    mr_status status = as_json ? print_json() : mr_config_each(NULL, print_row, &is_first);
    if (status != MR_OK) fprintf(stderr, "%s: %s\n", argv[0], mr_last_error());
    return status != MR_OK;
}
