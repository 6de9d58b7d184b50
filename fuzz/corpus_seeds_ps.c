/* corpus_seeds_ps.c — seeds for the decoders of the key-value parameter server: payloads, slot states, slot snapshot
 * files, the table catalog, control messages about tables, and cluster maps. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/format.h"
#include "cluster/consumer_group.h"
#include "fuzz/corpus_writer.h"
#include "kv/checkpoint/snapshot_file.h"
#include "kv/codec/codec.h"
#include "kv/control/catalog_log.h"
#include "kv/control/catalog_wire.h"
#include "kv/control/dataset_spec.h"
#include "kv/control/overview.h"
#include "kv/control/table_stats.h"
#include "kv/engine/engine.h"
#include "ps/cluster_map.h"
#include "tests/support/payload_builder.h"
#include "tests/support/snapshot_fixture.h"

/* Writes a seed after a byte that selects the decoder. */
static void seed_choice(corpus_writer *writer, const char *kind, const char *name, uint8_t choice, span bytes) {
    uint8_t *all = xmalloc(bytes.size + 1);
    all[0] = choice;
    if (bytes.size != 0) memcpy(all + 1, bytes.data, bytes.size);
    seed(writer, kind, name, all, bytes.size + 1);
    free(all);
}

/* ---- The engine, with the tables that engine_fuzz.c defines. */

enum { APPLIED, SUMMED, READ };

static const uint64_t keys[] = {3, 9, 1000000007};
static const float values[] = {1, -2, 3, 4, -5, 6, 7, 8};

/* Writes two seeds: the payload is applied alone, and as a sum. Empties the payload writer. */
static void seed_payload(corpus_writer *corpus_writer, const char *name, payload_writer *writer) {
    char summed[64];
    snprintf(summed, sizeof summed, "sum_%s", name);
    seed_choice(corpus_writer, "engine", name, APPLIED, payload_written(writer));
    seed_choice(corpus_writer, "engine", summed, SUMMED, payload_written(writer));
    payload_fini(writer);
}

static payload_room add(payload_writer *writer, payload_head head, size_t bytes) {
    payload_room room;
    mr_status status = payload_add(writer, head, bytes, &room);
    MR_ASSERT(status == MR_OK);
    return room;
}

/* Adds rows of table 1, encoded by a codec. */
static void add_coded(payload_writer *writer, const char *text) {
    codec codec;
    size_t size = 0;
    mr_status status = codec_parse(text, &codec);
    MR_ASSERT(status == MR_OK);
    size_t bound = codec_bound(&codec, 6);
    payload_head head = {.table = 1, .op = PAYLOAD_ADD_ROWS, .flags = PAYLOAD_CODED, .dtype = MR_F32, .count = 3};
    payload_room room = add(writer, head, bound);
    memcpy(room.keys, keys, sizeof keys);
    status = codec_encode(&codec, 5, values, 6, room.values, bound, &size);
    MR_ASSERT(status == MR_OK);
    payload_trim(writer, bound - size);
}

static void seed_pushes(corpus_writer *corpus_writer) {
    const float odd[] = {1, __builtin_nanf(""), 3, __builtin_inff()};
    const payload_place place = {1, 2, 16, 4};
    payload_writer writer = {0};
    seed_payload(corpus_writer, "empty", &writer);
    payload_rows(&writer, PAYLOAD_ADD_ROWS, 1, keys, 3, values, 2);
    payload_rows(&writer, PAYLOAD_SET_ROWS, 1, keys, 2, values, 2);
    payload_keys(&writer, PAYLOAD_ERASE, 1, keys + 1, 1);
    seed_payload(corpus_writer, "rows", &writer);
    payload_vector(&writer, PAYLOAD_ADD_VECTORS, 2, keys[0], values, 1);
    payload_vector(&writer, PAYLOAD_ADD_VECTORS, 2, keys[2], values, 5);
    payload_vector(&writer, PAYLOAD_SET_VECTORS, 2, keys[0], values, 3);
    seed_payload(corpus_writer, "vectors", &writer);
    payload_block(&writer, PAYLOAD_ADD_BLOCK, 3, place, values, 8);
    payload_block(&writer, PAYLOAD_SET_BLOCK, 3, (payload_place){0, 0, 16, 0}, values, 3);
    seed_payload(corpus_writer, "blocks", &writer);
    for (uint64_t i = 0; i < 8; i++) payload_counters(&writer, 4, i % 5 + 1, (int64_t)i - 3);
    seed_payload(corpus_writer, "counters", &writer);
    payload_rows(&writer, PAYLOAD_ADD_ROWS, 1, keys, 2, odd, 2);
    payload_rows(&writer, PAYLOAD_ADD_ROWS, 5, keys, 2, odd, 2);
    payload_block(&writer, PAYLOAD_ADD_BLOCK, 6, place, odd, 4);
    seed_payload(corpus_writer, "nan", &writer);
    payload_rows(&writer, PAYLOAD_ADD_ROWS, 5, keys, 3, values, 2);
    payload_block(&writer, PAYLOAD_ADD_BLOCK, 6, place, values, 8);
    seed_payload(corpus_writer, "normed", &writer);
    (void)add(&writer, (payload_head){.op = PAYLOAD_ROUND, .count = 4}, 0);
    payload_rows(&writer, PAYLOAD_ADD_ROWS, 5, keys, 3, values, 2);
    seed_payload(corpus_writer, "round", &writer);
    const payload_head run = {.table = 1, .op = PAYLOAD_ADD_ROWS, .flags = PAYLOAD_RUN, .dtype = MR_F32, .count = 3};
    payload_room room = add(&writer, run, 6 * sizeof(float));
    room.keys[0] = 100;
    memcpy(room.values, values, 6 * sizeof(float));
    seed_payload(corpus_writer, "run", &writer);
    payload_rate(&writer, 1, 0.5f);
    payload_rows(&writer, PAYLOAD_ADD_ROWS, 1, keys, 3, values, 2);
    payload_rate(&writer, 6, 2);
    payload_block(&writer, PAYLOAD_ADD_BLOCK, 6, place, values, 8);
    seed_payload(corpus_writer, "rates", &writer);
    payload_plain(&writer, PAYLOAD_DROP, 2);
    payload_define(&writer, (definition_options){.id = 9, .dim = 1, .optimizer = "ftrl"});
    payload_rows(&writer, PAYLOAD_ADD_ROWS, 9, keys, 3, values, 1);
    seed_payload(corpus_writer, "drop", &writer);
}

/* Writes one section with a body in the format for compressed bodies, but stored: the bytes of compression libraries
 * differ between their versions. */
static void seed_pressed(corpus_writer *writer, span plain) {
    compressor *compressor;
    mr_status status = compressor_open(COMPRESSOR_STORED, &compressor);
    MR_ASSERT(status == MR_OK);
    uint8_t *bytes = xcalloc(1, PAYLOAD_HEAD + compressor_bound(plain.size) + PAYLOAD_ALIGN);
    uint32_t size = (uint32_t)compressor_pack(compressor, span_of(plain.data + PAYLOAD_HEAD, plain.size - PAYLOAD_HEAD),
                                              bytes + PAYLOAD_HEAD);
    memcpy(bytes, plain.data, PAYLOAD_HEAD);
    bytes[5] |= PAYLOAD_PRESSED;
    memcpy(bytes + 12, &size, sizeof size);
    span pressed = span_of(bytes, PAYLOAD_HEAD + (size + PAYLOAD_ALIGN - 1) / PAYLOAD_ALIGN * PAYLOAD_ALIGN);
    seed_choice(writer, "engine", "pressed", APPLIED, pressed);
    seed_choice(writer, "engine", "sum_pressed", SUMMED, pressed);
    free(bytes);
    compressor_close(compressor);
}

static void seed_coded(corpus_writer *corpus_writer) {
    static const char *const codecs[] = {"fp16", "bf16", "int8", "sign", "topk:0.5", "randk:0.5"};
    float zeros[64] = {0};
    uint64_t many[32];
    payload_writer writer = {0};
    for (size_t i = 0; i < sizeof codecs / sizeof *codecs; i++) add_coded(&writer, codecs[i]);
    seed_payload(corpus_writer, "coded", &writer);
    for (uint64_t i = 0; i < 32; i++) many[i] = i;
    payload_rows(&writer, PAYLOAD_ADD_ROWS, 1, many, 32, zeros, 2);
    seed_pressed(corpus_writer, payload_written(&writer));
    payload_fini(&writer);
}

static void seed_queries(corpus_writer *corpus_writer) {
    payload_writer writer = {0};
    for (uint32_t table = 1; table <= 6; table++) payload_plain(&writer, PAYLOAD_GET_LOOK, table);
    payload_rows(&writer, PAYLOAD_ADD_ROWS, 1, keys, 3, values, 2);
    payload_keys(&writer, PAYLOAD_GET_ROWS, 1, keys, 3);
    payload_keys(&writer, PAYLOAD_GET_VECTORS, 2, keys, 2);
    payload_get_block(&writer, 3, (payload_place){1, 2, 16, 4}, 8);
    payload_room room = add(&writer, (payload_head){.table = 1, .op = PAYLOAD_GET_RANGE, .count = 10}, 0);
    room.range[1] = UINT64_MAX;
    payload_head listed = {.table = 1, .op = PAYLOAD_GET_ROWS, .flags = PAYLOAD_LISTED, .count = 3};
    memcpy(add(&writer, listed, 0).keys, keys, sizeof keys);
    listed.flags = PAYLOAD_KNOWN;
    memcpy(add(&writer, listed, 0).keys, keys, 2 * sizeof *keys);
    seed_payload(corpus_writer, "queries", &writer);
}

/* Writes the state of a slot, with and without the previous version, of the tables of snapshot_fixture.h. */
static void seed_states(corpus_writer *writer) {
    for (int keeps = 0; keeps < 2; keeps++) {
        shared_bytes *shard = snapshot_fixture_shard_of_tables(keeps != 0);
        reader reader = reader_of(shared_bytes_bytes(shard).data, shared_bytes_bytes(shard).size);
        (void)reader_u32(&reader);
        (void)reader_bytes(&reader, reader_u32(&reader));
        seed_choice(writer, "engine", keeps != 0 ? "state_keeps" : "state", READ, reader_span32(&reader));
        MR_ASSERT(!reader.failed);
        shared_bytes_unref(shard);
    }
}

/* ---- Slot snapshot files. */

static void seed_file(corpus_writer *writer, const char *name, shared_bytes *shard, const table_catalog *names) {
    buffer file;
    buffer_init(&file, SEED_SIZE_MAX);
    mr_status status = snapshot_file_encode(6, shared_bytes_bytes(shard), names, SNAPSHOT_FILE_CHECKED,
                                            &(byte_sink){buffer_put, &file});
    MR_ASSERT(status == MR_OK);
    seed(writer, "snapshot_reader", name, file.data, file.size);
    seed(writer, "snapshot_file", name, file.data, file.size);
    buffer_fini(&file);
    shared_bytes_unref(shard);
}

static void seed_files(corpus_writer *writer) {
    table_catalog names = snapshot_fixture_names();
    shared_bytes *shard = snapshot_fixture_shard_of_tables(true);
    seed(writer, "snapshot_file", "shard", shared_bytes_bytes(shard).data, shared_bytes_bytes(shard).size);
    shared_bytes_unref(shard);
    seed_file(writer, "tables", snapshot_fixture_shard_of_tables(false), &names);
    seed_file(writer, "tables_keeps", snapshot_fixture_shard_of_tables(true), &names);
    seed_file(writer, "ledger", snapshot_fixture_shard(span_of("who is in", 9)), &names);
    seed_file(writer, "noise", shared_bytes_copy(span_of("noise", 5)), &names);
    table_catalog_fini(&names);
}

/* ---- Tables, and messages about them. */

/* The value of release 0.2.0. */
static void seed_value(corpus_writer *corpus_writer, const char *name, const table_catalog *catalog) {
    size_t size = 12 + catalog->bytes;
    uint8_t *bytes = xmalloc(size);
    writer writer = writer_of(bytes, size);
    writer_u32(&writer, TABLE_CATALOG_MAGIC_BEFORE);
    writer_u32(&writer, catalog->next);
    writer_u32(&writer, (uint32_t)catalog->count);
    for (size_t i = 0; i < catalog->count; i++)
        writer_bytes(&writer, catalog->entries[i]->bytes, catalog->entries[i]->size);
    MR_ASSERT(!writer.failed);
    seed(corpus_writer, "table_catalog", name, bytes, size);
    free(bytes);
}

/* A file of the tables, and its checksum. */
static void seed_log(corpus_writer *corpus_writer, const table_catalog *catalog) {
    size_t size = 64 + catalog->bytes + catalog->count * 5;
    uint8_t *bytes = xmalloc(size);
    writer writer = writer_of(bytes, size);
    uint64_t sum = 0;
    writer_u32(&writer, CATALOG_LOG_FILE_MAGIC);
    writer_u64(&writer, 3);
    for (size_t i = 0; i <= catalog->count; i++) {
        const uint8_t *begin = i == 0 ? bytes : writer.at;
        if (i != 0) writer_u8(&writer, CATALOG_LOG_TABLE);
        if (i != 0) writer_span32(&writer, span_of(catalog->entries[i - 1]->bytes, catalog->entries[i - 1]->size));
        uint64_t both[2] = {sum, format_sum(span_of(begin, (size_t)(writer.at - begin)))};
        sum = format_sum(span_of(both, sizeof both));
    }
    writer_u64(&writer, sum);
    MR_ASSERT(!writer.failed);
    seed(corpus_writer, "table_catalog", "file", bytes, writer_size(&writer));
    free(bytes);
}

static void seed_catalogs(corpus_writer *writer) {
    table_catalog names = snapshot_fixture_names(), none = {0};
    const table_catalog_entry *net = table_catalog_find(&names, "net");
    seed_value(writer, "tables", &names);
    seed(writer, "table_catalog", "net", net->bytes, net->size);
    seed_log(writer, &names);
    (void)table_catalog_remove(&names, 2);
    seed_value(writer, "one_less", &names);
    seed_value(writer, "none", &none);
    seed(writer, "table_catalog", "nothing", "", 0);
    table_catalog_fini(&names);
}

/* Questions and answers about tables. */
static void seed_tables(corpus_writer *writer) {
    uint8_t *bytes = xmalloc(CONTROL_MESSAGE_VALUE_MAX);
    const catalog_wire_question questions[] = {
        {.kind = CATALOG_WIRE_FIND, .name = "net"},
        {.kind = CATALOG_WIRE_READ, .id = 3, .offset = 100000},
        {.kind = CATALOG_WIRE_CREATE, .size = 9, .offset = 4, .piece = span_of("piece", 5)},
        {.kind = CATALOG_WIRE_DROP, .id = 3},
        {.kind = CATALOG_WIRE_LIST, .id = 7}};
    static const char *const names[] = {"find", "read", "create", "drop", "list_after"};
    for (size_t i = 0; i < sizeof questions / sizeof *questions; i++)
        seed_choice(writer, "control_protocol", names[i], 10, span_of(bytes, catalog_wire_ask(&questions[i], bytes)));
    const catalog_wire_answer piece = {.status = MR_OK, .id = 3, .size = 9, .offset = 4, .bytes = span_of("piece", 5)};
    const catalog_wire_answer list = {.status = MR_OK, .bytes = span_of("\1\0\0\0\1a\2\0\0\0\2bc", 13)};
    seed_choice(writer, "control_protocol", "table", 11, span_of(bytes, catalog_wire_answer_write(&piece, bytes)));
    seed_choice(writer, "control_protocol", "tables", 11, span_of(bytes, catalog_wire_answer_write(&list, bytes)));
    free(bytes);
}

/* The numbers are the indices of the decoders in control_protocol_fuzz.c. */
static void seed_page(corpus_writer *corpus_writer) {
    mr_ps_table_state table = {.name = "rows",
                               .dtype = MR_F32,
                               .dim = 4,
                               .optimizer = "adam",
                               .compression = "none",
                               .consistency = "bsp",
                               .rows = 9};
    mr_ps_overview overview = {.folder = "/state",
                               .checkpoint = 12,
                               .checkpoint_us = 1,
                               .checkpoint_error = "no space left",
                               .stall = "server 1 is gone",
                               .stall_hint = "miniray ps server",
                               .table_count = 1,
                               .tables = &table};
    table_stats stats = {0};
    uint8_t bytes[TABLE_STATS_SIZE_MAX];
    for (uint32_t i = 1; i < 4; i++)
        table_stats_add(&stats, (table_stats_item){.table = i, .keys = i * 100, .bytes = i << 20});
    table_stats_finish(&stats);
    seed_choice(corpus_writer, "control_protocol", "stock", 7, span_of(bytes, table_stats_encode(&stats, bytes)));
    table_stats_fini(&stats);
    size_t size;
    uint8_t *told = overview_encode(&overview, &size);
    seed_choice(corpus_writer, "control_protocol", "overview", 8, span_of(told, size));
    free(told);
    dataset_spec spec;
    MR_ASSERT(dataset_spec_init(&spec, (uint64_t[]){1000, 3, UINT64_C(1) << 40}, 3) == MR_OK);
    writer writer = writer_of(bytes, sizeof bytes);
    dataset_spec_encode(&spec, &writer);
    seed_choice(corpus_writer, "control_protocol", "corpus", 9, span_of(bytes, writer_size(&writer)));
    dataset_spec_fini(&spec);
}

/* Writes a group of two workers: one has claims, the other has left. */
static void seed_group(corpus_writer *corpus_writer) {
    consumer_group group = {.number = 20};
    uint8_t bytes[1024];
    MR_ASSERT(consumer_group_restart(&group, 7));
    consumer_group_cut(&group, (uint64_t[]){100, 40, 7}, 3);
    for (uint32_t i = 0; i < 2; i++) {
        consumer_group_member member = {
            .id = 3 * i, .incarnation = 15 + i, .role = CONSUMER_GROUP_WORKER, .address = "tcp:127.0.0.1:1"};
        consumer_group_wish wish = {.rank = 3 * i, .count = 9, .step = 4, .batch = 8, .birth = 7};
        MR_ASSERT(consumer_group_put(&group, &member) == MR_OK);
        consumer_group_deal(&group);
        MR_ASSERT(consumer_group_claim(&group, member.id, member.incarnation, &wish) == MR_OK);
    }
    MR_ASSERT(consumer_group_pass(
        &group, &(consumer_group_wish){.rank = 0, .birth = 7, .past = {.over = 6, .since = 2, .spent = 1}}));
    MR_ASSERT(consumer_group_pass(
        &group,
        &(consumer_group_wish){
            .rank = 3, .step = 8, .birth = 7, .leaves = true, .granted = batch_claims_granted(&group.claims, 3)}));
    writer writer = writer_of(bytes, sizeof bytes);
    consumer_group_encode(&group, &writer);
    MR_ASSERT(!writer.failed);
    seed(corpus_writer, "consumer_group", "claims", bytes, writer_size(&writer));
    consumer_group_fini(&group);
}

/* Writes a cluster map of two slots and a round state, with two of three ranks and one of `readers` readers. */
static void seed_map(corpus_writer *writer, const char *name, bool mixed, uint32_t readers) {
    cluster_map map = {.number = 9,
                       .generation = 5,
                       .birth = 2,
                       .origin = 1,
                       .lost = true,
                       .mixed = mixed,
                       .copies = 2,
                       .consistency = {CONSISTENCY_BSP, 0},
                       .rounds = {2, 1, 1000},
                       .rank_count = 3,
                       .reader_count = readers,
                       .slot_count = 3,
                       .slots = xcalloc(3, sizeof(cluster_map_slot))};
    size_t size;
    map.slots[0] = (cluster_map_slot){.epoch = 9, .count = 2, .chain = {{1, 11, 2}, {7, 17, 9}}};
    map.slots[1] = (cluster_map_slot){.epoch = 2, .home = 8, .more = 1, .count = 1, .chain = {{7, 17, 2}}};
    cluster_map_put_server(&map, 1, 11, "tcp:127.0.0.1:1");
    cluster_map_put_server(&map, 7, 17, "unix:/s");
    cluster_map_put_rank(&map, 0, 0, 12);
    cluster_map_put_rank(&map, 2, 2, 15);
    if (readers != 0) cluster_map_put_rank(&map, map.rank_count + readers - 1, CLUSTER_MAP_READER + readers - 1, 16);
    uint8_t *bytes = cluster_map_write(&map, 0, &size);
    seed(writer, "cluster_map", name, bytes, size);
    free(bytes);
    cluster_map_fini(&map);
}

void seed_ps(corpus_writer *writer) {
    seed_pushes(writer);
    seed_coded(writer);
    seed_queries(writer);
    seed_states(writer);
    seed_files(writer);
    seed_catalogs(writer);
    seed_tables(writer);
    seed_page(writer);
    seed_group(writer);
    seed_map(writer, "ranks", false, 0);
    seed_map(writer, "readers", false, 2);
    seed_map(writer, "mixed", true, 1);
}
