/* py_notifier.h — Inbox: results for an event loop or a thread, announced by a file descriptor.
 *
 *     inbox.watch(ref, thing)      inbox.take() returns thing when ref is ready, or has failed
 *     inbox.watch_cancel(reply, thing)   … when that call is cancelled, if that happens
 *     inbox.fileno()               is readable while take() has something to return
 *     bool(inbox)                  whether take() has something to return
 *     inbox.wakes_server()         arrivals end serve_calls, for a loop that waits there
 *
 * The runtime calls back on one of its own threads, which must not wait, not even for the GIL: the callback links the
 * note into a list and writes to an eventfd. Readers hold the GIL.
 *
 *   watch ──► waiting ── the runtime's callback ──► there ── take ──► gone
 *                └─── the Inbox is freed ──► without a thing, until the runtime's callback: gone
 *
 * Invariants  a note in `waiting` or `there` has its thing unless the box is closed; a thing is touched with the GIL
 *             only; a note whose event will never happen releases its thing on the thread that ended the call if that
 *             thread has the GIL, and is taken as any other note if not.
 * Ownership   the Inbox and the notes that the runtime has share the box. */
#pragma once
#include "python/native/py_internal.h"

extern PyTypeObject py_notifier_type;
