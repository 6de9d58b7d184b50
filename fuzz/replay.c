/* replay.c — see replay.h. */
#include "fuzz/replay.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static int visible(const struct dirent *entry) { return entry->d_name[0] != '.'; }

/* Copies the file to memory of exactly its size, so that a sanitizer detects accesses beyond it. */
static int replay(replay_fn *input, const char *folder, const char *name) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "rb");
    struct stat about;
    if (file == NULL || fstat(fileno(file), &about) != 0) {
        printf("not ok - %s cannot be read\n", path);
        if (file != NULL) fclose(file);
        return 1;
    }
    size_t size = (size_t)about.st_size;
    uint8_t *data = malloc(size ? size : 1);
    size_t got = data == NULL ? 0 : fread(data, 1, size, file);
    fclose(file);
    int code = got == size ? input(data, size) : 1;
    free(data);
    printf("%s - %s, %zu bytes\n", code == 0 ? "ok" : "not ok", name, size);
    fflush(stdout); /* after an abort the output ends with the last input that passed */
    return code;
}

static replay_fn *find(const char *name) {
    const replay_target *at = replay_targets;
    while (at->name != NULL && strcmp(at->name, name) != 0) at++;
    return at->input;
}

int main(int argc, char **argv) {
    struct dirent **entries = NULL;
    replay_fn *input = argc == 3 ? find(argv[1]) : NULL;
    int count = input != NULL ? scandir(argv[2], &entries, visible, alphasort) : -1;
    int failed = 0;
    if (count <= 0) {
        printf("not ok - there is no target '%s', or no corpus in '%s'\n", argc == 3 ? argv[1] : "",
               argc == 3 ? argv[2] : "");
        failed = 1;
    }
    for (int i = 0; i < count; i++) {
        failed |= replay(input, argv[2], entries[i]->d_name);
        free(entries[i]);
    }
    free(entries);
    return failed != 0;
}
