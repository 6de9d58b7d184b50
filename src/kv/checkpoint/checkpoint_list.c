/* checkpoint_list.c — see checkpoint_list.h; and mr_ps_checkpoints_get (miniray/ps.h). */
#include "kv/checkpoint/checkpoint_list.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/alloc.h"
#include "base/error.h"
#include "kv/checkpoint/checkpoint_thread.h"
#include "kv/checkpoint/snapshot_reader.h"
#include "miniray/admin.h"

/* ---- Manifests. */

static void keep(checkpoint_list *list, checkpoint_store_manifest *manifest) {
    uint32_t at = 0;
    if (manifest->number == 0 || checkpoint_list_find(list, manifest->number) != NULL) {
        checkpoint_store_manifest_fini(manifest);
        return;
    }
    while (at < list->count && list->manifests[at].number > manifest->number) at++;
    memmove(list->manifests + at + 1, list->manifests + at, (list->count++ - at) * sizeof *list->manifests);
    list->manifests[at] = *manifest;
}

static mr_status read_manifest(checkpoint_list *list, const char *name, bool *there) {
    buffer bytes;
    checkpoint_store_manifest manifest;
    buffer_init(&bytes, CHECKPOINT_STORE_MANIFEST_MAX);
    mr_status status = disk_read_all(list->disk, name, CHECKPOINT_STORE_MANIFEST_MAX, &bytes);
    *there |= status == MR_OK || status == MR_TOO_LARGE;
    bool foreign = status == MR_OK && checkpoint_store_manifest_check(name, span_of(bytes.data, bytes.size)) != MR_OK;
    if (foreign) status = MR_CORRUPT;
    if (status == MR_OK) status = checkpoint_store_manifest_decode(span_of(bytes.data, bytes.size), &manifest);
    if (status == MR_OK) keep(list, &manifest);
    bool damaged = !foreign && (status == MR_CORRUPT || status == MR_TOO_LARGE);
    if (damaged) snprintf(list->damaged[list->damaged_count++], DISK_NAME_MAX, "%s", name);
    buffer_fini(&bytes);
    return damaged || status == MR_NOT_FOUND ? MR_OK : status;
}

static mr_status read_manifests(checkpoint_list *list, const char *folder) {
    bool there = false;
    MR_TRY(read_manifest(list, CHECKPOINT_STORE_MANIFEST, &there));
    for (uint32_t i = 0; i < CHECKPOINT_STORE_KEPT - 1; i++) {
        char name[DISK_NAME_MAX];
        checkpoint_store_name_old(name, i);
        MR_TRY(read_manifest(list, name, &there));
    }
    if (!there || (list->count == 0 && list->damaged_count == 0))
        return error_set(MR_NOT_FOUND, "no checkpoint in %s", folder);
    return MR_OK;
}

mr_status checkpoint_list_open(const char *folder, checkpoint_list *out) {
    struct stat stat_of;
    *out = (checkpoint_list){0};
    if (stat(folder, &stat_of) != 0)
        return errno == ENOENT ? error_set(MR_NOT_FOUND, "the directory %s does not exist", folder)
                               : error_errno("cannot read the directory %s", folder);
    if (!S_ISDIR(stat_of.st_mode)) return error_set(MR_NOT_FOUND, "%s is a file; expected a directory", folder);
    MR_TRY(disk_open(folder, &out->disk));
    mr_status status = read_manifests(out, folder);
    if (status != MR_OK) checkpoint_list_close(out);
    return status;
}

void checkpoint_list_close(checkpoint_list *list) {
    for (uint32_t i = 0; i < list->count; i++) checkpoint_store_manifest_fini(&list->manifests[i]);
    disk_close(list->disk);
    *list = (struct checkpoint_list){0};
}

const checkpoint_store_manifest *checkpoint_list_find(const checkpoint_list *list, uint64_t number) {
    for (uint32_t i = 0; i < list->count; i++)
        if (list->manifests[i].number == number) return &list->manifests[i];
    return NULL;
}

bool checkpoint_list_keeps(const checkpoint_list *list, uint64_t number) {
    struct checkpoint_list now = {.disk = list->disk};
    bool kept = read_manifests(&now, "") == MR_OK && checkpoint_list_find(&now, number) != NULL;
    for (uint32_t i = 0; i < now.count; i++) checkpoint_store_manifest_fini(&now.manifests[i]);
    return kept;
}

mr_status checkpoint_list_read(const checkpoint_list *list, const checkpoint_store_manifest *manifest, uint32_t slot,
                               char name[DISK_NAME_MAX], buffer *out) {
    const checkpoint_store_shard *shard = &manifest->shards[slot];
    checkpoint_store_name_shard(name, shard->place, slot, CHECKPOINT_THREAD_ENDING);
    mr_status status = disk_read_all(list->disk, name, CHECKPOINT_STORE_FILE_MAX, out);
    if (status == MR_NOT_FOUND) return error_set(MR_CORRUPT, "snapshot file %s is missing", name);
    if (status == MR_TOO_LARGE ||
        (status == MR_OK && (out->size != shard->size || XXH3_64bits(out->data, out->size) != shard->sum)))
        return error_set(MR_CORRUPT, "snapshot file %s is damaged", name);
    return status;
}

int64_t checkpoint_list_written_us(const char *folder, const char *name) {
    char *path = xasprintf("%s/%s", folder, name);
    struct stat stat_of;
    int64_t when_us =
        stat(path, &stat_of) == 0 ? (int64_t)stat_of.st_mtim.tv_sec * 1000000 + stat_of.st_mtim.tv_nsec / 1000 : 0;
    free(path);
    return when_us;
}

/* ---- mr_ps_checkpoints_get. */

/* All files have their tables in the same order, so the one behind the last one (*last) is looked at first. */
static mr_ps_checkpoint_table *table_of(mr_ps_checkpoint_info *checkpoint, const snapshot_table *table,
                                        uint32_t *last) {
    for (uint32_t i = 1; i <= checkpoint->table_count; i++) {
        uint32_t at = (*last + i) % checkpoint->table_count;
        if (strcmp(checkpoint->tables[at].name, table->name) == 0) return &checkpoint->tables[*last = at];
    }
    *last = checkpoint->table_count;
    checkpoint->tables = xrealloc(checkpoint->tables, (checkpoint->table_count + 1) * sizeof *checkpoint->tables);
    mr_ps_checkpoint_table *out = &checkpoint->tables[checkpoint->table_count++];
    *out = (mr_ps_checkpoint_table){.kind = (mr_ps_kind)table->schema.kind,
                                    .dtype = table->schema.dtype,
                                    .dim = table->schema.kind == TABLE_SCHEMA_SPARSE ? table->schema.dim : 0};
    snprintf(out->name, sizeof out->name, "%s", table->name);
    return out;
}

static mr_status look_at(span file, mr_ps_checkpoint_info *checkpoint) {
    snapshot_reader reader;
    MR_TRY(snapshot_reader_open(file, &reader));
    mr_status status = MR_OK;
    uint32_t last = 0;
    if (reader.rounds) checkpoint->step = (int64_t)reader.version;
    for (uint32_t i = 0; i < reader.tables && status == MR_OK; i++) {
        snapshot_table table;
        status = snapshot_reader_table(&reader, i, &table);
        if (status != MR_OK) break;
        mr_ps_checkpoint_table *sum = table_of(checkpoint, &table, &last);
        sum->rows += table.rows;
        sum->bytes += table.bytes;
    }
    snapshot_reader_close(&reader);
    return status;
}

static mr_status describe(const char *folder, const checkpoint_list *list, const checkpoint_store_manifest *manifest,
                          mr_ps_checkpoint_info *out) {
    buffer file;
    mr_status status = MR_OK;
    *out = (mr_ps_checkpoint_info){
        .number = manifest->number, .generation = manifest->generation, .slots = manifest->slot_count, .step = -1};
    buffer_init(&file, CHECKPOINT_STORE_FILE_MAX);
    for (uint32_t i = 0; i < manifest->slot_count; i++) {
        char name[DISK_NAME_MAX];
        status = checkpoint_list_read(list, manifest, i, name, &file);
        if (status == MR_OK) status = look_at(span_of(file.data, file.size), out);
        if (status == MR_CORRUPT && out->damage[0] == '\0')
            snprintf(out->damage, sizeof out->damage, "%s", mr_last_error());
        if (status != MR_OK && status != MR_CORRUPT) break;
        status = MR_OK;
        int64_t when_us = checkpoint_list_written_us(folder, name);
        if (when_us > out->written_us) out->written_us = when_us;
        out->bytes += manifest->shards[i].size;
    }
    buffer_fini(&file);
    return status;
}

static void add_damaged(const char *folder, const checkpoint_list *list, mr_ps_checkpoints *out) {
    for (uint32_t i = 0; i < list->damaged_count; i++) {
        mr_ps_checkpoint_info *checkpoint = &out->list[out->count++];
        *checkpoint =
            (mr_ps_checkpoint_info){.step = -1, .written_us = checkpoint_list_written_us(folder, list->damaged[i])};
        snprintf(checkpoint->damage, sizeof checkpoint->damage, "%s is damaged", list->damaged[i]);
    }
}

mr_status mr_ps_checkpoints_get(const char *folder, mr_ps_checkpoints **out) {
    checkpoint_list list;
    if (folder == NULL || out == NULL) return error_set(MR_INVALID, "mr_ps_checkpoints_get: folder or out is NULL");
    MR_TRY(checkpoint_list_open(folder, &list));
    mr_status status = MR_OK;
    mr_ps_checkpoints *made = xcalloc(1, sizeof *made);
    made->list = xcalloc(2 * CHECKPOINT_STORE_KEPT, sizeof *made->list);
    for (uint32_t i = 0; i < list.count && status == MR_OK; i++) {
        mr_ps_checkpoint_info *checkpoint = &made->list[made->count];
        status = describe(folder, &list, &list.manifests[i], checkpoint);
        if (checkpoint->damage[0] == '\0' || checkpoint_list_keeps(&list, checkpoint->number))
            made->count++;
        else
            free(checkpoint->tables);
    }
    add_damaged(folder, &list, made);
    checkpoint_list_close(&list);
    if (status == MR_OK)
        *out = made;
    else
        mr_ps_checkpoints_free(made);
    return status;
}

void mr_ps_checkpoints_free(mr_ps_checkpoints *checkpoints) {
    if (checkpoints == NULL) return;
    for (uint32_t i = 0; i < checkpoints->count; i++) free(checkpoints->list[i].tables);
    free(checkpoints->list);
    free(checkpoints);
}
