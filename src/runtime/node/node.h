/* node.h — the process that owns a machine: its shared memory (net/shm/broker.h), its workers and its resources.
 *
 * It is on the path of no call between two processes that know each other: it hands out workers (scheduler.h), starts
 * and reaps them (child.h), knows where actors live (node_actor.h), and notices who dies. One thread, one loop. */
#pragma once

/* Runs a node as the environment says (boot.h) until its lifeline ends; the exit status of the process. */
int node_main(void);
