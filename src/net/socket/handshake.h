/* handshake.h — handshake of a link: the heads of HELLO and BYE.
 *
 *   HELLO   offset  size  field        what
 *           0       4     protocol    HANDSHAKE_PROTOCOL; another one is refused
 *           4       4     pid          on its machine
 *           8       8     process      its id in the cluster, not 0
 *           16      4     name size    below PEER_NAME_MAX
 *           20            name         printable
 *
 *   BYE     empty: closed intentionally. Otherwise:
 *           0       4     status       why its sender ends the link; not MR_OK
 *           4       4     text size    below CAUSE_TEXT_MAX
 *           8             text
 *
 * One handshake has one encoding. */
#pragma once
#include "net/transport.h"

enum {
    HANDSHAKE_PROTOCOL = 2,
    HANDSHAKE_HELLO_MAX = 20 + PEER_NAME_MAX - 1,
    HANDSHAKE_BYE_MAX = 8 + CAUSE_TEXT_MAX - 1,
};

/* Both return the size; `out` has room for the largest. The name is truncated, and its unprintable bytes become '?'. */
size_t handshake_hello_encode(uint8_t out[HANDSHAKE_HELLO_MAX], const peer *self);
size_t handshake_bye_encode(uint8_t out[HANDSHAKE_BYE_MAX], mr_status status, const char *text);

/* MR_DENIED: another protocol. MR_CORRUPT: not a handshake. */
MR_MUST mr_status handshake_hello_decode(span head, peer *out);
/* Sets the cause of the link's end: MR_CLOSED for an empty BYE, else the sender's status and text. MR_CORRUPT. */
MR_MUST mr_status handshake_bye_decode(span head, cause *out);
