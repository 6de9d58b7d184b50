/* listener.h — listening sockets of the socket transport, and limits on accepted connections.
 *
 * Accepting pauses while there are too many strangers within their grace period, and briefly when the process has no
 * free descriptor; connections wait in the kernel. */
#pragma once
#include "net/socket/socket_internal.h"

MR_MUST mr_status listener_add(socket_transport *transport, const address *address, char actual[ADDRESS_TEXT_MAX]);
void listener_resume(socket_transport *transport); /* after a stranger was closed, or the pause is over */
void listener_remove_all(socket_transport *transport);
