/* boot.h — the processes that a program starts are that program again, told by its environment what to be.
 *
 *   MINIRAY_BOOT=node     a constructor takes over before main: the node needs nothing of the program
 *   MINIRAY_BOOT=worker   main runs up to mr_init, which serves and never returns: its tasks are registered by then
 *
 * MINIRAY_BOOT_HUB is the path of the hub's socket, MINIRAY_BOOT_OPTIONS what the node is told ("workers=4 …"). A node
 * has its lifeline at descriptor BOOT_LIFELINE_FD (it ends when that does) and says at BOOT_READY_FD that it stands, or
 * why not. */
#pragma once
#include <sys/types.h>

#include "miniray/status.h"
#include "runtime/resources.h"

enum { BOOT_LIFELINE_FD = 3, BOOT_READY_FD = 4 };

typedef enum boot_role { BOOT_PROGRAM, BOOT_NODE, BOOT_WORKER } boot_role;

boot_role boot_role_now(void);
const char *boot_hub(void); /* "" in a program of its own */

typedef struct boot_node { /* what a node is told */
    uint32_t workers;
    uint64_t arena_bytes;
    resources total;
} boot_node;

/* Starts a node that lives as long as *lifeline_fd is open, and waits until it stands. `hub` is where its socket goes.
 */
MR_MUST mr_status boot_start_node(const char *hub, const boot_node *told, pid_t *pid, int *lifeline_fd);
MR_MUST mr_status boot_read_node(boot_node *out); /* in the node */
void boot_node_ready(const char *error);          /* NULL: it stands */

/* Starts a worker of this same program. */
MR_MUST mr_status boot_start_worker(const char *hub, pid_t *pid);
