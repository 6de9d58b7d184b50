/* control_message.h — control messages between members and the metadata store.
 *
 * Every control message begins with its kind and a stamp: its sender, and the sender's view. Fencing checks the stamp
 * before it trusts anything else in the control message. A sender that is in no view (a process that is entering, or
 * the metadata store) sends a stamp of zeros.
 *
 *   bytes    what
 *   -------  -------------------------------------------------------------------------------
 *   1        kind
 *   24       stamp: view, id, incarnation
 *   …        HEARTBEAT   nothing
 *            VIEW        the newest view that the sender knows (membership_view.h), to the end
 *            GET         8 request, 4 + n key, 8 newest version that the sender knows
 *            SWAP        8 request, 4 + n key, 8 expected version, 8 lease, 4 + n value
 *            ANSWER      8 request, 4 status, 8 version, 4 + n value
 *            WATCH       as GET
 *            LEASE       8 request, 8 lease, 8 time to live in µs
 *
 * Kinds from CONTROL_MESSAGE_USER on are for users of membership.h; their content begins after the stamp. */
#pragma once
#include "base/bytes.h"
#include "miniray/status.h"

enum {
    CONTROL_MESSAGE_HEARTBEAT = 1,
    CONTROL_MESSAGE_VIEW,
    CONTROL_MESSAGE_GET,
    CONTROL_MESSAGE_SWAP,
    CONTROL_MESSAGE_ANSWER,
    CONTROL_MESSAGE_WATCH,
    CONTROL_MESSAGE_LEASE,
    CONTROL_MESSAGE_USER = 64
};
enum { CONTROL_MESSAGE_HEAD_SIZE = 25, CONTROL_MESSAGE_KEY_MAX = 64, CONTROL_MESSAGE_VALUE_MAX = 128 * 1024 };
enum {
    CONTROL_MESSAGE_SIZE_MAX = CONTROL_MESSAGE_HEAD_SIZE + 40 + CONTROL_MESSAGE_KEY_MAX + CONTROL_MESSAGE_VALUE_MAX
};

typedef struct stamp { /* sender of a message, and its view */
    uint64_t view, id, incarnation;
} stamp;

typedef struct control_message { /* keys and values of a decoded message are borrowed from the bytes */
    uint8_t kind;
    stamp stamp;
    uint64_t request, version; /* version: in SWAP the expected one, in GET and WATCH the newest one known */
    uint64_t lease, ttl_us;    /* lease: in SWAP and LEASE; ttl_us: in LEASE */
    mr_status status;
    span key, value; /* value: in VIEW and users' kinds all bytes that follow */
} control_message;

size_t control_message_size(const control_message *message);
void control_message_encode(const control_message *message, writer *writer);
uint8_t *control_message_write(const control_message *message, size_t *size); /* free with free() */
MR_MUST mr_status control_message_decode(span bytes, control_message *out);   /* MR_CORRUPT: malformed */
