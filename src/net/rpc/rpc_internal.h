/* rpc_internal.h — internals of RPC shared by rpc.c (links, creation), rpc_client.c and rpc_server.c.
 *
 * Each link has an rpc_call_link with the places of outgoing calls (rpc_pending.h) and the duplicate filter of incoming
 * calls (rpc_dedup.h). A call without deadline uses nothing else: no clock, no heap, no allocation.
 *
 * Invariants (rpc_check)
 *   1. open_count = number of waiting records over all links. Each has a done, and its number is the largest of its
 *      place.
 *   2. A record is in `timers` only in state waiting, in its link's `unsent` only in state waiting or telling; of
 *      waiting records only `timed` ones are in either or keep their payload.
 *   3. `arriving` is waiting, and the transport may be writing into memory that its on_body returned.
 *   4. A link that is `over` starts no call and sends nothing; its calls are being ended or have ended.
 *   5. The list of free places contains each free place once.
 *
 * The place of a call is freed before done is called, so that done can start the next call in it. Callbacks may drive
 * the transport, and so cause on_closed for a link that an outer stack frame is working on: its memory stays in
 * `graves` until the outermost entry leaves. */
#pragma once
#include "base/assert.h"
#include "base/map.h"
#include "net/rpc/rpc_dedup.h"
#include "net/rpc/rpc_pending.h"
#include "net/shm/lane.h"

typedef struct rpc_call_link {
    link_id id;
    lane *lane;         /* for small messages; borrowed, NULL: the transport has none */
    bool over;          /* closed, condemned or shut down */
    bool closed;        /* the transport has closed the link */
    bool starved;       /* a call was refused because all places were taken */
    uint8_t begun_kind; /* rpc_kind of the message that was begun but not committed; 0: none */
    uint32_t begun_method;
    size_t begun_size;
    uint8_t *begun; /* the message's head, in the transport's memory */
    rpc_pending pending;
    rpc_dedup dedup;
    rpc_call_record *arriving; /* the call whose answer's body is arriving; NULL: none */
    list unsent;               /* records with something to send when there is room */
    cause *condemned;          /* owned; why this side closed the link; NULL: it did not */
    struct rpc_call_link *next_grave;
} rpc_call_link;

struct rpc {
    const env *env;
    const rpc_call_handlers *handlers;
    void *context;
    map links;             /* by link_id */
    rpc_call_link *recent; /* the link used last, or NULL */
    timer_heap timers;
    size_t open_count;
    size_t kept_bytes;
    uint32_t depth;        /* nested entries that may call back */
    rpc_call_link *graves; /* closed links that outer stack frames may still point to */
    rpc_call_stats stats;
};

/* Returns NULL for an unknown link. Usually the link used last matches. */
__attribute__((noinline)) rpc_call_link *rpc_call_link_look_up(rpc *rpc, link_id id);
static inline rpc_call_link *rpc_call_link_find(rpc *rpc, link_id id) {
    rpc_call_link *recent = rpc->recent;
    return __builtin_expect(recent != NULL && recent->id.v == id.v, 1) ? recent : rpc_call_link_look_up(rpc, id);
}

/* Enclose everything that calls back: closed links stay allocated until the outermost entry leaves. */
static inline void rpc_call_enter(rpc *rpc) { rpc->depth++; }
__attribute__((noinline, cold)) void rpc_call_bury(rpc *rpc);
static inline void rpc_call_leave(rpc *rpc) {
    if (--rpc->depth == 0 && __builtin_expect(rpc->graves != NULL, 0)) rpc_call_bury(rpc);
}

/* Closes the link because of a failure: its calls end now, the link ends when the transport has closed it. */
__attribute__((noinline, cold)) void rpc_call_condemn(rpc *rpc, rpc_call_link *link, mr_status status,
                                                      const char *text);
__attribute__((noinline, cold)) void rpc_call_bad_message(rpc *rpc, rpc_call_link *link, const char *text);

/* ---- Sending: begin, write the payload, commit. */

static inline mr_status rpc_call_begin(rpc *rpc, rpc_call_link *link, rpc_kind kind, size_t size, uint8_t **payload) {
    if (link->over) return MR_CLOSED;
    if (size > RPC_CALL_PAYLOAD_MAX) return MR_TOO_LARGE;
    link->begun_kind = 0; /* the transport also cancels an earlier begun message */
    uint8_t *at = link->lane == NULL ? NULL : lane_reserve(link->lane, rpc_header_room(kind, size));
    if (at == NULL) {
        transport transport = rpc->env->transport;
        MR_TRY(transport.ops->reserve(transport.self, link->id, rpc_header_room(kind, size), &at));
    }
    link->begun = at;
    link->begun_kind = (uint8_t)kind;
    link->begun_size = size;
    *payload = link->begun + RPC_HEADER_SIZE;
    return MR_OK;
}

/* Finds the link whose begun message is being committed. */
static inline rpc_call_link *rpc_call_begun(rpc *rpc, link_id id, rpc_kind kind, size_t size) {
    rpc_call_link *link = rpc_call_link_find(rpc, id);
    MR_ASSERT(link != NULL && !link->over && link->begun_kind == kind && size <= link->begun_size);
    return link;
}

static inline void rpc_call_commit(rpc *rpc, rpc_call_link *link, const rpc_header *header, size_t size) {
    link->begun_kind = 0;
    size_t whole = rpc_header_encode(header, link->begun, size);
    if (link->lane != NULL) {
        lane_commit(link->lane, whole);
        return;
    }
    transport transport = rpc->env->transport;
    transport.ops->commit(transport.self, link->id, whole);
}

enum { RPC_CALL_FEW_WORDS = 16 }; /* maximum words of a message that is copied word by word and may be held in a run */

/* Sends a complete message of words through the lane if possible. All its stores are close together, so that the cache
 * line moves to the reader once; `more` messages may follow at once. False: nothing was done. */
static inline bool rpc_call_send_words(rpc_call_link *link, uint64_t first, uint64_t number, const uint64_t *words,
                                       size_t count, bool more) {
    size_t size = RPC_HEADER_SIZE + count * sizeof *words;
    uint8_t *at = link->lane == NULL ? NULL : lane_reserve(link->lane, size);
    if (__builtin_expect(at == NULL, 0)) return false;
    link->begun_kind = 0;
    memcpy(at, &first, sizeof first);
    memcpy(at + RPC_HEADER_NUMBER, &number, sizeof number);
    if (__builtin_expect(count <= RPC_CALL_FEW_WORDS, 1))
        bytes_copy_words(at + RPC_HEADER_SIZE, words, count * sizeof *words);
    else
        memcpy(at + RPC_HEADER_SIZE, words, count * sizeof *words);
    if (more && count <= RPC_CALL_FEW_WORDS)
        lane_hold(link->lane, size);
    else
        lane_commit(link->lane, size);
    return true;
}

void rpc_call_commit_body(rpc *rpc, rpc_call_link *link, const rpc_header *header, size_t size, span body,
                          body_sent_fn *sent, void *argument);
mr_status rpc_call_send(rpc *rpc, rpc_call_link *link, const rpc_header *header, span payload); /* a complete message */

/* ---- rpc_client.c */

void rpc_call_end_all(rpc *rpc, rpc_call_link *link, const cause *why);
mr_status rpc_call_send_unsent(rpc *rpc, rpc_call_link *link); /* MR_BUSY: a part stays unsent; on_room will follow */
void rpc_call_on_answer(rpc *rpc, rpc_call_link *link, const rpc_header *header, span payload, const span *body);
void *rpc_call_answer_body(rpc *rpc, rpc_call_link *link, const rpc_header *header, span payload, uint64_t size);

/* ---- rpc_server.c */

void rpc_call_on_request(rpc *rpc, rpc_call_link *link, const rpc_header *header, span payload, const span *body);
void *rpc_call_request_body(rpc *rpc, rpc_call_link *link, const rpc_header *header, span payload, uint64_t size);
__attribute__((noinline)) void rpc_call_on_cancel(rpc *rpc, rpc_call_link *link, const rpc_header *header);

/* ---- rpc_check.c */

void rpc_check(const rpc *rpc); /* asserts the invariants above between two entries (base/invariants.h) */
