/* config_api.c — see miniray/admin.h. */
#include "miniray/admin.h"

#include <unistd.h>

#include "base/assert.h"
#include "base/config.h"
#include "base/json.h"

enum { LIST_BYTES_MAX = 1 << 20 };

static const char *const source_names[] = {"default", "environment", "program"}; /* by config_source */

static mr_status load(const char *const *settings, config *out) {
    const char *const *environment = (const char *const *)environ;
    MR_TRY(config_load(settings, environment, out));
    config_warn_unknown(environment);
    return MR_OK;
}

mr_status mr_config_each(const char *const *settings, mr_config_fn *fn, void *argument) {
    config config;
    MR_TRY(load(settings, &config));
    for (size_t i = 0; i < CONFIG_COUNT; i++) {
        const config_option *option = &config_options[i];
        config_value value = config_get(&config, option);
        char text[CONFIG_TEXT_SIZE], allowed[CONFIG_TEXT_SIZE];
        fn(argument, &(mr_config_option){
                         .name = option->name,
                         .variable = option->variable,
                         .value = config_value_text(option, &value, text),
                         .source = source_names[config.source[i]],
                         .initial = option->initial,
                         .allowed = config_allowed_text(option, allowed),
                         .doc = option->doc,
                     });
    }
    return MR_OK;
}

/* Writes numbers as JSON numbers, in the unit of the option's name. */
static void put_value(json *json, const config_option *option, const config_value *value) {
    char text[CONFIG_TEXT_SIZE];
    if (option->kind == CONFIG_BOOL)
        json_bool(json, value->number != 0);
    else if (option->kind == CONFIG_STRING || option->kind == CONFIG_CHOICE)
        json_string(json, config_value_text(option, value, text));
    else
        json_int(json, value->number);
}

static void put_member(json *json, const char *key, const char *text) {
    json_key(json, key);
    json_string(json, text);
}

static void put_option(json *json, const config *config, size_t index) {
    const config_option *option = &config_options[index];
    config_value value = config_get(config, option), initial;
    char allowed[CONFIG_TEXT_SIZE];
    mr_status status = config_parse(option, option->initial, &initial);
    MR_ASSERT(status == MR_OK);
    json_key(json, option->name);
    json_object_begin(json);
    put_member(json, "variable", option->variable);
    json_key(json, "value");
    put_value(json, option, &value);
    put_member(json, "source", source_names[config->source[index]]);
    json_key(json, "default");
    put_value(json, option, &initial);
    put_member(json, "allowed", config_allowed_text(option, allowed));
    put_member(json, "doc", option->doc);
    json_object_end(json);
}

static mr_status put_all(const config *config, buffer *out) {
    json json = json_of(out);
    json_object_begin(&json);
    for (size_t i = 0; i < CONFIG_COUNT; i++) put_option(&json, config, i);
    json_object_end(&json);
    MR_TRY(json_done(&json));
    return buffer_append(out, "", 1);
}

mr_status mr_config_json(const char *const *settings, char **out) {
    config config;
    MR_TRY(load(settings, &config));
    buffer text = {.limit = LIST_BYTES_MAX};
    mr_status status = put_all(&config, &text);
    if (status == MR_OK)
        *out = (char *)text.data;
    else
        buffer_fini(&text);
    return status;
}
