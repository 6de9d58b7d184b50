/* init.c — mr_init and mr_shutdown: a private node for a program, or the life of a worker. */
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/config.h"
#include "base/error.h"
#include "net/pidfd.h"
#include "runtime/boot.h"
#include "runtime/context.h"
#include "runtime/serve.h"

enum { NODE_END_MS = 2000 };

extern char **environ;

static uint32_t cpu_count(void) {
    cpu_set_t allowed;
    int count = sched_getaffinity(0, sizeof allowed, &allowed) == 0 ? CPU_COUNT(&allowed) : 1;
    return count < 1 ? 1 : (uint32_t)count;
}

static mr_status read_options(const mr_options *options, boot_node *out) {
    static const mr_options none;
    if (options == NULL) options = &none;
    config config;
    MR_TRY(config_load(NULL, (const char *const *)environ, &config));
    config_apply(&config);
    if (options->num_workers < 0)
        return error_set(MR_INVALID, "num_workers is %d: 1 or more, or 0 for the CPUs", options->num_workers);
    memset(out, 0, sizeof *out);
    out->workers = options->num_workers == 0 ? cpu_count() : (uint32_t)options->num_workers;
    out->arena_bytes = options->store_bytes != 0 ? options->store_bytes : (uint64_t)config.arena_bytes;
    MR_TRY(resources_set(&out->total, "cpu", out->workers));
    MR_TRY(resources_set(&out->total, "gpu", options->num_gpus));
    return options->resources == NULL ? MR_OK : resources_parse(&out->total, options->resources);
}

/* A worker serves and is gone: mr_init does not return in it. */
static mr_status be_worker(void) {
    mr_context *mr;
    MR_TRY(context_open(boot_hub(), "", WIRE_WORKER, &mr));
    serve(mr);
    _exit(0); /* the node is gone, or done with us: nobody waits for anything of this process */
}

static void end_node(int pid, int lifeline_fd) {
    close(lifeline_fd);
    int pidfd;
    if (pidfd_of_child(pid, &pidfd) == MR_OK) {
        struct pollfd wait = {.fd = pidfd, .events = POLLIN};
        if (poll(&wait, 1, NODE_END_MS) == 0) kill(pid, SIGKILL);
        close(pidfd);
    }
    while (waitpid(pid, NULL, 0) < 0 && errno == EINTR) {}
}

mr_status mr_init(const mr_options *options, mr_context **out) {
    if (boot_role_now() == BOOT_WORKER) {
        mr_status status = be_worker();
        fprintf(stderr, "miniray: this worker could not join: %s\n", mr_last_error());
        _exit(status == MR_OK ? 0 : 1);
    }
    boot_node told;
    MR_TRY(read_options(options, &told));
    const char *base = getenv("TMPDIR");
    char folder[96], hub[112];
    snprintf(folder, sizeof folder, "%s/miniray-XXXXXX", base != NULL && strlen(base) < 60 ? base : "/tmp");
    if (mkdtemp(folder) == NULL) return error_errno("no folder %s for the runtime", folder);
    snprintf(hub, sizeof hub, "%s/hub", folder);
    pid_t pid;
    int lifeline_fd;
    mr_context *mr;
    mr_status status = boot_start_node(hub, &told, &pid, &lifeline_fd);
    if (status != MR_OK) goto remove_folder;
    status = context_open(hub, "", WIRE_DRIVER, &mr);
    if (status != MR_OK) goto end_node;
    mr->node_pid = pid;
    mr->lifeline_fd = lifeline_fd;
    snprintf(mr->folder, sizeof mr->folder, "%s", folder);
    *out = mr;
    return MR_OK;

end_node:
    end_node(pid, lifeline_fd);
remove_folder:
    unlink(hub);
    rmdir(folder);
    return status;
}

void mr_shutdown(mr_context *mr) {
    if (mr == NULL) return;
    int pid = mr->node_pid, lifeline_fd = mr->lifeline_fd;
    char folder[sizeof mr->folder], hub[sizeof mr->folder + 8];
    memcpy(folder, mr->folder, sizeof folder);
    snprintf(hub, sizeof hub, "%s/hub", folder);
    context_close(mr);
    end_node(pid, lifeline_fd);
    unlink(hub); /* the node did it, unless it was killed */
    rmdir(folder);
}
