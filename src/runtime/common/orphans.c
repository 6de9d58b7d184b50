/* orphans.c — see orphans.h. */
#include "runtime/common/orphans.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "base/text_file.h"

void orphans_end_group(pid_t leader) {
    if (kill(-leader, SIGKILL) != 0 && errno == ESRCH) kill(leader, SIGKILL); /* no group leader yet */
}

/* The session of a process; -1: the process has ended or is the reaper. The session is the fourth field after the name,
 * which may contain any character. */
static pid_t session_of(const char *pid) {
    char path[300], text[512];
    snprintf(path, sizeof path, "/proc/%s/stat", pid);
    if (!text_file_read(path, text, sizeof text) || strstr(text, "(" ORPHANS_SPARED ")") != NULL) return -1;
    const char *rest = strrchr(text, ')');
    int session;
    char state;
    return rest != NULL && sscanf(rest, ") %c %*d %*d %d", &state, &session) == 2 && state != 'Z' ? session : -1;
}

/* Makes several passes: each finds processes that were started during the one before. */
void orphans_end_session(pid_t session) {
    enum { LOOKS = 10 };
    bool found = true;
    for (int look = 0; found && look < LOOKS; look++) {
        DIR *folder = opendir("/proc");
        found = false;
        for (const struct dirent *entry; folder != NULL && (entry = readdir(folder)) != NULL;) {
            pid_t pid = (pid_t)atoi(entry->d_name);
            if (pid <= 0 || pid == session || session_of(entry->d_name) != session) continue;
            found |= kill(pid, SIGKILL) == 0;
        }
        if (folder != NULL) closedir(folder);
    }
}

int orphans_reap(pid_t child) {
    int status = 0;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {}
    return status;
}

void orphans_bury(pid_t node) {
    siginfo_t how = {0};
    while (waitid(P_PID, (id_t)node, &how, WEXITED | WNOWAIT) < 0 && errno == EINTR) {}
    if (how.si_pid == node && how.si_code != CLD_EXITED) orphans_end_session(node); /* while its pid is still valid */
    orphans_reap(node);
}
