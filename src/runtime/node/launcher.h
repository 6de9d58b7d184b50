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
    /* Registers a job whose driver has joined: reads its launch spec (launch_spec.h) to the end. */
    mr_status (*program_add)(void *self, uint32_t program, int pid, reader *launch_spec);
    /* Registers a number for native workers, which run this node's executable without code of a driver; NULL: the
     * launcher cannot start native workers. */
    void (*program_native)(void *self, uint32_t program);
    /* The job is over: none of its workers is started any more. */
    void (*program_end)(void *self, uint32_t program);
    /* Starts a worker of the job, now or later. With *pid 0, node_manager_child_started or node_manager_start_failed
     * follows. The worker joins the node by itself. When it ends, node_manager_child_ended follows, once. */
    mr_status (*start)(void *self, uint32_t program, int *pid);
    /* Reports newly started processes to node_manager_child_started before returning; NULL: no start is deferred. */
    void (*settle)(void *self);
    /* Sets the label of a process in displayed worker output. */
    void (*label)(void *self, int pid, const char *label);
    /* Passes all worker output so far to node_manager_printed before returning. */
    void (*drain)(void *self);
    /* Kills a process that `start` started; no-op if it has ended. */
    void (*kill)(void *self, int pid);
} launcher_ops;

typedef struct launcher { /* two words, passed by value */
    const launcher_ops *ops;
    void *self;
} launcher;
