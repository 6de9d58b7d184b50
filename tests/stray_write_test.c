/* stray_write_test.c — a process that writes into an object of another process by its address in shared memory ends
 * with SIGSEGV, and the object keeps its bytes (docs/decisions/034-stray-writes.md). */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "runtime/process/context.h"
#include "tests/support/future_assert.h"
#include "tests/support/runtime_main.h"

enum { MIDDLE = 100 * 1024, LARGE = 4 << 20 };

/* The bytes in the mapping that all processes share, as opposed to the private one that a view shows. */
static uint8_t *shared_place(mr_context *context, const void *shown) {
    uint64_t offset;
    context_lock(context);
    const arena *arena = store_provider_locate(&context->worker.provider, shown, &offset);
    context_unlock(context);
    return arena == NULL ? NULL : arena_at(arena, offset);
}

/* Reads the tensor, writes into its view, and if `stray` into the shared bytes. */
MR_TASK(write_into) {
    mr_tensor tensor;
    int64_t stray;
    MR_TRY(mr_arg_tensor(call, 0, &tensor));
    MR_TRY(mr_arg_int(call, 1, &stray));
    uint8_t *view = (uint8_t *)(uintptr_t)tensor.data;
    uint8_t *shared = shared_place(mr_call_context(call), view);
    if (shared == NULL) return mr_fail(call, "the argument is not in shared memory");
    signal(SIGSEGV, SIG_DFL);
    view[tensor.bytes / 2] = 'v';
    if (stray != 0) shared[tensor.bytes / 2] = 's';
    return mr_return(call, mr_int(shared[tensor.bytes / 2]));
}

static void check(int64_t bytes) {
    uint8_t *data = malloc((size_t)bytes), *seen = malloc((size_t)bytes);
    memset(data, 'a', (size_t)bytes);
    mr_ref object, ref;
    mr_value value;
    mr_tensor tensor;
    assert_int_equal(mr_put(mr, mr_tensor_of(MR_U8, data, 1, &bytes), &object), MR_OK);
    assert_int_equal(mr_call_task(mr, "write_into", &ref, mr_future(object), mr_int(0)), MR_OK);
    assert_int_equal(future_assert_int(mr, ref), 'a'); /* the view is a copy */
    const mr_arg args[] = {mr_future(object), mr_int(1)};
    assert_int_equal(mr_task_submit(mr, "write_into", &MR_OPTIONS(mr_task_options, .max_retries = -1), args, 2, &ref),
                     MR_OK);
    assert_int_equal(future_assert_failure(mr, ref), MR_WORKER_DIED);
    assert_non_null(strstr(mr_last_error(), "SIGSEGV"));
    assert_int_equal(mr_get(mr, object, MR_FOREVER, &value), MR_OK);
    assert_int_equal(mr_value_tensor(&value, &tensor), MR_OK);
    assert_int_equal(mr_read_sealed(mr, tensor.data, (size_t)bytes, seen), MR_OK);
    assert_memory_equal(seen, data, (size_t)bytes);
    mr_value_release(&value);
    mr_release(mr, object);
    free(data);
    free(seen);
}

static void a_stray_write_ends_the_writer_and_changes_nothing(void **state) {
    check(MIDDLE);
    check(LARGE); /* in an extent of its own */
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_stray_write_ends_the_writer_and_changes_nothing)};
    return runtime_main(tests);
}
