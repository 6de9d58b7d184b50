/* config.c — see config.h. */
#include "base/config.h"

#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/error.h"
#include "base/json.h"
#include "base/log.h"
#include "base/nearest_name.h"

#define PREFIX "MINIRAY_"

const config_option config_options[CONFIG_COUNT] = {
#define X(name, variable, kind, initial, least, most, choices, doc) \
    {#name, PREFIX #variable, CONFIG_##kind, initial, least, most, choices, doc, offsetof(config, name)},
    CONFIG_LIST(X)
#undef X
};

_Static_assert(LOG_ERROR == 0 && LOG_WARN == 1 && LOG_INFO == 2 && LOG_DEBUG == 3, "the order of log_level's choices");

/* ---- Text to value. */

typedef struct unit {
    const char *name;
    int64_t size;
} unit;

/* Largest unit first; the unit of a bare number last. */
static const unit units_of_bytes[] = {{"G", CONFIG_G(1)}, {"M", CONFIG_M(1)}, {"k", CONFIG_K(1)}, {"", 1}, {NULL, 0}};
static const unit units_of_time[] = {{"s", CONFIG_S(1)}, {"ms", 1000}, {"us", 1}, {"", 1}, {NULL, 0}};
static const unit units_of_none[] = {{"", 1}, {NULL, 0}};

static const unit *units_of(config_kind kind) {
    return kind == CONFIG_BYTES ? units_of_bytes : kind == CONFIG_DURATION ? units_of_time : units_of_none;
}

/* Digits, then a unit. Returns false for any other text and for a number that does not fit. */
static bool parse_number(const char *text, const unit *units, int64_t *out) {
    size_t digits = strspn(text, "0123456789");
    int64_t number = 0;
    if (digits == 0) return false;
    for (size_t i = 0; i < digits; i++)
        if (__builtin_mul_overflow(number, 10, &number) || __builtin_add_overflow(number, text[i] - '0', &number))
            return false;
    for (; units->name != NULL; units++)
        if (strcmp(text + digits, units->name) == 0) return !__builtin_mul_overflow(number, units->size, out);
    return false;
}

static bool parse_bool(const char *text, int64_t *out) {
    static const char *const words[][2] = {{"false", "true"}, {"0", "1"}, {"no", "yes"}, {"off", "on"}};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        for (int value = 0; value <= 1; value++)
            if (strcmp(text, words[i][value]) == 0) {
                *out = value;
                return true;
            }
    return false;
}

/* Position and length of the nth choice; false if there are fewer choices. */
static bool choice_at(const char *choices, int64_t nth, const char **at, size_t *length) {
    for (*at = choices;; *at += *length + 1) {
        *length = strcspn(*at, "|");
        if (nth-- == 0) return true;
        if ((*at)[*length] == '\0') return false;
    }
}

static bool parse_choice(const char *choices, const char *text, int64_t *out) {
    const char *at;
    size_t length;
    for (int64_t nth = 0; choice_at(choices, nth, &at, &length); nth++)
        if (strlen(text) == length && memcmp(text, at, length) == 0) {
            *out = nth;
            return true;
        }
    return false;
}

static bool parse_string(const config_option *option, const char *text, config_value *out) {
    size_t length = strnlen(text, CONFIG_STRING_MAX + 1);
    if (length > CONFIG_STRING_MAX || (int64_t)length < option->least || (int64_t)length > option->most) return false;
    for (size_t i = 0; i < length; i++)
        if ((unsigned char)text[i] < 0x20 || text[i] == 0x7f) return false;
    memcpy(out->text, text, length);
    out->number = (int64_t)length;
    return true;
}

static bool parse(const config_option *option, const char *text, config_value *out) {
    switch (option->kind) {
    case CONFIG_INT:
    case CONFIG_BYTES:
    case CONFIG_DURATION:
        return parse_number(text, units_of(option->kind), &out->number) && out->number >= option->least &&
               out->number <= option->most;
    case CONFIG_BOOL: return parse_bool(text, &out->number);
    case CONFIG_STRING: return parse_string(option, text, out);
    case CONFIG_CHOICE: return parse_choice(option->choices, text, &out->number);
    }
    MR_UNREACHABLE();
}

/* The user's text, escaped for a terminal and shortened. */
static const char *shown(const char *text, size_t length, char out[64]) {
    size_t taken, used = json_escape(span_of(text, length), false, (uint8_t *)out, 56, &taken);
    strcpy(out + used, taken < length ? "…" : "");
    return out;
}

mr_status config_parse(const config_option *option, const char *text, config_value *out) {
    config_value value = {0};
    if (!parse(option, text, &value)) {
        char allowed[CONFIG_TEXT_SIZE], typed[64];
        return error_set(MR_INVALID, "'%s' is not allowed: expected %s", shown(text, strlen(text), typed),
                         config_allowed_text(option, allowed));
    }
    *out = value;
    return MR_OK;
}

/* ---- Value to text. */

static void number_text(int64_t number, const unit *units, char *out, size_t size) {
    while (units->size > 1 && (number == 0 || number % units->size != 0)) units++;
    snprintf(out, size, "%lld%s", (long long)(number / units->size), units->name);
}

const char *config_value_text(const config_option *option, const config_value *value, char out[CONFIG_TEXT_SIZE]) {
    const char *choice = "";
    size_t length = 0;
    switch (option->kind) {
    case CONFIG_INT:
    case CONFIG_BYTES:
    case CONFIG_DURATION: number_text(value->number, units_of(option->kind), out, CONFIG_TEXT_SIZE); break;
    case CONFIG_BOOL: snprintf(out, CONFIG_TEXT_SIZE, "%s", value->number ? "true" : "false"); break;
    case CONFIG_STRING: snprintf(out, CONFIG_TEXT_SIZE, "%s", value->text); break;
    case CONFIG_CHOICE:
        MR_ASSERT(choice_at(option->choices, value->number, &choice, &length));
        snprintf(out, CONFIG_TEXT_SIZE, "%.*s", (int)length, choice);
        break;
    }
    return out;
}

static void choices_text(const char *choices, char out[CONFIG_TEXT_SIZE]) {
    const char *at;
    size_t length, used = 0;
    for (int64_t nth = 0; choice_at(choices, nth, &at, &length); nth++)
        used += (size_t)snprintf(out + used, CONFIG_TEXT_SIZE - used, "%s%.*s",
                                 nth == 0             ? ""
                                 : at[length] == '\0' ? " or "
                                                      : ", ",
                                 (int)length, at);
}

const char *config_allowed_text(const config_option *option, char out[CONFIG_TEXT_SIZE]) {
    char least[32], most[32];
    number_text(option->least, units_of(option->kind), least, sizeof least);
    number_text(option->most, units_of(option->kind), most, sizeof most);
    switch (option->kind) {
    case CONFIG_INT: snprintf(out, CONFIG_TEXT_SIZE, "a whole number from %s to %s", least, most); break;
    case CONFIG_BYTES:
        snprintf(out, CONFIG_TEXT_SIZE, "bytes from %s to %s, such as 65536, 64k, 256M or 2G", least, most);
        break;
    case CONFIG_DURATION:
        snprintf(out, CONFIG_TEXT_SIZE, "a duration from %s to %s, such as 20us, 100ms or 2s", least, most);
        break;
    case CONFIG_BOOL: snprintf(out, CONFIG_TEXT_SIZE, "true or false (or 1 or 0, yes or no, on or off)"); break;
    case CONFIG_STRING:
        snprintf(out, CONFIG_TEXT_SIZE, "text of %s to %s bytes without control characters", least, most);
        break;
    case CONFIG_CHOICE: choices_text(option->choices, out); break;
    }
    return out;
}

/* ---- The struct. */

static mr_status set(config *config, const config_option *option, const char *text, config_source source) {
    char *field = (char *)config + option->offset;
    config_value value;
    MR_TRY(config_parse(option, text, &value));
    if (option->kind == CONFIG_STRING)
        memcpy(field, value.text, (size_t)value.number + 1);
    else
        memcpy(field, &value.number, sizeof value.number);
    config->source[option - config_options] = source;
    return MR_OK;
}

config_value config_get(const config *config, const config_option *option) {
    const char *field = (const char *)config + option->offset;
    config_value value = {0};
    if (option->kind == CONFIG_STRING) {
        value.number = (int64_t)strnlen(field, CONFIG_STRING_MAX);
        memcpy(value.text, field, (size_t)value.number);
    } else {
        memcpy(&value.number, field, sizeof value.number);
    }
    return value;
}

/* ---- Names. */

static bool is_name(const char *name, const char *text, size_t length) {
    return strlen(name) == length && memcmp(name, text, length) == 0;
}

/* "; did you mean spin_us?", or "" if no option has a similar name. */
static const char *hint(const char *text, size_t length, bool as_variable, char out[NEAREST_NAME_HINT_MAX]) {
    size_t prefix = as_variable ? sizeof PREFIX - 1 : 0; /* which all variables have, so it is not compared */
    nearest_name nearest = nearest_name_of(span_of(text + prefix, length - prefix));
    for (size_t i = 0; i < CONFIG_COUNT; i++)
        nearest_name_offer_text(&nearest, as_variable ? config_options[i].variable + prefix : config_options[i].name);
    if (nearest.best.data != NULL) nearest.best = span_of(nearest.best.data - prefix, nearest.best.size + prefix);
    return nearest_name_hint(&nearest, out);
}

static const config_option *find(const char *text, size_t length, bool as_variable) {
    for (size_t i = 0; i < CONFIG_COUNT; i++)
        if (is_name(as_variable ? config_options[i].variable : config_options[i].name, text, length))
            return &config_options[i];
    return NULL;
}

/* Fails for a name of an earlier version; the error states the present name. */
static mr_status check_renamed(const char *text, size_t length) {
    static const char *const renamed[][2] = {{"spill_folder", "spill_dir"},
                                             {PREFIX "SPILL_FOLDER", PREFIX "SPILL_DIR"}};
    for (size_t i = 0; i < sizeof renamed / sizeof *renamed; i++)
        if (is_name(renamed[i][0], text, length))
            return error_set(MR_INVALID, "%s was renamed: use %s", renamed[i][0], renamed[i][1]);
    return MR_OK;
}

/* ---- Sources. */

static void load_defaults(config *config) {
    for (size_t i = 0; i < CONFIG_COUNT; i++) {
        mr_status status = set(config, &config_options[i], config_options[i].initial, CONFIG_FROM_DEFAULT);
        MR_ASSERT(status == MR_OK);
    }
}

/* If a variable appears twice, the first counts, as for getenv. */
static mr_status load_environment(config *config, const char *const *environment) {
    for (; environment != NULL && *environment != NULL; environment++) {
        const char *equals = strchr(*environment, '=');
        if (equals == NULL) continue;
        MR_TRY(check_renamed(*environment, (size_t)(equals - *environment)));
        const config_option *option = find(*environment, (size_t)(equals - *environment), true);
        if (option == NULL || config->source[option - config_options] == CONFIG_FROM_ENVIRONMENT) continue;
        mr_status status = set(config, option, equals + 1, CONFIG_FROM_ENVIRONMENT);
        if (status != MR_OK) return error_wrap(status, "%s", option->variable);
    }
    return MR_OK;
}

static mr_status load_setting(config *config, const char *setting) {
    char typed[64], meant[NEAREST_NAME_HINT_MAX];
    size_t length = strcspn(setting, "=");
    if (setting[length] != '=')
        return error_set(MR_INVALID, "the option '%s' has no value: expected name=value",
                         shown(setting, length, typed));
    MR_TRY(check_renamed(setting, length));
    const config_option *option = find(setting, length, false);
    if (option == NULL)
        return error_set(MR_INVALID, "unknown option '%s'%s `miniray config` lists all options",
                         shown(setting, length, typed), *hint(setting, length, false, meant) == '\0' ? ";" : meant);
    mr_status status = set(config, option, setting + length + 1, CONFIG_FROM_PROGRAM);
    return status == MR_OK ? MR_OK : error_wrap(status, "option %s", option->name);
}

/* Rejects values that are allowed individually but not in combination. */
static mr_status check_together(const config *config) {
    if (config->ring_bytes > config->ring_bytes_max)
        return error_set(MR_INVALID, "ring_bytes is %lld, which exceeds ring_bytes_max (%lld)",
                         (long long)config->ring_bytes, (long long)config->ring_bytes_max);
    return MR_OK;
}

mr_status config_load(const char *const *settings, const char *const *environment, config *out) {
    config config;
    memset(&config, 0, sizeof config); /* clears the padding too, so that two configs can be compared with memcmp */
    load_defaults(&config);
    MR_TRY(load_environment(&config, environment));
    for (; settings != NULL && *settings != NULL; settings++) MR_TRY(load_setting(&config, *settings));
    MR_TRY(check_together(&config));
    memcpy(out, &config, sizeof config);
    return MR_OK;
}

/* Whether this MINIRAY_ variable is not an option: it names a token file (net/socket/token.h), is read by the Python
 * package (full tracebacks), or is for tests. */
static bool is_other_variable(const char *text, size_t length) {
    static const char tests[] = PREFIX "TEST_";
    return is_name(PREFIX "FAILPOINT", text, length) || is_name(PREFIX "FULL_TRACEBACKS", text, length) ||
           is_name(PREFIX "TOKEN_FILE", text, length) || strncmp(text, tests, sizeof tests - 1) == 0;
}

void config_warn_unknown(const char *const *environment) {
    for (; environment != NULL && *environment != NULL; environment++) {
        const char *text = *environment;
        size_t length = strcspn(text, "=");
        if (strncmp(text, PREFIX, sizeof PREFIX - 1) != 0 || find(text, length, true) != NULL) continue;
        if (is_other_variable(text, length)) continue;
        char meant[NEAREST_NAME_HINT_MAX];
        log_warn("environment variable %.*s is not an option of this version%s", length > 80 ? 80 : (int)length, text,
                 hint(text, length, true, meant));
    }
}

void config_apply(const config *config) {
    log_set_level((log_level)config->log_level);
    log_set_json(config->log_json != 0);
}
