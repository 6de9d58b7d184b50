/* doctor_checks.h — checks of `miniray doctor`. A check reads one property of the machine, without changing anything or
 * starting a process; its finding has the value, the effect on Miniray, and the fix. */
#pragma once
#include <stddef.h>

enum { DOCTOR_CHECK_MAX = 32, DOCTOR_CHECK_TEXT = 200 };

typedef enum doctor_check_state {
    DOCTOR_CHECK_OK,
    DOCTOR_CHECK_WARN, /* Miniray works with restrictions */
    DOCTOR_CHECK_FAIL, /* Miniray does not work */
} doctor_check_state;

typedef struct doctor_check_finding {
    const char *name; /* static */
    doctor_check_state state;
    char found[DOCTOR_CHECK_TEXT];
    const char *meaning, *mend; /* static: effect and fix of a state other than ok */
} doctor_check_finding;

size_t doctor_check(doctor_check_finding findings[DOCTOR_CHECK_MAX]); /* returns the number of findings */
const char *doctor_check_state_name(doctor_check_state state);        /* "ok" */
