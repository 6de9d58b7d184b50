/* socket_link_io.h — socket reads and writes of a link.
 *
 * The socket is watched by libuv and read and written here, with one system call for as much as possible. libuv's own
 * streams are as fast, but they cannot read to two places at once or leave a body in its owner's memory until the last
 * byte of it was taken. A link with a shm pipe (shm_pipe.h) reads and writes there, and the socket only wakes. */
#pragma once
#include "net/socket/socket_link.h"

MR_MUST mr_status socket_link_io_start(socket_link *link); /* watches the socket */
void socket_link_io_stop(socket_link *link);               /* stops that and closes it */

/* Writes as much as the socket takes. An error is kept in link->write_error: the other side may have sent the cause
 * before, and its bytes are read first (socket_link_io_read_rest). */
void socket_link_io_write(socket_link *link);
/* A message without a body, straight into the shm pipe of a link for which nothing waits. False: it has to go by the
 * write queue. */
bool socket_link_io_send(socket_link *link, span head);
/* Of a link that waits for half a shm pipe of room: writes into the room there is, and takes it for a sign of life.
 * A slow reader gives no other sign. */
void socket_link_io_use_room(socket_link *link);
void socket_link_io_read_rest(socket_link *link); /* delivers received bytes, then ends the link */
void socket_link_io_drain(socket_link *link);     /* of a closing link: reads received bytes and throws them away */
bool socket_link_io_has_input(const socket_link *link);
/* of a link with a shm pipe: reads its bytes; true: there were some */
bool socket_link_io_look(socket_link *link);
/* the descriptor of a shm pipe that was passed on, or that is not wanted */
void socket_link_io_drop_passed(socket_link *link);
