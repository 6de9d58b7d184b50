/* doctor_checks.c — see doctor_checks.h. Tested by src/cli/miniray_test.c. */
#include "cli/doctor_checks.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <sched.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "cli/node_query.h"
#include "cli/text_table.h"
#include "miniray/admin.h"

#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434
#endif
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

enum {
    FILES_LEAST = 256,
    FILES_GOOD = 4096,
    PROCESSES_GOOD = 1024,
    FOLDER_LONGEST = 60, /* the path of a socket below this directory must fit into sockaddr_un */
};
#define MEGABYTE (INT64_C(1) << 20)

const char *doctor_check_state_name(doctor_check_state state) {
    static const char *const names[] = {
        [DOCTOR_CHECK_OK] = "ok", [DOCTOR_CHECK_WARN] = "warn", [DOCTOR_CHECK_FAIL] = "fail"};
    return names[state];
}

__attribute__((format(printf, 3, 4))) static void found(doctor_check_finding *finding, doctor_check_state state,
                                                        const char *format, ...) {
    va_list list;
    va_start(list, format);
    vsnprintf(finding->found, sizeof finding->found, format, list);
    va_end(list);
    finding->state = state;
}

/* Reads the first line of a file in /proc or /sys; false: it cannot be read. */
static bool read_line(const char *path, char *text, int size) {
    FILE *file = fopen(path, "re");
    if (file == NULL) return false;
    bool good = fgets(text, size, file) != NULL;
    fclose(file);
    return good;
}

/* A number of bytes from /proc/meminfo; -1: unknown. */
static int64_t memory_of(const char *key) {
    char line[128];
    long long kilobytes = -1;
    FILE *file = fopen("/proc/meminfo", "re");
    if (file == NULL) return -1;
    while (fgets(line, sizeof line, file) != NULL)
        if (strncmp(line, key, strlen(key)) == 0 && sscanf(line + strlen(key), ": %lld", &kilobytes) == 1) break;
    fclose(file);
    return kilobytes < 0 ? -1 : kilobytes * 1024;
}

typedef struct settings { /* values of options that checks need */
    int64_t arena_bytes;
    char spill_dir[PATH_MAX];
    char error[DOCTOR_CHECK_TEXT]; /* why the options are not valid; "": they are */
} settings;

/* ---- The kernel. */

static void check_kernel(doctor_check_finding *finding, const settings *settings) {
    struct utsname name;
    int major = 0, minor = 0;
    uname(&name);
    sscanf(name.release, "%d.%d", &major, &minor);
    bool good = major > 5 || (major == 5 && minor >= 14);
    found(finding, good ? DOCTOR_CHECK_OK : DOCTOR_CHECK_WARN, "%s %s, %s", name.sysname, name.release, name.machine);
}

static void check_memfd(doctor_check_finding *finding, const settings *settings) {
    int fd = memfd_create("miniray-doctor", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    bool good = fd >= 0 && fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) == 0;
    found(finding, good ? DOCTOR_CHECK_OK : DOCTOR_CHECK_FAIL, "%s",
          good ? "can be created and sealed" : strerror(errno));
    if (fd >= 0) close(fd);
}

static void check_pidfd(doctor_check_finding *finding, const settings *settings) {
    int fd = (int)syscall(SYS_pidfd_open, getpid(), 0);
    found(finding, fd >= 0 ? DOCTOR_CHECK_OK : DOCTOR_CHECK_WARN, "%s", fd >= 0 ? "works" : strerror(errno));
    if (fd >= 0) close(fd);
}

static void check_populate(doctor_check_finding *finding, const settings *settings) {
    size_t size = 4 * (size_t)sysconf(_SC_PAGESIZE);
    void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    bool good = memory != MAP_FAILED && madvise(memory, size, MADV_POPULATE_WRITE) == 0;
    found(finding, good ? DOCTOR_CHECK_OK : DOCTOR_CHECK_WARN, "%s", good ? "works" : strerror(errno));
    if (memory != MAP_FAILED) munmap(memory, size);
}

/* Whether the kernel has PAGEMAP_SCAN: for an argument that is too small it then returns EFAULT or EINVAL, else ENOTTY.
 */
static void check_pagemap(doctor_check_finding *finding, const settings *settings) {
    enum { PAGEMAP_SCAN_NUMBER = 16, PAGEMAP_SCAN_SIZE = 96 };
    int fd = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        found(finding, DOCTOR_CHECK_WARN, "/proc/self/pagemap: %s", strerror(errno));
        return;
    }
    char argument[PAGEMAP_SCAN_SIZE] = {0};
    int result = ioctl(fd, _IOC(_IOC_READ | _IOC_WRITE, 'f', PAGEMAP_SCAN_NUMBER, PAGEMAP_SCAN_SIZE), argument);
    bool known = result >= 0 || (errno != ENOTTY && errno != ENOSYS);
    close(fd);
    found(finding, known ? DOCTOR_CHECK_OK : DOCTOR_CHECK_WARN,
          known ? "works" : "missing in this kernel (6.7 and later have it)");
}

/* ---- Limits. */

static void write_limit(rlim_t limit, char *out, size_t size) {
    if (limit == RLIM_INFINITY)
        snprintf(out, size, "no limit");
    else
        snprintf(out, size, "%llu", (unsigned long long)limit);
}

static void check_limit(doctor_check_finding *finding, int which, rlim_t least, rlim_t good) {
    struct rlimit limit = {0};
    char soft[32], hard[32];
    getrlimit(which, &limit);
    write_limit(limit.rlim_cur, soft, sizeof soft);
    write_limit(limit.rlim_max, hard, sizeof hard);
    doctor_check_state state = limit.rlim_cur >= good    ? DOCTOR_CHECK_OK
                               : limit.rlim_cur >= least ? DOCTOR_CHECK_WARN
                                                         : DOCTOR_CHECK_FAIL;
    if (limit.rlim_cur == limit.rlim_max)
        found(finding, state, "%s", soft);
    else
        found(finding, state, "%s; may be raised to %s", soft, hard);
}

static void check_files(doctor_check_finding *finding, const settings *settings) {
    check_limit(finding, RLIMIT_NOFILE, FILES_LEAST, FILES_GOOD);
}
static void check_processes(doctor_check_finding *finding, const settings *settings) {
    check_limit(finding, RLIMIT_NPROC, 64, PROCESSES_GOOD);
}

static void check_address_space(doctor_check_finding *finding, const settings *settings) {
    rlim_t arena = (rlim_t)settings->arena_bytes;
    check_limit(finding, RLIMIT_AS, 3 * arena,
                8 * arena); /* the arena is mapped twice: for writing, and privately for reading */
}

/* ---- Memory. */

static doctor_check_state judge_memory(uint64_t available, uint64_t arena) {
    return available >= 2 * arena               ? DOCTOR_CHECK_OK
           : available >= arena + 64 * MEGABYTE ? DOCTOR_CHECK_WARN
                                                : DOCTOR_CHECK_FAIL;
}

static void check_memory(doctor_check_finding *finding, const settings *settings) {
    mr_memory memory;
    char have[32], want[32];
    mr_memory_get(&memory);
    snprintf(have, sizeof have, "%s", text_table_bytes((int64_t)memory.available));
    snprintf(want, sizeof want, "%s", text_table_bytes(settings->arena_bytes));
    found(finding, judge_memory(memory.available, (uint64_t)settings->arena_bytes),
          "%s available of %s; a node's shared memory is %s", have, text_table_bytes((int64_t)memory.total), want);
}

/* Whether a memory limit of a cgroup ends processes before the machine is out of memory. */
static void check_cgroup_memory(doctor_check_finding *finding, const settings *settings) {
    mr_memory memory;
    mr_memory_get(&memory);
    if (memory.total >= (uint64_t)memory_of("MemTotal"))
        found(finding, DOCTOR_CHECK_OK, "no limit");
    else
        found(finding, judge_memory(memory.total, (uint64_t)settings->arena_bytes), "at most %s for this container",
              text_table_bytes((int64_t)memory.total));
}

static void check_overcommit(doctor_check_finding *finding, const settings *settings) {
    char text[64] = "";
    bool known = read_line("/proc/sys/vm/overcommit_memory", text, sizeof text);
    long mode = known ? strtol(text, NULL, 10) : 0;
    found(finding, mode == 2 ? DOCTOR_CHECK_WARN : DOCTOR_CHECK_OK,
          mode == 2 ? "strict: memory is counted when it is mapped" : "memory is counted when it is used");
}

/* ---- CPUs. */

static int cpus_of_mask(void) {
    cpu_set_t allowed;
    return sched_getaffinity(0, sizeof allowed, &allowed) == 0 ? CPU_COUNT(&allowed)
                                                               : (int)sysconf(_SC_NPROCESSORS_ONLN);
}

static void check_cpus(doctor_check_finding *finding, const settings *settings) {
    int mine = cpus_of_mask();
    found(finding, mine >= 2 ? DOCTOR_CHECK_OK : DOCTOR_CHECK_WARN, "%d of %ld may be used", mine,
          sysconf(_SC_NPROCESSORS_ONLN));
}

/* A limit of a cgroup for which a node starts fewer workers than there are CPUs. */
static void check_cpu_limit(doctor_check_finding *finding, const settings *settings) {
    int workers = mr_num_cpus_default();
    if (workers >= cpus_of_mask())
        found(finding, DOCTOR_CHECK_OK, "no limit");
    else
        found(finding, workers >= 2 ? DOCTOR_CHECK_OK : DOCTOR_CHECK_WARN, "at most %d for this container", workers);
}

/* ---- Files. */

static const char *folder(void) {
    const char *names[] = {getenv("XDG_RUNTIME_DIR"), getenv("TMPDIR")};
    for (size_t i = 0; i < 2; i++)
        if (names[i] != NULL && names[i][0] != '\0') return names[i];
    return "/tmp";
}

/* Another user can make the directory of this user's nodes in /tmp first. */
static bool is_planted(const char *folder, char *path, size_t size) {
    struct stat stat;
    snprintf(path, size, "%s/miniray-%u", folder, (unsigned)geteuid());
    return lstat(path, &stat) == 0 && (!S_ISDIR(stat.st_mode) || stat.st_uid != geteuid());
}

static void check_folder(doctor_check_finding *finding, const settings *settings) {
    const char *path = folder();
    char planted[DOCTOR_CHECK_TEXT / 2], used[112];
    if (mr_sessions_dir(used) != MR_OK)
        found(finding, DOCTOR_CHECK_FAIL, "%s", mr_last_error());
    else if (access(path, W_OK | X_OK) != 0)
        found(finding, DOCTOR_CHECK_WARN, "%s: %s; nodes use %s", path, strerror(errno), used);
    else if (is_planted(path, planted, sizeof planted))
        found(finding, DOCTOR_CHECK_WARN, "%s is not a directory of this user; nodes use %s", planted, used);
    else if (strlen(path) > FOLDER_LONGEST)
        found(finding, DOCTOR_CHECK_WARN, "%s is %zu bytes long, paths of sockets need at most %d; nodes use %s", path,
              strlen(path), FOLDER_LONGEST, used);
    else
        found(finding, DOCTOR_CHECK_OK, "%s", path);
}

/* The directory of spilled objects and logs. */
static void check_disk(doctor_check_finding *finding, const settings *settings) {
    struct statvfs disk;
    char path[PATH_MAX];
    if (strcmp(settings->spill_dir, "none") == 0) {
        found(finding, DOCTOR_CHECK_OK, "objects are not spilled (spill_dir is none)");
        return;
    }
    snprintf(path, sizeof path, "%s", settings->spill_dir);
    if (path[0] == '\0' && mr_sessions_dir(path) == MR_OK && access(path, F_OK) != 0) *strrchr(path, '/') = '\0';
    if (statvfs(path, &disk) != 0) {
        found(finding, DOCTOR_CHECK_WARN, "%s: %s", path, strerror(errno));
        return;
    }
    int64_t free = (int64_t)disk.f_bavail * (int64_t)disk.f_frsize;
    doctor_check_state state = free >= settings->arena_bytes ? DOCTOR_CHECK_OK
                               : free >= 16 * MEGABYTE       ? DOCTOR_CHECK_WARN
                                                             : DOCTOR_CHECK_FAIL;
    found(finding, state, "%s free below %s", text_table_bytes(free), path);
}

static void check_sockets(doctor_check_finding *finding, const settings *settings) {
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0) {
        found(finding, DOCTOR_CHECK_FAIL, "%s", strerror(errno));
        return;
    }
    struct ucred who;
    socklen_t size = sizeof who;
    bool good = getsockopt(pair[0], SOL_SOCKET, SO_PEERCRED, &who, &size) == 0 && who.uid == geteuid();
    found(finding, good ? DOCTOR_CHECK_OK : DOCTOR_CHECK_FAIL,
          good ? "report the peer's user" : "do not report the peer's user");
    close(pair[0]);
    close(pair[1]);
}

static void check_proc(doctor_check_finding *finding, const settings *settings) {
    bool good = access("/proc/self/exe", X_OK) == 0;
    found(finding, good ? DOCTOR_CHECK_OK : DOCTOR_CHECK_FAIL, good ? "mounted" : "/proc/self/exe: %s",
          strerror(errno));
}

static void check_options(doctor_check_finding *finding, const settings *settings) {
    bool good = settings->error[0] == '\0';
    found(finding, good ? DOCTOR_CHECK_OK : DOCTOR_CHECK_FAIL, "%s", good ? "valid" : settings->error);
}

static void check_runs(doctor_check_finding *finding, const settings *settings) {
    mr_value all, row;
    if (mr_inspect_nodes(&all) != MR_OK) {
        found(finding, DOCTOR_CHECK_FAIL, "%s", mr_last_error());
        return;
    }
    mr_value nodes = node_query_field(&all, "nodes"), runs = node_query_field(&all, "runs");
    size_t stale = 0;
    for (mr_iter iter = mr_value_iter(&runs); mr_iter_next(&iter, &row);) {
        mr_value flag = node_query_field(&row, "stale");
        bool is_stale = false;
        if (mr_value_kind(&flag) == MR_KIND_BOOL && mr_value_bool(&flag, &is_stale) == MR_OK) stale += is_stale;
    }
    found(finding, stale > 0 ? DOCTOR_CHECK_WARN : DOCTOR_CHECK_OK,
          "%s running, %zu of %zu session director%s of killed nodes",
          text_table_count((int64_t)mr_value_count(&nodes), "node"), stale, mr_value_count(&runs),
          mr_value_count(&runs) == 1 ? "y" : "ies");
    mr_value_release(&all);
}

/* ---- List of checks. */

static const struct {
    const char *name;
    void (*check)(doctor_check_finding *finding, const settings *settings);
    const char *meaning, *mend;
} checks[] = {
    {"kernel", check_kernel, "Kernels older than 5.14 are not tested.", "use a newer kernel; Debian 12 has 6.1"},
    {"memfd", check_memfd, "No node starts: shared memory cannot be created.",
     "allow memfd_create (a seccomp profile of the container may forbid it)"},
    {"pidfd", check_pidfd, "Each process looks ten times a second whether those that it depends on still run.",
     "allow pidfd_open (a seccomp profile of the container may forbid it), or use Linux 5.3 or later"},
    {"populate", check_populate,
     "New shared memory causes page faults when it is first used, which slows down large objects.",
     "use Linux 5.14 or later"},
    {"pagemap scan", check_pagemap, "Releasing a view checks each of its pages, which is slow for large objects.",
     "use Linux 6.7 or later"},
    {"/proc", check_proc, "Workers cannot be started: they are started through /proc/self/exe.",
     "mount /proc in this container"},
    {"unix sockets", check_sockets, "Processes cannot join a node.", "allow sockets of AF_UNIX in this container"},
    {"open files", check_files, "A process needs one descriptor for each process that it is connected to.",
     "ulimit -n 4096, or LimitNOFILE= of the service"},
    {"processes", check_processes, "Workers may fail to start.", "ulimit -u 4096, or TasksMax= of the service"},
    {"address space", check_address_space, "The shared memory is mapped twice and may not fit.", "ulimit -v unlimited"},
    {"memory", check_memory, "A node's shared memory does not fit, or leaves too little for other processes.",
     "set MINIRAY_ARENA_BYTES to less than half of the available memory"},
    {"container memory", check_cgroup_memory,
     "Shared memory counts towards the limit; at the limit processes are killed.",
     "raise the limit, or set MINIRAY_ARENA_BYTES to less than half of it"},
    {"overcommit", check_overcommit, "Private views of shared memory count as used memory.",
     "sysctl vm.overcommit_memory=0"},
    {"CPUs", check_cpus, "Caller and worker share one CPU: each call costs two switches between them.",
     "allow more CPUs: taskset, or the container's cpuset"},
    {"container CPUs", check_cpu_limit, "Caller and worker together get the time of one CPU.",
     "raise the container's limit of CPUs"},
    {"session dir", check_folder,
     "A node's sockets and logs are not where XDG_RUNTIME_DIR or TMPDIR says, or at no place.",
     "set TMPDIR to a short path that this user can write to"},
    {"disk", check_disk, "There is little space for logs and for objects that are spilled from memory.",
     "free some space, or set MINIRAY_SPILL_DIR to a directory on another disk"},
    {"sessions", check_runs, "A node was killed and left its socket behind; its drivers have been notified.",
     "nothing to do: the next node that starts removes it"},
    {"options", check_options, "No node starts with an invalid option.", "`miniray config` shows the allowed values"},
};
_Static_assert(sizeof checks / sizeof *checks <= DOCTOR_CHECK_MAX, "checkup_finding arrays have room for every check");

static void keep(void *argument, const mr_config_option *option) {
    settings *settings = argument;
    char unit = 'B';
    double value = 0;
    if (strcmp(option->name, "spill_dir") == 0)
        snprintf(settings->spill_dir, sizeof settings->spill_dir, "%s", option->value);
    if (strcmp(option->name, "arena_bytes") != 0 || sscanf(option->value, "%lf%c", &value, &unit) < 1) return;
    double scale = unit == 'k' ? 1024 : unit == 'M' ? 1048576 : unit == 'G' ? 1073741824 : 1;
    settings->arena_bytes = (int64_t)(value * scale);
}

size_t doctor_check(doctor_check_finding findings[DOCTOR_CHECK_MAX]) {
    size_t count = sizeof checks / sizeof *checks;
    settings settings = {0};
    if (mr_config_each(NULL, keep, &settings) != MR_OK)
        snprintf(settings.error, sizeof settings.error, "%s", mr_last_error());
    if (settings.arena_bytes == 0) settings.arena_bytes = (int64_t)mr_store_bytes_default();
    for (size_t i = 0; i < count; i++) {
        findings[i] =
            (doctor_check_finding){.name = checks[i].name, .meaning = checks[i].meaning, .mend = checks[i].mend};
        checks[i].check(&findings[i], &settings);
    }
    return count;
}
