/* terminal_filter.h — output of the command without control characters: names, errors and output of other processes may
 * contain escape codes, which would change the terminal. */
#pragma once

/* Makes stdout and stderr streams that escape every control character except newline and tab, every character that
 * changes the direction of text, and every byte that is not UTF-8: \u001b, \u009b, \xff. A JSON text remains the same
 * JSON value. */
void terminal_filter_install(void);
