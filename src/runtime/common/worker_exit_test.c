/* worker_exit_test.c — every text of worker_exit.h. */
#include "runtime/common/worker_exit.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "net/pidfd.h"

static void says(const worker_exit *exit, const char *status, const char *more) {
    char text[400];
    pidfd_status_text(exit->wait_status, text, sizeof text);
    assert_string_equal(text, status);
    worker_exit_more_text(exit, text, sizeof text);
    assert_string_equal(text, more);
}

static void an_exit_has_its_status_and_last_words(void **state) {
    worker_exit exit = {.wait_status = W_EXITCODE(3, 0), .sentence = "", .last = ""};
    says(&exit, "exited with status 3", "");
    exit.last = "no such file | giving up";
    exit.memory = WORKER_EXIT_MEMORY_OUT; /* another process was killed */
    says(&exit, "exited with status 3", "; its last output: \"no such file | giving up\"");
}

static void a_signal_has_its_name(void **state) {
    worker_exit exit = {
        .wait_status = W_EXITCODE(0, SIGSEGV), .sentence = "", .last = "", .memory = WORKER_EXIT_MEMORY_UNKNOWN};
    says(&exit, "was killed by signal 11 (SIGSEGV)", "");
}

static void want_of_memory_is_named(void **state) {
    worker_exit exit = {
        .wait_status = W_EXITCODE(0, SIGKILL), .sentence = "", .last = "", .memory = WORKER_EXIT_MEMORY_OUT};
    says(&exit, "was killed by signal 9 (SIGKILL)", ", out of memory");
    exit.peak_bytes = UINT64_C(3000) << 20;
    exit.limit_bytes = UINT64_C(4096) << 20;
    says(&exit, "was killed by signal 9 (SIGKILL)",
         ", out of memory: it used 3000 MB at its peak, and the limit is 4096 MB");
    exit.memory = WORKER_EXIT_MEMORY_UNKNOWN;
    says(&exit, "was killed by signal 9 (SIGKILL)", ", perhaps out of memory (dmesg shows the kernel's log)");
    exit.memory = WORKER_EXIT_MEMORY_ENOUGH;
    says(&exit, "was killed by signal 9 (SIGKILL)", "");
}

static void the_node_says_why_it_ends_one(void **state) {
    worker_exit exit = {.wait_status = W_EXITCODE(0, SIGKILL), .ordered = true, .sentence = "", .last = ""};
    exit.memory = WORKER_EXIT_MEMORY_OUT;
    says(&exit, "was killed by signal 9 (SIGKILL)", " by the node");
    exit.sentence = "its placement group was removed";
    says(&exit, "was killed by signal 9 (SIGKILL)", " by the node: its placement group was removed");
    assert_true(worker_exit_was_wished("process 7 was killed by signal 9 (SIGKILL) by the node"));
    assert_false(
        worker_exit_was_wished("process 7 was killed by signal 9 (SIGKILL) by the node: its group was removed"));
    assert_false(worker_exit_was_wished("process 7 exited with status 3"));
    assert_false(worker_exit_was_wished(""));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_exit_has_its_status_and_last_words),
        cmocka_unit_test(a_signal_has_its_name),
        cmocka_unit_test(want_of_memory_is_named),
        cmocka_unit_test(the_node_says_why_it_ends_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
