/* status_assert.h — a call went well, or said what was wrong: for tests. What it said instead goes to stderr. */
#pragma once
#include "miniray/status.h"

void must(mr_status status);
void assert_said(const char *words); /* mr_last_error has them */
