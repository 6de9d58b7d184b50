/* node_actor_args.h — objects and references in the arguments of actors (attachment_each_need), which the node keeps
 * while an actor may be created again, even after the actor's creator has ended.
 *
 *   object of the store    held by the store server (node_extension_ops.keep): survives its creator
 *   future of a process    borrowed from its owner (borrow.h), as by any process; lost with its owner
 *   handle of an actor     held by the new actor itself (node_actor.h)
 *
 *  node_actor_args_args ── node_kept_answer: when every owner has answered ──► kept ── node_kept_drop ──► gone
 *
 * The creator keeps everything until the answer, and the answer waits for the owners; so nothing is released in
 * between. Pure over `rpc`. */
#pragma once
#include "base/list.h"
#include "net/rpc/rpc.h"
#include "runtime/refs/borrow.h"
#include "runtime/refs/value_pack.h"

struct node_core;

typedef struct node_kept node_kept; /* what is kept for one actor */

typedef struct node_actor_args {
    borrow borrow;
    map owners; /* process → map of serial → borrowed reference; owned */
    list kept;  /* of node_kept */
} node_actor_args;

void node_actor_args_init(struct node_core *core);
void node_actor_args_fini(struct node_core *core);                   /* call after rpc_destroy */
void node_actor_args_feed(struct node_core *core);                   /* call when a link has room again */
void node_actor_args_gone(struct node_core *core, uint64_t process); /* its futures are lost */

/* *out is NULL if the arguments need nothing. MR_OBJECT_LOST, MR_CORRUPT, MR_NOMEM: nothing is kept. */
MR_MUST mr_status node_actor_args_args(struct node_core *core, const value_pack *args, node_kept **out);
void node_kept_answer(struct node_core *core, node_kept *kept, rpc_call_token token); /* `kept` NULL: answers at once */
void node_kept_drop(struct node_core *core, node_kept *kept);                         /* NULL is a no-op */
