/* concurrent_bodies.c — see concurrent_bodies.h. */
#include "tests/support/concurrent_bodies.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/support/temp_dir.h"

enum { LOOK_US = 1000, ALONE_US = 5000 };

mr_status concurrent_path(mr_call *call, char out[CONCURRENT_PATH_MAX]) {
    mr_span text;
    MR_TRY(mr_arg_str(call, 0, &text));
    snprintf(out, CONCURRENT_PATH_MAX, "%.*s", (int)text.size, (const char *)text.data);
    return MR_OK;
}

mr_status concurrent_others(mr_call *call) {
    char folder[CONCURRENT_PATH_MAX], path[CONCURRENT_PATH_MAX + 16];
    int64_t count;
    MR_TRY(concurrent_path(call, folder));
    MR_TRY(mr_arg_int(call, 1, &count));
    snprintf(path, sizeof path, "%s/%d", folder, (int)getpid());
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0) return MR_IO;
    close(fd);
    while (temp_dir_entries(folder) < (size_t)count + 2) usleep(LOOK_US);
    return mr_return(call, mr_int(getpid()));
}

void concurrent_clear(const char *folder, const int64_t *processes, size_t count) {
    char path[CONCURRENT_PATH_MAX + 16];
    for (size_t i = 0; i < count; i++) {
        snprintf(path, sizeof path, "%s/%d", folder, (int)processes[i]);
        assert_int_equal(unlink(path), 0);
    }
}

mr_status concurrent_nobody(mr_call *call) {
    char folder[CONCURRENT_PATH_MAX], path[CONCURRENT_PATH_MAX + 16];
    MR_TRY(concurrent_path(call, folder));
    snprintf(path, sizeof path, "%s/alone", folder);
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0) return mr_fail(call, "another one runs at the same time");
    close(fd);
    usleep(ALONE_US);
    unlink(path);
    return MR_OK;
}
