/* shared_model_access_test.c — the server's checks of a shared model, and its right to write it. */
#include "train/shared_model_access.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static float memory[64];
static shared_model_head head;

static model_access exported(uint32_t ticket) {
    atomic_store(&head.word, shared_model_word(ticket, 0, SHARED_MODEL_EXPORTED));
    return (model_access){.place = {.head = &head},
                          .ticket = ticket,
                          .half = sizeof memory / 2,
                          .from = (uint8_t *)memory,
                          .to = (uint8_t *)(memory + 32)};
}

static void a_stand_in_becomes_its_tensor(void **state) {
    model_access access = exported(1);
    mr_tensor tensor = {.dtype = MR_F32, .tensor_kind = MR_TORCH, .dims = 4, .shape = {0, 16, 2, 3}};
    assert_int_equal(model_access_resolve(&access, &tensor), MR_OK);
    assert_true(tensor.dims == 2 && tensor.shape[0] == 2 && tensor.shape[1] == 3 && tensor.bytes == 24);
    assert_true(tensor.data == memory + 4 && tensor.tensor_kind == MR_TORCH);
    assert_true(model_access_target(&access, &tensor) == memory + 36);
    mr_tensor one = {.dtype = MR_F32, .dims = 2, .shape = {0, 124}}; /* the last tensor that fits */
    assert_int_equal(model_access_resolve(&access, &one), MR_OK);
    assert_true(one.dims == 0 && one.bytes == 4);
}

static void tensors_outside_the_model_are_refused(void **state) {
    model_access access = exported(1);
    const mr_tensor wrong[] = {
        {.dtype = MR_F32, .dims = 1, .shape = {0}},                                  /* not a stand-in */
        {.dtype = MR_F32, .dims = 3, .shape = {1, 0, 4}},                            /* an ordinary tensor */
        {.dtype = MR_F32, .dims = 3, .shape = {0, 2, 4}},                            /* not aligned */
        {.dtype = MR_F32, .dims = 3, .shape = {0, -4, 4}},                           /* before the half */
        {.dtype = MR_F32, .dims = 3, .shape = {0, 128, 1}},                          /* after the half */
        {.dtype = MR_F32, .dims = 3, .shape = {0, 4, 32}},                           /* beyond the end of the half */
        {.dtype = MR_F32, .dims = 3, .shape = {0, 0, -1}},                           /* negative length */
        {.dtype = MR_F32, .dims = 4, .shape = {0, 0, INT64_MAX / 2, INT64_MAX / 2}}, /* the size overflows */
        {.dtype = (mr_dtype)77, .dims = 3, .shape = {0, 0, 1}},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        mr_tensor tensor = wrong[i];
        assert_int_equal(model_access_resolve(&access, &tensor), MR_INVALID);
    }
}

static void a_shared_model_has_one_writer_at_a_time(void **state) {
    model_access first = exported(3), second = first;
    assert_int_equal(model_access_begin(&first), MR_OK);
    assert_int_equal(model_access_begin(&second), MR_BUSY);
    model_access_end(&second, true); /* a no-op: `second` has not begun */
    assert_int_equal(atomic_load(&head.word) & 0xff, SHARED_MODEL_WRITING);
    model_access_end(&first, true);
    assert_true(atomic_load(&head.word) == shared_model_word(3, 0, SHARED_MODEL_WRITTEN));
    assert_int_equal(model_access_begin(&second), MR_OK); /* the call is repeated because the first answer was lost */
    model_access_end(&second, true);
    atomic_store(&head.word, shared_model_word(3, 0, SHARED_MODEL_IDLE));
    assert_int_equal(model_access_begin(&first), MR_BUSY); /* the owner has imported the result */
}

static void a_write_of_a_dead_process_is_begun_again(void **state) {
    model_access access = exported(5);
    pid_t writer = fork();
    if (writer == 0) _exit(0);
    assert_int_equal(waitpid(writer, NULL, 0), writer);
    atomic_store(&head.word, shared_model_word(5, (uint32_t)writer, SHARED_MODEL_WRITING));
    assert_int_equal(model_access_begin(&access), MR_OK);
    model_access_end(&access, true);
    assert_true(atomic_load(&head.word) == shared_model_word(5, 0, SHARED_MODEL_WRITTEN));
    pid_t unmissed = fork();
    if (unmissed == 0) _exit(0);
    assert_int_equal(waitid(P_PID, (id_t)unmissed, &(siginfo_t){0}, WEXITED | WNOWAIT), 0); /* a zombie */
    atomic_store(&head.word, shared_model_word(5, (uint32_t)unmissed, SHARED_MODEL_WRITING));
    assert_int_equal(model_access_begin(&access), MR_OK);
    assert_int_equal(waitpid(unmissed, NULL, 0), unmissed);
    model_access_end(&access, true);
    atomic_store(&head.word, shared_model_word(5, (uint32_t)getppid(), SHARED_MODEL_WRITING));
    assert_int_equal(model_access_begin(&access), MR_BUSY); /* a live writer keeps its right */
}

static void a_model_given_to_another_sync_is_not_written(void **state) {
    model_access before = exported(3), after = exported(4);
    assert_int_equal(model_access_begin(&before), MR_BUSY);
    assert_int_equal(model_access_begin(&after), MR_OK);
    model_access_end(&after, false);
    assert_true(atomic_load(&head.word) == shared_model_word(4, 0, SHARED_MODEL_IDLE));
}

static void a_model_copy_is_read_and_given_back(void **state) {
    model_access access = exported(7), again;
    access.to = NULL;
    again = access;
    assert_false(model_access_is_in_place(&access));
    assert_int_equal(model_access_begin(&access), MR_OK);
    assert_true(atomic_load(&head.word) ==
                shared_model_word(7, 0, SHARED_MODEL_EXPORTED)); /* until model_access_close */
    model_access_end(&access, true);
    model_access_close(&access);
    assert_true(atomic_load(&head.word) == shared_model_word(7, 0, SHARED_MODEL_READ));
    assert_int_equal(model_access_begin(&again), MR_OK); /* its place was not reused */
    assert_int_equal(model_access_check(&again), MR_OK);
    atomic_store(&head.word, shared_model_word(8, 0, SHARED_MODEL_IDLE));
    assert_int_equal(model_access_check(&again), MR_BUSY); /* the copy was revoked during the read */
    atomic_store(&head.word, shared_model_word(8, 0, SHARED_MODEL_EXPORTED));
    assert_int_equal(model_access_check(&again), MR_BUSY);
    assert_int_equal(model_access_begin(&again), MR_BUSY);
    model_access_close(&again); /* no effect on the new export */
    assert_true(atomic_load(&head.word) == shared_model_word(8, 0, SHARED_MODEL_EXPORTED));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_stand_in_becomes_its_tensor),
        cmocka_unit_test(tensors_outside_the_model_are_refused),
        cmocka_unit_test(a_shared_model_has_one_writer_at_a_time),
        cmocka_unit_test(a_write_of_a_dead_process_is_begun_again),
        cmocka_unit_test(a_model_given_to_another_sync_is_not_written),
        cmocka_unit_test(a_model_copy_is_read_and_given_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
