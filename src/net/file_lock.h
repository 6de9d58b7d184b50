/* file_lock.h — lock of a file for one process, with fallbacks for file systems without flock.
 *
 *   kind        where                                   ends
 *   ----------  --------------------------------------  ---------------------------------------------------------
 *   flock       nearly everywhere; NFS: for all machines  with the process
 *   OFD lock    flock fails with ENOSYS, EOPNOTSUPP or    with the process
 *               ENOLCK (Lustre, mounted without `flock`)
 *   owner file  fcntl fails likewise                      when the process releases it; after a kill, the next process
 *                                                         of the same machine takes it over
 *
 * All processes that lock a file must see the same file system, so that all of them use the same kind.
 *
 * The owner file, "<file>.owner", is created exclusively and names its machine and process (process_identity.h):
 *
 *   <host name> <identity of the process>
 *
 * A process of the same boot and namespace can check whether the owner lives. Any other process cannot, and gets
 * MR_BUSY with the advice to remove the file if the owner has ended: also after a reboot.
 *
 * Threads  none. */
#pragma once
#include "miniray/status.h"

enum { FILE_LOCK_NAME_MAX = 64 };

typedef enum file_lock_kind { FILE_LOCK_FLOCK, FILE_LOCK_OFD, FILE_LOCK_OWNER } file_lock_kind;

typedef struct file_lock {
    int fd;                                           /* owned; -1: not locked */
    int folder;                                       /* borrowed until file_lock_release */
    char owner[FILE_LOCK_NAME_MAX + sizeof ".owner"]; /* "": there is no owner file */
} file_lock;

/* Creates the file, which stays, and locks it; `first` is the first kind to be tried. MR_BUSY: another process, or
 * another lock of this process, has it; the text names the process. MR_IO. */
MR_MUST mr_status file_lock_take(int folder, const char *file, file_lock_kind first, file_lock *out);
void file_lock_release(file_lock *lock); /* no-op if `fd` is -1 */
