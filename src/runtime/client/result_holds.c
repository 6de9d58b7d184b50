/* result_holds.c — see result_holds.h. */
#include "runtime/client/result_holds.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/failpoint.h"
#include "base/mutation.h"
#include "runtime/refs/attachment.h"
#include "runtime/refs/wire.h"

typedef struct kept {
    list place;
    link_id link;
    uint64_t number;
    value_pack *values;
    result_holds *holds;
    borrow_gate gate; /* for an answer that arrived */
    bool closed;      /* its link is closed: no confirmation is sent */
} kept;

void result_holds_init(result_holds *holds, rpc *rpc, borrow_rpc *borrow_rpc) {
    holds->rpc = rpc;
    holds->borrow_rpc = borrow_rpc;
    list_init(&holds->kept);
    list_init(&holds->arrived);
}

static void let_go(kept *kept) {
    list_remove(&kept->place);
    value_pack_unref(kept->values);
    free(kept);
}

static kept *add(result_holds *holds, list *to, link_id link, uint64_t number, value_pack *values) {
    kept *kept = XNEW(struct kept, .link = link, .number = number, .values = value_pack_ref(values), .holds = holds);
    list_push_back(to, &kept->place);
    return kept;
}

static void let_go_all(list *from) {
    while (!list_empty(from)) let_go(container_of(from->next, kept, place));
}

void result_holds_fini(result_holds *holds) {
    let_go_all(&holds->kept);
    let_go_all(&holds->arrived);
}

/* ---- The answering side. */

void result_holds_keep(result_holds *holds, rpc_call_token token, value_pack *values) {
    add(holds, &holds->kept, token.link, token.number, values);
}

static void let_go_of(result_holds *holds, link_id link, uint64_t number) {
    list_for_each (at, &holds->kept) {
        kept *kept = container_of(at, struct kept, place);
        if (kept->link.v != link.v || kept->number != number) continue;
        let_go(kept);
        return;
    }
}

void result_holds_crossed(result_holds *holds, rpc_call_token token) { let_go_of(holds, token.link, token.number); }

void result_holds_took(result_holds *holds, rpc_call_token token, span payload) {
    reader reader = reader_of(payload.data, payload.size);
    uint64_t number = reader_u64(&reader);
    if (!reader.failed) let_go_of(holds, token.link, number);
    if (wire_answer(holds->rpc, token, (span){0}) != MR_OK) return; /* the caller is gone */
}

/* A record that waits for a gate is freed when the gate has opened. */
static void forget(list *from, link_id link) {
    list_for_each (at, from) {
        kept *kept = container_of(at, struct kept, place);
        if (kept->link.v != link.v) continue;
        kept->closed = true;
        if (kept->gate.left == 0) let_go(kept);
    }
}

void result_holds_closed(result_holds *holds, link_id link) {
    forget(&holds->kept, link);
    forget(&holds->arrived, link);
}

/* ---- The calling side. */

/* Sends CLIENT_TOOK. False: there is no room now. */
static bool say_took(result_holds *holds, const kept *kept) {
    FAILPOINT("runtime.transit_took");
    if (MUTATED("no-took")) return true;
    return wire_tell(holds->rpc, kept->link, CLIENT_TOOK, span_of(&kept->number, sizeof kept->number)) != MR_BUSY;
}

void result_holds_feed(result_holds *holds) {
    list_for_each (at, &holds->arrived) {
        kept *kept = container_of(at, struct kept, place);
        bool whole = kept->gate.left == 0 && attachment_is_taken(kept->values);
        if (kept->closed ? kept->gate.left == 0 : whole && say_took(holds, kept)) let_go(kept);
    }
}

static void gate_opened(borrow_gate *gate) { result_holds_feed(container_of(gate, kept, gate)->holds); }

void result_holds_arrived(result_holds *holds, rpc_call_id answer, value_pack *values) {
    kept *kept = add(holds, &holds->arrived, answer.link, answer.number, values);
    kept->gate.open = gate_opened;
    borrow_rpc_keep_all(holds->borrow_rpc, values, &kept->gate);
    if (borrow_rpc_through(holds->borrow_rpc, &kept->gate)) result_holds_feed(holds);
}
