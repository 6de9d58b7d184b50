/* config.h — table of every option, its parser and its errors.
 *
 * The table below is the only definition of an option's name, its environment variable, its allowed values and its
 * default: the struct, the parser, the errors, `miniray config` and its documentation are generated from it.
 * Precedence:
 *
 *     the program (name=value)  >  the environment (MINIRAY_NAME)  >  the default
 *
 * Numbers are whole. Bytes take the suffixes k, M and G (powers of 1024), durations us, ms and s; a number without a
 * suffix has the unit in the option's name. An invalid value in any source is an error, even if another source takes
 * precedence. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "miniray/status.h"

/* X(name, VARIABLE after MINIRAY_, KIND, default, least, most, choices, doc). Choices are numbered from 0 in the order
 * listed; for a string `most` is its maximum length in bytes. */
#define CONFIG_LIST(X)                                                                                                 \
    X(log_level, LOG_LEVEL, CHOICE, "warn", 0, 0, "error|warn|info|debug", "lowest severity that is logged")           \
    X(log_json, LOG_JSON, BOOL, "false", 0, 0, "", "log lines are JSON objects")                                       \
    X(address, ADDRESS, STRING, "", 0, 107, "",                                                                        \
      "standalone node that drivers join: auto, or the path of its socket; empty: a private node")                     \
    X(events_kept, EVENTS_KEPT, INT, "2048", 0, 1048576, "",                                                           \
      "calls that each worker records for status and timeline; 0: none")                                               \
    X(arena_bytes, ARENA_BYTES, BYTES, "0", 0, CONFIG_G(16384), "",                                                    \
      "size of a node's shared memory; 0: 30 % of the available memory")                                               \
    X(spill_dir, SPILL_DIR, STRING, "", 0, CONFIG_STRING_MAX, "",                                                      \
      "directory for objects spilled from shared memory; empty: the node's own; none: no spilling")                    \
    X(spill_bytes_max, SPILL_BYTES_MAX, BYTES, "0", 0, CONFIG_G(16384), "",                                            \
      "limit of all spilled objects; 0: the free space of the disk")                                                   \
    X(ring_bytes, RING_BYTES, BYTES, "16k", CONFIG_K(4), CONFIG_G(1), "", "size of a new ring between two processes")  \
    X(ring_bytes_max, RING_BYTES_MAX, BYTES, "4M", CONFIG_M(1), CONFIG_G(1), "", "size to which a full ring may grow") \
    X(memory_limit, MEMORY_LIMIT, BYTES, "0", 0, CONFIG_G(16384), "",                                                  \
      "limit of a node's workers and shared memory together; 0: only that of the machine or container")                \
    X(memory_usage_threshold, MEMORY_USAGE_THRESHOLD, INT, "95", 1, 100, "",                                           \
      "percentage of the memory above which a node ends tasks, the newest first; 100: never")                          \
    X(memory_check_us, MEMORY_CHECK_US, DURATION, "250ms", 0, CONFIG_S(60), "",                                        \
      "shortest interval between checks of the memory usage while tasks or actors run; 0: no checks")                  \
    X(task_oom_retries, TASK_OOM_RETRIES, INT, "1000000", 0, 1000000, "",                                              \
      "retries of a task whose worker was ended because memory ran out, besides max_retries")                          \
    X(spin_us, SPIN_US, DURATION, "20us", 0, CONFIG_S(1), "",                                                          \
      "how long a waiting thread polls for a message before it sleeps; 0: never polls")

#define CONFIG_K(n) (INT64_C(n) << 10)
#define CONFIG_M(n) (INT64_C(n) << 20)
#define CONFIG_G(n) (INT64_C(n) << 30)
#define CONFIG_S(n) (INT64_C(n) * 1000000)

typedef enum config_kind {
    CONFIG_INT,
    CONFIG_BYTES,
    CONFIG_DURATION, /* in µs */
    CONFIG_BOOL,
    CONFIG_STRING,
    CONFIG_CHOICE,
} config_kind;

enum { CONFIG_STRING_MAX = 255, CONFIG_TEXT_SIZE = 320 };

#define CONFIG_FIELD_INT(name)      int64_t name;
#define CONFIG_FIELD_BYTES(name)    int64_t name;
#define CONFIG_FIELD_DURATION(name) int64_t name;
#define CONFIG_FIELD_BOOL(name)     int64_t name;
#define CONFIG_FIELD_STRING(name)   char name[CONFIG_STRING_MAX + 1];
#define CONFIG_FIELD_CHOICE(name)   int64_t name;

enum {
#define X(name, ...) CONFIG_AT_##name,
    CONFIG_LIST(X)
#undef X
        CONFIG_COUNT,
};

typedef enum config_source { CONFIG_FROM_DEFAULT, CONFIG_FROM_ENVIRONMENT, CONFIG_FROM_PROGRAM } config_source;

typedef struct config { /* plain data: copied and compared bytewise; nothing to free */
#define X(name, variable, kind, ...) CONFIG_FIELD_##kind(name)
    CONFIG_LIST(X)
#undef X
    config_source source[CONFIG_COUNT];
} config;

/* `settings` is a NULL-terminated list of "name=value"; a later setting overrides an earlier one. `environment` has the
 * format of environ. Both are borrowed for the call and may be NULL. MR_INVALID: the error names the option, its value
 * and the allowed values. */
MR_MUST mr_status config_load(const char *const *settings, const char *const *environment, config *out);

/* Logs a warning for each variable MINIRAY_… that names no option, and suggests the most similar option. */
void config_warn_unknown(const char *const *environment);

/* Applies the process-wide settings: level and format of the log. */
void config_apply(const config *config);

/* ---- The table as data. */

typedef struct config_option {
    const char *name, *variable;
    config_kind kind;
    const char *initial; /* the default, as text */
    int64_t least, most;
    const char *choices, *doc;
    size_t offset; /* in struct config */
} config_option;

extern const config_option config_options[CONFIG_COUNT];

typedef struct config_value {
    int64_t number; /* index of a choice, 0 or 1 of a bool, length of a string */
    char text[CONFIG_STRING_MAX + 1];
} config_value;

/* Pure. MR_INVALID: the error names the text and the allowed values. */
MR_MUST mr_status config_parse(const config_option *option, const char *text, config_value *out);

/* The shortest text that config_parse reads as the same value. */
const char *config_value_text(const config_option *option, const config_value *value, char out[CONFIG_TEXT_SIZE]);

/* "bytes from 4k to 1G, such as 4096, 16k, 256M or 64G" */
const char *config_allowed_text(const config_option *option, char out[CONFIG_TEXT_SIZE]);

config_value config_get(const config *config, const config_option *option);
