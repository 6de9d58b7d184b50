/* program_tasks.h — for a file of tests/support with tasks of its own: every test with processes (tests/) has these
 * tasks, and no unit test. */
#pragma once
#include "tests/support/program.h"

#define mr_register_task(name, body)            test_program_task("tests-*", name, body)
#define mr_register_method(class, method, body) test_program_method("tests-*", class, method, body)
