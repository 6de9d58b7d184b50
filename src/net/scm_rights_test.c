/* scm_rights_test.c — descriptors arrive with their bytes; descriptors without room are closed. */
#include "net/scm_rights.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/support/socket_end.h"

static void send_with(int socket, const int *fds, size_t count) {
    char byte = 0;
    struct iovec part = {.iov_base = &byte, .iov_len = 1};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    scm_rights rights;
    scm_rights_send(&message, &rights, fds, count);
    assert_int_equal(sendmsg(socket, &message, MSG_NOSIGNAL), 1);
}

static size_t receive(int socket, int *fds, size_t most) {
    char byte;
    struct iovec part = {.iov_base = &byte, .iov_len = 1};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    scm_rights rights;
    scm_rights_expect(&message, &rights);
    assert_int_equal(recvmsg(socket, &message, MSG_CMSG_CLOEXEC), 1);
    return scm_rights_take(&message, fds, most);
}

static bool same_file(int a, int b) {
    struct stat one, other;
    assert_int_equal(fstat(a, &one), 0);
    assert_int_equal(fstat(b, &other), 0);
    return one.st_ino == other.st_ino && one.st_dev == other.st_dev;
}

static void they_come_in_order(void **state) {
    int sockets[2], pipes[SCM_RIGHTS_MAX], got[SCM_RIGHTS_MAX];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets), 0);
    for (int i = 0; i < SCM_RIGHTS_MAX; i += 2) assert_int_equal(pipe(pipes + i), 0);
    for (size_t count = 0; count <= SCM_RIGHTS_MAX; count++) {
        send_with(sockets[0], pipes, count);
        assert_int_equal(receive(sockets[1], got, SCM_RIGHTS_MAX), count);
        for (size_t i = 0; i < count; i++) {
            assert_true(same_file(got[i], pipes[i]));
            close(got[i]);
        }
    }
    for (int i = 0; i < SCM_RIGHTS_MAX; i++) close(pipes[i]);
    close(sockets[0]);
    close(sockets[1]);
}

static void surplus_descriptors_are_closed(void **state) {
    int sockets[2], pipes[2], got[2] = {-1, -1};
    size_t before = open_fd_count();
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets), 0);
    assert_int_equal(pipe(pipes), 0);
    send_with(sockets[0], pipes, 2);
    assert_int_equal(receive(sockets[1], got, 1), 1);
    assert_true(same_file(got[0], pipes[0]));
    assert_int_equal(got[1], -1);
    close(got[0]);
    send_with(sockets[0], pipes, 2);
    assert_int_equal(receive(sockets[1], got, 0), 0);
    for (int i = 0; i < 2; i++) {
        close(sockets[i]);
        close(pipes[i]);
    }
    assert_int_equal(open_fd_count(), before);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(they_come_in_order),
        cmocka_unit_test(surplus_descriptors_are_closed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
