/* saying.c — see saying.h. */
#include "runtime/refs/saying.h"

#include <stdlib.h>

#include "base/alloc.h"

typedef struct saying {
    wire_call call;
    borrow *borrow;
    borrow_message *message;
} saying;

static void said(wire_call *call, const call_result *result) {
    saying *saying = container_of(call, struct saying, call);
    if (result->why == NULL) borrow_answered(saying->borrow, saying->message); /* else its owner is gone */
    wire_call_end(call);
}

mr_status saying_send(borrow *borrow, calls *calls, link_id link, wire_method method, span fields,
                      borrow_message *message) {
    saying *saying = xcalloc(1, sizeof *saying);
    *saying = (struct saying){.call = {.done = said, .free = wire_call_free}, .borrow = borrow, .message = message};
    mr_status status = wire_ask(calls, link, method, &(wire_message){.fields = fields}, &saying->call);
    if (status != MR_OK) free(saying);
    return status;
}
