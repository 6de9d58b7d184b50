/* mutation.h — code that breaks one safety mechanism on purpose, in the simulator's build only.
 *
 * A mutation proves that the simulator's checkers find the errors that a mechanism prevents: MUTATED("deaf-keeper") is
 * true while the simulator runs a seed with that mutation. Sources that use the macro are compiled a second time for
 * the simulator and its tests, with MINIRAY_MUTATIONS (sim/meson.build). Everywhere else MUTATED is false, and the
 * compiler removes the branch. Only .c files use the macro: structs are the same in both builds. Scenarios list the
 * names (sim/scenario.h). */
#pragma once
#include <stdbool.h>

#ifdef MINIRAY_MUTATIONS
#include <string.h>

extern const char *mutation_now; /* mutation of the current run; NULL: none. Defined and set by sim/sim.c */

static inline bool mutation_is_on(const char *name) { return mutation_now != NULL && strcmp(mutation_now, name) == 0; }

#define MUTATED(name) mutation_is_on(name)
#else
#define MUTATED(name) false
#endif
