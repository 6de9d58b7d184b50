/* checkup.h — checks of `miniray doctor`. A check reads one property of the machine, changes nothing and starts
 * nothing; its finding holds the value, its effect on Miniray, and the fix. */
#pragma once
#include <stddef.h>

enum { CHECKUP_MAX = 32, CHECKUP_TEXT = 200 };

typedef enum checkup_state {
    CHECKUP_OK,
    CHECKUP_WARN, /* it works, but worse */
    CHECKUP_FAIL, /* it does not work */
} checkup_state;

typedef struct checkup_finding {
    const char *name; /* static */
    checkup_state state;
    char found[CHECKUP_TEXT];
    const char *meaning, *mend; /* static: effect and fix of a state other than ok */
} checkup_finding;

size_t checkup(checkup_finding findings[CHECKUP_MAX]); /* how many */
const char *checkup_state_name(checkup_state state);   /* "ok" */
