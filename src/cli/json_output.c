/* json_output.c — see json_output.h. */
#include "cli/json_output.h"

#include <stdio.h>
#include <stdlib.h>

void json_output_print_text(const char *object) {
    const char *fields = object + 1; /* behind the brace */
    printf("{\"format\":%d%s%s\n", JSON_OUTPUT_FORMAT, fields[0] == '}' ? "" : ",", fields);
}

mr_status json_output_print(mr_arg object) {
    char *text;
    MR_TRY(mr_inspect_json(object, &text));
    json_output_print_text(text);
    free(text);
    return MR_OK;
}
