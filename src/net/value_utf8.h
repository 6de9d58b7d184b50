/* value_utf8.h — UTF-8 validation.
 *
 * As Unicode defines it and Python's str demands it: no overlong forms, no surrogates, nothing above U+10FFFF. */
#pragma once
#include "base/bytes.h"

bool value_utf8_valid(span text);
