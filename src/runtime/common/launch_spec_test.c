/* launch_spec_test.c — encoding of a program's launch spec, and malformed ones. */
#include "runtime/common/launch_spec.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

extern char **environ;

static void a_launch_spec_is_decoded_as_encoded(void **state) {
    span bytes;
    launch_spec *spec;
    setenv("MINIRAY_TEST_EMPTY", "", 1);
    assert_int_equal(launch_spec_encode(NULL, false, &bytes), MR_OK);
    reader reader = reader_of(bytes.data, bytes.size);
    assert_int_equal(launch_spec_decode(&reader, getpid(), &spec), MR_OK);
    assert_int_equal(reader_left(&reader), 0);
    assert_string_equal(spec->arguments[0], program_invocation_name);
    assert_null(spec->arguments[1]);
    size_t count = 0;
    for (; environ[count] != NULL; count++) assert_string_equal(spec->environment[count], environ[count]);
    assert_null(spec->environment[count]);
    struct stat ours, theirs;
    assert_true(stat("/proc/self/exe", &ours) == 0 && fstat(spec->executable_fd, &theirs) == 0);
    assert_true(ours.st_ino == theirs.st_ino && ours.st_dev == theirs.st_dev);
    assert_true(stat(".", &ours) == 0 && fstat(spec->folder_fd, &theirs) == 0);
    assert_true(ours.st_ino == theirs.st_ino && ours.st_dev == theirs.st_dev);
    launch_spec_destroy(spec);
    free((void *)(uintptr_t)bytes.data);
}

static void arguments_may_be_given(void **state) {
    span bytes;
    launch_spec *spec;
    assert_int_equal(launch_spec_encode((const char *const[]){"python3", "worker.py", "", NULL}, true, &bytes), MR_OK);
    reader reader = reader_of(bytes.data, bytes.size);
    assert_int_equal(launch_spec_decode(&reader, getpid(), &spec), MR_OK);
    assert_string_equal(spec->arguments[0], "python3");
    assert_string_equal(spec->arguments[1], "worker.py");
    assert_string_equal(spec->arguments[2], "");
    assert_null(spec->arguments[3]);
    launch_spec_destroy(spec);
    free((void *)(uintptr_t)bytes.data);
}

static void nonsense_is_refused(void **state) {
    span bytes;
    launch_spec *spec;
    assert_int_equal(launch_spec_encode(NULL, false, &bytes), MR_OK);
    for (size_t size = 0; size < bytes.size; size += 1 + size / 8) { /* truncated at many sizes */
        reader reader = reader_of(bytes.data, size);
        assert_int_equal(launch_spec_decode(&reader, getpid(), &spec), MR_CORRUPT);
    }
    static const uint8_t nothing[8] = {0}; /* no arguments, no environment */
    reader none = reader_of(nothing, sizeof nothing);
    assert_int_equal(launch_spec_decode(&none, getpid(), &spec), MR_CORRUPT);
    static const uint8_t zero_inside[] = {1, 0, 0, 0, 2, 0, 0, 0, 'a', 0, 0, 0, 0, 0};
    reader inside = reader_of(zero_inside, sizeof zero_inside);
    assert_int_equal(launch_spec_decode(&inside, getpid(), &spec), MR_CORRUPT);
    static const uint8_t huge[] = {255, 255, 255, 255, 0, 0, 0, 0};
    reader many = reader_of(huge, sizeof huge);
    assert_int_equal(launch_spec_decode(&many, getpid(), &spec), MR_CORRUPT);
    reader whole = reader_of(bytes.data, bytes.size);
    assert_int_not_equal(launch_spec_decode(&whole, 0x7ffffff0, &spec), MR_OK); /* no such process */
    free((void *)(uintptr_t)bytes.data);
}

static void an_environment_has_a_limit(void **state) {
    span bytes;
    char *text = malloc(LAUNCH_SPEC_BYTES_MAX);
    memset(text, 'x', LAUNCH_SPEC_BYTES_MAX - 1);
    text[LAUNCH_SPEC_BYTES_MAX - 1] = '\0';
    setenv("MINIRAY_TEST_LONG", text, 1);
    assert_int_equal(launch_spec_encode(NULL, false, &bytes), MR_TOO_LARGE);
    unsetenv("MINIRAY_TEST_LONG");
    free(text);
}

static void ones_own_needs_no_descriptors(void **state) {
    launch_spec *spec = launch_spec_own();
    assert_true(spec->executable_fd < 0 && spec->folder_fd < 0);
    assert_string_equal(spec->arguments[0], program_invocation_name);
    assert_ptr_equal(spec->environment[0], environ[0]);
    launch_spec_destroy(spec);
    launch_spec_destroy(NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_launch_spec_is_decoded_as_encoded),
        cmocka_unit_test(arguments_may_be_given),
        cmocka_unit_test(nonsense_is_refused),
        cmocka_unit_test(an_environment_has_a_limit),
        cmocka_unit_test(ones_own_needs_no_descriptors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
