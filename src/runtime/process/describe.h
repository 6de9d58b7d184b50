/* describe.h — description of a process by its own callback (mr_on_describe).
 *
 *   queried ──► a thread of its own runs the hook, without a lock ──► done: answered at the progress thread's next tick
 *     └── the previous hook still runs: answered so at once
 *
 * The hook may wait for anything, also for ever, such as for a lock of a body that never ends: no other thread waits
 * for it. The context may end meanwhile: the hook's thread does not use it, but only a shared block, freed by the last
 * of the two. With the context's lock held. */
#pragma once
#include "net/rpc/rpc.h"

struct mr_context;
typedef struct description description;

/* True: the query is answered later, with inspect_query_tell. False: there is no hook. */
bool describe_begin(void *context, rpc_call_token token);
void describe_look(struct mr_context *mr); /* answers, if the hook is done */
void describe_fini(struct mr_context *mr);
