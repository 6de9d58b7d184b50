/* temp_dir.h — a folder of a test's own, below $TMPDIR (or /tmp). The test removes it, and so sees that nothing is
 * left. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

enum { TEMP_DIR_FOLDER_MAX = 64 }; /* below it there is room for the path of a unix socket, which has 107 characters */

bool temp_dir_folder(char folder[TEMP_DIR_FOLDER_MAX]); /* false, and said on stderr: it cannot be made */

size_t temp_dir_entries(const char *path); /* of any folder, . and .. included; 0: there is none */
bool temp_dir_is_empty(const char *path);
bool temp_dir_remove_empty(const char *path); /* false: it was not empty. Files of a sanitizer do not count */
