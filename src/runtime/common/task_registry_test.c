/* task_registry_test.c — lookup of bodies by name, and lists of names. */
#include "runtime/common/task_registry.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

MR_TASK(add) { return MR_OK; }
MR_TASK(add_all) { return MR_INVALID; }
MR_CREATE(Counter) { return MR_OK; }
MR_METHOD(Counter, step) { return MR_OK; }
MR_METHOD(Counter, read) { return MR_OK; }
MR_CREATE(MyCounter) { return MR_OK; }
MR_METHOD(MyCounter, step) { return MR_OK; }
MR_METHOD(Orphan, only) { return MR_OK; } /* a class without create */

static mr_body_fn *task(const char *name) { return task_registry_task(name, strlen(name)); }
static mr_body_fn *method(const char *class_name, const char *name) {
    return task_registry_method(class_name, strlen(class_name), name, strlen(name));
}

static void bodies_are_found_by_name(void **state) {
    assert_true(task("add") == add && task("add_all") == add_all);
    assert_true(task("ad") == NULL && task("add_") == NULL && task("") == NULL && task("Counter") == NULL);
    assert_true(task_registry_task("add_all", 3) == add);
    assert_true(method("Counter", "step") == Counter_step && method("MyCounter", "step") == MyCounter_step);
    assert_true(method("Counter", "read") == Counter_read && method("MyCounter", "read") == NULL);
    assert_true(method("Counter", "") == Counter_create && method("Orphan", "") == NULL);
    assert_true(method("Nobody", "step") == NULL && method("add", "") == NULL);
    assert_true(task_registry_class("Counter", 7) && task_registry_class("Orphan", 6));
    assert_false(task_registry_class("Count", 5) || task_registry_class("add", 3) || task_registry_class("", 0));
}

MR_METHOD(Open, known) { return MR_OK; } /* gets a method "*" below */
static mr_status any(mr_call *call) { return MR_OK; }

static void a_star_is_every_name_without_a_body(void **state) {
    mr_register_method("Open", "*", any);
    assert_true(method("Open", "known") == Open_known && method("Open", "whatever") == any);
    assert_true(method("Open", "") == NULL && method("Counter", "whatever") == NULL);
    assert_true(task("whatever") == NULL && !task_registry_class("Whatever", 8));
    mr_register_task("*", any);
    assert_true(task("whatever") == any && task("add") == add && task("") == NULL);
    mr_register_method("*", "*", any);
    mr_register_method("*", NULL, any);
    assert_true(task_registry_class("Whatever", 8) && !task_registry_class("", 0));
    assert_true(method("Whatever", "") == any && method("Whatever", "else") == any);
    assert_true(method("Counter", "whatever") == NULL); /* not of the class "*", since Counter is registered */
}

/* Whether the text lists the name exactly once. Other files register names, too. */
static bool has(const char *text, const char *name) {
    size_t size = strlen(name), count = 0;
    for (const char *at = text; (at = strstr(at, name)) != NULL; at++)
        count += (at == text || at[-1] == ' ') && (at[size] == ',' || at[size] == '\0');
    return count == 1;
}

static size_t names_in(const char *text) {
    size_t count = text[0] != '\0';
    for (; *text != '\0'; text++) count += *text == ',';
    return count;
}

static void names_are_told_once_each(void **state) {
    char text[4096];
    task_registry_tasks_text(text, sizeof text);
    assert_true(has(text, "add") && has(text, "add_all"));
    task_registry_classes_text(text, sizeof text); /* one class name ends with another */
    assert_true(has(text, "Counter") && has(text, "MyCounter") && has(text, "Orphan") && has(text, "Open"));
    task_registry_methods_text("Counter", 7, text, sizeof text);
    assert_true(has(text, "step") && has(text, "read") && names_in(text) == 2);
    task_registry_methods_text("Nobody", 6, text, sizeof text);
    assert_string_equal(text, "");
}

static void texts_are_cut(void **state) {
    for (size_t size = 1; size < 32; size++) {
        char text[33];
        memset(text, '#', sizeof text);
        task_registry_classes_text(text, size);
        assert_true(strlen(text) < size);
        assert_int_equal(text[size], '#');
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bodies_are_found_by_name), cmocka_unit_test(names_are_told_once_each),
        cmocka_unit_test(texts_are_cut),
        cmocka_unit_test(a_star_is_every_name_without_a_body), /* last: registrations stay */
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
