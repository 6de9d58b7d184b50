/* temp.c — see temp.h. */
#include "tests/support/temp.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool temp_folder(char folder[TEMP_FOLDER_MAX]) {
    const char *base = getenv("TMPDIR");
    if (base == NULL || base[0] == '\0') base = "/tmp";
    if (snprintf(folder, TEMP_FOLDER_MAX, "%s/miniray-test-XXXXXX", base) >= TEMP_FOLDER_MAX) {
        fprintf(stderr, "$TMPDIR is too long for the paths of unix sockets: %s\n", base);
        return false;
    }
    if (mkdtemp(folder) != NULL) return true;
    fprintf(stderr, "no folder %s: %s\n", folder, strerror(errno));
    return false;
}

size_t temp_entries(const char *path) {
    DIR *folder = opendir(path);
    size_t count = 0;
    while (folder != NULL && readdir(folder) != NULL) count++;
    if (folder != NULL) closedir(folder);
    return count;
}

bool temp_is_empty(const char *path) { return temp_entries(path) == 2; }
