/* node_end.c — see node_end.h. Tested by tests/python/test_node_end.py. */
#include "runtime/process/node_end.h"

#include <stdio.h>
#include <sys/stat.h>

#include "runtime/common/worker_exit.h"
#include "runtime/node/oom.h"

enum { LOG_MAX = 256 };

void node_end_init(node_end *end) {
    *end = (node_end){0};
    end->counts_oom = oom_count(&end->oom_count);
}

static worker_exit_memory look_at_memory(const node_end *end) {
    uint64_t count;
    if (!end->counts_oom || !oom_count(&count)) return WORKER_EXIT_MEMORY_UNKNOWN;
    return count > end->oom_count ? WORKER_EXIT_MEMORY_OUT : WORKER_EXIT_MEMORY_ENOUGH;
}

/* False: there is no log, or it is empty, and so is removed with the session. */
static bool find_log(const char *folder, char out[LOG_MAX]) {
    struct stat facts;
    snprintf(out, LOG_MAX, "%s/node.log", folder);
    return folder[0] != '\0' && stat(out, &facts) == 0 && facts.st_size > 0;
}

void node_end_text(const node_end *end, const cause *why, const char *folder, char *out, size_t size) {
    char memory[128] = "", log[LOG_MAX];
    if (why->signal != 0) {
        const worker_exit exit = {
            .wait_status = why->signal, .memory = look_at_memory(end), .sentence = "", .last = ""};
        worker_exit_more_text(&exit, memory, sizeof memory);
    }
    bool logged = find_log(folder, log);
    snprintf(out, size, "%s%s%s", memory, logged ? "; its log is " : "", logged ? log : "");
}
