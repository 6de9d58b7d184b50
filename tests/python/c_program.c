/* c_program.c — a C driver beside Python drivers, for test_cluster.py: calls an actor of theirs, or has one that they
 * call.
 *
 *     c-program call    finds the actor "python's" and calls it with plain data
 *     c-program serve   starts the actor "c's", and ends with its input */
#include <miniray/runtime.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

MR_CREATE(Counter) {
    int64_t *self = calloc(1, sizeof *self);
    if (self != NULL && mr_arg_count(call) > 0) MR_TRY(mr_arg_int(call, 0, self));
    return mr_set_self(call, self, free);
}
MR_METHOD(Counter, add) {
    int64_t step;
    MR_TRY(mr_arg_int(call, 0, &step));
    return mr_return(call, mr_int(*(int64_t *)mr_self(call) += step));
}
MR_METHOD(Counter, total) { /* sum of a float32 tensor */
    mr_tensor tensor;
    MR_TRY(mr_arg_tensor(call, 0, &tensor));
    if (tensor.dtype != MR_F32) return mr_fail(call, "float32 is wanted, not %s", mr_dtype_name(tensor.dtype));
    double total = 0;
    for (size_t i = 0; i < tensor.bytes / sizeof(float); i++) total += ((const float *)tensor.data)[i];
    return mr_return(call, mr_float(total));
}
MR_METHOD(Counter, echo) {
    mr_value value;
    MR_TRY(mr_arg_value(call, 0, &value));
    return mr_return(call, mr_value_arg(&value));
}

static int failed(const char *what) {
    fprintf(stderr, "%s: %s\n", what, mr_last_error());
    return 1;
}

static int call_python(mr_context *mr) {
    mr_actor actor;
    mr_ref sum, tensor, wrong;
    mr_value value;
    int64_t number;
    mr_tensor got;
    float data[] = {1, 2, 3, 4};
    if (mr_actor_find(mr, "python's", NULL, &actor) != MR_OK) return failed("find");
    if (mr_call_actor(mr, actor, "add", &sum, mr_int(2), mr_int(40)) != MR_OK) return failed("add");
    if (mr_get(mr, sum, MR_FOREVER, &value) != MR_OK || mr_value_int(&value, &number) != MR_OK) return failed("sum");
    printf("%lld\n", (long long)number);
    if (mr_call_actor(mr, actor, "double", &tensor, mr_vector(data, 4)) != MR_OK) return failed("double");
    if (mr_get(mr, tensor, MR_FOREVER, &value) != MR_OK || mr_value_tensor(&value, &got) != MR_OK)
        return failed("tensor");
    printf("%s %d %g\n", mr_dtype_name(got.dtype), got.dims, (double)((const float *)got.data)[3]);
    if (mr_call_actor(mr, actor, "fail", &wrong) != MR_OK) return failed("fail");
    printf("%s\n", mr_status_name(mr_get(mr, wrong, MR_FOREVER, &value)));
    printf("%s\n", strstr(mr_last_error(), "ValueError: on purpose") != NULL ? "told" : mr_last_error());
    return 0;
}

static int serve_python(mr_context *mr) {
    mr_actor actor;
    mr_actor_options options = MR_OPTIONS(mr_actor_options, .name = "c's");
    if (mr_actor_create(mr, "Counter", &options, MR_ARGS(mr_int(100)), &actor) != MR_OK) return failed("create");
    puts("ready");
    fflush(stdout);
    while (getchar() != EOF) {}
    return 0;
}

int main(int count, char **arguments) {
    mr_context *mr;
    if (mr_init(&MR_OPTIONS(mr_options, .name_space = "shared"), &mr) != MR_OK) return failed("init");
    int code = count > 1 && strcmp(arguments[1], "serve") == 0 ? serve_python(mr) : call_python(mr);
    mr_shutdown(mr);
    return code;
}
