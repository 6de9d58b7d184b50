/* init.c — mr_init and mr_shutdown: joining a standalone node, starting a private one, or running as a worker; and the
 * constructor that makes a process a node or a worker by its environment (boot.h).
 * Tested by tests/runtime_life_test.c. */
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/log.h"
#include "base/option_struct.h"
#include "net/pidfd.h"
#include "runtime/common/boot.h"
#include "runtime/common/launch_spec.h"
#include "runtime/common/node_discovery.h"
#include "runtime/common/node_options.h"
#include "runtime/common/orphans.h"
#include "runtime/common/runtime_config.h"
#include "runtime/common/session_dir.h"
#include "runtime/common/zygote.h"
#include "runtime/node/node.h"
#include "runtime/process/context.h"
#include "runtime/process/worker_loop.h"
#include "runtime/worker/worker.h"

enum { NODE_END_MS = 2000, DRAIN_US = 10 * 1000 * 1000 };

static atomic_bool serves; /* this process is a worker, and has joined its node */

/* A worker serves and exits: mr_init does not return in a worker. */
static mr_status be_worker(void) {
    mr_context *mr;
    MR_TRY(context_open(boot_broker(), &(context_entry){.role = WIRE_WORKER}, &mr));
    atomic_store(&serves, true);
    boot_forget();
    worker_loop(mr);
    worker_loop_out(mr);
    worker_bid_drain(mr->worker.worker);
    fflush(NULL);
    _exit(0); /* the node is gone, or has ended this worker: no process waits for its results */
}

/* ---- Fields of NODE_JOIN about a driver's program: its name space, and for a standalone node the launch spec. */

/* launch_spec_fd -1: the node has it, or needs none. */
static mr_status describe(const mr_options *options, int launch_spec_fd, span *out) {
    const char *name_space = options->name_space == NULL ? "" : options->name_space;
    size_t length = strlen(name_space);
    if (length > WIRE_NAME_MAX || name_space[0] == '#')
        return error_set(MR_INVALID, "namespace '%.60s' is %zu bytes long; at most %d, and the first must not be '#'",
                         name_space, length, WIRE_NAME_MAX);
    size_t size = 4 + length + 1 + (launch_spec_fd < 0 ? 0 : 4);
    void *bytes;
    MR_TRY(alloc_try(size, &bytes));
    writer writer = writer_of(bytes, size);
    writer_span32(&writer, span_of(name_space, length));
    writer_u8(&writer, options->log_to_driver >= 0);
    if (launch_spec_fd >= 0) writer_u32(&writer, (uint32_t)launch_spec_fd);
    *out = span_of(bytes, size);
    return MR_OK;
}

static mr_status join(const char *broker, const mr_options *options, int launch_spec_fd, mr_context **out) {
    span about;
    MR_TRY(describe(options, launch_spec_fd, &about));
    context_entry entry = {
        .role = WIRE_DRIVER, .about = about, .print = options->print, .print_user = options->print_user};
    mr_status status = context_open(broker, &entry, out);
    free((void *)(uintptr_t)about.data);
    return status;
}

/* ---- A standalone node. */

static mr_status join_lasting(const char *address, const mr_options *options, mr_context **out) {
    if (options->num_workers != 0 || options->num_gpus != 0 || options->resources != NULL || options->store_bytes != 0)
        return error_set(MR_INVALID,
                         "num_workers, num_gpus, resources and store_bytes cannot be set when joining a node "
                         "(%.100s): pass them to `miniray start`",
                         address);
    mr_node_info node;
    MR_TRY(node_discovery_find(address, &node, NULL));
    int launch_spec_fd;
    MR_TRY(launch_spec_write(options->worker, options->fork != NULL, &launch_spec_fd));
    mr_status status = join(node.address, options, launch_spec_fd, out);
    close(launch_spec_fd); /* the node has read it */
    if (status != MR_OK) return error_wrap(status, "joining the node at %s", node.address);
    (*out)->node_pid = node.pid;
    return MR_OK;
}

/* ---- A private node. */

static void end_node(int pid, int lifeline_fd) {
    close(lifeline_fd);
    kill(pid, SIGTERM); /* a forked child of the program may have a copy of the lifeline */
    pidfd node;
    if (pidfd_of_pid(pid, &node) == MR_OK) {
        if (!pidfd_await(&node, NODE_END_MS)) kill(pid, SIGKILL);
        pidfd_close(&node);
    }
    orphans_bury(pid);
}

/* A private node runs its program's executable, and needs a launch spec only for options `worker` and `fork`. */
static mr_status add_launch_spec(const mr_options *options, boot_node *told) {
    told->has_launch_spec = options->worker != NULL || options->fork != NULL;
    told->launch_spec_fd = -1;
    if (!told->has_launch_spec) return MR_OK;
    return launch_spec_write(options->worker, options->fork != NULL, &told->launch_spec_fd);
}

static mr_status begin_private(const mr_options *options, mr_context **out) {
    boot_node told;
    mr_node_options node = MR_OPTIONS(mr_node_options, .num_cpus = options->num_workers, .num_gpus = options->num_gpus,
                                      .resources = options->resources, .store_bytes = options->store_bytes);
    MR_TRY(node_options_read(&node, "num_workers", &told));
    told.executable = options->node;
    MR_TRY(add_launch_spec(options, &told));
    session_dir run;
    mr_status status = session_dir_open(&run);
    if (status != MR_OK) goto close_spec;
    char broker[SESSION_DIR_MAX + 8];
    snprintf(broker, sizeof broker, "%s/hub", run.path);
    pid_t pid;
    int lifeline_fd;
    status = boot_start_node(broker, run.path, &told, &pid, &lifeline_fd);
    if (status != MR_OK) goto close_run;
    status = join(broker, options, -1, out);
    if (status != MR_OK) goto end_node;
    (*out)->node_pid = pid;
    (*out)->lifeline_fd = lifeline_fd;
    (*out)->run = run;
    goto close_spec;

end_node:
    end_node(pid, lifeline_fd);
close_run:
    session_dir_close(&run);
close_spec:
    if (told.launch_spec_fd >= 0) close(told.launch_spec_fd);
    return status;
}

/* Reports that a worker could not join its node, unless the node has died: a line would then only leave a log file
 * behind. The node's death ends this process during the pause, unless it came before the request for that signal
 * (boot_begin_worker). */
static void tell_node(const char *why) {
    enum { DEATH_MS = 100 };
    poll(NULL, 0, DEATH_MS);
    if (boot_has_node()) fprintf(stderr, "miniray: worker could not join its node: %s\n", why);
}

static _Noreturn void live_as_worker(void) {
    mr_status status = be_worker();
    tell_node(mr_last_error());
    _exit(status == MR_OK ? 0 : 1);
}

/* Runs before main in every process that links the library. */
__attribute__((constructor)) static void take_over(void) {
    boot_role role = boot_role_now();
    if (role == BOOT_PROGRAM) return;
    if (role == BOOT_NODE) {
        boot_begin_node();
        _exit(node_main());
    }
    if (role == BOOT_ZYGOTE) fcntl(BOOT_ZYGOTE_FD, F_SETFD, FD_CLOEXEC);
    boot_begin_worker();
    setvbuf(stdout, NULL, _IOLBF, BUFSIZ); /* stdout is a file, but a printed line must not wait in the buffer */
    if (role == BOOT_NATIVE) live_as_worker();
}

mr_status mr_init(const mr_options *options, mr_context **out) {
    static const mr_options none = MR_INIT(mr_options);
    mr_options copy;
    OPTION_STRUCT_READ(mr_options, print_user, options, copy);
    if (atomic_load(&serves))
        return error_set(MR_INVALID, "mr_init in a worker (process %d): bodies get its context from mr_call_context",
                         (int)getpid());
    boot_role role = boot_role_now();
    if (role == BOOT_ZYGOTE) zygote_serve(options == NULL ? NULL : options->fork);
    if (role == BOOT_ZYGOTE || role == BOOT_WORKER) live_as_worker();
    if (out == NULL) return error_set(MR_INVALID, "mr_init: `out` is NULL");
    if (options == NULL) options = &none;
    config config;
    MR_TRY(runtime_config_load(&config));
    const char *address = options->address != NULL ? options->address : config.address;
    return address[0] == '\0' ? begin_private(options, out) : join_lasting(address, options, out);
}

const char *mr_address(const mr_context *mr) { return mr == NULL ? "" : mr->address; }

/* Waits until the worker output so far is shown. This takes a while on an overloaded machine; the wait for a node that
 * never answers is bounded. */
static void show_output(mr_context *mr) {
    context_lock(mr);
    mr_status status = context_call_node(mr, NODE_DRAIN, (span){0}, DRAIN_US, NULL, 0, NULL);
    context_unlock(mr);
    if (status != MR_OK) error_clear();
}

/* Whether the program still views memory: without other processes that stays unchanged, and need not be copied. */
static bool has_views(mr_context *mr) {
    context_lock(mr);
    bool any = mr->view_count > 0;
    context_unlock(mr);
    return any;
}

void mr_end_waits(mr_context *mr) {
    if (context_is_ours(mr) && mr->worker.worker == NULL) context_see_others_out(mr, false);
}

void mr_shutdown(mr_context *mr) {
    if (!context_is_ours(mr)) return; /* a forked child does not end its parent's runtime */
    if (mr->worker.worker != NULL) {
        log_warn("mr_shutdown in a worker (process %d) does nothing: the node ends its workers", (int)getpid());
        return;
    }
    context_see_others_out(mr, true);
    show_output(mr);
    int pid = mr->node_pid, lifeline_fd = mr->lifeline_fd;
    session_dir run = mr->run;
    bool private = lifeline_fd >= 0, first = private && has_views(mr);
    if (first) end_node(pid, lifeline_fd);
    context_close(mr, first);
    if (!private) return; /* other processes use the node, too */
    if (!first) end_node(pid, lifeline_fd);
    session_dir_close(&run); /* the node has removed it, unless it was killed */
}
