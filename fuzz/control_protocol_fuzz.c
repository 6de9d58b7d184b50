/* control_protocol_fuzz.c — payloads of control messages between processes of a parameter server, and the barriers that
 * the scheduler stores. The first byte selects the decoder. A payload that decodes and has an encoder is encoded to the
 * same bytes. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "fuzz/fuzz.h"
#include "kv/control/app_message.h"
#include "kv/control/barrier_client.h"
#include "kv/control/barrier_server.h"
#include "kv/control/catalog_wire.h"
#include "kv/control/control_wire.h"
#include "kv/control/dataset_spec.h"
#include "kv/control/overview.h"
#include "kv/control/process_table.h"
#include "kv/control/table_stats.h"

static void try_process_state(span bytes) {
    uint8_t again[PROCESS_STATE_SIZE_MAX];
    process_state state;
    if (process_state_decode(bytes, &state) != MR_OK) return;
    MR_ASSERT(process_state_encode(&state, again) == bytes.size && memcmp(again, bytes.data, bytes.size) == 0);
}

static void try_word(span bytes) {
    uint8_t again[BARRIER_CLIENT_WORD_MAX];
    barrier_client_word word;
    if (barrier_client_word_decode(bytes, &word) != MR_OK) return;
    MR_ASSERT(barrier_client_word_encode(&word, again) == bytes.size && memcmp(again, bytes.data, bytes.size) == 0);
}

static void try_verdict(span bytes) {
    uint8_t again[BARRIER_CLIENT_VERDICT_MAX];
    barrier_client_verdict verdict;
    if (barrier_client_verdict_decode(bytes, &verdict) != MR_OK) return;
    MR_ASSERT(barrier_client_verdict_encode(&verdict, again) == bytes.size &&
              memcmp(again, bytes.data, bytes.size) == 0);
}

static void try_note(span bytes) {
    control_message message = {.kind = CONTROL_NOTE, .stamp = {1, 2, 3}, .value = bytes};
    app_message app_message;
    if (app_message_read(&message, &app_message) != MR_OK) return;
    uint8_t *again = app_message_write(&app_message, &message);
    MR_ASSERT(message.value.size == bytes.size && memcmp(again, bytes.data, bytes.size) == 0);
    free(again);
}

static void try_barriers(span bytes) {
    barrier_server server;
    bool opens;
    barrier_server_init(&server, 3, true);
    if (barrier_server_decode(bytes, &server) == MR_OK) {
        uint8_t *again = xmalloc(bytes.size);
        writer writer = writer_of(again, bytes.size);
        barrier_server_encode(&server, &writer);
        MR_ASSERT(!writer.failed && barrier_server_size(&server) == bytes.size);
        MR_ASSERT(memcmp(again, bytes.data, bytes.size) == 0);
        free(again);
    }
    barrier_server_begin(&server, 5);
    for (uint32_t i = 0; i < 3; i++) barrier_server_resume(&server, i, 5, 1);
    mr_status status = MR_BUSY;
    for (uint32_t i = 0; i < 3; i++) status = barrier_server_come(&server, i, "b", false, UINT64_MAX, &opens);
    MR_ASSERT(status == MR_OK); /* all three ranks are at the barrier */
    barrier_server_fini(&server);
}

static void try_page(span bytes) {
    process_table_reading reading;
    process_table_line line;
    if (process_table_read(bytes, &reading) != MR_OK) return;
    while (process_table_next(&reading, &line) == MR_OK) MR_ASSERT(line.state.report_count <= MR_PS_METRICS_MAX);
}

static void try_list(span bytes) {
    reader reader;
    uint32_t count;
    process_table_entry entry;
    if (process_table_list_read(bytes, &reader, &count) != MR_OK) return;
    while (count-- != 0 && process_table_list_next(&reader, &entry) == MR_OK)
        MR_ASSERT(strlen(entry.address) < MR_PS_ADDRESS_MAX);
}

static void try_table_stats(span bytes) {
    uint8_t again[TABLE_STATS_SIZE_MAX];
    table_stats stats;
    if (table_stats_decode(bytes, &stats) != MR_OK) return;
    MR_ASSERT(table_stats_encode(&stats, again) == bytes.size && memcmp(again, bytes.data, bytes.size) == 0);
    table_stats_fini(&stats);
}

static void try_overview(span bytes) {
    mr_ps_overview *overview;
    if (bytes.size > CONTROL_MESSAGE_VALUE_MAX || overview_decode(bytes, &overview) != MR_OK) return;
    size_t size;
    uint8_t *again = overview_encode(overview, &size);
    MR_ASSERT(size == bytes.size && memcmp(again, bytes.data, bytes.size) == 0);
    free(again);
    mr_ps_overview_free(overview);
}

static void try_corpus(span bytes) {
    dataset_spec spec;
    if (dataset_spec_decode(bytes, &spec) != MR_OK) return;
    MR_ASSERT(spec.count != 0 && spec.count <= DATASET_SPEC_PARTS_MAX && dataset_spec_size(&spec) == bytes.size);
    uint8_t *again = xmalloc(bytes.size);
    writer writer = writer_of(again, bytes.size);
    dataset_spec_encode(&spec, &writer);
    MR_ASSERT(!writer.failed && memcmp(again, bytes.data, bytes.size) == 0);
    free(again);
    dataset_spec_fini(&spec);
}

static void try_question(span bytes) {
    catalog_wire_question question;
    if (bytes.size > CONTROL_MESSAGE_VALUE_MAX || catalog_wire_read_question(bytes, &question) != MR_OK) return;
    uint8_t *again = xmalloc(CONTROL_MESSAGE_VALUE_MAX);
    MR_ASSERT(catalog_wire_ask(&question, again) == bytes.size && memcmp(again, bytes.data, bytes.size) == 0);
    free(again);
}

static void try_answer(span bytes) {
    catalog_wire_answer answer;
    uint32_t id;
    char name[MR_PS_NAME_MAX];
    if (bytes.size > CONTROL_MESSAGE_VALUE_MAX || catalog_wire_read_answer(bytes, &answer) != MR_OK) return;
    uint8_t *again = xmalloc(CONTROL_MESSAGE_VALUE_MAX);
    MR_ASSERT(catalog_wire_answer_write(&answer, again) == bytes.size && memcmp(again, bytes.data, bytes.size) == 0);
    free(again);
    reader list = reader_of(answer.bytes.data, answer.bytes.size);
    while (catalog_wire_next(&list, &id, name) == MR_OK) MR_ASSERT(strlen(name) < MR_PS_NAME_MAX);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static void (*const tries[])(span bytes) = {try_process_state, try_word,   try_verdict,  try_note,
                                                try_barriers,      try_page,   try_list,     try_table_stats,
                                                try_overview,      try_corpus, try_question, try_answer};
    if (size == 0) return 0;
    tries[data[0] % (sizeof tries / sizeof *tries)](span_of(data + 1, size - 1));
    return 0;
}
