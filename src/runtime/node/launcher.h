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
    /* A program has joined: reads its launch spec (launch_spec.h) to the end. */
    mr_status (*program_add)(void *self, uint32_t program, int pid, reader *launch_spec);
    /* A number for workers that run this node's executable, without code of a program; NULL: there are none. */
    void (*program_native)(void *self, uint32_t program);
    /* No worker of the program is started any more. */
    void (*program_end)(void *self, uint32_t program);
    /* Starts a worker of that program, now or soon: with *pid 0 node_manager_child_started follows, or
     * node_manager_start_failed. It joins the node by itself; however it ends, node_manager_child_ended follows, once.
     * */
    mr_status (*start)(void *self, uint32_t program, int *pid);
    /* Reports newly started processes to node_manager_child_started before returning; NULL: there are none. */
    void (*settle)(void *self);
    /* Sets the label of that process in displayed worker output. */
    void (*label)(void *self, int pid, const char *label);
    /* Passes all worker output so far to node_manager_printed before returning. */
    void (*drain)(void *self);
    /* Ends a process that start gave, at once; one that has ended already is a no-op. */
    void (*kill)(void *self, int pid);
} launcher_ops;

typedef struct launcher { /* two words, passed by value */
    const launcher_ops *ops;
    void *self;
} launcher;
