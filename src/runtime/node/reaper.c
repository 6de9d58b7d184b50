/* reaper.c — see reaper.h. */
#include "runtime/node/reaper.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "net/pidfd.h"
#include "net/unix_listener.h"
#include "runtime/common/boot.h"
#include "runtime/common/orphans.h"
#include "runtime/common/session_dir.h"

/* Blocks all signals: those of a terminal or of a system shutdown are for the node, which then cleans up itself. */
static void be_left_alone(void) {
    sigset_t signals;
    sigfillset(&signals);
    sigprocmask(SIG_BLOCK, &signals, NULL);
    setpgid(0, 0);
    closefrom(0);           /* by /proc/self/fd where the kernel has no close_range */
    int moved = chdir("/"); /* so that the reaper keeps no directory busy */
    (void)moved;
}

static void await_end(pid_t node) {
    pidfd end;
    if (pidfd_of_pid(node, &end) != MR_OK || getppid() != node) return; /* the node has ended already */
    (void)pidfd_await(&end, -1);
}

_Noreturn static void bury(pid_t node, const char *run, const char *broker, bool private) {
    boot_hide();
    prctl(PR_SET_NAME, ORPHANS_SPARED);
    be_left_alone();
    await_end(node);
    orphans_end_session(node);
    unix_listener_clear(broker, SOCK_SEQPACKET, private);
    session_dir_clear(run);
    _exit(0);
}

pid_t reaper_open(const char *run, const char *broker, bool private) {
    pid_t node = getpid(), reaper = fork();
    if (reaper == 0) bury(node, run, broker, private);
    return reaper;
}

void reaper_close(pid_t reaper) {
    if (reaper <= 0) return;
    kill(reaper, SIGKILL);
    orphans_reap(reaper);
}
