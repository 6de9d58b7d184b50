/* disk.h — durable files of one directory, through an operation table.
 *
 * A disk is one directory of plain files. Data is durable only after sync_data has returned MR_OK, a name only after
 * rename or remove has. A crash before that may keep any part of it: none, all, a torn write, a later write without an
 * earlier one. After a failed sync_data the writes since the last successful one are in an unknown state, and a second
 * sync_data does not repair them: the data must be written again, preferably into another file (disk_replace).
 *
 * The functions block for as long as the device takes. An event loop that serves others calls them sparingly.
 *
 * Backends: a directory of this machine (disk_open), the simulator (sim/sim_disk.h). */
#pragma once
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"
#include "miniray/status.h"

enum { DISK_PIECE = 1 << 20 }; /* bytes of a file that are written or read at once */
enum { DISK_NAME_MAX = 64 };   /* letters, digits, '.', '-', '_'; not beginning with '.' */

typedef struct disk_ops {
    const char *name;

    /* Reads up to `size` bytes at `offset`; *got is smaller only at the end of the file. MR_NOT_FOUND: no such file. */
    mr_status (*read)(void *self, const char *file, uint64_t offset, void *data, size_t size, size_t *got);
    mr_status (*size)(void *self, const char *file, uint64_t *out);

    /* Writes all bytes, or fails after any part of them. Creates a missing file; a gap reads as zeros. */
    mr_status (*write)(void *self, const char *file, uint64_t offset, span data);

    mr_status (*sync_data)(void *self, const char *file); /* a new file's name becomes durable by rename */

    /* Replaces `to` atomically and durably. After a failure the old or the new state may be in effect. */
    mr_status (*rename)(void *self, const char *from, const char *to);
    mr_status (*remove)(void *self, const char *file); /* MR_NOT_FOUND */
} disk_ops;

typedef struct disk { /* two words, passed by value */
    const disk_ops *ops;
    void *self;
} disk;

/* Creates a missing directory with mode 0700. */
MR_MUST mr_status disk_open(const char *folder, disk *out);
void disk_close(disk disk);

/* Locks the directory and a file of this name in it, until disk_close or the end of the process. The file stays; the
 * lock holds even if the file is removed. MR_BUSY: another process, or another disk of this process, has the lock; the
 * text names the process. Only for disks of disk_open.
 *
 * A directory on NFS is locked on the server, for all machines that mount it (not with the options nolock and
 * local_lock). Where the file system has no locks (Lustre without the option flock) the lock is a file that names its
 * owner (file_lock.h). */
MR_MUST mr_status disk_lock(disk disk, const char *file);

/* Replaces a whole file atomically: writes "<file>.new", syncs it, renames it. After a failure the file has its
 * complete old or complete new content. */
MR_MUST mr_status disk_replace(disk disk, const char *file, span data);

/* A file as a function that puts it, piece by piece: errors of the sink end it. */
typedef mr_status disk_put_fn(void *context, const byte_sink *out);

/* Same, for a file that `put` makes; at most DISK_PIECE bytes of it are in memory. `sync`: false in a mutation of the
 * simulator, which writes the file in its place. */
MR_MUST mr_status disk_replace_by(disk disk, const char *file, bool sync, disk_put_fn *put, void *context);
/* Compares a whole file of `size` bytes with one that `put` makes. MR_STALE: they differ. */
MR_MUST mr_status disk_compare(disk disk, const char *file, uint64_t size, disk_put_fn *put, void *context);

/* Reads a whole file of at most `limit` bytes and replaces the buffer's content. MR_NOT_FOUND, MR_TOO_LARGE. */
MR_MUST mr_status disk_read_all(disk disk, const char *file, size_t limit, buffer *out);

MR_MUST mr_status disk_check_name(const char *file); /* MR_INVALID */
