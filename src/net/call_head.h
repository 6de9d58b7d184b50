/* call_head.h — how a call travels: the first bytes of the head of each of its messages.
 *
 *   offset  size  field       request             answer             cancel
 *   ------  ----  ----------  ------------------  -----------------  --------------------
 *   0       1     kind        1                   2                  3
 *   1       1     status      0                   mr_status          0
 *   2       2     attempt     1…CALL_ATTEMPTS_MAX that it answers    the last that was made
 *   4       4     method      the host's          0                  0
 *   8       8     number      at least CALL_WINDOW, the same in all three
 *   16      8     budget_us   left; NONE: endless (not there)        (not there)
 *                 payload     from 24             from 16            none
 *
 * Little-endian. A number is place + CALL_WINDOW × (how often the place was used, from 1). Any status is let through: a
 * newer peer may know more of them than we do. */
#pragma once
#include <string.h>

#include "net/call.h"

typedef enum call_kind { CALL_REQUEST = 1, CALL_ANSWER = 2, CALL_CANCEL = 3 } call_kind;

#define CALL_BUDGET_NONE UINT64_MAX

typedef struct call_head { /* decoded */
    uint8_t kind;
    uint8_t status;
    uint16_t attempt;
    uint32_t method;
    uint64_t number;
    uint64_t budget_us; /* in requests only */
} call_head;

/* The struct's fields lie as they travel, but it is written and read as whole words: a processor that has just stored a
 * byte, a byte, a half and a word cannot load them as one without waiting. */
enum { CALL_HEAD_NUMBER = 8, CALL_HEAD_BUDGET = 16, CALL_HEAD_SHORT = 16, CALL_HEAD_REQUEST = CALL_OVERHEAD };

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "words are stored as they are");
_Static_assert(offsetof(call_head, kind) == 0 && offsetof(call_head, status) == 1, "layout");
_Static_assert(offsetof(call_head, attempt) == 2 && offsetof(call_head, method) == 4, "layout");
_Static_assert(offsetof(call_head, number) == CALL_HEAD_NUMBER, "layout");
_Static_assert(offsetof(call_head, budget_us) == CALL_HEAD_BUDGET, "layout");
_Static_assert(sizeof(call_head) == CALL_HEAD_REQUEST, "layout");
_Static_assert(CALL_ATTEMPTS_MAX <= UINT16_MAX && (CALL_WINDOW & (CALL_WINDOW - 1)) == 0, "fields are wide enough");

static inline size_t call_head_size(call_kind kind) {
    return kind == CALL_REQUEST ? (size_t)CALL_HEAD_REQUEST : (size_t)CALL_HEAD_SHORT;
}

/* `place` has call_head_size(kind) bytes and need not be aligned. */
static inline void call_head_encode(const call_head *head, uint8_t *place) {
    uint64_t first =
        head->kind | (uint64_t)head->status << 8 | (uint64_t)head->attempt << 16 | (uint64_t)head->method << 32;
    memcpy(place, &first, sizeof first);
    memcpy(place + CALL_HEAD_NUMBER, &head->number, sizeof head->number);
    if (head->kind == CALL_REQUEST) memcpy(place + CALL_HEAD_BUDGET, &head->budget_us, sizeof head->budget_us);
}

/* Checks every field. MR_CORRUPT: no correct peer sends this. The payload is borrowed from `bytes`. */
static inline mr_status call_head_decode(span bytes, call_head *head, span *payload) {
    if (bytes.size < CALL_HEAD_SHORT) return MR_CORRUPT;
    uint64_t first;
    memcpy(&first, bytes.data, sizeof first);
    memcpy(&head->number, bytes.data + CALL_HEAD_NUMBER, sizeof head->number);
    head->kind = (uint8_t)first;
    head->status = (uint8_t)(first >> 8);
    head->attempt = (uint16_t)(first >> 16);
    head->method = (uint32_t)(first >> 32);
    if (head->attempt == 0 || head->attempt > CALL_ATTEMPTS_MAX || head->number < CALL_WINDOW) return MR_CORRUPT;
    size_t size = CALL_HEAD_SHORT;
    switch (head->kind) {
    case CALL_REQUEST:
        size = CALL_HEAD_REQUEST;
        if (bytes.size < size || head->status != 0) return MR_CORRUPT;
        memcpy(&head->budget_us, bytes.data + CALL_HEAD_BUDGET, sizeof head->budget_us);
        if (head->budget_us > INT64_MAX && head->budget_us != CALL_BUDGET_NONE) return MR_CORRUPT;
        break;
    case CALL_ANSWER:
        if (head->method != 0) return MR_CORRUPT;
        break;
    case CALL_CANCEL:
        if (head->method != 0 || head->status != 0 || bytes.size != size) return MR_CORRUPT;
        break;
    default: return MR_CORRUPT;
    }
    *payload = span_of(bytes.data + size, bytes.size - size);
    return MR_OK;
}

static inline uint32_t call_place(uint64_t number) { return (uint32_t)(number % CALL_WINDOW); }
