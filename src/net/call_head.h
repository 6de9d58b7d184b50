/* call_head.h — RPC header layout: the first bytes of the head of each message.
 *
 *   offset  size  field       request             answer             cancel
 *   ------  ----  ----------  ------------------  -----------------  --------------------
 *   0       1     kind        1, with a budget 4  2                  3
 *   1       1     status      0                   mr_status          0
 *   2       2     attempt     1…CALL_ATTEMPTS_MAX that it answers    the last that was made
 *   4       4     method      the host's          0                  0
 *   8       8     number      at least CALL_WINDOW, the same in all three
 *   16            payload                                            none
 *   at end  8     budget_us   left, if kind is 4  (not there)        (not there)
 *
 * Little-endian. A number is place + CALL_WINDOW × (how often the place was used, from 1). Any status is let through: a
 * newer peer may know more of them than we do. Most calls have no deadline, and theirs are as short as can be: two of
 * them fit a cache line. */
#pragma once
#include <string.h>

#include "net/call.h"

typedef enum call_kind { CALL_REQUEST = 1, CALL_ANSWER = 2, CALL_CANCEL = 3, CALL_REQUEST_TIMED = 4 } call_kind;

#define CALL_BUDGET_NONE UINT64_MAX

typedef struct call_head { /* decoded */
    uint8_t kind;          /* never CALL_REQUEST_TIMED: that is how a request with a budget travels */
    uint8_t status;
    uint16_t attempt;
    uint32_t method;
    uint64_t number;
    uint64_t budget_us; /* in requests only */
} call_head;

/* The first fields lie as they travel, but they are written and read as whole words: a processor that has just stored a
 * byte, a byte, a half and a word cannot load them as one without waiting. */
enum { CALL_HEAD_NUMBER = 8, CALL_HEAD_SIZE = 16, CALL_BUDGET_SIZE = 8 };

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "words are stored as they are");
_Static_assert(CALL_HEAD_SIZE + CALL_BUDGET_SIZE == CALL_OVERHEAD, "call.h knows");
_Static_assert(CALL_ATTEMPTS_MAX <= UINT16_MAX && (CALL_WINDOW & (CALL_WINDOW - 1)) == 0, "fields are wide enough");

/* The room that a message of this kind may need. */
static inline size_t call_head_room(call_kind kind, size_t payload_size) {
    return CALL_HEAD_SIZE + payload_size + (kind == CALL_REQUEST ? CALL_BUDGET_SIZE : 0);
}

/* The first eight bytes. */
static inline uint64_t call_head_first(uint8_t kind, uint8_t status, uint16_t attempt, uint32_t method) {
    return kind | (uint64_t)status << 8 | (uint64_t)attempt << 16 | (uint64_t)method << 32;
}

/* Writes what is ours around a payload of that size, which lies or will lie at place + CALL_HEAD_SIZE. `place` has
 * call_head_room bytes and need not be aligned. The size of the whole. */
static inline size_t call_head_encode(const call_head *head, uint8_t *place, size_t payload_size) {
    bool timed = head->kind == CALL_REQUEST && head->budget_us != CALL_BUDGET_NONE;
    uint64_t first =
        call_head_first(timed ? CALL_REQUEST_TIMED : head->kind, head->status, head->attempt, head->method);
    memcpy(place, &first, sizeof first);
    memcpy(place + CALL_HEAD_NUMBER, &head->number, sizeof head->number);
    size_t size = CALL_HEAD_SIZE + payload_size;
    if (!timed) return size;
    memcpy(place + size, &head->budget_us, sizeof head->budget_us);
    return size + CALL_BUDGET_SIZE;
}

/* Checks every field. MR_CORRUPT: no correct peer sends this. The payload is borrowed from `bytes`. */
static inline mr_status call_head_decode(span bytes, call_head *head, span *payload) {
    if (bytes.size < CALL_HEAD_SIZE) return MR_CORRUPT;
    uint64_t first;
    memcpy(&first, bytes.data, sizeof first);
    memcpy(&head->number, bytes.data + CALL_HEAD_NUMBER, sizeof head->number);
    head->kind = (uint8_t)first;
    head->status = (uint8_t)(first >> 8);
    head->attempt = (uint16_t)(first >> 16);
    head->method = (uint32_t)(first >> 32);
    head->budget_us = CALL_BUDGET_NONE;
    if (head->attempt == 0 || head->attempt > CALL_ATTEMPTS_MAX || head->number < CALL_WINDOW) return MR_CORRUPT;
    *payload = span_of(bytes.data + CALL_HEAD_SIZE, bytes.size - CALL_HEAD_SIZE);
    switch (head->kind) {
    case CALL_REQUEST_TIMED:
        if (payload->size < CALL_BUDGET_SIZE) return MR_CORRUPT;
        payload->size -= CALL_BUDGET_SIZE;
        memcpy(&head->budget_us, payload->data + payload->size, sizeof head->budget_us);
        if (head->budget_us > INT64_MAX || head->status != 0) return MR_CORRUPT;
        head->kind = CALL_REQUEST;
        return MR_OK;
    case CALL_REQUEST: return head->status == 0 ? MR_OK : MR_CORRUPT;
    case CALL_ANSWER: return head->method == 0 ? MR_OK : MR_CORRUPT;
    case CALL_CANCEL: return head->method == 0 && head->status == 0 && payload->size == 0 ? MR_OK : MR_CORRUPT;
    default: return MR_CORRUPT;
    }
}

static inline uint32_t call_place(uint64_t number) { return (uint32_t)(number % CALL_WINDOW); }
