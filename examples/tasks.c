/* tasks.c — a driver that runs its functions in other processes: squares, and their sum as a tree of futures. */
#include <miniray/runtime.h>
#include <stdio.h>

enum { COUNT = 16 };

MR_TASK(square) {
    int64_t x;
    MR_TRY(mr_arg_int(call, 0, &x));
    return mr_return(call, mr_int(x * x));
}

MR_TASK(add) {
    int64_t a, b;
    MR_TRY(mr_arg_int(call, 0, &a));
    MR_TRY(mr_arg_int(call, 1, &b));
    return mr_return(call, mr_int(a + b));
}

MR_TASK(divide) {
    int64_t a, b;
    MR_TRY(mr_arg_int(call, 0, &a));
    MR_TRY(mr_arg_int(call, 1, &b));
    if (b == 0) return mr_fail(call, "%lld cannot be divided by zero", (long long)a);
    return mr_return(call, mr_int(a / b));
}

static mr_status run(mr_context *mr) {
    mr_ref refs[COUNT], broken;
    mr_value value;
    int64_t sum;

    for (int i = 0; i < COUNT; i++) MR_TRY(mr_call_task(mr, "square", &refs[i], mr_int(i)));
    for (int width = COUNT / 2; width > 0; width /= 2) /* futures are arguments, so this loop does not wait */
        for (int i = 0; i < width; i++) {
            mr_ref pair;
            MR_TRY(mr_call_task(mr, "add", &pair, mr_future(refs[2 * i]), mr_future(refs[2 * i + 1])));
            mr_release(mr, refs[2 * i]);
            mr_release(mr, refs[2 * i + 1]);
            refs[i] = pair;
        }
    MR_TRY(mr_get(mr, refs[0], MR_FOREVER, &value));
    MR_TRY(mr_value_int(&value, &sum));
    printf("the sum of the first %d squares is %lld\n", COUNT, (long long)sum);
    mr_value_release(&value);
    mr_release(mr, refs[0]);

    MR_TRY(mr_call_task(mr, "divide", &broken, mr_int(1), mr_int(0)));
    if (mr_get(mr, broken, MR_FOREVER, &value) == MR_TASK_FAILED) /* a failed task gives its error as the result */
        printf("as it should be: %s\n", mr_last_error());
    mr_release(mr, broken);
    return MR_OK;
}

int main(void) {
    mr_context *mr;
    if (mr_init(NULL, &mr) != MR_OK) return fprintf(stderr, "%s\n", mr_last_error()), 1;
    mr_status status = run(mr);
    if (status != MR_OK) fprintf(stderr, "%s\n", mr_last_error());
    mr_shutdown(mr);
    return status != MR_OK;
}
