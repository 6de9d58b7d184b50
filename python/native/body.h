/* body.h — what a worker runs: one body for every task, one for every class and one for every method of Python's.
 *
 * The runtime calls them without the GIL; they take it, read the arguments, call the function, and answer with what it
 * returned or raised. */
#pragma once

void body_register(void);
