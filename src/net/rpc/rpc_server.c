/* rpc_server.c — RPC, answering side: requests, duplicates, and tokens of pending responses. See rpc.h, rpc_internal.h.
 */
#include "net/rpc/rpc_internal.h"

#include "base/mutation.h"

/* Stored as two words, because the next reader loads two words; loading a word that was stored as two halves stalls. */
static inline rpc_call_token token_of(link_id link, uint32_t attempt, uint64_t number) {
    _Static_assert(offsetof(rpc_call_token, link) == 0 && offsetof(rpc_call_token, attempt) == 4, "one word");
    uint64_t first = link.v | (uint64_t)attempt << 32;
    rpc_call_token token = {.number = number};
    memcpy(&token, &first, sizeof first);
    return token;
}

/* ---- Requests. */

/* Whether the request shall be passed to the handler. */
static bool wanted(const rpc_call_link *link, const rpc_header *header) {
    return header->budget_us != 0 &&
           (MUTATED("no-duplicate-filter") || rpc_dedup_is_new(&link->dedup, header->number, header->attempt));
}

/* Cancels an older call that is still open in this place: a caller reuses a place only after its previous call
 * ended. */
static void cancel_superseded(rpc *rpc, rpc_call_link *link, uint64_t number) {
    uint32_t at = rpc_call_place(number);
    if (at >= link->dedup.count) return;
    rpc_dedup_place *place = &link->dedup.places[at];
    if (!place->open || place->number >= number) return;
    place->open = false;
    if (rpc->handlers->on_cancel == NULL) return;
    rpc_call_token token = {.link = link->id, .attempt = place->attempt, .number = place->number};
    rpc->handlers->on_cancel(rpc->context, token);
}

/* Admits any but the usual request: it may be a repeat, late, or supersede an older call. */
static __attribute__((noinline)) bool admit(rpc *rpc, rpc_call_link *link, const rpc_header *header) {
    if (!wanted(link, header)) {
        ++*(header->budget_us == 0 ? &rpc->stats.expired : &rpc->stats.repeats);
        return false;
    }
    cancel_superseded(rpc, link, header->number);
    if (link->over) return false;
    if (rpc_dedup_admit(&link->dedup, header->number, header->attempt) == MR_OK) return true;
    rpc_call_condemn(rpc, link, MR_NOMEM, "out of memory for the duplicate filter of its requests");
    return false;
}

void rpc_call_on_request(rpc *rpc, rpc_call_link *link, const rpc_header *header, span payload, const span *body) {
    bool usual = header->budget_us == RPC_CALL_BUDGET_NONE &&
                 rpc_dedup_admit_first(&link->dedup, header->number, header->attempt);
    if (!usual && !admit(rpc, link, header)) return;
    rpc->stats.requests++;
    rpc_call_request request = {
        .token = token_of(link->id, header->attempt, header->number),
        .method = header->method,
        .deadline_us = CLOCK_NEVER_US,
        .payload = payload,
        .body = *body,
    };
    if (header->budget_us != RPC_CALL_BUDGET_NONE)
        request.deadline_us = clock_deadline_us(clock_now_us(rpc->env->clock), (int64_t)header->budget_us);
    rpc->handlers->on_request(rpc->context, &request);
}

void *rpc_call_request_body(rpc *rpc, rpc_call_link *link, const rpc_header *header, span payload, uint64_t size) {
    if (rpc->handlers->on_body == NULL || !wanted(link, header)) return NULL;
    return rpc->handlers->on_body(rpc->context, link->id, header->method, payload, size);
}

void rpc_call_on_cancel(rpc *rpc, rpc_call_link *link, const rpc_header *header) {
    cancel_superseded(rpc, link, header->number);
    if (link->over) return;
    rpc_call_token token = {.link = link->id, .attempt = header->attempt, .number = header->number};
    bool waits = rpc_dedup_cancel(&link->dedup, header->number, header->attempt);
    void (*handler)(void *, rpc_call_token) = waits ? rpc->handlers->on_cancel : rpc->handlers->on_crossed;
    if (handler != NULL) handler(rpc->context, token);
}

/* ---- Answers. */

mr_status rpc_reply_begin(rpc *rpc, rpc_call_token token, size_t size, uint8_t **payload) {
    rpc_call_link *link = rpc_call_link_find(rpc, token.link);
    if (link == NULL || !rpc_dedup_is_open(&link->dedup, token.number)) return MR_CLOSED;
    return rpc_call_begin(rpc, link, RPC_CALL_ANSWER, size, payload);
}

/* Marks the request of a begun answer as answered. */
static rpc_call_link *answered(rpc *rpc, rpc_call_token token, size_t size) {
    rpc_call_link *link = rpc_call_begun(rpc, token.link, RPC_CALL_ANSWER, size);
    MR_ASSERT(rpc_dedup_is_open(&link->dedup, token.number));
    rpc_dedup_answer(&link->dedup, token.number);
    return link;
}

static rpc_header answer_head(rpc_call_token token, mr_status status) {
    return (rpc_header){
        .kind = RPC_CALL_ANSWER, .status = (uint8_t)status, .attempt = (uint16_t)token.attempt, .number = token.number};
}

void rpc_reply_commit(rpc *rpc, rpc_call_token token, size_t size) {
    rpc_header header = answer_head(token, MR_OK);
    rpc_call_commit(rpc, answered(rpc, token, size), &header, size);
}

static __attribute__((noinline)) mr_status reply_slowly(rpc *rpc, rpc_call_token token, const uint64_t *words,
                                                        size_t count) {
    uint8_t *payload;
    MR_TRY(rpc_reply_begin(rpc, token, count * sizeof *words, &payload));
    memcpy(payload, words, count * sizeof *words);
    rpc_reply_commit(rpc, token, count * sizeof *words);
    return MR_OK;
}

mr_status rpc_reply(rpc *rpc, rpc_call_token token, const uint64_t *words, size_t count, bool more) {
    rpc_call_link *link = rpc_call_link_find(rpc, token.link);
    if (link == NULL || link->over || !rpc_dedup_is_open(&link->dedup, token.number)) return MR_CLOSED;
    uint64_t first = rpc_header_first(RPC_CALL_ANSWER, MR_OK, (uint16_t)token.attempt, 0);
    if (!rpc_call_send_words(link, first, token.number, words, count, more))
        return reply_slowly(rpc, token, words, count);
    rpc_dedup_answer(&link->dedup, token.number);
    return MR_OK;
}

void rpc_reply_commit_body(rpc *rpc, rpc_call_token token, size_t size, span body, body_sent_fn *sent, void *argument) {
    rpc_header header = answer_head(token, MR_OK);
    rpc_call_commit_body(rpc, answered(rpc, token, size), &header, size, body, sent, argument);
}

mr_status rpc_fail(rpc *rpc, rpc_call_token token, mr_status status, const char *text) {
    MR_ASSERT(status != MR_OK && (unsigned)status <= UINT8_MAX);
    size_t size = text == NULL ? 0 : strnlen(text, RPC_CALL_TEXT_MAX);
    uint8_t *payload;
    MR_TRY(rpc_reply_begin(rpc, token, size, &payload));
    if (size != 0) memcpy(payload, text, size);
    rpc_header header = answer_head(token, status);
    rpc_call_commit(rpc, answered(rpc, token, size), &header, size);
    return MR_OK;
}
