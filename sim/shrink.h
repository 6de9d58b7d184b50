/* shrink.h — finds the smallest part of a failing seed that still fails, and prints its trace.
 *
 * A seed is a plan of faults (faults.h) and its consequences. First the plan is cut: only its first n faults are
 * carried out, for the smallest n found. Then single faults among them are left out, one after the other, as long as
 * the seed still fails. The trace of the remaining run is printed, up to the moment of the failure. Every attempt is a
 * process of its own: a seed that crashes is shrunk as well. */
#pragma once
#include "sim/scenario.h"

/* Prints the remaining number of faults, the command that repeats the run, and the last `lines` lines of its trace.
 * True: the seed fails. */
bool shrink_run(const scenario *scenario, const scenario_options *options, const char *command, unsigned lines);
