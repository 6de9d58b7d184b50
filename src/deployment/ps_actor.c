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
    char *texts[2]; /* owned: texts that the options point to */
    mr_ps_scheduler_options scheduler;
    mr_ps_server_options server;
    pthread_t thread;
    pthread_mutex_t lock; /* protects the members below */
    pthread_cond_t changed;
    bool listens, over, dismissed;
    char address[MR_PS_ADDRESS_MAX];
    ps_actor_refusal end; /* result of the service, valid if `over` */
} ps_actor;

/* ---- Arguments of a creation: the name of the process, then these fields of the options. */

typedef enum field_kind { TEXT, COUNT, FLAG, AMOUNT } field_kind; /* const char *, uint32_t, int, int64_t */

typedef struct field {
    field_kind kind;
    size_t offset;
} field;

static const field scheduler_fields[] = {
    {TEXT, offsetof(mr_ps_scheduler_options, listen)},
    {TEXT, offsetof(mr_ps_scheduler_options, checkpoint_dir)},
    {COUNT, offsetof(mr_ps_scheduler_options, num_workers)},
    {COUNT, offsetof(mr_ps_scheduler_options, num_servers)},
    {COUNT, offsetof(mr_ps_scheduler_options, slots)},
    {COUNT, offsetof(mr_ps_scheduler_options, replicas)},
    {COUNT, offsetof(mr_ps_scheduler_options, consistency)},
    {COUNT, offsetof(mr_ps_scheduler_options, staleness)},
    {FLAG, offsetof(mr_ps_scheduler_options, mixed_consistency)},
    {AMOUNT, offsetof(mr_ps_scheduler_options, checkpoint_us)},
    {FLAG, offsetof(mr_ps_scheduler_options, allow_remote)},
    {FLAG, offsetof(mr_ps_scheduler_options, consistent_checkpoints)},
    {AMOUNT, offsetof(mr_ps_scheduler_options, balance_us)},
    {COUNT, offsetof(mr_ps_scheduler_options, backup_workers)},
    {AMOUNT, offsetof(mr_ps_scheduler_options, deadline_us)},
    {AMOUNT, offsetof(mr_ps_scheduler_options, final_checkpoint_us)},
    {COUNT, offsetof(mr_ps_scheduler_options, readers)},
};
static const field server_fields[] = {
    {TEXT, offsetof(mr_ps_server_options, scheduler)},
    {COUNT, offsetof(mr_ps_server_options, number)},
    {FLAG, offsetof(mr_ps_server_options, allow_remote)},
    {AMOUNT, offsetof(mr_ps_server_options, memory_bytes)},
};
_Static_assert(sizeof scheduler_fields / sizeof *scheduler_fields == PS_ACTOR_SCHEDULER_ARGS - 1, "after the name");
_Static_assert(sizeof server_fields / sizeof *server_fields == PS_ACTOR_SERVER_ARGS - 1, "after the name");
_Static_assert(sizeof(mr_ps_consistency) == sizeof(uint32_t), "read and written as a count");

static void write_args(const field *fields, size_t count, const char *name, const void *options, mr_arg *out) {
    out[0] = mr_str(name);
    for (size_t i = 1; i < count; i++, fields++) {
        const void *at = (const char *)options + fields->offset;
        switch (fields->kind) {
        case TEXT: out[i] = mr_str(*(const char *const *)at); break;
        case COUNT: out[i] = mr_int(*(const uint32_t *)at); break;
        case FLAG: out[i] = mr_int(*(const int *)at); break;
        case AMOUNT: out[i] = mr_int(*(const int64_t *)at); break;
        }
    }
}

void ps_actor_scheduler_args(const char *name, const mr_ps_scheduler_options *options,
                             mr_arg out[PS_ACTOR_SCHEDULER_ARGS]) {
    write_args(scheduler_fields, PS_ACTOR_SCHEDULER_ARGS, name, options, out);
}

void ps_actor_server_args(const char *name, const mr_ps_server_options *options, mr_arg out[PS_ACTOR_SERVER_ARGS]) {
    write_args(server_fields, PS_ACTOR_SERVER_ARGS, name, options, out);
}

static mr_status read_text(mr_call *call, size_t index, char **out) {
    mr_span text;
    MR_TRY(mr_arg_str(call, index, &text));
    MR_TRY(alloc_try(text.size + 1, out));
    if (text.size > 0) memcpy(*out, text.data, text.size);
    return MR_OK;
}

static mr_status read_number(mr_call *call, size_t index, field_kind kind, void *out) {
    int64_t number;
    MR_TRY(mr_arg_int(call, index, &number));
    if (kind == COUNT && (number < 0 || number > UINT32_MAX))
        return error_set(MR_INVALID, "argument %zu is %lld; expected 0 to %u", index, (long long)number, UINT32_MAX);
    if (kind == COUNT)
        *(uint32_t *)out = (uint32_t)number;
    else if (kind == FLAG)
        *(int *)out = number != 0;
    else
        *(int64_t *)out = number;
    return MR_OK;
}

static mr_status read_args(mr_call *call, ps_actor *actor, const field *fields, size_t count, void *options) {
    char **text = actor->texts;
    for (size_t i = 1; i < count; i++, fields++) {
        void *at = (char *)options + fields->offset;
        MR_TRY(fields->kind == TEXT ? read_text(call, i, text) : read_number(call, i, fields->kind, at));
        if (fields->kind == TEXT) *(const char **)at = *text++;
    }
    return MR_OK;
}

static mr_status read_role(mr_call *call, ps_actor *actor) {
    mr_span name;
    MR_TRY(mr_arg_str(call, 0, &name));
    snprintf(actor->name, sizeof actor->name, "%.*s", (int)name.size, (const char *)name.data);
    if (actor->is_server) return read_args(call, actor, server_fields, PS_ACTOR_SERVER_ARGS, &actor->server);
    MR_TRY(read_args(call, actor, scheduler_fields, PS_ACTOR_SCHEDULER_ARGS, &actor->scheduler));
    if (actor->scheduler.consistency <= MR_PS_BSP) return MR_OK;
    return error_set(MR_INVALID, "unknown consistency %u", (unsigned)actor->scheduler.consistency);
}

/* ---- Service thread. */

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
    if (deserts) { /* the service ended by itself: end the process, so that the node restarts the actor */
        fprintf(stderr, "%s: %s\n", actor->name, actor->end.why);
        _exit(status == MR_OK ? EX_OK : EX_SOFTWARE);
    }
    return NULL;
}

/* Starts the service thread with SIGTERM and SIGINT blocked: signals to the process go to other threads, and a signal
 * to this thread (dismiss) stays pending until the service reads it. */
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

/* ---- Actor methods. */

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

/* Whether a caller waits for the start: mr_ps_start waits for the first start of a scheduler and gets the cause of a
 * failure as the answer to "address". Otherwise a failed start makes the actor die. */
static bool is_awaited(mr_call *call, const ps_actor *actor) {
    mr_actor_info facts;
    if (actor->is_server) return false;
    return mr_actor_info_get(mr_call_context(call), mr_call_self(call), &facts) == MR_OK && facts.starts <= 1;
}

static mr_status create(mr_call *call, bool is_server) {
    ps_actor *actor;
    MR_TRY(alloc_try(sizeof *actor, &actor));
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

/* The priority makes this run before a native worker begins to serve, which happens before constructors without a
 * priority run (runtime/common/boot.h). */
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
