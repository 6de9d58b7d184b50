/* call_ask.c — RPC, asking side: start, retry, cancellation and end of calls. See call.h, call_core.h.
 * Tested by src/net/call_test.c. */
#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/invariants.h"
#include "base/mutation.h"
#include "net/call_core.h"

enum { RUN_OPEN = 16 }; /* where so many calls are open their asker does not wait for each, and others follow */

/* ---- The end of a call. */

static void forget_kept(calls *calls, call_record *record) {
    if (record->kept == NULL) return;
    MR_ASSERT(calls->kept_bytes >= record->kept_size);
    calls->kept_bytes -= record->kept_size;
    free(record->kept);
    record->kept = NULL;
}

/* The memory that was named for its answer's body is the host's again. */
static void stop_arriving(calls *calls, call_link *link) {
    link->arriving = NULL;
    transport transport = calls->env->transport;
    if (!link->closed) transport.ops->discard(transport.self, link->id);
}

static __attribute__((noinline)) void forget_timed(calls *calls, call_record *record) {
    if (heap_holds(&record->timer)) heap_remove(&calls->timers, &record->timer);
    list_remove(&record->unsent);
    forget_kept(calls, record);
}

/* Somebody was refused a place, and there is one again. */
static __attribute__((noinline, cold)) void tell_of_place(calls *calls, call_link *link) {
    if (link->places.free == 0 || link->over) return;
    link->starved = false;
    if (calls->handlers->on_room != NULL) calls->handlers->on_room(calls->context, link->id);
}

/* The record waits, and no body of its answer is arriving. When this returns its place is free or, if `next` says so,
 * waits until a cancellation is sent. */
static inline void end_arrived(calls *calls, call_record *record, const call_result *result, call_state next,
                               uint64_t *counter) {
    call_link *link = record->link;
    if (record->timed) forget_timed(calls, record);
    calls->open_count--;
    ++*counter;
    call_id id = {.number = record->number, .link = link->id};
    call_done_fn *done = record->done;
    void *argument = record->argument;
    if (next == CALL_FREE) {
        call_places_give(&link->places, record);
    } else {
        record->state = (uint8_t)next;
        list_push_back(&link->unsent, &record->unsent);
    }
    done(argument, id, result);
    if (__builtin_expect(link->starved, 0)) tell_of_place(calls, link);
}

/* The same of any that waits. */
static __attribute__((noinline)) void end_call(calls *calls, call_record *record, const call_result *result,
                                               call_state next, uint64_t *counter) {
    if (record->link->arriving == record) stop_arriving(calls, record->link);
    end_arrived(calls, record, result, next, counter);
}

void call_end_all(calls *calls, call_link *link, const cause *why) {
    call_result result = {.status = why->status, .payload = span_of(why->text, strlen(why->text)), .why = why};
    for (uint32_t i = 0; i < link->places.count; i++) {
        call_record *record = call_places_at(&link->places, i);
        if (record->state == CALL_WAITING) end_call(calls, record, &result, CALL_FREE, &calls->stats.lost);
    }
}

/* ---- Starting. */

mr_status calls_begin(calls *calls, link_id id, uint32_t method, size_t size, uint8_t **payload) {
    call_link *link = call_link_find(calls, id);
    if (link == NULL || link->over) return MR_CLOSED;
    if (link->places.free == 0) {
        mr_status status = call_places_grow(&link->places, link);
        if (status == MR_BUSY) link->starved = true;
        if (status != MR_OK) return status;
    }
    link->begun_method = method;
    return call_begin(calls, link, CALL_REQUEST, size, payload);
}

/* Keeps a copy for asking again. Without memory for it the call asks once. */
static void keep(calls *calls, call_record *record, const uint8_t *payload, size_t size, int attempts_max) {
    void *copy;
    if (size > CALL_KEPT_MAX - calls->kept_bytes || alloc_try(size, &copy) != MR_OK) return;
    memcpy(copy, payload, size);
    record->kept = copy;
    record->kept_size = size;
    record->attempts_max = (uint16_t)(attempts_max < CALL_ATTEMPTS_MAX ? attempts_max : CALL_ATTEMPTS_MAX);
    calls->kept_bytes += size;
}

/* For the next attempt or the deadline, whichever comes first. */
static void set_timer(calls *calls, call_record *record, int64_t now_us) {
    int64_t at_us = record->deadline_us;
    if (record->attempt_timeout_us > 0) {
        int64_t attempt_us = clock_deadline_us(now_us, record->attempt_timeout_us);
        if (attempt_us < at_us) at_us = attempt_us;
    }
    heap_add(&calls->timers, &record->timer, at_us);
}

static void set_options(calls *calls, call_record *record, const call_options *options, int64_t now_us) {
    record->on_body = options->on_body;
    record->attempt_timeout_us = options->attempt_timeout_us;
    if (options->timeout_us > 0) record->deadline_us = clock_deadline_us(now_us, options->timeout_us);
    record->timed = options->timeout_us > 0 || options->attempt_timeout_us > 0;
    if (record->timed) set_timer(calls, record, now_us);
}

/* Fills the record of a call that is about to be sent, or just was. */
static inline void start_call(calls *calls, call_link *link, call_record *record, uint32_t method, call_done_fn *done,
                              void *argument) {
    MR_ASSERT(done != NULL);
    call_places_take_first(&link->places, record);
    record->done = done;
    record->argument = argument;
    record->on_body = NULL;
    record->method = method;
    record->attempt = record->attempts_max = 1;
    record->timed = false;
    record->deadline_us = CLOCK_NEVER_US;
    calls->open_count++;
    calls->stats.started++;
}

static call_head request_head(const call_record *record, uint32_t attempt, int64_t now_us) {
    return (call_head){
        .kind = CALL_REQUEST,
        .attempt = (uint16_t)attempt,
        .method = record->method,
        .number = record->number,
        .budget_us =
            record->deadline_us == CLOCK_NEVER_US ? CALL_BUDGET_NONE : (uint64_t)(record->deadline_us - now_us),
    };
}

static __attribute__((noinline)) mr_status ask_slowly(calls *calls, link_id id, const call_small *small, call_id *out) {
    size_t size = small->count * sizeof *small->words;
    uint8_t *payload;
    MR_TRY(calls_begin(calls, id, small->method, size, &payload));
    if (size != 0) memcpy(payload, small->words, size);
    const call_options options = {.on_body = small->on_body};
    *out = calls_commit(calls, 0, id, size, &options, small->done, small->argument);
    return MR_OK;
}

mr_status calls_ask(calls *calls, link_id id, const call_small *small, call_id *out) {
    call_link *link = call_link_find(calls, id);
    if (link == NULL || link->over || link->places.free == 0) return ask_slowly(calls, id, small, out);
    call_record *record = call_places_first(&link->places);
    uint64_t number = call_places_next(record), first = call_head_first(CALL_REQUEST, 0, 1, small->method);
    bool more = calls->open_count >= RUN_OPEN;
    if (!call_send_words(link, first, number, small->words, small->count, more))
        return ask_slowly(calls, id, small, out);
    start_call(calls, link, record, small->method, small->done, small->argument);
    record->on_body = small->on_body;
    *out = (call_id){.number = number, .link = id};
    return MR_OK;
}

call_id calls_commit(calls *calls, int64_t now_us, link_id id, size_t size, const call_options *options,
                     call_done_fn *done, void *argument) {
    call_link *link = call_begun(calls, id, CALL_REQUEST, size);
    call_record *record = call_places_first(&link->places);
    start_call(calls, link, record, link->begun_method, done, argument);
    if (options != NULL) {
        set_options(calls, record, options, now_us);
        if (options->attempts_max > 1 && options->attempt_timeout_us > 0)
            keep(calls, record, link->begun + CALL_HEAD_SIZE, size, options->attempts_max);
    }
    call_head head = request_head(record, 1, now_us);
    call_commit(calls, link, &head, size);
    return (call_id){.number = head.number, .link = id};
}

call_id calls_commit_body(calls *calls, int64_t now_us, link_id id, size_t size, span body, body_sent_fn *sent,
                          const call_options *options, call_done_fn *done, void *argument) {
    call_link *link = call_begun(calls, id, CALL_REQUEST, size);
    call_record *record = call_places_first(&link->places);
    start_call(calls, link, record, link->begun_method, done, argument);
    if (options != NULL) set_options(calls, record, options, now_us);
    call_head head = request_head(record, 1, now_us);
    call_commit_body(calls, link, &head, size, body, sent, argument);
    return (call_id){.number = head.number, .link = id};
}

bool calls_commit_now(calls *calls, link_id id, size_t size, const span *pieces, size_t count, call_body_fn *on_body,
                      call_done_fn *done, void *argument, call_id *out) {
    call_link *link = call_begun(calls, id, CALL_REQUEST, size);
    call_record *record = call_places_first(&link->places);
    uint64_t number = call_places_next(record);
    call_head head = {.kind = CALL_REQUEST,
                      .attempt = 1,
                      .method = link->begun_method,
                      .number = number,
                      .budget_us = CALL_BUDGET_NONE};
    if (link->lane == NULL) return false;
    size_t whole = call_head_encode(&head, link->begun, size);
    if (!lane_commit_body(link->lane, whole, pieces, count)) return false;
    link->begun_kind = 0;
    start_call(calls, link, record, head.method, done, argument);
    record->on_body = on_body;
    *out = (call_id){.number = number, .link = id};
    return true;
}

/* ---- Giving up, and asking again. */

static mr_status send_cancel(calls *calls, const call_record *record) {
    call_head head = {.kind = CALL_CANCEL, .attempt = record->attempt, .number = record->number};
    return call_send(calls, record->link, &head, (span){0});
}

mr_status calls_cancel(calls *calls, call_id id) {
    call_link *link = call_link_find(calls, id.link);
    call_record *record = link == NULL ? NULL : call_places_find(&link->places, id.number);
    if (record == NULL || record->number != id.number || record->state != CALL_WAITING) return MR_NOT_FOUND;
    call_enter(calls);
    call_state next = send_cancel(calls, record) == MR_BUSY ? CALL_TELLING : CALL_FREE;
    end_call(calls, record, &(call_result){.status = MR_CANCELLED}, next, &calls->stats.cancelled);
    call_leave(calls);
    return MR_OK;
}

static mr_status ask_again(calls *calls, call_record *record, int64_t now_us) {
    call_head head = request_head(record, record->attempt + 1u, now_us);
    mr_status status = call_send(calls, record->link, &head, span_of(record->kept, record->kept_size));
    list_remove(&record->unsent);
    if (status == MR_OK) {
        record->attempt++;
        calls->stats.asked_again++;
    } else if (status == MR_BUSY) {
        list_push_back(&record->link->unsent, &record->unsent);
    }
    set_timer(calls, record, now_us);
    return status;
}

static mr_status tell_cancelled(calls *calls, call_record *record) {
    mr_status status = send_cancel(calls, record);
    if (status == MR_BUSY) return status;
    list_remove(&record->unsent);
    call_places_give(&record->link->places, record);
    return MR_OK;
}

mr_status call_send_unsent(calls *calls, call_link *link) {
    while (!list_empty(&link->unsent)) {
        call_record *record = container_of(link->unsent.next, call_record, unsent);
        int64_t now_us = record->state == CALL_TELLING ? 0 : clock_now_us(calls->env->clock);
        if (record->state == CALL_TELLING)
            MR_TRY(tell_cancelled(calls, record));
        else if (record->deadline_us <= now_us)
            list_remove(&record->unsent); /* calls_tick is about to end it */
        else
            MR_TRY(ask_again(calls, record, now_us));
    }
    return MR_OK;
}

static void timer_due(calls *calls, call_record *record, int64_t now_us) {
    if (record->deadline_us > now_us && record->attempt < record->attempts_max) {
        (void)ask_again(calls, record, now_us); /* MR_BUSY: on_room or the next timer tries again */
    } else if (!MUTATED("no-deadline")) {
        static const char text[] = "no answer in time";
        call_result result = {.status = MR_TIMEOUT, .payload = span_of(text, sizeof text - 1)};
        end_call(calls, record, &result, CALL_FREE, &calls->stats.timed_out);
    }
}

int64_t calls_next_us(const calls *calls) { return heap_next_us(&calls->timers); }

void calls_tick(calls *calls, int64_t now_us) {
    call_enter(calls);
    for (heap_item *item; (item = heap_pop_due(&calls->timers, now_us)) != NULL;)
        timer_due(calls, container_of(item, call_record, timer), now_us);
    call_leave(calls);
    CHECK_INVARIANTS(calls->links.count * CALL_WINDOW, calls_check(calls));
}

/* ---- Answers. */

/* The call that an answer belongs to. NULL: none that is open; *never is true if none like it was ever asked. */
static call_record *asked_call(const call_link *link, const call_head *head, bool *never) {
    call_record *record = call_places_find(&link->places, head->number);
    bool same = record != NULL && record->number == head->number;
    *never = record == NULL || (same && head->attempt > record->attempt);
    return same && !*never && record->state == CALL_WAITING ? record : NULL;
}

/* The answer has a body, and on_body (or its absence) said no. */
static __attribute__((noinline, cold)) void end_unwanted(calls *calls, call_record *record, size_t size) {
    char text[80];
    int length = snprintf(text, sizeof text, "the caller refused the response's body of %zu bytes", size);
    call_result result = {.status = MR_TOO_LARGE, .payload = span_of(text, (size_t)length)};
    end_call(calls, record, &result, CALL_FREE, &calls->stats.failed);
}

void call_on_answer(calls *calls, call_link *link, const call_head *head, span payload, const span *body) {
    bool never;
    call_record *record = asked_call(link, head, &never);
    if (never) {
        call_bad_message(calls, link, "malformed message: a response to a request that was never sent");
    } else if (record == NULL) {
        calls->stats.late_answers++;
    } else if (body->data == NULL && body->size != 0) {
        end_unwanted(calls, record, body->size);
    } else {
        if (link->arriving == record) link->arriving = NULL; /* it has arrived */
        call_result result = {.status = (mr_status)head->status, .payload = payload, .body = *body};
        uint64_t *counter = result.status == MR_OK ? &calls->stats.answered : &calls->stats.failed;
        end_arrived(calls, record, &result, CALL_FREE, counter);
    }
}

void *call_answer_body(calls *calls, call_link *link, const call_head *head, span payload, uint64_t size) {
    bool never;
    call_record *record = asked_call(link, head, &never);
    if (record == NULL || record->on_body == NULL) return NULL;
    call_id id = {.number = head->number, .link = link->id};
    void *memory = record->on_body(record->argument, id, payload, size);
    if (record->number != head->number || record->state != CALL_WAITING) return NULL; /* ended by the callback */
    if (memory != NULL) link->arriving = record;
    return memory;
}
