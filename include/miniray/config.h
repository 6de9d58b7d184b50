/* miniray/config.h — every option of this version: what it is, where that comes from, and what it may be.
 *
 * An option is what the program says ("name=value"), else what the environment says (MINIRAY_NAME), else its default.
 * Variables of the environment that begin with MINIRAY_ and are no option are logged as warnings. */
#pragma once
#include "miniray/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct mr_config_option { /* borrowed for the duration of mr_config_fn */
    const char *name;             /* "arena_bytes" */
    const char *variable;         /* "MINIRAY_ARENA_BYTES" */
    const char *value;            /* "256M" */
    const char *source;           /* "default", "environment" or "program" */
    const char *initial;          /* the default */
    const char *allowed;          /* "bytes from 4M to 16384G, such as …" */
    const char *doc;              /* one line */
} mr_config_option;

typedef void mr_config_fn(void *argument, const mr_config_option *option);

/* Loads the options and calls back for each, in their order. `settings` ends with NULL, or is NULL. MR_INVALID: a value
 * is not allowed or an option does not exist; mr_last_error() says which, and nothing is called. */
MR_API MR_MUST mr_status mr_config_each(const char *const *settings, mr_config_fn *fn, void *argument);

/* The same as one JSON object, a member for each option. The text is the caller's, to free(). */
MR_API MR_MUST mr_status mr_config_json(const char *const *settings, char **out);

#ifdef __cplusplus
}
#endif
