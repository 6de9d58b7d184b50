/* chaos_bodies.c — see chaos_bodies.h. */
#include "tests/support/chaos_bodies.h"
#include "tests/support/program_tasks.h"

#include <poll.h>
#include <stdbool.h>
#include <stdlib.h>

enum { CALLERS_MAX = 4096 };

MR_TASK(chaos_square) {
    int64_t number;
    MR_TRY(mr_arg_int(call, 0, &number));
    return mr_return(call, mr_int(number * number));
}

MR_TASK(chaos_linger) {
    int64_t number;
    MR_TRY(mr_arg_int(call, 0, &number));
    poll(NULL, 0, 10);
    return mr_return(call, mr_int(number));
}

MR_TASK(chaos_fail) {
    int64_t number;
    MR_TRY(mr_arg_int(call, 0, &number));
    return mr_fail(call, "on purpose, %lld", (long long)number);
}

float *chaos_filled(float start, size_t count) {
    float *data = malloc(count * sizeof *data);
    for (size_t i = 0; data != NULL && i < count; i++) data[i] = start + (float)(i % 7);
    return data;
}

static mr_status return_filled(mr_call *call, size_t index, float start, size_t count) {
    float *data = chaos_filled(start, count);
    if (data == NULL) return MR_NOMEM;
    mr_status status = mr_return_at(call, index, mr_vector(data, count));
    free(data);
    return status;
}

/* Returns its argument (a number), the successor, and a large value that begins with the number. */
MR_TASK(chaos_split) {
    int64_t number;
    MR_TRY(mr_arg_int(call, 0, &number));
    MR_TRY(mr_return_at(call, 0, mr_int(number)));
    MR_TRY(mr_return_at(call, 1, mr_int(number + 1)));
    return return_filled(call, 2, (float)number, CHAOS_LARGE_MIN);
}

static mr_status get_int(mr_context *mr, mr_ref ref, int64_t *out) {
    mr_value value;
    MR_TRY(mr_get(mr, ref, MR_FOREVER, &value));
    mr_status status = mr_value_int(&value, out);
    mr_value_release(&value);
    return status;
}

/* Arguments: depth, stubborn. Runs that many nested tasks, each of which adds one. Stubborn tasks never check for
 * cancellation. */
MR_TASK(chaos_nested) {
    int64_t depth, stubborn, below = 0;
    mr_ref ref;
    mr_context *here = mr_call_context(call);
    MR_TRY(mr_arg_int(call, 0, &depth));
    MR_TRY(mr_arg_int(call, 1, &stubborn));
    if (stubborn) poll(NULL, 0, 2); /* time in which the task may be cancelled */
    if (!stubborn && mr_call_cancelled(call)) return mr_fail(call, "it was cancelled");
    if (depth > 0) {
        MR_TRY(mr_call_task(here, "chaos_nested", &ref, mr_int(depth - 1), mr_int(stubborn)));
        mr_status status = get_int(here, ref, &below);
        mr_release(here, ref);
        MR_TRY(status);
    }
    return mr_return(call, mr_int(below + 1));
}

MR_TASK(chaos_enlarge) { /* adds one to every item */
    mr_tensor tensor;
    MR_TRY(mr_arg_tensor(call, 0, &tensor));
    return return_filled(call, 0, ((const float *)tensor.data)[0] + 1, tensor.bytes / sizeof(float));
}

MR_TASK(chaos_sum) { /* argument: a list of references to numbers */
    mr_value list, item;
    mr_ref ref;
    int64_t sum = 0, number;
    MR_TRY(mr_arg_value(call, 0, &list));
    for (size_t i = 0; i < mr_value_count(&list); i++) {
        MR_TRY(mr_value_item(&list, i, &item));
        MR_TRY(mr_value_ref(&item, &ref));
        MR_TRY(get_int(mr_call_context(call), ref, &number));
        sum += number;
    }
    return mr_return(call, mr_int(sum));
}

MR_TASK(chaos_lend) { /* returns a reference that the worker owns */
    mr_ref ref;
    int64_t number;
    MR_TRY(mr_arg_int(call, 0, &number));
    MR_TRY(mr_call_task(mr_call_context(call), "chaos_square", &ref, mr_int(number)));
    mr_arg item = mr_future(ref);
    mr_status status = mr_return(call, mr_list(&item, 1));
    mr_release(mr_call_context(call), ref);
    return status;
}

MR_TASK(chaos_ring) { /* calls an actor whose handle is its argument */
    mr_actor actor;
    mr_ref ref;
    int64_t number = 0;
    MR_TRY(mr_arg_actor(call, 0, &actor));
    MR_TRY(mr_call_actor(mr_call_context(call), actor, "double", &ref, mr_int(21)));
    mr_status status = get_int(mr_call_context(call), ref, &number);
    mr_release(mr_call_context(call), ref);
    MR_TRY(status);
    return mr_return(call, mr_int(number));
}

/* An actor that checks the order of the calls of each caller. */
typedef struct book {
    uint64_t callers[CALLERS_MAX];
    int64_t last[CALLERS_MAX];
    size_t count;
    mr_value kept;
    bool has_kept;
} book;

static void close_book(void *self) {
    book *book = self;
    if (book->has_kept) mr_value_release(&book->kept);
    free(book);
}

MR_CREATE(ChaosBook) {
    book *book = calloc(1, sizeof *book);
    return book == NULL ? MR_NOMEM : mr_set_self(call, book, close_book);
}

MR_METHOD(ChaosBook, say) { /* arguments: caller, number; returns the number of the caller's previous call, 0: none */
    book *book = mr_self(call);
    int64_t caller, number, before;
    MR_TRY(mr_arg_int(call, 0, &caller));
    MR_TRY(mr_arg_int(call, 1, &number));
    size_t at = 0;
    while (at < book->count && book->callers[at] != (uint64_t)caller) at++;
    if (at == CALLERS_MAX) return mr_return(call, mr_int(0));
    if (at == book->count) book->callers[book->count++] = (uint64_t)caller;
    before = book->last[at];
    if (number <= before) return mr_fail(call, "call %lld came after call %lld", (long long)number, (long long)before);
    book->last[at] = number;
    if (number % 4 == 0) poll(NULL, 0, 3);
    return mr_return(call, mr_int(before));
}

MR_METHOD(ChaosBook, double) {
    int64_t number;
    MR_TRY(mr_arg_int(call, 0, &number));
    return mr_return(call, mr_int(2 * number));
}

MR_METHOD(ChaosBook, keep) { /* keeps a large value */
    book *book = mr_self(call);
    if (book->has_kept) mr_value_release(&book->kept);
    book->has_kept = false;
    MR_TRY(mr_arg_keep(call, 0, &book->kept));
    book->has_kept = true;
    return mr_return(call, mr_int(0));
}

MR_METHOD(ChaosBook, show) {
    book *book = mr_self(call);
    return mr_return(call, book->has_kept ? mr_value_arg(&book->kept) : mr_nil()); /* nil: the actor was restarted */
}
