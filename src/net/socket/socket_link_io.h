/* socket_link_io.h — socket reads and writes of a link.
 *
 * The socket is watched by libuv and read and written here, with one system call for as much as possible. libuv's own
 * streams are as fast, but they cannot read to two places at once or leave a body in its owner's memory until its last
 * byte was sent. A link with a shm pipe (shm_pipe.h) transfers bytes there, and the socket only wakes. */
#pragma once
#include "net/socket/socket_link.h"

MR_MUST mr_status socket_link_io_start(socket_link *link); /* watches the socket */
void socket_link_io_stop(socket_link *link);               /* stops watching and closes the socket */

/* Writes as much as the socket accepts. An error is stored in link->write_error: the other side may have sent the cause
 * before, and its bytes are read first (socket_link_io_read_rest). */
void socket_link_io_write(socket_link *link);
/* Writes a message without a body directly into the shm pipe of a link without pending bytes. False: the write queue
 * must be used. */
bool socket_link_io_send(socket_link *link, span head);
/* For a link that waits for half a shm pipe of room: writes into the available room, and counts it as a sign of life. A
 * slow reader gives no other sign. */
void socket_link_io_use_room(socket_link *link);
void socket_link_io_read_rest(socket_link *link); /* delivers received bytes, then ends the link */
void socket_link_io_drain(socket_link *link);     /* for a closing link: reads and discards received bytes */
bool socket_link_io_has_input(const socket_link *link);
/* For a link with a shm pipe: reads its bytes; true: there were some. */
bool socket_link_io_look(socket_link *link);
/* Closes the descriptors of a shm pipe and an export that were passed on or are not wanted. */
void socket_link_io_drop_passed(socket_link *link);
