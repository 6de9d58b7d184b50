/* ps_deployment.c — see miniray/deployment.h. These functions create and end the actors (ps_actor.h); the node restarts
 * actors that die. Tested by tests/deployment_test.c. */
#include "miniray/deployment.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/option_struct.h"
#include "deployment/ps_actor.h"
#include "miniray/admin.h"
#include "net/socket/supervisor.h"
#include "runtime/common/socket_dir.h"

enum { FOLDER_MAX = 256, NAME_MAX_BYTES = 64, RETRIES = 1000 };
/* a scheduler that makes its last checkpoint ends within 10 minutes (mr_ps_scheduler_options.final_checkpoint_us) */
enum { END_US = 605 * 1000 * 1000 };

struct mr_ps_deployment {
    socket_dir dir;
    char address[MR_PS_ADDRESS_MAX];
    mr_actor scheduler;
    bool has_scheduler;
    uint32_t count; /* servers created so far */
    mr_actor servers[];
};

/* ---- Checks of options. */

static mr_status check_server(const mr_actor_options *server) {
    const char *wrong = server->name != NULL            ? "name"
                        : server->name_space != NULL    ? "name_space"
                        : server->detached != 0         ? "detached"
                        : server->max_concurrency != 0  ? "max_concurrency"
                        : server->max_call_retries != 0 ? "max_call_retries"
                        : server->native != 0           ? "native"
                        : server->about.size != 0       ? "about"
                                                        : NULL;
    if (wrong == NULL) return MR_OK;
    return error_set(MR_INVALID,
                     "server.%s is set: a server has num_cpus, num_gpus, resources, placement_group, bundle and "
                     "max_restarts",
                     wrong);
}

static mr_status check(const mr_ps_start_options *options, const mr_ps_scheduler_options *scheduler) {
    if (scheduler->num_servers == 0 || scheduler->num_servers > MR_PS_SERVERS_MAX)
        return error_set(MR_INVALID, "num_servers is %u; expected 1 to %d", scheduler->num_servers, MR_PS_SERVERS_MAX);
    if (scheduler->app_count > 0 || scheduler->apps != NULL || scheduler->on_listening != NULL)
        return error_set(MR_INVALID, "apps and on_listening need mr_ps_run_scheduler, not mr_ps_start");
    if (options->memory_bytes > INT64_MAX)
        return error_set(MR_INVALID, "memory_bytes is %llu: at most %lld", (unsigned long long)options->memory_bytes,
                         (long long)INT64_MAX);
    if (scheduler->listen != NULL && strlen(scheduler->listen) >= MR_PS_ADDRESS_MAX)
        return error_set(MR_INVALID, "listen is '%.80s': an address has at most %d bytes", scheduler->listen,
                         MR_PS_ADDRESS_MAX - 1);
    return MR_OK;
}

/* ---- The folder. */

typedef struct home {        /* of the node that the program has joined */
    char folder[FOLDER_MAX]; /* session directory */
    int64_t pid;
} home;

static mr_status read_home(const mr_value *answer, home *out) {
    mr_value nodes, node, folder, pid;
    mr_span text;
    MR_TRY(mr_value_field(answer, "nodes", &nodes));
    MR_TRY(mr_value_item(&nodes, 0, &node));
    MR_TRY(mr_value_field(&node, "folder", &folder));
    MR_TRY(mr_value_field(&node, "pid", &pid));
    MR_TRY(mr_value_str(&folder, &text));
    MR_TRY(mr_value_int(&pid, &out->pid));
    if (text.size == 0 || text.size >= FOLDER_MAX)
        return error_set(MR_INVALID, "the session directory's path has %zu bytes", text.size);
    memcpy(out->folder, text.data, text.size);
    out->folder[text.size] = '\0';
    return MR_OK;
}

static mr_status find_home(mr_context *mr, home *out) {
    mr_inspect *inspect;
    mr_value answer;
    MR_TRY(mr_inspect_within(mr, &inspect));
    mr_status status = mr_inspect_ask(inspect, "nodes", NULL, 1, &answer);
    if (status == MR_OK) {
        status = read_home(&answer, out);
        mr_value_release(&answer);
    }
    mr_inspect_close(inspect);
    return status;
}

static mr_status find_place(mr_context *mr, socket_dir *out) {
    home home;
    MR_TRY(find_home(mr, &home));
    MR_TRY(socket_dir_open(home.folder, SUPERVISOR_DIR_PREFIX, out));
    mr_status status = supervisor_write(out->path, (pid_t)home.pid, "the node");
    if (status != MR_OK) socket_dir_close(out);
    return status;
}

/* ---- The actors. */

static void name_actor(const mr_ps_deployment *deployment, const char *role, char out[NAME_MAX_BYTES]) {
    snprintf(out, NAME_MAX_BYTES, "%s/%s", strrchr(deployment->dir.path, '/') + 1, role);
}

/* The absolute path of a folder: workers have another working directory. */
static mr_status name_folder(const mr_ps_deployment *deployment, const char *given, char out[PATH_MAX]) {
    char here[PATH_MAX] = "";
    if (given != NULL && given[0] != '/' && getcwd(here, sizeof here) == NULL)
        return error_errno("cannot make '%.60s' absolute: no working directory", given);
    const char *before = given == NULL ? deployment->dir.path : here, *after = given == NULL ? "state" : given;
    int size = snprintf(out, PATH_MAX, "%s%s%s", before, before[0] == '\0' ? "" : "/", after);
    if (size < 0 || size >= PATH_MAX) return error_set(MR_INVALID, "the path of '%.60s' is too long", after);
    return MR_OK;
}

static int restarts_of(int wanted) { return wanted == 0 ? MR_NO_LIMIT : wanted < 0 ? 0 : wanted; }

static mr_status add_scheduler(mr_context *mr, mr_ps_deployment *deployment, const mr_ps_scheduler_options *given) {
    char folder[PATH_MAX], name[NAME_MAX_BYTES];
    mr_arg args[PS_ACTOR_SCHEDULER_ARGS];
    mr_ps_scheduler_options options = *given;
    MR_TRY(name_folder(deployment, given->checkpoint_dir, folder));
    options.checkpoint_dir = folder;
    if (given->checkpoint_dir == NULL) options.final_checkpoint_us = -1; /* the folder is removed at the end */
    options.listen = deployment->address;
    name_actor(deployment, "scheduler", name);
    ps_actor_scheduler_args("ps-scheduler", &options, args);
    MR_TRY(mr_actor_create(mr, PS_ACTOR_SCHEDULER,
                           &MR_OPTIONS(mr_actor_options, .name = name, .max_restarts = MR_NO_LIMIT, .native = 1), args,
                           PS_ACTOR_SCHEDULER_ARGS, &deployment->scheduler));
    deployment->has_scheduler = true;
    return MR_OK;
}

static mr_status add_server(mr_context *mr, mr_ps_deployment *deployment, const mr_ps_start_options *options) {
    char role[PS_ACTOR_NAME_MAX], process[PS_ACTOR_NAME_MAX], name[NAME_MAX_BYTES];
    mr_arg args[PS_ACTOR_SERVER_ARGS];
    uint32_t number = deployment->count;
    mr_ps_server_options server =
        MR_OPTIONS(mr_ps_server_options, .scheduler = deployment->address, .number = 1 + number,
                   .allow_remote = options->scheduler->allow_remote, .memory_bytes = options->memory_bytes);
    mr_actor_options wanted = *options->server;
    wanted.name = name;
    wanted.native = 1;
    wanted.max_restarts = restarts_of(options->server->max_restarts);
    snprintf(role, sizeof role, "server-%u", number);
    snprintf(process, sizeof process, "ps-server-%u", number);
    name_actor(deployment, role, name);
    ps_actor_server_args(process, &server, args);
    MR_TRY(mr_actor_create(mr, PS_ACTOR_SERVER, &wanted, args, PS_ACTOR_SERVER_ARGS, &deployment->servers[number]));
    deployment->count++;
    return MR_OK;
}

/* Calls a method without arguments and waits for the result, which the caller releases. */
static mr_status ask(mr_context *mr, mr_actor actor, const char *method, int64_t timeout_us, mr_value *out) {
    mr_ref ref;
    MR_TRY(mr_actor_submit(mr, actor, method, &MR_OPTIONS(mr_call_options, .max_retries = RETRIES), NULL, 0, &ref));
    mr_status status = mr_get(mr, ref, timeout_us, out);
    ps_actor_refusal why;
    size_t size = 0;
    if (status == MR_TASK_FAILED && mr_failure_detail(mr, ref, &why, sizeof why, &size) == MR_OK &&
        size == sizeof why) {
        why.why[sizeof why.why - 1] = '\0';
        status = error_set((mr_status)why.status, "%s", why.why);
    }
    mr_release(mr, ref);
    return status;
}

/* Waits until the scheduler listens, and stores its address: with a free port (tcp:…:0) it is not known before. */
static mr_status await_scheduler(mr_context *mr, mr_ps_deployment *deployment, int64_t timeout_us) {
    mr_value value;
    mr_span text;
    MR_TRY(ask(mr, deployment->scheduler, "address", timeout_us, &value));
    mr_status status = mr_value_str(&value, &text);
    if (status == MR_OK)
        snprintf(deployment->address, sizeof deployment->address, "%.*s", (int)text.size, (const char *)text.data);
    mr_value_release(&value);
    return status;
}

/* ---- Start and stop. */

static mr_status begin(mr_context *mr, mr_ps_deployment *deployment, const mr_ps_start_options *options,
                       int64_t timeout_us) {
    if (options->scheduler->listen != NULL)
        snprintf(deployment->address, sizeof deployment->address, "%s", options->scheduler->listen);
    else
        snprintf(deployment->address, sizeof deployment->address, "unix:%s/s", deployment->dir.path);
    MR_TRY(add_scheduler(mr, deployment, options->scheduler));
    MR_TRY(await_scheduler(mr, deployment, timeout_us));
    for (uint32_t i = 0; i < options->scheduler->num_servers; i++) MR_TRY(add_server(mr, deployment, options));
    return MR_OK;
}

mr_status mr_ps_start(mr_context *mr, const mr_ps_start_options *options, int64_t timeout_us, mr_ps_deployment **out) {
    static const mr_actor_options usual = MR_INIT(mr_actor_options);
    mr_ps_start_options copy;
    mr_ps_scheduler_options scheduler_copy;
    mr_actor_options server_copy;
    if (mr == NULL || options == NULL || out == NULL)
        return error_set(MR_INVALID, "mr_ps_start: mr, options or out is NULL");
    OPTION_STRUCT_READ(mr_ps_start_options, server, options, copy);
    const mr_ps_scheduler_options *scheduler = options->scheduler;
    const mr_actor_options *server = options->server;
    if (scheduler == NULL)
        return error_set(MR_INVALID, "mr_ps_start: options->scheduler is NULL; it needs num_servers and num_workers");
    OPTION_STRUCT_READ(mr_ps_scheduler_options, backup_workers, scheduler, scheduler_copy);
    OPTION_STRUCT_READ(mr_actor_options, about, server, server_copy);
    MR_TRY(check(options, scheduler));
    if (server != NULL) MR_TRY(check_server(server));
    copy = MR_OPTIONS(mr_ps_start_options, .scheduler = scheduler, .memory_bytes = options->memory_bytes,
                      .server = server == NULL ? &usual : server);
    mr_ps_deployment *deployment;
    MR_TRY(alloc_try(sizeof *deployment + scheduler->num_servers * sizeof(mr_actor), &deployment));
    mr_status status = find_place(mr, &deployment->dir);
    if (status == MR_OK) status = begin(mr, deployment, &copy, timeout_us);
    if (status == MR_OK) {
        *out = deployment;
        return MR_OK;
    }
    char why[ERROR_TEXT_MAX];
    snprintf(why, sizeof why, "%s", mr_last_error());
    mr_ps_stop(mr, deployment);
    return error_set(status, "%s", why);
}

const char *mr_ps_address(const mr_ps_deployment *deployment) { return deployment == NULL ? "" : deployment->address; }

mr_status mr_ps_pid(mr_context *mr, const mr_ps_deployment *deployment, int server, int64_t timeout_us, int *out) {
    if (server != MR_PS_THE_SCHEDULER && (server < 0 || (uint32_t)server >= deployment->count))
        return error_set(MR_NOT_FOUND, "no server %d: servers are 0 to %u", server, deployment->count - 1);
    mr_actor actor = server == MR_PS_THE_SCHEDULER ? deployment->scheduler : deployment->servers[server];
    mr_value value;
    int64_t pid;
    MR_TRY(ask(mr, actor, "pid", timeout_us, &value));
    mr_status status = mr_value_int(&value, &pid);
    mr_value_release(&value);
    if (status == MR_OK) *out = (int)pid;
    return status;
}

static void end_actor(mr_context *mr, mr_actor actor) {
    if (mr_actor_kill(mr, actor) != MR_OK) error_clear(); /* the actor is dead already */
    mr_actor_release(mr, actor);
}

/* The scheduler ends first, so that the ends of the servers do not change its saved state. */
static void end_actors(mr_context *mr, const mr_ps_deployment *deployment) {
    mr_value nothing;
    if (deployment->has_scheduler && ask(mr, deployment->scheduler, "stop", END_US, &nothing) == MR_OK)
        mr_value_release(&nothing);
    error_clear();
    for (uint32_t i = 0; i < deployment->count; i++) end_actor(mr, deployment->servers[i]);
    if (deployment->has_scheduler) end_actor(mr, deployment->scheduler);
}

void mr_ps_stop(mr_context *mr, mr_ps_deployment *deployment) {
    if (deployment == NULL) return;
    if (mr != NULL) end_actors(mr, deployment);
    socket_dir_close(&deployment->dir);
    free(deployment);
}
