/* ps_actor.c — see ps_actor.h. Tested by tests/deployment_test.c. */
#include "deployment/ps_actor.h"

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

typedef struct ps_actor {
    bool is_server;
    char name[PS_ACTOR_NAME_MAX];
    char *texts[2]; /* owned: what the options point to */
    mr_ps_scheduler_options scheduler;
    mr_ps_server_options server;
    pthread_t thread;
    pthread_mutex_t lock; /* of the rest */
    pthread_cond_t changed;
    bool listens, over, dismissed;
    char address[MR_PS_ADDRESS_MAX];
    ps_actor_refusal end; /* how it was over */
} ps_actor;

/* ---- What a creation says. */

void ps_actor_scheduler_args(const char *name, const mr_ps_scheduler_options *options,
                             mr_arg out[PS_ACTOR_SCHEDULER_ARGS]) {
    const mr_arg args[PS_ACTOR_SCHEDULER_ARGS] = {mr_str(name),
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

void ps_actor_server_args(const char *name, const mr_ps_server_options *options, mr_arg out[PS_ACTOR_SERVER_ARGS]) {
    const mr_arg args[PS_ACTOR_SERVER_ARGS] = {mr_str(name), mr_str(options->scheduler), mr_int(options->number),
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

static mr_status read_scheduler(mr_call *call, ps_actor *actor) {
    mr_ps_scheduler_options *options = &actor->scheduler;
    uint32_t consistency = MR_PS_ASP;
    MR_TRY(read_text(call, 1, &actor->texts[0]));
    MR_TRY(read_text(call, 2, &actor->texts[1]));
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
    options->listen = actor->texts[0];
    options->checkpoint_dir = actor->texts[1];
    return MR_OK;
}

static mr_status read_server(mr_call *call, ps_actor *actor) {
    mr_ps_server_options *options = &actor->server;
    int64_t memory = 0;
    MR_TRY(read_text(call, 1, &actor->texts[0]));
    MR_TRY(read_number(call, 2, &options->number));
    MR_TRY(read_int(call, 3, &options->allow_remote));
    MR_TRY(mr_arg_int(call, 4, &memory));
    options->memory_bytes = (uint64_t)memory;
    options->scheduler = actor->texts[0];
    return MR_OK;
}

static mr_status read_role(mr_call *call, ps_actor *actor) {
    mr_span name;
    MR_TRY(mr_arg_str(call, 0, &name));
    snprintf(actor->name, sizeof actor->name, "%.*s", (int)name.size, (const char *)name.data);
    return actor->is_server ? read_server(call, actor) : read_scheduler(call, actor);
}

/* ---- The thread that serves. */

static void now_listens(void *context, const char *address) {
    ps_actor *actor = context;
    pthread_mutex_lock(&actor->lock);
    snprintf(actor->address, sizeof actor->address, "%s", address);
    actor->listens = true;
    pthread_cond_broadcast(&actor->changed);
    pthread_mutex_unlock(&actor->lock);
}

static void *play(void *argument) {
    ps_actor *actor = argument;
    mr_status status = actor->is_server ? mr_ps_run_server(&actor->server) : mr_ps_run_scheduler(&actor->scheduler);
    pthread_mutex_lock(&actor->lock);
    actor->over = true;
    actor->end.status = (int32_t)status;
    snprintf(actor->end.why, sizeof actor->end.why, "%s", status == MR_OK ? "it ended as asked" : mr_last_error());
    bool deserts = actor->listens && !actor->dismissed;
    pthread_cond_broadcast(&actor->changed);
    pthread_mutex_unlock(&actor->lock);
    if (deserts) { /* no thread serves here any more */
        fprintf(stderr, "%s: %s\n", actor->name, actor->end.why);
        _exit(status == MR_OK ? EX_OK : EX_SOFTWARE);
    }
    return NULL;
}

/* Signals that are sent to the process are not the thread's; its own waits until it looks. */
static mr_status start(ps_actor *actor) {
    sigset_t signals, before;
    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGINT);
    pthread_sigmask(SIG_BLOCK, &signals, &before);
    errno = pthread_create(&actor->thread, NULL, play, actor);
    mr_status status = errno == 0 ? MR_OK : error_errno("cannot start a thread for %s", actor->name);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return status;
}

static bool await_beginning(ps_actor *actor) {
    pthread_mutex_lock(&actor->lock);
    while (!actor->listens && !actor->over) pthread_cond_wait(&actor->changed, &actor->lock);
    bool listens = actor->listens;
    pthread_mutex_unlock(&actor->lock);
    return listens;
}

/* ---- As an actor. */

static void ps_actor_free(ps_actor *actor) {
    pthread_cond_destroy(&actor->changed);
    pthread_mutex_destroy(&actor->lock);
    for (size_t i = 0; i < sizeof actor->texts / sizeof *actor->texts; i++) free(actor->texts[i]);
    free(actor);
}

static void dismiss(ps_actor *actor) {
    pthread_mutex_lock(&actor->lock);
    bool first = !actor->dismissed && !actor->over;
    actor->dismissed = true;
    if (first) pthread_kill(actor->thread, SIGTERM);
    while (!actor->over) pthread_cond_wait(&actor->changed, &actor->lock);
    pthread_mutex_unlock(&actor->lock);
}

static void destroy(void *self) {
    ps_actor *actor = self;
    dismiss(actor);
    pthread_join(actor->thread, NULL);
    ps_actor_free(actor);
}

/* The caller that starts a scheduler waits, and gets the cause of a failure as the answer to "address". Later, and of a
 * server, no caller waits: the actor dies. */
static bool is_awaited(mr_call *call, const ps_actor *actor) {
    mr_actor_info facts;
    if (actor->is_server) return false;
    return mr_actor_info_get(mr_call_context(call), mr_call_self(call), &facts) == MR_OK && facts.starts <= 1;
}

static mr_status create(mr_call *call, bool is_server) {
    void *memory;
    MR_TRY(alloc_try(sizeof(ps_actor), &memory));
    ps_actor *actor = memory;
    actor->is_server = is_server;
    actor->scheduler.size = sizeof actor->scheduler;
    actor->server.size = sizeof actor->server;
    actor->scheduler.on_listening = actor->server.on_listening = now_listens;
    actor->scheduler.context = actor->server.context = actor;
    pthread_mutex_init(&actor->lock, NULL);
    pthread_cond_init(&actor->changed, NULL);
    mr_status status = read_role(call, actor);
    if (status != MR_OK) goto free_role;
    prctl(PR_SET_NAME, actor->name);
    status = start(actor);
    if (status != MR_OK) goto free_role;
    if (await_beginning(actor) || is_awaited(call, actor)) return mr_set_self(call, actor, destroy);
    pthread_join(actor->thread, NULL);
    status = mr_fail(call, "%s", actor->end.why);

free_role:
    ps_actor_free(actor);
    return status;
}

static mr_status create_scheduler(mr_call *call) { return create(call, false); }
static mr_status create_server(mr_call *call) { return create(call, true); }

static mr_status say_address(mr_call *call) {
    const ps_actor *actor = mr_self(call);
    if (actor->listens) return mr_return(call, mr_str(actor->address));
    return mr_fail_with(call, (mr_span){&actor->end, sizeof actor->end}, actor->end.why);
}

static mr_status say_pid(mr_call *call) { return mr_return(call, mr_int(getpid())); }

static mr_status stop(mr_call *call) {
    dismiss(mr_self(call));
    return MR_OK;
}

/* Before a native worker serves, which is before constructors without a priority have run (runtime/common/boot.h). */
__attribute__((constructor(1000))) static void register_roles(void) {
    static const char *const classes[] = {PS_ACTOR_SCHEDULER, PS_ACTOR_SERVER};
    mr_register_method(PS_ACTOR_SCHEDULER, NULL, create_scheduler);
    mr_register_method(PS_ACTOR_SERVER, NULL, create_server);
    for (size_t i = 0; i < sizeof classes / sizeof *classes; i++) {
        mr_register_method(classes[i], "address", say_address);
        mr_register_method(classes[i], "pid", say_pid);
        mr_register_method(classes[i], "stop", stop);
    }
}
