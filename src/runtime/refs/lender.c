/* lender.c — see lender.h. Tested by tests/runtime_owner_test.c. */
#include "runtime/refs/lender.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"
#include "base/failpoint.h"
#include "runtime/client.h"
#include "runtime/refs/cargo.h"
#include "runtime/refs/saying.h"

enum { KEEPING_MAX = 1024 }; /* a link has room for more calls than that (net/call.h) */

typedef struct way { /* to the owner of something that we have on loan */
    lender *lender;
    uint64_t process;
    route_user user;
    route *route;
    list fetches;  /* of fetch: to be sent */
    list pleas;    /* of plea: likewise */
    list keeping;  /* of fetch: to be sent when fewer than KEEPING_MAX others are under way */
    uint32_t kept; /* fetches of that kind that are */
} way;

typedef struct fetch { /* found by the place of its object, until that is settled or gone */
    wire_call call;
    list place;
    lender *lender;
    uint64_t owner;
    object *object; /* borrowed while anybody has it; NULL: nobody has */
    bool keeps;     /* nobody waits for it: it is kept, and may be wanted when its owner is gone */
    bool counted;   /* in way->kept */
} fetch;

typedef struct plea { /* somebody does not want an object of another process any more */
    wire_call call;
    list place;
    lender *lender;
    object *object; /* held */
    wire_how how;
} plea;

typedef struct owed {
    list place;
    call_token token;
    bool again;
} owed;

/* ---- Ways to owners. */

static void way_opened(route_user *user) { lender_feed(container_of(user, way, user)->lender); }

static fetch *fetch_of(const lender *lender, const object *object) { /* NULL: none is under way */
    return object->fetching ? map_get(&lender->fetches, object->place.index) : NULL;
}

/* Whatever comes of it is not for its object any more. */
static void fetch_part(fetch *fetch) {
    map_remove(&fetch->lender->fetches, fetch->object->place.index);
    fetch->object->fetching = false;
    fetch->object = NULL;
}

static void fetch_end(fetch *fetch, bundle *values, failure *failed) { /* references are taken over */
    objects *objects = &fetch->lender->client->objects;
    object *object = fetch->object;
    bool keeps = fetch->keeps;
    if (object != NULL) {
        fetch_part(fetch);
        object_hold(object);
    }
    wire_call_end(&fetch->call);
    if (object != NULL && object->state == OBJECT_PENDING) {
        if (values != NULL) {
            object_fulfil(objects, object, values, 0);
        } else {
            object->seen = !keeps || failed->code == MR_OBJECT_LOST; /* its owner would not hear of it */
            object_fail(objects, object, failed);
        }
    }
    bundle_unref(values);
    failure_unref(failed);
    if (object != NULL) object_drop(objects, object);
}

static failure *gone_failure(const char *why) {
    return failure_create(MR_OBJECT_LOST, "the process that owns the object has ended", why, NULL);
}

static void plea_free(wire_call *call) {
    plea *plea = container_of(call, struct plea, call);
    object_drop(&plea->lender->client->objects, plea->object);
    free(plea);
}

/* The owner is gone: what is not here will never be. */
static void way_closed(route_user *user, const cause *why) {
    way *way = container_of(user, struct way, user);
    lender *lender = way->lender;
    objects *objects = &lender->client->objects;
    map_remove(&lender->routes, way->process);
    borrow_owner_gone(&lender->borrow, way->process);
    list *waiting[] = {&way->fetches, &way->keeping};
    for (int i = 0; i < 2; i++)
        for (list *at; (at = list_pop_front(waiting[i])) != NULL;)
            fetch_end(container_of(at, fetch, place), NULL, gone_failure(why->text));
    for (list *at; (at = list_pop_front(&way->pleas)) != NULL;) wire_call_end(&container_of(at, plea, place)->call);
    const map *theirs = map_get(&objects->owners, way->process);
    map_slot slot;
    for (size_t at = 0; theirs != NULL && (at = map_next(theirs, at, &slot)) != 0;)
        ((object *)slot.value)->loan.state = LOAN_LOST;
    free(way);
}

static way *way_to(lender *lender, uint64_t process) {
    way *known = map_get(&lender->routes, process);
    if (known != NULL) return known;
    way *made = XNEW(way, .lender = lender, .process = process, .user = {.opened = way_opened, .closed = way_closed});
    list_init(&made->fetches);
    list_init(&made->pleas);
    list_init(&made->keeping);
    if (client_use(lender->client, process, &made->user, &made->route) != MR_OK) {
        free(made);
        return NULL;
    }
    map_put(&lender->routes, process, made);
    return made;
}

/* ---- Saying what is borrowed. */

static mr_status say(void *host, borrow_message *message) {
    lender *lender = host;
    way *way = way_to(lender, message->owner);
    if (way == NULL || !way->route->open) return MR_BUSY;
    FAILPOINT("runtime.lender_say");
    return saying_send(&lender->borrow, lender->client->calls, way->route->link,
                       message->verb == BORROW ? CLIENT_BORROW : CLIENT_RETURN,
                       span_of(message->serials, message->count * sizeof message->serials[0]), message);
}

static loan *find_loan(void *host, uint64_t owner, uint64_t serial) {
    object *object = object_known(&((lender *)host)->client->objects, (mr_ref){{owner, serial}});
    return object == NULL ? NULL : &object->loan;
}

static void *hold_ours(void *host, uint64_t serial) {
    objects *objects = &((lender *)host)->client->objects;
    object *object = object_known(objects, (mr_ref){{objects->process, serial}});
    return object == NULL ? NULL : object_hold(object);
}

static void drop_ours(void *host, void *object) { object_drop(&((lender *)host)->client->objects, object); }

static const borrow_ops ops = {say, find_loan, hold_ours, drop_ours};

/* ---- Fetching. */

/* Takes what the value names and refers to. NULL: *failed says why not. */
static bundle *receive(fetch *fetch, bundle *values, failure **failed) {
    client *client = fetch->lender->client;
    mr_status status = cargo_receive(&client->objects, values);
    if (status == MR_OK) {
        if (values->cargo != NULL) transit_arrived(&client->transit, fetch->call.answered, values);
        return values;
    }
    *failed = failure_create(status, mr_last_error(), "object of another process", NULL);
    bundle_unref(values);
    return NULL;
}

static void feed_keeping(way *way);

/* One of those that are kept has come, or is not wanted any more: room for the next. */
static void uncount(fetch *fetch) {
    way *way = fetch->counted ? map_get(&fetch->lender->routes, fetch->owner) : NULL;
    fetch->counted = false;
    if (way == NULL) return;
    way->kept--;
    feed_keeping(way);
}

static void fetched(wire_call *call, const call_result *result) {
    fetch *fetch = container_of(call, struct fetch, call);
    objects *objects = &fetch->lender->client->objects;
    bundle *values;
    failure *failed;
    object *object = fetch->object == NULL ? NULL : object_hold(fetch->object); /* whatever is let go of meanwhile */
    wire_outcome(call, result, "object of another process", &values, &failed);
    if (values != NULL && values->count != 1) {
        bundle_unref(values);
        values = NULL;
        failed = failure_create(MR_CORRUPT, "malformed answer of the object's owner", "", NULL);
    }
    if (values != NULL) values = receive(fetch, values, &failed);
    if (result->why != NULL) {
        failure_unref(failed);
        failed = gone_failure(result->why->text);
    }
    uncount(fetch);
    fetch_end(fetch, values, failed);
    if (object != NULL) object_drop(objects, object);
}

/* Asks the owner about an object; `how` is the second field of the method. On success it leaves the line at `place`. */
static bool ask_owner(const way *way, wire_method method, const object *object, uint8_t how, wire_call *call,
                      list *place) {
    uint8_t fields[9];
    writer writer = writer_of(fields, sizeof fields);
    writer_u64(&writer, object->ref.word[1]);
    writer_u8(&writer, how);
    wire_message message = {.fields = span_of(fields, sizeof fields)};
    if (wire_ask(way->lender->client->calls, way->route->link, method, &message, call) != MR_OK) return false;
    list_remove(place);
    return true;
}

static bool send_fetch(const way *way, fetch *fetch) {
    FAILPOINT("runtime.lender_fetch");
    return ask_owner(way, CLIENT_FETCH, fetch->object, fetch->keeps, &fetch->call, &fetch->place);
}

static void feed_keeping(way *way) {
    if (!way->route->open) return;
    list_for_each (at, &way->keeping) {
        fetch *fetch = container_of(at, struct fetch, place);
        if (way->kept >= KEEPING_MAX || !send_fetch(way, fetch)) return;
        fetch->counted = true;
        way->kept++;
    }
}

static void start_fetch(lender *lender, object *object, bool keeps) {
    fetch *made = XNEW(fetch, .call = {.done = fetched, .free = wire_call_free}, .lender = lender, .object = object,
                       .keeps = keeps, .owner = object->ref.word[0]);
    object->fetching = true;
    map_put(&lender->fetches, object->place.index, made);
    way *way = way_to(lender, made->owner);
    if (way == NULL) {
        list_push_back(&lender->unreachable, &made->place); /* it fails, but not inside of this */
    } else if (keeps) {
        list_push_back(&way->keeping, &made->place);
        feed_keeping(way);
    } else {
        list_push_back(&way->fetches, &made->place);
        if (way->route->open) (void)send_fetch(way, made);
    }
    client_stir(lender->client);
}

/* Nobody has the object any more, or it is asked for otherwise. */
static void fetch_drop(fetch *fetch) {
    fetch_part(fetch);
    if (fetch->call.id.number == 0) { /* not sent yet */
        list_remove(&fetch->place);
        wire_call_end(&fetch->call);
    } else if (calls_cancel(fetch->lender->client->calls, fetch->call.id) != MR_OK) { /* it ends in `fetched` */
        MR_UNREACHABLE();
    }
}

/* One that is fetched to be kept is asked for again: its owner shall know that somebody hears of a failure. */
static void wanted(void *host, object *object) {
    lender *lender = host;
    fetch *under_way = fetch_of(lender, object);
    if (under_way != NULL && !under_way->keeps) return;
    if (under_way != NULL) fetch_drop(under_way);
    start_fetch(lender, object, false);
}

/* ---- Cancelling. */

static bool send_plea(const way *way, plea *plea) {
    return ask_owner(way, CLIENT_CANCEL, plea->object, (uint8_t)plea->how, &plea->call, &plea->place);
}

/* An owner that has no room to pass it on is asked again, after some time. */
static void pleaded(wire_call *call, const call_result *result) {
    plea *plea = container_of(call, struct plea, call);
    way *way = map_get(&plea->lender->routes, plea->object->ref.word[0]);
    if (result->why == NULL && result->payload.size > 0 && way != NULL) {
        *call = (wire_call){.done = call->done, .free = call->free};
        list_push_back(&way->pleas, &plea->place);
        return;
    }
    wire_call_end(call);
}

mr_status lender_cancel(lender *lender, object *object, wire_how how) {
    way *way = object->loan.state == LOAN_LOST ? NULL : way_to(lender, object->ref.word[0]);
    if (way == NULL)
        return error_set(MR_OBJECT_LOST, "cannot cancel object " OBJECT_ID ": process p%u, its owner, has ended",
                         OBJECT_ID_OF(object->ref), (unsigned)object->ref.word[0]);
    plea *made = XNEW(plea, .call = {.done = pleaded, .free = plea_free}, .lender = lender,
                      .object = object_hold(object), .how = how);
    list_push_back(&way->pleas, &made->place);
    if (way->route->open) (void)send_plea(way, made);
    client_stir(lender->client);
    return MR_OK;
}

static void let_go(void *host, object *object) {
    lender *lender = host;
    if (object->fetching) fetch_drop(fetch_of(lender, object));
    bool owes = object->loan.state == LOAN_ASKED || object->loan.state == LOAN_HELD; /* its owner is to be told */
    borrow_let_go(&lender->borrow, &object->loan);
    if (owes) client_stir(lender->client);
}

static void abandoned(void *host, object *object) { flow_abandon(&((lender *)host)->client->flows, object); }

static const objects_ops object_ops = {wanted, let_go, abandoned};

/* ---- Answering. */

static mr_status say_again(lender *lender, call_token token, bool again) {
    return wire_answer(lender->client->calls, token, span_of("", again ? 1 : 0));
}

/* Heard, or to be asked again: now, or when there is room for it. */
static void acknowledge(lender *lender, call_token token, bool again) {
    if (say_again(lender, token, again) != MR_BUSY) return;
    owed *owed = XNEW(struct owed, .token = token, .again = again);
    list_push_back(&lender->owed, &owed->place);
}

static void cancel_asked(lender *lender, const call_request *request) {
    objects *objects = &lender->client->objects;
    reader reader = reader_of(request->payload.data, request->payload.size);
    uint64_t serial = reader_u64(&reader);
    uint8_t how = reader_u8(&reader);
    bool read = !reader.failed && how < WIRE_HOW_COUNT;
    const object *object = read ? object_known(objects, (mr_ref){{objects->process, serial}}) : NULL;
    mr_status status = object == NULL ? MR_OK : request_cancel(object, (wire_how)how);
    if (status != MR_OK) error_clear(); /* nothing makes it, or that cannot be cancelled so: its outcome shows it */
    acknowledge(lender, request->token, status == MR_BUSY);
}

static void borrow_asked(lender *lender, const call_request *request) {
    uint64_t serials[BORROW_BATCH];
    uint32_t count = 0;
    reader reader = reader_of(request->payload.data, request->payload.size);
    while (reader_left(&reader) >= sizeof serials[0] && count < BORROW_BATCH) serials[count++] = reader_u64(&reader);
    if (request->method == CLIENT_BORROW)
        borrow_lend(&lender->borrow, request->token.link.v, serials, count);
    else
        borrow_take_back(&lender->borrow, request->token.link.v, serials, count);
    acknowledge(lender, request->token, false);
}

static void answer_owed(lender *lender) {
    list_for_each (at, &lender->owed) {
        owed *owed = container_of(at, struct owed, place);
        if (say_again(lender, owed->token, owed->again) == MR_BUSY) continue;
        list_remove(&owed->place);
        free(owed);
    }
}

bool lender_request(lender *lender, const call_request *request) {
    bool ours = request->method >= CLIENT_BORROW && request->method <= CLIENT_FETCH;
    if (!ours && request->method != CLIENT_CANCEL) return false;
    wire_body_drop(request->body.data);
    if (request->method == CLIENT_FETCH)
        lender_fetch_asked(lender, request);
    else if (request->method == CLIENT_CANCEL)
        cancel_asked(lender, request);
    else
        borrow_asked(lender, request);
    return true;
}

void lender_closed(lender *lender, link_id link) {
    lender_forget_askers(lender, link);
    borrow_borrower_gone(&lender->borrow, link.v);
}

/* ---- Keeping. */

static bool is_on_loan(const object *object) { return object->foreign && object->state == OBJECT_PENDING; }

/* What is kept is fetched at once, so that it is not lost with its owner. */
static void keep(lender *lender, object *object, borrow_gate *gate) {
    borrow_keep(&lender->borrow, &object->loan, gate);
    if (object->loan.state != LOAN_LOST && !object->fetching) start_fetch(lender, object, true);
}

void lender_keep_all(lender *lender, const bundle *values, borrow_gate *gate) {
    const cargo *cargo = values->cargo;
    for (uint32_t i = 0; cargo != NULL && i < cargo->ref_count; i++)
        if (is_on_loan(cargo->refs[i].object)) keep(lender, cargo->refs[i].object, gate);
    for (uint32_t i = 0; cargo != NULL && i < cargo->handle_count; i++)
        borrow_keep(&lender->client->handles.borrow, &cargo->handles[i].handle->loan, gate);
}

bool lender_through(lender *lender, borrow_gate *gate) {
    if (gate->left == 0) return true;
    (void)borrow_feed(&lender->borrow);
    handles_feed(&lender->client->handles);
    return false;
}

typedef struct rest { /* what a bundle referred to, held while it goes */
    object **loans;
    handle **handles;
    uint32_t loan_count, handle_count;
} rest;

static mr_status rest_of(const cargo *cargo, rest *out) {
    MR_TRY(alloc_try(((size_t)cargo->ref_count + cargo->handle_count + 1) * sizeof(void *), &out->loans));
    out->handles = (handle **)(void *)(out->loans + cargo->ref_count);
    for (uint32_t i = 0; i < cargo->ref_count; i++)
        if (is_on_loan(cargo->refs[i].object)) out->loans[out->loan_count++] = object_hold(cargo->refs[i].object);
    for (uint32_t i = 0; i < cargo->handle_count; i++) {
        handle_use(cargo->handles[i].handle);
        out->handles[out->handle_count++] = cargo->handles[i].handle;
    }
    return MR_OK;
}

void lender_keep_rest(lender *lender, bundle *values, borrow_gate *gate) {
    rest rest = {0};
    if (values->cargo != NULL && rest_of(values->cargo, &rest) != MR_OK) {
        error_clear();
        lender_keep_all(lender, values, gate); /* without memory to look closer: what is not needed goes back later */
    }
    bundle_unref(values);
    for (uint32_t i = 0; i < rest.loan_count; i++) {
        if (rest.loans[i]->holds > 1) keep(lender, rest.loans[i], gate);
        object_drop(&lender->client->objects, rest.loans[i]);
    }
    for (uint32_t i = 0; i < rest.handle_count; i++) {
        if (handle_had(rest.handles[i]) > 1) borrow_keep(&lender->client->handles.borrow, &rest.handles[i]->loan, gate);
        handle_unuse(&lender->client->handles, rest.handles[i]);
    }
    free(rest.loans);
}

/* ---- Life. */

static void fail_unreachable(lender *lender) {
    for (list *at; (at = list_pop_front(&lender->unreachable)) != NULL;)
        fetch_end(container_of(at, fetch, place), NULL, gone_failure("cannot connect to its owner"));
}

void lender_feed(lender *lender) {
    (void)borrow_feed(&lender->borrow);
    map_for_each (slot, &lender->routes) {
        way *way = slot.value;
        if (!way->route->open) continue;
        feed_keeping(way);
        list_for_each (item, &way->fetches)
            if (!send_fetch(way, container_of(item, fetch, place))) break;
        list_for_each (item, &way->pleas)
            if (!send_plea(way, container_of(item, plea, place))) break;
    }
    fail_unreachable(lender);
    answer_owed(lender);
    lender_answer_again(lender);
}

bool lender_is_needed(const lender *lender) { return lender->borrow.lent > 0 || !list_empty(&lender->askers); }

void lender_init(lender *lender, client *client) {
    *lender = (struct lender){.client = client};
    borrow_init(&lender->borrow, &ops, lender);
    list_init(&lender->askers);
    list_init(&lender->answers);
    list_init(&lender->owed);
    list_init(&lender->unreachable);
}

void lender_start(lender *lender) {
    lender->client->objects.ops = &object_ops;
    lender->client->objects.host = lender;
}

void lender_fini(lender *lender) {
    lender_askers_fini(lender);
    for (list *at; (at = list_pop_front(&lender->owed)) != NULL;) free(container_of(at, owed, place));
    map_slot slot;
    while (map_next(&lender->fetches, 0, &slot) != 0) fetch_drop(slot.value);
    for (size_t at = 0; (at = map_next(&lender->routes, at, &slot)) != 0;) {
        way *way = slot.value;
        route_leave(&way->user);
        free(way);
    }
    map_fini(&lender->routes);
    map_fini(&lender->fetches);
    borrow_fini(&lender->borrow);
}
