/* reaper.c — see reaper.h. */
#include "runtime/node/reaper.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/libc.h"
#include "net/pidfd.h"
#include "net/unix_listener.h"
#include "runtime/common/boot.h"
#include "runtime/common/orphans.h"
#include "runtime/common/session_dir.h"

/* Blocks all signals: those of a terminal or of a system shutdown are for the parent, which then cleans up itself. */
static void be_left_alone(void) {
    sigset_t signals;
    sigfillset(&signals);
    sigprocmask(SIG_BLOCK, &signals, NULL);
    setpgid(0, 0);
    libc_close_from(0);
    int moved = chdir("/"); /* so that the reaper keeps no directory busy */
    (void)moved;
}

static void await_end(pid_t parent) {
    pidfd end;
    if (pidfd_of_pid(parent, &end) != MR_OK || getppid() != parent) return; /* it has ended already */
    (void)pidfd_await(&end, -1);
}

_Noreturn static void reap(pid_t parent, reaper_fn *fn, const void *context) {
    boot_hide();
    prctl(PR_SET_NAME, ORPHANS_SPARED);
    be_left_alone();
    await_end(parent);
    fn(parent, context);
    _exit(0);
}

pid_t reaper_open(reaper_fn *fn, const void *context) {
    pid_t parent = getpid(), reaper = fork();
    if (reaper == 0) reap(parent, fn, context);
    return reaper;
}

void reaper_close(pid_t reaper) {
    if (reaper <= 0 || waitpid(reaper, NULL, WNOHANG) != 0)
        return; /* it has ended: another process may have its number */
    kill(reaper, SIGKILL);
    orphans_reap(reaper);
}

void reaper_end_node(pid_t node, const void *context) {
    const reaper_node *files = context;
    orphans_end_session(node);
    unix_listener_clear(files->broker, SOCK_SEQPACKET, files->is_private);
    session_dir_clear(files->run);
}
