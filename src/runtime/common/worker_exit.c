/* worker_exit.c — see worker_exit.h. */
#include "runtime/common/worker_exit.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

static const char OUT_OF_MEMORY[] = ", out of memory";
static const char ORDERED[] = " by the node";

bool worker_exit_was_wished(const char *text) {
    size_t length = strlen(text), end = sizeof ORDERED - 1;
    return length >= end && strcmp(text + length - end, ORDERED) == 0;
}

/* Text about the sender of SIGKILL: the node, or perhaps the kernel, which gives no other sign when memory is short. */
static const char *who(const worker_exit *exit) {
    if (!WIFSIGNALED(exit->wait_status) || WTERMSIG(exit->wait_status) != SIGKILL) return "";
    if (exit->ordered) return ORDERED;
    switch (exit->memory) {
    case WORKER_EXIT_MEMORY_OUT: return OUT_OF_MEMORY;
    case WORKER_EXIT_MEMORY_UNKNOWN: return ", perhaps out of memory (dmesg shows the kernel's log)";
    case WORKER_EXIT_MEMORY_ENOUGH: break;
    }
    return "";
}

static void write_sizes(const worker_exit *exit, char *out, size_t size) {
    const double mb = 1 << 20;
    if (who(exit) == OUT_OF_MEMORY && exit->peak_bytes > 0)
        snprintf(out, size, ": it used %.0f MB at its peak, and the limit is %.0f MB", (double)exit->peak_bytes / mb,
                 (double)exit->limit_bytes / mb);
}

void worker_exit_more_text(const worker_exit *exit, char *out, size_t size) {
    char sizes[96] = "";
    write_sizes(exit, sizes, sizeof sizes);
    bool spoke = exit->last[0] != '\0', sentenced = exit->ordered && exit->sentence[0] != '\0';
    snprintf(out, size, "%s%s%s%s%s%s%s", who(exit), sizes, sentenced ? ": " : "", sentenced ? exit->sentence : "",
             spoke ? "; its last output: \"" : "", exit->last, spoke ? "\"" : "");
}
