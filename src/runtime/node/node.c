/* node.c — see node.h. The loop around the core: the broker, the transport into it, and the children. Tested by
 * tests/standalone_node_test.c. */
#include "runtime/node/node.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"
#include "base/log.h"
#include "base/map.h"
#include "net/pidfd.h"
#include "net/shm/broker.h"
#include "net/shm/memory_headroom.h"
#include "net/shm/shm_transport.h"
#include "runtime/common/boot.h"
#include "runtime/common/fd_limit.h"
#include "runtime/common/launch_spec.h"
#include "runtime/common/memory_limit.h"
#include "runtime/common/runtime_config.h"
#include "runtime/common/session_dir.h"
#include "runtime/common/worker_exit.h"
#include "runtime/node/child.h"
#include "runtime/node/memory_monitor.h"
#include "runtime/node/node_manager.h"
#include "runtime/node/node_store.h"
#include "runtime/node/oom.h"
#include "runtime/node/reaper.h"
#include "runtime/node/worker_log.h"
#include "runtime/node/zygote_pool.h"

typedef struct node {
    event_loop *loop;
    broker *broker;
    shm_transport *transport;
    env env;
    rng rng;
    children children;
    node_core *core;
    node_store *store;
    int64_t started_us;
    uint64_t memory_bytes; /* of the machine or its container; 0: not known */
    event_loop_idle *before_sleep;
    event_loop_timer *deadline; /* next tick of the core */
    map launch_specs;           /* launch specs of the jobs, by job number */
    zygote_pool *pool;          /* zygotes that fork workers */
    worker_logs *logs;          /* NULL: not available; workers inherit the node's output */
    map ordered;                /* pids of workers that the node has killed */
    map peaks;               /* pid → kilobytes: peaks of workers that SIGKILL has ended, until they are explained */
    memory_monitor *monitor; /* NULL: off */
    uint64_t oom_count;
    int null_fd; /* stdin of workers */
    boot_node told;
    config config;
    const char *broker_path;
    session_dir run;
    pid_t reaper;
    int signal_fd;
    pidfd program;             /* of a private node: its driver */
    event_loop_watch *ends[3]; /* events that end the node: a signal, the end of its driver, the end of the lifeline */
} node;

/* ---- The launcher of this machine. */

static mr_status add_program(void *self, uint32_t program, int pid, reader *reader) {
    launch_spec *spec;
    uint32_t fd = reader_u32(reader);
    if (reader->failed) return error_set(MR_CORRUPT, "malformed join request from driver process %d", pid);
    MR_TRY(launch_spec_read_of(fd, pid, &spec));
    map_put(&((node *)self)->launch_specs, program, spec);
    return MR_OK;
}

static void add_native(void *self, uint32_t program) {
    launch_spec *own = launch_spec_own();
    own->native = true;
    map_put(&((node *)self)->launch_specs, program, own);
}

static void end_program(void *self, uint32_t program) {
    node *node = self;
    zygote_pool_drop(node->pool, program);
    launch_spec_destroy(map_remove(&node->launch_specs, program));
}

/* An earlier worker may have had the pid of a new one. */
static void forget_pid(node *node, pid_t pid) {
    map_remove(&node->ordered, (uint64_t)pid);
    map_remove(&node->peaks, (uint64_t)pid);
}

/* Starts a worker, or with a socket a zygote of workers. */
static mr_status start_process(node *node, uint32_t program, const launch_spec *spec, int socket_fd, pid_t *pid) {
    boot_worker told = {.broker = node->broker_path,
                        .stdio = {.input_fd = node->null_fd, .output_fds = {-1, -1}},
                        .socket_fd = socket_fd,
                        .run = node->logs == NULL ? "" : node->run.path};
    bool logged = node->logs != NULL && worker_logs_create(node->logs, told.stdio.output_fds);
    mr_status status = boot_start_worker(spec, &told, pid);
    for (std_stream i = 0; logged && i < STD_STREAMS; i++) close(told.stdio.output_fds[i]);
    if (status == MR_OK) status = children_add(&node->children, *pid);
    if (logged) worker_logs_started(node->logs, program, status == MR_OK ? *pid : 0);
    if (status == MR_OK) forget_pid(node, *pid);
    return status;
}

static mr_status start_worker(void *self, uint32_t program, int *pid) {
    node *node = self;
    const launch_spec *spec = map_get(&node->launch_specs, program);
    MR_ASSERT(spec != NULL);
    if (!spec->copied || zygote_pool_is_cold(node->pool, program)) return start_process(node, program, spec, -1, pid);
    *pid = 0;
    return zygote_pool_ask(node->pool, program, spec);
}

static void settle(void *self) { zygote_pool_settle(((node *)self)->pool); }

static void kill_worker(void *self, int pid) {
    node *node = self;
    children_kill(&node->children, pid);
    map_put(&node->ordered, (uint64_t)pid, node);
}

/* ---- Forked workers. */

static mr_status start_zygote(void *context, uint32_t program, const launch_spec *spec, int socket_fd, pid_t *pid) {
    node *node = context;
    MR_TRY(start_process(node, program, spec, socket_fd, pid));
    if (node->logs != NULL) worker_logs_label(node->logs, *pid, "template");
    return MR_OK;
}

static void worker_made(void *context, uint32_t program, pid_t pid) {
    node *node = context;
    if (children_add(&node->children, pid) != MR_OK) {
        node_manager_start_failed(node->core, program, mr_last_error());
        return;
    }
    if (node->logs != NULL) worker_logs_made(node->logs, program, pid);
    forget_pid(node, pid);
    node_manager_child_started(node->core, program, pid);
}

static void start_afresh(void *context, uint32_t program) {
    node *node = context;
    const launch_spec *spec = map_get(&node->launch_specs, program);
    pid_t pid;
    if (spec == NULL)
        node_manager_start_failed(node->core, program, "its driver has ended");
    else if (start_process(node, program, spec, -1, &pid) != MR_OK)
        node_manager_start_failed(node->core, program, mr_last_error());
    else
        node_manager_child_started(node->core, program, pid);
}

static void worker_failed(void *context, uint32_t program, const char *why) {
    node_manager_start_failed(((node *)context)->core, program, why);
}

static void kill_zygote(void *context, pid_t pid) { children_kill(&((node *)context)->children, pid); }

static const zygote_pool_host zygote_pool_ops = {
    .start = start_zygote, .kill = kill_zygote, .made = worker_made, .afresh = start_afresh, .failed = worker_failed};

static void label_worker(void *self, int pid, const char *label) {
    node *node = self;
    if (node->logs != NULL) worker_logs_label(node->logs, pid, label);
}

static void drain_logs(void *self) {
    node *node = self;
    if (node->logs != NULL) worker_logs_drain(node->logs);
}

static const launcher_ops machine_ops = {.program_add = add_program,
                                         .program_native = add_native,
                                         .program_end = end_program,
                                         .start = start_worker,
                                         .settle = settle,
                                         .label = label_worker,
                                         .drain = drain_logs,
                                         .kill = kill_worker};

/* Whether the kernel's OOM killer has ended a process since the last call. */
static worker_exit_memory look_at_memory(node *node) {
    uint64_t before = node->oom_count;
    if (!oom_count(&node->oom_count)) return WORKER_EXIT_MEMORY_UNKNOWN;
    return node->oom_count > before ? WORKER_EXIT_MEMORY_OUT : WORKER_EXIT_MEMORY_ENOUGH;
}

/* The kernel tells no size of a process that the OOM killer has ended, except its peak, until it is waited for. */
static void find_sizes(node *node, int pid, worker_exit *exit) {
    uint64_t kilobytes = (uint64_t)(uintptr_t)map_remove(&node->peaks, (uint64_t)pid);
    exit->peak_bytes = kilobytes > 0 ? kilobytes * 1024 : child_peak_bytes(pid);
    exit->limit_bytes = node->memory_bytes;
}

/* Writes facts about the end of a worker besides its wait status. Returns the status of its death. */
static mr_status explain(void *context, int pid, int wait_status, char *out, size_t size) {
    node *node = context;
    char last[300] = "";
    mr_status status = MR_PEER_DIED;
    worker_exit exit = {.wait_status = wait_status, .sentence = "", .last = last};
    exit.ordered = map_remove(&node->ordered, (uint64_t)pid) != NULL;
    if (exit.ordered) exit.sentence = node_manager_sentence(node->core, pid, &status);
    if (WIFSIGNALED(wait_status) && !exit.ordered) exit.memory = look_at_memory(node);
    if (exit.memory == WORKER_EXIT_MEMORY_OUT) find_sizes(node, pid, &exit);
    if (node->logs != NULL && !exit.ordered) worker_logs_last(node->logs, pid, last, sizeof last);
    worker_exit_more_text(&exit, out, size);
    size_t used = strlen(out);
    if (!exit.ordered) node_manager_write_fate(node->core, pid, out + used, size - used);
    return status;
}

static void child_exited(void *context, pid_t pid, int wait_status, uint64_t peak_bytes) {
    node *node = context;
    if (WIFSIGNALED(wait_status) && WTERMSIG(wait_status) == SIGKILL && peak_bytes > 0)
        map_put(&node->peaks, (uint64_t)pid, (void *)(uintptr_t)(peak_bytes / 1024));
    char how[640];
    pidfd_status_text(wait_status, how, sizeof how);
    bool copied = zygote_pool_has(node->pool, pid);
    if (copied || node_manager_is_starting(node->core, pid)) { /* the broker does not know it and adds no text */
        size_t used = strlen(how);
        (void)explain(node, pid, wait_status, how + used, sizeof how - used);
        used = strlen(how);
        if (broker_stats_now(node->broker).no_descriptor) /* the broker could not accept the worker's connection */
            snprintf(how + used, sizeof how - used,
                     "; the node has no free file descriptor: raise its limit (ulimit -n)");
    }
    if (node->logs != NULL) worker_logs_ended(node->logs, pid);
    if (copied) {
        zygote_pool_ended(node->pool, pid, how);
        return;
    }
    broker_note_exit(node->broker, pid, wait_status);
    node_manager_child_ended(node->core, pid, how);
}

static void describe(void *self, node_facts *out) {
    const node *node = self;
    broker_stats arena = broker_stats_now(node->broker);
    *out = (node_facts){.pid = getpid(),
                        .number = (uint32_t)(shm_transport_process(node->transport) >> 32),
                        .address = node->broker_path,
                        .folder = node->run.path,
                        .age_us = clock_now_us(node->env.clock) - node->started_us,
                        .memory_bytes = node->memory_bytes > arena.size ? node->memory_bytes - arena.size : 0,
                        .arena = arena,
                        .store = store_server_stats_now(node_store_server(node->store))};
    gethostname(out->host, sizeof out->host - 1);
}

static void *lend(void *self, size_t bytes, uint64_t *offset) {
    node *node = self;
    extent extent;
    if (broker_extent_alloc(node->broker, bytes, &extent) != MR_OK) {
        error_clear();
        return NULL;
    }
    *offset = extent.offset;
    return arena_at(broker_arena(node->broker), extent.offset);
}

static void take_back(void *self, uint64_t offset, size_t bytes) {
    broker_extent_free(((node *)self)->broker, (extent){.offset = offset, .size = bytes});
}

static const node_memory_ops memory_ops = {lend, take_back};

/* ---- Ticks of the core. */

static void deadline_came(void *context) {
    node *node = context;
    node_manager_tick(node->core, clock_now_us(node->env.clock));
}

static void before_sleep(void *context) {
    node *node = context;
    memory_monitor_stir(node->monitor);
    int64_t next_us = node_manager_next_us(node->core);
    int64_t left_us = next_us - clock_now_us(node->env.clock);
    event_loop_timer_set(node->deadline, next_us == CLOCK_NEVER_US ? -1 : left_us > 0 ? left_us : 0);
}

static void printed(void *context, const worker_log_source *source, span line) {
    node_core *core = ((node *)context)->core;
    char label[64];
    if (source->label[0] == '\0' &&
        !node_manager_speaker(core, source->pid, source->std_stream, source->place, label, sizeof label))
        snprintf(label, sizeof label, "worker");
    node_output_source said = {.label = source->label[0] == '\0' ? label : source->label,
                               .pid = source->pid,
                               .std_stream = source->std_stream};
    node_manager_printed(core, source->program, &said, line);
}

/* ---- Opening and closing. */

typedef struct joining { /* this thread's loop serves the broker, so another thread joins it */
    node *node;
    mr_status status;
    char text[ERROR_TEXT_MAX];
    _Atomic bool done;
} joining;

static void *join_broker(void *argument) {
    joining *joining = argument;
    node *node = joining->node;
    shm_transport_options options = runtime_config_port(&node->config, node->broker_path, "node");
    joining->status = shm_transport_open(&options, &rpc_events, node_manager_calls(node->core), &node->transport);
    if (joining->status != MR_OK) snprintf(joining->text, sizeof joining->text, "%s", mr_last_error());
    atomic_store(&joining->done, true);
    event_loop_wake(node->loop);
    return NULL;
}

static mr_status open_port(node *node) {
    joining joining = {.node = node};
    pthread_t thread;
    errno = pthread_create(&thread, NULL, join_broker, &joining);
    if (errno != 0) return error_errno("cannot start the node (process %d): pthread_create", (int)getpid());
    while (!atomic_load(&joining.done)) event_loop_run_once(node->loop, 100 * 1000);
    pthread_join(thread, NULL);
    if (joining.status != MR_OK) return error_set(joining.status, "%s", joining.text);
    node->env.transport = shm_transport_transport(node->transport);
    return shm_transport_attach(node->transport, node->loop);
}

static void open_store(node *node) {
    char own[128];
    const char *slash = strrchr(node->broker_path, '/');
    snprintf(own, sizeof own, "%.*s", slash == NULL ? 1 : (int)(slash - node->broker_path),
             slash == NULL ? "." : node->broker_path);
    const char *folder = node->config.spill_dir[0] == '\0' ? own : node->config.spill_dir;
    node_store_options options = {.spill_folder = strcmp(folder, "none") == 0 ? NULL : folder,
                                  .spill_bytes_max = (uint64_t)node->config.spill_bytes_max};
    node->store = node_store_open(node->loop, node->broker, node->core, &options);
}

/* ---- Events that end the node. */

static void stop(void *context) { event_loop_stop(((node *)context)->loop); }

static void program_ended(void *context) {
    if (pidfd_ended(&((node *)context)->program)) stop(context);
}

/* Workers are started with an empty signal mask, so this mask applies to the node only. */
static mr_status open_signals(node *node) {
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGHUP);
    signal(SIGPIPE, SIG_IGN);
    sigprocmask(SIG_BLOCK, &signals, NULL);
    node->signal_fd = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
    if (node->signal_fd < 0) return error_errno("cannot start the node (process %d): signalfd", (int)getpid());
    return event_loop_watch_add(node->loop, node->signal_fd, stop, node, &node->ends[0]);
}

static mr_status watch_program(node *node) {
    mr_status status = pidfd_of_pid(node->told.program, &node->program);
    if (status == MR_PEER_DIED || getppid() != node->told.program)
        return error_set(MR_PEER_DIED, "the driver that started this node (process %d) has ended", node->told.program);
    MR_TRY(status);
    MR_TRY(event_loop_watch_add(node->loop, node->program.fd, program_ended, node, &node->ends[1]));
    return event_loop_watch_add(node->loop, BOOT_LIFELINE_FD, stop, node, &node->ends[2]);
}

static mr_status read_launch_spec(node *node) {
    launch_spec *spec;
    if (!node->told.has_launch_spec)
        spec = launch_spec_own();
    else
        MR_TRY(boot_read_launch_spec(&node->told, &spec));
    map_put(&node->launch_specs, NODE_MANAGER_OWN_PROGRAM, spec);
    return MR_OK;
}

static mr_status node_open(node *node) {
    MR_TRY(boot_read_node(&node->told));
    MR_TRY(runtime_config_load(&node->config));
    node->broker_path = boot_broker();
    node->reaper = reaper_open(reaper_end_node, &(reaper_node){boot_run(), node->broker_path, !node->told.lasting});
    MR_TRY(session_dir_adopt(boot_run(), &node->run));
    if (node->told.lasting && chdir("/") != 0)
        return error_errno("cannot change to the directory '/'"); /* so that the node keeps no other directory busy */
    rng_init(&node->rng, rng_system_seed());
    node->env = (env){.clock = clock_real(), .rng = &node->rng};
    fd_limit_raise();
    MR_TRY(event_loop_create(&node->loop));
    MR_TRY(open_signals(node));
    if (!node->told.lasting) MR_TRY(watch_program(node));
    if (!node->told.lasting) MR_TRY(read_launch_spec(node)); /* before the socket; fails if the driver is gone */
    broker_options broker = runtime_config_broker(&node->config, node->broker_path, node->told.arena_bytes);
    broker.explain = explain;
    broker.context = node;
    broker.alone = !node->told.lasting; /* a private node's session directory is locked by its driver */
    mr_status status = broker_open(node->loop, &broker, &node->broker);
    if (status == MR_NOMEM)
        return error_wrap(status,
                          "cannot create the object store of %llu MB; ask for less with " MEMORY_LIMIT_STORE_OPTIONS,
                          (unsigned long long)(broker.arena_bytes >> 20));
    MR_TRY(status);
    children_init(&node->children, node->loop, child_exited, node);
    oom_count(&node->oom_count);
    node->null_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (worker_logs_open(node->loop, node->run.path, printed, node, &node->logs) != MR_OK)
        log_warn("the output of workers is not written to files: %s", mr_last_error());
    node_manager_options options = {.total = node->told.total,
                                    .gpus_shown = getenv("CUDA_VISIBLE_DEVICES"),
                                    .workers = node->told.workers,
                                    .lasting = node->told.lasting,
                                    .describe = describe,
                                    .memory = &memory_ops,
                                    .arena_bytes = broker_stats_now(node->broker).size,
                                    .events_kept = (uint32_t)node->config.events_kept};
    node->core = node_manager_create(&node->env, &options, (launcher){&machine_ops, node});
    node->pool = zygote_pool_create(node->loop, &zygote_pool_ops, node);
    open_store(node);
    node->started_us = clock_now_us(node->env.clock);
    uint64_t total = memory_headroom_total();
    node->memory_bytes = total == MEMORY_HEADROOM_UNKNOWN ? 0 : total;
    node->deadline = event_loop_timer_create(node->loop, deadline_came, node);
    node->monitor = memory_monitor_open(node->loop, node->core, node->broker, &node->config);
    node->before_sleep = event_loop_idle_add(node->loop, before_sleep, node);
    return open_port(node);
}

static void node_close(node *node) {
    node_manager_stop(node->core);
    children_fini(&node->children);
    worker_logs_close(node->logs);
    shm_transport_close(node->transport);
    node_store_close(node->store);
    event_loop_idle_remove(node->before_sleep);
    event_loop_timer_destroy(node->deadline);
    memory_monitor_close(node->monitor);
    node_manager_destroy(node->core);
    zygote_pool_destroy(node->pool); /* after the core, whose end drops jobs from the pool */
    map_for_each (slot, &node->launch_specs) launch_spec_destroy(slot.value);
    map_fini(&node->launch_specs);
    map_fini(&node->ordered);
    map_fini(&node->peaks);
    for (size_t i = 0; i < sizeof node->ends / sizeof *node->ends; i++)
        if (node->ends[i] != NULL) event_loop_watch_remove(node->ends[i]);
    broker_close(node->broker);
    event_loop_destroy(node->loop);
    session_dir_close(&node->run);
    reaper_close(node->reaper);
    free(node);
}

int node_main(void) {
    node *node = xcalloc(1, sizeof *node);
    mr_status status = node_open(node);
    if (status != MR_OK) {
        reaper_close(node->reaper);
        boot_node_ready(mr_last_error());
        return 1;
    }
    node_manager_start(node->core); /* starts the first workers before the driver joins */
    boot_node_ready(NULL);
    event_loop_run(node->loop);
    node_close(node);
    return 0;
}
