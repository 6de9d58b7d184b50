/* death_test.c — every wording of death.h. */
#include "runtime/death.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/wait.h>

#include <cmocka.h>

static void says(const death *death, const char *status, const char *more) {
    char text[400];
    death_status_text(death->wait_status, text, sizeof text);
    assert_string_equal(text, status);
    death_more_text(death, text, sizeof text);
    assert_string_equal(text, more);
}

static void an_exit_has_its_status_and_last_words(void **state) {
    death death = {.wait_status = W_EXITCODE(3, 0), .sentence = "", .last = ""};
    says(&death, "exited with status 3", "");
    death.last = "no such file | giving up";
    death.memory = DEATH_MEMORY_OUT; /* somebody else's */
    says(&death, "exited with status 3", "; its last output: \"no such file | giving up\"");
}

static void a_signal_has_its_name(void **state) {
    death death = {.wait_status = W_EXITCODE(0, SIGSEGV), .sentence = "", .last = "", .memory = DEATH_MEMORY_UNKNOWN};
    says(&death, "was killed by signal 11 (SIGSEGV)", "");
}

static void want_of_memory_is_named(void **state) {
    death death = {.wait_status = W_EXITCODE(0, SIGKILL), .sentence = "", .last = "", .memory = DEATH_MEMORY_OUT};
    says(&death, "was killed by signal 9 (SIGKILL)", ", out of memory");
    death.memory = DEATH_MEMORY_UNKNOWN;
    says(&death, "was killed by signal 9 (SIGKILL)", ", perhaps out of memory (dmesg shows the kernel's log)");
    death.memory = DEATH_MEMORY_ENOUGH;
    says(&death, "was killed by signal 9 (SIGKILL)", "");
}

static void the_node_says_why_it_ends_one(void **state) {
    death death = {.wait_status = W_EXITCODE(0, SIGKILL), .ordered = true, .sentence = "", .last = ""};
    death.memory = DEATH_MEMORY_OUT;
    says(&death, "was killed by signal 9 (SIGKILL)", " by the node");
    death.sentence = "its placement group was removed";
    says(&death, "was killed by signal 9 (SIGKILL)", " by the node: its placement group was removed");
    assert_true(death_was_wished("process 7 was killed by signal 9 (SIGKILL) by the node"));
    assert_false(death_was_wished("process 7 was killed by signal 9 (SIGKILL) by the node: its group was removed"));
    assert_false(death_was_wished("process 7 exited with status 3"));
    assert_false(death_was_wished(""));
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
