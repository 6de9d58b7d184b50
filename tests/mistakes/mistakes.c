/* mistakes.c — typical mistakes of programs in C, for tests/mistakes_test.py: prints each call, a tab, and its status
 * and message. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "miniray/admin.h"
#include "miniray/deployment.h"
#include "miniray/model.h"
#include "miniray/placement.h"
#include "miniray/ps.h"
#include "miniray/runtime.h"
#include "miniray/train.h"

enum { SHORT_US = 300 * 1000, PATIENCE_US = 20 * 1000 * 1000 };

#define BEGAN "MISTAKES_BEGAN"

/* Prints a call that fails, and why. */
#define MISTAKE(...) show(#__VA_ARGS__, __VA_ARGS__)

static void show(const char *call, mr_status status) {
    printf("%s\t%s: %s\n", call, mr_status_name(status), status == MR_OK ? "(no message)" : mr_last_error());
}

MR_TASK(one) { return mr_return(call, mr_int(1)); }

MR_TASK(twice) {
    int64_t number;
    MR_TRY(mr_arg_int(call, 0, &number));
    return mr_return(call, mr_int(2 * number));
}

MR_CREATE(Thing) { return MR_OK; }
MR_METHOD(Thing, get) { return mr_return(call, mr_int(1)); }

/* ---- Without a runtime. */

static void before_init(void) {
    mr_context *mr = NULL;
    mr_ref ref;
    MISTAKE(mr_init(NULL, NULL));
    MISTAKE(mr_init(&(mr_options){.num_workers = 2}, &mr));
    MISTAKE(mr_init(&MR_OPTIONS(mr_options, .num_workers = -1), &mr));
    MISTAKE(mr_init(&MR_OPTIONS(mr_options, .resources = "licence"), &mr));
    MISTAKE(mr_init(&MR_OPTIONS(mr_options, .address = "/proc/nothing/socket"), &mr));
    MISTAKE(mr_call_task(mr, "one", &ref));
}

/* ---- Tasks and actors. */

static void tasks(mr_context *mr) {
    mr_ref ref = {{0}};
    mr_value value;
    MISTAKE(mr_call_task(mr, "on", &ref));
    MISTAKE(mr_call_task(mr, NULL, &ref));
    MISTAKE(mr_task_submit(mr, "one", &(mr_task_options){.num_cpus = 1}, NULL, 0, &ref));
    MISTAKE(mr_task_submit(mr, "one", &MR_OPTIONS(mr_task_options, .resources = "a b"), NULL, 0, &ref));
    MISTAKE(mr_task_submit(mr, "one", &MR_OPTIONS(mr_task_options, .num_returns = 1 << 20), NULL, 0, &ref));
    MISTAKE(mr_task_submit(mr, "one", NULL, NULL, 2, &ref));
    MISTAKE(mr_task_submit(mr, "one", &MR_OPTIONS(mr_task_options, .num_gpus = -1), NULL, 0, &ref));
    MISTAKE(mr_task_submit(mr, "one", &MR_OPTIONS(mr_task_options, .resources = "CPU=2"), NULL, 0, &ref));
    MISTAKE(mr_task_submit(mr, "one", &MR_OPTIONS(mr_task_options, .stream_ahead = 5000), NULL, 0, &ref));
    MISTAKE(mr_task_submit(mr, "one", &MR_OPTIONS(mr_task_options, .errors_as_values = 7), NULL, 0, &ref));
    MISTAKE(mr_task_submit(mr, "one", &MR_OPTIONS(mr_task_options, .bundle = -1), NULL, 0, &ref));
    if (mr_call_task(mr, "twice", &ref) == MR_OK) MISTAKE(mr_get(mr, ref, PATIENCE_US, &value));
    if (mr_call_task(mr, "twice", &ref, mr_str("two")) == MR_OK) MISTAKE(mr_get(mr, ref, PATIENCE_US, &value));
    mr_release(mr, ref);
    MISTAKE(mr_get(mr, ref, PATIENCE_US, &value));
    MISTAKE(mr_get(mr, (mr_ref){{0}}, PATIENCE_US, &value));
    MISTAKE(mr_wait_all(mr, NULL, 2, PATIENCE_US, NULL));
}

static void actors(mr_context *mr) {
    mr_ref ref = {{0}};
    mr_value value;
    mr_actor actor = {{0}}, other;
    MISTAKE(mr_new_actor(mr, "Thng", &actor));
    MISTAKE(mr_actor_create(mr, "Thing", &(mr_actor_options){.name = "it"}, NULL, 0, &actor));
    MISTAKE(mr_actor_create(mr, "Thing", &MR_OPTIONS(mr_actor_options, .max_concurrency = 5000), NULL, 0, &actor));
    if (mr_actor_create(mr, "Thing", &MR_OPTIONS(mr_actor_options, .name = "thing"), NULL, 0, &actor) != MR_OK) return;
    MISTAKE(mr_actor_create(mr, "Thing", &MR_OPTIONS(mr_actor_options, .name = "thing"), NULL, 0, &other));
    MISTAKE(mr_actor_find(mr, "thng", NULL, &other));
    MISTAKE(mr_actor_find(mr, "", NULL, &other));
    MISTAKE(mr_actor_create(mr, "Thing", &MR_OPTIONS(mr_actor_options, .max_restarts = -5, .num_gpus = 1.5), NULL, 0,
                            &other));
    if (mr_call_actor(mr, actor, "gett", &ref) == MR_OK) MISTAKE(mr_get(mr, ref, PATIENCE_US, &value));
    if (mr_call_actor(mr, (mr_actor){{0}}, "get", &ref) == MR_OK) MISTAKE(mr_get(mr, ref, PATIENCE_US, &value));
    MISTAKE(mr_actor_kill(mr, (mr_actor){{0}}));
    /* The error of the call before is that of a running call, or of one that has not begun. */
    if (mr_actor_kill(mr, actor) != MR_OK || mr_call_actor(mr, actor, "get", &ref) != MR_OK) return;
    if (mr_get(mr, ref, PATIENCE_US, &value) == MR_OK) return;
    if (mr_call_actor(mr, actor, "get", &ref) == MR_OK) MISTAKE(mr_get(mr, ref, PATIENCE_US, &value));
}

static void groups(mr_context *mr) {
    const char *bundles[] = {"cpu"}, *large[] = {"cpu=100"};
    mr_placement_group group;
    MISTAKE(mr_placement_group_create(mr, &MR_OPTIONS(mr_placement_group_options, .count = 1), &group));
    MISTAKE(
        mr_placement_group_create(mr, &MR_OPTIONS(mr_placement_group_options, .bundles = bundles, .count = 1), &group));
    if (mr_placement_group_create(mr, &MR_OPTIONS(mr_placement_group_options, .bundles = large, .count = 1), &group) ==
        MR_OK)
        MISTAKE(mr_placement_group_wait(mr, group, SHORT_US));
}

/* ---- Training and the parameter servers. */

static void training(mr_context *mr) {
    mr_trainer *trainer = NULL;
    mr_actor server;
    mr_metric_logger *logger;
    int64_t indices[1];
    MISTAKE(mr_trainer_create(mr, &MR_OPTIONS(mr_trainer_options, .worker_class = "Thing"), &trainer));
    MISTAKE(mr_trainer_create(mr, &MR_OPTIONS(mr_trainer_options, .num_workers = 1), &trainer));
    MISTAKE(mr_model_server_create(mr, &MR_OPTIONS(mr_sync_strategy, .name = "avarage"), NULL, &server));
    MISTAKE(
        mr_model_server_create(mr, &MR_OPTIONS(mr_sync_strategy, .name = "trimmed_mean", .trim = 0.5), NULL, &server));
    if (mr_model_server_create(mr, NULL, NULL, &server) == MR_OK)
        MISTAKE(mr_model_sync(mr, server, NULL, 0, NULL, NULL));
    MISTAKE(mr_trainer_create(
        mr, &MR_OPTIONS(mr_trainer_options, .num_workers = 1, .ops = &MR_OPTIONS(mr_trainer_ops, .create = NULL)),
        &trainer));
    MISTAKE(mr_shard_indices(10, 3, 3, 0, indices));
    MISTAKE(mr_metric_logger_open("cvs", "loss.csv", &logger));
    MISTAKE(mr_metric_logger_open("csv", "/proc/nothing/loss.csv", &logger));
}

static void parameter_server(mr_context *mr) {
    mr_ps *ps = NULL;
    mr_ps_deployment *deployment = NULL;
    mr_ps_table *table = NULL;
    mr_ps_scheduler_options scheduler = MR_OPTIONS(mr_ps_scheduler_options, .num_workers = 1, .num_servers = 1);
    mr_ps_start_options options = MR_OPTIONS(mr_ps_start_options, .scheduler = &scheduler);
    const uint64_t keys[] = {2, 1};
    const float rows[4] = {0};
    MISTAKE(mr_ps_start(mr, &MR_OPTIONS(mr_ps_start_options, .memory_bytes = 1 << 20), PATIENCE_US, &deployment));
    MISTAKE(
        mr_ps_start(mr,
                    &MR_OPTIONS(mr_ps_start_options, .scheduler = &MR_OPTIONS(mr_ps_scheduler_options, .num_workers = 1,
                                                                              .num_servers = 1, .replicas = 3)),
                    PATIENCE_US, &deployment));
    MISTAKE(mr_ps_connect("nowhere", 0, SHORT_US, &ps));
    MISTAKE(mr_ps_run_server(&MR_OPTIONS(mr_ps_server_options, .scheduler = "tcp:localhost")));
    if (mr_ps_start(mr, &options, PATIENCE_US, &deployment) != MR_OK) return;
    MISTAKE(mr_ps_connect(mr_ps_address(deployment), 5, PATIENCE_US, &ps));
    MISTAKE(mr_ps_connect(mr_ps_address(deployment), MR_PS_READER, PATIENCE_US, &ps));
    if (mr_ps_connect(mr_ps_address(deployment), 0, PATIENCE_US, &ps) != MR_OK) return;
    MISTAKE(mr_ps_end(ps));
    MISTAKE(mr_ps_table_open(ps, "words", PATIENCE_US, &table));
    MISTAKE(mr_ps_table_create(ps, "words", &(mr_ps_table_options){.dim = 2}, PATIENCE_US, &table));
    MISTAKE(mr_ps_table_create(ps, "words", &MR_OPTIONS(mr_ps_table_options, .dim = 2, .optimizer = "adm"), PATIENCE_US,
                               &table));
    MISTAKE(
        mr_ps_table_create(ps, "words", &MR_OPTIONS(mr_ps_table_options, .kind = (mr_ps_kind)7), PATIENCE_US, &table));
    MISTAKE(mr_ps_table_create(ps, "words", &MR_OPTIONS(mr_ps_table_options, .dim = 2, .dtype = MR_U8), PATIENCE_US,
                               &table));
    MISTAKE(
        mr_ps_table_create(ps, "words", &MR_OPTIONS(mr_ps_table_options, .kind = MR_PS_DENSE), PATIENCE_US, &table));
    MISTAKE(
        mr_ps_table_create(ps, "words", &MR_OPTIONS(mr_ps_table_options, .dim = 2, .average = 1), PATIENCE_US, &table));
    MISTAKE(mr_ps_table_create(ps, "words", &MR_OPTIONS(mr_ps_table_options, .dim = 2, .precision = "half"),
                               PATIENCE_US, &table));
    MISTAKE(mr_ps_table_create(ps, NULL, &MR_OPTIONS(mr_ps_table_options, .dim = 2), PATIENCE_US, &table));
    if (mr_ps_table_create(ps, "words", &MR_OPTIONS(mr_ps_table_options, .dim = 2), PATIENCE_US, &table) != MR_OK)
        return;
    MISTAKE(mr_ps_table_create(ps, "words", &MR_OPTIONS(mr_ps_table_options, .dim = 3), PATIENCE_US, &table));
    MISTAKE(mr_ps_push(table, NULL, 2, rows, NULL, NULL, NULL));
    MISTAKE(mr_ps_push_range(table, 0, 2, rows, NULL, NULL));
    MISTAKE(mr_ps_barrier(ps, NULL, MR_PS_WORKERS, PATIENCE_US));
    MISTAKE(mr_ps_push(table, keys, 2, rows, NULL, NULL, NULL));
    MISTAKE(mr_ps_push_array(table, 0, rows, 0, 2, NULL, NULL));
    mr_ps_table_free(table);
    mr_ps_close(ps);
    mr_ps_stop(mr, deployment);
}

int main(void) {
    mr_context *mr = NULL;
    if (getenv(BEGAN) == NULL) before_init(); /* not in a worker, which is this program, too */
    setenv(BEGAN, "1", 1);
    if (mr_init(&MR_OPTIONS(mr_options, .num_workers = 2), &mr) != MR_OK) return 1;
    tasks(mr);
    actors(mr);
    groups(mr);
    training(mr);
    parameter_server(mr);
    mr_shutdown(mr);
    return 0;
}
