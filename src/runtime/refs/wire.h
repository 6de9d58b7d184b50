/* wire.h — requests between the processes of a machine (net/rpc/rpc.h), and their layout.
 *
 * Payloads are little-endian fields in the order given here; `text` is a u32 length and bytes, `bundle` a value pack:
 * the rest of the payload, or the call's body if that is empty and there is one. The reader checks everything received.
 *
 *   method               from → to         request                                        answer
 *   -------------------  ----------------  ---------------------------------------------  -----------------------------
 *   NODE_JOIN            any → node        version u32, role u8, pid u32; of a driver     workers u32, program u32, of
 *                                          also name space text, output u8; to a         a standalone node session
 *                                          standalone node u32, the driver's             directory text
 *                                          descriptor of its launch spec
 *   NODE_LEASE           client → node     resources, retriable u8, serial u64 and name   lease u64, worker u64; later
 *                                          text of a waiting task
 *   NODE_RELEASE         client → node     lease u64, after u8 (wire_after), process u64
 *   NODE_BLOCKED         worker → node     blocked u8
 *   NODE_ACTOR_CREATE    client → node     actor id, class text, name text, space text,
 *                                          restarts u32, detached u8, native u8, threads u32, about
 *                                          text, resources, bundle
 *   NODE_ACTOR_WHERE     any → node        actor id                                       process u64; once it is alive
 *   NODE_ACTOR_FIND      any → node        name text, space text                          actor id
 *   NODE_ACTOR_KILL      any → node        actor id
 *   NODE_ACTOR_RESTART   any → node        actor id: its process ends
 *   NODE_ACTOR_STATE     worker → node     actor id of its actor, bytes u64 of its          offset u64, bytes u64 of
 *                                          state (node_state.h); 0: a state is written     memory; or 0: not needed
 *   NODE_ACTOR_LOOK      any → node        actor id                                       class text, name text, space
 *                                                                                         text, starts u32, about text
 *   NODE_ACTOR_HOLD      any → node        actor id: the caller has a handle
 *   NODE_ACTOR_DROP      any → node        actor id: it has none any more, and its calls were all answered
 *   NODE_GROUP_CREATE    any → node        group id, strategy u8, detached u8, name text, placed u8
 *                                          count u32, resources of each
 *   NODE_GROUP_WAIT      any → node        group id                                       when it is placed
 *   NODE_GROUP_REMOVE    any → node        group id
 *   NODE_STORE           any → node                                                       as node_store_stats
 *   NODE_LOOK            observer → node   query (inspect_query.h)                        values
 *   NODE_EVENTS          worker → node                                                    offset u64, bytes u64; or 0
 *   NODE_DRAIN           driver → node                                                    when the output of its
 *                                                                                         workers was shown
 *   NODE_OUTPUT_LOST     worker → node     errno u32: it cannot write its output
 *   CLIENT_RECLAIM       node → client     lease u64
 *   CLIENT_GROUP_GONE    node → client     key u64 of a group that it has made and another has removed
 *   CLIENT_PRINT         node → driver     u8 stream, text: whole lines
 *   CLIENT_STORE         node → any                                                       when it checked its store
 *   CLIENT_BORROW        any → owner       serials u64 of futures that the caller has (borrow_rpc.h)
 *   CLIENT_RETURN        any → owner       serials u64 that it has released
 *   CLIENT_FETCH         any → owner       serial u64, keep u8 (borrow_rpc.h)             values or a failure;
 *                                          later
 *   CLIENT_CANCEL        any → owner       serial u64, how u8: cancels what makes it      a byte: ask again
 *   CLIENT_LOOK          node → client     query (inspect_query.h)                        values
 *   CLIENT_TOOK          any → any         number u64 of a call whose answer names objects (result_holds.h)
 *   WORKER_TASK          client → worker   call, bundle                                   values or a failure; MR_BUSY:
 *                                                                                         it was not begun, and is not
 *   WORKER_ACTOR_INIT    node → worker     actor id, class text, threads u32, bundle      as above
 *   WORKER_ACTOR_STATE   node → worker     bundle: the state of the actor that is created next
 *   WORKER_ACTOR_CALL    client → worker   call, bundle                                   as above
 *   WORKER_NEXT          client → worker   number u64 of a stream call (stream_reader.h)  one value; later
 *   WORKER_END           client → worker   number u64 of a task: if it runs, the process ends
 *   WORKER_ALONE         client → worker   number u64 of a task or a call: its cancellation,
 *                                          which follows, spares its children
 *   WORKER_LEAVE         node → worker     it is to end: all handles of the actor were
 *                                          released, or it has run enough tasks           none: it ends
 *   WORKER_GPUS          node → worker     text: the devices that it may see ("0,3")
 *
 * `call` begins with eight bytes: the number of the name u16 (0: it has none), the size of the name u16, how many
 * values to return u16, flags u16 (WIRE_STREAM, WIRE_CODE, WIRE_HOLDS, WIRE_REPEATS). With WIRE_REPEATS, the caller's
 * process u64 and the position of the call among its calls of the actor u64 follow: they are the same when the call is
 * sent again. If the size is not 0, the actor's id (of a method) and the name follow, padded to 8, and of a name with
 * code (WIRE_CODE) its size u64 and the code, padded to 8: the worker keeps them with the number. If it is 0 the worker
 * has that number from before, on the same link. A name is sent with its text until a call with it was answered. A call
 * without values has no value pack: two of them fit a cache line, as two of the shortest answers do.
 *
 * An empty name space is the program's own.
 *
 * The answer of a worker begins with eight bytes: WIRE_VALUES or WIRE_FAILED in the first, the others zero; then the
 * value pack or the failure (failure.h). So a task that fails is a call that was answered. One plain value of at most
 * WIRE_VALUE_MAX bytes, as most are, is the answer itself: WIRE_VALUE, its size u8, its bytes, padded to 8. */
#pragma once
#include "base/bytes.h"
#include "miniray/value.h"
#include "net/rpc/rpc.h"
#include "runtime/refs/failure.h"
#include "runtime/refs/value_pack.h"

enum {
    WIRE_VERSION = 17,
    WIRE_NAME_MAX = 255,
    WIRE_VALUES = 1,
    WIRE_FAILED = 2,
    WIRE_VALUE = 3,
    WIRE_VALUE_MAX = 14,
    WIRE_STREAM = 1,
    WIRE_CODE = 2,
    WIRE_HOLDS = 4,  /* flags. WIRE_HOLDS: later calls of the same process begin when this call has ended */
    WIRE_REPEATS = 8 /* the call may be sent again to the actor's next process */
};

typedef enum wire_method {
    NODE_JOIN = 1,
    NODE_LEASE,
    NODE_RELEASE,
    NODE_BLOCKED,
    NODE_ACTOR_CREATE,
    NODE_ACTOR_WHERE,
    NODE_ACTOR_FIND,
    NODE_ACTOR_KILL,
    NODE_STORE,
    CLIENT_RECLAIM,
    CLIENT_STORE,
    CLIENT_TOOK,
    CLIENT_BORROW,
    CLIENT_RETURN,
    CLIENT_FETCH,
    WORKER_TASK,
    WORKER_ACTOR_INIT,
    WORKER_ACTOR_CALL,
    NODE_LOOK,
    NODE_EVENTS,
    CLIENT_LOOK,
    NODE_DRAIN,
    CLIENT_PRINT,
    NODE_ACTOR_HOLD,
    NODE_ACTOR_DROP,
    WORKER_GPUS,
    NODE_ACTOR_RESTART,
    NODE_ACTOR_LOOK,
    WORKER_END,
    NODE_GROUP_CREATE,
    NODE_GROUP_WAIT,
    NODE_GROUP_REMOVE,
    WORKER_NEXT,
    CLIENT_CANCEL,
    WORKER_ALONE,
    WORKER_LEAVE,
    CLIENT_GROUP_GONE,
    NODE_OUTPUT_LOST,
    NODE_ACTOR_STATE,
    WORKER_ACTOR_STATE,
} wire_method;

/* Whether the request is a task or method to run, or an actor to create. */
static inline bool wire_is_work(uint32_t method) { return method >= WORKER_TASK && method <= WORKER_ACTOR_CALL; }

/* Kind of cancellation: with its children; by force, even if that kills the worker that runs it; or alone, without its
 * children. */
typedef enum wire_how { WIRE_WITH_CHILDREN, WIRE_BY_FORCE, WIRE_ALONE, WIRE_HOW_COUNT } wire_how;

/* Next state of a returned worker: killed; reused; or exiting when the tasks that it submitted are done. */
typedef enum wire_after { WIRE_KILLED, WIRE_GOES_ON, WIRE_LEAVES, WIRE_AFTER_COUNT } wire_after;

typedef enum wire_role { WIRE_DRIVER, WIRE_WORKER, WIRE_WATCHER } wire_role;

static inline void wire_put_actor(writer *writer, mr_actor actor) {
    writer_u64(writer, actor.word[0]);
    writer_u64(writer, actor.word[1]);
}
static inline mr_actor wire_get_actor(reader *reader) {
    mr_actor actor;
    actor.word[0] = reader_u64(reader);
    actor.word[1] = reader_u64(reader);
    return actor;
}
/* Number of a placement group on its node, from its id. */
static inline uint64_t wire_group_key(mr_placement_group group) {
    return (uint64_t)(uint32_t)group.word[0] << 32 | (uint32_t)group.word[1];
}
static inline bool wire_same_actor(mr_actor a, mr_actor b) {
    return ((a.word[0] ^ b.word[0]) | (a.word[1] ^ b.word[1])) == 0;
}
/* Reads a text of at most WIRE_NAME_MAX bytes without zeros; any other text sets reader->failed. */
span wire_get_name(reader *reader);

/* ---- Requests. A message is fields (built on the stack by the caller) and optionally a value pack. */

typedef struct wire_message {
    span fields;
    value_pack *pack; /* NULL: none; borrowed */
    span small;       /* bytes of a value pack that is sent inside the message; empty: none */
} wire_message;

/* One call, embedded in its subject (such as a task). A call holds the memory being sent and received. */
typedef struct wire_call {
    rpc_call_id id;       /* number 0: not in flight */
    rpc_call_id answered; /* id of the call, once it is done */
    void (*done)(struct wire_call *call, const rpc_call_result *result);
    void (*free)(struct wire_call *call); /* called by wire_call_end, now or when the body was sent; NULL: none */
    value_pack *leaving, *arriving;
    bool ended;
} wire_call;

void wire_call_free(wire_call *call); /* as `free`: frees a heap record that begins with its call */

/* Starts the call. MR_BUSY, MR_CLOSED, … as rpc_begin; nothing has happened then. */
MR_MUST mr_status wire_ask(rpc *rpc, link_id link, wire_method method, const wire_message *message, wire_call *call);
/* The same; the call ends with MR_TIMEOUT after timeout_us. */
MR_MUST mr_status wire_ask_within(rpc *rpc, int64_t now_us, int64_t timeout_us, link_id link, wire_method method,
                                  const wire_message *message, wire_call *call);
/* Sends a one-way message: its answer is ignored. */
MR_MUST mr_status wire_tell(rpc *rpc, link_id link, wire_method method, span fields);
/* Frees the record as soon as no part of it is being sent. The call must be done. */
__attribute__((noinline)) void wire_call_end_slowly(wire_call *call); /* the general case */
static inline void wire_call_end(wire_call *call) {
    bool plain = call->leaving == NULL && call->arriving == NULL;
    if (__builtin_expect(!plain || call->id.number != 0 || call->ended || call->free == NULL, 0))
        wire_call_end_slowly(call);
    else
        call->free(call);
}

/* ---- Calls to workers, written in place. */

typedef struct wire_head { /* first eight bytes of a call */
    uint16_t number, name_size, returns, flags;
} wire_head;

typedef struct wire_repeat { /* after them, with WIRE_REPEATS */
    uint64_t caller, number;
} wire_repeat;

/* The same as one word, for a name that the worker knows. */
static inline uint64_t wire_head_word(uint32_t number, uint16_t returns) { return number | (uint64_t)returns << 32; }

static inline size_t wire_padded(size_t size) { return (size + 7) & ~(size_t)7; }

/* Starts a call of `size` bytes that were written where rpc_begin returned room. `body` (NULL: none) is sent with it,
 * and a reference to `body` taken. */
void wire_call_commit(rpc *rpc, link_id link, size_t size, value_pack *body, wire_call *call);
/* The same with a body that is gathered from `pieces` and sent at once. False: that is not possible; the call is not
 * started and stays begun. */
MR_MUST bool wire_call_commit_now(rpc *rpc, link_id link, size_t size, const span *pieces, size_t count,
                                  wire_call *call);
/* Sends a whole small call, as rpc_ask. Sets only the call's id: wire_call_fill_in sets the other fields, before any
 * other use of the RPCs. */
MR_MUST mr_status wire_call_words(rpc *rpc, link_id link, wire_method method, const uint64_t *words, size_t count,
                                  wire_call *call);
static inline void wire_call_fill_in(wire_call *call, void (*done)(wire_call *call, const rpc_call_result *result),
                                     void (*let_go)(wire_call *call)) {
    call->done = done;
    call->free = let_go;
    call->leaving = call->arriving = NULL;
    call->ended = false;
}

typedef struct wire_values { /* values returned by a worker */
    value_pack_view view;
    value_pack *owner; /* the caller's reference; NULL: values in the message, borrowed until `done` returns */
} wire_values;

/* In `done` of a call to a worker that was answered (MR_OK): reads the outcome: values, or else *failed, owned by the
 * caller. MR_CORRUPT, MR_NOMEM. */
MR_MUST mr_status wire_read(wire_call *call, const rpc_call_result *result, wire_values *values, failure **failed);
/* Whether the answer is exactly one plain value inside the message; borrowed until `done` returns. */
__attribute__((noinline)) bool wire_read_other(const rpc_call_result *result, span *value);
static inline bool wire_read_small(const rpc_call_result *result, span *value) {
    const uint8_t *bytes = result->payload.data;
    bool byte = result->payload.size == 8 && result->body.size == 0 && bytes[0] == WIRE_VALUE && bytes[1] == 1;
    if (__builtin_expect(!byte, 0)) return wire_read_other(result, value);
    *value = span_of(bytes + 2, 1);
    return true;
}
/* Copies borrowed values. MR_NOMEM. */
MR_MUST mr_status wire_values_keep(wire_values *values);

/* In `done` of a call to a worker: reads the outcome, owned by the caller. Exactly one of *values and *failed is set.
 * `origin` names the request. */
void wire_outcome(wire_call *call, const rpc_call_result *result, const char *origin, value_pack **values,
                  failure **failed);
/* In `done` of any call whose status is not MR_OK: returns its failure. */
failure *wire_failure(const rpc_call_result *result, const char *origin);

/* ---- Answers. MR_BUSY: try again after on_room. MR_CLOSED: the caller is gone, which is no error. */

MR_MUST mr_status wire_answer(rpc *rpc, rpc_call_token token, span fields);
MR_MUST mr_status wire_answer_values(rpc *rpc, rpc_call_token token, value_pack *values);
/* The same for the bytes of a small value pack; `more` as rpc_reply. */
MR_MUST mr_status wire_answer_bytes(rpc *rpc, rpc_call_token token, span values, bool more);
MR_MUST mr_status wire_answer_failure(rpc *rpc, rpc_call_token token, const failure *failure);

/* Answers that a request is malformed or cannot be served. Without room no answer is sent: the caller sees the end of
 * its link, since the link of a peer that does not read is about to be closed. */
void wire_refuse(rpc *rpc, rpc_call_token token, mr_status status, const char *text);

/* For rpc_call_handlers.on_body: memory for a value pack; NULL: no memory. */
void *wire_body_room(uint64_t size);
void wire_body_drop(const void *body);        /* frees memory that was not taken; NULL is a no-op */
value_pack *wire_body_pack(const void *body); /* takes the memory as a value pack, not checked yet */
/* The value pack of a request whose fields the reader has read: inline bytes are copied, a body is taken over. */
MR_MUST mr_status wire_take_pack(const reader *reader, span payload, span body, value_pack **out);
