/* broker_wire.h — protocol between the broker and its processes over their socket.
 *
 * One message is one packet of a SOCK_SEQPACKET unix socket: a fixed struct in the machine's byte order, since both
 * ends are on one machine, and for some kinds one descriptor. Every message begins with the same eight bytes:
 *
 *   offset  what
 *   ------  ----------------------------------------------------
 *   0       version, BROKER_WIRE_VERSION
 *   1       kind
 *   2       size of the whole message, determined by the kind
 *   4       subject: a link's number, a tag or a process block's index
 *
 *   kind      from    subject        further                                                 descriptor
 *   --------  ------  -------------  ------------------------------------------------------  ------------------
 *   HELLO     client  0              magic, name                                             its eventfd
 *   CONNECT   client  tag            process, or 0 and a name
 *   RESIZE    client  link           bytes wanted for its sending ring
 *   RELEASE   client  link           an old receiving ring
 *   CLOSE     client  link           whether for lack of a descriptor
 *   BYE       client  0
 *   WELCOME   broker  process block  magic, arena's bytes and generation, process            the arena
 *   LINK      broker  link           tag, peer (process block, process, pid, name), both rings  the peer's eventfd
 *   RESIZED   broker  link           the new sending ring; size 0: none
 *   REFUSED   broker  tag            cause: answer to CONNECT
 *   GONE      broker  link           cause
 *   END       broker  0              cause: the broker sends nothing more to this client
 *
 * Decoding checks everything that can be checked without knowing the arena or the links: version, kind, direction,
 * size, padding, texts, numbers. */
#pragma once
#include <stdbool.h>

#include "miniray/status.h"
#include "net/shm/process_block.h"
#include "net/transport.h"

#define BROKER_WIRE_MAGIC UINT64_C(0x4255485941524d21)
enum { BROKER_WIRE_VERSION = 1 };

typedef enum broker_wire_kind {
    BROKER_WIRE_HELLO = 1,
    BROKER_WIRE_CONNECT,
    BROKER_WIRE_RESIZE,
    BROKER_WIRE_RELEASE,
    BROKER_WIRE_CLOSE,
    BROKER_WIRE_BYE,
    BROKER_WIRE_WELCOME = 65, /* from here on: from the broker */
    BROKER_WIRE_LINK,
    BROKER_WIRE_RESIZED,
    BROKER_WIRE_REFUSED,
    BROKER_WIRE_GONE,
    BROKER_WIRE_END,
} broker_wire_kind;

typedef struct broker_wire_head {
    uint8_t version, kind;
    uint16_t size;
    uint32_t subject;
} broker_wire_head;

typedef struct broker_wire_hello {
    broker_wire_head head;
    uint64_t magic;
    char name[PEER_NAME_MAX];
} broker_wire_hello;

typedef struct broker_wire_connect {
    broker_wire_head head;
    uint64_t process;
    char name[PEER_NAME_MAX];
} broker_wire_connect;

typedef struct broker_wire_resize {
    broker_wire_head head;
    uint64_t bytes;
} broker_wire_resize;

typedef struct broker_wire_close {
    broker_wire_head head;
    uint32_t no_descriptor, zero; /* 1: the client could not receive the eventfd, so the link was never used */
} broker_wire_close;

typedef struct broker_wire_ring { /* RELEASE and RESIZED */
    broker_wire_head head;
    extent ring;
} broker_wire_ring;

typedef struct broker_wire_welcome {
    broker_wire_head head;
    uint64_t magic, arena_bytes, generation, process;
} broker_wire_welcome;

typedef struct broker_wire_link {
    broker_wire_head head;
    uint32_t tag, process_block;
    uint64_t process;
    uint32_t pid, zero;
    extent send, receive;
    char name[PEER_NAME_MAX];
} broker_wire_link;

typedef struct broker_wire_cause { /* REFUSED, GONE and END */
    broker_wire_head head;
    uint32_t status, pid, signal;
    int32_t exit_code;
    char text[CAUSE_TEXT_MAX];
} broker_wire_cause;

typedef union broker_wire {
    broker_wire_head head; /* the whole message for BYE */
    broker_wire_hello hello;
    broker_wire_connect connect;
    broker_wire_resize resize;
    broker_wire_close close;
    broker_wire_ring ring;
    broker_wire_welcome welcome;
    broker_wire_link link;
    broker_wire_cause cause;
} broker_wire;

_Static_assert(sizeof(broker_wire_head) == 8 && offsetof(broker_wire_head, size) == 2 &&
                   offsetof(broker_wire_head, subject) == 4,
               "layout");
_Static_assert(sizeof(broker_wire_hello) == 80 && offsetof(broker_wire_hello, name) == 16, "layout");
_Static_assert(sizeof(broker_wire_connect) == 80 && offsetof(broker_wire_connect, name) == 16, "layout");
_Static_assert(sizeof(broker_wire_resize) == 16 && sizeof(broker_wire_close) == 16 && sizeof(broker_wire_ring) == 24 &&
                   sizeof(broker_wire_welcome) == 40,
               "layout");
_Static_assert(sizeof(broker_wire_link) == 128 && offsetof(broker_wire_link, process) == 16 &&
                   offsetof(broker_wire_link, send) == 32 && offsetof(broker_wire_link, name) == 64,
               "layout");
_Static_assert(sizeof(broker_wire_cause) == 24 + CAUSE_TEXT_MAX && offsetof(broker_wire_cause, text) == 24, "layout");

/* A message with all zeros after its first eight bytes. */
broker_wire broker_wire_of(broker_wire_kind kind, uint32_t subject);
broker_wire broker_wire_of_cause(broker_wire_kind kind, uint32_t subject, const cause *why); /* a complete message */

/* MR_CORRUPT: mr_last_error() names the wrong field. */
MR_MUST mr_status broker_wire_decode(bool from_broker, const void *data, size_t size, broker_wire *out);

void broker_wire_get_cause(const broker_wire *message, cause *why);

/* A name is at most PEER_NAME_MAX - 1 bytes long and has no control characters; it may be empty. MR_INVALID. */
MR_MUST mr_status broker_wire_check_name(const char *name);
