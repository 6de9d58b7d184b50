/* duct_pair.c — see duct_pair.h. */
#include "tests/support/duct_pair.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

enum { WORDS_SIZE = 4096 };

void duct_pair_start(duct_pair *pair) {
    int fd = -1;
    assert_int_equal(duct_create(&pair->made, &fd), MR_OK);
    assert_false(duct_is_joined(pair->made));
    assert_int_equal(duct_join(fd, false, &pair->joined), MR_OK);
    assert_true(duct_is_joined(pair->made));
    pair->words = mmap(NULL, WORDS_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    assert_true(pair->words != MAP_FAILED);
    close(fd);
}

void duct_pair_stop(duct_pair *pair) {
    munmap(pair->words, WORDS_SIZE);
    duct_close(pair->made);
    duct_close(pair->joined);
}

size_t duct_put(duct *duct, const void *bytes, size_t size, bool *wake) {
    size_t moved;
    struct iovec piece = {(void *)(uintptr_t)bytes, size};
    assert_int_equal(duct_write(duct, &piece, 1, &moved, wake), MR_OK);
    return moved;
}

size_t duct_get(duct *duct, void *bytes, size_t size, bool *wake) {
    size_t moved;
    struct iovec piece = {bytes, size};
    assert_int_equal(duct_read(duct, &piece, 1, &moved, wake), MR_OK);
    return moved;
}
