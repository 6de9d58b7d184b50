/* call_answer.c — RPC, answering side: requests, duplicates, and tokens of pending responses. See call.h, call_core.h.
 */
#include "net/call_core.h"

#include "base/mutation.h"

/* Stored as two words: who passes it on loads it as two words, and must not wait for two halves to become one. */
static inline call_token token_of(link_id link, uint32_t attempt, uint64_t number) {
    _Static_assert(offsetof(call_token, link) == 0 && offsetof(call_token, attempt) == 4, "one word");
    uint64_t first = link.v | (uint64_t)attempt << 32;
    call_token token = {.number = number};
    memcpy(&token, &first, sizeof first);
    return token;
}

/* ---- Requests. */

/* Whether the handler shall see this request. */
static bool wanted(const call_link *link, const call_head *head) {
    return head->budget_us != 0 &&
           (MUTATED("no-duplicate-filter") || call_window_is_new(&link->window, head->number, head->attempt));
}

/* If this is news of its place, a call that is still open there was given up: its time was over. */
static void cancel_superseded(calls *calls, call_link *link, uint64_t number) {
    uint32_t at = call_place(number);
    if (at >= link->window.count) return;
    call_window_place *place = &link->window.places[at];
    if (!place->open || place->number >= number) return;
    place->open = false;
    if (calls->handlers->on_cancel == NULL) return;
    call_token token = {.link = link->id, .attempt = place->attempt, .number = place->number};
    calls->handlers->on_cancel(calls->context, token);
}

/* Of any but the usual one: it may be a repeat, late, or the news that another was given up. */
static __attribute__((noinline)) bool admit(calls *calls, call_link *link, const call_head *head) {
    if (!wanted(link, head)) {
        ++*(head->budget_us == 0 ? &calls->stats.expired : &calls->stats.repeats);
        return false;
    }
    cancel_superseded(calls, link, head->number);
    if (link->over) return false;
    if (call_window_admit(&link->window, head->number, head->attempt) == MR_OK) return true;
    call_condemn(calls, link, MR_NOMEM, "out of memory for the duplicate filter of its requests");
    return false;
}

void call_on_request(calls *calls, call_link *link, const call_head *head, span payload, const span *body) {
    bool usual =
        head->budget_us == CALL_BUDGET_NONE && call_window_admit_first(&link->window, head->number, head->attempt);
    if (!usual && !admit(calls, link, head)) return;
    calls->stats.requests++;
    call_request request = {
        .token = token_of(link->id, head->attempt, head->number),
        .method = head->method,
        .deadline_us = CLOCK_NEVER_US,
        .payload = payload,
        .body = *body,
    };
    if (head->budget_us != CALL_BUDGET_NONE)
        request.deadline_us = clock_deadline_us(clock_now_us(calls->env->clock), (int64_t)head->budget_us);
    calls->handlers->on_request(calls->context, &request);
}

void *call_request_body(calls *calls, call_link *link, const call_head *head, span payload, uint64_t size) {
    if (calls->handlers->on_body == NULL || !wanted(link, head)) return NULL;
    return calls->handlers->on_body(calls->context, link->id, head->method, payload, size);
}

void call_on_cancel(calls *calls, call_link *link, const call_head *head) {
    cancel_superseded(calls, link, head->number);
    if (link->over) return;
    call_token token = {.link = link->id, .attempt = head->attempt, .number = head->number};
    bool waits = call_window_cancel(&link->window, head->number, head->attempt);
    void (*handler)(void *, call_token) = waits ? calls->handlers->on_cancel : calls->handlers->on_crossed;
    if (handler != NULL) handler(calls->context, token);
}

/* ---- Answers. */

mr_status calls_reply_begin(calls *calls, call_token token, size_t size, uint8_t **payload) {
    call_link *link = call_link_find(calls, token.link);
    if (link == NULL || !call_window_is_open(&link->window, token.number)) return MR_CLOSED;
    return call_begin(calls, link, CALL_ANSWER, size, payload);
}

/* The answer that was begun is about to be sent. */
static call_link *answered(calls *calls, call_token token, size_t size) {
    call_link *link = call_begun(calls, token.link, CALL_ANSWER, size);
    MR_ASSERT(call_window_is_open(&link->window, token.number));
    call_window_answer(&link->window, token.number);
    return link;
}

static call_head answer_head(call_token token, mr_status status) {
    return (call_head){
        .kind = CALL_ANSWER, .status = (uint8_t)status, .attempt = (uint16_t)token.attempt, .number = token.number};
}

void calls_reply_commit(calls *calls, call_token token, size_t size) {
    call_head head = answer_head(token, MR_OK);
    call_commit(calls, answered(calls, token, size), &head, size);
}

static __attribute__((noinline)) mr_status reply_slowly(calls *calls, call_token token, const uint64_t *words,
                                                        size_t count) {
    uint8_t *payload;
    MR_TRY(calls_reply_begin(calls, token, count * sizeof *words, &payload));
    memcpy(payload, words, count * sizeof *words);
    calls_reply_commit(calls, token, count * sizeof *words);
    return MR_OK;
}

mr_status calls_reply(calls *calls, call_token token, const uint64_t *words, size_t count, bool more) {
    call_link *link = call_link_find(calls, token.link);
    if (link == NULL || link->over || !call_window_is_open(&link->window, token.number)) return MR_CLOSED;
    uint64_t first = call_head_first(CALL_ANSWER, MR_OK, (uint16_t)token.attempt, 0);
    if (!call_send_words(link, first, token.number, words, count, more))
        return reply_slowly(calls, token, words, count);
    call_window_answer(&link->window, token.number);
    return MR_OK;
}

void calls_reply_commit_body(calls *calls, call_token token, size_t size, span body, body_sent_fn *sent,
                             void *argument) {
    call_head head = answer_head(token, MR_OK);
    call_commit_body(calls, answered(calls, token, size), &head, size, body, sent, argument);
}

mr_status calls_fail(calls *calls, call_token token, mr_status status, const char *text) {
    MR_ASSERT(status != MR_OK && (unsigned)status <= UINT8_MAX);
    size_t size = text == NULL ? 0 : strnlen(text, CALL_TEXT_MAX);
    uint8_t *payload;
    MR_TRY(calls_reply_begin(calls, token, size, &payload));
    if (size != 0) memcpy(payload, text, size);
    call_head head = answer_head(token, status);
    call_commit(calls, answered(calls, token, size), &head, size);
    return MR_OK;
}
