/* snapshot_reader.c — see snapshot_reader.h. */
#include "kv/checkpoint/snapshot_reader.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/error.h"
#include "kv/engine/engine_internal.h"

enum { BLOCK_BYTES = ENGINE_BLOCK_HEAD + DENSE_TABLE_PIECE_HEAD };

typedef char name_text[SAFETENSORS_NAME_MAX];

mr_status snapshot_reader_wrong(const char *name) {
    return error_set(MR_CORRUPT, "malformed snapshot file: '%s' is missing or wrong", name);
}

mr_status snapshot_reader_find(const safetensors *list, const char *name, safetensors_dtype dtype, span *out) {
    const safetensor *tensor = safetensors_find(list, name);
    if (tensor == NULL || tensor->dtype != dtype) return snapshot_reader_wrong(name);
    *out = tensor->data;
    return MR_OK;
}

static mr_status find_in(const snapshot_reader *reader, const snapshot_table *table, const char *what,
                         safetensors_dtype dtype, span *out) {
    name_text name;
    if (snprintf(name, sizeof name, "%s/%s", table->name, what) >= (int)sizeof name)
        return snapshot_reader_wrong(table->name);
    return snapshot_reader_find(&reader->list, name, dtype, out);
}

static mr_status read_head(snapshot_reader *look) {
    const char *tables = safetensors_text_of(&look->list, "tables");
    span version = {0}, head = {0};
    MR_TRY(snapshot_file_check(&look->list));
    if (safetensors_find(&look->list, ".slot/shard") != NULL) return MR_OK;
    MR_TRY(snapshot_reader_find(&look->list, ".slot/version", SAFETENSORS_U64, &version));
    if (version.size != sizeof look->version) return snapshot_reader_wrong(".slot/version");
    memcpy(&look->version, version.data, sizeof look->version);
    if (tables == NULL) return MR_OK;
    MR_TRY(snapshot_reader_find(&look->list, ".shelf/head", SAFETENSORS_U8, &head));
    reader reader = reader_of(head.data, head.size);
    bool is_engine = reader_u64(&reader) == ENGINE_MAGIC;
    look->rounds = reader_u32(&reader) == 1;
    if (!is_engine || reader.failed) return snapshot_reader_wrong(".shelf/head");
    char *end;
    unsigned long count = strtoul(tables, &end, 10);
    if (*end != '\0' || count > look->list.count) return snapshot_reader_wrong("tables");
    look->tables = (uint32_t)count;
    return MR_OK;
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

static mr_status look_at_rows(const snapshot_reader *reader, snapshot_table *table) {
    size_t row = table->schema.dim * safetensors_item(snapshot_reader_dtype(&table->schema));
    MR_TRY(find_in(reader, table, "keys", SAFETENSORS_U64, &table->keys));
    MR_TRY(find_in(reader, table, "touches", SAFETENSORS_U32, &table->touches));
    MR_TRY(find_in(reader, table, "values", snapshot_reader_dtype(&table->schema), &table->values));
    if (table->touches.size != table->keys.size / 2) return snapshot_reader_wrong(table->name);
    for (size_t i = 0; i < table->touches.size; i += sizeof(uint32_t)) {
        uint32_t touches;
        memcpy(&touches, table->touches.data + i, sizeof touches);
        table->rows += touches == 0;
    }
    return table->rows * row == table->values.size ? MR_OK : snapshot_reader_wrong(table->name);
}

static mr_status look_at_vectors(const snapshot_reader *reader, snapshot_table *table) {
    uint64_t items = 0;
    MR_TRY(find_in(reader, table, "keys", SAFETENSORS_U64, &table->keys));
    MR_TRY(find_in(reader, table, "lengths", SAFETENSORS_U32, &table->lengths));
    MR_TRY(find_in(reader, table, "values", snapshot_reader_dtype(&table->schema), &table->values));
    table->rows = table->keys.size / sizeof(uint64_t);
    if (table->lengths.size != table->rows * sizeof(uint32_t)) return snapshot_reader_wrong(table->name);
    for (size_t i = 0; i < table->rows; i++) {
        uint32_t length;
        memcpy(&length, table->lengths.data + i * sizeof length, sizeof length);
        items += length;
    }
    return items * safetensors_item(snapshot_reader_dtype(&table->schema)) == table->values.size
               ? MR_OK
               : snapshot_reader_wrong(table->name);
}

static mr_status look_at_blocks(const snapshot_reader *reader, snapshot_table *table) {
    span heads = {0};
    MR_TRY(find_in(reader, table, "blocks", SAFETENSORS_U8, &heads));
    if (heads.size % BLOCK_BYTES != 0) return snapshot_reader_wrong(table->name);
    table->heads = heads.data;
    table->blocks = (uint32_t)(heads.size / BLOCK_BYTES);
    for (uint32_t i = 0; i < table->blocks; i++) {
        snapshot_block block;
        MR_TRY(snapshot_reader_block(reader, table, i, &block));
        table->rows += block.items;
        table->bytes += block.values.size;
    }
    return MR_OK;
}

mr_status snapshot_reader_table(const snapshot_reader *reader, uint32_t index, snapshot_table *out) {
    name_text key;
    span defined = {0};
    mr_status status = MR_OK;
    snprintf(key, sizeof key, "table.%u", index);
    *out = (snapshot_table){.name = safetensors_text_of(&reader->list, key), .index = index};
    if (out->name == NULL || strlen(out->name) >= MR_PS_NAME_MAX) return snapshot_reader_wrong(key);
    MR_TRY(find_in(reader, out, "definition", SAFETENSORS_U8, &defined));
    MR_TRY(table_schema_decode(defined, &out->schema));
    switch (out->schema.kind) {
    case TABLE_SCHEMA_SPARSE: status = look_at_rows(reader, out); break;
    case TABLE_SCHEMA_VECTORS: status = look_at_vectors(reader, out); break;
    case TABLE_SCHEMA_DENSE: status = look_at_blocks(reader, out); break;
    }
    out->bytes += out->values.size;
    return status;
}

mr_status snapshot_reader_block(const snapshot_reader *reader, const snapshot_table *table, uint32_t index,
                                snapshot_block *out) {
    uint32_t place[3];
    name_text name;
    memcpy(place, table->heads + (size_t)index * BLOCK_BYTES, sizeof place);
    *out = (snapshot_block){.array = place[0], .number = place[1], .items = place[2]};
    out->name = snapshot_reader_array(reader, table, out->array);
    if (out->name == NULL || strlen(out->name) >= MR_PS_NAME_MAX || out->array >= MR_PS_ARRAYS_MAX)
        return snapshot_reader_wrong(table->name);
    if (snprintf(name, sizeof name, "%s/%s/%u/values", table->name, out->name, out->number) >= (int)sizeof name)
        return snapshot_reader_wrong(table->name);
    MR_TRY(snapshot_reader_find(&reader->list, name, snapshot_reader_dtype(&table->schema), &out->values));
    if (out->values.size != out->items * safetensors_item(snapshot_reader_dtype(&table->schema)))
        return snapshot_reader_wrong(name);
    return MR_OK;
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
