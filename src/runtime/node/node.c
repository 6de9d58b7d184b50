/* node.c — see node.h. The loop around the core: the hub, the port into it, and the children.
 * Tested by tests/lasting_test.c. */
#include "runtime/node/node.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"
#include "base/log.h"
#include "base/map.h"
#include "net/shm/headroom.h"
#include "net/shm/hub.h"
#include "net/shm/port.h"
#include "runtime/boot.h"
#include "runtime/death.h"
#include "runtime/descriptors.h"
#include "runtime/memory.h"
#include "runtime/node/child.h"
#include "runtime/node/node_core.h"
#include "runtime/node/node_store.h"
#include "runtime/node/nursery.h"
#include "runtime/node/oom.h"
#include "runtime/node/undertaker.h"
#include "runtime/node/worker_log.h"
#include "runtime/recipe.h"
#include "runtime/rundir.h"
#include "runtime/settings.h"

typedef struct node {
    loop *loop;
    hub *hub;
    port *port;
    env env;
    rng rng;
    children children;
    node_core *core;
    node_store *store;
    int64_t started_us;
    uint64_t memory_bytes; /* of the machine, or its container; 0: not known */
    loop_idle *before_sleep;
    loop_timer *deadline; /* of the core's own calls */
    map recipes;          /* of the programs, by number */
    nursery *nursery;     /* of the workers that are copies */
    worker_logs *logs;    /* NULL: there are none, workers write where we do */
    map ordered;          /* pids of workers that we have ended */
    uint64_t oom_count;
    int null_fd; /* what workers read from */
    boot_node told;
    config config;
    const char *hub_path;
    rundir run;
    pid_t undertaker;
    int signal_fd, program_fd; /* program_fd: of a private node; -1 */
    loop_watch *ends[3];       /* what ends it: a signal, its program's end, its lifeline's */
} node;

/* ---- The launcher of this machine. */

static mr_status add_program(void *self, uint32_t program, int pid, reader *reader) {
    recipe *recipe;
    MR_TRY(recipe_decode(reader, pid, &recipe));
    map_put(&((node *)self)->recipes, program, recipe);
    return MR_OK;
}

static void add_native(void *self, uint32_t program) {
    recipe *own = recipe_own();
    own->native = true;
    map_put(&((node *)self)->recipes, program, own);
}

static void end_program(void *self, uint32_t program) {
    node *node = self;
    nursery_drop(node->nursery, program);
    recipe_destroy(map_remove(&node->recipes, program));
}

/* A worker, or with a socket a template of workers. */
static mr_status start_process(node *node, uint32_t program, const recipe *recipe, int socket_fd, pid_t *pid) {
    boot_worker told = {.hub = node->hub_path,
                        .stdio = {.input_fd = node->null_fd, .output_fds = {-1, -1}},
                        .socket_fd = socket_fd,
                        .run = node->logs == NULL ? "" : node->run.path};
    bool logged = node->logs != NULL && worker_logs_create(node->logs, told.stdio.output_fds);
    mr_status status = boot_start_worker(recipe, &told, pid);
    for (outlet i = 0; logged && i < OUTLETS; i++) close(told.stdio.output_fds[i]);
    if (status == MR_OK) status = children_add(&node->children, *pid);
    if (logged) worker_logs_started(node->logs, program, status == MR_OK ? *pid : 0);
    if (status == MR_OK) map_remove(&node->ordered, (uint64_t)*pid); /* an earlier one had the same number */
    return status;
}

static mr_status start_worker(void *self, uint32_t program, int *pid) {
    node *node = self;
    const recipe *recipe = map_get(&node->recipes, program);
    MR_ASSERT(recipe != NULL);
    if (!recipe->copied || nursery_is_cold(node->nursery, program))
        return start_process(node, program, recipe, -1, pid);
    *pid = 0;
    return nursery_ask(node->nursery, program, recipe);
}

static void settle(void *self) { nursery_settle(((node *)self)->nursery); }

static void kill_worker(void *self, int pid) {
    node *node = self;
    children_kill(&node->children, pid);
    map_put(&node->ordered, (uint64_t)pid, node);
}

/* ---- Workers that are copies. */

static mr_status start_template(void *context, uint32_t program, const recipe *recipe, int socket_fd, pid_t *pid) {
    node *node = context;
    MR_TRY(start_process(node, program, recipe, socket_fd, pid));
    if (node->logs != NULL) worker_logs_label(node->logs, *pid, "template");
    return MR_OK;
}

static void worker_made(void *context, uint32_t program, pid_t pid) {
    node *node = context;
    if (children_add(&node->children, pid) != MR_OK) {
        node_core_start_failed(node->core, program, mr_last_error());
        return;
    }
    if (node->logs != NULL) worker_logs_made(node->logs, program, pid);
    map_remove(&node->ordered, (uint64_t)pid);
    node_core_child_started(node->core, program, pid);
}

static void start_afresh(void *context, uint32_t program) {
    node *node = context;
    const recipe *recipe = map_get(&node->recipes, program);
    pid_t pid;
    if (recipe == NULL)
        node_core_start_failed(node->core, program, "its driver has ended");
    else if (start_process(node, program, recipe, -1, &pid) != MR_OK)
        node_core_start_failed(node->core, program, mr_last_error());
    else
        node_core_child_started(node->core, program, pid);
}

static void worker_failed(void *context, uint32_t program, const char *why) {
    node_core_start_failed(((node *)context)->core, program, why);
}

static void kill_template(void *context, pid_t pid) { children_kill(&((node *)context)->children, pid); }

static const nursery_host nursery_ops = {.start = start_template,
                                         .kill = kill_template,
                                         .made = worker_made,
                                         .afresh = start_afresh,
                                         .failed = worker_failed};

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

/* Whether the kernel was short of memory since the last time. */
static death_memory look_at_memory(node *node) {
    uint64_t before = node->oom_count;
    if (!oom_count(&node->oom_count)) return DEATH_MEMORY_UNKNOWN;
    return node->oom_count > before ? DEATH_MEMORY_OUT : DEATH_MEMORY_ENOUGH;
}

/* What is known about the end of a worker besides its status. */
static void explain(void *context, int pid, int wait_status, char *out, size_t size) {
    node *node = context;
    char last[300] = "";
    death death = {.wait_status = wait_status, .sentence = "", .last = last};
    death.ordered = map_remove(&node->ordered, (uint64_t)pid) != NULL;
    if (death.ordered) death.sentence = node_core_sentence(node->core, pid);
    if (WIFSIGNALED(wait_status) && !death.ordered) death.memory = look_at_memory(node);
    if (node->logs != NULL && !death.ordered) worker_logs_last(node->logs, pid, last, sizeof last);
    death_more_text(&death, out, size);
}

/* A worker that was not even turned away cannot know it. */
static void say_no_descriptor(char *text, size_t size) {
    size_t used = strlen(text);
    snprintf(text + used, size - used, "; the node has no free file descriptor: raise its limit (ulimit -n)");
}

static void child_exited(void *context, pid_t pid, int wait_status) {
    node *node = context;
    char how[640];
    death_status_text(wait_status, how, sizeof how);
    bool copied = nursery_has(node->nursery, pid);
    if (copied || node_core_is_starting(node->core, pid)) { /* the hub does not know it, and explains nothing */
        size_t used = strlen(how);
        explain(node, pid, wait_status, how + used, sizeof how - used);
        if (hub_stats_now(node->hub).no_descriptor) say_no_descriptor(how, sizeof how);
    }
    if (node->logs != NULL) worker_logs_ended(node->logs, pid);
    if (copied) {
        nursery_ended(node->nursery, pid, how);
        return;
    }
    hub_note_exit(node->hub, pid, wait_status);
    node_core_child_ended(node->core, pid, how);
}

static void describe(void *self, node_facts *out) {
    const node *node = self;
    hub_stats arena = hub_stats_now(node->hub);
    *out = (node_facts){.pid = getpid(),
                        .number = (uint32_t)(port_process(node->port) >> 32),
                        .address = node->hub_path,
                        .folder = node->run.path,
                        .age_us = clock_now_us(node->env.clock) - node->started_us,
                        .memory_bytes = node->memory_bytes > arena.size ? node->memory_bytes - arena.size : 0,
                        .arena = arena,
                        .store = vault_stats_now(node_store_vault(node->store))};
    gethostname(out->host, sizeof out->host - 1);
}

static void *lend(void *self, size_t bytes, uint64_t *offset) {
    node *node = self;
    extent extent;
    if (hub_extent_alloc(node->hub, bytes, &extent) != MR_OK) {
        error_clear();
        return NULL;
    }
    *offset = extent.offset;
    return arena_at(hub_arena(node->hub), extent.offset);
}

static void take_back(void *self, uint64_t offset, size_t bytes) {
    hub_extent_free(((node *)self)->hub, (extent){.offset = offset, .size = bytes});
}

static const node_memory_ops memory_ops = {lend, take_back};

/* ---- Deadlines of calls. */

static void deadline_came(void *context) {
    node *node = context;
    calls_tick(node_core_calls(node->core), clock_now_us(node->env.clock));
}

static void before_sleep(void *context) {
    node *node = context;
    int64_t next_us = calls_next_us(node_core_calls(node->core));
    int64_t left_us = next_us - clock_now_us(node->env.clock);
    loop_timer_set(node->deadline, next_us == CLOCK_NEVER_US ? -1 : left_us > 0 ? left_us : 0);
}

static void printed(void *context, const worker_log_source *source, span line) {
    node_core *core = ((node *)context)->core;
    char label[64];
    if (source->label[0] == '\0' &&
        !node_core_speaker(core, source->pid, source->outlet, source->place, label, sizeof label))
        snprintf(label, sizeof label, "worker");
    node_output_source said = {
        .label = source->label[0] == '\0' ? label : source->label, .pid = source->pid, .outlet = source->outlet};
    node_core_printed(core, source->program, &said, line);
}

/* ---- Life. */

typedef struct joining { /* the port joins the hub of this same thread's loop, so it does so from another thread */
    node *node;
    mr_status status;
    char text[ERROR_TEXT_MAX];
    _Atomic bool done;
} joining;

static void *join_hub(void *argument) {
    joining *joining = argument;
    node *node = joining->node;
    port_options options = settings_port(&node->config, node->hub_path, "node");
    joining->status = port_open(&options, &calls_events, node_core_calls(node->core), &node->port);
    if (joining->status != MR_OK) snprintf(joining->text, sizeof joining->text, "%s", mr_last_error());
    atomic_store(&joining->done, true);
    loop_wake(node->loop);
    return NULL;
}

static mr_status open_port(node *node) {
    joining joining = {.node = node};
    pthread_t thread;
    errno = pthread_create(&thread, NULL, join_hub, &joining);
    if (errno != 0) return error_errno("cannot start the node: pthread_create");
    while (!atomic_load(&joining.done)) loop_run_once(node->loop, 100 * 1000);
    pthread_join(thread, NULL);
    if (joining.status != MR_OK) return error_set(joining.status, "%s", joining.text);
    node->env.transport = port_transport(node->port);
    return port_attach(node->port, node->loop);
}

static void open_store(node *node) {
    char own[128];
    const char *slash = strrchr(node->hub_path, '/');
    snprintf(own, sizeof own, "%.*s", slash == NULL ? 1 : (int)(slash - node->hub_path),
             slash == NULL ? "." : node->hub_path);
    const char *folder = node->config.spill_dir[0] == '\0' ? own : node->config.spill_dir;
    node_store_options options = {.spill_folder = strcmp(folder, "none") == 0 ? NULL : folder,
                                  .spill_bytes_max = (uint64_t)node->config.spill_bytes_max};
    node->store = node_store_open(node->loop, node->hub, node->core, &options);
}

/* ---- What ends it. */

static void stop(void *context) { loop_stop(((node *)context)->loop); }

/* Workers are started with an empty mask, so this one is the node's alone. */
static mr_status open_signals(node *node) {
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGHUP);
    signal(SIGPIPE, SIG_IGN);
    sigprocmask(SIG_BLOCK, &signals, NULL);
    node->signal_fd = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
    if (node->signal_fd < 0) return error_errno("cannot start the node: signalfd");
    return loop_watch_add(node->loop, node->signal_fd, stop, node, &node->ends[0]);
}

static mr_status watch_program(node *node) {
    node->program_fd = (int)syscall(SYS_pidfd_open, node->told.program, 0);
    if (node->program_fd < 0 || getppid() != node->told.program)
        return error_set(MR_PEER_DIED, "the driver that started this node (process %d) has ended", node->told.program);
    MR_TRY(loop_watch_add(node->loop, node->program_fd, stop, node, &node->ends[1]));
    return loop_watch_add(node->loop, BOOT_LIFELINE_FD, stop, node, &node->ends[2]);
}

static mr_status read_recipe(node *node) {
    recipe *recipe;
    if (!node->told.has_recipe)
        recipe = recipe_own();
    else
        MR_TRY(boot_read_recipe(&node->told, &recipe));
    map_put(&node->recipes, NODE_CORE_OWN_PROGRAM, recipe);
    return MR_OK;
}

static mr_status node_open(node *node) {
    MR_TRY(boot_read_node(&node->told));
    MR_TRY(settings_load(&node->config));
    node->hub_path = boot_hub();
    node->undertaker = undertaker_open(boot_run(), node->hub_path, !node->told.lasting); /* before there are threads */
    MR_TRY(rundir_adopt(boot_run(), &node->run));
    if (node->told.lasting && chdir("/") != 0)
        return error_errno("cannot change to the root directory"); /* it pins no other */
    rng_init(&node->rng, rng_system_seed());
    node->env = (env){.clock = clock_real(), .rng = &node->rng};
    descriptors_raise();
    MR_TRY(loop_create(&node->loop));
    MR_TRY(open_signals(node));
    if (!node->told.lasting) MR_TRY(watch_program(node));
    if (!node->told.lasting) MR_TRY(read_recipe(node)); /* before there is a socket: its program may be gone */
    hub_options hub = settings_hub(&node->config, node->hub_path, node->told.arena_bytes);
    hub.explain = explain;
    hub.context = node;
    hub.alone = !node->told.lasting; /* in the folder of its own run, which its program has locked */
    mr_status status = hub_open(node->loop, &hub, &node->hub);
    if (status == MR_NOMEM)
        return error_wrap(status, "cannot create the object store of %llu MB; ask for less with " MEMORY_STORE_OPTIONS,
                          (unsigned long long)(hub.arena_bytes >> 20));
    MR_TRY(status);
    children_init(&node->children, node->loop, child_exited, node);
    oom_count(&node->oom_count);
    node->null_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (worker_logs_open(node->loop, node->run.path, printed, node, &node->logs) != MR_OK)
        log_warn("the output of workers is not written to files: %s", mr_last_error());
    node_core_options options = {.total = node->told.total,
                                 .gpus_shown = getenv("CUDA_VISIBLE_DEVICES"),
                                 .workers = node->told.workers,
                                 .lasting = node->told.lasting,
                                 .describe = describe,
                                 .memory = &memory_ops,
                                 .arena_bytes = hub_stats_now(node->hub).size,
                                 .events_kept = (uint32_t)node->config.events_kept};
    node->core = node_core_create(&node->env, &options, (launcher){&machine_ops, node});
    node->nursery = nursery_create(node->loop, &nursery_ops, node);
    open_store(node);
    node->started_us = clock_now_us(node->env.clock);
    uint64_t total = headroom_total();
    node->memory_bytes = total == HEADROOM_UNKNOWN ? 0 : total;
    node->deadline = loop_timer_create(node->loop, deadline_came, node);
    node->before_sleep = loop_idle_add(node->loop, before_sleep, node);
    return open_port(node);
}

static void node_close(node *node) {
    node_core_stop(node->core);
    children_fini(&node->children);
    worker_logs_close(node->logs);
    port_close(node->port);
    node_store_close(node->store);
    loop_idle_remove(node->before_sleep);
    loop_timer_destroy(node->deadline);
    node_core_destroy(node->core);
    nursery_destroy(node->nursery); /* programs that leave at the end are dropped there */
    map_for_each (slot, &node->recipes) recipe_destroy(slot.value);
    map_fini(&node->recipes);
    map_fini(&node->ordered);
    for (size_t i = 0; i < sizeof node->ends / sizeof *node->ends; i++)
        if (node->ends[i] != NULL) loop_watch_remove(node->ends[i]);
    hub_close(node->hub);
    loop_destroy(node->loop);
    rundir_close(&node->run);
    undertaker_close(node->undertaker);
    free(node);
}

int node_main(void) {
    node *node = xcalloc(1, sizeof *node);
    mr_status status = node_open(node);
    if (status != MR_OK) {
        undertaker_close(node->undertaker);
        boot_node_ready(mr_last_error());
        return 1;
    }
    node_core_start(node->core); /* workers start while the program goes on */
    boot_node_ready(NULL);
    loop_run(node->loop);
    node_close(node);
    return 0;
}
