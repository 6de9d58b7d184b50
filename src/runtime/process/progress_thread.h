/* progress_thread.h — thread that drives the transport of a process while no thread of the program does.
 *
 * A program that has not called the runtime for a tick, with calls pending, is computing: then this thread drives,
 * until the program calls again. So results arrive, dependent tasks start and links are answered meanwhile, and the
 * thread never delays an answer that the program waits for. The thread also calls the program's callbacks (callback.h).
 *
 * A process in which nothing happens wakes at no interval: after some ticks without activity the thread sleeps until
 * something happens, or until the core worker's next deadline. Then it is parked while another thread drives, and
 * drives itself if none does.
 *
 *   ticks ── quiet, another thread drives ──► parked ── progress_thread_stirred, _nudge, _end_rest ──► ticks
 *     │ ▲
 *     │ └── message, or progress_thread_stirred, _nudge, _end_rest ──┐
 *     ├── quiet, no thread drives ──► drives, asleep in the transport ┘
 *     └── CONTEXT_STOPPING ──► ends
 *
 * With the context's lock held, but for _start, _begin and _join. */
#pragma once
#include <pthread.h>
#include <stdatomic.h>

#include "miniray/runtime.h"

/* How the thread rests without ticks. Changed and read with the lock held. */
typedef enum progress_rest { PROGRESS_TICKS, PROGRESS_PARKED, PROGRESS_DRIVES } progress_rest;

typedef struct progress_thread { /* embedded in a context */
    pthread_t thread;
    bool sleeps;           /* waits on `word` */
    progress_rest rest;    /* PROGRESS_TICKS, unless the thread sleeps until it is woken */
    _Atomic uint32_t word; /* incremented to wake it */
    uint64_t activity;     /* count of events; the thread rests when it stays equal */
    uint64_t presence;     /* count of drives by other threads; this thread drives when it stays equal */
} progress_thread;

/* Of a context that is CONTEXT_JOINING: the thread sleeps until progress_thread_begin. */
MR_MUST mr_status progress_thread_start(mr_context *mr);
void progress_thread_begin(mr_context *mr); /* the context is CONTEXT_OPEN from now on */
void progress_thread_join(mr_context *mr);  /* the context is CONTEXT_STOPPING: returns when the thread has ended */

void progress_thread_stirred(void *context);   /* as core_worker_host.stirred, of a mr_context */
void progress_thread_nudge(mr_context *mr);    /* wakes the thread at once */
void progress_thread_end_rest(mr_context *mr); /* the thread, which rests, ticks again */
