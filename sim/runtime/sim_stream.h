/* sim_stream.h — streams of the runtime scenario: the bodies that yield items, and the drivers that take them.
 *
 *   worker   a body that streams yields its items on request, one after another, then continues as any other body
 *   driver   takes the items at its own pace until the end, or drops the stream early
 *
 * Checked  the items come in order and each once, with the right values; a stream whose body has ended yields all of
 *          them; a stream that fails returns the failure once, after its items, and then the end; a body yields no more
 *          items than were taken plus those that may wait; a body of which an item was taken is not begun again; every
 *          stream that is not dropped comes to its end. */
#pragma once
#include "sim/runtime/sim_runtime.h"

/* In a worker: yields the items of its body, then calls `then`; at once if the body does not stream. */
void sim_stream_give(sim_runtime *runtime, sim_fn *then);

/* In a driver: takes the items of a submitted work. */
void sim_stream_take(sim_runtime *runtime, runtime_work *work, object *whole);
void sim_stream_drop(sim_runtime *runtime, const runtime_work *work); /* stops taking items; no-op without a reader */
void sim_stream_drop_all(sim_runtime *runtime);
