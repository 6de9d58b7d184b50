/* rpc_scenario.h — processes that call each other while everything that can go wrong with messages goes wrong.
 *
 * Two to five nodes hold links to each other, ask each other all the time, with and without deadlines, repeats, bodies
 * and cancellations, answer now, later, never or after asking a third, close links, crash and come back. The checker
 * (rpc_checker.h) checks every call. When the faults are over every node reaches every other; when all links are closed
 * no call is open. */
#pragma once
#include "sim/scenario.h"

extern const scenario rpc_scenario;
