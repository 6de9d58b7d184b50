/* boot.h — start of the runtime's processes: the program's executable again, with its role in the environment.
 *
 *   MINIRAY_BOOT=node     a constructor takes over before main: the node needs nothing of the program
 *   MINIRAY_BOOT=worker   main runs up to mr_init, which serves and never returns: its tasks are registered by then
 *   MINIRAY_BOOT=native   the node's executable; a constructor takes over before main and serves: it has the classes
 *                         that the library registers before that (constructors with a priority)
 *   MINIRAY_BOOT=zygote main runs up to mr_init, which makes copies of the process: those serve (zygote.h)
 *
 * A private node and its workers run the executable of their driver, unless mr_options.worker or .node name another. A
 * standalone node runs the executable that started it (`miniray start`), its workers that of their driver
 * (launch_spec.h). MINIRAY_BOOT_HUB is the path of the broker's socket, MINIRAY_BOOT_RUN the folder of the run,
 * MINIRAY_BOOT_OPTIONS what the node is told ("workers=4 …"), MINIRAY_BOOT_NODE what its workers are: its process.
 *
 * A node says at descriptor BOOT_READY_FD that it stands, or why not. A private one ends when its program does, which
 * it knows by a pidfd, so that a child that the program forks keeps nothing alive, and when the program lets go of the
 * lifeline at BOOT_LIFELINE_FD. What is left of either if it is killed is its reaper's (reaper.h). */
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
const char *boot_broker(void); /* "" in a program of its own */
const char *boot_run(void);    /* the folder of the run; "" in a program of its own */

typedef struct boot_node { /* what a node is told */
    uint32_t workers;
    uint64_t arena_bytes;
    bool lasting;
    bool has_launch_spec;   /* of a private node: it is given one, for workers that are not simply itself again */
    span launch_spec;       /* that; known to who starts it (boot_read_launch_spec); borrowed */
    int program;            /* of a private node: the process it belongs to */
    const char *executable; /* of a private node, known to who starts it; NULL: the program's */
    resources total;
} boot_node;

/* Starts a node and waits until it stands. `broker` is where its socket goes, `run` the folder of the run. A private
 * one lives as long as *lifeline_fd is open; a lasting one is left to itself, and *lifeline_fd is -1. */
MR_MUST mr_status boot_start_node(const char *broker, const char *run, const boot_node *told, pid_t *pid,
                                  int *lifeline_fd);
MR_MUST mr_status boot_read_node(boot_node *out); /* in the node */
/* In a private node that has one: its program's launch spec, so that its workers start before that has joined. */
MR_MUST mr_status boot_read_launch_spec(const boot_node *told, launch_spec **out);
void boot_node_ready(const char *error); /* NULL: it stands */

typedef struct boot_stdio { /* from where a process reads, and where it prints; -1: as we do */
    int input_fd, output_fds[STD_STREAMS];
} boot_stdio;

typedef struct boot_worker { /* what a worker is told, or the zygote of workers */
    const char *broker;
    boot_stdio stdio;
    int socket_fd;   /* of a zygote: what it has at BOOT_ZYGOTE_FD; -1: it is a worker */
    const char *run; /* of a zygote: the folder for what its copies print, "": they print where it does */
} boot_worker;

/* Starts a worker, or a zygote of workers, by the launch spec of its program. */
MR_MUST mr_status boot_start_worker(const launch_spec *spec, const boot_worker *told, pid_t *pid);

void boot_hide(void); /* in a copy of the node: its environment does not say any more that it is one */

/* In a worker that has joined: what told it to be one is not for the processes that bodies start. They are programs of
 * their own, and may begin a runtime. */
void boot_forget(void);

bool boot_has_node(void); /* in a worker or a zygote: the node, whose child it is, has not ended */

/* In a process that is a node from now on: it is detached from the terminal, and a standalone one from its parent. */
void boot_begin_node(void);
/* In a process that is a worker from now on: it ends with its node, whatever it is doing, and is called as its program.
 */
void boot_begin_worker(void);
