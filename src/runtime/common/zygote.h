/* zygote.h — zygote: a process that has run up to mr_init and forks; each copy is a worker.
 *
 * A program whose start is expensive (an interpreter that imports) starts once only. The node starts the zygote as it
 * starts a worker, with MINIRAY_BOOT=template and its end of a socket pair at BOOT_ZYGOTE_FD; zygote_pool.h is the
 * other end.
 *
 *   node                         zygote                              worker
 *    │                              │ main … mr_init: zygote_serve
 *    │◄──────────── READY (0, 0) ───┤   or REFUSED: it has threads
 *    ├─── number ──────────────────►│ clone(CLONE_PARENT) ───────────┐
 *    │◄──────── MADE (number, pid) ─┤◄──────── MADE (number, pid) ───┤ both send it, in any order
 *    │                              │                                │ closes the socket, joins the broker
 *
 * A copy is a child of the node, not of the zygote (CLONE_PARENT): the node waits for it and gets its exact exit
 * status, and the copy dies with the node, like any worker; the death of the zygote harms no worker. The C library has
 * no call for this, so the copy is made by the system call, with the steps of the C library's fork(2) for a process of
 * one thread; handlers of pthread_atfork are not called. Therefore a zygote that has threads refuses, and workers are
 * started afresh, one by one.
 *
 * Invariants  a copy has sent MADE before it joins the broker, so that the node knows the worker by then;
 *             the node's socket reaches its end only when the zygote and all copies that have not yet sent MADE are
 *             gone, so a request that is open at that moment will never be answered.
 * Threads     one, by definition. */
#pragma once
#include <stdint.h>

#include "miniray/runtime.h"

typedef enum zygote_kind {
    ZYGOTE_READY = 1, /* ready for requests */
    ZYGOTE_MADE,      /* value is the pid */
    ZYGOTE_REFUSED,   /* cannot fork: value is the number of its threads, or -errno of the system call */
} zygote_kind;

typedef struct zygote_report { /* a packet from the zygote, or from a copy */
    uint32_t kind, number;     /* of the request; 0 with READY, and with REFUSED before the first request */
    int32_t value;
} zygote_report;

typedef struct zygote_request { /* a packet to the zygote */
    uint32_t number;            /* from 1 */
} zygote_request;

/* In a zygote: waits for requests. Returns in every copy, which is a worker, and never in the zygote itself. */
void zygote_serve(const mr_fork *hooks);
