/* program_tasks.h — included by a file of tests/support that has tasks: every test with processes (tests/) gets these
 * tasks, and no unit test does. */
#pragma once
#include "tests/support/program.h"

#define mr_register_task(name, body)            test_program_task("tests-*", name, body)
#define mr_register_method(class, method, body) test_program_method("tests-*", class, method, body)
