/* node_discovery.c — see node_discovery.h and miniray/admin.h. */
#include "runtime/common/node_discovery.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/error.h"
#include "base/option_struct.h"
#include "net/pidfd.h"
#include "runtime/common/boot.h"
#include "runtime/common/node_options.h"
#include "runtime/common/session_dir.h"

enum { STOP_MS = 10 * 1000, KILL_MS = 5 * 1000 };

/* Connects to the process that listens at `path`. */
static mr_status reach(const char *path, int *out) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (fd < 0) return error_errno("cannot create a socket to the node at %s", path);
    if (connect(fd, (const void *)&address, sizeof address) == 0) {
        *out = fd;
        return MR_OK;
    }
    int why = errno;
    close(fd);
    if (why == ENOENT || why == ECONNREFUSED || why == ENOTDIR)
        return error_set(MR_NOT_FOUND, "no node is running at %s; `miniray start` starts one", path);
    if (why == EPROTOTYPE || why == ENOTSOCK) return error_set(MR_NOT_FOUND, "%s is not the socket of a node", path);
    errno = why;
    return error_errno("cannot connect to the node at %s", path);
}

mr_status node_discovery_find(const char *address, mr_node_info *out, pidfd *process) {
    char path[SESSION_DIR_MAX];
    int fd = -1;
    MR_TRY(session_dir_socket(address == NULL ? "auto" : address, path));
    MR_TRY(reach(path, &fd));
    struct ucred peer = {0};
    socklen_t size = sizeof peer;
    mr_status status = MR_OK;
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0)
        status = error_errno("cannot identify the process that listens at %s", path);
    else if (peer.uid != geteuid())
        status = error_set(MR_DENIED, "the node at %s (process %d) belongs to user %u, not to this user", path,
                           peer.pid, (unsigned)peer.uid);
    else if (process != NULL)
        status = pidfd_of_peer(fd, peer.pid, process);
    close(fd);
    if (status != MR_OK) return status;
    *out = (mr_node_info){.pid = peer.pid};
    snprintf(out->address, sizeof out->address, "%s", path);
    return MR_OK;
}

mr_status mr_node_start(const mr_node_options *options, mr_node_info *out) {
    static const mr_node_options none = MR_INIT(mr_node_options);
    mr_node_options copy;
    OPTION_STRUCT_READ(mr_node_options, num_cpus, options, copy);
    if (options == NULL) options = &none;
    boot_node told;
    mr_node_info there = {0};
    MR_TRY(node_options_read(options, "num_cpus", &told));
    told.lasting = true;
    char broker[SESSION_DIR_MAX];
    session_dir run;
    MR_TRY(session_dir_socket(options->address == NULL ? "auto" : options->address, broker));
    if (node_discovery_find(broker, &there, NULL) == MR_OK)
        return error_set(MR_EXISTS, "a node is already running at %s (process %d); `miniray stop` stops it", broker,
                         there.pid);
    error_clear();
    MR_TRY(session_dir_open(&run));
    pid_t pid;
    int lifeline_fd;
    mr_status status = boot_start_node(broker, run.path, &told, &pid, &lifeline_fd);
    if (status != MR_OK) {
        session_dir_close(&run);
        return status;
    }
    session_dir_leave(&run);
    MR_TRY(node_discovery_find(broker, &there, NULL));
    snprintf(there.folder, sizeof there.folder, "%s", run.path);
    if (out != NULL) *out = there;
    return MR_OK;
}

mr_status mr_node_stop(const char *address, mr_node_info *out) {
    mr_node_info node;
    pidfd process;
    MR_TRY(node_discovery_find(address, &node, &process));
    mr_status status = MR_OK;
    pidfd_signal(&process, SIGTERM);
    if (!pidfd_await(&process, STOP_MS)) {
        pidfd_signal(&process, SIGKILL);
        if (!pidfd_await(&process, KILL_MS))
            status = error_set(MR_TIMEOUT, "the node (process %d) did not end within %d s, nor %d s after SIGKILL",
                               node.pid, STOP_MS / 1000, KILL_MS / 1000);
    }
    pidfd_close(&process);
    if (status == MR_OK && out != NULL) *out = node;
    return status;
}
