/* boot.h — start of the runtime's processes: the program's executable again, with its role in the environment.
 *
 *   MINIRAY_BOOT=node     a constructor takes over before main: the node needs no code of the program
 *   MINIRAY_BOOT=worker   main runs up to mr_init, which serves and never returns: its tasks are registered by then
 *   MINIRAY_BOOT=native   the node's executable; a constructor takes over before main and serves: it has the classes
 *                         that the library registers before that (constructors with a priority)
 *   MINIRAY_BOOT=template main runs up to mr_init, which forks copies of the process: those serve (zygote.h)
 *
 * A private node and its workers run the executable of their driver, unless mr_options.worker or .node name another. A
 * standalone node runs the executable that started it (`miniray start`), its workers that of their driver
 * (launch_spec.h). MINIRAY_BOOT_HUB is the path of the broker's socket, MINIRAY_BOOT_RUN the session directory,
 * MINIRAY_BOOT_OPTIONS the node's options ("workers=4 …"), MINIRAY_BOOT_NODE the node's process, for its workers.
 *
 * A node writes "ok", or its error, to descriptor BOOT_READY_FD. A private node ends when its driver ends or closes the
 * lifeline at BOOT_LIFELINE_FD. The node watches the driver by a pidfd, since a child that the driver forks may keep
 * the lifeline open. The reaper cleans up after a node that was killed (reaper.h). */
#pragma once
#include <stdbool.h>
#include <sys/types.h>

#include "miniray/status.h"
#include "runtime/common/launch_spec.h"
#include "runtime/common/resources.h"
#include "runtime/common/std_stream.h"

enum { BOOT_LIFELINE_FD = 3, BOOT_READY_FD = 4, BOOT_LAUNCH_SPEC_FD = 5, BOOT_ZYGOTE_FD = 3, BOOT_WORKERS_MAX = 1024 };

typedef enum boot_role { BOOT_PROGRAM, BOOT_NODE, BOOT_WORKER, BOOT_NATIVE, BOOT_ZYGOTE } boot_role;

boot_role boot_role_now(void);
const char *boot_broker(void); /* "" in a driver */
const char *boot_run(void);    /* session directory; "" in a driver */

typedef struct boot_node { /* options of a node */
    uint32_t workers;
    uint64_t arena_bytes;
    bool lasting;
    bool has_launch_spec;   /* of a private node: it gets a launch spec (mr_options.worker, .fork) */
    int launch_spec_fd;     /* borrowed; set in the starting process only (the node uses boot_read_launch_spec) */
    int program;            /* of a private node: process of its driver */
    const char *executable; /* of a private node, set in the starting process only; NULL: the driver's */
    resources total;
} boot_node;

/* Starts a node and waits until it is ready. `broker` is the path of the broker's socket, `run` the session directory.
 * A private node lives as long as *lifeline_fd is open; for a standalone node *lifeline_fd is -1. */
MR_MUST mr_status boot_start_node(const char *broker, const char *run, const boot_node *told, pid_t *pid,
                                  int *lifeline_fd);
MR_MUST mr_status boot_read_node(boot_node *out); /* in the node */
/* In a private node with has_launch_spec: its driver's launch spec, so that workers start before the driver joins. */
MR_MUST mr_status boot_read_launch_spec(const boot_node *told, launch_spec **out);
void boot_node_ready(const char *error); /* NULL: the node is ready */

typedef struct boot_stdio { /* stdin, stdout and stderr of a process; -1: those of the caller */
    int input_fd, output_fds[STD_STREAMS];
} boot_stdio;

typedef struct boot_worker { /* options of a worker, or of a zygote */
    const char *broker;
    boot_stdio stdio;
    int socket_fd;   /* of a zygote: its descriptor at BOOT_ZYGOTE_FD; -1: a worker */
    const char *run; /* of a zygote: directory for the output of its copies; "": they inherit the zygote's output */
} boot_worker;

/* Starts a worker, or a zygote of workers, by the launch spec of its program. */
MR_MUST mr_status boot_start_worker(const launch_spec *spec, const boot_worker *told, pid_t *pid);

void boot_hide(void); /* in a forked copy of the node (its reaper): removes the node's role from the environment */

/* In a worker that has joined: removes the role from the environment, so that processes started by bodies are
 * independent programs and may call mr_init. */
void boot_forget(void);

bool boot_has_node(void); /* in a worker or a zygote: whether its parent, the node, has not ended */

/* In a process that becomes a node: detaches it from the terminal, and a standalone node from its parent. */
void boot_begin_node(void);
/* In a process that becomes a worker: makes it end with its node in any state, gives it its program's process name, and
 * makes it one of the first that the kernel's OOM killer ends. */
void boot_begin_worker(void);
