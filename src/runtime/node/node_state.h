/* node_state.h — states of actors (mr_state_set), in memory that the node lends to their processes (saved_state.h).
 *
 *  first mr_state_set of a process ──► NODE_ACTOR_STATE: memory is lent ──► the process writes each state there, and
 *  the node does nothing ──► the process is gone: its last state becomes the actor's (node_actor_set_state), with holds
 *  of the objects that it names; the dead process has held them until then
 *
 * A process asks again for more memory; the node then reads what it has written before. When the process has written
 * its first state, it says so, and the node drops the state of the process before it. Memory is lent to a process and
 * not to its actor: an actor may be dead before its process is. */
#pragma once
#include "base/list.h"
#include "net/rpc/rpc.h"

struct node_core;
struct node_member;

enum { NODE_STATE_BYTES_MAX = 4 << 20 }; /* of one state, without the objects that it names */

typedef struct node_states {
    list areas; /* of node_area: memory lent to living processes */
} node_states;

void node_states_init(node_states *states);
void node_states_fini(struct node_core *core);
/* NODE_ACTOR_STATE; the reader is before the fields. */
mr_status node_state_lend(struct node_core *core, const struct node_member *member, reader *reader,
                          rpc_call_token token);
void node_state_gone(struct node_core *core, uint64_t process); /* call before node_actor_process_gone */
