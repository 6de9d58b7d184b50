/* syscall_filter.h — a seccomp filter that makes system calls fail, as an older kernel or a sandbox does.
 *
 * A rule applies to one call, or to those uses of a call that have a certain argument: the argument's lower 32 bits,
 * under `mask`, are equal to `value`. The filter also applies to all processes that this process starts, and cannot be
 * removed. So a test installs it in a child (test_child.h). */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct syscall_rule {
    long number; /* SYS_… */
    int error;   /* errno of the failed call */
    int argument;
    uint32_t mask, value; /* mask 0: every use of the call */
} syscall_rule;

enum { SYSCALL_FILTER_RULES_MAX = 64 };

/* False, with errno: this kernel has no filters, or the rules are too many. */
bool syscall_filter_install(const syscall_rule *rules, size_t count);
