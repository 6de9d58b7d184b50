/* launch_spec.h — command line of a program's workers: executable, arguments, working directory and environment.
 *
 * A driver that joins a standalone node, or starts a private node with mr_options.worker or .fork, sends its arguments
 * and its environment of that moment; the node opens the executable and the working directory of the driver's process
 * as descriptors, so that replacing, removing or renaming them has no effect. Workers get their role by their
 * environment (boot.h), so the only argument is the first, the program's name, unless mr_options.worker has more.
 *
 * The executable of a process that runs under an emulator (qemu-user, Rosetta) is the emulator. It is recognized by its
 * machine, which is not this library's; workers are then started by the program's name, as a path.
 *
 * A launch spec travels in a sealed memfd: a private node inherits it, a standalone node gets its number in the driver
 * with NODE_JOIN, and opens it through /proc. So the only limit of an environment is the kernel's (at most 6 MB). */
#pragma once
#include <stdbool.h>

#include "base/bytes.h"
#include "miniray/status.h"

enum { LAUNCH_SPEC_BYTES_MAX = 8 * 1024 * 1024 };

typedef struct launch_spec {
    int executable_fd, folder_fd;    /* owned; -1: those of this process (a folder also if nobody may enter it) */
    bool emulated;                   /* `executable_fd` is an emulator: arguments[0] is the executable's path */
    void *bytes;                     /* owned: memory of the lists' texts */
    char **arguments, **environment; /* owned lists, ended by NULL */
    bool copied;                     /* workers are forked from a zygote started by this spec (zygote.h) */
    bool native;                     /* workers never reach `main`, and have the library's classes only */
} launch_spec;

/* Launch spec of this process in its present state. */
launch_spec *launch_spec_own(void);
/* Writes the launch spec of this process in its present state to a new sealed memfd, which the caller closes. Arguments
 * NULL: the program's name. MR_TOO_LARGE: more than LAUNCH_SPEC_BYTES_MAX. */
MR_MUST mr_status launch_spec_write(const char *const *arguments, bool copied, int *fd);
/* Reads the launch spec that process `pid` has written to this memfd. MR_CORRUPT; MR_IO: the process is gone. */
MR_MUST mr_status launch_spec_read(int fd, int pid, launch_spec **out);
/* The same for a memfd that is open in process `pid` as descriptor `number`. */
MR_MUST mr_status launch_spec_read_of(uint32_t number, int pid, launch_spec **out);
/* Decodes the bytes of such a memfd. */
MR_MUST mr_status launch_spec_decode(span bytes, int pid, launch_spec **out);
void launch_spec_destroy(launch_spec *spec); /* NULL is a no-op */
/* Whether the file is an executable for another machine than this library. */
bool launch_spec_is_foreign(const char *path);
