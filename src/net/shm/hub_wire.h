/* hub_wire.h — protocol between the broker and its processes over their socket.
 *
 * One message is one packet of a SOCK_SEQPACKET unix socket: a fixed struct in the machine's own byte order, since both
 * ends are on it, and for some kinds one descriptor beside it. Every message begins with the same eight bytes:
 *
 *   offset  what
 *   ------  ----------------------------------------------------
 *   0       version, HUB_WIRE_VERSION
 *   1       kind
 *   2       size of the whole message, which the kind decides
 *   4       subject: a link's number, a tag or a station's index
 *
 *   kind      from   subject  further                                                descriptor
 *   --------  -----  -------  -----------------------------------------------------  ------------------------
 *   HELLO     guest  0        magic, name                                            its eventfd
 *   CONNECT   guest  tag      process, or 0 and a name
 *   RESIZE    guest  link     bytes wanted for its sending ring
 *   RELEASE   guest  link     an old receiving ring
 *   CLOSE     guest  link     whether for want of a descriptor
 *   BYE       guest  0
 *   WELCOME   hub    station  magic, arena's bytes and generation, process           the arena
 *   LINK      hub    link     tag, peer (station, process, pid, name), both rings     the peer's eventfd
 *   RESIZED   hub    link     the new sending ring; size 0: none
 *   REFUSED   hub    tag      cause: answer to CONNECT
 *   GONE      hub    link     cause
 *   END       hub    0        cause: the hub will not talk to this guest any more
 *
 * Decoding checks everything that can be checked without knowing the arena or the links: version, kind, direction,
 * size, padding, texts, numbers. */
#pragma once
#include <stdbool.h>

#include "miniray/status.h"
#include "net/shm/station.h"
#include "net/transport.h"

#define HUB_WIRE_MAGIC UINT64_C(0x4255485941524d21)
enum { HUB_WIRE_VERSION = 1 };

typedef enum wire_kind {
    WIRE_HELLO = 1,
    WIRE_CONNECT,
    WIRE_RESIZE,
    WIRE_RELEASE,
    WIRE_CLOSE,
    WIRE_BYE,
    WIRE_WELCOME = 65, /* from here on: from the hub */
    WIRE_LINK,
    WIRE_RESIZED,
    WIRE_REFUSED,
    WIRE_GONE,
    WIRE_END,
} wire_kind;

typedef struct wire_head {
    uint8_t version, kind;
    uint16_t size;
    uint32_t subject;
} wire_head;

typedef struct wire_hello {
    wire_head head;
    uint64_t magic;
    char name[PEER_NAME_MAX];
} wire_hello;

typedef struct wire_connect {
    wire_head head;
    uint64_t process;
    char name[PEER_NAME_MAX];
} wire_connect;

typedef struct wire_resize {
    wire_head head;
    uint64_t bytes;
} wire_resize;

typedef struct wire_close {
    wire_head head;
    uint32_t no_descriptor, zero; /* 1: the link never was, since this guest could not take the eventfd */
} wire_close;

typedef struct wire_ring { /* RELEASE and RESIZED */
    wire_head head;
    extent ring;
} wire_ring;

typedef struct wire_welcome {
    wire_head head;
    uint64_t magic, arena_bytes, generation, process;
} wire_welcome;

typedef struct wire_link {
    wire_head head;
    uint32_t tag, station;
    uint64_t process;
    uint32_t pid, zero;
    extent send, receive;
    char name[PEER_NAME_MAX];
} wire_link;

typedef struct wire_cause { /* REFUSED, GONE and END */
    wire_head head;
    uint32_t status, pid, signal;
    int32_t exit_code;
    char text[CAUSE_TEXT_MAX];
} wire_cause;

typedef union wire {
    wire_head head; /* all there is of BYE */
    wire_hello hello;
    wire_connect connect;
    wire_resize resize;
    wire_close close;
    wire_ring ring;
    wire_welcome welcome;
    wire_link link;
    wire_cause cause;
} wire;

_Static_assert(sizeof(wire_head) == 8 && offsetof(wire_head, size) == 2 && offsetof(wire_head, subject) == 4, "layout");
_Static_assert(sizeof(wire_hello) == 80 && offsetof(wire_hello, name) == 16, "layout");
_Static_assert(sizeof(wire_connect) == 80 && offsetof(wire_connect, name) == 16, "layout");
_Static_assert(sizeof(wire_resize) == 16 && sizeof(wire_close) == 16 && sizeof(wire_ring) == 24 &&
                   sizeof(wire_welcome) == 40,
               "layout");
_Static_assert(sizeof(wire_link) == 128 && offsetof(wire_link, process) == 16 && offsetof(wire_link, send) == 32 &&
                   offsetof(wire_link, name) == 64,
               "layout");
_Static_assert(sizeof(wire_cause) == 24 + CAUSE_TEXT_MAX && offsetof(wire_cause, text) == 24, "layout");

/* Begins a message: zeroes it and fills its first eight bytes. */
void wire_begin(wire *message, wire_kind kind, uint32_t subject);
size_t wire_size(const wire *message);

/* MR_CORRUPT, with what is wrong in mr_last_error(). */
MR_MUST mr_status wire_decode(bool from_hub, const void *data, size_t size, wire *out);

void wire_put_cause(wire *message, const cause *why);
void wire_get_cause(const wire *message, cause *why);

/* A name is at most PEER_NAME_MAX - 1 bytes long and has no control characters; it may be empty. MR_INVALID. */
MR_MUST mr_status wire_check_name(const char *name);
