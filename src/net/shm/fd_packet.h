/* fd_packet.h — packets with file descriptors over a unix socket; no received descriptor is leaked.
 *
 * Nothing blocks and nothing raises SIGPIPE. Descriptors come with close-on-exec set and belong to the packet until
 * fd_packet_take_fd moves one out; fd_packet_drop closes the rest. */
#pragma once
#include <stdbool.h>

#include "net/scm_rights.h"
#include "net/shm/broker_wire.h"

typedef struct fd_packet {
    size_t size, fd_count;
    int fds[SCM_RIGHTS_MAX]; /* owned; no sender uses them all */
    bool cut;                /* there were more descriptors, or no number was free for one */
    uint8_t data[sizeof(broker_wire) + 1];
} fd_packet;

typedef enum fd_packet_result { FD_PACKET_OK, FD_PACKET_NONE, FD_PACKET_END } fd_packet_result;

/* FD_PACKET_END: the other side closed, or the socket failed. A packet that is too long comes with a size over
 * sizeof(broker_wire), which no decoder takes. */
fd_packet_result fd_packet_receive(int socket, fd_packet *out);
int fd_packet_take_fd(fd_packet *packet); /* moved; -1 unless there is exactly one */
void fd_packet_drop(fd_packet *packet);

/* fd (borrowed) or -1; 0 or an errno, EAGAIN when full */
int fd_packet_send(int socket, const broker_wire *message, int fd);

/* Packets to send when the socket takes no more. A packet that ends something (a link, a ring) always has a place,
 * because the number of links and rings is bounded; every other packet counts as an asking, and those are bounded. */
typedef struct fd_packet_queue {
    struct fd_packet_queued *first, **last; /* owned */
    size_t count, askings;
} fd_packet_queue;

void fd_packet_queue_init(fd_packet_queue *queue);
void fd_packet_queue_fini(fd_packet_queue *queue); /* empty, and ready for more */
/* 0 or an errno, ENOBUFS when that many askings are queued. The descriptor is borrowed: a copy is kept. */
int fd_packet_queue_add(fd_packet_queue *queue, const broker_wire *message, int fd, size_t askings_max);
int fd_packet_queue_flush(fd_packet_queue *queue, int socket); /* as fd_packet_send */
