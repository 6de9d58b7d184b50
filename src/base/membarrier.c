/* membarrier.c — see membarrier.h. */
#include "base/membarrier.h"

#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/libc.h"

static bool ask(int command) { return syscall(SYS_membarrier, command, 0, 0) == 0; }

bool membarrier_register_is_quick(void) { return libc_has_one_thread(); }

bool membarrier_register(void) { return ask(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED); }

void membarrier_heavy(void) {
    bool done = ask(MEMBARRIER_CMD_PRIVATE_EXPEDITED);
    MR_ASSERT(done); /* fails only in a process that has not registered */
}
