/* van.h — event loop, transport and message dispatch of one process of the parameter server (ps-lite's Van).
 *
 * The protocol is pure: bytes in, bytes out, ticks. A van runs the protocol in a process of this machine, as a node of
 * the simulator does there. A van listens at an address, passes received messages to its host, and ticks the host when
 * a tick is due:
 *
 *   socket ── control messages ──► take        ┌── next_us, tick: before the loop waits, as often as it is due
 *   van_send ──► messenger ──► socket          └── one timer, set to next_us
 *
 * Simulator  A van that is given an env has neither loop nor socket: the creator of that env passes its transport's
 *            events to van_mail (messenger_events), and calls van_turn when van_due_us has come. So modules that use
 *            vans run in the simulator unchanged.
 * Roles      An address may name a role of its process: "tcp:127.0.0.1:7000#depot". The control message goes to the
 *            process; every role there receives it and knows by its content whether it is the receiver. So two roles
 *            of one process can send to each other: a message to an address of this process is delivered before the
 *            loop waits again.
 * Limits     an address with its role has less than SLOT_MESSAGE_ADDRESS_MAX bytes: paths of unix sockets are short.
 * Bounds     VAN_SEND_HIGH bytes wait for a peer that does not read; further bytes are lost, and senders retry.
 * Threads    that of the loop. */
#pragma once
#include "cluster/control_message.h"
#include "cluster/messenger.h"
#include "net/env.h"
#include "net/event_loop.h"

#define VAN_SEND_HIGH ((size_t)256 << 20)
enum { VAN_SERVICE_ROOM = 8 }; /* bytes of an address that are kept for "#role" */

typedef struct van van;

typedef struct van_host {
    /* A control message. `bytes` is the shared buffer that holds a large message, for a host that keeps a part of it.
     * NULL: the message is valid during the call only. */
    void (*take)(void *context, link_id link, span bytes, shared_bytes *shared);
    /* The link to the address broke; `silent`: because of a timeout, so the peer may be alive. May be NULL. */
    void (*broken)(void *context, const char *address, bool silent);
    void (*flush)(void *context); /* sends buffered messages; called before every wait; may be NULL */
    int64_t (*next_us)(void *context);
    void (*tick)(void *context, int64_t now_us);
} van_host;

typedef struct van_options {
    const char *listen; /* "tcp:127.0.0.1:0": any free port; NULL: the van does not listen, and only receives answers */
    const char *folder; /* for files; NULL: no folder */
    bool beyond_this_machine; /* allows tcp addresses that other machines reach: there is no encryption yet */
    uint64_t shown;           /* bytes of memory that it exports to other processes of this machine, at most; 0: none */
    const env *env;           /* another environment than this machine, borrowed for its life; NULL: this machine */
} van_options;

/* The host and its context are borrowed for its life; the host is not called before the loop runs. MR_INVALID: not an
 * address, or too long. MR_EXISTS: another process listens there. MR_DENIED, MR_IO. */
MR_MUST mr_status van_open(const van_options *options, const van_host *host, void *context, van **out);
void van_close(van *van); /* bytes that the sockets accept at once are still sent; the host is not called any more */

const env *van_env(const van *van);
const char *van_address(const van *van); /* as others reach it */
event_loop *van_loop(van *van);          /* NULL: the van has an env */
void van_stop(van *van);                 /* ends its loop; with an env a no-op: the creator of the env ends it */
messenger *van_messenger(van *van);      /* messenger for metadata requests (cluster/metadata_remote.h) */
int64_t van_now_us(const van *van);
int64_t van_looked_us(const van *van); /* the time of the last wait of the loop: cheap, for frequent callers */

/* With an env only. */
int64_t van_due_us(van *van); /* to be asked after each run of any of its code */
void van_turn(van *van);      /* everything that is due */

void van_send(van *van, const char *address, span bytes); /* best effort */
/* The same for a control message in pieces. Pieces in shared buffers are not copied: the buffers are held until the
 * message was sent. */
void van_send_pieces(van *van, const char *address, const shared_bytes_piece *pieces, size_t count);
/* Sends the host's buffered messages, and all that was sent, to the sockets now rather than before the next wait of the
 * loop. Not from within the loop. */
void van_hurry(van *van);
/* The bytes of a shared buffer that belong to unsent control messages have moved to `to`, unchanged; if `to` is NULL,
 * these control messages are lost, with their links. */
void van_move(van *van, const shared_bytes *bytes, span from, span to);
void van_answer(van *van, link_id link, span bytes); /* answers a message that came over that link */

/* As callbacks, too: the context is the van. */
void van_send_message(void *van, const char *address, const control_message *message);
void van_answer_message(void *van, link_id link, const control_message *message);
/* A control message of a user's kind. */
void van_send_value(van *van, const char *address, uint8_t kind, stamp stamp, span value);
void van_answer_value(van *van, link_id link, uint8_t kind, stamp stamp, span value);

/* Memory that is exported to other processes of this machine, if van_options asked for it and it was available; else
 * NULL. A control message may refer to it if the receiver has imported it. Processes are named by numbers that are
 * never reused. */
struct shm_export *van_export(van *van);
uint64_t van_process(const van *van);
bool van_is_seen(const van *van, const char *address);  /* the process at the address has imported this export */
uint64_t van_sees(const van *van, const char *address); /* the process there, whose export is imported; 0: none */
const struct shm_import *van_map_view(const van *van, uint64_t process); /* of that process; NULL: no longer imported */

/* Checks the address of a process. MR_INVALID. */
MR_MUST mr_status van_check_address(const char *text);
