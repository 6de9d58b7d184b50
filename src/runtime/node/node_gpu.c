/* node_gpu.c — see node_manager.h. Workers see only their assigned GPUs (WORKER_GPUS, which becomes
 * CUDA_VISIBLE_DEVICES there). An actor's worker gets WORKER_GPUS before the creation request, on the same link; a
 * lease is granted when its worker has answered WORKER_GPUS. Without GPUs no such message is sent. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "runtime/node/node_internal.h"

typedef struct telling { /* WORKER_GPUS in flight, and the lease to grant after its answer */
    wire_call call;
    node_core *core;
    uint64_t lease, worker;
    rpc_call_token token; /* request NODE_LEASE to answer; lease == 0: none */
} telling;

void node_lease_answer(node_core *core, rpc_call_token token, uint64_t lease, uint64_t worker) {
    const uint64_t fields[] = {lease, worker};
    node_answer(core, token, span_of(fields, sizeof fields));
}

/* The outcome is ignored: the client of the lease detects a worker that is gone. */
static void told(wire_call *call, const rpc_call_result *result) {
    telling *telling = container_of(call, struct telling, call);
    if (telling->lease != 0) node_lease_answer(telling->core, telling->token, telling->lease, telling->worker);
    wire_call_end(call);
}

void node_gpus_give(node_core *core, node_member *member) {
    gpus_give(&core->gpus, member->gpus);
    member->gpus = (gpu_share){0};
}

/* Assigns the GPUs that the worker needs now. True: the visible devices have changed. */
static bool assign(node_core *core, node_member *member) {
    scheduler_snapshot snapshot = scheduler_see(core->scheduler, member->process);
    node_gpus_give(core, member);
    member->gpus = gpus_take(&core->gpus, resources_milli(&snapshot.need, "gpu"));
    bool same = member->gpus_told && member->gpus_seen == member->gpus.devices;
    member->gpus_told = true;
    member->gpus_seen = member->gpus.devices;
    return !same;
}

bool node_gpus_tell(node_core *core, node_member *member, uint64_t lease, rpc_call_token token) {
    if (core->gpus.count == 0 || member == NULL || !assign(core, member)) return false;
    char text[GPUS_TEXT_MAX];
    uint8_t fields[4 + GPUS_TEXT_MAX];
    gpus_text(&core->gpus, member->gpus, text);
    writer writer = writer_of(fields, sizeof fields);
    writer_span32(&writer, span_of(text, strlen(text)));
    telling *telling = XNEW(struct telling, .call = {.done = told, .free = wire_call_free}, .core = core,
                            .lease = lease, .worker = member->process, .token = token);
    wire_message message = {.fields = span_of(fields, writer_size(&writer))};
    if (wire_ask(core->rpc, member->link, WORKER_GPUS, &message, &telling->call) == MR_OK) return true;
    member->gpus_told = false; /* so that the next lease sends them again */
    free(telling);
    return false;
}
