/* progress_thread.h — the thread that drives the port of a process while no thread of the program does.
 *
 * A program that has not called the runtime for a tick, though something is under way, computes: then this thread
 * drives, until the program comes back. So results arrive, dependent tasks start and links are answered meanwhile, and
 * the thread never stands between a program and the answer it waits for. It also calls the program's callbacks
 * (callback.h).
 *
 *   ticks ── PARK_TICKS without activity, nothing under way ──► parked ── progress_thread_stirred, _nudge ──► ticks
 *     └── CONTEXT_STOPPING ──► ends
 *
 * With the context's lock held, but for _start and _join. */
#pragma once
#include <pthread.h>
#include <stdatomic.h>

#include "miniray/runtime.h"

typedef struct progress_thread { /* embedded in a context */
    pthread_t thread;
    bool sleeps;           /* on its word */
    _Atomic uint32_t word; /* bumped to wake it */
    _Atomic uint32_t parked;
    uint64_t activity; /* things that happened; the thread parks when this stands still */
    uint64_t presence; /* times that a thread came to drive; this one drives when it stands still */
} progress_thread;

MR_MUST mr_status progress_thread_start(mr_context *mr);
void progress_thread_join(mr_context *mr); /* the context is CONTEXT_STOPPING: returns when the thread has ended */

void progress_thread_stirred(void *context); /* as core_worker_host.stirred, of a mr_context */
void progress_thread_nudge(mr_context *mr);  /* there is something to do at once */
