/* snapshot_merge.c — see snapshot_merge.h. */
#include "kv/checkpoint/snapshot_merge.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/binary_search.h"
#include "base/error.h"
#include "kv/engine/engine_internal.h"
#include "kv/table/sparse_internal.h"
#include "ps/slot_placement.h"

enum { NUMBERS = 6, REFUSED = 0, EVICTED = 2, NOW = 3, HEAD = 8 + 4 + NUMBERS * 8, DROPPED = 8 };
_Static_assert(HEAD == ENGINE_TABLE_HEAD - TABLE_SCHEMA_SIZE - 8, "as engine_snapshot.c writes the head of a table");

typedef struct part { /* a table in a snapshot; begins with its id */
    table_schema schema;
    uint64_t version, numbers[NUMBERS];
    span content;
} part;

typedef struct source { /* a snapshot */
    uint32_t ranks;
    uint64_t version, marked;
    const uint8_t *names, *sets, *dropped;
    size_t sets_size;
    uint32_t keeps, dropped_count;
    part *parts; /* owned, by id */
    uint32_t count;
} source;

typedef struct table {          /* a table of the result */
    table_catalog_table listed; /* owned */
    table_schema schema;
    slot_placement_table placement;
    uint64_t *first_blocks; /* owned: of each array, the number of its first block in the table */
    uint64_t version, numbers[NUMBERS];
} table;

struct snapshot_merge {
    source *sources; /* owned */
    uint32_t count, slots;
    bool rounds;
    uint32_t *dropped; /* owned: ids of dropped tables, ascending */
    size_t dropped_count;
    table *tables; /* owned, by id */
    uint32_t table_count;
};

/* ---- Reading. */

static mr_status malformed(uint32_t slot, const char *what) {
    return error_set(MR_CORRUPT, "the snapshot of slot %u: malformed %s", slot, what);
}

static bool skip_undo(reader *reader, const table_schema *schema) {
    size_t item = schema->dtype == MR_I64 ? sizeof(int64_t) : sizeof(float);
    for (uint32_t count = reader_u32(reader); count > 0 && !reader->failed; count--) {
        (void)reader_u64(reader);
        uint32_t length = reader_u32(reader);
        (void)reader_u32(reader);
        (void)reader_bytes(reader, length * item);
    }
    return !reader->failed;
}

static bool read_part(reader *reader, bool keeps, part *out) {
    const uint8_t *schema = reader_bytes(reader, TABLE_SCHEMA_SIZE);
    if (schema == NULL || table_schema_decode(span_of(schema, TABLE_SCHEMA_SIZE), &out->schema) != MR_OK) return false;
    out->version = reader_u64(reader);
    (void)reader_u32(reader); /* what the last change did */
    for (size_t i = 0; i < NUMBERS; i++) out->numbers[i] = reader_u64(reader);
    uint64_t size = reader_u64(reader);
    const uint8_t *content = reader_bytes(reader, size);
    out->content = span_of(content, size);
    return content != NULL && (!keeps || skip_undo(reader, &out->schema));
}

static mr_status read_tables(source *source, uint32_t slot, reader *reader) {
    uint64_t magic = reader_u64(reader);
    uint32_t flags = reader_u32(reader);
    source->keeps = flags & ENGINE_KEEPS;
    source->dropped_count = reader_u32(reader);
    source->dropped = reader_bytes(reader, (size_t)source->dropped_count * DROPPED);
    uint32_t count = reader_u32(reader);
    if (reader->failed || magic != ENGINE_MAGIC || flags > (ENGINE_KEEPS | ENGINE_BEHIND) ||
        count > reader_left(reader) / ENGINE_TABLE_HEAD)
        return malformed(slot, "head of its tables");
    if ((flags & ENGINE_BEHIND) != 0)
        return error_set(
            MR_INVALID,
            "slot %u was saved inside a round: start the deployment with the number of slots that it has, end "
            "the round, make a checkpoint (miniray ps checkpoint create), and change the number then",
            slot);
    source->parts = xcalloc(count + 1, sizeof *source->parts);
    for (; source->count < count; source->count++) {
        part *part = &source->parts[source->count];
        bool ascends =
            read_part(reader, source->keeps != 0, part) && (source->count == 0 || part[-1].schema.id < part->schema.id);
        if (!ascends) return malformed(slot, "table");
    }
    return reader_left(reader) == 0 ? MR_OK : malformed(slot, "end");
}

static mr_status read_source(source *source, uint32_t slot, span bytes) {
    reader reader = reader_of(bytes.data, bytes.size);
    source->ranks = reader_u32(&reader);
    uint32_t size = reader_u32(&reader);
    size_t names = (size_t)source->ranks * 8;
    if (reader.failed || source->ranks > CLUSTER_MAP_RANKS_MAX || size < 16 + names) return malformed(slot, "head");
    source->version = reader_u64(&reader);
    source->marked = reader_u64(&reader);
    source->names = reader_bytes(&reader, names);
    source->sets_size = size - 16 - names;
    source->sets = reader_bytes(&reader, source->sets_size);
    uint32_t values = reader_u32(&reader);
    if (reader.failed || values != (uint32_t)reader_left(&reader)) return malformed(slot, "head");
    return read_tables(source, slot, &reader);
}

/* ---- Tables. */

static int compare_ids(const void *a, const void *b) {
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

/* Sorts ids, and removes repeated ones. Returns their number. */
static size_t sort_ids(uint32_t *ids, size_t count) {
    size_t kept = 0;
    if (count > 1) qsort(ids, count, sizeof *ids, compare_ids);
    for (size_t i = 0; i < count; i++)
        if (kept == 0 || ids[kept - 1] != ids[i]) ids[kept++] = ids[i];
    return kept;
}

static void list_dropped(snapshot_merge *merge) {
    size_t count = 0;
    for (uint32_t i = 0; i < merge->count; i++) count += merge->sources[i].dropped_count;
    merge->dropped = xcalloc(count + 1, sizeof *merge->dropped);
    for (uint32_t i = 0; i < merge->count; i++)
        for (uint32_t k = 0; k < merge->sources[i].dropped_count; k++)
            memcpy(&merge->dropped[merge->dropped_count++], merge->sources[i].dropped + (size_t)k * DROPPED,
                   sizeof *merge->dropped);
    merge->dropped_count = sort_ids(merge->dropped, merge->dropped_count);
}

static const part *find_part(const source *source, uint32_t id) {
    return binary_search_find(&id, source->parts, source->count, sizeof *source->parts, binary_search_u32);
}

static mr_status number_blocks(table *table) {
    const table_catalog_table *listed = &table->listed;
    uint64_t first = 0;
    table->first_blocks = xcalloc(listed->array_count + 1, sizeof *table->first_blocks);
    for (uint32_t i = 0; i < listed->array_count; i++) {
        dense_table_plan plan;
        MR_TRY(table_catalog_array_cut(&listed->arrays[i], &table->schema, &plan));
        table->first_blocks[i] = first;
        first += plan.blocks;
    }
    return MR_OK;
}

static mr_status begin_table(const snapshot_merge *merge, const table_catalog_entry *entry, table *out) {
    const uint32_t id = entry->table.schema.id;
    *out = (table){0};
    MR_TRY(table_catalog_table_decode(span_of(entry->bytes, entry->size), &out->listed));
    for (uint32_t i = 0; i < merge->count; i++) {
        const part *part = find_part(&merge->sources[i], id);
        if (part == NULL) continue;
        out->schema = part->schema;
        if (part->version > out->version) out->version = part->version;
        for (size_t k = REFUSED; k <= EVICTED; k++) out->numbers[k] += part->numbers[k];
        if (part->numbers[NOW] > out->numbers[NOW]) out->numbers[NOW] = part->numbers[NOW];
    }
    const table_schema *schema = &out->schema;
    out->placement = (slot_placement_table){.order = schema->ordered ? SLOT_PLACEMENT_ORDERED : SLOT_PLACEMENT_HASHED,
                                            .slots = merge->slots,
                                            .first_key = schema->first_key,
                                            .last = schema->last_key};
    mr_status status = slot_placement_check(&out->placement);
    if (status == MR_OK) status = number_blocks(out);
    return status == MR_OK ? MR_OK : error_wrap(status, "table '%s'", entry->table.name);
}

static mr_status list_tables(snapshot_merge *merge, const table_catalog *catalog, uint32_t *ids, size_t count) {
    merge->tables = xcalloc(count + 1, sizeof *merge->tables);
    for (size_t i = 0; i < count; i++) {
        const table_catalog_entry *listed = table_catalog_by_id(catalog, ids[i]);
        bool dropped = bsearch(&ids[i], merge->dropped, merge->dropped_count, sizeof *ids, compare_ids) != NULL;
        if (listed == NULL && ids[i] >= table_catalog_next(catalog))
            return error_set(MR_CORRUPT, "table %u of the checkpoint is not in the catalog, which ends with table %u",
                             ids[i], table_catalog_next(catalog) - 1);
        if (listed == NULL || dropped) continue;
        MR_TRY(begin_table(merge, listed, &merge->tables[merge->table_count++]));
    }
    return MR_OK;
}

static mr_status find_tables(snapshot_merge *merge, const table_catalog *catalog) {
    size_t count = 0;
    list_dropped(merge);
    for (uint32_t i = 0; i < merge->count; i++) count += merge->sources[i].count;
    uint32_t *ids = xcalloc(count + 1, sizeof *ids);
    count = 0;
    for (uint32_t i = 0; i < merge->count; i++)
        for (uint32_t k = 0; k < merge->sources[i].count; k++) ids[count++] = merge->sources[i].parts[k].schema.id;
    mr_status status = list_tables(merge, catalog, ids, sort_ids(ids, count));
    free(ids);
    return status;
}

mr_status snapshot_merge_open(const span *snapshots, uint32_t count, bool rounds, const table_catalog *catalog,
                              uint32_t slots, snapshot_merge **out) {
    MR_ASSERT(count > 0 && slots > 0);
    snapshot_merge *merge = XNEW(snapshot_merge, .sources = xcalloc(count, sizeof *merge->sources), .count = count,
                                 .slots = slots, .rounds = rounds);
    mr_status status = MR_OK;
    for (uint32_t i = 0; i < count && status == MR_OK; i++) status = read_source(&merge->sources[i], i, snapshots[i]);
    if (status == MR_OK) status = find_tables(merge, catalog);
    if (status == MR_OK)
        *out = merge;
    else
        snapshot_merge_close(merge);
    return status;
}

void snapshot_merge_close(snapshot_merge *merge) {
    if (merge == NULL) return;
    for (uint32_t i = 0; i < merge->count; i++) free(merge->sources[i].parts);
    for (uint32_t i = 0; i < merge->table_count; i++) {
        free(merge->tables[i].first_blocks);
        table_catalog_table_fini(&merge->tables[i].listed);
    }
    free(merge->sources);
    free(merge->dropped);
    free(merge->tables);
    free(merge);
}

/* ---- The keys and blocks of a table that belong to a slot. */

typedef struct entry { /* a key or block of a snapshot */
    uint64_t order;    /* its hash, key, or array and number: what the content is sorted by */
    const uint8_t *at;
    size_t size;
    uint32_t later; /* added to its last touch */
} entry;

typedef struct entries {
    entry *list; /* owned */
    size_t count, room;
} entries;

static mr_status add(entries *entries, entry entry) {
    MR_TRY(alloc_try_grow(&entries->list, &entries->room, entries->count + 1, sizeof entry));
    entries->list[entries->count++] = entry;
    return MR_OK;
}

static mr_status take_rows(const table *table, const part *part, uint32_t slot, entries *out) {
    reader reader = reader_of(part->content.data, part->content.size);
    (void)reader_u32(&reader);
    uint32_t count = reader_u32(&reader), row = reader_u32(&reader);
    (void)reader_bytes(&reader, SPARSE_TABLE_PIECE_HEAD - 12);
    bool own_clock = part->schema.rows_max != 0 && part->schema.age_max == 0;
    uint32_t later = own_clock ? (uint32_t)(table->numbers[NOW] - part->numbers[NOW]) : 0;
    for (uint32_t i = 0; i < count && !reader.failed; i++) {
        entry entry = {.at = reader.at, .later = later};
        entry.order = reader_u64(&reader);
        (void)reader_u32(&reader);
        if (reader_u32(&reader) == 0) (void)reader_bytes(&reader, row); /* no touches are counted: there is a row */
        entry.size = (size_t)(reader.at - entry.at);
        bool here = !reader.failed && slot_placement_slot(&table->placement, sparse_key(entry.order)) == slot;
        if (here) MR_TRY(add(out, entry));
    }
    return reader.failed || reader_left(&reader) != 0 ? malformed(slot, "rows") : MR_OK;
}

static size_t item_of(const table_schema *schema) { return schema->dtype == MR_I64 ? sizeof(int64_t) : sizeof(float); }

static mr_status take_vectors(const table *table, const part *part, uint32_t slot, entries *out) {
    reader reader = reader_of(part->content.data, part->content.size);
    uint32_t count = reader_u32(&reader);
    for (uint32_t i = 0; i < count && !reader.failed; i++) {
        entry entry = {.at = reader.at};
        entry.order = reader_u64(&reader);
        (void)reader_bytes(&reader, reader_u32(&reader) * item_of(&part->schema));
        entry.size = (size_t)(reader.at - entry.at);
        bool here = !reader.failed && slot_placement_slot(&table->placement, entry.order) == slot;
        if (here) MR_TRY(add(out, entry));
    }
    return reader.failed || reader_left(&reader) != 0 ? malformed(slot, "vectors") : MR_OK;
}

static mr_status take_blocks(const table *table, const part *part, uint32_t slot, entries *out) {
    reader reader = reader_of(part->content.data, part->content.size);
    uint32_t count = reader_u32(&reader);
    for (uint32_t i = 0; i < count && !reader.failed; i++) {
        entry entry = {.at = reader.at};
        uint32_t array = reader_u32(&reader), block = reader_u32(&reader), items = reader_u32(&reader);
        (void)reader_bytes(&reader, ENGINE_BLOCK_HEAD - 12);
        (void)reader_u32(&reader); /* the head of the piece (dense_table.h) */
        uint32_t arrays = reader_u32(&reader);
        (void)reader_bytes(&reader, DENSE_TABLE_PIECE_HEAD - 8);
        if (arrays > 2 + OPTIM_STATES_MAX || array >= table->listed.array_count) return malformed(slot, "block");
        (void)reader_bytes(&reader, (size_t)arrays * items * item_of(&part->schema));
        entry.order = (uint64_t)array << 32 | block;
        entry.size = (size_t)(reader.at - entry.at);
        uint64_t number = table->first_blocks[array] + block;
        bool here = !reader.failed && dense_table_slot(table->schema.id, number, table->placement.slots) == slot;
        if (here) MR_TRY(add(out, entry));
    }
    return reader.failed || reader_left(&reader) != 0 ? malformed(slot, "blocks") : MR_OK;
}

static int compare_entries(const void *a, const void *b) {
    uint64_t x = ((const entry *)a)->order, y = ((const entry *)b)->order;
    return (x > y) - (x < y);
}

/* All entries of the table that belong to the slot, in order. */
static mr_status list_entries(const snapshot_merge *merge, const table *table, uint32_t slot, entries *out) {
    mr_status status = MR_OK;
    for (uint32_t i = 0; i < merge->count && status == MR_OK; i++) {
        const part *part = find_part(&merge->sources[i], table->schema.id);
        if (part == NULL) continue;
        if (table->schema.kind == TABLE_SCHEMA_SPARSE) status = take_rows(table, part, slot, out);
        if (table->schema.kind == TABLE_SCHEMA_VECTORS) status = take_vectors(table, part, slot, out);
        if (table->schema.kind == TABLE_SCHEMA_DENSE) status = take_blocks(table, part, slot, out);
    }
    if (out->count > 1) qsort(out->list, out->count, sizeof *out->list, compare_entries);
    for (size_t i = 1; i < out->count && status == MR_OK; i++)
        if (out->list[i - 1].order == out->list[i].order)
            status = error_set(MR_CORRUPT, "table '%s': two slots have the same key", table->listed.name);
    if (status == MR_OK && out->count > UINT32_MAX)
        status = error_set(MR_TOO_LARGE, "table '%s': %zu keys for slot %u; use more slots", table->listed.name,
                           out->count, slot);
    return status;
}

/* ---- Writing. */

typedef struct maker {
    buffer *out;
    mr_status status; /* first failure */
} maker;

static void put(maker *maker, const void *bytes, size_t size) {
    if (maker->status == MR_OK && size != 0) maker->status = buffer_append(maker->out, bytes, size);
}
static void put_u32(maker *maker, uint32_t number) { put(maker, &number, sizeof number); }
static void put_u64(maker *maker, uint64_t number) { put(maker, &number, sizeof number); }

/* The row's last touch is at byte 8, whether a block changed last is at byte 12. */
static void put_entry(maker *maker, table_schema_kind kind, const entry *entry) {
    size_t at = maker->out->size;
    uint32_t number;
    put(maker, entry->at, entry->size);
    if (maker->status != MR_OK || kind == TABLE_SCHEMA_VECTORS) return;
    uint8_t *place = maker->out->data + at + (kind == TABLE_SCHEMA_SPARSE ? 8 : 12);
    memcpy(&number, place, sizeof number);
    number = kind == TABLE_SCHEMA_SPARSE ? number + entry->later : 0;
    memcpy(place, &number, sizeof number);
}

/* The head of a piece with all hashes, of the table's rows (sparse_table.h). */
static void put_piece(maker *maker, const snapshot_merge *merge, const table *table, size_t count) {
    const part *part = NULL;
    for (uint32_t i = 0; part == NULL; i++) part = find_part(&merge->sources[i], table->schema.id);
    if (maker->status != MR_OK) return; /* the rows of some part are malformed */
    put_u32(maker, SPARSE_TABLE_MAGIC);
    put_u32(maker, (uint32_t)count);
    put(maker, part->content.data + 8, 8); /* bytes of a row, admit */
    put_u64(maker, 0);
    put_u64(maker, UINT64_MAX);
}

static void put_table(maker *maker, const snapshot_merge *merge, const table *table, uint32_t slot) {
    uint8_t schema[TABLE_SCHEMA_SIZE];
    entries entries = {0};
    if (maker->status == MR_OK) maker->status = list_entries(merge, table, slot, &entries);
    table_schema_encode(&table->schema, schema);
    put(maker, schema, sizeof schema);
    put_u64(maker, table->version);
    put_u32(maker, 0); /* no change before this state is known */
    for (size_t i = 0; i < NUMBERS; i++) put_u64(maker, i > EVICTED || slot == 0 ? table->numbers[i] : 0);
    size_t at = maker->out->size;
    put_u64(maker, 0); /* the size of the content, set below */
    if (table->schema.kind == TABLE_SCHEMA_SPARSE)
        put_piece(maker, merge, table, entries.count);
    else
        put_u32(maker, (uint32_t)entries.count);
    for (size_t i = 0; i < entries.count; i++) put_entry(maker, table->schema.kind, &entries.list[i]);
    uint64_t size = maker->out->size - at - sizeof size;
    if (maker->status == MR_OK) memcpy(maker->out->data + at, &size, sizeof size);
    if (merge->sources[0].keeps != 0) put_u32(maker, 0); /* an undo log without keys */
    free(entries.list);
}

/* The latest seq of a rank in all slots, see snapshot_merge.h. */
static uint64_t name_of(const snapshot_merge *merge, uint32_t rank) {
    uint64_t latest = 0;
    for (uint32_t i = 0; i < merge->count; i++) {
        uint64_t name = 0;
        if (rank < merge->sources[i].ranks) memcpy(&name, merge->sources[i].names + (size_t)rank * 8, sizeof name);
        if (name > latest) latest = name;
    }
    bool inside = !seq_is_left(latest) && latest != 0 && (latest & SEQ_TICK) != SEQ_TICK;
    return inside && !merge->rounds ? seq_tick(seq_step(latest)) : latest;
}

static void put_head(maker *maker, const snapshot_merge *merge) {
    const source *first = &merge->sources[0];
    uint32_t ranks = 0;
    uint64_t version = 0, marked = 0;
    for (uint32_t i = 0; i < merge->count; i++) {
        const source *source = &merge->sources[i];
        if (source->ranks > ranks) ranks = source->ranks;
        if (source->version > version) version = source->version;
        if (source->marked > marked) marked = source->marked;
    }
    put_u32(maker, ranks);
    put_u32(maker, (uint32_t)(16 + (size_t)ranks * 8 + first->sets_size));
    put_u64(maker, version);
    put_u64(maker, marked);
    for (uint32_t i = 0; i < ranks; i++) put_u64(maker, name_of(merge, i));
    put(maker, first->sets, first->sets_size);
}

static void put_values(maker *maker, const snapshot_merge *merge, uint32_t slot) {
    put_u64(maker, ENGINE_MAGIC);
    put_u32(maker, merge->sources[0].keeps);
    put_u32(maker, (uint32_t)merge->dropped_count);
    for (size_t i = 0; i < merge->dropped_count; i++) {
        put_u32(maker, merge->dropped[i]);
        put_u32(maker, 0);
    }
    put_u32(maker, merge->table_count);
    for (uint32_t i = 0; i < merge->table_count; i++) put_table(maker, merge, &merge->tables[i], slot);
}

mr_status snapshot_merge_write(const snapshot_merge *merge, uint32_t slot, buffer *out) {
    MR_ASSERT(slot < merge->slots);
    maker maker = {.out = out};
    buffer_clear(out);
    put_head(&maker, merge);
    size_t at = out->size;
    put_u32(&maker, 0);
    put_values(&maker, merge, slot);
    uint32_t size = (uint32_t)(out->size - at - sizeof size); /* modulo 2^32 (ps/replica_snapshot.c) */
    if (maker.status == MR_OK) memcpy(out->data + at, &size, sizeof size);
    return maker.status;
}
