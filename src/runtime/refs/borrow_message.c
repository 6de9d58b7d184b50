/* borrow_message.c — see borrow_message.h. */
#include "runtime/refs/borrow_message.h"

#include <stdlib.h>

#include "base/alloc.h"

typedef struct borrow_rpc_message {
    wire_call call;
    borrow *borrow;
    borrow_message *message;
} borrow_rpc_message;

static void said(wire_call *call, const rpc_call_result *result) {
    borrow_rpc_message *message = container_of(call, struct borrow_rpc_message, call);
    if (result->why == NULL) borrow_answered(message->borrow, message->message); /* else its owner is gone */
    wire_call_end(call);
}

mr_status borrow_message_send(borrow *borrow, rpc *rpc, link_id link, wire_method method, span fields,
                              borrow_message *message) {
    borrow_rpc_message *borrow_rpc_message = xcalloc(1, sizeof *borrow_rpc_message);
    *borrow_rpc_message = (struct borrow_rpc_message){
        .call = {.done = said, .free = wire_call_free}, .borrow = borrow, .message = message};
    mr_status status = wire_ask(rpc, link, method, &(wire_message){.fields = fields}, &borrow_rpc_message->call);
    if (status != MR_OK) free(borrow_rpc_message);
    return status;
}
