/* transit.c — see transit.h. */
#include "runtime/refs/transit.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/failpoint.h"
#include "base/mutation.h"
#include "runtime/refs/cargo.h"
#include "runtime/wire.h"

typedef struct kept {
    list place;
    link_id link;
    uint64_t number;
    bundle *values;
    transit *transit;
    borrow_gate gate; /* of one that arrived */
    bool closed;      /* its link is: nobody is to be told */
} kept;

void transit_init(transit *transit, calls *calls, lender *lender) {
    transit->calls = calls;
    transit->lender = lender;
    list_init(&transit->kept);
    list_init(&transit->arrived);
}

static void let_go(kept *kept) {
    list_remove(&kept->place);
    bundle_unref(kept->values);
    free(kept);
}

static kept *add(transit *transit, list *to, link_id link, uint64_t number, bundle *values) {
    kept *kept = XNEW(struct kept, .link = link, .number = number, .values = bundle_ref(values), .transit = transit);
    list_push_back(to, &kept->place);
    return kept;
}

static void let_go_all(list *from) {
    while (!list_empty(from)) let_go(container_of(from->next, kept, place));
}

void transit_fini(transit *transit) {
    let_go_all(&transit->kept);
    let_go_all(&transit->arrived);
}

/* ---- Of the one who answered. */

void transit_keep(transit *transit, call_token token, bundle *values) {
    add(transit, &transit->kept, token.link, token.number, values);
}

static void let_go_of(transit *transit, link_id link, uint64_t number) {
    list_for_each (at, &transit->kept) {
        kept *kept = container_of(at, struct kept, place);
        if (kept->link.v != link.v || kept->number != number) continue;
        let_go(kept);
        return;
    }
}

void transit_crossed(transit *transit, call_token token) { let_go_of(transit, token.link, token.number); }

void transit_took(transit *transit, call_token token, span payload) {
    reader reader = reader_of(payload.data, payload.size);
    uint64_t number = reader_u64(&reader);
    if (!reader.failed) let_go_of(transit, token.link, number);
    if (wire_answer(transit->calls, token, (span){0}) != MR_OK) return; /* nobody waits for it */
}

/* What waits at a gate goes when that has opened. */
static void forget(list *from, link_id link) {
    list_for_each (at, from) {
        kept *kept = container_of(at, struct kept, place);
        if (kept->link.v != link.v) continue;
        kept->closed = true;
        if (kept->gate.left == 0) let_go(kept);
    }
}

void transit_closed(transit *transit, link_id link) {
    forget(&transit->kept, link);
    forget(&transit->arrived, link);
}

/* ---- Of the one who asked. */

/* False: there is no room for it now. */
static bool say_took(transit *transit, const kept *kept) {
    FAILPOINT("runtime.transit_took");
    if (MUTATED("no-took")) return true;
    return wire_tell(transit->calls, kept->link, CLIENT_TOOK, span_of(&kept->number, sizeof kept->number)) != MR_BUSY;
}

void transit_feed(transit *transit) {
    list_for_each (at, &transit->arrived) {
        kept *kept = container_of(at, struct kept, place);
        bool whole = kept->gate.left == 0 && cargo_is_taken(kept->values);
        if (kept->closed ? kept->gate.left == 0 : whole && say_took(transit, kept)) let_go(kept);
    }
}

static void gate_opened(borrow_gate *gate) { transit_feed(container_of(gate, kept, gate)->transit); }

void transit_arrived(transit *transit, call_id answer, bundle *values) {
    kept *kept = add(transit, &transit->arrived, answer.link, answer.number, values);
    kept->gate.open = gate_opened;
    lender_keep_all(transit->lender, values, &kept->gate);
    if (lender_through(transit->lender, &kept->gate)) transit_feed(transit);
}
