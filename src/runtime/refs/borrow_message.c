/* borrow_message.c — see borrow_message.h. */
#include "runtime/refs/borrow_message.h"

#include <stdlib.h>

#include "base/alloc.h"

typedef struct sending {
    wire_call call;
    borrow *borrow;
    borrow_message *message;
} sending;

static void said(wire_call *call, const rpc_call_result *result) {
    const sending *sending = container_of(call, struct sending, call);
    if (result->why == NULL) borrow_answered(sending->borrow, sending->message); /* else the owner is gone */
    wire_call_end(call);
}

mr_status borrow_message_send(borrow *borrow, rpc *rpc, link_id link, wire_method method, span fields,
                              borrow_message *message) {
    sending *made = XNEW(sending, .call = {.done = said, .free = wire_call_free}, .borrow = borrow, .message = message);
    mr_status status = wire_ask(rpc, link, method, &(wire_message){.fields = fields}, &made->call);
    if (status != MR_OK) free(made);
    return status;
}
