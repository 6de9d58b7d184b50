/* failpoint.h — named places where a test kills or stops the process or makes a system call fail.
 *
 *     FAILPOINT("ring.publish");                       // may kill this process here
 *     if (FAILPOINT_ERROR("arena.fallocate")) { errno = ENOSPC; return error_errno("…"); }
 *
 * Compiled in only with -Dfailpoints=true (the debug builds); in other builds both macros do nothing. Every site
 * registers itself in a linker section, so a sweep visits all sites without a list of them. The section holds pointers
 * only, without the sanitizers' padding.
 *
 * MINIRAY_FAILPOINT="name=action[@nth]" arms a site at start; failpoint_arm does so from a test. Actions: kill (SIGKILL
 * to this process), error (FAILPOINT_ERROR is true), stop (SIGSTOP), exit (exit status FAILPOINT_EXIT_STATUS). The
 * action happens once at each site of that name: at the nth visit after arming, counted from 1 over all threads. */
#pragma once
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "miniray/status.h"

enum { FAILPOINT_EXIT_STATUS = 42 };

typedef struct failpoint {
    const char *name;
    _Atomic int action;         /* written by failpoint_arm */
    _Atomic uint32_t countdown; /* visits until the action; 0: off */
    _Atomic uint32_t visits;    /* visits of this process */
} failpoint;

#ifdef MR_FAILPOINTS
#if defined(__clang__)
#define FAILPOINT_BARE_ __attribute__((section("failpoints"), used, no_sanitize("address")))
#else
#define FAILPOINT_BARE_ __attribute__((section("failpoints"), used)) /* gcc does not pad section variables */
#endif
#define FAILPOINT_SITE_(text)                  \
    static failpoint site_ = {.name = (text)}; \
    static failpoint *const site_ref_ FAILPOINT_BARE_ = &site_
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

bool failpoint_visit(failpoint *point); /* true: the caller fails with an error */

/* "name=kill@3": arms every site of that name. MR_NOT_FOUND: no site has the name; MR_INVALID: malformed text. */
MR_MUST mr_status failpoint_arm(const char *text);
void failpoint_disarm_all(void);             /* also clears the visit counts */
size_t failpoint_count(void);                /* sites in this program; 0 where they are compiled out */
const failpoint *failpoint_at(size_t index); /* two sites may share a name */
