/* nearest_name.h — the known name that a mistyped one most likely means, for "did you mean".
 *
 * Two names are compared by the number of letters that were changed, inserted, left out or swapped with the next one.
 * Upper and lower case are the same, and so are '-' and '_'. A name is similar if at most about a third of the letters
 * of the shorter one differ, or if one name is the begin or the end of the other: "cpus" of "num_cpus".
 *
 *     nearest_name nearest = nearest_name_of(span_of(typed, length));
 *     for (…) nearest_name_offer(&nearest, name);
 *     error_set(…, "unknown option '%s'%s", typed, nearest_name_hint(&nearest, hint));
 *
 * Pure; the names are borrowed as long as the result is used. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "base/bytes.h"

enum { NEAREST_NAME_MAX = 64, NEAREST_NAME_HINT_MAX = NEAREST_NAME_MAX + 32 }; /* longer names are similar to none */

typedef struct nearest_name {
    span given, best; /* best.data NULL: none is similar */
    size_t cost;      /* of the changes between the two */
} nearest_name;

nearest_name nearest_name_of(span given);
void nearest_name_offer(nearest_name *nearest, span known);
void nearest_name_offer_text(nearest_name *nearest, const char *known);
/* "; did you mean adam?", or "" if no name is similar. Returns `out`. */
const char *nearest_name_hint(const nearest_name *nearest, char out[NEAREST_NAME_HINT_MAX]);
/* The same for the first word of a text, "topk" of "topk:0.1+zstd", and the names of another one: "sign, topk". */
const char *nearest_name_among(const char *given, const char *names, char out[NEAREST_NAME_HINT_MAX]);
/* Whether that first word is one of the names. */
bool nearest_name_is_one(const char *given, const char *names);
