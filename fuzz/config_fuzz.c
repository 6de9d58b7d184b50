/* config_fuzz.c — lines of a user or a launcher: `MINIRAY_NAME=value` is an environment variable, any other line is a
 * setting of the program.
 *
 * Loading ends with a config in which every value is allowed and is parsed back from its own text, or with an error and
 * its text. */
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/config.h"
#include "base/error.h"
#include "fuzz/fuzz.h"

enum { LINES_MAX = 64 };

static void check_value(const config_option *option, const config_value *value) {
    char text[CONFIG_TEXT_SIZE];
    config_value again;
    config_value_text(option, value, text);
    MR_ASSERT(config_parse(option, text, &again) == MR_OK);
    MR_ASSERT(again.number == value->number && strcmp(again.text, value->text) == 0);
    bool has_range = option->kind != CONFIG_BOOL && option->kind != CONFIG_CHOICE;
    MR_ASSERT(!has_range || (value->number >= option->least && value->number <= option->most));
}

/* Parses one line as the value of each kind of option. */
static void try_values(const char *text) {
    static const config_option kinds[] = {
        {.kind = CONFIG_INT, .least = 3, .most = 1000000},
        {.kind = CONFIG_BYTES, .least = 1, .most = INT64_MAX},
        {.kind = CONFIG_DURATION, .least = 0, .most = INT64_MAX},
        {.kind = CONFIG_BOOL},
        {.kind = CONFIG_STRING, .least = 0, .most = CONFIG_STRING_MAX},
        {.kind = CONFIG_CHOICE, .choices = "one|two|three"},
    };
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        config_value value;
        error_clear();
        mr_status status = config_parse(&kinds[i], text, &value);
        MR_ASSERT(status == MR_OK || (status == MR_INVALID && mr_last_error()[0] != '\0'));
        if (status == MR_OK) check_value(&kinds[i], &value);
    }
}

static void try_load(const char *const *settings, const char *const *environment) {
    config config;
    error_clear();
    mr_status status = config_load(settings, environment, &config);
    MR_ASSERT(status == MR_OK || (status == MR_INVALID && mr_last_error()[0] != '\0'));
    for (size_t i = 0; status == MR_OK && i < CONFIG_COUNT; i++) {
        config_value value = config_get(&config, &config_options[i]);
        check_value(&config_options[i], &value);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const char *settings[LINES_MAX + 1], *environment[LINES_MAX + 1];
    size_t setting_count = 0, variable_count = 0;
    char *text = malloc(size + 1), *rest = text;
    MR_ASSERT(text != NULL);
    if (size != 0) memcpy(text, data, size);
    text[size] = '\0';
    for (char *line; setting_count + variable_count < LINES_MAX && (line = strsep(&rest, "\n")) != NULL;) {
        try_values(line);
        if (strncmp(line, "MINIRAY_", 8) == 0)
            environment[variable_count++] = line;
        else
            settings[setting_count++] = line;
    }
    settings[setting_count] = environment[variable_count] = NULL;
    try_load(settings, environment);
    try_load(NULL, environment);
    free(text);
    return 0;
}
