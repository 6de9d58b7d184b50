/* serve.h — the life of a worker process: its thread runs what the worker (worker.h) has, without the lock, and drives
 * while there is nothing to run. */
#pragma once
#include "runtime/context.h"

void serve(mr_context *mr); /* until the node is gone; takes the lock itself */
