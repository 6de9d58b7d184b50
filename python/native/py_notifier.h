/* py_notifier.h — Inbox: results for an event loop or a thread, announced by a file descriptor.
 *
 *     inbox.watch(ref, thing)      inbox.take() returns thing when ref is ready, or has failed
 *     inbox.watch_cancel(reply, thing)   … when that call is cancelled, if it ever is
 *     inbox.fileno()               is readable while there is something to take
 *     bool(inbox)                  whether there is something to take
 *     inbox.wakes_server()         serve_calls returns when something comes, for a loop that waits there
 *
 * The runtime calls back on a thread of its own, which must not wait, so not for the GIL either: it links the note into
 * a list and writes to an eventfd. Readers hold the GIL.
 *
 *   watch ──► waiting ── the runtime's callback ──► there ── take ──► gone
 *                └─── the Inbox is freed ──► without a thing, until the runtime's callback: gone
 *
 * Invariants  a note in `waiting` or `there` has its thing unless the box is closed; a thing is touched with the GIL
 *             only, except that a note that was never needed releases its thing on the thread that ended the call,
 *             if that has the GIL, and is taken as any other if not.
 * Ownership   the box is shared by the Inbox and the notes that the runtime has. */
#pragma once
#include "python/native/py_internal.h"

extern PyTypeObject py_notifier_type;
