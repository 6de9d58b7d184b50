/* rpc_header.h — RPC header layout: the first bytes of the head of each message.
 *
 *   offset  size  field       request             answer             cancel
 *   ------  ----  ----------  ------------------  -----------------  --------------------
 *   0       1     kind        1, with a budget 4  2                  3
 *   1       1     status      0                   mr_status          0
 *   2       2     attempt     1…RPC_CALL_ATTEMPTS_MAX that it answers  the last that was made
 *   4       4     method      the host's          0                  0
 *   8       8     number  at least RPC_CALL_WINDOW, the same in all three
 *   16            payload                                            none
 *   at end  8     budget_us   left, if kind is 4  (not there)        (not there)
 *
 * Little-endian. A number is place + RPC_CALL_WINDOW × (use count of the place, from 1). Any status is accepted,
 * because a newer peer may define more of them. Most calls have no deadline, and their header is as short as possible:
 * two fit a cache line. */
#pragma once
#include <string.h>

#include "net/rpc/rpc.h"

typedef enum rpc_kind {
    RPC_CALL_REQUEST = 1,
    RPC_CALL_ANSWER = 2,
    RPC_CALL_CANCEL = 3,
    RPC_CALL_REQUEST_TIMED = 4
} rpc_kind;

#define RPC_CALL_BUDGET_NONE UINT64_MAX

typedef struct rpc_header { /* decoded form */
    uint8_t kind;           /* never RPC_CALL_REQUEST_TIMED, which is the wire form of a request with a budget */
    uint8_t status;
    uint16_t attempt;
    uint32_t method;
    uint64_t number;
    uint64_t budget_us; /* only in requests */
} rpc_header;

/* The first fields have their wire layout, but are written and read as whole words: a processor cannot load a byte, a
 * byte, a half and a word just stored as one word without stalling. */
enum { RPC_HEADER_NUMBER = 8, RPC_HEADER_SIZE = 16, RPC_CALL_BUDGET_SIZE = 8 };

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "words are stored as they are");
_Static_assert(RPC_HEADER_SIZE + RPC_CALL_BUDGET_SIZE == RPC_CALL_OVERHEAD, "rpc.h knows the sum");
_Static_assert(RPC_CALL_ATTEMPTS_MAX <= UINT16_MAX && (RPC_CALL_WINDOW & (RPC_CALL_WINDOW - 1)) == 0,
               "fields are wide enough");

/* Maximum size of a message of this kind. */
static inline size_t rpc_header_room(rpc_kind kind, size_t payload_size) {
    return RPC_HEADER_SIZE + payload_size + (kind == RPC_CALL_REQUEST ? RPC_CALL_BUDGET_SIZE : 0);
}

/* The first eight bytes. */
static inline uint64_t rpc_header_first(uint8_t kind, uint8_t status, uint16_t attempt, uint32_t method) {
    return kind | (uint64_t)status << 8 | (uint64_t)attempt << 16 | (uint64_t)method << 32;
}

/* Writes the header around a payload of that size at place + RPC_HEADER_SIZE. `place` has rpc_header_room bytes and
 * needs no alignment. Returns the size of the message. */
static inline size_t rpc_header_encode(const rpc_header *header, uint8_t *place, size_t payload_size) {
    bool timed = header->kind == RPC_CALL_REQUEST && header->budget_us != RPC_CALL_BUDGET_NONE;
    uint64_t first = rpc_header_first(timed ? RPC_CALL_REQUEST_TIMED : header->kind, header->status, header->attempt,
                                      header->method);
    memcpy(place, &first, sizeof first);
    memcpy(place + RPC_HEADER_NUMBER, &header->number, sizeof header->number);
    size_t size = RPC_HEADER_SIZE + payload_size;
    if (!timed) return size;
    memcpy(place + size, &header->budget_us, sizeof header->budget_us);
    return size + RPC_CALL_BUDGET_SIZE;
}

/* Checks every field. MR_CORRUPT: no correct peer sends this. The payload is borrowed from `bytes`. */
static inline mr_status rpc_header_decode(span bytes, rpc_header *header, span *payload) {
    if (bytes.size < RPC_HEADER_SIZE) return MR_CORRUPT;
    uint64_t first;
    memcpy(&first, bytes.data, sizeof first);
    memcpy(&header->number, bytes.data + RPC_HEADER_NUMBER, sizeof header->number);
    header->kind = (uint8_t)first;
    header->status = (uint8_t)(first >> 8);
    header->attempt = (uint16_t)(first >> 16);
    header->method = (uint32_t)(first >> 32);
    header->budget_us = RPC_CALL_BUDGET_NONE;
    if (header->attempt == 0 || header->attempt > RPC_CALL_ATTEMPTS_MAX || header->number < RPC_CALL_WINDOW)
        return MR_CORRUPT;
    *payload = span_of(bytes.data + RPC_HEADER_SIZE, bytes.size - RPC_HEADER_SIZE);
    switch (header->kind) {
    case RPC_CALL_REQUEST_TIMED:
        if (payload->size < RPC_CALL_BUDGET_SIZE) return MR_CORRUPT;
        payload->size -= RPC_CALL_BUDGET_SIZE;
        memcpy(&header->budget_us, payload->data + payload->size, sizeof header->budget_us);
        if (header->budget_us > INT64_MAX || header->status != 0) return MR_CORRUPT;
        header->kind = RPC_CALL_REQUEST;
        return MR_OK;
    case RPC_CALL_REQUEST: return header->status == 0 ? MR_OK : MR_CORRUPT;
    case RPC_CALL_ANSWER: return header->method == 0 ? MR_OK : MR_CORRUPT;
    case RPC_CALL_CANCEL: return header->method == 0 && header->status == 0 && payload->size == 0 ? MR_OK : MR_CORRUPT;
    default: return MR_CORRUPT;
    }
}

static inline uint32_t rpc_call_place(uint64_t number) { return (uint32_t)(number % RPC_CALL_WINDOW); }
