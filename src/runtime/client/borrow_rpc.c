/* borrow_rpc.c — see borrow_rpc.h. Tested by tests/runtime_owner_test.c. */
#include "runtime/client/borrow_rpc.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"
#include "base/failpoint.h"
#include "runtime/client/core_worker.h"
#include "runtime/refs/attachment.h"
#include "runtime/refs/borrow_message.h"

enum { KEEPING_MAX = 1024 }; /* less than the number of calls for which a link has room (net/rpc/rpc.h) */

typedef struct way { /* link to the owner of a borrowed reference */
    borrow_rpc *rpc;
    uint64_t process;
    peer_link_user user;
    peer_link *link;
    list fetches;  /* elements: fetch, not sent yet */
    list pleas;    /* elements: plea, not sent yet */
    list keeping;  /* elements: fetch with `keeps`, sent while fewer than KEEPING_MAX others are in flight */
    uint32_t kept; /* fetches with `keeps` in flight */
} way;

typedef struct fetch { /* fetch of an outcome; found by its object's place until that is settled or released */
    wire_call call;
    list place;
    borrow_rpc *rpc;
    uint64_t owner;
    object *object; /* borrowed; NULL: released */
    bool keeps;     /* no thread waits: fetched to be kept after the owner's end */
    bool counted;   /* counted in way->kept */
} fetch;

typedef struct plea { /* request to cancel a borrowed object */
    wire_call call;
    list place;
    borrow_rpc *rpc;
    object *object; /* held */
    wire_how how;
} plea;

/* ---- Links to owners. */

static void way_opened(peer_link_user *user) { borrow_rpc_feed(container_of(user, way, user)->rpc); }

static fetch *fetch_of(const borrow_rpc *rpc, const object *object) { /* NULL: none in flight */
    return object->fetching ? map_get(&rpc->fetches, object->place.index) : NULL;
}

/* Detaches a fetch from its object: the outcome will be ignored. */
static void fetch_part(fetch *fetch) {
    map_remove(&fetch->rpc->fetches, fetch->object->place.index);
    fetch->object->fetching = false;
    fetch->object = NULL;
}

static void fetch_end(fetch *fetch, value_pack *values, failure *failed) { /* takes over both references */
    objects *objects = &fetch->rpc->worker->objects;
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
            object->seen = !keeps || failed->code == MR_OBJECT_LOST; /* a lost owner is not informed */
            object_fail(objects, object, failed);
        }
    }
    value_pack_unref(values);
    failure_unref(failed);
    if (object != NULL) object_drop(objects, object);
}

static failure *gone_failure(const char *why) {
    return failure_create(MR_OBJECT_LOST, "the process that owns the object has ended", why, NULL);
}

static void plea_free(wire_call *call) {
    plea *plea = container_of(call, struct plea, call);
    object_drop(&plea->rpc->worker->objects, plea->object);
    free(plea);
}

/* The owner is gone: outcomes that were not fetched are lost. */
static void way_closed(peer_link_user *user, const cause *why) {
    way *way = container_of(user, struct way, user);
    borrow_rpc *rpc = way->rpc;
    objects *objects = &rpc->worker->objects;
    map_remove(&rpc->routes, way->process);
    borrow_owner_gone(&rpc->borrow, way->process);
    list *waiting[] = {&way->fetches, &way->keeping};
    for (int i = 0; i < 2; i++)
        for (list *at; (at = list_pop_front(waiting[i])) != NULL;)
            fetch_end(container_of(at, fetch, place), NULL, gone_failure(why->text));
    for (list *at; (at = list_pop_front(&way->pleas)) != NULL;) wire_call_end(&container_of(at, plea, place)->call);
    const map *theirs = map_get(&objects->owners, way->process);
    if (theirs != NULL) {
        map_for_each (slot, theirs) ((object *)slot.value)->borrowed_ref.state = BORROWED_REF_LOST;
    }
    free(way);
}

static way *way_to(borrow_rpc *rpc, uint64_t process) {
    way *known = map_get(&rpc->routes, process);
    if (known != NULL) return known;
    way *made = XNEW(way, .rpc = rpc, .process = process, .user = {.opened = way_opened, .closed = way_closed});
    list_init(&made->fetches);
    list_init(&made->pleas);
    list_init(&made->keeping);
    if (core_worker_use(rpc->worker, process, &made->user, &made->link) != MR_OK) {
        free(made);
        return NULL;
    }
    map_put(&rpc->routes, process, made);
    return made;
}

/* ---- Messages about borrowed references. */

static mr_status say(void *host, borrow_message *message) {
    borrow_rpc *rpc = host;
    way *way = way_to(rpc, message->owner);
    if (way == NULL || !way->link->open) return MR_BUSY;
    FAILPOINT("runtime.lender_say");
    return borrow_message_send(&rpc->borrow, rpc->worker->rpc, way->link->link,
                               message->verb == BORROW ? CLIENT_BORROW : CLIENT_RETURN,
                               span_of(message->serials, message->count * sizeof message->serials[0]), message);
}

static borrowed_ref *find_loan(void *host, uint64_t owner, uint64_t serial) {
    object *object = object_known(&((borrow_rpc *)host)->worker->objects, (mr_ref){{owner, serial}});
    return object == NULL ? NULL : &object->borrowed_ref;
}

static void *hold_ours(void *host, uint64_t serial) {
    objects *objects = &((borrow_rpc *)host)->worker->objects;
    object *object = object_known(objects, (mr_ref){{objects->process, serial}});
    return object == NULL ? NULL : object_hold(object);
}

static void drop_ours(void *host, void *object) { object_drop(&((borrow_rpc *)host)->worker->objects, object); }

static const borrow_ops ops = {say, find_loan, hold_ours, drop_ours};

/* ---- Fetches. */

/* Takes the store objects and references of a received value. NULL: *failed is the cause. */
static value_pack *receive(fetch *fetch, value_pack *values, failure **failed) {
    core_worker *worker = fetch->rpc->worker;
    mr_status status = attachment_receive(&worker->objects, values);
    if (status == MR_OK) {
        if (values->attachment != NULL) result_holds_arrived(&worker->holds, fetch->call.answered, values);
        return values;
    }
    *failed = failure_create(status, mr_last_error(), "object of another process", NULL);
    value_pack_unref(values);
    return NULL;
}

static void feed_keeping(way *way);

/* A fetch with `keeps` has arrived or was cancelled: the next one may be sent. */
static void uncount(fetch *fetch) {
    way *way = fetch->counted ? map_get(&fetch->rpc->routes, fetch->owner) : NULL;
    fetch->counted = false;
    if (way == NULL) return;
    way->kept--;
    feed_keeping(way);
}

static void fetched(wire_call *call, const rpc_call_result *result) {
    fetch *fetch = container_of(call, struct fetch, call);
    objects *objects = &fetch->rpc->worker->objects;
    value_pack *values;
    failure *failed;
    object *object = fetch->object; /* held, since the references may be released meanwhile */
    if (object != NULL) object_hold(object);
    wire_outcome(call, result, "object of another process", &values, &failed);
    if (values != NULL && values->count != 1) {
        value_pack_unref(values);
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

/* Asks the owner about an object; `how` is the second field of the method. On success the request leaves the list of
 * `place`. */
static bool ask_owner(const way *way, wire_method method, const object *object, uint8_t how, wire_call *call,
                      list *place) {
    uint8_t fields[9];
    writer writer = writer_of(fields, sizeof fields);
    writer_u64(&writer, object->ref.word[1]);
    writer_u8(&writer, how);
    wire_message message = {.fields = span_of(fields, sizeof fields)};
    if (wire_ask(way->rpc->worker->rpc, way->link->link, method, &message, call) != MR_OK) return false;
    list_remove(place);
    return true;
}

static bool send_fetch(const way *way, fetch *fetch) {
    FAILPOINT("runtime.lender_fetch");
    return ask_owner(way, CLIENT_FETCH, fetch->object, fetch->keeps, &fetch->call, &fetch->place);
}

static void feed_keeping(way *way) {
    if (!way->link->open) return;
    list_for_each (at, &way->keeping) {
        fetch *fetch = container_of(at, struct fetch, place);
        if (way->kept >= KEEPING_MAX || !send_fetch(way, fetch)) return;
        fetch->counted = true;
        way->kept++;
    }
}

static void start_fetch(borrow_rpc *rpc, object *object, bool keeps) {
    fetch *made = XNEW(fetch, .call = {.done = fetched, .free = wire_call_free}, .rpc = rpc, .object = object,
                       .keeps = keeps, .owner = object->ref.word[0]);
    object->fetching = true;
    map_put(&rpc->fetches, object->place.index, made);
    way *way = way_to(rpc, made->owner);
    if (way == NULL) {
        list_push_back(&rpc->unreachable, &made->place); /* fails in borrow_rpc_feed, not inside this call */
    } else if (keeps) {
        list_push_back(&way->keeping, &made->place);
        feed_keeping(way);
    } else {
        list_push_back(&way->fetches, &made->place);
        if (way->link->open) (void)send_fetch(way, made);
    }
    core_worker_stir(rpc->worker);
}

/* Ends the fetch of an object that has no holder any more, or is fetched another way. */
static void fetch_drop(fetch *fetch) {
    fetch_part(fetch);
    if (fetch->call.id.number == 0) { /* not sent yet */
        list_remove(&fetch->place);
        wire_call_end(&fetch->call);
    } else if (rpc_cancel(fetch->rpc->worker->rpc, fetch->call.id) != MR_OK) { /* the call ends in `fetched` */
        MR_UNREACHABLE();
    }
}

/* An object fetched only to be kept is fetched again when a thread waits for it: the owner must know that a failure
 * will be read. */
static void wanted(void *host, object *object) {
    borrow_rpc *rpc = host;
    fetch *under_way = fetch_of(rpc, object);
    if (under_way != NULL && !under_way->keeps) return;
    if (under_way != NULL) fetch_drop(under_way);
    start_fetch(rpc, object, false);
}

/* ---- Cancellation. */

static bool send_plea(const way *way, plea *plea) {
    return ask_owner(way, CLIENT_CANCEL, plea->object, (uint8_t)plea->how, &plea->call, &plea->place);
}

/* A request that the owner had no room to pass on is sent again by borrow_rpc_feed. */
static void pleaded(wire_call *call, const rpc_call_result *result) {
    plea *plea = container_of(call, struct plea, call);
    way *way = map_get(&plea->rpc->routes, plea->object->ref.word[0]);
    if (result->why == NULL && result->payload.size > 0 && way != NULL) {
        *call = (wire_call){.done = call->done, .free = call->free};
        list_push_back(&way->pleas, &plea->place);
        return;
    }
    wire_call_end(call);
}

mr_status borrow_rpc_cancel(borrow_rpc *rpc, object *object, wire_how how) {
    way *way = object->borrowed_ref.state == BORROWED_REF_LOST ? NULL : way_to(rpc, object->ref.word[0]);
    if (way == NULL)
        return error_set(MR_OBJECT_LOST, "cannot cancel object " OBJECT_ID ": process p%u, its owner, has ended",
                         OBJECT_ID_OF(object->ref), (unsigned)object->ref.word[0]);
    plea *made =
        XNEW(plea, .call = {.done = pleaded, .free = plea_free}, .rpc = rpc, .object = object_hold(object), .how = how);
    list_push_back(&way->pleas, &made->place);
    if (way->link->open) (void)send_plea(way, made);
    core_worker_stir(rpc->worker);
    return MR_OK;
}

static void let_go(void *host, object *object) {
    borrow_rpc *rpc = host;
    if (object->fetching) fetch_drop(fetch_of(rpc, object));
    /* whether the owner must be sent a RETURN */
    bool owes = object->borrowed_ref.state == BORROWED_REF_ASKED || object->borrowed_ref.state == BORROWED_REF_HELD;
    borrow_let_go(&rpc->borrow, &object->borrowed_ref);
    if (owes) core_worker_stir(rpc->worker);
}

static void abandoned(void *host, object *object) {
    stream_reader_abandon(&((borrow_rpc *)host)->worker->readers, object);
}

static const objects_ops object_ops = {wanted, let_go, abandoned};

/* ---- Answers. */

/* Answers a request; `again`: the borrower has to repeat it. */
static void acknowledge(borrow_rpc *rpc, rpc_call_token token, bool again) {
    reply_queue_acknowledge(&rpc->worker->replies, rpc->worker->rpc, token, again);
}

static void cancel_asked(borrow_rpc *rpc, const rpc_call_request *request) {
    objects *objects = &rpc->worker->objects;
    reader reader = reader_of(request->payload.data, request->payload.size);
    uint64_t serial = reader_u64(&reader);
    uint8_t how = reader_u8(&reader);
    bool read = !reader.failed && how < WIRE_HOW_COUNT;
    const object *object = read ? object_known(objects, (mr_ref){{objects->process, serial}}) : NULL;
    mr_status status = object == NULL ? MR_OK : invocation_cancel(object, (wire_how)how);
    if (status != MR_OK) error_clear(); /* not pending, or not to be cancelled so: the outcome shows that */
    acknowledge(rpc, request->token, status == MR_BUSY);
}

static void borrow_asked(borrow_rpc *rpc, const rpc_call_request *request) {
    uint64_t serials[BORROW_BATCH];
    uint32_t count = 0;
    reader reader = reader_of(request->payload.data, request->payload.size);
    while (reader_left(&reader) >= sizeof serials[0] && count < BORROW_BATCH) serials[count++] = reader_u64(&reader);
    if (request->method == CLIENT_BORROW)
        borrow_lend(&rpc->borrow, request->token.link.v, serials, count);
    else
        borrow_take_back(&rpc->borrow, request->token.link.v, serials, count);
    acknowledge(rpc, request->token, false);
}

bool borrow_rpc_request(borrow_rpc *rpc, const rpc_call_request *request) {
    bool ours = request->method >= CLIENT_BORROW && request->method <= CLIENT_FETCH;
    if (!ours && request->method != CLIENT_CANCEL) return false;
    wire_body_drop(request->body.data);
    if (request->method == CLIENT_FETCH)
        borrow_rpc_fetch_asked(rpc, request);
    else if (request->method == CLIENT_CANCEL)
        cancel_asked(rpc, request);
    else
        borrow_asked(rpc, request);
    return true;
}

void borrow_rpc_closed(borrow_rpc *rpc, link_id link) {
    borrow_rpc_forget_askers(rpc, link);
    borrow_borrower_gone(&rpc->borrow, link.v);
}

/* ---- Keeping of references. */

static bool is_on_loan(const object *object) { return object->foreign && object->state == OBJECT_PENDING; }

/* A kept reference is fetched at once, so that its value is not lost with the owner. */
static void keep(borrow_rpc *rpc, object *object, borrow_gate *gate) {
    borrow_keep(&rpc->borrow, &object->borrowed_ref, gate);
    if (object->borrowed_ref.state != BORROWED_REF_LOST && !object->fetching) start_fetch(rpc, object, true);
}

static void keep_ref(borrow_rpc *rpc, const attachment_ref *ref, borrow_gate *gate) {
    if (ref->is_actor)
        borrow_keep(&rpc->worker->handles.borrow, &ref->handle->ref, gate);
    else if (is_on_loan(ref->object))
        keep(rpc, ref->object, gate);
}

void borrow_rpc_keep_all(borrow_rpc *rpc, const value_pack *values, borrow_gate *gate) {
    const attachment *attachment = values->attachment;
    for (uint32_t i = 0; attachment != NULL && i < attachment->ref_count; i++)
        keep_ref(rpc, &attachment->refs[i], gate);
}

bool borrow_rpc_through(borrow_rpc *rpc, borrow_gate *gate) {
    if (borrow_through(&rpc->borrow, gate)) return true;
    actor_handles_feed(&rpc->worker->handles);
    return false;
}

/* Copies those references that may have to be kept, each of them held. */
static mr_status hold_refs(const attachment *attachment, attachment_ref **out, uint32_t *count) {
    MR_TRY(alloc_try(((size_t)attachment->ref_count + 1) * sizeof(attachment_ref), out));
    for (uint32_t i = 0; i < attachment->ref_count; i++) {
        const attachment_ref *ref = &attachment->refs[i];
        if (ref->is_actor)
            actor_handle_use(ref->handle);
        else if (is_on_loan(ref->object))
            object_hold(ref->object);
        else
            continue;
        (*out)[(*count)++] = *ref;
    }
    return MR_OK;
}

void borrow_rpc_keep_rest(borrow_rpc *rpc, value_pack *values, borrow_gate *gate) {
    attachment_ref *refs = NULL;
    uint32_t count = 0;
    if (values->attachment != NULL && hold_refs(values->attachment, &refs, &count) != MR_OK) {
        error_clear();
        borrow_rpc_keep_all(rpc, values, gate); /* unneeded references are returned later */
    }
    value_pack_unref(values);
    for (uint32_t i = 0; i < count; i++) {
        attachment_ref *ref = &refs[i];
        if (ref->is_actor ? actor_handle_had(ref->handle) > 1 : ref->object->holds > 1) keep_ref(rpc, ref, gate);
        if (ref->is_actor)
            actor_handle_unuse(&rpc->worker->handles, ref->handle);
        else
            object_drop(&rpc->worker->objects, ref->object);
    }
    free(refs);
}

/* ---- Start and end. */

static void fail_unreachable(borrow_rpc *rpc) {
    for (list *at; (at = list_pop_front(&rpc->unreachable)) != NULL;)
        fetch_end(container_of(at, fetch, place), NULL, gone_failure("cannot connect to its owner"));
}

void borrow_rpc_feed(borrow_rpc *rpc) {
    (void)borrow_feed(&rpc->borrow);
    map_for_each (slot, &rpc->routes) {
        way *way = slot.value;
        if (!way->link->open) continue;
        feed_keeping(way);
        list_for_each (item, &way->fetches)
            if (!send_fetch(way, container_of(item, fetch, place))) break;
        list_for_each (item, &way->pleas)
            if (!send_plea(way, container_of(item, plea, place))) break;
    }
    fail_unreachable(rpc);
    borrow_rpc_answer_again(rpc);
}

bool borrow_rpc_is_needed(const borrow_rpc *rpc) { return rpc->borrow.borrowed > 0 || !list_empty(&rpc->askers); }

void borrow_rpc_init(borrow_rpc *rpc, core_worker *worker) {
    *rpc = (struct borrow_rpc){.worker = worker};
    borrow_init(&rpc->borrow, &ops, rpc);
    list_init(&rpc->askers);
    list_init(&rpc->answers);
    list_init(&rpc->unreachable);
}

void borrow_rpc_start(borrow_rpc *rpc) {
    rpc->worker->objects.ops = &object_ops;
    rpc->worker->objects.host = rpc;
}

void borrow_rpc_fini(borrow_rpc *rpc) {
    borrow_rpc_askers_fini(rpc);
    map_entry entry;
    while (map_next(&rpc->fetches, 0, &entry) != 0) fetch_drop(entry.value);
    map_for_each (slot, &rpc->routes) {
        peer_link_leave(&((way *)slot.value)->user);
        free(slot.value);
    }
    map_fini(&rpc->routes);
    map_fini(&rpc->fetches);
    borrow_fini(&rpc->borrow);
}
