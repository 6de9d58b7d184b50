/* fd_packet.c — see fd_packet.h. */
#include "net/shm/fd_packet.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"

fd_packet_result fd_packet_receive(int socket, fd_packet *out) {
    for (bool reset = false;;) {
        scm_rights rights;
        struct iovec part = {.iov_base = out->data, .iov_len = sizeof out->data};
        struct msghdr header = {.msg_iov = &part, .msg_iovlen = 1};
        scm_rights_expect(&header, &rights);
        out->fd_count = 0;
        ssize_t got = recvmsg(socket, &header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return FD_PACKET_NONE;
        /* The kernel first reports that a peer closed without reading everything; the packets follow. */
        if (got < 0 && errno == ECONNRESET && !reset) {
            reset = true;
            continue;
        }
        if (got < 0) return FD_PACKET_END;
        out->fd_count = scm_rights_take(&header, out->fds, SCM_RIGHTS_MAX);
        out->size = header.msg_flags & MSG_TRUNC ? sizeof out->data : (size_t)got;
        out->cut = (header.msg_flags & MSG_CTRUNC) != 0;
        if (got > 0) return FD_PACKET_OK;
        fd_packet_drop(out);
        return FD_PACKET_END;
    }
}

int fd_packet_take_fd(fd_packet *packet) {
    if (packet->fd_count != 1) return -1;
    packet->fd_count = 0;
    return packet->fds[0];
}

void fd_packet_drop(fd_packet *packet) {
    while (packet->fd_count > 0) close(packet->fds[--packet->fd_count]);
}

int fd_packet_send(int socket, const broker_wire *message, int fd) {
    struct iovec part = {.iov_len = message->head.size};
    memcpy(&part.iov_base, &(const void *){message}, sizeof part.iov_base); /* sendmsg does not write */
    scm_rights rights;
    struct msghdr header = {.msg_iov = &part, .msg_iovlen = 1};
    scm_rights_send(&header, &rights, &fd, fd >= 0 ? 1 : 0);
    if (TEMP_FAILURE_RETRY(sendmsg(socket, &header, MSG_DONTWAIT | MSG_NOSIGNAL)) >= 0) return 0;
    return errno == EWOULDBLOCK ? EAGAIN : errno;
}

/* ---- The queue. */

typedef struct fd_packet_queued {
    struct fd_packet_queued *next;
    int fd; /* owned */
    broker_wire message;
} fd_packet_queued;

static bool is_asking(const broker_wire *message) {
    broker_wire_kind kind = message->head.kind;
    return kind != BROKER_WIRE_GONE && kind != BROKER_WIRE_CLOSE && kind != BROKER_WIRE_RELEASE;
}

void fd_packet_queue_init(fd_packet_queue *queue) { *queue = (fd_packet_queue){.last = &queue->first}; }

static void drop_first(fd_packet_queue *queue) {
    fd_packet_queued *first = queue->first;
    queue->first = first->next;
    if (queue->first == NULL) queue->last = &queue->first;
    queue->count--;
    if (is_asking(&first->message)) queue->askings--;
    if (first->fd >= 0) close(first->fd);
    free(first);
}

void fd_packet_queue_fini(fd_packet_queue *queue) {
    while (queue->first != NULL) drop_first(queue);
}

int fd_packet_queue_add(fd_packet_queue *queue, const broker_wire *message, int fd, size_t askings_max) {
    if (is_asking(message) && queue->askings >= askings_max) return ENOBUFS;
    int copy = -1;
    if (fd >= 0 && (copy = fcntl(fd, F_DUPFD_CLOEXEC, 0)) < 0) return errno;
    fd_packet_queued *item = XNEW(fd_packet_queued, .fd = copy, .message = *message);
    *queue->last = item;
    queue->last = &item->next;
    queue->count++;
    if (is_asking(message)) queue->askings++;
    return 0;
}

int fd_packet_queue_flush(fd_packet_queue *queue, int socket) {
    while (queue->first != NULL) {
        int failed = fd_packet_send(socket, &queue->first->message, queue->first->fd);
        if (failed != 0) return failed;
        drop_first(queue);
    }
    return 0;
}
