/* shm_pipe_pair.c — see shm_pipe_pair.h. */
#include "tests/support/shm_pipe_pair.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

enum { WORDS_SIZE = 4096 };

void shm_pipe_pair_start(shm_pipe_pair *pair) {
    int fd = -1;
    assert_int_equal(shm_pipe_create(&pair->made, &fd), MR_OK);
    assert_false(shm_pipe_is_joined(pair->made));
    assert_int_equal(shm_pipe_join(fd, false, &pair->joined), MR_OK);
    assert_true(shm_pipe_is_joined(pair->made));
    pair->words = mmap(NULL, WORDS_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    assert_true(pair->words != MAP_FAILED);
    close(fd);
}

void shm_pipe_pair_stop(shm_pipe_pair *pair) {
    munmap(pair->words, WORDS_SIZE);
    shm_pipe_close(pair->made);
    shm_pipe_close(pair->joined);
}

size_t pipe_put(shm_pipe *pipe, const void *bytes, size_t size, bool *wake) {
    size_t moved;
    struct iovec piece = {(void *)(uintptr_t)bytes, size};
    assert_int_equal(shm_pipe_write(pipe, &piece, 1, &moved, wake), MR_OK);
    return moved;
}

size_t pipe_get(shm_pipe *pipe, void *bytes, size_t size, bool *wake) {
    size_t moved;
    struct iovec piece = {bytes, size};
    assert_int_equal(shm_pipe_read(pipe, &piece, 1, &moved, wake), MR_OK);
    return moved;
}
