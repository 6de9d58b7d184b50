/* file_lock.c — see file_lock.h. */
#include "net/file_lock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/error.h"
#include "net/process_identity.h"

enum { OWNER_MAX = 400, TAKEN_MAX = FILE_LOCK_NAME_MAX + 32 };

static bool is_unsupported(int error) { return error == ENOSYS || error == EOPNOTSUPP || error == ENOLCK; }

/* ---- Locks of the kernel. The file has the process id of the holder, for the error of others. */

static mr_status locked_by_another(int fd, const char *file) {
    char text[16] = "";
    int process = pread(fd, text, sizeof text - 1, 0) > 0 ? atoi(text) : 0;
    if (process <= 0) return error_set(MR_BUSY, "'%s' is locked by another process", file);
    return error_set(MR_BUSY, "'%s' is locked by process %d", file, process);
}

static void write_holder(int fd) {
    char text[16];
    int size = snprintf(text, sizeof text, "%d\n", (int)getpid());
    if (ftruncate(fd, 0) == 0) (void)!pwrite(fd, text, (size_t)size, 0);
}

static int lock_fd(int fd, file_lock_kind kind) {
    struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    return kind == FILE_LOCK_FLOCK ? flock(fd, LOCK_EX | LOCK_NB) : fcntl(fd, F_OFD_SETLK, &whole);
}

/* *done: locked, or not; else the kernel has no such lock here. */
static mr_status lock_by_kernel(int fd, const char *file, file_lock_kind kind, bool *done) {
    *done = true;
    if (lock_fd(fd, kind) == 0) return MR_OK;
    if (errno == EWOULDBLOCK || errno == EACCES) return locked_by_another(fd, file);
    *done = !is_unsupported(errno);
    return *done ? error_errno("cannot lock '%s'", file) : MR_OK;
}

/* ---- The owner file. */

typedef struct owner {
    char host[256];
    process_identity process;
} owner;

static owner this_process(void) {
    owner own = {.host = "?", .process = process_identity_of((int)getpid())};
    if (gethostname(own.host, sizeof own.host - 1) != 0 || own.host[0] == '\0') strcpy(own.host, "?");
    return own;
}

static bool read_owner(int folder, const char *file, char text[OWNER_MAX]) {
    int fd = openat(folder, file, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    ssize_t size = fd < 0 ? -1 : read(fd, text, OWNER_MAX - 1);
    if (fd >= 0) close(fd);
    text[size < 0 ? 0 : size] = '\0';
    return size >= 0;
}

static bool parse_owner(const char *text, owner *out) {
    const char *process = strchr(text, ' ');
    return process != NULL && sscanf(text, "%255s", out->host) == 1 && process_identity_read(process, &out->process);
}

static mr_status owned_by_another(const char *file, const char *name, const char *text) {
    owner owner;
    if (!parse_owner(text, &owner))
        return error_set(MR_BUSY, "'%s' is locked by a process that '%s' does not name; remove '%s' if it has ended",
                         file, name, name);
    return error_set(MR_BUSY, "'%s' is locked by process %d of machine %s; if that process has ended, remove '%s'",
                     file, owner.process.process, owner.host, name);
}

/* Removes the owner file of a process that is gone. Of many processes that try, one renames the file. False: the file
 * is of another process meanwhile, and is put back. */
static bool remove_gone(int folder, const char *name, const char *judged) {
    char taken[TAKEN_MAX], text[OWNER_MAX];
    snprintf(taken, sizeof taken, "%s.%d", name, (int)getpid());
    if (renameat(folder, name, folder, taken) != 0) return errno == ENOENT;
    bool same = read_owner(folder, taken, text) && strcmp(text, judged) == 0;
    if (!same) (void)!linkat(folder, taken, folder, name, 0);
    (void)!unlinkat(folder, taken, 0);
    return same;
}

static mr_status write_owner(int fd, const char *name, const owner *own) {
    char process[PROCESS_IDENTITY_TEXT_MAX], text[OWNER_MAX];
    process_identity_write(&own->process, process);
    int size = snprintf(text, sizeof text, "%s %s\n", own->host, process);
    bool written = write(fd, text, (size_t)size) == size && fsync(fd) == 0;
    return written ? MR_OK : error_errno("cannot write '%s'", name);
}

static mr_status create_owner(int folder, const char *file, const char *name, const owner *own, bool *again) {
    char text[OWNER_MAX];
    owner owner;
    *again = false;
    int fd = openat(folder, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd >= 0) {
        mr_status status = write_owner(fd, name, own);
        close(fd);
        if (status != MR_OK) (void)!unlinkat(folder, name, 0);
        return status;
    }
    if (errno != EEXIST) return error_errno("cannot create '%s'", name);
    if (!read_owner(folder, name, text)) text[0] = '\0';
    *again = parse_owner(text, &owner) && process_identity_is_gone(&owner.process) && remove_gone(folder, name, text);
    return *again ? MR_OK : owned_by_another(file, name, text);
}

static mr_status lock_by_owner(const char *file, file_lock *lock) {
    const owner own = this_process();
    bool again = true;
    snprintf(lock->owner, sizeof lock->owner, "%s.owner", file);
    while (again) MR_TRY(create_owner(lock->folder, file, lock->owner, &own, &again));
    return MR_OK;
}

/* ---- All kinds. */

static mr_status lock_by_any(const char *file, file_lock_kind first, file_lock *lock) {
    bool done = false;
    for (file_lock_kind kind = first; !done && kind < FILE_LOCK_OWNER; kind++)
        MR_TRY(lock_by_kernel(lock->fd, file, kind, &done));
    return done ? MR_OK : lock_by_owner(file, lock);
}

mr_status file_lock_take(int folder, const char *file, file_lock_kind first, file_lock *out) {
    MR_ASSERT(strlen(file) <= FILE_LOCK_NAME_MAX);
    file_lock lock = {.folder = folder};
    lock.fd = openat(folder, file, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (lock.fd < 0) return error_errno("cannot open '%s'", file);
    mr_status status = lock_by_any(file, first, &lock);
    if (status != MR_OK) {
        close(lock.fd);
        return status;
    }
    write_holder(lock.fd);
    *out = lock;
    return MR_OK;
}

void file_lock_release(file_lock *lock) {
    if (lock->fd < 0) return;
    if (lock->owner[0] != '\0') (void)!unlinkat(lock->folder, lock->owner, 0);
    close(lock->fd);
    lock->fd = -1;
}
