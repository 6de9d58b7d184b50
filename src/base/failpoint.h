/* failpoint.h — named places where a test ends the process, makes a system call fail, or stops for a while.
 *
 *     FAILPOINT("ring.publish");                       // may kill this process here
 *     if (FAILPOINT_ERROR("arena.fallocate")) { errno = ENOSPC; return error_errno("…"); }
 *
 * Compiled in only with -Dfailpoints=true (the debug builds); elsewhere both are nothing. Every site registers itself
 * in a linker section, so that a sweep visits all of them: there is no list to forget. The section holds pointers only
 * and is kept free of the sanitizers' padding.
 *
 * MINIRAY_FAILPOINT="name=action[@nth]" arms one at start; failpoint_arm does it from a test. Actions: kill (SIGKILL to
 * oneself), error (FAILPOINT_ERROR is true), stop (SIGSTOP), exit (exit status FAILPOINT_EXIT_STATUS). It happens once
 * at each site of that name: at its nth visit from then on, counted from 1 and over all threads. */
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
    _Atomic uint32_t countdown; /* visits until it happens; 0: off */
    _Atomic uint32_t visits;    /* how often this process came past */
} failpoint;

#ifdef MR_FAILPOINTS
#if defined(__clang__)
#define FAILPOINT_BARE_ __attribute__((section("failpoints"), used, no_sanitize("address")))
#else
#define FAILPOINT_BARE_ __attribute__((section("failpoints"), used)) /* gcc pads nothing that has a section */
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

bool failpoint_visit(failpoint *point); /* true: fail with an error here */

/* "name=kill@3": arms every site of that name. MR_NOT_FOUND if no site has it, MR_INVALID if the text makes no sense.
 */
MR_MUST mr_status failpoint_arm(const char *text);
void failpoint_disarm_all(void);             /* and forgets the visits */
size_t failpoint_count(void);                /* sites in this program; 0 where they are compiled out */
const failpoint *failpoint_at(size_t index); /* two sites may share a name */
