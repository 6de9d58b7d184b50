/* syscall_filter.c — see syscall_filter.h. A program of the classic BPF machine: for each rule, it loads the call's
 * number and, if the rule has a mask, the argument, and returns the error if both are equal. */
#include "tests/support/syscall_filter.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>

enum { STEPS_MAX = 6 };

static size_t add_rule(struct sock_filter *to, const syscall_rule *rule) {
    const unsigned argument = offsetof(struct seccomp_data, args) + 8 * (unsigned)rule->argument;
    const struct sock_filter plain[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)rule->number, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (uint32_t)rule->error),
    };
    const struct sock_filter masked[STEPS_MAX] = {
        plain[0],
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)rule->number, 0, 4),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, argument), /* the lower half: this machine is little-endian */
        BPF_STMT(BPF_ALU | BPF_AND | BPF_K, rule->mask),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, rule->value, 0, 1),
        plain[2],
    };
    size_t count = rule->mask == 0 ? sizeof plain / sizeof *plain : STEPS_MAX;
    for (size_t i = 0; i < count; i++) to[i] = rule->mask == 0 ? plain[i] : masked[i];
    return count;
}

bool syscall_filter_install(const syscall_rule *rules, size_t count) {
    struct sock_filter steps[SYSCALL_FILTER_RULES_MAX * STEPS_MAX + 1];
    size_t used = 0;
    if (count > SYSCALL_FILTER_RULES_MAX) return errno = E2BIG, false;
    for (size_t i = 0; i < count; i++) used += add_rule(steps + used, &rules[i]);
    steps[used++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    const struct sock_fprog program = {.len = (unsigned short)used, .filter = steps};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}
