/* run_api.c — mr_ps_run_scheduler and mr_ps_run_server (miniray/admin.h): a process that serves until a signal ends it.
 *
 * SIGTERM and SIGINT are blocked in the thread that serves and read from a descriptor by its loop, so nothing is done
 * in a handler and no state is global. Tested by tests/ps_server_test.c. */
#include <signal.h>
#include <stdio.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/error.h"
#include "base/libc.h"
#include "base/option_struct.h"
#include "base/thread.h"
#include "kv/control/id_allocator.h"
#include "kv/dmlc_env.h"
#include "kv/engine/section_decoder.h"
#include "kv/engine/user_optimizer.h"
#include "kv/scheduler/final_checkpoint.h"
#include "kv/scheduler/kv_scheduler.h"
#include "kv/server/kv_server.h"
#include "kv/table/huge_pages.h"
#include "miniray/admin.h"

_Static_assert((int)MR_PS_ASP == CONSISTENCY_ASP && (int)MR_PS_SSP == CONSISTENCY_SSP &&
                   (int)MR_PS_BSP == CONSISTENCY_BSP,
               "the public names are the internal ones");

typedef struct signals {
    int fd;
    sigset_t before;
    event_loop_watch *watch;
    void (*leave)(void *role); /* ends the role; a second signal ends it at once */
    void *role;
    int first; /* the signal that ends the role; 0: none yet */
} signals;

/* The number of the signal; 0: there was none. */
static int read_signal(int fd) {
    struct signalfd_siginfo info;
    return read(fd, &info, sizeof info) == (ssize_t)sizeof info ? (int)info.ssi_signo : 0;
}

static void on_signal(void *context) {
    signals *signals = context;
    int number = read_signal(signals->fd);
    if (number == 0) return;
    if (signals->first == 0) signals->first = number;
    signals->leave(signals->role);
}

static void leave_server(void *role) { kv_server_leave(role); }
static void leave_scheduler(void *role) { kv_scheduler_leave(role); }

/* *signal is the one that ended the role. */
static mr_status serve(van *van, void (*leave)(void *role), void *role, mr_ps_listening_fn *on_listening, void *context,
                       int *signal) {
    event_loop *loop = van_loop(van);
    signals signals = {.leave = leave, .role = role};
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    pthread_sigmask(SIG_BLOCK, &set, &signals.before);
    signals.fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    mr_status status = signals.fd < 0 ? error_errno("cannot create a signalfd for SIGTERM and SIGINT") : MR_OK;
    if (status == MR_OK) status = event_loop_watch_add(loop, signals.fd, on_signal, &signals, &signals.watch);
    if (status == MR_OK) {
        if (on_listening != NULL) on_listening(context, van_address(van));
        event_loop_run(loop);
        event_loop_watch_remove(signals.watch);
    }
    if (signals.fd >= 0) close(signals.fd);
    pthread_sigmask(SIG_SETMASK, &signals.before, NULL);
    *signal = signals.first;
    return status;
}

static mr_status handle(app_rpc *rpc, const mr_ps_app *apps, uint32_t count) {
    if (apps == NULL && count > 0) return error_set(MR_INVALID, "apps is NULL, app_count is %u", count);
    for (uint32_t i = 0; i < count; i++) {
        MR_TRY(app_rpc_check_app(apps[i].app));
        if (apps[i].handler == NULL) return error_set(MR_INVALID, "app %d has no handler", apps[i].app);
        MR_TRY(app_rpc_handle(rpc, apps[i].app, apps[i].handler, apps[i].context));
    }
    return MR_OK;
}

static mr_status check_remote(int allow_remote) {
    if (allow_remote == 0) return MR_OK;
    return error_set(MR_INVALID,
                     "allow_remote is %d: links between machines need TLS, which this release does not "
                     "have; use tcp:127.0.0.1:PORT or unix:PATH, without --allow-remote",
                     allow_remote);
}

static mr_status check_scheduler(const mr_ps_scheduler_options *options) {
    if (options->checkpoint_dir == NULL)
        return error_set(
            MR_INVALID,
            "mr_ps_run_scheduler: checkpoint_dir is NULL; a scheduler keeps its state and checkpoints there");
    if (options->replicas > MR_PS_REPLICAS_MAX)
        return error_set(MR_INVALID, "replicas is %u: 1 to %d copies of each slot, or 0 for 1", options->replicas,
                         MR_PS_REPLICAS_MAX);
    if (options->consistency < MR_PS_ASP || options->consistency > MR_PS_BSP)
        return error_set(MR_INVALID, "consistency is %d: MR_PS_ASP, MR_PS_SSP or MR_PS_BSP", (int)options->consistency);
    if (options->checkpoint_us < 0)
        return error_set(MR_INVALID, "checkpoint_us is %lld: an interval, or 0 for never",
                         (long long)options->checkpoint_us);
    return MR_OK;
}

static void stop_scheduler(kv_scheduler *scheduler, int signal) {
    char how[80];
    snprintf(how, sizeof how, "(process %d) was stopped by SIG%s", (int)getpid(), libc_signal_name(signal));
    kv_scheduler_stop(scheduler, how);
}

mr_status mr_ps_run_scheduler(const mr_ps_scheduler_options *options) {
    char address[DMLC_ADDRESS_MAX];
    mr_ps_scheduler_options copy;
    if (options == NULL)
        return error_set(MR_INVALID, "mr_ps_run_scheduler: options is NULL; a scheduler needs a checkpoint_dir");
    OPTION_STRUCT_READ(mr_ps_scheduler_options, backup_workers, options, copy);
    MR_TRY(check_scheduler(options));
    MR_TRY(check_remote(options->allow_remote));
    thread_bar_privileges();
    kv_scheduler_options own = {.listen = options->listen,
                                .folder = options->checkpoint_dir,
                                .consistency = {(consistency_kind)options->consistency, options->staleness},
                                .copies = (uint8_t)(options->replicas == 0 ? 1 : options->replicas),
                                .rank_count = options->num_workers,
                                .reader_count = options->readers,
                                .mixed = options->mixed_consistency != 0,
                                .backup = options->backup_workers,
                                .deadline_us = options->deadline_us,
                                .table_slots = options->slots,
                                .server_count = options->num_servers,
                                .checkpoint_us = options->checkpoint_us,
                                .exact_checkpoints = options->consistent_checkpoints != 0,
                                .final_us = options->final_checkpoint_us == 0  ? FINAL_CHECKPOINT_PATIENCE_US
                                            : options->final_checkpoint_us < 0 ? 0
                                                                               : options->final_checkpoint_us,
                                .balance_us = options->balance_us == 0  ? KV_SCHEDULER_BALANCE_US
                                              : options->balance_us < 0 ? 0
                                                                        : options->balance_us};
    if (own.rank_count == 0) MR_TRY(dmlc_number("DMLC_NUM_WORKER", &own.rank_count));
    if (own.server_count == 0) MR_TRY(dmlc_number("DMLC_NUM_SERVER", &own.server_count));
    MR_TRY(dmlc_default(&own.listen, address));
    kv_scheduler *scheduler;
    MR_TRY(kv_scheduler_open(&own, &scheduler));
    mr_status status =
        handle(control_server_notes(kv_scheduler_control_server(scheduler)), options->apps, options->app_count);
    int signal = 0;
    if (status == MR_OK)
        status = serve(kv_scheduler_van(scheduler), leave_scheduler, scheduler, options->on_listening, options->context,
                       &signal);
    if (status == MR_OK) stop_scheduler(scheduler, signal);
    kv_scheduler_close(scheduler);
    return status;
}

/* Answers whether this server has an optimizer, for creators of tables. */
static void say_own(void *context, mr_ps_message *message) {
    const struct user_optimizer *optimizer = context;
    bool has = user_optimizer_has(optimizer, (const char *)message->body, message->size);
    app_rpc_answer(message->rpc, message, MR_OK, has, (span){0});
}

mr_status mr_ps_run_server(const mr_ps_server_options *options) {
    static const mr_ps_server_options usual = MR_INIT(mr_ps_server_options);
    char address[DMLC_ADDRESS_MAX];
    mr_ps_server_options copy;
    OPTION_STRUCT_READ(mr_ps_server_options, optimizers, options, copy);
    if (options == NULL) options = &usual;
    if (options->number > ID_ALLOCATOR_MAX)
        return error_set(MR_INVALID, "number is %u: 1 + the number of a server, at most %d, or 0 for any",
                         options->number, ID_ALLOCATOR_MAX);
    kv_process_options own = {.scheduler = options->scheduler,
                              .listen = options->listen,
                              .number = options->number == 0 ? KV_PROCESS_ANY : options->number - 1};
    MR_TRY(check_remote(options->allow_remote));
    MR_TRY(dmlc_default(&own.scheduler, address));
    huge_pages_keep_freed();
    thread_bar_privileges();
    struct user_optimizer *optimizers;
    MR_TRY(user_optimizer_create(options->optimizers, options->optimizer_count, &optimizers));
    kv_server *server;
    mr_status status = kv_server_open(&own, options->memory_bytes, &server);
    if (status != MR_OK) goto destroy_own;
    kv_server_own(server, user_optimizer_host(optimizers));
    app_rpc *rpc = control_client_notes(kv_process_control(kv_server_kv_process(server)));
    status = app_rpc_handle(rpc, USER_OPTIMIZER_ASK_APP, say_own, optimizers);
    if (status == MR_OK) status = handle(rpc, options->apps, options->app_count);
    int signal;
    if (status == MR_OK)
        status = serve(kv_server_van(server), leave_server, server, options->on_listening, options->context, &signal);
    if (status == MR_OK && kv_server_is_deposed(server))
        status = error_set(MR_EXISTS, "another process has become server %u; this one ends",
                           kv_process_number(kv_server_kv_process(server)));
    if (status == MR_OK && kv_server_rejection(server) != NULL)
        status = error_set(MR_NOT_FOUND, "%s", kv_server_rejection(server));
    kv_server_close(server);
destroy_own:
    user_optimizer_destroy(optimizers);
    return status;
}
