/* catalog_log.c — see catalog_log.h. */
#include "kv/control/catalog_log.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"
#include "base/failpoint.h"
#include "base/format.h"
#include "base/log.h"
#include "base/mutation.h"

enum { HEAD_SIZE = 12, VALUE_SIZE = 32, DROP_SIZE = 5, TABLE_HEAD = 5 };
/* A file is rewritten before the dropped tables take more than the others and the slack. */
#define FILE_MAX (2 * (TABLE_CATALOG_BYTES_MAX + (size_t)TABLE_CATALOG_TABLES_MAX * TABLE_HEAD) + 2 * CATALOG_LOG_SLACK)

typedef catalog_log_position position;

struct catalog_log {
    disk disk;
    metadata_db *db;
    table_catalog catalog;
    position position;
    uint64_t version; /* of the metadata value that the catalog was read from */
    /* A failed change may be the decided one after a restart (metadata_db.h), so its file is not written again. */
    uint64_t newest;               /* number of the newest written file */
    bool failed;                   /* the last change has failed */
    catalog_log_follow_fn *follow; /* NULL: none */
    void *context;
};

typedef char file_name[DISK_NAME_MAX];

static void name_file(uint64_t number, file_name out) {
    snprintf(out, sizeof(file_name), "tables-%llu", (unsigned long long)number);
}

static span key(void) { return span_of(CATALOG_LOG_KEY, strlen(CATALOG_LOG_KEY)); }

static uint64_t chain(uint64_t before, span bytes) {
    uint64_t both[2] = {before, format_sum(bytes)};
    return format_sum(span_of(both, sizeof both));
}

static void tell(const catalog_log *log, uint32_t id, span bytes) {
    if (log->follow != NULL) log->follow(log->context, id, bytes);
}

/* ---- Committing. */

static mr_status commit(catalog_log *log, const position *position) {
    uint8_t bytes[VALUE_SIZE];
    writer writer = writer_of(bytes, sizeof bytes);
    writer_u32(&writer, CATALOG_LOG_MAGIC);
    writer_u32(&writer, position->next);
    writer_u64(&writer, position->number);
    writer_u64(&writer, position->size);
    writer_u64(&writer, position->sum);
    MR_ASSERT(!writer.failed && writer_size(&writer) == VALUE_SIZE);
    MR_TRY(metadata_db_swap(log->db, key(), log->version, span_of(bytes, sizeof bytes), 0));
    log->version++;
    log->position = *position;
    log->failed = false;
    return MR_OK;
}

/* Continues the chain with the bytes from `begin` on. */
static void link_from(uint64_t *sum, const uint8_t *begin, const uint8_t *end) {
    *sum = chain(*sum, span_of(begin, (size_t)(end - begin)));
}

static void write_table(writer *writer, uint64_t *sum, span table) {
    const uint8_t *begin = writer->at;
    writer_u8(writer, CATALOG_LOG_TABLE);
    writer_span32(writer, table);
    link_from(sum, begin, writer->at);
}

static span bytes_of(const table_catalog_entry *entry) { return span_of(entry->bytes, entry->size); }

/* The content of a new file: all tables but the dropped one, and the added one. 0 and no bytes: none. */
static mr_status make_file(const catalog_log *log, span added, uint32_t dropped, position *out, uint8_t **file) {
    const table_catalog *catalog = &log->catalog;
    size_t size = HEAD_SIZE + catalog->bytes + (catalog->count + 1) * TABLE_HEAD + added.size;
    *out = (position){.number = log->newest + 1};
    MR_TRY(alloc_try(size, file));
    writer writer = writer_of(*file, size);
    writer_u32(&writer, CATALOG_LOG_FILE_MAGIC);
    writer_u64(&writer, out->number);
    link_from(&out->sum, writer.start, writer.at);
    for (size_t i = 0; i < catalog->count; i++)
        if (catalog->entries[i]->table.schema.id != dropped)
            write_table(&writer, &out->sum, bytes_of(catalog->entries[i]));
    if (added.size != 0) write_table(&writer, &out->sum, added);
    MR_ASSERT(!writer.failed);
    out->size = writer_size(&writer);
    return MR_OK;
}

/* Removes the files below this number; one that stays takes room only. */
static void remove_before(catalog_log *log, uint64_t first, uint64_t number) {
    file_name name;
    for (; first < number; first++) {
        name_file(first, name);
        if (first != 0 && log->disk.ops->remove(log->disk.self, name) != MR_OK) error_clear();
    }
}

static mr_status rewrite(catalog_log *log, span added, uint32_t dropped, uint32_t next) {
    position position;
    uint8_t *bytes;
    file_name name;
    uint64_t before = log->position.number;
    MR_TRY(make_file(log, added, dropped, &position, &bytes));
    name_file(position.number, name);
    log->newest = position.number;
    log->failed = true; /* until it is committed */
    mr_status status = disk_replace(log->disk, name, span_of(bytes, position.size));
    free(bytes);
    FAILPOINT("catalog.rewritten");
    position.next = next;
    if (status == MR_OK) status = commit(log, &position);
    if (status == MR_OK) remove_before(log, before, position.number);
    return status;
}

static mr_status append(catalog_log *log, span record, uint32_t next) {
    file_name name;
    position position = log->position;
    name_file(position.number, name);
    log->failed = true; /* until it is committed */
    MR_TRY(log->disk.ops->write(log->disk.self, name, position.size, record));
    FAILPOINT("catalog.written");
    if (!MUTATED("no-table-sync")) MR_TRY(log->disk.ops->sync_data(log->disk.self, name));
    FAILPOINT("catalog.synced");
    position.sum = chain(position.sum, record);
    position.size += record.size;
    position.next = next;
    return commit(log, &position);
}

/* Whether a change is written to a new file. */
static bool is_due(const catalog_log *log) {
    size_t live = log->catalog.bytes + log->catalog.count * TABLE_HEAD;
    return log->position.number == 0 || log->failed || log->position.size > 2 * live + CATALOG_LOG_SLACK;
}

/* ---- Loading. */

static mr_status damaged(uint64_t number, const char *what) {
    return error_set(
        MR_CORRUPT,
        "the file 'tables-%llu' is damaged: %s. The list of tables is lost; the checkpoints remain: export "
        "one with `miniray ps checkpoint export`, and begin in another folder",
        (unsigned long long)number, what);
}

static mr_status read_file(disk disk, const position *position, uint8_t **out) {
    uint8_t *bytes;
    size_t got = 0;
    file_name name;
    name_file(position->number, name);
    MR_TRY(alloc_try(position->size, &bytes));
    mr_status status = disk.ops->read(disk.self, name, 0, bytes, position->size, &got);
    if (status == MR_NOT_FOUND) status = damaged(position->number, "it is missing");
    if (status == MR_OK && got != position->size) status = damaged(position->number, "its size has changed");
    if (status != MR_OK) {
        free(bytes);
        return status;
    }
    *out = bytes;
    return MR_OK;
}

static bool take_record(reader *reader, table_catalog *catalog) {
    uint8_t kind = reader_u8(reader);
    if (kind == CATALOG_LOG_TABLE) return table_catalog_put(catalog, reader_span32(reader)) == MR_OK;
    return kind == CATALOG_LOG_DROP && table_catalog_remove(catalog, reader_u32(reader));
}

static mr_status read_records(span file, const position *position, table_catalog *catalog) {
    reader reader = reader_of(file.data, file.size);
    uint64_t sum = 0;
    uint32_t magic = reader_u32(&reader), found = format_of(magic, CATALOG_LOG_FILE_MAGIC, sizeof magic);
    if (reader_u64(&reader) != position->number || found == 0) return damaged(position->number, "wrong head");
    if (magic != CATALOG_LOG_FILE_MAGIC)
        return format_reject("the file of the tables", found,
                             format_of(CATALOG_LOG_FILE_MAGIC, CATALOG_LOG_FILE_MAGIC, sizeof magic),
                             FORMAT_USE_WRITER ", or begin in another folder");
    link_from(&sum, file.data, reader.at);
    while (reader_left(&reader) != 0) {
        const uint8_t *begin = reader.at;
        if (!take_record(&reader, catalog) || reader.failed) return damaged(position->number, "a malformed table");
        link_from(&sum, begin, reader.at);
    }
    if (sum != position->sum) return damaged(position->number, "wrong checksum");
    if (position->next == 0 || table_catalog_next(catalog) > position->next)
        return damaged(position->number, "a table has an id above the next one");
    catalog->next = position->next;
    return MR_OK;
}

mr_status catalog_log_decode(span file, const catalog_log_position *position, table_catalog *out) {
    table_catalog catalog = {0};
    mr_status status = read_records(file, position, &catalog);
    if (status == MR_OK)
        *out = catalog;
    else
        table_catalog_fini(&catalog);
    return status;
}

static mr_status read_tables(catalog_log *log, const position *position) {
    uint8_t *bytes;
    MR_TRY(read_file(log->disk, position, &bytes));
    mr_status status = catalog_log_decode(span_of(bytes, position->size), position, &log->catalog);
    free(bytes);
    return status;
}

/* Writes the tables of release 0.2.0 to a file. */
static mr_status import(catalog_log *log, span value) {
    MR_TRY(table_catalog_import(value, &log->catalog));
    return rewrite(log, (span){0}, 0, table_catalog_next(&log->catalog));
}

static mr_status read_value(catalog_log *log, span value) {
    reader reader = reader_of(value.data, value.size);
    uint32_t magic = reader_u32(&reader), found = format_of(magic, CATALOG_LOG_MAGIC, sizeof magic);
    position position = {.next = reader_u32(&reader)};
    position.number = reader_u64(&reader);
    position.size = reader_u64(&reader);
    position.sum = reader_u64(&reader);
    if (value.size == 0) return MR_OK;
    if (magic == TABLE_CATALOG_MAGIC_BEFORE) return import(log, value);
    if (magic != CATALOG_LOG_MAGIC && found != 0)
        return format_reject("the list of tables", found, CATALOG_LOG_FORMAT, FORMAT_USE_SAME);
    if (magic != CATALOG_LOG_MAGIC || reader.failed || reader_left(&reader) != 0 || position.number == 0 ||
        position.size < HEAD_SIZE || position.size > FILE_MAX)
        return error_set(MR_CORRUPT, "malformed metadata value '" CATALOG_LOG_KEY "' of %zu bytes", value.size);
    MR_TRY(read_tables(log, &position));
    log->position = position;
    log->newest = position.number;
    return MR_OK;
}

/* Reads the tables again if the metadata store has lost its decisions, and with them the tables. */
static mr_status refresh(catalog_log *log) {
    uint64_t version;
    span value;
    metadata_db_get(log->db, key(), &version, &value);
    if (version == log->version) return MR_OK;
    table_catalog_fini(&log->catalog);
    log->position = (position){0};
    log->version = version;
    log->newest = 0;
    log->failed = false;
    mr_status status = read_value(log, value);
    if (status != MR_OK) table_catalog_fini(&log->catalog);
    tell(log, 0, (span){0});
    for (size_t i = 0; i < log->catalog.count; i++)
        tell(log, log->catalog.entries[i]->table.schema.id, bytes_of(log->catalog.entries[i]));
    return status;
}

/* ---- Interface. */

mr_status catalog_log_open(disk disk, metadata_db *db, catalog_log **out) {
    catalog_log *log = XNEW(catalog_log, .disk = disk, .db = db);
    mr_status status = refresh(log);
    if (status == MR_OK)
        *out = log;
    else
        catalog_log_close(log);
    return status;
}

void catalog_log_close(catalog_log *log) {
    if (log == NULL) return;
    table_catalog_fini(&log->catalog);
    free(log);
}

const table_catalog *catalog_log_tables(catalog_log *log) {
    if (refresh(log) != MR_OK) log_error("%s", mr_last_error());
    return &log->catalog;
}

static mr_status add_encoded(catalog_log *log, const char *name, span table) {
    uint32_t next = table_catalog_next(&log->catalog) + 1;
    mr_status status = table_catalog_check_room(&log->catalog, name, table.size);
    if (status == MR_OK && is_due(log)) {
        status = rewrite(log, table, 0, next);
    } else if (status == MR_OK) {
        uint8_t *record;
        uint64_t sum = 0;
        MR_TRY(alloc_try(TABLE_HEAD + table.size, &record));
        writer writer = writer_of(record, TABLE_HEAD + table.size);
        write_table(&writer, &sum, table);
        status = append(log, span_of(record, writer_size(&writer)), next);
        free(record);
    }
    return status == MR_OK ? table_catalog_put(&log->catalog, table) : status;
}

mr_status catalog_log_add(catalog_log *log, const table_catalog_table *table) {
    MR_TRY(refresh(log));
    table_catalog_table own = *table;
    size_t size;
    MR_ASSERT(table_catalog_find(&log->catalog, table->name) == NULL);
    own.schema.id = table_catalog_next(&log->catalog);
    uint8_t *bytes = table_catalog_table_encode(&own, &size);
    mr_status status = add_encoded(log, own.name, span_of(bytes, size));
    if (status == MR_OK) tell(log, own.schema.id, span_of(bytes, size));
    free(bytes);
    return status;
}

mr_status catalog_log_drop(catalog_log *log, uint32_t id) {
    uint8_t record[DROP_SIZE] = {CATALOG_LOG_DROP};
    MR_TRY(refresh(log));
    uint32_t next = table_catalog_next(&log->catalog);
    if (table_catalog_by_id(&log->catalog, id) == NULL) return MR_OK;
    memcpy(record + 1, &id, sizeof id);
    MR_TRY(is_due(log) ? rewrite(log, (span){0}, id, next) : append(log, span_of(record, sizeof record), next));
    (void)table_catalog_remove(&log->catalog, id);
    tell(log, id, (span){0});
    return MR_OK;
}

void catalog_log_follow(catalog_log *log, catalog_log_follow_fn *follow, void *context) {
    log->follow = follow;
    log->context = context;
    for (size_t i = 0; i < log->catalog.count; i++)
        tell(log, log->catalog.entries[i]->table.schema.id, bytes_of(log->catalog.entries[i]));
}
