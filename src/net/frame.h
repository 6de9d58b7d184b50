/* frame.h — frame of a message on a byte stream: header and checksum.
 *
 * A frame is a header of 32 bytes, a head of head_size bytes and a body of body_size bytes. Numbers are little-endian.
 *
 *   offset  size  field          what
 *   ------  ----  -------------  -------------------------------------------------------------------------
 *   0       4     magic          FRAME_MAGIC
 *   4       1     version        FRAME_VERSION; another one is refused
 *   5       1     kind           FRAME_KIND_LIST
 *   6       2     flags          FRAME_FLAG_LIST; an unknown one is refused
 *   8       4     head_size      at most the limits' head_max, never above MESSAGE_HEAD_MAX
 *   12      4     checksum       of the other fields and the head, see frame_checksum; 0 with FRAME_PLAIN
 *   16      8     body_size      at most the limits' body_max; 0 for kinds that have no body
 *   24      8     body_checksum  of the body with FRAME_BODY_CHECKED, else 0
 *   32            the head, then the body
 *
 * The decoder is pure: it takes the received bytes and returns a frame or the number of bytes it needs. Every field is
 * checked before bytes after the header are waited for. The body is not part of the decoder's input: the receiver reads
 * it directly to its destination. A frame has one encoding, so a decoded frame encodes to the same bytes.
 *
 * The checksum detects damage, not attacks: XXH3 has no key. docs/decisions/002-checksums.md explains why the body's
 * checksum is optional and where the head's is omitted. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"
#include "miniray/status.h"

/* X(name, number, whether a body is allowed). Numbers are sent to peers and never reused. */
#define FRAME_KIND_LIST(X) \
    X(HELLO, 1, 0)         \
    X(MESSAGE, 2, 1)       \
    X(PING, 3, 0)          \
    X(PONG, 4, 0)          \
    X(BYE, 5, 0)           \
    X(PROOF, 6, 0)

typedef enum frame_kind {
#define X(name, number, body) FRAME_##name = (number),
    FRAME_KIND_LIST(X)
#undef X
} frame_kind;

#define FRAME_FLAG_LIST(X)                                                 \
    X(BODY_CHECKED, 0x0001) /* body_checksum is valid; only with a body */ \
    X(PLAIN, 0x0002)        /* no checksum; only where the limits allow it */

enum frame_flag {
#define X(name, bit) FRAME_##name = (bit),
    FRAME_FLAG_LIST(X)
#undef X
#define X(name, bit) | (bit)
        FRAME_FLAGS_KNOWN = 0 FRAME_FLAG_LIST(X)
#undef X
};

#define FRAME_MAGIC UINT32_C(0x46524d8d) /* the bytes 8d 'M' 'R' 'F' */
enum { FRAME_VERSION = 1, FRAME_HEADER_SIZE = 32 };

typedef struct frame_header { /* the fields in stream order */
    uint32_t magic;
    uint8_t version, kind;
    uint16_t flags;
    uint32_t head_size, checksum;
    uint64_t body_size, body_checksum;
} frame_header;

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "frame_header is copied to and from the stream as it is");
_Static_assert(offsetof(frame_header, version) == 4 && offsetof(frame_header, kind) == 5, "layout");
_Static_assert(offsetof(frame_header, flags) == 6 && offsetof(frame_header, head_size) == 8, "layout");
_Static_assert(offsetof(frame_header, checksum) == 12 && offsetof(frame_header, body_size) == 16, "layout");
_Static_assert(offsetof(frame_header, body_checksum) == 24 && sizeof(frame_header) == FRAME_HEADER_SIZE, "layout");

typedef struct frame_limits { /* limits of a peer's frames; small before HELLO */
    uint32_t head_max;
    uint64_t body_max;
    bool plain; /* FRAME_PLAIN is allowed: the medium cannot damage bytes */
} frame_limits;

typedef struct frame {
    frame_kind kind;
    uint16_t flags;         /* bits of FRAME_FLAG_LIST */
    span head;              /* borrowed */
    uint64_t body_size;     /* size of the body after the head */
    uint64_t body_checksum; /* 0 without FRAME_BODY_CHECKED */
} frame;

const char *frame_kind_name(frame_kind kind); /* static: "MESSAGE"; "UNKNOWN" */

/* Writes the header that precedes frame->head. A frame that frame_decode would refuse is a programming error. */
void frame_encode_header(uint8_t out[FRAME_HEADER_SIZE], const frame *frame);
/* Writes the header of a FRAME_PLAIN MESSAGE without a body, in which only the head size varies. */
void frame_encode_plain(uint8_t out[FRAME_HEADER_SIZE], size_t head_size);

/* Decodes received bytes from the start of a frame.
 *   MR_OK, *need == 0   *out is the frame; its head lies in `available`, it took FRAME_HEADER_SIZE + head.size bytes
 *   MR_OK, *need > 0    valid so far; call again when `available` has at least *need bytes
 *   MR_CORRUPT          not a frame, of another version, or damaged; the text names the field
 *   MR_TOO_LARGE        larger than the limits allow
 * After a failure the start of the next frame is unknown: the stream must be closed. */
MR_MUST mr_status frame_decode(span available, const frame_limits *limits, frame *out, size_t *need);

/* The value of the header's checksum field: the low 32 bits of XXH3 over its other fields in order and the XXH3 of the
 * head; 0 with FRAME_PLAIN. */
uint32_t frame_checksum(const frame_header *header, span head);

/* ---- The checksum of a body, at once or incrementally. */

uint64_t frame_body_checksum(span body);

typedef struct frame_body_sum { /* used in place; nothing to free */
    _Alignas(64) uint8_t state[576];
} frame_body_sum;

void frame_body_sum_init(frame_body_sum *sum);
void frame_body_sum_add(frame_body_sum *sum, span piece);
uint64_t frame_body_sum_get(const frame_body_sum *sum); /* checksum of all bytes added so far */
/* MR_CORRUPT if the bytes added do not match the frame's body checksum. */
MR_MUST mr_status frame_body_sum_check(const frame_body_sum *sum, const frame *frame);
