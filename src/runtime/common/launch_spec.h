/* launch_spec.h — command line of a program's workers: executable, arguments, working directory and environment.
 *
 * A driver that joins a standalone node, or starts a private node with mr_options.worker or .fork, sends its arguments
 * and its environment of that moment; the node opens the executable and the working directory of the driver's process
 * as descriptors, so that replacing, removing or renaming them has no effect. Workers get their role by their
 * environment (boot.h), so the only argument is the first, the program's name, unless mr_options.worker has more. */
#pragma once
#include <stdbool.h>

#include "base/bytes.h"
#include "miniray/status.h"

enum { LAUNCH_SPEC_BYTES_MAX = 192 * 1024 };

typedef struct launch_spec {
    int executable_fd, folder_fd;    /* owned; -1: those of this process */
    void *bytes;                     /* owned: memory of the lists' texts */
    char **arguments, **environment; /* owned lists, ended by NULL */
    bool copied;                     /* workers are forked from a zygote started by this spec (zygote.h) */
    bool native;                     /* workers never reach `main`, and have the library's classes only */
} launch_spec;

/* Launch spec of this process in its present state. */
launch_spec *launch_spec_own(void);
/* The bytes for launch_spec_decode, in memory that the caller frees. Arguments NULL: the program's name. MR_TOO_LARGE:
 * more than LAUNCH_SPEC_BYTES_MAX. */
MR_MUST mr_status launch_spec_encode(const char *const *arguments, bool copied, span *out);
/* Decodes the bytes sent by process `pid`. MR_CORRUPT; MR_PEER_DIED: the process is gone. */
MR_MUST mr_status launch_spec_decode(reader *reader, int pid, launch_spec **out);
void launch_spec_destroy(launch_spec *spec); /* NULL is a no-op */
