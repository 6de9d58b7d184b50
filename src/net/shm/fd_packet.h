/* fd_packet.h — packets with file descriptors over a unix socket; no received descriptor is leaked.
 *
 * No function blocks or raises SIGPIPE. Received descriptors have close-on-exec set and belong to the packet until
 * fd_packet_take_fd moves one out; fd_packet_drop closes the rest. */
#pragma once
#include <stdbool.h>

#include "net/scm_rights.h"
#include "net/shm/broker_wire.h"

typedef struct fd_packet {
    size_t size, fd_count;
    int fds[SCM_RIGHTS_MAX]; /* owned; no sender uses all of them */
    bool cut;                /* further descriptors were sent, or no descriptor number was free */
    uint8_t data[sizeof(broker_wire) + 1];
} fd_packet;

typedef enum fd_packet_result { FD_PACKET_OK, FD_PACKET_NONE, FD_PACKET_END } fd_packet_result;

/* FD_PACKET_END: the other side closed, or the socket failed. A packet that is too long has a size above
 * sizeof(broker_wire), which every decoder refuses. */
fd_packet_result fd_packet_receive(int socket, fd_packet *out);
int fd_packet_take_fd(fd_packet *packet); /* moved; -1 unless there is exactly one descriptor */
void fd_packet_drop(fd_packet *packet);

/* `fd` is borrowed or -1. Returns 0 or an errno, EAGAIN when full. */
int fd_packet_send(int socket, const broker_wire *message, int fd);

/* Packets to send when the socket is full. A packet that ends a link or a ring can always be queued, because the number
 * of links and rings is bounded; every other packet counts as an asking, and those are limited. */
typedef struct fd_packet_queue {
    struct fd_packet_queued *first, **last; /* owned */
    size_t count, askings;
} fd_packet_queue;

void fd_packet_queue_init(fd_packet_queue *queue);
void fd_packet_queue_fini(fd_packet_queue *queue); /* empty, and usable again */
/* Returns 0 or an errno, ENOBUFS when askings_max askings are queued. The descriptor is borrowed and duplicated. */
int fd_packet_queue_add(fd_packet_queue *queue, const broker_wire *message, int fd, size_t askings_max);
int fd_packet_queue_flush(fd_packet_queue *queue, int socket); /* returns as fd_packet_send */
