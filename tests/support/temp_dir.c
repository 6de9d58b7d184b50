/* temp_dir.c — see temp_dir.h. */
#include "tests/support/temp_dir.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

bool temp_dir_folder(char folder[TEMP_DIR_FOLDER_MAX]) {
    const char *base = getenv("TMPDIR");
    if (base == NULL || base[0] == '\0') base = "/tmp";
    if (snprintf(folder, TEMP_DIR_FOLDER_MAX, "%s/miniray-test-XXXXXX", base) >= TEMP_DIR_FOLDER_MAX) {
        fprintf(stderr, "$TMPDIR is too long for the paths of unix sockets: %s\n", base);
        return false;
    }
    if (mkdtemp(folder) != NULL) return true;
    fprintf(stderr, "no folder %s: %s\n", folder, strerror(errno));
    return false;
}

/* Whether this is the file that ThreadSanitizer's runtime leaves in a process that is killed during its start. */
static bool is_of_sanitizer(const char *name) { return strncmp(name, "tsan.rodata.", strlen("tsan.rodata.")) == 0; }

size_t temp_dir_entries(const char *path) {
    DIR *folder = opendir(path);
    size_t count = 0;
    for (struct dirent *item; folder != NULL && (item = readdir(folder)) != NULL;)
        count += !is_of_sanitizer(item->d_name);
    if (folder != NULL) closedir(folder);
    return count;
}

bool temp_dir_is_empty(const char *path) { return temp_dir_entries(path) == 2; }

bool temp_dir_remove_empty(const char *path) {
    DIR *folder = opendir(path);
    for (struct dirent *item; folder != NULL && (item = readdir(folder)) != NULL;)
        if (is_of_sanitizer(item->d_name)) unlinkat(dirfd(folder), item->d_name, 0);
    if (folder != NULL) closedir(folder);
    return rmdir(path) == 0;
}
