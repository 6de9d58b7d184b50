/* json_output.h — output of `--json`: one object on one line, whose first field is the format number.
 *
 *   json_output json = {0};
 *   const json_field fields[] = {{"name", mr_str(name)}, {"tables", tables_of(…, &json)}};
 *   status = json_output_finish(&json, fields, sizeof fields / sizeof *fields);
 *
 * A json_output owns the memory of nested maps and lists until json_output_finish has written them. Texts are borrowed
 * until then. The program ends with status 1 if memory is exhausted. */
#pragma once
#include <argp.h>

#include "miniray/admin.h"

enum { JSON_OUTPUT_FORMAT = 2 }; /* increases when a field is removed or changes its meaning, not when one is added */

typedef struct json_field {
    const char *key;
    mr_arg value;
} json_field;

typedef struct json_output {
    void *blocks; /* owned: list of allocations, the latest first */
} json_output;

mr_arg *json_output_list(json_output *json, size_t count); /* memory for the values of a list, which the caller sets */
mr_arg json_output_map(json_output *json, const json_field *fields, size_t count);

/* A list with a value for each of `count` consecutive items of `size` bytes; `of` converts an item. */
typedef mr_arg json_item_fn(const void *item, json_output *json);
mr_arg json_output_rows(json_output *json, const void *items, size_t count, size_t size, json_item_fn *of);

/* Prints the map of the fields and frees all memory. MR_INVALID, MR_NOMEM */
MR_MUST mr_status json_output_finish(json_output *json, const json_field *fields, size_t count);

/* argp parser of a command whose only option is --json ('j'); its input is a bool. */
error_t json_output_parse(int key, char *text, struct argp_state *state);

MR_MUST mr_status json_output_print(mr_arg object); /* prints a map. MR_INVALID, MR_NOMEM */
void json_output_print_text(const char *object);    /* prints the JSON text of an object */
