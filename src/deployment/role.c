/* role.c — see role.h. Tested by tests/deployment_test.c. */
#include "deployment/role.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sysexits.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"

typedef struct role {
    bool is_server;
    char name[ROLE_NAME_MAX];
    char *texts[2]; /* owned: what the options point to */
    mr_ps_scheduler_options scheduler;
    mr_ps_server_options server;
    pthread_t thread;
    pthread_mutex_t lock; /* of the rest */
    pthread_cond_t changed;
    bool listens, over, dismissed;
    char address[MR_PS_ADDRESS_MAX];
    role_refusal end; /* how it was over */
} role;

/* ---- What a creation says. */

void role_scheduler_args(const char *name, const mr_ps_scheduler_options *options, mr_arg out[ROLE_SCHEDULER_ARGS]) {
    const mr_arg args[ROLE_SCHEDULER_ARGS] = {mr_str(name),
                                              mr_str(options->listen),
                                              mr_str(options->checkpoint_dir),
                                              mr_int(options->num_workers),
                                              mr_int(options->num_servers),
                                              mr_int(options->slots),
                                              mr_int(options->replicas),
                                              mr_int(options->consistency),
                                              mr_int(options->staleness),
                                              mr_int(options->mixed_consistency),
                                              mr_int(options->checkpoint_us),
                                              mr_int(options->allow_remote),
                                              mr_int(options->consistent_checkpoints),
                                              mr_int(options->balance_us),
                                              mr_int(options->backup_workers),
                                              mr_int(options->deadline_us)};
    memcpy(out, args, sizeof args);
}

void role_server_args(const char *name, const mr_ps_server_options *options, mr_arg out[ROLE_SERVER_ARGS]) {
    const mr_arg args[ROLE_SERVER_ARGS] = {mr_str(name), mr_str(options->scheduler), mr_int(options->number),
                                           mr_int(options->allow_remote), mr_int((int64_t)options->memory_bytes)};
    memcpy(out, args, sizeof args);
}

static mr_status read_text(mr_call *call, size_t index, char **out) {
    mr_span text;
    void *memory;
    MR_TRY(mr_arg_str(call, index, &text));
    MR_TRY(alloc_try(text.size + 1, &memory));
    if (text.size > 0) memcpy(memory, text.data, text.size);
    *out = memory;
    return MR_OK;
}

static mr_status read_number(mr_call *call, size_t index, uint32_t *out) {
    int64_t number;
    MR_TRY(mr_arg_int(call, index, &number));
    if (number < 0 || number > UINT32_MAX)
        return error_set(MR_INVALID, "argument %zu is %lld; expected 0 to %u", index, (long long)number, UINT32_MAX);
    *out = (uint32_t)number;
    return MR_OK;
}

static mr_status read_int(mr_call *call, size_t index, int *out) {
    int64_t number;
    MR_TRY(mr_arg_int(call, index, &number));
    *out = number != 0;
    return MR_OK;
}

static mr_status read_scheduler(mr_call *call, role *role) {
    mr_ps_scheduler_options *options = &role->scheduler;
    uint32_t consistency = MR_PS_ASP;
    MR_TRY(read_text(call, 1, &role->texts[0]));
    MR_TRY(read_text(call, 2, &role->texts[1]));
    MR_TRY(read_number(call, 3, &options->num_workers));
    MR_TRY(read_number(call, 4, &options->num_servers));
    MR_TRY(read_number(call, 5, &options->slots));
    MR_TRY(read_number(call, 6, &options->replicas));
    MR_TRY(read_number(call, 7, &consistency));
    MR_TRY(read_number(call, 8, &options->staleness));
    MR_TRY(read_int(call, 9, &options->mixed_consistency));
    MR_TRY(mr_arg_int(call, 10, &options->checkpoint_us));
    MR_TRY(read_int(call, 11, &options->allow_remote));
    MR_TRY(read_int(call, 12, &options->consistent_checkpoints));
    MR_TRY(mr_arg_int(call, 13, &options->balance_us));
    MR_TRY(read_number(call, 14, &options->backup_workers));
    MR_TRY(mr_arg_int(call, 15, &options->deadline_us));
    if (consistency > MR_PS_BSP) return error_set(MR_INVALID, "unknown consistency %u", consistency);
    options->consistency = (mr_ps_consistency)consistency;
    options->listen = role->texts[0];
    options->checkpoint_dir = role->texts[1];
    return MR_OK;
}

static mr_status read_server(mr_call *call, role *role) {
    mr_ps_server_options *options = &role->server;
    int64_t memory = 0;
    MR_TRY(read_text(call, 1, &role->texts[0]));
    MR_TRY(read_number(call, 2, &options->number));
    MR_TRY(read_int(call, 3, &options->allow_remote));
    MR_TRY(mr_arg_int(call, 4, &memory));
    options->memory_bytes = (uint64_t)memory;
    options->scheduler = role->texts[0];
    return MR_OK;
}

static mr_status read_role(mr_call *call, role *role) {
    mr_span name;
    MR_TRY(mr_arg_str(call, 0, &name));
    snprintf(role->name, sizeof role->name, "%.*s", (int)name.size, (const char *)name.data);
    return role->is_server ? read_server(call, role) : read_scheduler(call, role);
}

/* ---- The thread that serves. */

static void now_listens(void *context, const char *address) {
    role *role = context;
    pthread_mutex_lock(&role->lock);
    snprintf(role->address, sizeof role->address, "%s", address);
    role->listens = true;
    pthread_cond_broadcast(&role->changed);
    pthread_mutex_unlock(&role->lock);
}

static void *play(void *argument) {
    role *role = argument;
    mr_status status = role->is_server ? mr_ps_run_server(&role->server) : mr_ps_run_scheduler(&role->scheduler);
    pthread_mutex_lock(&role->lock);
    role->over = true;
    role->end.status = (int32_t)status;
    snprintf(role->end.why, sizeof role->end.why, "%s", status == MR_OK ? "it ended as asked" : mr_last_error());
    bool deserts = role->listens && !role->dismissed;
    pthread_cond_broadcast(&role->changed);
    pthread_mutex_unlock(&role->lock);
    if (deserts) { /* nobody serves here any more */
        fprintf(stderr, "%s: %s\n", role->name, role->end.why);
        _exit(status == MR_OK ? EX_OK : EX_SOFTWARE);
    }
    return NULL;
}

/* Signals that are sent to the process are not the thread's; its own waits until it looks. */
static mr_status start(role *role) {
    sigset_t signals, before;
    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGINT);
    pthread_sigmask(SIG_BLOCK, &signals, &before);
    errno = pthread_create(&role->thread, NULL, play, role);
    mr_status status = errno == 0 ? MR_OK : error_errno("cannot start a thread for %s", role->name);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return status;
}

static bool await_beginning(role *role) {
    pthread_mutex_lock(&role->lock);
    while (!role->listens && !role->over) pthread_cond_wait(&role->changed, &role->lock);
    bool listens = role->listens;
    pthread_mutex_unlock(&role->lock);
    return listens;
}

/* ---- As an actor. */

static void role_free(role *role) {
    pthread_cond_destroy(&role->changed);
    pthread_mutex_destroy(&role->lock);
    for (size_t i = 0; i < sizeof role->texts / sizeof *role->texts; i++) free(role->texts[i]);
    free(role);
}

static void dismiss(role *role) {
    pthread_mutex_lock(&role->lock);
    bool first = !role->dismissed && !role->over;
    role->dismissed = true;
    if (first) pthread_kill(role->thread, SIGTERM);
    while (!role->over) pthread_cond_wait(&role->changed, &role->lock);
    pthread_mutex_unlock(&role->lock);
}

static void destroy(void *self) {
    role *role = self;
    dismiss(role);
    pthread_join(role->thread, NULL);
    role_free(role);
}

/* Whoever starts a scheduler is waiting, and is told by the answer to "address" why it cannot begin. Later, and of a
 * server, there is nobody: the actor dies of it. */
static bool is_awaited(mr_call *call, const role *role) {
    mr_actor_info facts;
    if (role->is_server) return false;
    return mr_actor_info_get(mr_call_context(call), mr_call_self(call), &facts) == MR_OK && facts.starts <= 1;
}

static mr_status create(mr_call *call, bool is_server) {
    void *memory;
    MR_TRY(alloc_try(sizeof(role), &memory));
    role *role = memory;
    role->is_server = is_server;
    role->scheduler.size = sizeof role->scheduler;
    role->server.size = sizeof role->server;
    role->scheduler.on_listening = role->server.on_listening = now_listens;
    role->scheduler.context = role->server.context = role;
    pthread_mutex_init(&role->lock, NULL);
    pthread_cond_init(&role->changed, NULL);
    mr_status status = read_role(call, role);
    if (status != MR_OK) goto free_role;
    prctl(PR_SET_NAME, role->name);
    status = start(role);
    if (status != MR_OK) goto free_role;
    if (await_beginning(role) || is_awaited(call, role)) return mr_set_self(call, role, destroy);
    pthread_join(role->thread, NULL);
    status = mr_fail(call, "%s", role->end.why);

free_role:
    role_free(role);
    return status;
}

static mr_status create_scheduler(mr_call *call) { return create(call, false); }
static mr_status create_server(mr_call *call) { return create(call, true); }

static mr_status say_address(mr_call *call) {
    const role *role = mr_self(call);
    if (role->listens) return mr_return(call, mr_str(role->address));
    return mr_fail_with(call, (mr_span){&role->end, sizeof role->end}, role->end.why);
}

static mr_status say_pid(mr_call *call) { return mr_return(call, mr_int(getpid())); }

static mr_status stop(mr_call *call) {
    dismiss(mr_self(call));
    return MR_OK;
}

/* Before a native worker serves, which is before constructors without a priority have run (runtime/boot.h). */
__attribute__((constructor(1000))) static void register_roles(void) {
    static const char *const classes[] = {ROLE_SCHEDULER, ROLE_SERVER};
    mr_register_method(ROLE_SCHEDULER, NULL, create_scheduler);
    mr_register_method(ROLE_SERVER, NULL, create_server);
    for (size_t i = 0; i < sizeof classes / sizeof *classes; i++) {
        mr_register_method(classes[i], "address", say_address);
        mr_register_method(classes[i], "pid", say_pid);
        mr_register_method(classes[i], "stop", stop);
    }
}
