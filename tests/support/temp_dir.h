/* temp_dir.h — a folder of a test's own, below $TMPDIR (or /tmp). The test removes it, and thereby checks that no file
 * is left. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

enum { TEMP_DIR_FOLDER_MAX = 64 }; /* short enough that the path of a unix socket (107 characters) fits below it */

bool temp_dir_folder(char folder[TEMP_DIR_FOLDER_MAX]); /* false, with a message on stderr: it cannot be created */

size_t temp_dir_entries(const char *path); /* of any folder, . and .. included; 0: no such folder */
bool temp_dir_is_empty(const char *path);
bool temp_dir_remove_empty(const char *path); /* false: it was not empty. Files of a sanitizer do not count */
