/* failpoint.c — see failpoint.h. */
#include "base/failpoint.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/error.h"

enum { ACTION_NONE, ACTION_KILL, ACTION_ERROR, ACTION_STOP, ACTION_EXIT, ACTION_COUNT };

static const char *const action_names[ACTION_COUNT] = {"none", "kill", "error", "stop", "exit"};

/* The linker sets these symbols to the ends of the section; weak, because a program may have no site. */
extern failpoint *const __start_failpoints[] __attribute__((weak, visibility("hidden")));
extern failpoint *const __stop_failpoints[] __attribute__((weak, visibility("hidden")));

size_t failpoint_count(void) {
    return __start_failpoints == NULL ? 0 : (size_t)(__stop_failpoints - __start_failpoints);
}

const failpoint *failpoint_at(size_t index) {
    MR_ASSERT(index < failpoint_count());
    return __start_failpoints[index];
}

/* True for the one visit, among all threads, that decrements the countdown to 0. */
static bool is_due(failpoint *point) {
    uint32_t left = atomic_load_explicit(&point->countdown, memory_order_acquire);
    while (left != 0)
        if (atomic_compare_exchange_weak_explicit(&point->countdown, &left, left - 1, memory_order_acquire,
                                                  memory_order_acquire))
            return left == 1;
    return false;
}

bool failpoint_visit(failpoint *point) {
    atomic_fetch_add_explicit(&point->visits, 1, memory_order_relaxed);
    if (!is_due(point)) return false;
    switch (atomic_load_explicit(&point->action, memory_order_relaxed)) {
    case ACTION_KILL:
        kill(getpid(), SIGKILL);
        for (;;) pause(); /* the signal is pending: nothing after this line may run */
    case ACTION_STOP: kill(getpid(), SIGSTOP); return false;
    case ACTION_EXIT: _exit(FAILPOINT_EXIT_STATUS);
    case ACTION_ERROR: return true;
    default: return false;
    }
}

typedef struct order { /* the parsed text */
    size_t name_length;
    int action;
    uint32_t nth;
} order;

static int action_of(const char *verb, size_t length) {
    for (int i = ACTION_KILL; i < ACTION_COUNT; i++)
        if (strlen(action_names[i]) == length && memcmp(verb, action_names[i], length) == 0) return i;
    return ACTION_NONE;
}

/* A number of digits only, 1 to 999,999,999; 0 for any other text. */
static uint32_t count_of(const char *digits) {
    size_t length = strspn(digits, "0123456789");
    return length == 0 || length > 9 || digits[length] != '\0' ? 0 : (uint32_t)strtoul(digits, NULL, 10);
}

static mr_status parse(const char *text, order *out) {
    const char *equals = strchr(text, '=');
    if (equals == NULL || equals == text)
        return error_set(MR_INVALID, "failpoint '%s': expected name=action[@nth]", text);
    const char *verb = equals + 1, *at = strchrnul(verb, '@');
    out->name_length = (size_t)(equals - text);
    out->action = action_of(verb, (size_t)(at - verb));
    out->nth = *at == '\0' ? 1 : count_of(at + 1);
    if (out->action == ACTION_NONE || out->nth == 0)
        return error_set(MR_INVALID, "failpoint '%s': expected kill, error, stop or exit, then @nth from 1", text);
    return MR_OK;
}

mr_status failpoint_arm(const char *text) {
    order order = {0};
    MR_TRY(parse(text, &order));
    size_t found = 0;
    for (size_t i = 0; i < failpoint_count(); i++) {
        failpoint *point = __start_failpoints[i];
        if (strlen(point->name) != order.name_length || memcmp(point->name, text, order.name_length) != 0) continue;
        atomic_store_explicit(&point->action, order.action, memory_order_relaxed);
        atomic_store_explicit(&point->countdown, order.nth, memory_order_release);
        found++;
    }
    if (found == 0) return error_set(MR_NOT_FOUND, "this build has no failpoint '%.*s'", (int)order.name_length, text);
    return MR_OK;
}

void failpoint_disarm_all(void) {
    for (size_t i = 0; i < failpoint_count(); i++) {
        atomic_store_explicit(&__start_failpoints[i]->countdown, 0, memory_order_relaxed);
        atomic_store_explicit(&__start_failpoints[i]->visits, 0, memory_order_relaxed);
    }
}

#ifdef MR_FAILPOINTS
__attribute__((constructor)) static void arm_from_environment(void) {
    const char *text = getenv("MINIRAY_FAILPOINT");
    if (text == NULL) return;
    if (failpoint_arm(text) != MR_OK) fprintf(stderr, "miniray: MINIRAY_FAILPOINT: %s\n", mr_last_error());
}
#endif
