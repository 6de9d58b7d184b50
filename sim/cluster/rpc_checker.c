/* rpc_checker.c — see rpc_checker.h.
 *
 *   payload   0 serial u64   8 manner u8   9 zero ×3   12 delay u32   16 answer's body u32   20 filler …
 *   answer    0 serial u64   8 hash of what was asked u64 */
#include "sim/cluster/rpc_checker.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/alloc.h"
#include "base/assert.h"

enum { PLAN_SIZE = 20, UNTOUCHED = 0xee };

void rpc_checker_init(rpc_checker *checker, sim *sim, size_t max) {
    *checker = (rpc_checker){.sim = sim, .entries = xcalloc(max, sizeof *checker->entries), .max = max};
}

void rpc_checker_fini(rpc_checker *checker) {
    for (size_t i = 0; i < checker->count; i++) {
        rpc_entry *entry = &checker->entries[i];
        free(entry->place);
        free(entry->body);
    }
    free(checker->entries);
}

/* ---- The bytes. */

size_t rpc_plan_payload_size(const rpc_plan *plan) { return PLAN_SIZE + plan->filler; }

void rpc_checker_fill(const rpc_entry *entry, uint8_t *body, size_t size) {
    for (size_t i = 0; i < size; i++) body[i] = (uint8_t)(entry->serial * 31 + i * 7);
}

static uint64_t hash_of(span payload, span body) {
    return XXH3_64bits_withSeed(body.data, body.size, XXH3_64bits(payload.data, payload.size));
}

rpc_entry *rpc_checker_add(rpc_checker *checker, const rpc_plan *plan, sim_node *node, uint8_t *payload) {
    MR_ASSERT(checker->count < checker->max && plan->attempts_max <= RPC_CHECKER_ATTEMPTS_MAX);
    rpc_entry *entry = &checker->entries[checker->count++];
    *entry = (rpc_entry){.serial = checker->count,
                         .plan = *plan,
                         .node = node,
                         .process = sim_node_process(node),
                         .started_us = sim_node_now_us(node),
                         .deadline_us =
                             clock_deadline_us(sim_node_now_us(node), plan->timeout_us > 0 ? plan->timeout_us : -1)};
    size_t size = rpc_plan_payload_size(plan);
    writer writer = writer_of(payload, size);
    writer_u64(&writer, entry->serial);
    writer_u8(&writer, (uint8_t)plan->manner);
    writer_bytes(&writer, "\0\0\0", 3);
    writer_u32(&writer, plan->delay_us);
    writer_u32(&writer, plan->answer_body);
    rpc_checker_fill(entry, payload + PLAN_SIZE, plan->filler);
    if (plan->body != 0) {
        entry->body = xmalloc(plan->body);
        rpc_checker_fill(entry, entry->body, plan->body);
    }
    entry->hash = hash_of(span_of(payload, size), span_of(entry->body, plan->body));
    return entry;
}

rpc_entry *rpc_checker_read(rpc_checker *checker, span payload) {
    reader reader = reader_of(payload.data, payload.size);
    uint64_t serial = reader_u64(&reader);
    if (!reader.failed && serial != 0 && serial <= checker->count) return &checker->entries[serial - 1];
    sim_violation(checker->sim, "a payload of %zu bytes is no call that was made", payload.size);
    return NULL;
}

void rpc_checker_answer(const rpc_entry *entry, uint8_t *answer) {
    writer writer = writer_of(answer, RPC_CHECKER_ANSWER_SIZE);
    writer_u64(&writer, entry->serial);
    writer_u64(&writer, entry->hash);
}

/* ---- The answering side. */

rpc_entry *rpc_checker_ran(rpc_checker *checker, const rpc_call_request *request) {
    rpc_entry *entry = rpc_checker_read(checker, request->payload);
    if (entry == NULL) return NULL;
    uint32_t attempt = request->token.attempt;
    int attempts_max = entry->plan.attempts_max > 1 ? entry->plan.attempts_max : 1;
    bool refused = request->body.data == NULL && request->body.size != 0;
    if (attempt == 0 || attempt > (uint32_t)attempts_max)
        sim_violation(checker->sim, "call %" PRIu64 " is run for attempt %" PRIu32 " of %d", entry->serial, attempt,
                      attempts_max);
    else if (++entry->runs[attempt] > 1)
        sim_violation(checker->sim, "attempt %" PRIu32 " of call %" PRIu64 " is run twice", attempt, entry->serial);
    else if (request->body.size != entry->plan.body || request->method != (uint32_t)entry->plan.manner)
        sim_violation(checker->sim, "call %" PRIu64 " came with another method or body", entry->serial);
    else if (!refused && hash_of(request->payload, request->body) != entry->hash)
        sim_violation(checker->sim, "call %" PRIu64 " came with other bytes than it was made with", entry->serial);
    else
        return entry;
    return NULL;
}

/* ---- The asking side. */

void *rpc_checker_place(rpc_checker *checker, rpc_entry *entry, uint64_t size) {
    if (entry->ended || entry->place != NULL || size != entry->plan.answer_body) {
        sim_violation(checker->sim, "call %" PRIu64 " is asked for memory when it has none to give", entry->serial);
        return NULL;
    }
    if (entry->plan.refuse_body) return NULL;
    entry->place = xmalloc(size);
    memset(entry->place, UNTOUCHED, size);
    return entry->place;
}

/* Returns NULL if the answer is right. */
static const char *wrong_with_answer(rpc_entry *entry, const rpc_call_result *result) {
    reader reader = reader_of(result->payload.data, result->payload.size);
    uint64_t serial = reader_u64(&reader), hash = reader_u64(&reader);
    if (reader.failed || reader_left(&reader) != 0) return "got an answer of the wrong size";
    if (serial != entry->serial) return "got the answer to another call";
    if (hash != entry->hash) return "got an answer to other bytes";
    if (entry->plan.manner == MANNER_FAIL || entry->plan.manner == MANNER_NEVER) return "got an answer nobody gave";
    if (result->body.size != entry->plan.answer_body) return "got a body of the wrong size";
    if (result->body.size == 0) return NULL;
    if (result->body.data != entry->place) return "got its body somewhere else";
    uint8_t expected[RPC_CHECKER_BODY_MAX];
    rpc_checker_fill(entry, expected, entry->plan.answer_body);
    if (memcmp(expected, entry->place, entry->plan.answer_body) != 0) return "got another body";
    free(entry->place);
    entry->place = NULL;
    return NULL;
}

static const char *wrong_with_timeout(const rpc_entry *entry) {
    int64_t now_us = sim_node_now_us(entry->node);
    if (now_us >= entry->deadline_us) return NULL;
    if (entry->plan.attempt_timeout_us <= 0) return "timed out before its time";
    int attempts = entry->plan.attempts_max > 1 && entry->plan.body == 0 ? entry->plan.attempts_max : 1;
    return now_us - entry->started_us < attempts * entry->plan.attempt_timeout_us ? "gave up before its last attempt"
                                                                                  : NULL;
}

static const char *wrong_with(rpc_entry *entry, const rpc_call_result *result) {
    if (result->why != NULL)
        return result->status == result->why->status && result->status != MR_CORRUPT ? NULL : "was lost for no reason";
    switch (result->status) {
    case MR_OK: return wrong_with_answer(entry, result);
    case MR_TIMEOUT: return wrong_with_timeout(entry);
    case MR_CANCELLED: return entry->cancelling ? NULL : "was cancelled by nobody";
    case MR_DENIED:
        return entry->plan.manner == MANNER_FAIL || entry->plan.manner == MANNER_RELAY ? NULL : "was denied";
    case MR_TOO_LARGE: return entry->plan.refuse_body || entry->plan.body != 0 ? NULL : "was too large";
    default: return "ended with a status nobody gave";
    }
}

void rpc_checker_ended(rpc_checker *checker, rpc_entry *entry, rpc_call_id id, const rpc_call_result *result) {
    const char *wrong = wrong_with(entry, result);
    if (entry->ended) wrong = "ended twice";
    if (id.number != entry->id.number || id.link.v != entry->id.link.v) wrong = "ended under another's id";
    if (wrong != NULL)
        sim_violation(checker->sim, "call %" PRIu64 " of %s (process %" PRIu32 ") %s: %s", entry->serial,
                      sim_node_name(entry->node), entry->process, wrong, mr_status_name(result->status));
    if (!entry->ended) checker->ended++;
    entry->ended = true;
    entry->status = result->status;
}

/* ---- Checks of all entries. */

static bool runs_now(const rpc_entry *entry) {
    return sim_node_up(entry->node) && sim_node_process(entry->node) == entry->process;
}

/* A call is late if two checks in a row find it open: at the first check the node may be about to wake up. */
static void check_deadline(rpc_checker *checker, rpc_entry *entry) {
    int64_t late_us = sim_node_now_us(entry->node) - entry->deadline_us;
    bool busy = sim_node_free_at_us(entry->node) > sim_now_us(checker->sim);
    if (entry->late && !busy)
        sim_violation(checker->sim, "call %" PRIu64 " of %s is still open %" PRId64 " us after its deadline",
                      entry->serial, sim_node_name(entry->node), late_us);
    entry->late = late_us > 0 && !busy;
}

void rpc_checker_check_deadlines(rpc_checker *checker) {
    for (size_t i = 0; i < checker->count; i++) {
        rpc_entry *entry = &checker->entries[i];
        if (!entry->ended && runs_now(entry) && entry->deadline_us != CLOCK_NEVER_US) check_deadline(checker, entry);
    }
}

static void check_untouched(rpc_checker *checker, const rpc_entry *entry) {
    for (size_t i = 0; i < entry->plan.answer_body; i++)
        if (entry->place[i] != UNTOUCHED) {
            sim_violation(checker->sim, "call %" PRIu64 " ended without its body, whose memory was written to",
                          entry->serial);
            return;
        }
}

void rpc_checker_check_memory(rpc_checker *checker) {
    for (size_t i = 0; i < checker->count; i++)
        if (checker->entries[i].ended && checker->entries[i].place != NULL)
            check_untouched(checker, &checker->entries[i]);
}

size_t rpc_checker_open_count(const rpc_checker *checker, const sim_node *node) {
    size_t count = 0;
    for (size_t i = 0; i < checker->count; i++) {
        const rpc_entry *entry = &checker->entries[i];
        if (!entry->ended && entry->node == node && runs_now(entry)) count++;
    }
    return count;
}
