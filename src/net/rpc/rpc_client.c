/* rpc_client.c — RPC, asking side: start, retry, cancellation and end of calls. See rpc.h, rpc_internal.h.
 * Tested by src/net/rpc/rpc_test.c. */
#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/invariants.h"
#include "base/mutation.h"
#include "net/rpc/rpc_internal.h"

enum { RUN_OPEN = 16 }; /* with this many open calls, a call may be held in a run (lane.h) */

/* ---- The end of a call. */

static void forget_kept(rpc *rpc, rpc_call_record *record) {
    if (record->kept == NULL) return;
    MR_ASSERT(rpc->kept_bytes >= record->kept_size);
    rpc->kept_bytes -= record->kept_size;
    free(record->kept);
    record->kept = NULL;
}

/* The memory that on_body returned for the answer's body belongs to the host again. */
static void stop_arriving(rpc *rpc, rpc_call_link *link) {
    link->arriving = NULL;
    transport transport = rpc->env->transport;
    if (!link->closed) transport.ops->discard(transport.self, link->id);
}

static __attribute__((noinline)) void forget_timed(rpc *rpc, rpc_call_record *record) {
    if (timer_heap_holds(&record->timer)) timer_heap_remove(&rpc->timers, &record->timer);
    list_remove(&record->unsent);
    forget_kept(rpc, record);
}

/* Notifies a caller that was refused because no place was free, now that one is. */
static __attribute__((noinline, cold)) void tell_of_place(rpc *rpc, rpc_call_link *link) {
    if (link->pending.free == 0 || link->over) return;
    link->starved = false;
    if (rpc->handlers->on_room != NULL) rpc->handlers->on_room(rpc->context, link->id);
}

/* Ends a waiting call whose answer's body is not arriving. On return the record's place is free or, depending on
 * `next`, waits until a cancellation is sent. */
static inline void end_arrived(rpc *rpc, rpc_call_record *record, const rpc_call_result *result, rpc_call_state next,
                               uint64_t *counter) {
    rpc_call_link *link = record->link;
    if (record->timed) forget_timed(rpc, record);
    rpc->open_count--;
    ++*counter;
    rpc_call_id id = {.number = record->number, .link = link->id};
    rpc_call_done_fn *done = record->done;
    void *argument = record->argument;
    if (next == RPC_CALL_FREE) {
        rpc_pending_give(&link->pending, record);
    } else {
        record->state = (uint8_t)next;
        list_push_back(&link->unsent, &record->unsent);
    }
    done(argument, id, result);
    if (__builtin_expect(link->starved, 0)) tell_of_place(rpc, link);
}

/* As end_arrived, for any waiting call. */
static __attribute__((noinline)) void end_call(rpc *rpc, rpc_call_record *record, const rpc_call_result *result,
                                               rpc_call_state next, uint64_t *counter) {
    if (record->link->arriving == record) stop_arriving(rpc, record->link);
    end_arrived(rpc, record, result, next, counter);
}

void rpc_call_end_all(rpc *rpc, rpc_call_link *link, const cause *why) {
    rpc_call_result result = {.status = why->status, .payload = span_of(why->text, strlen(why->text)), .why = why};
    for (uint32_t i = 0; i < link->pending.count; i++) {
        rpc_call_record *record = rpc_pending_at(&link->pending, i);
        if (record->state == RPC_CALL_WAITING) end_call(rpc, record, &result, RPC_CALL_FREE, &rpc->stats.lost);
    }
}

/* ---- Start of a call. */

mr_status rpc_begin(rpc *rpc, link_id id, uint32_t method, size_t size, uint8_t **payload) {
    rpc_call_link *link = rpc_call_link_find(rpc, id);
    if (link == NULL || link->over) return MR_CLOSED;
    if (link->pending.free == 0) {
        mr_status status = rpc_pending_grow(&link->pending, link);
        if (status == MR_BUSY) link->starved = true;
        if (status != MR_OK) return status;
    }
    link->begun_method = method;
    return rpc_call_begin(rpc, link, RPC_CALL_REQUEST, size, payload);
}

/* Keeps a copy of the payload for retries. Without memory for the copy the call is not retried. */
static void keep(rpc *rpc, rpc_call_record *record, const uint8_t *payload, size_t size, int attempts_max) {
    void *copy;
    if (size > RPC_CALL_KEPT_MAX - rpc->kept_bytes || alloc_try(size, &copy) != MR_OK) return;
    memcpy(copy, payload, size);
    record->kept = copy;
    record->kept_size = size;
    record->attempts_max = (uint16_t)(attempts_max < RPC_CALL_ATTEMPTS_MAX ? attempts_max : RPC_CALL_ATTEMPTS_MAX);
    rpc->kept_bytes += size;
}

/* Sets the timer to the next attempt or the deadline, whichever is earlier. */
static void set_timer(rpc *rpc, rpc_call_record *record, int64_t now_us) {
    int64_t at_us = record->deadline_us;
    if (record->attempt_timeout_us > 0) {
        int64_t attempt_us = clock_deadline_us(now_us, record->attempt_timeout_us);
        if (attempt_us < at_us) at_us = attempt_us;
    }
    timer_heap_add(&rpc->timers, &record->timer, at_us);
}

static void set_options(rpc *rpc, rpc_call_record *record, const rpc_call_options *options, int64_t now_us) {
    record->on_body = options->on_body;
    record->attempt_timeout_us = options->attempt_timeout_us;
    if (options->timeout_us > 0) record->deadline_us = clock_deadline_us(now_us, options->timeout_us);
    record->timed = options->timeout_us > 0 || options->attempt_timeout_us > 0;
    if (record->timed) set_timer(rpc, record, now_us);
}

/* Fills the record of a call that is about to be sent, or just was. */
static inline void start_call(rpc *rpc, rpc_call_link *link, rpc_call_record *record, uint32_t method,
                              rpc_call_done_fn *done, void *argument) {
    MR_ASSERT(done != NULL);
    rpc_pending_take_first(&link->pending, record);
    record->done = done;
    record->argument = argument;
    record->on_body = NULL;
    record->method = method;
    record->attempt = record->attempts_max = 1;
    record->timed = false;
    record->deadline_us = CLOCK_NEVER_US;
    rpc->open_count++;
    rpc->stats.started++;
}

static rpc_header request_head(const rpc_call_record *record, uint32_t attempt, int64_t now_us) {
    return (rpc_header){
        .kind = RPC_CALL_REQUEST,
        .attempt = (uint16_t)attempt,
        .method = record->method,
        .number = record->number,
        .budget_us =
            record->deadline_us == CLOCK_NEVER_US ? RPC_CALL_BUDGET_NONE : (uint64_t)(record->deadline_us - now_us),
    };
}

static __attribute__((noinline)) mr_status ask_slowly(rpc *rpc, link_id id, const rpc_call_small *small,
                                                      rpc_call_id *out) {
    size_t size = small->count * sizeof *small->words;
    uint8_t *payload;
    MR_TRY(rpc_begin(rpc, id, small->method, size, &payload));
    if (size != 0) memcpy(payload, small->words, size);
    const rpc_call_options options = {.on_body = small->on_body};
    *out = rpc_commit(rpc, 0, id, size, &options, small->done, small->argument);
    return MR_OK;
}

mr_status rpc_ask(rpc *rpc, link_id id, const rpc_call_small *small, rpc_call_id *out) {
    rpc_call_link *link = rpc_call_link_find(rpc, id);
    if (link == NULL || link->over || link->pending.free == 0) return ask_slowly(rpc, id, small, out);
    rpc_call_record *record = rpc_pending_first(&link->pending);
    uint64_t number = rpc_pending_next(record), first = rpc_header_first(RPC_CALL_REQUEST, 0, 1, small->method);
    bool more = rpc->open_count >= RUN_OPEN;
    if (!rpc_call_send_words(link, first, number, small->words, small->count, more))
        return ask_slowly(rpc, id, small, out);
    start_call(rpc, link, record, small->method, small->done, small->argument);
    record->on_body = small->on_body;
    *out = (rpc_call_id){.number = number, .link = id};
    return MR_OK;
}

rpc_call_id rpc_commit(rpc *rpc, int64_t now_us, link_id id, size_t size, const rpc_call_options *options,
                       rpc_call_done_fn *done, void *argument) {
    rpc_call_link *link = rpc_call_begun(rpc, id, RPC_CALL_REQUEST, size);
    rpc_call_record *record = rpc_pending_first(&link->pending);
    start_call(rpc, link, record, link->begun_method, done, argument);
    if (options != NULL) {
        set_options(rpc, record, options, now_us);
        if (options->attempts_max > 1 && options->attempt_timeout_us > 0)
            keep(rpc, record, link->begun + RPC_HEADER_SIZE, size, options->attempts_max);
    }
    rpc_header header = request_head(record, 1, now_us);
    rpc_call_commit(rpc, link, &header, size);
    return (rpc_call_id){.number = header.number, .link = id};
}

rpc_call_id rpc_commit_body(rpc *rpc, int64_t now_us, link_id id, size_t size, span body, body_sent_fn *sent,
                            const rpc_call_options *options, rpc_call_done_fn *done, void *argument) {
    rpc_call_link *link = rpc_call_begun(rpc, id, RPC_CALL_REQUEST, size);
    rpc_call_record *record = rpc_pending_first(&link->pending);
    start_call(rpc, link, record, link->begun_method, done, argument);
    if (options != NULL) set_options(rpc, record, options, now_us);
    rpc_header header = request_head(record, 1, now_us);
    rpc_call_commit_body(rpc, link, &header, size, body, sent, argument);
    return (rpc_call_id){.number = header.number, .link = id};
}

bool rpc_commit_now(rpc *rpc, link_id id, size_t size, const span *pieces, size_t count, rpc_call_body_fn *on_body,
                    rpc_call_done_fn *done, void *argument, rpc_call_id *out) {
    rpc_call_link *link = rpc_call_begun(rpc, id, RPC_CALL_REQUEST, size);
    rpc_call_record *record = rpc_pending_first(&link->pending);
    uint64_t number = rpc_pending_next(record);
    rpc_header header = {.kind = RPC_CALL_REQUEST,
                         .attempt = 1,
                         .method = link->begun_method,
                         .number = number,
                         .budget_us = RPC_CALL_BUDGET_NONE};
    if (link->lane == NULL) return false;
    size_t whole = rpc_header_encode(&header, link->begun, size);
    if (!lane_commit_body(link->lane, whole, pieces, count)) return false;
    link->begun_kind = 0;
    start_call(rpc, link, record, header.method, done, argument);
    record->on_body = on_body;
    *out = (rpc_call_id){.number = number, .link = id};
    return true;
}

/* ---- Cancellation and retries. */

static mr_status send_cancel(rpc *rpc, const rpc_call_record *record) {
    rpc_header header = {.kind = RPC_CALL_CANCEL, .attempt = record->attempt, .number = record->number};
    return rpc_call_send(rpc, record->link, &header, (span){0});
}

mr_status rpc_cancel(rpc *rpc, rpc_call_id id) {
    rpc_call_link *link = rpc_call_link_find(rpc, id.link);
    rpc_call_record *record = link == NULL ? NULL : rpc_pending_find(&link->pending, id.number);
    if (record == NULL || record->number != id.number || record->state != RPC_CALL_WAITING) return MR_NOT_FOUND;
    rpc_call_enter(rpc);
    rpc_call_state next = send_cancel(rpc, record) == MR_BUSY ? RPC_CALL_TELLING : RPC_CALL_FREE;
    end_call(rpc, record, &(rpc_call_result){.status = MR_CANCELLED}, next, &rpc->stats.cancelled);
    rpc_call_leave(rpc);
    return MR_OK;
}

static mr_status ask_again(rpc *rpc, rpc_call_record *record, int64_t now_us) {
    rpc_header header = request_head(record, record->attempt + 1u, now_us);
    mr_status status = rpc_call_send(rpc, record->link, &header, span_of(record->kept, record->kept_size));
    list_remove(&record->unsent);
    if (status == MR_OK) {
        record->attempt++;
        rpc->stats.asked_again++;
    } else if (status == MR_BUSY) {
        list_push_back(&record->link->unsent, &record->unsent);
    }
    set_timer(rpc, record, now_us);
    return status;
}

static mr_status tell_cancelled(rpc *rpc, rpc_call_record *record) {
    mr_status status = send_cancel(rpc, record);
    if (status == MR_BUSY) return status;
    list_remove(&record->unsent);
    rpc_pending_give(&record->link->pending, record);
    return MR_OK;
}

mr_status rpc_call_send_unsent(rpc *rpc, rpc_call_link *link) {
    while (!list_empty(&link->unsent)) {
        rpc_call_record *record = container_of(link->unsent.next, rpc_call_record, unsent);
        int64_t now_us = record->state == RPC_CALL_TELLING ? 0 : clock_now_us(rpc->env->clock);
        if (record->state == RPC_CALL_TELLING)
            MR_TRY(tell_cancelled(rpc, record));
        else if (record->deadline_us <= now_us)
            list_remove(&record->unsent); /* rpc_tick ends the call soon */
        else
            MR_TRY(ask_again(rpc, record, now_us));
    }
    return MR_OK;
}

static void timer_due(rpc *rpc, rpc_call_record *record, int64_t now_us) {
    if (record->deadline_us > now_us && record->attempt < record->attempts_max) {
        (void)ask_again(rpc, record, now_us); /* MR_BUSY: on_room or the next timer tries again */
    } else if (!MUTATED("no-deadline")) {
        static const char text[] = "no answer in time";
        rpc_call_result result = {.status = MR_TIMEOUT, .payload = span_of(text, sizeof text - 1)};
        end_call(rpc, record, &result, RPC_CALL_FREE, &rpc->stats.timed_out);
    }
}

int64_t rpc_next_us(const rpc *rpc) { return timer_heap_next_us(&rpc->timers); }

void rpc_tick(rpc *rpc, int64_t now_us) {
    rpc_call_enter(rpc);
    for (timer_heap_item *item; (item = timer_heap_pop_due(&rpc->timers, now_us)) != NULL;)
        timer_due(rpc, container_of(item, rpc_call_record, timer), now_us);
    rpc_call_leave(rpc);
    CHECK_INVARIANTS(rpc->links.count * RPC_CALL_WINDOW, rpc_check(rpc));
}

/* ---- Answers. */

/* The open call of an answer, or NULL; *never is true if no such call was ever made. */
static rpc_call_record *asked_call(const rpc_call_link *link, const rpc_header *header, bool *never) {
    rpc_call_record *record = rpc_pending_find(&link->pending, header->number);
    bool same = record != NULL && record->number == header->number;
    *never = record == NULL || (same && header->attempt > record->attempt);
    return same && !*never && record->state == RPC_CALL_WAITING ? record : NULL;
}

/* Ends a call whose answer has a body that on_body, or its absence, refused. */
static __attribute__((noinline, cold)) void end_unwanted(rpc *rpc, rpc_call_record *record, size_t size) {
    char text[80];
    int length = snprintf(text, sizeof text, "the caller refused the response's body of %zu bytes", size);
    rpc_call_result result = {.status = MR_TOO_LARGE, .payload = span_of(text, (size_t)length)};
    end_call(rpc, record, &result, RPC_CALL_FREE, &rpc->stats.failed);
}

void rpc_call_on_answer(rpc *rpc, rpc_call_link *link, const rpc_header *header, span payload, const span *body) {
    bool never;
    rpc_call_record *record = asked_call(link, header, &never);
    if (never) {
        rpc_call_bad_message(rpc, link, "malformed message: a response to a request that was never sent");
    } else if (record == NULL) {
        rpc->stats.late_answers++;
    } else if (body->data == NULL && body->size != 0) {
        end_unwanted(rpc, record, body->size);
    } else {
        if (link->arriving == record) link->arriving = NULL; /* the body is complete */
        rpc_call_result result = {.status = (mr_status)header->status, .payload = payload, .body = *body};
        uint64_t *counter = result.status == MR_OK ? &rpc->stats.answered : &rpc->stats.failed;
        end_arrived(rpc, record, &result, RPC_CALL_FREE, counter);
    }
}

void *rpc_call_answer_body(rpc *rpc, rpc_call_link *link, const rpc_header *header, span payload, uint64_t size) {
    bool never;
    rpc_call_record *record = asked_call(link, header, &never);
    if (record == NULL || record->on_body == NULL) return NULL;
    rpc_call_id id = {.number = header->number, .link = link->id};
    void *memory = record->on_body(record->argument, id, payload, size);
    if (record->number != header->number || record->state != RPC_CALL_WAITING) return NULL; /* ended by on_body */
    if (memory != NULL) link->arriving = record;
    return memory;
}
