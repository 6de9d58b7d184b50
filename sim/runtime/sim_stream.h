/* sim_stream.h — streams of the runtime scenario: the bodies that give items, and the drivers that take them.
 *
 *   worker   a body that streams gives its items on request, one after another, then goes on as any other
 *   driver   takes them in its own time, fast or slow, until the end, or drops the stream on the way
 *
 * Checked  the items come in order and each once, with the right values; a stream whose body has come to its end gives
 *          all of them; one that fails tells so once, behind the items that came, and then that it is over; a body
 *          gives no more than were taken and may wait besides; a body of which something was taken is not begun again;
 *          every stream that is not dropped comes to its end. */
#pragma once
#include "sim/runtime/sim_runtime.h"

/* In a worker: gives what its body streams, then calls `then`; at once if it streams nothing. */
void sim_stream_give(sim_runtime *runtime, sim_fn *then);

/* In a driver: takes the items of a work that was submitted. */
void sim_stream_take(sim_runtime *runtime, runtime_work *work, object *whole);
void sim_stream_drop(sim_runtime *runtime, const runtime_work *work); /* no more of them; no-op if nobody takes */
void sim_stream_drop_all(sim_runtime *runtime);
