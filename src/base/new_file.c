/* new_file.c — see new_file.h. */
#include "base/new_file.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"

int new_file_create(const char *path, mode_t mode) {
    const int flags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
    int fd = open(path, flags, mode);
    return fd < 0 && errno == EEXIST && unlink(path) == 0 ? open(path, flags, mode) : fd;
}

/* Checks the opened file, and empties it. */
static mr_status take(const char *path, int fd) {
    struct stat stat;
    if (fstat(fd, &stat) != 0) return error_errno("cannot stat %s", path);
    if (S_ISCHR(stat.st_mode)) return MR_OK;
    if (stat.st_uid != geteuid())
        return error_set(MR_DENIED, "%s belongs to user %u; remove it, or choose another path", path,
                         (unsigned)stat.st_uid);
    if (!S_ISREG(stat.st_mode)) return MR_OK;
    if (stat.st_nlink != 1)
        return error_set(MR_DENIED, "%s is a file with %u names; remove it, or choose another path", path,
                         (unsigned)stat.st_nlink);
    return ftruncate(fd, 0) == 0 ? MR_OK : error_errno("cannot empty %s", path);
}

mr_status new_file_open(const char *path, mode_t mode, int *fd) {
    /* O_NONBLOCK: a pipe that another user made would block. Files ignore it. */
    int opened = open(path, O_WRONLY | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, mode);
    if (opened < 0 && errno == ELOOP)
        return error_set(MR_DENIED, "%s is a symbolic link; remove it, or choose the path that it leads to", path);
    if (opened < 0) return error_errno("cannot create %s", path);
    (void)fcntl(opened, F_SETFL, 0); /* blocks while a pipe is full */
    mr_status status = take(path, opened);
    if (status == MR_OK)
        *fd = opened;
    else
        close(opened);
    return status;
}
