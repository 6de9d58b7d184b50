/* rpc_scenario.h — processes that call each other while all faults of the network occur.
 *
 * Two to five nodes hold links to each other and call each other all the time, with and without deadlines, repeats,
 * bodies and cancellations. They answer now, later, never or after a call to a third node; they close links, crash and
 * restart. The checker (rpc_checker.h) checks every call. When the faults are over every node reaches every other; when
 * all links are closed no call is open. */
#pragma once
#include "sim/scenario.h"

extern const scenario rpc_scenario;
