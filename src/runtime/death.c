/* death.c — see death.h. */
#include "runtime/death.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

void death_status_text(int wait_status, char *out, size_t size) {
    if (WIFSIGNALED(wait_status)) {
        const char *name = sigabbrev_np(WTERMSIG(wait_status));
        snprintf(out, size, "was killed by signal %d (SIG%s)", WTERMSIG(wait_status), name == NULL ? "?" : name);
    } else {
        snprintf(out, size, "exited with status %d", WEXITSTATUS(wait_status));
    }
}

static const char ORDERED[] = " by the node";

bool death_was_wished(const char *text) {
    size_t length = strlen(text), end = sizeof ORDERED - 1;
    return length >= end && strcmp(text + length - end, ORDERED) == 0;
}

/* The kernel says nothing but SIGKILL when it is short of memory. */
static const char *who(const death *death) {
    if (!WIFSIGNALED(death->wait_status) || WTERMSIG(death->wait_status) != SIGKILL) return "";
    if (death->ordered) return ORDERED;
    switch (death->memory) {
    case DEATH_MEMORY_OUT: return ", out of memory";
    case DEATH_MEMORY_UNKNOWN: return ", perhaps out of memory (dmesg shows the kernel's log)";
    case DEATH_MEMORY_ENOUGH: break;
    }
    return "";
}

void death_more_text(const death *death, char *out, size_t size) {
    bool spoke = death->last[0] != '\0', sentenced = death->ordered && death->sentence[0] != '\0';
    snprintf(out, size, "%s%s%s%s%s%s", who(death), sentenced ? ": " : "", sentenced ? death->sentence : "",
             spoke ? "; its last output: \"" : "", death->last, spoke ? "\"" : "");
}
