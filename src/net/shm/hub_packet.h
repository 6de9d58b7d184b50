/* hub_packet.h — packets with file descriptors over a unix socket; no received descriptor is leaked.
 *
 * Nothing blocks and nothing raises SIGPIPE. Descriptors come with close-on-exec set and belong to the packet until
 * packet_take_fd moves one out; packet_drop closes the rest. */
#pragma once
#include <stdbool.h>

#include "net/rights.h"
#include "net/shm/hub_wire.h"

typedef struct packet {
    size_t size, fd_count;
    int fds[RIGHTS_MAX]; /* owned; nobody sends as many */
    bool cut;            /* there were more descriptors, or no number was free for one */
    uint8_t data[sizeof(wire) + 1];
} packet;

typedef enum packet_result { PACKET_OK, PACKET_NONE, PACKET_END } packet_result;

/* PACKET_END: the other side closed, or the socket failed. A packet that is too long comes with a size over
 * sizeof(wire), which no decoder takes. */
packet_result packet_receive(int socket, packet *out);
int packet_take_fd(packet *packet); /* moved; -1 unless there is exactly one */
void packet_drop(packet *packet);

int packet_send(int socket, const wire *message, int fd); /* fd (borrowed) or -1; 0 or an errno, EAGAIN when full */

/* What is sent when the socket takes no more. What ends something (a link, a ring) always has a place, because there is
 * only so much that can end; everything else counts as an asking, and those are bounded. */
typedef struct packet_queue {
    struct packet_queued *first, **last; /* owned */
    size_t count, askings;
} packet_queue;

void packet_queue_init(packet_queue *queue);
void packet_queue_fini(packet_queue *queue); /* empty, and ready for more */
/* 0 or an errno, ENOBUFS when that many askings are queued. The descriptor is borrowed: a copy is kept. */
int packet_queue_add(packet_queue *queue, const wire *message, int fd, size_t askings_max);
int packet_queue_flush(packet_queue *queue, int socket); /* as packet_send */
