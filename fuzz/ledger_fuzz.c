/* ledger_fuzz.c — what a rank is shown of a ledger, and the terms of a round that contributions carry. What is read is
 * written back as the same bytes. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "fuzz/fuzz.h"
#include "ps/ledger.h"

static void read_ledger(span bytes, uint32_t rank_count) {
    ledger ledger;
    if (!ledger_read(bytes, rank_count, &ledger)) return;
    MR_ASSERT(ledger_size(rank_count) == bytes.size);
    uint8_t *again = xmalloc(bytes.size);
    ledger_write(&ledger, again);
    struct ledger twice;
    MR_ASSERT(ledger_read(span_of(again, bytes.size), rank_count, &twice));
    MR_ASSERT(memcmp(&twice.members, &ledger.members, sizeof ledger.members) == 0 && twice.round == ledger.round);
    free(again);
}

static void read_terms(span bytes, uint32_t rank_count) {
    ledger_terms terms;
    uint8_t again[LEDGER_TERMS_MAX];
    if (!ledger_read_terms(bytes, rank_count, &terms)) return;
    size_t size = ledger_write_terms(&terms, rank_count, again);
    MR_ASSERT(size == bytes.size && memcmp(again + 1, bytes.data + 1, size - 1) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < 2) return 0;
    uint32_t rank_count = 1 + (data[0] | (uint32_t)data[1] << 8) % CROWD_MAX;
    read_ledger(span_of(data + 2, size - 2), rank_count);
    read_terms(span_of(data + 2, size - 2), rank_count);
    return 0;
}
