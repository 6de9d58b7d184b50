/* api_use.c — a program that is C11, C17, C23, C++11 and C++17 (tools/check-headers compiles it as each of them, the
 * install test runs it as C and C++): all public headers in one file, the macros, and the option structs. */
#include <miniray/admin.h>
#include <miniray/deployment.h>
#include <miniray/model.h>
#include <miniray/placement.h>
#include <miniray/ps.h>
#include <miniray/runtime.h>
#include <miniray/status.h>
#include <miniray/train.h>
#include <miniray/value.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

MR_TASK(add) {
    int64_t sum = 0, one = 0;
    for (size_t i = 0; i < mr_arg_count(call); i++, sum += one) MR_TRY(mr_arg_int(call, i, &one));
    return mr_return(call, mr_int(sum));
}

typedef struct counter {
    int64_t value;
} counter;

MR_CREATE(Counter) {
    counter *self = (counter *)calloc(1, sizeof *self);
    if (self == NULL) return mr_fail(call, "no memory for a %s", mr_call_name(call));
    if (mr_arg_count(call) > 0) MR_TRY(mr_arg_int(call, 0, &self->value));
    return mr_set_self(call, self, free);
}

MR_METHOD(Counter, next) {
    counter *self = (counter *)mr_self(call);
    int64_t step = 1;
    if (mr_arg_count(call) > 0) MR_TRY(mr_arg_int(call, 0, &step));
    return mr_return(call, mr_int(self->value += step));
}

static int expect(mr_context *mr, mr_ref ref, int64_t expected) {
    mr_value value;
    int64_t found = -1;
    if (mr_get(mr, ref, MR_FOREVER, &value) != MR_OK || mr_value_int(&value, &found) != MR_OK || found != expected) {
        fprintf(stderr, "%d, not %d: %s\n", (int)found, (int)expected, mr_last_error());
        return 1;
    }
    mr_value_release(&value);
    mr_release(mr, ref);
    return 0;
}

static mr_status call_all(mr_context *mr, int *failed) {
    mr_ref ref;
    mr_actor counter, named, found;
    mr_batch *batch;
    mr_task_options task = MR_INIT(mr_task_options);
    mr_actor_options actor = MR_INIT(mr_actor_options);
    mr_call_options again = MR_INIT(mr_call_options);
    task.max_retries = -1;
    actor.name = "named";
    again.max_retries = -1;
    MR_TRY(mr_call_task(mr, "add", &ref));
    *failed += expect(mr, ref, 0);
    MR_TRY(mr_call_task(mr, "add", &ref, mr_int(1)));
    *failed += expect(mr, ref, 1);
    MR_TRY(mr_call_task(mr, "add", &ref, mr_int(1), mr_int(2), mr_int(3)));
    *failed += expect(mr, ref, 6);
    MR_TRY(mr_call_task(mr, "add", NULL, mr_int(1)));
    MR_TRY(mr_task_submit(mr, "add", &task, MR_ARGS(mr_int(4), mr_int(5)), &ref));
    *failed += expect(mr, ref, 9);
    MR_TRY(mr_task_submit(mr, "add", &task, MR_ARGS(), &ref));
    *failed += expect(mr, ref, 0);
    MR_TRY(mr_new_actor(mr, "Counter", &counter));
    MR_TRY(mr_call_actor(mr, counter, "next", &ref));
    *failed += expect(mr, ref, 1);
    MR_TRY(mr_call_actor(mr, counter, "next", &ref, mr_int(10)));
    *failed += expect(mr, ref, 11);
    MR_TRY(mr_actor_create(mr, "Counter", &actor, MR_ARGS(mr_int(100)), &named));
    MR_TRY(mr_actor_find(mr, "named", NULL, &found));
    MR_TRY(mr_actor_submit(mr, found, "next", &again, MR_ARGS(), &ref));
    *failed += expect(mr, ref, 101);
    MR_TRY(mr_batch_open(mr, &batch));
    MR_TRY(mr_batch_task(batch, "add", NULL, MR_ARGS(mr_int(20), mr_int(22)), &ref));
    MR_TRY(mr_batch_submit(batch));
    *failed += expect(mr, ref, 42);
    mr_actor_release(mr, counter);
    mr_actor_release(mr, named);
    mr_actor_release(mr, found);
    return MR_OK;
}

#define CHECK_INIT(type)                                                 \
    do {                                                                 \
        type options = MR_INIT(type);                                    \
        if (options.size != sizeof options) fprintf(stderr, #type "\n"); \
        *failed += options.size != sizeof options;                       \
    } while (0)

static void init_all(int *failed) {
    CHECK_INIT(mr_options);
    CHECK_INIT(mr_task_options);
    CHECK_INIT(mr_actor_options);
    CHECK_INIT(mr_call_options);
    CHECK_INIT(mr_placement_group_options);
    CHECK_INIT(mr_sync_strategy);
    CHECK_INIT(mr_sync_options);
    CHECK_INIT(mr_trainer_ops);
    CHECK_INIT(mr_trainer_options);
    CHECK_INIT(mr_ps_table_options);
    CHECK_INIT(mr_ps_request_options);
    CHECK_INIT(mr_node_options);
    CHECK_INIT(mr_ps_scheduler_options);
    CHECK_INIT(mr_ps_server_options);
    CHECK_INIT(mr_ps_start_options);
}

/* Checks that invalid options are refused with an error that names the field and its value. */
static void refuse(mr_status status, const char *told, int *failed) {
    bool refused = status == MR_INVALID && strstr(mr_last_error(), told) != NULL;
    if (!refused) fprintf(stderr, "%s: %s, not %s\n", mr_status_name(status), mr_last_error(), told);
    *failed += !refused;
}

static void refuse_all(mr_context *mr, int *failed) {
    mr_ref ref;
    mr_actor created;
    mr_task_options task = MR_INIT(mr_task_options);
    mr_actor_options actor = MR_INIT(mr_actor_options);
    mr_call_options again = MR_INIT(mr_call_options);
    task.size = 0;
    refuse(mr_task_submit(mr, "add", &task, MR_ARGS(), &ref), "mr_task_options.size is 0", failed);
    task.size = sizeof task;
    task.num_gpus = -1;
    refuse(mr_task_submit(mr, "add", &task, MR_ARGS(), &ref), "num_gpus is -1", failed);
    task.num_gpus = 0;
    task.errors_as_values = 3;
    refuse(mr_task_submit(mr, "add", &task, MR_ARGS(), &ref), "errors_as_values is 3", failed);
    actor.max_restarts = -1;
    refuse(mr_actor_create(mr, "Counter", &actor, MR_ARGS(), &created), "max_restarts is -1", failed);
    actor.max_restarts = 0;
    actor.resources = "much";
    refuse(mr_actor_create(mr, "Counter", &actor, MR_ARGS(), &created), "resources is \"much\"", failed);
    actor.resources = NULL;
    again.num_returns = -1;
    if (mr_actor_create(mr, "Counter", &actor, MR_ARGS(), &created) != MR_OK) return;
    refuse(mr_actor_submit(mr, created, "next", &again, MR_ARGS(), &ref), "num_returns is -1", failed);
    mr_actor_release(mr, created);
}

#ifndef __cplusplus
static mr_status call_with_options(mr_context *mr, int *failed) {
    mr_ref ref;
    MR_TRY(mr_task_submit(mr, "add", &MR_OPTIONS(mr_task_options, .num_cpus = 0.5, .max_retries = 1),
                          MR_ARGS(mr_int(7)), &ref));
    *failed += expect(mr, ref, 7);
    return MR_OK;
}
#endif

int main(void) {
    mr_context *mr;
    mr_options options = MR_INIT(mr_options);
    int failed = 0;
    options.num_workers = 2;
    mr_status status = mr_init(&options, &mr);
    if (status == MR_OK) status = call_all(mr, &failed);
#ifndef __cplusplus
    if (status == MR_OK) status = call_with_options(mr, &failed);
#endif
    if (status != MR_OK) {
        fprintf(stderr, "%s: %s\n", mr_status_name(status), mr_last_error());
        return 1;
    }
    init_all(&failed);
    refuse_all(mr, &failed);
    mr_shutdown(mr);
    return failed == 0 ? 0 : 1;
}
