/* round_state_fuzz.c — the round state as ranks and joiners receive it, and the terms and the sum of a round. Bytes
 * that decode are encoded again with the same size and content. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "fuzz/fuzz.h"
#include "ps/round_state.h"

static void read_round_state(span bytes, uint32_t rank_count) {
    round_state state;
    if (!round_state_read(bytes, rank_count, &state)) return;
    MR_ASSERT(round_state_size(rank_count) == bytes.size);
    uint8_t *again = xmalloc(bytes.size);
    round_state_write(&state, again);
    struct round_state twice;
    MR_ASSERT(round_state_read(span_of(again, bytes.size), rank_count, &twice));
    MR_ASSERT(memcmp(&twice.members, &state.members, sizeof state.members) == 0 && twice.round == state.round);
    free(again);
}

static void read_terms(span bytes, uint32_t rank_count) {
    round_state_terms terms;
    uint8_t again[ROUND_STATE_TERMS_MAX];
    if (!round_state_read_terms(bytes, rank_count, &terms)) return;
    size_t size = round_state_write_terms(&terms, rank_count, again);
    MR_ASSERT(size == bytes.size && memcmp(again + 1, bytes.data + 1, size - 1) == 0);
}

static void read_round(span bytes, uint32_t rank_count) {
    round_state_round round;
    if (!round_state_read_round(bytes, rank_count, &round)) return;
    size_t norms = round.terms.normed ? round.norms.size + sizeof(uint32_t) : 0;
    MR_ASSERT(round_state_round_head(rank_count) + round.sum.size + norms == bytes.size);
}

/* Reads the whole state, as a joiner receives it. */
static void read_pages(span bytes, uint32_t rank_count) {
    round_state_pages *pages = round_state_ops.create(NULL, 0, true);
    round_state_begin(&pages->now, rank_count, rank_count, 0, false);
    if (round_state_ops.read(pages, bytes)) {
        size_t size = round_state_ops.size(pages);
        uint8_t *again = xmalloc(size);
        round_state_ops.write(pages, again);
        MR_ASSERT(size == bytes.size && round_state_ops.read(pages, span_of(again, size)));
        free(again);
    }
    round_state_ops.destroy(pages);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < 2) return 0;
    uint32_t rank_count = 1 + (data[0] | (uint32_t)data[1] << 8) % RANK_SET_MAX;
    read_round_state(span_of(data + 2, size - 2), rank_count);
    read_terms(span_of(data + 2, size - 2), rank_count);
    read_round(span_of(data + 2, size - 2), rank_count);
    read_pages(span_of(data + 2, size - 2), rank_count);
    return 0;
}
