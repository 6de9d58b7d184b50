/* launch_spec_test.c — writing and reading of a program's launch spec, and malformed ones. */
#include "runtime/common/launch_spec.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "net/shm/sealed_memfd.h"

extern char **environ;

static void a_launch_spec_is_read_as_written(void **state) {
    int fd;
    launch_spec *spec;
    setenv("MINIRAY_TEST_EMPTY", "", 1);
    assert_int_equal(launch_spec_write(NULL, false, &fd), MR_OK);
    assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
    assert_int_equal(launch_spec_read_of((uint32_t)fd, getpid(), &spec), MR_OK);
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
    close(fd);
}

static void arguments_may_be_given(void **state) {
    int fd;
    launch_spec *spec;
    assert_int_equal(launch_spec_write((const char *const[]){"python3", "worker.py", "", NULL}, true, &fd), MR_OK);
    assert_int_equal(launch_spec_read(fd, getpid(), &spec), MR_OK);
    assert_string_equal(spec->arguments[0], "python3");
    assert_string_equal(spec->arguments[1], "worker.py");
    assert_string_equal(spec->arguments[2], "");
    assert_null(spec->arguments[3]);
    assert_true(spec->copied);
    launch_spec_destroy(spec);
    close(fd);
}

static mr_status decode(const void *bytes, size_t size) {
    launch_spec *spec;
    return launch_spec_decode(span_of(bytes, size), getpid(), &spec);
}

static void nonsense_is_refused(void **state) {
    int fd;
    launch_spec *spec;
    uint64_t whole;
    static uint8_t bytes[1 << 20];
    assert_int_equal(launch_spec_write(NULL, false, &fd), MR_OK);
    assert_true(sealed_memfd_read_size(fd, &whole) && whole <= sizeof bytes);
    assert_int_equal(pread(fd, bytes, sizeof bytes, 0), whole);
    for (size_t size = 0; size < whole; size += 1 + size / 8) assert_int_equal(decode(bytes, size), MR_CORRUPT);
    static const uint8_t nothing[8] = {0}; /* no arguments, no environment */
    assert_int_equal(decode(nothing, sizeof nothing), MR_CORRUPT);
    static const uint8_t zero_inside[] = {1, 0, 0, 0, 2, 0, 0, 0, 'a', 0, 0, 0, 0, 0};
    assert_int_equal(decode(zero_inside, sizeof zero_inside), MR_CORRUPT);
    static const uint8_t huge[] = {255, 255, 255, 255, 0, 0, 0, 0};
    assert_int_equal(decode(huge, sizeof huge), MR_CORRUPT);
    assert_int_not_equal(launch_spec_read(fd, 0x7ffffff0, &spec), MR_OK); /* no such process */
    assert_int_not_equal(launch_spec_read_of((uint32_t)fd, 0x7ffffff0, &spec), MR_OK);
    close(fd);
    int pipes[2];
    assert_int_equal(pipe2(pipes, O_CLOEXEC), 0); /* another descriptor of the driver */
    assert_int_equal(launch_spec_read_of((uint32_t)pipes[0], getpid(), &spec), MR_CORRUPT);
    close(pipes[0]);
    close(pipes[1]);
    int large = sealed_memfd_create("test", LAUNCH_SPEC_BYTES_MAX + 1);
    assert_int_equal(launch_spec_read(large, getpid(), &spec), MR_CORRUPT);
    close(large);
}

static void an_environment_has_a_limit(void **state) {
    int fd;
    launch_spec *spec;
    char *text = malloc(LAUNCH_SPEC_BYTES_MAX);
    memset(text, 'x', LAUNCH_SPEC_BYTES_MAX - 1);
    text[LAUNCH_SPEC_BYTES_MAX - 1] = '\0';
    setenv("MINIRAY_TEST_LONG", text, 1);
    assert_int_equal(launch_spec_write(NULL, false, &fd), MR_TOO_LARGE);
    text[LAUNCH_SPEC_BYTES_MAX / 2] = '\0'; /* more than any system accepts */
    setenv("MINIRAY_TEST_LONG", text, 1);
    assert_int_equal(launch_spec_write(NULL, false, &fd), MR_OK);
    assert_int_equal(launch_spec_read(fd, getpid(), &spec), MR_OK);
    launch_spec_destroy(spec);
    close(fd);
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

static bool foreign_with(uint16_t machine, char first, size_t size) {
    char path[64];
    Elf64_Ehdr header = {.e_ident = {first, 'E', 'L', 'F'}, .e_machine = machine};
    int fd = sealed_memfd_create("test", size);
    assert_int_equal(pwrite(fd, &header, size, 0), size);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    bool foreign = launch_spec_is_foreign(path);
    close(fd);
    return foreign;
}

/* The executable of an emulated process is the emulator's; a script's is its interpreter's, of this machine. */
static void an_emulator_is_recognized(void **state) {
    size_t whole = sizeof(Elf64_Ehdr);
    assert_false(launch_spec_is_foreign("/proc/self/exe"));
    assert_true(foreign_with(EM_S390, 0x7f, whole));
    assert_false(foreign_with(EM_S390, '#', whole));
    assert_false(foreign_with(EM_S390, 0x7f, whole / 2));
    assert_false(launch_spec_is_foreign("/proc/self/no-such-file"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_launch_spec_is_read_as_written),
        cmocka_unit_test(arguments_may_be_given),
        cmocka_unit_test(nonsense_is_refused),
        cmocka_unit_test(an_environment_has_a_limit),
        cmocka_unit_test(ones_own_needs_no_descriptors),
        cmocka_unit_test(an_emulator_is_recognized),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
