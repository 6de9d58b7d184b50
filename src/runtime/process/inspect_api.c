/* inspect_api.c — see inspect_api.h. Tested by tests/inspect_test.c. */
#include "runtime/process/inspect_api.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/error.h"
#include "runtime/common/node_discovery.h"
#include "runtime/process/context.h"

enum { ANSWER_US = 10 * 1000 * 1000 };

/* ---- Queries. */

typedef struct asking {
    wire_call call;
    mr_context *mr;
    poller_waiter waiter;
    value_pack *values;
    failure *failed;
} asking;

static void answered(wire_call *call, const rpc_call_result *result) {
    asking *asking = container_of(call, struct asking, call);
    wire_outcome(call, result, "the node", &asking->values, &asking->failed);
    poller_finish(&asking->mr->poller, &asking->waiter);
}

static mr_status ask_locked(mr_context *mr, const inspect_query_question *question, int64_t timeout_us,
                            value_pack **out) {
    uint8_t fields[INSPECT_QUERY_FIELDS_SIZE];
    inspect_query_encode(question, fields);
    wire_message message = {.fields = span_of(fields, sizeof fields)};
    asking asking = {.call = {.done = answered}, .mr = mr};
    poller_waiter_init(&asking.waiter);
    MR_TRY(core_worker_ask_node(&mr->worker, NODE_LOOK, &message, &asking.call));
    if (context_wait(mr, &asking.waiter, timeout_us) != MR_OK && asking.call.id.number != 0) {
        mr_status status = rpc_cancel(mr->worker.rpc, asking.call.id); /* calls `answered` */
        if (status != MR_OK) error_clear();
        failure_unref(asking.failed);
        value_pack_unref(asking.values);
        return error_set(MR_TIMEOUT, "the node did not answer a query within %.3g s", (double)timeout_us / 1e6);
    }
    if (asking.failed != NULL) {
        mr_status status = failure_raise(mr->worker.over != NULL ? mr->worker.over : asking.failed);
        failure_unref(asking.failed);
        return status;
    }
    *out = asking.values;
    return MR_OK;
}

static mr_status ask(mr_context *mr, const inspect_query_question *question, int64_t until_us, value_pack **out) {
    MR_TRY(context_check(mr, out));
    int64_t left_us = until_us == 0 ? ANSWER_US : until_us - clock_now_us(mr->env.clock);
    if (left_us <= 0) return error_set(MR_TIMEOUT, "the node was not asked for query %d in time", (int)question->what);
    context_lock(mr);
    return context_done(mr, ask_locked(mr, question, left_us, out));
}

/* ---- Opening and closing. */

mr_inspect inspect_api_borrow(mr_context *mr, int64_t until_us) {
    return (mr_inspect){.mr = mr, .borrowed = true, .ask = ask, .until_us = until_us};
}

mr_status mr_inspect_open(const char *address, mr_inspect **out) {
    mr_node_info node;
    if (out == NULL) return error_set(MR_INVALID, "mr_inspect_open: `out` is NULL");
    MR_TRY(node_discovery_find(address, &node, NULL));
    mr_inspect *inspect;
    MR_TRY(alloc_try(sizeof(mr_inspect), &inspect));
    *inspect = (mr_inspect){.ask = ask};
    mr_status status = context_open(node.address, &(context_entry){.role = WIRE_WATCHER}, &inspect->mr);
    if (status != MR_OK) {
        free(inspect);
        return status;
    }
    *out = inspect;
    return MR_OK;
}

mr_status mr_inspect_within(mr_context *mr, mr_inspect **out) {
    MR_TRY(context_check(mr, out));
    mr_inspect *inspect;
    MR_TRY(alloc_try(sizeof(mr_inspect), &inspect));
    *inspect = inspect_api_borrow(mr, 0);
    *out = inspect;
    return MR_OK;
}

void mr_inspect_close(mr_inspect *inspect) {
    if (inspect == NULL) return;
    if (!inspect->borrowed && context_is_ours(inspect->mr)) context_close(inspect->mr, false);
    free(inspect);
}
