/* invariants.h — where a module asserts all of its invariants: after each of its transitions, in two builds.
 *
 * A stateful module has a function x_check that asserts the numbered invariants of its header comment. The module calls
 * that function at the end of every entry that changes its state:
 *
 *  CHECK_INVARIANTS(store->by_slot.count, store_client_check(store));
 *
 * The first argument is the number of objects that the check visits. With up to CHECK_SMALL objects the check runs each
 * time, with more objects every CHECK_EVERY-th time that a thread reaches the line, which bounds the time of a run.
 *
 * Checks run in the debug build (the sanitizer builds, which define MINIRAY_CHECKS) and in the simulator's build
 * (MINIRAY_MUTATIONS), which compiles the files that include this header again, like those with mutations. A run with a
 * mutation skips them: a mutation breaks a mechanism on purpose, and the simulator's checkers must find the error from
 * outside. In all other builds the macro is empty. Only .c files include this header. */
#pragma once
#include <stddef.h>

enum { CHECK_SMALL = 64, CHECK_EVERY = 64 };

#ifdef MINIRAY_MUTATIONS
#include "base/mutation.h"
#define CHECKS_RUN (mutation_now == NULL)
#else
#define CHECKS_RUN 1
#endif

#if defined MINIRAY_MUTATIONS || defined MINIRAY_CHECKS
#define CHECK_INVARIANTS(size, check)                                                              \
    do {                                                                                           \
        static _Thread_local unsigned passed;                                                      \
        if (CHECKS_RUN && ((size_t)(size) <= CHECK_SMALL || passed++ % CHECK_EVERY == 0)) (check); \
    } while (0)
#else
#define CHECK_INVARIANTS(size, check) ((void)0)
#endif
