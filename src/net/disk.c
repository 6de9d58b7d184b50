/* disk.c — see disk.h. The backend for a directory of this machine. */
#include "net/disk.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"
#include "net/file_lock.h"

typedef struct folder {
    int fd;
    uid_t owner;
    file_lock lock;
} folder;

_Static_assert((int)DISK_NAME_MAX <= (int)FILE_LOCK_NAME_MAX, "every file can be a lock");

mr_status disk_check_name(const char *file) {
    static const char allowed[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789.-_";
    MR_ASSERT(file != NULL);
    size_t length = strnlen(file, DISK_NAME_MAX + 1);
    if (length == 0 || length > DISK_NAME_MAX || file[0] == '.' || strspn(file, allowed) != length)
        return error_set(MR_INVALID, "invalid file name '%.80s': expected 1 to %d letters, digits, '.', '-', '_'", file,
                         DISK_NAME_MAX);
    return MR_OK;
}

static mr_status missing(const char *file) { return error_set(MR_NOT_FOUND, "file '%s' does not exist", file); }

/* A file belongs to this user, to root, or to the directory's owner, who could replace it anyway. (A file system of the
 * network may map all users to one.) */
static mr_status check_owner(const folder *folder, const char *file, int fd) {
    struct stat stat;
    if (fstat(fd, &stat) != 0) return error_errno("cannot stat '%s'", file);
    if (!S_ISREG(stat.st_mode)) return error_set(MR_DENIED, "'%s' is not a regular file; remove it", file);
    if (stat.st_uid == geteuid() || stat.st_uid == 0 || stat.st_uid == folder->owner) return MR_OK;
    return error_set(MR_DENIED, "'%s' belongs to user %u, and the directory to user %u; use a directory of this user",
                     file, (unsigned)stat.st_uid, (unsigned)folder->owner);
}

/* Opens the file; the caller closes the descriptor. */
static mr_status open_file(const folder *folder, const char *file, int flags, int *out) {
    MR_TRY(disk_check_name(file));
    int fd = openat(folder->fd, file, flags | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
    if (fd < 0 && errno == ELOOP)
        return error_set(MR_DENIED, "'%s' is a symbolic link, which another user may have put there; remove it", file);
    if (fd < 0) return errno == ENOENT ? missing(file) : error_errno("cannot open '%s'", file);
    mr_status status = check_owner(folder, file, fd);
    if (status != MR_OK)
        close(fd);
    else
        *out = fd;
    return status;
}

static mr_status folder_read(void *self, const char *file, uint64_t offset, void *data, size_t size, size_t *got) {
    int fd = -1;
    MR_TRY(open_file(self, file, O_RDONLY, &fd));
    size_t done = 0;
    mr_status status = MR_OK;
    while (done < size) {
        ssize_t part = pread(fd, (uint8_t *)data + done, size - done, (off_t)(offset + done));
        if (part < 0 && errno == EINTR) continue;
        if (part < 0) status = error_errno("cannot read '%s'", file);
        if (part <= 0) break;
        done += (size_t)part;
    }
    close(fd);
    if (status == MR_OK) *got = done;
    return status;
}

static mr_status folder_size(void *self, const char *file, uint64_t *out) {
    int fd = -1;
    MR_TRY(open_file(self, file, O_RDONLY, &fd));
    struct stat about;
    mr_status status = fstat(fd, &about) == 0 ? MR_OK : error_errno("cannot get the size of '%s'", file);
    close(fd);
    if (status == MR_OK) *out = (uint64_t)about.st_size;
    return status;
}

static mr_status write_all(int fd, const char *file, uint64_t offset, span data) {
    for (size_t done = 0; done < data.size;) {
        ssize_t part = pwrite(fd, data.data + done, data.size - done, (off_t)(offset + done));
        if (part < 0 && errno == EINTR) continue;
        if (part < 0) return error_errno("cannot write '%s'", file);
        done += (size_t)part;
    }
    return MR_OK;
}

static mr_status folder_write(void *self, const char *file, uint64_t offset, span data) {
    int fd = -1;
    MR_TRY(open_file(self, file, O_WRONLY | O_CREAT, &fd));
    mr_status status = write_all(fd, file, offset, data);
    close(fd);
    return status;
}

/* Syncs the directory, which makes file names durable. */
static mr_status sync_names(const folder *folder, const char *file) {
    return fsync(folder->fd) == 0 ? MR_OK : error_errno("cannot sync the directory of '%s'", file);
}

static mr_status folder_sync_data(void *self, const char *file) {
    int fd = -1;
    MR_TRY(open_file(self, file, O_WRONLY, &fd));
    mr_status status = fdatasync(fd) == 0 ? MR_OK : error_errno("cannot sync '%s'", file);
    close(fd);
    return status;
}

static mr_status folder_rename(void *self, const char *from, const char *to) {
    folder *folder = self;
    MR_TRY(disk_check_name(from));
    MR_TRY(disk_check_name(to));
    if (renameat(folder->fd, from, folder->fd, to) != 0)
        return errno == ENOENT ? missing(from) : error_errno("cannot rename '%s' to '%s'", from, to);
    return sync_names(folder, to);
}

static mr_status folder_remove(void *self, const char *file) {
    folder *folder = self;
    MR_TRY(disk_check_name(file));
    if (unlinkat(folder->fd, file, 0) != 0)
        return errno == ENOENT ? missing(file) : error_errno("cannot remove '%s'", file);
    return sync_names(folder, file);
}

static const disk_ops folder_ops = {
    .name = "folder",
    .read = folder_read,
    .size = folder_size,
    .write = folder_write,
    .sync_data = folder_sync_data,
    .rename = folder_rename,
    .remove = folder_remove,
};

mr_status disk_open(const char *path, disk *out) {
    if (mkdir(path, 0700) != 0 && errno != EEXIST) return error_errno("cannot create the directory '%s'", path);
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return error_errno("cannot open the directory '%s'", path);
    struct stat stat;
    if (fstat(fd, &stat) != 0) {
        mr_status status = error_errno("cannot stat the directory '%s'", path);
        close(fd);
        return status;
    }
    *out = (disk){&folder_ops, XNEW(folder, .fd = fd, .owner = stat.st_uid, .lock.fd = -1)};
    return MR_OK;
}

void disk_close(disk disk) {
    MR_ASSERT(disk.ops == &folder_ops);
    folder *folder = disk.self;
    file_lock_release(&folder->lock);
    close(folder->fd);
    free(folder);
}

/* The file may be removed while it is locked; the directory's own lock outlives that. Where directories have no locks
 * (NFS), the file's must do. */
static mr_status lock_directory(const folder *folder, const char *file) {
    if (flock(folder->fd, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) return MR_OK;
    return error_set(MR_BUSY, "the directory is locked by another process, and its '%s' was removed or replaced", file);
}

mr_status disk_lock(disk disk, const char *file) {
    MR_ASSERT(disk.ops == &folder_ops);
    folder *folder = disk.self;
    int fd = -1;
    MR_ASSERT(folder->lock.fd < 0);
    MR_TRY(open_file(folder, file, O_RDWR | O_CREAT, &fd)); /* checks the name, the owner and the kind of the file */
    close(fd);
    MR_TRY(file_lock_take(folder->fd, file, FILE_LOCK_FLOCK, &folder->lock));
    mr_status status = lock_directory(folder, file);
    if (status != MR_OK) file_lock_release(&folder->lock);
    return status;
}

static mr_status name_fresh(const char *file, char fresh[DISK_NAME_MAX + 1]) {
    int length = snprintf(fresh, DISK_NAME_MAX + 1, "%s.new", file);
    if (length >= 0 && length <= DISK_NAME_MAX) return MR_OK;
    return error_set(MR_INVALID, "file name '%.80s' is too long", file);
}

static mr_status remove_old(disk disk, const char *file) {
    mr_status status = disk.ops->remove(disk.self, file);
    return status == MR_NOT_FOUND ? MR_OK : status;
}

/* The new file is removed first, because a longer one left by an earlier failure would keep its tail. */
mr_status disk_replace(disk disk, const char *file, span data) {
    char fresh[DISK_NAME_MAX + 1];
    MR_TRY(name_fresh(file, fresh));
    MR_TRY(remove_old(disk, fresh));
    MR_TRY(disk.ops->write(disk.self, fresh, 0, data));
    MR_TRY(disk.ops->sync_data(disk.self, fresh));
    return disk.ops->rename(disk.self, fresh, file);
}

/* ---- Files in pieces. */

typedef struct window { /* the piece of a file that is being written or compared */
    disk disk;
    const char *file;
    uint64_t at, size; /* at: place of the piece in the file; size: of the file that is compared */
    size_t used;       /* bytes of the piece that are written, or compared */
    buffer piece;
} window;

static mr_status write_piece(window *window) {
    mr_status status =
        window->disk.ops->write(window->disk.self, window->file, window->at, span_of(window->piece.data, window->used));
    window->at += window->used;
    window->used = 0;
    return status;
}

static mr_status put_piece(void *context, span bytes) {
    window *window = context;
    while (bytes.size != 0) {
        size_t size = DISK_PIECE - window->used < bytes.size ? DISK_PIECE - window->used : bytes.size;
        memcpy(window->piece.data + window->used, bytes.data, size);
        window->used += size;
        bytes = span_of(bytes.data + size, bytes.size - size);
        if (window->used == DISK_PIECE) MR_TRY(write_piece(window));
    }
    return MR_OK;
}

static mr_status write_pieces(window *window, disk_put_fn *put, void *context) {
    MR_TRY(buffer_reserve(&window->piece, DISK_PIECE));
    MR_TRY(put(context, &(byte_sink){put_piece, window}));
    return window->used != 0 || window->at == 0 ? write_piece(window) : MR_OK;
}

mr_status disk_replace_by(disk disk, const char *file, bool sync, disk_put_fn *put, void *context) {
    char fresh[DISK_NAME_MAX + 1];
    MR_TRY(name_fresh(file, fresh));
    window window = {.disk = disk, .file = sync ? fresh : file};
    MR_TRY(remove_old(disk, window.file));
    buffer_init(&window.piece, DISK_PIECE);
    mr_status status = write_pieces(&window, put, context);
    buffer_fini(&window.piece);
    if (status != MR_OK || !sync) return status;
    MR_TRY(disk.ops->sync_data(disk.self, fresh));
    return disk.ops->rename(disk.self, fresh, file);
}

/* Reads the next piece when all of the last one was compared. */
static mr_status read_piece(window *window) {
    size_t got = 0;
    window->at += window->piece.size;
    uint64_t left = window->size - window->at;
    size_t size = left < DISK_PIECE ? (size_t)left : DISK_PIECE;
    if (size == 0) return MR_STALE;
    MR_TRY(window->disk.ops->read(window->disk.self, window->file, window->at, window->piece.data, size, &got));
    window->piece.size = got;
    window->used = 0;
    return got == size ? MR_OK : MR_STALE;
}

static mr_status compare_piece(void *context, span bytes) {
    window *window = context;
    while (bytes.size != 0) {
        if (window->used == window->piece.size) MR_TRY(read_piece(window));
        size_t left = window->piece.size - window->used, size = left < bytes.size ? left : bytes.size;
        if (memcmp(window->piece.data + window->used, bytes.data, size) != 0) return MR_STALE;
        window->used += size;
        bytes = span_of(bytes.data + size, bytes.size - size);
    }
    return MR_OK;
}

mr_status disk_compare(disk disk, const char *file, uint64_t size, disk_put_fn *put, void *context) {
    window window = {.disk = disk, .file = file, .size = size};
    uint64_t found;
    MR_TRY(disk.ops->size(disk.self, file, &found));
    if (found != size) return MR_STALE;
    buffer_init(&window.piece, DISK_PIECE);
    mr_status status = buffer_reserve(&window.piece, DISK_PIECE);
    if (status == MR_OK) status = put(context, &(byte_sink){compare_piece, &window});
    if (status == MR_OK && window.at + window.used != size) status = MR_STALE;
    buffer_fini(&window.piece);
    return status;
}

mr_status disk_read_all(disk disk, const char *file, size_t limit, buffer *out) {
    uint64_t size;
    MR_TRY(disk.ops->size(disk.self, file, &size));
    if (size > limit)
        return error_set(MR_TOO_LARGE, "cannot read '%s': it has %llu bytes, and the limit is %zu", file,
                         (unsigned long long)size, limit);
    buffer_clear(out);
    MR_TRY(buffer_reserve(out, (size_t)size));
    size_t got = 0;
    MR_TRY(disk.ops->read(disk.self, file, 0, out->data, (size_t)size, &got));
    if (got != size) return error_set(MR_CORRUPT, "'%s' became shorter while it was read", file);
    out->size = got;
    return MR_OK;
}
