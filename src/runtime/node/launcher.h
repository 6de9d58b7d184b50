/* launcher.h — interface that starts and ends worker processes: an operation table, so that the core of a node
 * (node_manager.h) is the same on a machine and in the simulator.
 *
 * Contract of every operation: none blocks for long; called by the one thread that drives the core; none calls back
 * into the core before it returns. A process is named by its pid, the same that its link to the node shows (peer.pid),
 * or where that is zero the one that it joins with. */
#pragma once
#include <stdint.h>

#include "base/bytes.h"
#include "miniray/status.h"

typedef struct launcher_ops {
    /* A program has joined: how its workers are started is read from what it sent (launch_spec.h), to its end. */
    mr_status (*program_add)(void *self, uint32_t program, int pid, reader *launch_spec);
    /* A number whose workers are this node's executable again, with nothing of any program; NULL: there are none. */
    void (*program_native)(void *self, uint32_t program);
    /* No worker of it is started any more. */
    void (*program_end)(void *self, uint32_t program);
    /* Starts a worker of that program, now or soon: with *pid 0 node_manager_child_started follows, or
     * node_manager_start_failed. It joins the node by itself; however it ends, node_manager_child_ended follows, once.
     * */
    mr_status (*start)(void *self, uint32_t program, int *pid);
    /* A process that has started since comes to node_manager_child_started before this returns; NULL: none does. */
    void (*settle)(void *self);
    /* What that process is called from now on, where what it prints is shown. */
    void (*label)(void *self, int pid, const char *label);
    /* Whatever workers have printed comes to node_manager_printed before this returns. */
    void (*drain)(void *self);
    /* Ends a process that start gave, at once; one that has ended already is a no-op. */
    void (*kill)(void *self, int pid);
} launcher_ops;

typedef struct launcher { /* two words, passed by value */
    const launcher_ops *ops;
    void *self;
} launcher;
