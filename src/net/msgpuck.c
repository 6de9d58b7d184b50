/* msgpuck.c — the one place where msgpuck's tables and functions are compiled.
 *
 * Debian ships the library as an archive that is not position-independent, so it cannot be part of a shared library. */
#define MP_SOURCE 1
#include <msgpuck.h>
