/* msgpuck.c — compilation of msgpuck's tables and functions.
 *
 * Debian ships the library as an archive that is not position-independent, so it cannot be part of a shared library. */
#define MP_SOURCE 1
#include <msgpuck.h>
