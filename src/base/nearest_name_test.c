/* nearest_name_test.c — which names are similar to a mistyped one, and which are not. */
#include "base/nearest_name.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "miniray/status.h"

static const char *const names[] = {"num_cpus", "num_gpus", "max_restarts", "max_task_retries", "name",
                                    "lr",       "adam",     "adamw",        "rmsprop",          "learning_rate",
                                    "stop",     "start",    "status",       "STRICT_PACK"};

static void assert_means(const char *typed, const char *meant) {
    const char *found = mr_nearest_name(typed, names, sizeof names / sizeof *names);
    if (meant == NULL)
        assert_null(found);
    else
        assert_string_equal(found == NULL ? "none" : found, meant);
}

static void a_letter_may_be_wrong_missing_or_too_many(void **state) {
    assert_means("num_cpu", "num_cpus");
    assert_means("num_gpux", "num_gpus");
    assert_means("max_restartss", "max_restarts");
    assert_means("adm", "adam");
    assert_means("adam", "adam");
    assert_means("max_task_retry", "max_task_retries");
}

static void swapped_letters_are_one_change(void **state) {
    assert_means("leraning_rate", "learning_rate");
    const char *const swapped[] = {"axe", "abc"}; /* "acb": two changes from the first, a swap from the second */
    assert_string_equal(mr_nearest_name("acb", swapped, 2), "abc");
}

static void case_and_dashes_do_not_count(void **state) {
    assert_means("Adam", "adam");
    assert_means("strict-pack", "STRICT_PACK");
    assert_means("NUM-CPUS", "num_cpus");
}

static void a_part_of_a_name_is_enough(void **state) {
    assert_means("cpus", "num_cpus");
    assert_means("rms", "rmsprop");
    assert_means("max_restarts_of_all", "max_restarts");
    assert_means("s", NULL);
}

static void the_most_similar_name_wins(void **state) {
    assert_means("stat", "start");
    assert_means("statsu", "status");
    assert_means("adamx", "adam");
    assert_means("adm", "adam");
    const char *const rules[] = {"add", "adam"};
    assert_string_equal(mr_nearest_name("adm", rules, 2), "adam");
}

static void names_of_something_else_are_not_similar(void **state) {
    assert_means("", NULL);
    assert_means(NULL, NULL);
    assert_means("x", NULL);
    assert_means("r", "lr");
    assert_null(mr_nearest_name("c", (const char *const[]){"a"}, 1));
    assert_means("banana", NULL);
    assert_means("memory", NULL);
    assert_null(mr_nearest_name("adam", NULL, 0));
}

static void longest_names_are_compared_and_longer_ones_are_not(void **state) {
    char longest[NEAREST_NAME_MAX + 2], typed[NEAREST_NAME_MAX + 2];
    const char *const known[] = {longest};
    for (size_t size = NEAREST_NAME_MAX; size <= NEAREST_NAME_MAX + 1; size++) {
        memset(longest, 'a', size);
        longest[size] = '\0';
        memcpy(typed, longest, sizeof typed);
        typed[0] = 'b';
        assert_ptr_equal(mr_nearest_name(typed, known, 1), size == NEAREST_NAME_MAX ? longest : NULL);
    }
}

static void the_hint_names_it_or_is_empty(void **state) {
    char hint[NEAREST_NAME_HINT_MAX];
    nearest_name nearest = nearest_name_of(span_of("num_cpuz and more", 8));
    assert_string_equal(nearest_name_hint(&nearest, hint), "");
    nearest_name_offer_text(&nearest, "banana");
    assert_string_equal(nearest_name_hint(&nearest, hint), "");
    nearest_name_offer(&nearest, span_of("num_cpus…", 8));
    assert_string_equal(nearest_name_hint(&nearest, hint), "; did you mean num_cpus?");
    assert_string_equal(nearest_name_among("sdg", "adam, sgd, adamw", hint), "; did you mean sgd?");
    assert_string_equal(nearest_name_among("adamv", "adam, sgd, adamw", hint), "; did you mean adam?");
    assert_string_equal(nearest_name_among("banana", "adam, sgd, adamw", hint), "");
    assert_true(nearest_name_is_one("sgd:3+zstd", "adam, sgd, adamw"));
    assert_false(nearest_name_is_one("adamv", "adam, sgd, adamw"));
    assert_false(nearest_name_is_one("ada", "adam, sgd, adamw"));
    assert_string_equal(nearest_name_among("sgd", "", hint), "");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_letter_may_be_wrong_missing_or_too_many),
        cmocka_unit_test(swapped_letters_are_one_change),
        cmocka_unit_test(case_and_dashes_do_not_count),
        cmocka_unit_test(a_part_of_a_name_is_enough),
        cmocka_unit_test(the_most_similar_name_wins),
        cmocka_unit_test(names_of_something_else_are_not_similar),
        cmocka_unit_test(longest_names_are_compared_and_longer_ones_are_not),
        cmocka_unit_test(the_hint_names_it_or_is_empty),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
