/* temp_dir.h — a separate folder for a test, below $TMPDIR (or /tmp). The test removes the folder, and thereby checks
 * that no file is left. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

enum { TEMP_DIR_FOLDER_MAX = 64 }; /* short enough that the path of a unix socket (107 characters) fits below it */

/* False, with a message on stderr: the folder cannot be created. */
bool temp_dir_folder(char folder[TEMP_DIR_FOLDER_MAX]);

size_t temp_dir_entries(const char *path); /* number of entries of any folder, . and .. included; 0: no such folder */
bool temp_dir_is_empty(const char *path);
bool temp_dir_remove_empty(const char *path); /* false: the folder was not empty. A sanitizer's files do not count */
