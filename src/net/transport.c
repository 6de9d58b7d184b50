/* transport.c — see transport.h. */
#include "net/transport.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void cause_set(cause *cause, mr_status status, const char *format, ...) {
    memset(cause, 0, sizeof *cause);
    cause->status = status;
    cause->exit_code = -1;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(cause->text, sizeof cause->text, format, arguments);
    va_end(arguments);
}
