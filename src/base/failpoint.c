/* failpoint.c — see failpoint.h. */
#include "base/failpoint.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"

enum { ACTION_NONE, ACTION_KILL, ACTION_ERROR, ACTION_STOP, ACTION_EXIT };

static const char *const action_names[] = {"none", "kill", "error", "stop", "exit"};

/* The linker sets these to the ends of the section; weak, because a program may hold no site at all. */
extern failpoint *const __start_failpoints[] __attribute__((weak, visibility("hidden")));
extern failpoint *const __stop_failpoints[] __attribute__((weak, visibility("hidden")));

size_t failpoint_count(void) {
    return __start_failpoints == NULL ? 0 : (size_t)(__stop_failpoints - __start_failpoints);
}

const failpoint *failpoint_at(size_t index) { return __start_failpoints[index]; }

bool failpoint_visit(failpoint *point) {
    point->visits++;
    if (point->action == ACTION_NONE || point->countdown == 0 || --point->countdown != 0) return false;
    switch (point->action) {
    case ACTION_KILL:
        kill(getpid(), SIGKILL);
        pause();
        break;
    case ACTION_STOP: kill(getpid(), SIGSTOP); break;
    case ACTION_EXIT: _exit(42);
    default: break;
    }
    return point->action == ACTION_ERROR;
}

static mr_status parse(const char *text, char *name, size_t size, int *action, unsigned *nth) {
    const char *equals = strchr(text, '=');
    if (equals == NULL || equals == text || (size_t)(equals - text) >= size)
        return error_set(MR_INVALID, "failpoint '%s': expected name=action[@nth]", text);
    memcpy(name, text, (size_t)(equals - text));
    name[equals - text] = '\0';
    const char *verb = equals + 1, *at = strchr(verb, '@');
    size_t length = at == NULL ? strlen(verb) : (size_t)(at - verb);
    *action = ACTION_NONE;
    for (int i = ACTION_KILL; i <= ACTION_EXIT; i++)
        if (strlen(action_names[i]) == length && strncmp(verb, action_names[i], length) == 0) *action = i;
    *nth = 1;
    char *end = NULL;
    if (at != NULL) *nth = (unsigned)strtoul(at + 1, &end, 10);
    if (*action == ACTION_NONE || *nth == 0 || (at != NULL && (end == at + 1 || *end != '\0')))
        return error_set(MR_INVALID, "failpoint '%s': expected kill, error, stop or exit, then @nth from 1", text);
    return MR_OK;
}

mr_status failpoint_arm(const char *text) {
    char name[96];
    int action = ACTION_NONE;
    unsigned nth = 0;
    MR_TRY(parse(text, name, sizeof name, &action, &nth));
    size_t found = 0;
    for (size_t i = 0; i < failpoint_count(); i++) {
        failpoint *point = __start_failpoints[i];
        if (strcmp(point->name, name) != 0) continue;
        point->action = action;
        point->countdown = nth;
        found++;
    }
    if (found == 0) return error_set(MR_NOT_FOUND, "no failpoint is called '%s' in this build", name);
    return MR_OK;
}

void failpoint_disarm_all(void) {
    for (size_t i = 0; i < failpoint_count(); i++) {
        __start_failpoints[i]->action = ACTION_NONE;
        __start_failpoints[i]->visits = 0;
    }
}

#ifdef MR_FAILPOINTS
__attribute__((constructor)) static void arm_from_environment(void) {
    const char *text = getenv("MINIRAY_FAILPOINT");
    if (text == NULL) return;
    if (failpoint_arm(text) != MR_OK) fprintf(stderr, "miniray: MINIRAY_FAILPOINT: %s\n", mr_last_error());
}
#endif
