/* elide.h — a text without its middle, where it is too long for its room.
 *
 * An error that passes through many tasks gets a piece in front of it in each. The last bytes are the first cause, and
 * matter most: they get three quarters of the room. A text that is shortened, gets another piece in front and is
 * shortened again keeps the same end, any number of times.
 *
 * Pure. */
#pragma once
#include <stddef.h>

/* Writes at most `size` bytes with the NUL, and no part of a UTF-8 character. A longer text has " ... " in place of its
 * middle; in a room of a few bytes only its begin. `out` may not overlap the text. Returns the length. */
size_t elide(const char *text, size_t length, char *out, size_t size);
