/* driver_output.h — output lines of workers in their driver, written to its stdout and stderr.
 *
 *   CLIENT_PRINT ──► due, as a callback (callback.h) ── the progress thread writes it, without the lock ──► answered
 *
 * A batch is answered when it was written: until then the node sends no further batch of that stream, so a program
 * whose terminal is stopped keeps one batch per stream. */
#pragma once
#include "net/rpc/rpc.h"
#include "runtime/process/context.h"

void driver_output_post(void *context, std_stream std_stream, span text, rpc_call_token token); /* locked */
