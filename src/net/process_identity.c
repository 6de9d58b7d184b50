/* process_identity.c — see process_identity.h. */
#include "net/process_identity.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "base/text_file.h"

/* Start time of a process; 0: unknown. */
static unsigned long long start_of(int process) {
    char path[40], text[1024];
    unsigned long long start = 0;
    snprintf(path, sizeof path, "/proc/%d/stat", process);
    if (!text_file_read(path, text, sizeof text)) return 0;
    const char *at = strrchr(text, ')'); /* the name before it may have any characters */
    for (int field = 2; at != NULL && field < 22; field++) at = strchr(at + 1, ' ');
    return at != NULL && sscanf(at, "%llu", &start) == 1 ? start : 0;
}

process_identity process_identity_of(int process) {
    process_identity identity = {.boot = "?", .process = process, .start = start_of(process)};
    struct stat namespace;
    if (text_file_read("/proc/sys/kernel/random/boot_id", identity.boot, sizeof identity.boot))
        identity.boot[strcspn(identity.boot, "\n")] = '\0';
    if (stat("/proc/self/ns/pid", &namespace) == 0) identity.namespace = namespace.st_ino;
    return identity;
}

int process_identity_write(const process_identity *identity, char out[PROCESS_IDENTITY_TEXT_MAX]) {
    return snprintf(out, PROCESS_IDENTITY_TEXT_MAX, "%s %llu %d %llu", identity->boot, identity->namespace,
                    identity->process, identity->start);
}

bool process_identity_read(const char *text, process_identity *out) {
    return sscanf(text, "%39s %llu %d %llu", out->boot, &out->namespace, &out->process, &out->start) == 4;
}

bool process_identity_is_visible(const process_identity *identity) {
    const process_identity here = process_identity_of(identity->process);
    return strcmp(identity->boot, here.boot) == 0 && strcmp(here.boot, "?") != 0 &&
           identity->namespace == here.namespace && here.namespace != 0 && identity->process > 0;
}

bool process_identity_is_gone(const process_identity *identity) {
    if (!process_identity_is_visible(identity)) return false;
    if (kill(identity->process, 0) != 0) return errno == ESRCH;
    return identity->start != 0 && start_of(identity->process) != identity->start;
}
