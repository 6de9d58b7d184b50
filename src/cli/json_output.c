/* json_output.c — see json_output.h. */
#include "cli/json_output.h"

#include <stdio.h>
#include <stdlib.h>

#include "cli/text_table.h"

typedef struct block {
    struct block *next;
    mr_arg values[];
} block;

mr_arg *json_output_list(json_output *json, size_t count) {
    block *block = text_table_must(calloc(1, sizeof *block + count * sizeof(mr_arg)));
    block->next = json->blocks;
    json->blocks = block;
    return block->values;
}

mr_arg json_output_map(json_output *json, const json_field *fields, size_t count) {
    mr_arg *pairs = json_output_list(json, 2 * count);
    for (size_t i = 0; i < count; i++) {
        pairs[2 * i] = mr_str(fields[i].key);
        pairs[2 * i + 1] = fields[i].value;
    }
    return mr_map(pairs, count);
}

mr_arg json_output_rows(json_output *json, const void *items, size_t count, size_t size, json_item_fn *of) {
    mr_arg *rows = json_output_list(json, count);
    for (size_t i = 0; i < count; i++) rows[i] = of((const char *)items + i * size, json);
    return mr_list(rows, count);
}

mr_status json_output_finish(json_output *json, const json_field *fields, size_t count) {
    mr_status status = json_output_print(json_output_map(json, fields, count));
    for (block *block; (block = json->blocks) != NULL; free(block)) json->blocks = block->next;
    return status;
}

error_t json_output_parse(int key, char *text, struct argp_state *state) {
    bool *as_json = state->input;
    if (key != 'j') return ARGP_ERR_UNKNOWN;
    *as_json = true;
    return 0;
}

void json_output_print_text(const char *object) {
    const char *fields = object + 1; /* after the brace */
    printf("{\"format\":%d%s%s\n", JSON_OUTPUT_FORMAT, fields[0] == '}' ? "" : ",", fields);
}

mr_status json_output_print(mr_arg object) {
    char *text;
    MR_TRY(mr_inspect_json(object, &text));
    json_output_print_text(text);
    free(text);
    return MR_OK;
}
