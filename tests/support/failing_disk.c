/* failing_disk.c — see failing_disk.h. */
#include "tests/support/failing_disk.h"

#include "base/error.h"

static mr_status fail(void) { return error_set(MR_IO, "the disk of a test fails"); }
static bool fails(failing_disk *failing) { return failing->countdown > 0 && --failing->countdown == 0; }

#define PASS(call)                                                           \
    do {                                                                     \
        failing_disk *failing = self;                                        \
        bool failed = fails(failing);                                        \
        if (failed) failing->countdown = 1; /* later operations fail, too */ \
        if (failed && !failing->after) return fail();                        \
        mr_status status = failing->real.ops->call;                          \
        if (failed && failing->after) failing->after = false;                \
        return failed ? fail() : status;                                     \
    } while (0)

static mr_status fail_read(void *self, const char *file, uint64_t offset, void *data, size_t size, size_t *got) {
    PASS(read(failing->real.self, file, offset, data, size, got));
}
static mr_status fail_size(void *self, const char *file, uint64_t *out) { PASS(size(failing->real.self, file, out)); }
static mr_status fail_write(void *self, const char *file, uint64_t offset, span data) {
    PASS(write(failing->real.self, file, offset, data));
}
static mr_status fail_sync(void *self, const char *file) {
    const failing_disk *options = self;
    if (options->unsynced && options->countdown == 0) return MR_OK;
    PASS(sync_data(failing->real.self, file));
}
static mr_status fail_rename(void *self, const char *from, const char *to) {
    PASS(rename(failing->real.self, from, to));
}
static mr_status fail_remove(void *self, const char *file) { PASS(remove(failing->real.self, file)); }

disk failing_disk_ops(failing_disk *failing) {
    static const disk_ops ops = {.name = "failing",
                                 .read = fail_read,
                                 .size = fail_size,
                                 .write = fail_write,
                                 .sync_data = fail_sync,
                                 .rename = fail_rename,
                                 .remove = fail_remove};
    return (disk){&ops, failing};
}
