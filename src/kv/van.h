/* van.h — event loop, transport and message dispatch of one process of the parameter server (ps-lite's Van).
 *
 * The protocol code is pure: bytes in, bytes out, ticks. A van runs the code in a process of this machine, as a node
 * does in the simulator. A van listens at an address, passes received messages to its host, and ticks the host when a
 * tick is due:
 *
 *   socket ── control messages ──► take        ┌── next_us, tick: before the loop waits, as often as it is due
 *   van_send ──► messenger ──► socket          └── one timer, set to next_us
 *
 * Simulator  A van with an env has neither loop nor socket: the creator of that env passes its transport's
 *            events to van_mail (messenger_events), and calls van_turn when van_due_us has come. So modules that use
 *            vans run in the simulator unchanged.
 * Roles      An address may name a role of its process: "tcp:127.0.0.1:7000#depot". The control message goes to the
 *            process; every role there receives the message, and its content shows which one is the receiver. Two roles
 *            of one process can send to each other: a message to an address of this process is delivered before the
 *            loop waits again.
 * Limits     an address with its role has less than SLOT_MESSAGE_ADDRESS_MAX bytes: paths of unix sockets are short.
 * Bounds     VAN_SEND_HIGH bytes wait for a peer that does not read; further bytes are lost, and senders retry.
 * Threads    the one that runs the loop. */
#pragma once
#include "cluster/control_message.h"
#include "cluster/messenger.h"
#include "net/env.h"
#include "net/event_loop.h"
#include "net/socket/token.h"

#define VAN_SEND_HIGH ((size_t)256 << 20)
enum { VAN_SERVICE_ROOM = 8 }; /* bytes of an address reserved for "#role" */

typedef struct van van;

typedef struct van_host {
    /* Handles a control message. `shared`: the shared buffer that contains a large message, for a host that keeps a
     * part of it; NULL: the message is valid during the call only. */
    void (*take)(void *context, link_id link, span bytes, shared_bytes *shared);
    /* The link to the address broke; `silent`: after a timeout, so the peer may be alive. May be NULL. */
    void (*broken)(void *context, const char *address, bool silent);
    void (*flush)(void *context); /* sends buffered messages; called before every wait; may be NULL */
    int64_t (*next_us)(void *context);
    void (*tick)(void *context, int64_t now_us);
} van_host;

typedef struct van_options {
    /* "tcp:127.0.0.1:0": any free port; NULL: the van does not listen, and only receives answers to its messages */
    const char *listen;
    /* Scheduler of the deployment, whose token both sides of tcp links prove to have (net/socket/token.h); NULL: this
       process is the scheduler, and has the token itself (van_own_token) */
    const char *scheduler;
    const char *folder; /* folder of files; NULL: none */
    uint64_t shown;     /* maximum of memory in bytes that is exported to other processes of this machine; 0: none */
    const env *env;     /* environment other than this machine, borrowed until van_close; NULL: this machine */
} van_options;

/* Host and context are borrowed until van_close; the host is not called before the loop runs. MR_INVALID: malformed or
 * too long address, or tcp without a token. MR_EXISTS: another process listens there. MR_DENIED: an address of another
 * machine. MR_NOT_FOUND: tcp needs OpenSSL. MR_IO. */
MR_MUST mr_status van_open(const van_options *options, const van_host *host, void *context, van **out);
void van_close(van *van); /* bytes that the sockets accept at once are still sent; the host is not called any more */

/* Gives the van the deployment's token, before its loop runs. */
void van_own_token(van *van, const token *token);

const env *van_env(const van *van);
const char *van_address(const van *van); /* address for other processes */
event_loop *van_loop(van *van);          /* NULL: the van has an env */
void van_stop(van *van);                 /* stops the loop; no-op with an env, whose creator ends it */
messenger *van_messenger(van *van);      /* for metadata requests (cluster/metadata_remote.h) */
int64_t van_now_us(const van *van);
int64_t van_looked_us(const van *van); /* time of the loop's last wait: cheap, for frequent callers */

/* ---- Vans with an env. */
int64_t van_due_us(van *van); /* time of the next van_turn; may change with every call of the van's code */
void van_turn(van *van);      /* does everything that is due */

void van_send(van *van, const char *address, span bytes); /* best effort */
/* Same, for a message in pieces. Pieces in shared buffers are not copied: the buffers are held until the message is
 * sent. */
void van_send_pieces(van *van, const char *address, const shared_bytes_piece *pieces, size_t count);
/* Sends the host's buffered messages and all queued bytes to the sockets now instead of before the loop's next wait.
 * Not called from within the loop. */
void van_hurry(van *van);
/* The bytes `from` of a shared buffer that unsent messages contain are now at `to`, unchanged; `to` NULL: these
 * messages are lost, with their links. */
void van_move(van *van, const shared_bytes *bytes, span from, span to);
void van_answer(van *van, link_id link, span bytes); /* answers a message that arrived over this link */
/* The process at the other end of a link (messenger_process); that of this van for its own messages. */
uint64_t van_sender(const van *van, link_id link);
/* As messenger_is_from; true for messages of this van itself. */
bool van_is_from(const van *van, link_id link, const char *address);
/* Ends a link whose other side sent what it may not send; `what` is for the log. */
void van_refuse(van *van, link_id link, const char *what);
/* Why there is no link to the address (messenger_trouble). */
const char *van_trouble(const van *van, const char *address);

/* Usable as callbacks: the context is the van. */
void van_send_message(void *van, const char *address, const control_message *message);
void van_answer_message(void *van, link_id link, const control_message *message);
/* Sends a control message over every link, of either side. */
void van_announce(van *van, const control_message *message);
/* Sends a control message with a kind, a stamp and a value. */
void van_send_value(van *van, const char *address, uint8_t kind, stamp stamp, span value);
void van_answer_value(van *van, link_id link, uint8_t kind, stamp stamp, span value);

/* Memory exported to other processes of this machine, if van_options requested it and it was available; else NULL. A
 * control message may refer to it if the receiver has imported it. Processes are identified by numbers that are never
 * reused. */
struct shm_export *van_export(van *van);
uint64_t van_process(const van *van);
bool van_is_seen(const van *van, const char *address); /* whether the process at the address has imported this export */
uint64_t van_sees(const van *van, const char *address); /* process at the address whose export is imported; 0: none */
/* import from that process; NULL: not imported any more */
const struct shm_import *van_map_view(const van *van, uint64_t process);

/* Checks the address of a process. MR_INVALID. */
MR_MUST mr_status van_check_address(const char *text);
