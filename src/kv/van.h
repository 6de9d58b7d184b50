/* van.h — event loop, transport and message dispatch of one process of the parameter server (ps-lite's Van).
 *
 * The protocol is pure: bytes in, bytes out, ticks. A van is what runs it in a process of this machine, as a node of
 * the simulator does there. It listens at an address, takes what comes to its host, and ticks it when that is due:
 *
 *   socket ── control messages ──► take        ┌── next_us, tick: before the loop waits, as often as it is due
 *   van_send ──► mail ──► socket               └── one timer, set to next_us
 *
 * Elsewhere A van that is given an env has neither loop nor stream: the creator of that env passes its transport's
 *      events to van_mail (messenger_events), and calls van_turn when van_due_us has come. So what stands on vans runs
 *           in the
 *           simulator as it is.
 * Desks  An address may name a desk of its process: "tcp:127.0.0.1:7000#depot". The control message goes to the
 *        process;
 *           everybody there hears it and knows by its content whom it is for. So two roles of one process can write to
 *           each other: what is sent to an address of this very process is taken before the loop waits again.
 * Limits  an address with its desk has less than SLOT_MESSAGE_ADDRESS_MAX bytes: paths of unix sockets are short.
 * Bounds    VAN_SEND_HIGH bytes wait for a peer that does not read; what is more is lost, and said again.
 * Threads   that of the loop. */
#pragma once
#include "cluster/control_message.h"
#include "cluster/messenger.h"
#include "net/env.h"
#include "net/event_loop.h"

#define VAN_SEND_HIGH ((size_t)256 << 20)
enum { VAN_SERVICE_ROOM = 8 }; /* bytes of an address that are kept for "#desk" */

typedef struct van van;

typedef struct van_host {
    /* A control message; the shared buffer is where a large one lies, for who keeps of it. NULL: it is there for the
     * call only. */
    void (*take)(void *context, link_id link, span bytes, shared_bytes *shared);
    /* The link to it broke; `silent`: since nothing came, so that whoever is there may live. May be NULL. */
    void (*broken)(void *context, const char *address, bool silent);
    void (*flush)(void *context); /* sends what it holds back; before every wait; may be NULL */
    int64_t (*next_us)(void *context);
    void (*tick)(void *context, int64_t now_us);
} van_host;

typedef struct van_options {
    const char *listen;       /* "tcp:127.0.0.1:0": any free port; NULL: it listens nowhere, and only hears answers */
    const char *folder;       /* for files; NULL: it has no place for any */
    bool beyond_this_machine; /* allows tcp addresses that others reach: there is no encryption yet */
    uint64_t shown;           /* bytes of memory that others of this machine may look at, at most; 0: none */
    const env *env;           /* another world than this machine, borrowed for its life; NULL: this machine */
} van_options;

/* The host and its context are borrowed for its life; the host is not called before the loop runs. MR_INVALID: not an
 * address, or too long a one. MR_EXISTS: somebody listens there. MR_DENIED, MR_IO. */
MR_MUST mr_status van_open(const van_options *options, const van_host *host, void *context, van **out);
void van_close(van *van); /* what the sockets take at once is still sent; the host is not called any more */

const env *van_env(const van *van);
const char *van_address(const van *van); /* as others reach it */
event_loop *van_loop(van *van);          /* NULL: it is elsewhere */
void van_stop(van *van);                 /* its loop ends; elsewhere a no-op: who has started it ends it */
messenger *van_messenger(van *van);      /* of those who write to the metadata store (cluster/metadata_remote.h) */
int64_t van_now_us(const van *van);
int64_t van_looked_us(const van *van); /* the same, of when the loop waited last: for those who ask often */

/* Elsewhere. */
int64_t van_due_us(van *van); /* asked after each time that any of its code ran */
void van_turn(van *van);      /* everything that is due */

void van_send(van *van, const char *address, span bytes); /* as well as it goes */
/* The same for a control message that lies in pieces, which is not copied where it lies in shared buffers: they are
 * held until it left.
 */
void van_send_pieces(van *van, const char *address, const shared_bytes_piece *pieces, size_t count);
/* What the host holds back, and all that was sent, goes to the sockets now rather than before the loop waits next. Not
 * from within the loop. */
void van_hurry(van *van);
/* What a shared buffer holds of control messages that have not left lies at `to` from now on, the same bytes; if that
 * is nowhere, these control messages are lost, with their links. */
void van_move(van *van, const shared_bytes *bytes, span from, span to);
void van_answer(van *van, link_id link, span bytes); /* to what came over that link */

void van_send_message(van *van, const char *address, const control_message *message);
void van_answer_message(van *van, link_id link, const control_message *message);

/* Memory that others of this machine look at, where van_options wanted that and it could be had; NULL: there is none. A
 * control message may speak of it to a process that sees it. Processes are named by numbers that are never used again.
 * */
struct shm_export *van_export(van *van);
uint64_t van_process(const van *van);
bool van_is_seen(const van *van, const char *address);  /* who is there looks at this one's */
uint64_t van_sees(const van *van, const char *address); /* the process there, whose glass is seen; 0: it is not */
const struct shm_import *van_map_view(const van *van,
                                      uint64_t process); /* of that one; NULL: it is not seen any more */

/* Is this a text that can be given as the address of a process? MR_INVALID. */
MR_MUST mr_status van_check_address(const char *text);
