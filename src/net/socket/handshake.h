/* handshake.h — handshake of a link: versions, identities, and on tcp the proof of the deployment's token.
 *
 *   initiator                            acceptor
 *       HELLO ────────────────────────────►        a stranger
 *             ◄──────────────────────────── HELLO  unix: open, on both sides
 *       PROOF ────────────────────────────►
 *             ◄──────────────────────────── PROOF  tcp: open, on both sides
 *
 *   HELLO   offset  size  field        what
 *           0       4     protocol     HANDSHAKE_PROTOCOL; another one is refused, whatever follows
 *           4       4     pid          on its machine
 *           8       8     process      its id in the cluster, not 0
 *           16      32    nonce        random bytes, new for each link
 *           48      4     name size    below PEER_NAME_MAX
 *           52            name         printable
 *
 *   PROOF   0       32    proof        HMAC-SHA-256, with the token as key, of
 *                                        "miniray proof of the initiator" or "… of the acceptor", with its final 0
 *                                        the address of the acceptor, as a text with its size (4 bytes)
 *                                        the initiator's HELLO, the acceptor's HELLO, each with its size (4 bytes)
 *
 *   BYE     empty: closed intentionally. Otherwise:
 *           0       4     status       why its sender ends the link; not MR_OK
 *           4       4     text size    below CAUSE_TEXT_MAX
 *           8             text
 *
 * A proof is valid for one link only: both nonces are in it. The two labels keep a proof from being sent back to its
 * author. The address keeps a process that has taken a free port from passing the proofs on to another process of the
 * deployment. The initiator proves first, so a stranger receives nothing that depends on the token.
 *
 * A unix socket needs no proof: the kernel tells the user of the other end.
 *
 * Pure: bytes in, bytes out. One handshake has one encoding. */
#pragma once
#include "net/frame.h"
#include "net/socket/hmac.h"
#include "net/socket/token.h"
#include "net/transport.h"

enum {
    HANDSHAKE_PROTOCOL = 2,
    HANDSHAKE_NONCE = 32,
    HANDSHAKE_HELLO_MAX = 20 + HANDSHAKE_NONCE + PEER_NAME_MAX - 1,
    HANDSHAKE_BYE_MAX = 8 + CAUSE_TEXT_MAX - 1,
};

typedef struct handshake_hello {
    peer peer;
    uint8_t nonce[HANDSHAKE_NONCE];
} handshake_hello;

/* Both return the size; `out` has room for the largest. The name is truncated, and its unprintable bytes become '?'. */
size_t handshake_hello_encode(uint8_t out[HANDSHAKE_HELLO_MAX], const handshake_hello *hello);
size_t handshake_bye_encode(uint8_t out[HANDSHAKE_BYE_MAX], mr_status status, const char *text);

/* MR_DENIED: another protocol. MR_CORRUPT: not a handshake. */
MR_MUST mr_status handshake_hello_decode(span head, handshake_hello *out);
/* Sets the cause of the link's end: MR_CLOSED for an empty BYE, else the sender's status and text. MR_CORRUPT. */
MR_MUST mr_status handshake_bye_decode(span head, cause *out);

/* ---- One side of the handshake of one link. */

typedef enum handshake_side { HANDSHAKE_INITIATOR, HANDSHAKE_ACCEPTOR } handshake_side;

typedef enum handshake_state {
    HANDSHAKE_GREETS, /* waits for HELLO */
    HANDSHAKE_PROVES, /* waits for PROOF */
    HANDSHAKE_OPEN,
} handshake_state;

typedef struct handshake {
    handshake_side side;
    handshake_state state;
    const hmac *hmac; /* borrowed; NULL: no proofs */
    token token;
    peer peer; /* the other side, as it says; valid from HANDSHAKE_PROVES on, proved in HANDSHAKE_OPEN */
    char address[ADDRESS_TEXT_MAX];
    uint8_t hellos[2][HANDSHAKE_HELLO_MAX]; /* as sent, by side */
    size_t hello_sizes[2];
} handshake;

typedef struct handshake_answer { /* what to send now, in this order */
    bool hello;                   /* handshake_own_hello */
    bool proof;                   /* a PROOF with `bytes` */
    uint8_t bytes[HMAC_SIZE];
} handshake_answer;

/* `hmac` (borrowed) NULL: the link needs no proof, and `token` is not used. `acceptor` is the address of the accepting
 * side. The initiator then sends its HELLO. */
void handshake_init(handshake *handshake, handshake_side side, const handshake_hello *own, const hmac *hmac,
                    const token *token, const address *acceptor);
void handshake_fini(handshake *handshake); /* erases the token */

static inline span handshake_own_hello(const handshake *handshake) {
    return span_of(handshake->hellos[handshake->side], handshake->hello_sizes[handshake->side]);
}

/* Handles a received HELLO or PROOF and sets handshake->state. MR_DENIED: another protocol, or not the token;
 * MR_CORRUPT: malformed, or not the frame that this state waits for; MR_IO as hmac_sign. After a failure the link must
 * be closed. */
MR_MUST mr_status handshake_take(handshake *handshake, frame_kind kind, span head, handshake_answer *out);
