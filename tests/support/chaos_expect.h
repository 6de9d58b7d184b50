/* chaos_expect.h — expectations under the load of chaos_load.h: a result is right, or lost for an allowed reason that
 * its error names. Any other outcome is printed on stderr. References are released. */
#pragma once
#include "tests/support/chaos_load.h"

enum { CHAOS_PATIENCE_US = 60 * 1000 * 1000 }; /* a result that takes longer counts as hanging */

bool chaos_is_named(chaos_load *load, mr_status status); /* the thread's last error names the cause of the loss */
bool chaos_is_begun(chaos_load *load, mr_status status); /* the same, or the submission succeeded */

bool chaos_take_int(chaos_load *load, mr_ref ref, int64_t *number, bool *got); /* *got false: the result is lost */
bool chaos_expect_int(chaos_load *load, mr_ref ref, int64_t expected);
bool chaos_expect_filled(chaos_load *load, mr_ref ref, float start, size_t count); /* expects a value of chaos_filled */
bool chaos_is_filled(const mr_value *value, float start, size_t count);
