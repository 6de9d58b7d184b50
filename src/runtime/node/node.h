/* node.h — the process that owns a machine: its shared memory (net/shm/broker.h), its workers and its resources.
 *
 * Calls between two connected processes do not pass through the node. The node grants worker leases (scheduler.h),
 * starts and reaps workers (child.h), knows the locations of actors (node_actor.h), and detects deaths. One thread, one
 * loop. */
#pragma once

/* Runs a node as the environment specifies (boot.h) until its lifeline ends; returns the exit status of the process. */
int node_main(void);
