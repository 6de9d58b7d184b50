/* desk_fuzz.c — what processes of a parameter server may say to each other beside the protocol, and what the scheduler
 * has written down of barriers. The first byte says which of them the others are. What is read is written back as the
 * same bytes. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "fuzz/fuzz.h"
#include "kv/corpus.h"
#include "kv/office/arrival.h"
#include "kv/office/barriers.h"
#include "kv/office/board.h"
#include "kv/office/desk.h"
#include "kv/office/note.h"
#include "kv/office/overview.h"
#include "kv/office/stock.h"

static void try_standing(span bytes) {
    uint8_t again[STANDING_SIZE_MAX];
    standing standing;
    if (standing_decode(bytes, &standing) != MR_OK) return;
    MR_ASSERT(standing_encode(&standing, again) == bytes.size && memcmp(again, bytes.data, bytes.size) == 0);
}

static void try_word(span bytes) {
    uint8_t again[ARRIVAL_WORD_MAX];
    arrival_word word;
    if (arrival_word_decode(bytes, &word) != MR_OK) return;
    MR_ASSERT(arrival_word_encode(&word, again) == bytes.size && memcmp(again, bytes.data, bytes.size) == 0);
}

static void try_verdict(span bytes) {
    uint8_t again[ARRIVAL_VERDICT_MAX];
    arrival_verdict verdict;
    if (arrival_verdict_decode(bytes, &verdict) != MR_OK) return;
    MR_ASSERT(arrival_verdict_encode(&verdict, again) == bytes.size && memcmp(again, bytes.data, bytes.size) == 0);
}

static void try_note(span bytes) {
    letter letter = {.kind = DESK_NOTE, .stamp = {1, 2, 3}, .value = bytes};
    note note;
    if (note_read(&letter, &note) != MR_OK) return;
    uint8_t *again = note_write(&note, &letter);
    MR_ASSERT(letter.value.size == bytes.size && memcmp(again, bytes.data, bytes.size) == 0);
    free(again);
}

static void try_barriers(span bytes) {
    barriers barriers;
    bool opens;
    barriers_init(&barriers, 3, true);
    if (barriers_decode(bytes, &barriers) == MR_OK) {
        uint8_t *again = xmalloc(bytes.size);
        writer writer = writer_of(again, bytes.size);
        barriers_encode(&barriers, &writer);
        MR_ASSERT(!writer.failed && barriers_size(&barriers) == bytes.size);
        MR_ASSERT(memcmp(again, bytes.data, bytes.size) == 0);
        free(again);
    }
    barriers_begin(&barriers, 5);
    for (uint32_t i = 0; i < 3; i++) barriers_resume(&barriers, i, 5, 1);
    mr_status status = MR_BUSY;
    for (uint32_t i = 0; i < 3; i++) status = barriers_come(&barriers, i, "b", false, UINT64_MAX, &opens);
    MR_ASSERT(status == MR_OK); /* all three have come */
    barriers_fini(&barriers);
}

static void try_page(span bytes) {
    board_reading reading;
    board_line line;
    if (board_read(bytes, &reading) != MR_OK) return;
    while (board_next(&reading, &line) == MR_OK) MR_ASSERT(line.standing.report_count <= MR_PS_METRICS_MAX);
}

static void try_list(span bytes) {
    reader reader;
    uint32_t count;
    board_entry entry;
    if (board_list_read(bytes, &reader, &count) != MR_OK) return;
    while (count-- != 0 && board_list_next(&reader, &entry) == MR_OK)
        MR_ASSERT(strlen(entry.address) < MR_PS_ADDRESS_MAX);
}

static void try_stock(span bytes) {
    uint8_t again[STOCK_SIZE_MAX];
    stock stock;
    if (stock_decode(bytes, &stock) != MR_OK) return;
    MR_ASSERT(stock_encode(&stock, again) == bytes.size && memcmp(again, bytes.data, bytes.size) == 0);
}

static void try_overview(span bytes) {
    mr_ps_overview *overview;
    if (bytes.size > LETTER_VALUE_MAX || overview_decode(bytes, &overview) != MR_OK) return;
    size_t size;
    uint8_t *again = overview_encode(overview, &size);
    MR_ASSERT(size == bytes.size && memcmp(again, bytes.data, bytes.size) == 0);
    free(again);
    mr_ps_overview_free(overview);
}

static void try_corpus(span bytes) {
    corpus corpus;
    if (corpus_decode(bytes, &corpus) != MR_OK) return;
    MR_ASSERT(corpus.count != 0 && corpus.count <= CORPUS_PARTS_MAX && corpus_size(&corpus) == bytes.size);
    uint8_t *again = xmalloc(bytes.size);
    writer writer = writer_of(again, bytes.size);
    corpus_encode(&corpus, &writer);
    MR_ASSERT(!writer.failed && memcmp(again, bytes.data, bytes.size) == 0);
    free(again);
    corpus_fini(&corpus);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static void (*const tries[])(span bytes) = {try_standing, try_word, try_verdict, try_note,     try_barriers,
                                                try_page,     try_list, try_stock,   try_overview, try_corpus};
    if (size == 0) return 0;
    tries[data[0] % (sizeof tries / sizeof *tries)](span_of(data + 1, size - 1));
    return 0;
}
