/* snapshot_reader.c — see snapshot_reader.h. */
#include "kv/checkpoint/snapshot_reader.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/error.h"
#include "kv/engine/engine_internal.h"

typedef char name_text[SAFETENSORS_NAME_MAX];

mr_status snapshot_reader_wrong(const char *name) {
    return error_set(MR_CORRUPT, "malformed snapshot file: '%s' is missing or wrong", name);
}

span snapshot_reader_find(const snapshot_reader *reader, mr_status *status, safetensors_dtype dtype, uint64_t items,
                          const char *format, ...) {
    name_text name;
    va_list arguments;
    if (*status != MR_OK) return (span){0};
    va_start(arguments, format);
    bool fits = vsnprintf(name, sizeof name, format, arguments) < (int)sizeof name;
    va_end(arguments);
    const safetensor *found = fits ? safetensors_find(&reader->list, name) : NULL;
    bool good = found != NULL && found->dtype == dtype &&
                (items == UINT64_MAX || found->data.size == items * safetensors_item(dtype));
    if (!good) *status = snapshot_reader_wrong(name);
    return good ? found->data : (span){0};
}

/* Reads the head of the engine, and checks the number of tables. */
static mr_status read_engine(snapshot_reader *look, const char *tables) {
    mr_status status = MR_OK;
    span head = snapshot_reader_find(look, &status, SAFETENSORS_U8, UINT64_MAX, ".shelf/head");
    reader reader = reader_of(head.data, head.size);
    bool is_engine = reader_u64(&reader) == ENGINE_MAGIC;
    uint32_t flags = reader_u32(&reader), dropped = reader_u32(&reader);
    (void)reader_bytes(&reader, (size_t)dropped * 8);
    look->rounds = (flags & ENGINE_KEEPS) != 0;
    look->behind = (flags & ENGINE_BEHIND) != 0;
    look->tables = reader_u32(&reader);
    char count[16];
    snprintf(count, sizeof count, "%u", look->tables);
    if (status == MR_OK &&
        (!is_engine || flags > (ENGINE_KEEPS | ENGINE_BEHIND) || reader.failed || reader_left(&reader) != 0))
        return snapshot_reader_wrong(".shelf/head");
    if (status == MR_OK && (look->tables > look->list.count || (tables != NULL && strcmp(tables, count) != 0)))
        return snapshot_reader_wrong("tables");
    return status;
}

static mr_status read_head(snapshot_reader *look) {
    const char *tables = safetensors_text_of(&look->list, "tables");
    mr_status status = snapshot_file_check(&look->list);
    if (status != MR_OK || safetensors_find(&look->list, ".slot/shard") != NULL) return status;
    span version = snapshot_reader_find(look, &status, SAFETENSORS_U64, 1, ".slot/version");
    if (status != MR_OK) return status;
    memcpy(&look->version, version.data, sizeof look->version);
    look->has_tables = tables != NULL || safetensors_find(&look->list, ".shelf/head") != NULL;
    return look->has_tables ? read_engine(look, tables) : MR_OK;
}

mr_status snapshot_reader_open(span file, snapshot_reader *out) {
    *out = (snapshot_reader){0};
    mr_status status = safetensors_read(file, &out->list);
    if (status == MR_OK) status = read_head(out);
    if (status != MR_OK) snapshot_reader_close(out);
    return status;
}

void snapshot_reader_close(snapshot_reader *reader) { safetensors_fini(&reader->list); }

safetensors_dtype snapshot_reader_dtype(const table_schema *schema) {
    return schema->dtype == MR_I64 ? SAFETENSORS_I64 : SAFETENSORS_F32;
}

/* ---- Tables. */

uint32_t snapshot_reader_number(span column, size_t index) {
    uint32_t number;
    memcpy(&number, column.data + index * sizeof number, sizeof number);
    return number;
}

static mr_status look_at_rows(const snapshot_reader *reader, snapshot_table *table) {
    const char *name = table->name;
    mr_status status = MR_OK;
    table->keys = snapshot_reader_find(reader, &status, SAFETENSORS_U64, UINT64_MAX, "%s/keys", name);
    size_t count = table->keys.size / sizeof(uint64_t);
    table->touches = snapshot_reader_find(reader, &status, SAFETENSORS_U32, count, "%s/touches", name);
    for (size_t i = 0; status == MR_OK && i < count; i++) table->rows += snapshot_reader_number(table->touches, i) == 0;
    table->values = snapshot_reader_find(reader, &status, snapshot_reader_dtype(&table->schema),
                                         table->rows * table->schema.dim, "%s/values", name);
    return status;
}

static mr_status look_at_vectors(const snapshot_reader *reader, snapshot_table *table) {
    const char *name = table->name;
    mr_status status = MR_OK;
    uint64_t items = 0;
    table->keys = snapshot_reader_find(reader, &status, SAFETENSORS_U64, UINT64_MAX, "%s/keys", name);
    table->rows = table->keys.size / sizeof(uint64_t);
    table->lengths = snapshot_reader_find(reader, &status, SAFETENSORS_U32, table->rows, "%s/lengths", name);
    for (size_t i = 0; status == MR_OK && i < table->rows; i++) items += snapshot_reader_number(table->lengths, i);
    table->values =
        snapshot_reader_find(reader, &status, snapshot_reader_dtype(&table->schema), items, "%s/values", name);
    return status;
}

static mr_status look_at_blocks(const snapshot_reader *reader, snapshot_table *table) {
    mr_status status = MR_OK;
    span heads = snapshot_reader_find(reader, &status, SAFETENSORS_U8, UINT64_MAX, "%s/blocks", table->name);
    if (heads.size % SNAPSHOT_READER_BLOCK != 0) return snapshot_reader_wrong(table->name);
    table->heads = heads.data;
    table->blocks = (uint32_t)(heads.size / SNAPSHOT_READER_BLOCK);
    for (uint32_t i = 0; status == MR_OK && i < table->blocks; i++) {
        snapshot_block block;
        status = snapshot_reader_block(reader, table, i, &block);
        table->rows += block.items;
        table->bytes += block.values.size;
    }
    return status;
}

mr_status snapshot_reader_table(const snapshot_reader *reader, uint32_t index, snapshot_table *out) {
    name_text key;
    mr_status status = MR_OK;
    snprintf(key, sizeof key, "table.%u", index);
    *out = (snapshot_table){.name = safetensors_text_of(&reader->list, key), .index = index};
    if (out->name == NULL || strlen(out->name) >= MR_PS_NAME_MAX) return snapshot_reader_wrong(key);
    span schema = snapshot_reader_find(reader, &status, SAFETENSORS_U8, UINT64_MAX, "%s/definition", out->name);
    if (status != MR_OK) return status;
    MR_TRY(table_schema_decode(schema, &out->schema));
    switch (out->schema.kind) {
    case TABLE_SCHEMA_SPARSE: status = look_at_rows(reader, out); break;
    case TABLE_SCHEMA_VECTORS: status = look_at_vectors(reader, out); break;
    case TABLE_SCHEMA_DENSE: status = look_at_blocks(reader, out); break;
    }
    out->bytes += out->values.size;
    return status;
}

mr_status snapshot_reader_undo(const snapshot_reader *reader, const snapshot_table *table, undo_log *out, bool *made) {
    mr_status status = MR_OK;
    *out = (undo_log){.item = safetensors_item(snapshot_reader_dtype(&table->schema)), .sorted = true};
    *made = false;
    if (!reader->behind) return MR_OK;
    span head = snapshot_reader_find(reader, &status, SAFETENSORS_U8, UINT64_MAX, "%s/head", table->name);
    span undo = snapshot_reader_find(reader, &status, SAFETENSORS_U8, UINT64_MAX, "%s/undo", table->name);
    if (status != MR_OK) return status;
    if (head.size <= sizeof(uint64_t)) return snapshot_reader_wrong(table->name);
    *made = head.data[sizeof(uint64_t)] != 0; /* after the version (engine_snapshot.c) */
    struct reader entries = reader_of(undo.data, undo.size);
    return undo_log_read(out, &entries);
}

mr_status snapshot_reader_block(const snapshot_reader *reader, const snapshot_table *table, uint32_t index,
                                snapshot_block *out) {
    uint32_t place[4]; /* the last: 1 if the last change was of this block, too (engine_snapshot.c) */
    mr_status status = MR_OK;
    memcpy(place, table->heads + (size_t)index * SNAPSHOT_READER_BLOCK, sizeof place);
    *out = (snapshot_block){.array = place[0], .number = place[1], .items = place[2]};
    out->name = snapshot_reader_array(reader, table, out->array);
    if (out->name == NULL || strlen(out->name) >= MR_PS_NAME_MAX) return snapshot_reader_wrong(table->name);
    out->values = snapshot_reader_find(reader, &status, snapshot_reader_dtype(&table->schema), out->items,
                                       "%s/%s/%u/%s", table->name, out->name, out->number,
                                       reader->behind && place[3] != 0 ? "before" : "values");
    return status;
}

const char *snapshot_reader_array(const snapshot_reader *reader, const snapshot_table *table, uint32_t array) {
    name_text key;
    snprintf(key, sizeof key, "table.%u.array.%u", table->index, array);
    return safetensors_text_of(&reader->list, key);
}

bool snapshot_reader_shape(const snapshot_reader *reader, const snapshot_table *table, uint32_t array,
                           uint64_t shape[SAFETENSORS_DIMS_MAX], uint32_t *dims) {
    name_text key;
    snprintf(key, sizeof key, "table.%u.shape.%u", table->index, array);
    const char *text = safetensors_text_of(&reader->list, key);
    *dims = 0;
    while (text != NULL && *text != '\0' && *dims < SAFETENSORS_DIMS_MAX) {
        char *end;
        shape[(*dims)++] = strtoull(text, &end, 10);
        if (end == text) return false;
        text = *end == 'x' ? end + 1 : end;
    }
    return text != NULL && *text == '\0';
}
