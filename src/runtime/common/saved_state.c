/* saved_state.c — see saved_state.h. */
#include "runtime/common/saved_state.h"

#include <stdatomic.h>
#include <string.h>

#include "base/failpoint.h"

enum { HALVES_AT = 64, HALF_UNIT = 64, PAGE = 4096 };

typedef struct header {
    _Atomic uint64_t sequence;
    uint64_t sizes[2];
} header;
_Static_assert(sizeof(header) == 24 && sizeof(header) <= HALVES_AT, "layout");

static size_t half_of(size_t bytes) { return (bytes - HALVES_AT) / 2 / HALF_UNIT * HALF_UNIT; }

size_t saved_state_bytes(size_t size) {
    size_t halves = 2 * ((size + HALF_UNIT - 1) / HALF_UNIT * HALF_UNIT);
    return (HALVES_AT + halves + PAGE - 1) / PAGE * PAGE;
}

bool saved_state_write(void *memory, size_t bytes, span state) {
    header *head = memory;
    size_t half = half_of(bytes);
    uint64_t next = atomic_load_explicit(&head->sequence, memory_order_relaxed) + 1;
    if (state.size > half) return false;
    memcpy((uint8_t *)memory + HALVES_AT + next % 2 * half, state.data, state.size);
    head->sizes[next % 2] = state.size;
    FAILPOINT("runtime.state_written");
    atomic_store_explicit(&head->sequence, next, memory_order_release);
    return true;
}

bool saved_state_read(const void *memory, size_t bytes, span *out) {
    const header *head = memory;
    size_t half = half_of(bytes);
    uint64_t last = atomic_load_explicit(&head->sequence, memory_order_acquire), size = head->sizes[last % 2];
    if (last == 0 || size > half) return false;
    *out = span_of((const uint8_t *)memory + HALVES_AT + last % 2 * half, (size_t)size);
    return true;
}
