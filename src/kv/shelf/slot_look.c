/* slot_look.c — see slot_look.h. */
#include "kv/shelf/slot_look.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/error.h"
#include "kv/shelf/shelf_core.h"

enum { BLOCK_BYTES = SHELF_BLOCK_HEAD + DENSE_PIECE_HEAD };

typedef char name_text[SAFETENSORS_NAME_MAX];

mr_status slot_look_wrong(const char *name) {
    return error_set(MR_CORRUPT, "malformed snapshot file: '%s' is missing or wrong", name);
}

mr_status slot_look_find(const safetensors *list, const char *name, safetensors_dtype dtype, span *out) {
    const safetensor *tensor = safetensors_find(list, name);
    if (tensor == NULL || tensor->dtype != dtype) return slot_look_wrong(name);
    *out = tensor->data;
    return MR_OK;
}

static mr_status find_in(const slot_look *look, const slot_table *table, const char *what, safetensors_dtype dtype,
                         span *out) {
    name_text name;
    if (snprintf(name, sizeof name, "%s/%s", table->name, what) >= (int)sizeof name)
        return slot_look_wrong(table->name);
    return slot_look_find(&look->list, name, dtype, out);
}

static mr_status read_head(slot_look *look) {
    const char *tables = safetensors_text_of(&look->list, "tables");
    span version = {0}, head = {0};
    MR_TRY(slot_file_check(&look->list));
    if (safetensors_find(&look->list, ".slot/shard") != NULL) return MR_OK;
    MR_TRY(slot_look_find(&look->list, ".slot/version", SAFETENSORS_U64, &version));
    if (version.size != sizeof look->version) return slot_look_wrong(".slot/version");
    memcpy(&look->version, version.data, sizeof look->version);
    if (tables == NULL) return MR_OK;
    MR_TRY(slot_look_find(&look->list, ".shelf/head", SAFETENSORS_U8, &head));
    reader reader = reader_of(head.data, head.size);
    bool is_shelf = reader_u64(&reader) == SHELF_MAGIC;
    look->rounds = reader_u32(&reader) == 1;
    if (!is_shelf || reader.failed) return slot_look_wrong(".shelf/head");
    char *end;
    unsigned long count = strtoul(tables, &end, 10);
    if (*end != '\0' || count > look->list.count) return slot_look_wrong("tables");
    look->tables = (uint32_t)count;
    return MR_OK;
}

mr_status slot_look_open(span file, slot_look *out) {
    *out = (slot_look){0};
    mr_status status = safetensors_read(file, &out->list);
    if (status == MR_OK) status = read_head(out);
    if (status != MR_OK) slot_look_close(out);
    return status;
}

void slot_look_close(slot_look *look) { safetensors_fini(&look->list); }

safetensors_dtype slot_look_dtype(const definition *definition) {
    return definition->dtype == MR_I64 ? SAFETENSORS_I64 : SAFETENSORS_F32;
}

/* ---- Tables. */

static mr_status look_at_rows(const slot_look *look, slot_table *table) {
    size_t row = table->definition.dim * safetensors_item(slot_look_dtype(&table->definition));
    MR_TRY(find_in(look, table, "keys", SAFETENSORS_U64, &table->keys));
    MR_TRY(find_in(look, table, "touches", SAFETENSORS_U32, &table->touches));
    MR_TRY(find_in(look, table, "values", slot_look_dtype(&table->definition), &table->values));
    if (table->touches.size != table->keys.size / 2) return slot_look_wrong(table->name);
    for (size_t i = 0; i < table->touches.size; i += sizeof(uint32_t)) {
        uint32_t touches;
        memcpy(&touches, table->touches.data + i, sizeof touches);
        table->rows += touches == 0;
    }
    return table->rows * row == table->values.size ? MR_OK : slot_look_wrong(table->name);
}

static mr_status look_at_vectors(const slot_look *look, slot_table *table) {
    uint64_t items = 0;
    MR_TRY(find_in(look, table, "keys", SAFETENSORS_U64, &table->keys));
    MR_TRY(find_in(look, table, "lengths", SAFETENSORS_U32, &table->lengths));
    MR_TRY(find_in(look, table, "values", slot_look_dtype(&table->definition), &table->values));
    table->rows = table->keys.size / sizeof(uint64_t);
    if (table->lengths.size != table->rows * sizeof(uint32_t)) return slot_look_wrong(table->name);
    for (size_t i = 0; i < table->rows; i++) {
        uint32_t length;
        memcpy(&length, table->lengths.data + i * sizeof length, sizeof length);
        items += length;
    }
    return items * safetensors_item(slot_look_dtype(&table->definition)) == table->values.size
               ? MR_OK
               : slot_look_wrong(table->name);
}

static mr_status look_at_blocks(const slot_look *look, slot_table *table) {
    span heads = {0};
    MR_TRY(find_in(look, table, "blocks", SAFETENSORS_U8, &heads));
    if (heads.size % BLOCK_BYTES != 0) return slot_look_wrong(table->name);
    table->heads = heads.data;
    table->blocks = (uint32_t)(heads.size / BLOCK_BYTES);
    for (uint32_t i = 0; i < table->blocks; i++) {
        slot_block block;
        MR_TRY(slot_look_block(look, table, i, &block));
        table->rows += block.items;
        table->bytes += block.values.size;
    }
    return MR_OK;
}

mr_status slot_look_table(const slot_look *look, uint32_t index, slot_table *out) {
    name_text key;
    span defined = {0};
    mr_status status = MR_OK;
    snprintf(key, sizeof key, "table.%u", index);
    *out = (slot_table){.name = safetensors_text_of(&look->list, key), .index = index};
    if (out->name == NULL || strlen(out->name) >= MR_PS_NAME_MAX) return slot_look_wrong(key);
    MR_TRY(find_in(look, out, "definition", SAFETENSORS_U8, &defined));
    MR_TRY(definition_decode(defined, &out->definition));
    switch (out->definition.kind) {
    case DEFINITION_SPARSE: status = look_at_rows(look, out); break;
    case DEFINITION_VECTORS: status = look_at_vectors(look, out); break;
    case DEFINITION_DENSE: status = look_at_blocks(look, out); break;
    }
    out->bytes += out->values.size;
    return status;
}

mr_status slot_look_block(const slot_look *look, const slot_table *table, uint32_t index, slot_block *out) {
    uint32_t place[3];
    name_text name;
    memcpy(place, table->heads + (size_t)index * BLOCK_BYTES, sizeof place);
    *out = (slot_block){.array = place[0], .number = place[1], .items = place[2]};
    out->name = slot_look_array(look, table, out->array);
    if (out->name == NULL || strlen(out->name) >= MR_PS_NAME_MAX || out->array >= MR_PS_ARRAYS_MAX)
        return slot_look_wrong(table->name);
    if (snprintf(name, sizeof name, "%s/%s/%u/values", table->name, out->name, out->number) >= (int)sizeof name)
        return slot_look_wrong(table->name);
    MR_TRY(slot_look_find(&look->list, name, slot_look_dtype(&table->definition), &out->values));
    if (out->values.size != out->items * safetensors_item(slot_look_dtype(&table->definition)))
        return slot_look_wrong(name);
    return MR_OK;
}

const char *slot_look_array(const slot_look *look, const slot_table *table, uint32_t array) {
    name_text key;
    snprintf(key, sizeof key, "table.%u.array.%u", table->index, array);
    return safetensors_text_of(&look->list, key);
}

bool slot_look_shape(const slot_look *look, const slot_table *table, uint32_t array,
                     uint64_t shape[SAFETENSORS_DIMS_MAX], uint32_t *dims) {
    name_text key;
    snprintf(key, sizeof key, "table.%u.shape.%u", table->index, array);
    const char *text = safetensors_text_of(&look->list, key);
    *dims = 0;
    while (text != NULL && *text != '\0' && *dims < SAFETENSORS_DIMS_MAX) {
        char *end;
        shape[(*dims)++] = strtoull(text, &end, 10);
        if (end == text) return false;
        text = *end == 'x' ? end + 1 : end;
    }
    return text != NULL && *text == '\0';
}
