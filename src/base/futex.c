/* futex.c — see futex.h. */
#include "base/futex.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static int operation(int what, futex_reach reach) { return reach == FUTEX_WITHIN ? what | FUTEX_PRIVATE_FLAG : what; }

void futex_wait(_Atomic uint32_t *word, uint32_t seen, int64_t timeout_us, futex_reach reach) {
    struct timespec timeout = {.tv_sec = timeout_us / 1000000, .tv_nsec = timeout_us % 1000000 * 1000};
    syscall(SYS_futex, word, operation(FUTEX_WAIT, reach), seen, timeout_us < 0 ? NULL : &timeout, NULL, 0);
}

void futex_wake(_Atomic uint32_t *word, futex_reach reach) {
    syscall(SYS_futex, word, operation(FUTEX_WAKE, reach), 1, NULL, NULL, 0);
}
