/* status_assert.h — for tests: asserts that a call succeeded, or failed with a given message. Another result is printed
 * on stderr. */
#pragma once
#include "miniray/status.h"

void must(mr_status status);
void assert_said(const char *words); /* asserts that mr_last_error contains the words */
