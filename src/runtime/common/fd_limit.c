/* fd_limit.c — see fd_limit.h. */
#include "runtime/common/fd_limit.h"

#include <sys/resource.h>

void fd_limit_raise(void) {
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= FD_LIMIT_WANTED) return;
    rlim_t wanted = limit.rlim_max < FD_LIMIT_WANTED ? limit.rlim_max : FD_LIMIT_WANTED;
    if (limit.rlim_cur >= wanted) return;
    limit.rlim_cur = wanted;
    setrlimit(RLIMIT_NOFILE, &limit);
}
