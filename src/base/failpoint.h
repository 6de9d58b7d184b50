/* failpoint.h — places where a test may end the process, fail a system call or stop for a while.
 *
 *     FAILPOINT("ring.publish");                       // may kill this process here
 *     if (FAILPOINT_ERROR("arena.fallocate")) { errno = ENOSPC; return error_errno("…"); }
 *
 * Compiled in only with -Dfailpoints=true (the debug builds); elsewhere both are nothing. Every site registers itself
 * in a linker section, so that a sweep visits all of them: there is no list to forget.
 *
 * MINIRAY_FAILPOINT="name=action[@nth]" arms one at start; failpoint_arm does it from a test. Actions: kill (SIGKILL to
 * oneself), error (FAILPOINT_ERROR is true), stop (SIGSTOP), exit (exit status 42). `nth` counts visits from 1. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "miniray/status.h"

typedef struct failpoint {
    const char *name;
    int action; /* written by failpoint_arm */
    uint32_t countdown;
    uint32_t visits; /* how often this process came past */
} failpoint;

#ifdef MR_FAILPOINTS
#define FAILPOINT_SITE_(text)                  \
    static failpoint site_ = {.name = (text)}; \
    static failpoint *const site_ref_ __attribute__((section("failpoints"), used, no_sanitize("address"))) = &site_
#define FAILPOINT(text)                \
    do {                               \
        FAILPOINT_SITE_(text);         \
        (void)failpoint_visit(&site_); \
    } while (0)
#define FAILPOINT_ERROR(text)    \
    (__extension__({             \
        FAILPOINT_SITE_(text);   \
        failpoint_visit(&site_); \
    }))
#else
#define FAILPOINT(text)       ((void)0)
#define FAILPOINT_ERROR(text) false
#endif

bool failpoint_visit(failpoint *point);

/* "name=kill@3"; MR_NOT_FOUND if no site has that name, MR_INVALID if the text makes no sense. */
MR_MUST mr_status failpoint_arm(const char *text);
void failpoint_disarm_all(void);
size_t failpoint_count(void);                /* sites in this program; 0 where they are compiled out */
const failpoint *failpoint_at(size_t index); /* two sites may share a name */
