/* messenger.h — best-effort sender of control messages, one connection per address; a message is lost when its
 * connection fails.
 *
 * One link per address, opened when something is to be sent and opened again (not at once) after it broke. A control
 * message is sent, or kept for a moment while the link opens, or lost: callers that need an answer retry. So protocols
 * above repeat their messages periodically, and never deal with links. Answers go back over the link on which a control
 * message arrived.
 *
 * A small control message is the head of a message. A large one is its body: it is sent from the pieces that hold it,
 * which are borrowed until they are sent, and received straight into a shared buffer (base/shared_bytes.h).
 *
 *  messenger_send ─────── at most MESSENGER_SMALL bytes ──► head ──► on_message
 *  messenger_send_pieces ── more ──► body ── its size is checked ──► a shared buffer ──► on_bytes
 *
 * Invariants (messenger_check)
 *  1  Control messages wait only while their link opens, MESSENGER_KEPT of an address at most.
 *   2  A link that was opened here is mapped to its address, and the address to it; one that is open was opened here.
 *
 * Bounds  MESSENGER_KEPT control messages per address while its link opens; the oldest is lost first.
 *         MESSENGER_MESSAGE_MAX bytes of a control message: the sender of a larger one loses its link. A message for
 *         which there is no memory is lost.
 * Threads     none; driven by its transport's events. */
#pragma once
#include "base/shared_bytes.h"
#include "net/env.h"

enum {
    MESSENGER_KEPT = 4,
    MESSENGER_ADDRESS_MAX = 64,
    MESSENGER_SMALL = 4096,
    MESSENGER_MESSAGE_MAX = (64 << 20) + (64 << 10)
};
#define MESSENGER_RETRY_US INT64_C(100000) /* delay after a link broke or could not be opened */

typedef struct messenger messenger;

typedef struct messenger_handlers {
    void (*on_message)(void *context, link_id link, span bytes);
    /* the link to this address broke; may be NULL */
    void (*on_broken)(void *context, const char *address, const cause *why);
    /* a large control message arrived; NULL: large ones are refused */
    void (*on_bytes)(void *context, link_id link, shared_bytes *bytes);
} messenger_handlers;

/* all arguments are borrowed for the messenger's life */
messenger *messenger_create(const env *env, const messenger_handlers *handlers, void *context);
void messenger_destroy(messenger *messenger); /* links stay open until the transport closes */

extern const transport_events messenger_events; /* for the transport, with the messenger as the context */

void messenger_send(messenger *messenger, const char *address, span bytes); /* at most MESSAGE_HEAD_MAX bytes */
/* Sends a control message of any size up to MESSENGER_MESSAGE_MAX. The bytes are borrowed until `sent` is called,
 * exactly once: they were sent, or are lost. The list of pieces is borrowed for the call. */
void messenger_send_pieces(messenger *messenger, const char *address, const span *pieces, size_t count,
                           body_sent_fn *sent, void *argument);
/* For waiting messages that were sent with `argument`: bytes within `from` are at `to` from now on. An empty `to`:
 * the message is lost. Bytes that were passed to a link belong to the transport. */
void messenger_move_pieces(messenger *messenger, const void *argument, span from, span to);
void messenger_answer(messenger *messenger, link_id link, span bytes);
/* the open link to the address; v == 0: none */
link_id messenger_link(const messenger *messenger, const char *address);
/* The process at the other end of an open link, as its handshake has shown; 0: none. */
uint64_t messenger_process(const messenger *messenger, link_id link);
/* The process at the address, when a link was opened here to it last; 0: none was. */
uint64_t messenger_process_at(const messenger *messenger, const char *address);
/* Whether the process at the other end of the link is the one that listens at the address: the link was opened here to
 * the address, or its process is that to which such a link was opened last. */
bool messenger_is_from(const messenger *messenger, link_id link, const char *address);
void messenger_end(messenger *messenger, link_id link); /* closes a link; no-op if there is none */
/* why there is no link to the address: the error of the last one, valid until the next event; "" while one is open */
const char *messenger_trouble(const messenger *messenger, const char *address);
/* Opens a link to the address, unless there is one or the last attempt was less than MESSENGER_RETRY_US ago. */
void messenger_reach(messenger *messenger, const char *address);
/* Whether no process listens at the address, as the last attempt to open a link has shown. False: it succeeded, timed
 * out or is under way, or there was none. */
bool messenger_is_gone(const messenger *messenger, const char *address);
void messenger_tell_all(messenger *messenger, span bytes); /* sends bytes over every open link, of either side */
/* closes the link to the address; no-op if there is none */
void messenger_forget(messenger *messenger, const char *address);

void messenger_check(const messenger *messenger); /* asserts the invariants above (base/invariants.h) */
