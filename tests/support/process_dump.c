/* process_dump.c — see process_dump.h. */
#include "tests/support/process_dump.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Reads to the end of the first line, or of the file. */
static void read_line(char *out, size_t room, const char *path) {
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t size = fd < 0 ? 0 : read(fd, out, room - 1);
    if (fd >= 0) close(fd);
    out[size > 0 ? size : 0] = '\0';
    out[strcspn(out, "\n")] = '\0';
}

static void print_thread(pid_t pid, const char *thread) {
    char path[300], stat[400], wchan[64], syscall[100];
    snprintf(path, sizeof path, "/proc/%d/task/%s/stat", (int)pid, thread);
    read_line(stat, sizeof stat, path);
    snprintf(path, sizeof path, "/proc/%d/task/%s/wchan", (int)pid, thread);
    read_line(wchan, sizeof wchan, path);
    snprintf(path, sizeof path, "/proc/%d/task/%s/syscall", (int)pid, thread);
    read_line(syscall, sizeof syscall, path);
    fprintf(stderr, "      %.60s; in %s, system call %s\n", stat, wchan[0] == '\0' ? "?" : wchan, syscall);
}

void process_dump_print(pid_t pid) {
    char path[64], command[200];
    snprintf(path, sizeof path, "/proc/%d/cmdline", (int)pid);
    read_line(command, sizeof command, path);
    fprintf(stderr, "    process %d is still there: %s\n", (int)pid, command);
    snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
    DIR *folder = opendir(path);
    for (struct dirent *entry; folder != NULL && (entry = readdir(folder)) != NULL;)
        if (entry->d_name[0] != '.') print_thread(pid, entry->d_name);
    if (folder != NULL) closedir(folder);
}
