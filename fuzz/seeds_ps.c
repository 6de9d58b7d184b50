/* seeds_ps.c — seeds of what the key-value parameter server reads: payloads and states of slots, files of slots, the
 * catalogue, what the scheduler tells of tables. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "cluster/roster.h"
#include "fuzz/garden.h"
#include "kv/catalogue.h"
#include "kv/codec/codec.h"
#include "kv/corpus.h"
#include "kv/office/overview.h"
#include "kv/office/stock.h"
#include "kv/shelf/shelf.h"
#include "kv/shelf/slot_file.h"
#include "tests/support/parcels.h"
#include "tests/support/slots.h"

/* Behind a byte that says which. */
static void seed_choice(garden *garden, const char *kind, const char *name, uint8_t choice, span bytes) {
    uint8_t *all = xmalloc(bytes.size + 1);
    all[0] = choice;
    if (bytes.size != 0) memcpy(all + 1, bytes.data, bytes.size);
    seed(garden, kind, name, all, bytes.size + 1);
    free(all);
}

/* ---- The shelf: the tables are those that shelf_fuzz.c defines. */

enum { APPLIED, SUMMED, READ };

static const uint64_t keys[] = {3, 9, 1000000007};
static const float values[] = {1, -2, 3, 4, -5, 6, 7, 8};

/* A payload, applied and in a sum. The writer is empty then. */
static void seed_payload(garden *garden, const char *name, parcel_writer *writer) {
    char summed[64];
    snprintf(summed, sizeof summed, "sum_%s", name);
    seed_choice(garden, "shelf", name, APPLIED, parcel_written(writer));
    seed_choice(garden, "shelf", summed, SUMMED, parcel_written(writer));
    parcel_fini(writer);
}

static parcel_room add(parcel_writer *writer, parcel_head head, size_t bytes) {
    parcel_room room;
    mr_status status = parcel_add(writer, head, bytes, &room);
    MR_ASSERT(status == MR_OK);
    return room;
}

/* Rows of table 1 in a codec's message. */
static void add_coded(parcel_writer *writer, const char *text) {
    codec codec;
    size_t size = 0;
    mr_status status = codec_parse(text, &codec);
    MR_ASSERT(status == MR_OK);
    size_t bound = codec_bound(&codec, 6);
    parcel_head head = {.table = 1, .op = PARCEL_ADD_ROWS, .flags = PARCEL_CODED, .dtype = MR_F32, .count = 3};
    parcel_room room = add(writer, head, bound);
    memcpy(room.keys, keys, sizeof keys);
    status = codec_encode(&codec, 5, values, 6, room.values, bound, &size);
    MR_ASSERT(status == MR_OK);
    parcel_trim(writer, bound - size);
}

static void seed_pushes(garden *garden) {
    const float odd[] = {1, __builtin_nanf(""), 3, __builtin_inff()};
    const parcel_place place = {1, 2, 16, 4};
    parcel_writer writer = {0};
    seed_payload(garden, "empty", &writer);
    parcels_rows(&writer, PARCEL_ADD_ROWS, 1, keys, 3, values, 2);
    parcels_rows(&writer, PARCEL_SET_ROWS, 1, keys, 2, values, 2);
    parcels_keys(&writer, PARCEL_ERASE, 1, keys + 1, 1);
    seed_payload(garden, "rows", &writer);
    parcels_vector(&writer, PARCEL_ADD_VECTORS, 2, keys[0], values, 1);
    parcels_vector(&writer, PARCEL_ADD_VECTORS, 2, keys[2], values, 5);
    parcels_vector(&writer, PARCEL_SET_VECTORS, 2, keys[0], values, 3);
    seed_payload(garden, "vectors", &writer);
    parcels_block(&writer, PARCEL_ADD_BLOCK, 3, place, values, 8);
    parcels_block(&writer, PARCEL_SET_BLOCK, 3, (parcel_place){0, 0, 16, 0}, values, 3);
    seed_payload(garden, "blocks", &writer);
    for (uint64_t i = 0; i < 8; i++) parcels_counters(&writer, 4, i % 5 + 1, (int64_t)i - 3);
    seed_payload(garden, "counters", &writer);
    parcels_rows(&writer, PARCEL_ADD_ROWS, 1, keys, 2, odd, 2);
    parcels_rows(&writer, PARCEL_ADD_ROWS, 5, keys, 2, odd, 2);
    parcels_block(&writer, PARCEL_ADD_BLOCK, 6, place, odd, 4);
    seed_payload(garden, "nan", &writer);
    parcels_rows(&writer, PARCEL_ADD_ROWS, 5, keys, 3, values, 2);
    parcels_block(&writer, PARCEL_ADD_BLOCK, 6, place, values, 8);
    seed_payload(garden, "normed", &writer);
    (void)add(&writer, (parcel_head){.op = PARCEL_ROUND, .count = 4}, 0);
    parcels_rows(&writer, PARCEL_ADD_ROWS, 5, keys, 3, values, 2);
    seed_payload(garden, "round", &writer);
    const parcel_head run = {.table = 1, .op = PARCEL_ADD_ROWS, .flags = PARCEL_RUN, .dtype = MR_F32, .count = 3};
    parcel_room room = add(&writer, run, 6 * sizeof(float));
    room.keys[0] = 100;
    memcpy(room.values, values, 6 * sizeof(float));
    seed_payload(garden, "run", &writer);
    parcels_plain(&writer, PARCEL_DROP, 2);
    parcels_define(&writer, (definition_options){.id = 9, .dim = 1, .optimizer = "ftrl"});
    parcels_rows(&writer, PARCEL_ADD_ROWS, 9, keys, 3, values, 1);
    seed_payload(garden, "drop", &writer);
}

/* One section with its body pressed, but not made smaller: the bytes of libraries differ between their versions. */
static void seed_pressed(garden *garden, span plain) {
    press *press;
    mr_status status = press_open(PRESS_STORED, &press);
    MR_ASSERT(status == MR_OK);
    uint8_t *bytes = xcalloc(1, PARCEL_HEAD + press_bound(plain.size) + PARCEL_ALIGN);
    uint32_t size =
        (uint32_t)press_pack(press, span_of(plain.data + PARCEL_HEAD, plain.size - PARCEL_HEAD), bytes + PARCEL_HEAD);
    memcpy(bytes, plain.data, PARCEL_HEAD);
    bytes[5] |= PARCEL_PRESSED;
    memcpy(bytes + 12, &size, sizeof size);
    span pressed = span_of(bytes, PARCEL_HEAD + (size + PARCEL_ALIGN - 1) / PARCEL_ALIGN * PARCEL_ALIGN);
    seed_choice(garden, "shelf", "pressed", APPLIED, pressed);
    seed_choice(garden, "shelf", "sum_pressed", SUMMED, pressed);
    free(bytes);
    press_close(press);
}

static void seed_coded(garden *garden) {
    static const char *const codecs[] = {"fp16", "bf16", "int8", "sign", "topk:0.5", "randk:0.5"};
    float zeros[64] = {0};
    uint64_t many[32];
    parcel_writer writer = {0};
    for (size_t i = 0; i < sizeof codecs / sizeof *codecs; i++) add_coded(&writer, codecs[i]);
    seed_payload(garden, "coded", &writer);
    for (uint64_t i = 0; i < 32; i++) many[i] = i;
    parcels_rows(&writer, PARCEL_ADD_ROWS, 1, many, 32, zeros, 2);
    seed_pressed(garden, parcel_written(&writer));
    parcel_fini(&writer);
}

static void seed_queries(garden *garden) {
    parcel_writer writer = {0};
    for (uint32_t table = 1; table <= 6; table++) parcels_plain(&writer, PARCEL_GET_LOOK, table);
    parcels_rows(&writer, PARCEL_ADD_ROWS, 1, keys, 3, values, 2);
    parcels_keys(&writer, PARCEL_GET_ROWS, 1, keys, 3);
    parcels_keys(&writer, PARCEL_GET_VECTORS, 2, keys, 2);
    parcels_get_block(&writer, 3, (parcel_place){1, 2, 16, 4}, 8);
    parcel_room room = add(&writer, (parcel_head){.table = 1, .op = PARCEL_GET_RANGE, .count = 10}, 0);
    room.range[1] = UINT64_MAX;
    parcel_head listed = {.table = 1, .op = PARCEL_GET_ROWS, .flags = PARCEL_LISTED, .count = 3};
    memcpy(add(&writer, listed, 0).keys, keys, sizeof keys);
    listed.flags = PARCEL_KNOWN;
    memcpy(add(&writer, listed, 0).keys, keys, 2 * sizeof *keys);
    seed_payload(garden, "queries", &writer);
}

/* A slot's state, with the version before and without: of the tables of slots.h. */
static void seed_states(garden *garden) {
    for (int keeps = 0; keeps < 2; keeps++) {
        bale *shard = slots_shard_of_tables(keeps != 0);
        reader reader = reader_of(bale_bytes(shard).data, bale_bytes(shard).size);
        (void)reader_u32(&reader);
        (void)reader_bytes(&reader, reader_u32(&reader));
        seed_choice(garden, "shelf", keeps != 0 ? "state_keeps" : "state", READ, reader_span32(&reader));
        MR_ASSERT(!reader.failed);
        bale_unref(shard);
    }
}

/* ---- Files of slots. */

static void seed_file(garden *garden, const char *name, bale *shard, const catalogue *names) {
    buffer file;
    buffer_init(&file, SEED_SIZE_MAX);
    mr_status status = slot_file_encode(6, bale_bytes(shard), names, &file);
    MR_ASSERT(status == MR_OK);
    seed(garden, "slot_look", name, file.data, file.size);
    seed(garden, "slot_file", name, file.data, file.size);
    buffer_fini(&file);
    bale_unref(shard);
}

static void seed_files(garden *garden) {
    catalogue names = slots_names();
    bale *shard = slots_shard_of_tables(true);
    seed(garden, "slot_file", "shard", bale_bytes(shard).data, bale_bytes(shard).size);
    bale_unref(shard);
    seed_file(garden, "tables", slots_shard_of_tables(false), &names);
    seed_file(garden, "tables_keeps", slots_shard_of_tables(true), &names);
    seed_file(garden, "ledger", slots_shard(span_of("who is in", 9)), &names);
    seed_file(garden, "noise", bale_copy(span_of("noise", 5)), &names);
    catalogue_fini(&names);
}

/* ---- Tables, and what is told of them. */

static void seed_catalogue(garden *garden, const char *name, const catalogue *catalogue) {
    size_t size = catalogue_size(catalogue);
    uint8_t *bytes = xmalloc(size + 1);
    writer writer = writer_of(bytes, size);
    catalogue_encode(catalogue, &writer);
    MR_ASSERT(!writer.failed);
    seed(garden, "catalogue", name, bytes, size);
    free(bytes);
}

static void seed_catalogues(garden *garden) {
    catalogue names = slots_names(), none = {0};
    seed_catalogue(garden, "tables", &names);
    (void)catalogue_remove(&names, 2);
    seed_catalogue(garden, "one_less", &names);
    seed_catalogue(garden, "none", &none);
    seed(garden, "catalogue", "nothing", "", 0);
    catalogue_fini(&names);
}

/* The numbers are those of the targets within desk_fuzz.c. */
static void seed_desk(garden *garden) {
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
    stock *stock = xcalloc(1, sizeof *stock);
    uint8_t bytes[STOCK_SIZE_MAX];
    for (uint32_t i = 1; i < 4; i++) stock_add(stock, (stock_item){.table = i, .keys = i * 100, .bytes = i << 20});
    seed_choice(garden, "desk", "stock", 7, span_of(bytes, stock_encode(stock, bytes)));
    free(stock);
    size_t size;
    uint8_t *told = overview_encode(&overview, &size);
    seed_choice(garden, "desk", "overview", 8, span_of(told, size));
    free(told);
    corpus corpus;
    MR_ASSERT(corpus_init(&corpus, (uint64_t[]){1000, 3, UINT64_C(1) << 40}, 3) == MR_OK);
    writer writer = writer_of(bytes, sizeof bytes);
    corpus_encode(&corpus, &writer);
    seed_choice(garden, "desk", "corpus", 9, span_of(bytes, writer_size(&writer)));
    corpus_fini(&corpus);
}

/* Two workers: one has claimed and goes on, the other has left. */
static void seed_roster(garden *garden) {
    roster roster = {.number = 20};
    uint8_t bytes[1024];
    MR_ASSERT(roster_restart(&roster, 7));
    roster_cut(&roster, (uint64_t[]){100, 40, 7}, 3);
    for (uint32_t i = 0; i < 2; i++) {
        roster_member member = {
            .id = 3 * i, .incarnation = 15 + i, .role = ROSTER_WORKER, .address = "tcp:127.0.0.1:1"};
        roster_wish wish = {.rank = 3 * i, .count = 9, .step = 4, .batch = 8, .birth = 7};
        MR_ASSERT(roster_put(&roster, &member) == MR_OK);
        roster_deal(&roster);
        MR_ASSERT(roster_claim(&roster, member.id, member.incarnation, &wish) == MR_OK);
    }
    MR_ASSERT(roster_pass(&roster, &(roster_wish){.rank = 0, .birth = 7, .past = {.over = 6, .since = 2, .spent = 1}}));
    MR_ASSERT(roster_pass(
        &roster, &(roster_wish){
                     .rank = 3, .step = 8, .birth = 7, .leaves = true, .granted = claims_granted(&roster.claims, 3)}));
    writer writer = writer_of(bytes, sizeof bytes);
    roster_encode(&roster, &writer);
    MR_ASSERT(!writer.failed);
    seed(garden, "roster", "claims", bytes, writer_size(&writer));
    roster_fini(&roster);
}

void seed_ps(garden *garden) {
    seed_pushes(garden);
    seed_coded(garden);
    seed_queries(garden);
    seed_states(garden);
    seed_files(garden);
    seed_catalogues(garden);
    seed_desk(garden);
    seed_roster(garden);
}
