/* transport.c — see transport.h. */
#include "net/transport.h"

#include <stdio.h>
#include <string.h>

void cause_set_list(cause *cause, mr_status status, const char *format, va_list arguments) {
    memset(cause, 0, sizeof *cause);
    cause->status = status;
    cause->exit_code = -1;
    vsnprintf(cause->text, sizeof cause->text, format, arguments);
}

void cause_set(cause *cause, mr_status status, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    cause_set_list(cause, status, format, arguments);
    va_end(arguments);
}
