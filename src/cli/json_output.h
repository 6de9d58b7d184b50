/* json_output.h — output of `--json`: one object on one line, whose first field is the format number. */
#pragma once
#include "miniray/admin.h"

enum { JSON_OUTPUT_FORMAT = 2 }; /* raised when a field is removed or changes its meaning, not when one is added */

MR_MUST mr_status json_output_print(mr_arg object); /* a map. MR_INVALID, MR_NOMEM */
void json_output_print_text(const char *object);    /* the text of one */
