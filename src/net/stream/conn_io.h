/* conn_io.h — socket reads and writes of a link.
 *
 * The socket is watched by libuv and read and written here, with one system call for as much as possible. libuv's own
 * streams are as fast, but they cannot read to two places at once or leave a body in its owner's memory until the last
 * byte of it was taken. A link with a duct (duct.h) reads and writes there, and the socket only wakes. */
#pragma once
#include "net/stream/conn.h"

MR_MUST mr_status conn_io_start(conn *conn); /* watches the socket */
void conn_io_stop(conn *conn);               /* stops that and closes it */

/* Writes what the socket takes. An error is kept in conn->write_error: the other side may have told the cause before,
 * and what it sent is read first (conn_io_read_rest). */
void conn_io_write(conn *conn);
/* A message without a body, straight into the duct of a link for which nothing waits. False: it has to go by the
 * outbox. */
bool conn_io_send(conn *conn, span head);
/* Of a link that waits for half a duct of room: writes to what there is, and takes it for a sign of life. A reader that
 * is slow is told of by nothing else. */
void conn_io_use_room(conn *conn);
void conn_io_read_rest(conn *conn); /* delivers what is there, then ends the link */
void conn_io_drain(conn *conn);     /* of a closing link: reads what is there and throws it away */
bool conn_io_has_input(const conn *conn);
bool conn_io_look(conn *conn);        /* of a link with a duct: reads what is there; whether anything was */
void conn_io_drop_passed(conn *conn); /* the descriptor of a duct that was passed on, or that nobody wants */
