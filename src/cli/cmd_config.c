/* cmd_config.c — `miniray config`: table of all options with their values and sources. */
#include <argp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "cli/command_line.h"
#include "cli/json_output.h"
#include "miniray/admin.h"

static void print_row(void *argument, const mr_config_option *option) {
    static const char format[] = "%-17s %-9s %-12s %-9s %s\n";
    bool *is_first = argument;
    if (*is_first) printf(format, "OPTION", "VALUE", "SOURCE", "DEFAULT", "DESCRIPTION");
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
        {"json", 'j', NULL, 0, "Print one JSON object; numbers are in the unit of the option's name", 0}, {0}};
    const struct argp argp = {
        .options = options,
        .parser = json_output_parse,
        .doc = "Lists every option with its value, the source of the value, its default and a description.\v"
               "An environment variable sets an option: MINIRAY_ and its name in capitals, such as "
               "MINIRAY_LOG_LEVEL=info. Sizes take the suffixes k, M and G, durations us, ms and s.",
    };
    bool as_json = false, is_first = true;
    command_line_parse(&argp, argc, argv, 0, &as_json, "miniray config\nMINIRAY_SPIN_US=5us miniray config --json");
    mr_status status = as_json ? print_json() : mr_config_each(NULL, print_row, &is_first);
    return command_outcome(argv[0], status);
}
