/* inventory.c — see inventory.h; and mr_ps_checkpoints_get (miniray/ps.h). */
#include "kv/inventory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/alloc.h"
#include "base/error.h"
#include "kv/cellar.h"
#include "kv/shelf/slot_look.h"
#include "miniray/admin.h"

/* ---- Manifests. */

static void keep(inventory *inventory, depot_manifest *manifest) {
    uint32_t at = 0;
    if (manifest->number == 0 || inventory_find(inventory, manifest->number) != NULL) {
        depot_manifest_fini(manifest);
        return;
    }
    while (at < inventory->count && inventory->manifests[at].number > manifest->number) at++;
    memmove(inventory->manifests + at + 1, inventory->manifests + at,
            (inventory->count++ - at) * sizeof *inventory->manifests);
    inventory->manifests[at] = *manifest;
}

static mr_status read_manifest(inventory *inventory, const char *name, bool *there) {
    buffer bytes;
    depot_manifest manifest;
    buffer_init(&bytes, DEPOT_MANIFEST_MAX);
    mr_status status = disk_read_all(inventory->disk, name, DEPOT_MANIFEST_MAX, &bytes);
    *there |= status == MR_OK || status == MR_TOO_LARGE;
    bool foreign = status == MR_OK && depot_manifest_check(name, span_of(bytes.data, bytes.size)) != MR_OK;
    if (foreign) status = MR_CORRUPT;
    if (status == MR_OK) status = depot_manifest_decode(span_of(bytes.data, bytes.size), &manifest);
    if (status == MR_OK) keep(inventory, &manifest);
    bool damaged = !foreign && (status == MR_CORRUPT || status == MR_TOO_LARGE);
    if (damaged) snprintf(inventory->damaged[inventory->damaged_count++], DISK_NAME_MAX, "%s", name);
    buffer_fini(&bytes);
    return damaged || status == MR_NOT_FOUND ? MR_OK : status;
}

static mr_status read_manifests(inventory *inventory, const char *folder) {
    bool there = false;
    MR_TRY(read_manifest(inventory, DEPOT_MANIFEST, &there));
    for (uint32_t i = 0; i < DEPOT_KEPT - 1; i++) {
        char name[DISK_NAME_MAX];
        depot_name_old(name, i);
        MR_TRY(read_manifest(inventory, name, &there));
    }
    if (!there || (inventory->count == 0 && inventory->damaged_count == 0))
        return error_set(MR_NOT_FOUND, "no checkpoint in %s", folder);
    return MR_OK;
}

mr_status inventory_open(const char *folder, inventory *out) {
    struct stat stat_of;
    *out = (inventory){0};
    if (stat(folder, &stat_of) != 0 || !S_ISDIR(stat_of.st_mode))
        return error_set(MR_NOT_FOUND, "the directory %s does not exist", folder);
    MR_TRY(disk_open(folder, &out->disk));
    mr_status status = read_manifests(out, folder);
    if (status != MR_OK) inventory_close(out);
    return status;
}

void inventory_close(inventory *inventory) {
    for (uint32_t i = 0; i < inventory->count; i++) depot_manifest_fini(&inventory->manifests[i]);
    disk_close(inventory->disk);
    *inventory = (struct inventory){0};
}

const depot_manifest *inventory_find(const inventory *inventory, uint64_t number) {
    for (uint32_t i = 0; i < inventory->count; i++)
        if (inventory->manifests[i].number == number) return &inventory->manifests[i];
    return NULL;
}

bool inventory_keeps(const inventory *inventory, uint64_t number) {
    struct inventory now = {.disk = inventory->disk};
    bool kept = read_manifests(&now, "") == MR_OK && inventory_find(&now, number) != NULL;
    for (uint32_t i = 0; i < now.count; i++) depot_manifest_fini(&now.manifests[i]);
    return kept;
}

mr_status inventory_read(const inventory *inventory, const depot_manifest *manifest, uint32_t slot,
                         char name[DISK_NAME_MAX], buffer *out) {
    const depot_shard *shard = &manifest->shards[slot];
    depot_name_shard(name, shard->place, slot, CELLAR_ENDING);
    mr_status status = disk_read_all(inventory->disk, name, DEPOT_FILE_MAX, out);
    if (status == MR_NOT_FOUND) return error_set(MR_CORRUPT, "snapshot file %s is missing", name);
    if (status == MR_TOO_LARGE ||
        (status == MR_OK && (out->size != shard->size || XXH3_64bits(out->data, out->size) != shard->sum)))
        return error_set(MR_CORRUPT, "snapshot file %s is damaged", name);
    return status;
}

int64_t inventory_written_us(const char *folder, const char *name) {
    char *path = xasprintf("%s/%s", folder, name);
    struct stat stat_of;
    int64_t when_us =
        stat(path, &stat_of) == 0 ? (int64_t)stat_of.st_mtim.tv_sec * 1000000 + stat_of.st_mtim.tv_nsec / 1000 : 0;
    free(path);
    return when_us;
}

/* ---- mr_ps_checkpoints_get. */

static mr_ps_checkpoint_table *table_of(mr_ps_checkpoint_info *checkpoint, const slot_table *table) {
    for (uint32_t i = 0; i < checkpoint->table_count; i++)
        if (strcmp(checkpoint->tables[i].name, table->name) == 0) return &checkpoint->tables[i];
    checkpoint->tables = xrealloc(checkpoint->tables, (checkpoint->table_count + 1) * sizeof *checkpoint->tables);
    mr_ps_checkpoint_table *out = &checkpoint->tables[checkpoint->table_count++];
    *out = (mr_ps_checkpoint_table){.kind = (mr_ps_kind)table->definition.kind,
                                    .dtype = table->definition.dtype,
                                    .dim = table->definition.kind == DEFINITION_SPARSE ? table->definition.dim : 0};
    snprintf(out->name, sizeof out->name, "%s", table->name);
    return out;
}

static mr_status look_at(span file, mr_ps_checkpoint_info *checkpoint) {
    slot_look look;
    MR_TRY(slot_look_open(file, &look));
    mr_status status = MR_OK;
    if (look.rounds) checkpoint->step = (int64_t)look.version;
    for (uint32_t i = 0; i < look.tables && status == MR_OK; i++) {
        slot_table table;
        status = slot_look_table(&look, i, &table);
        if (status != MR_OK) break;
        mr_ps_checkpoint_table *sum = table_of(checkpoint, &table);
        sum->rows += table.rows;
        sum->bytes += table.bytes;
    }
    slot_look_close(&look);
    return status;
}

static mr_status describe(const char *folder, const inventory *inventory, const depot_manifest *manifest,
                          mr_ps_checkpoint_info *out) {
    buffer file;
    mr_status status = MR_OK;
    *out = (mr_ps_checkpoint_info){
        .number = manifest->number, .generation = manifest->generation, .slots = manifest->slot_count, .step = -1};
    buffer_init(&file, DEPOT_FILE_MAX);
    for (uint32_t i = 0; i < manifest->slot_count; i++) {
        char name[DISK_NAME_MAX];
        status = inventory_read(inventory, manifest, i, name, &file);
        if (status == MR_OK) status = look_at(span_of(file.data, file.size), out);
        if (status == MR_CORRUPT && out->damage[0] == '\0')
            snprintf(out->damage, sizeof out->damage, "%s", mr_last_error());
        if (status != MR_OK && status != MR_CORRUPT) break;
        status = MR_OK;
        int64_t when_us = inventory_written_us(folder, name);
        if (when_us > out->written_us) out->written_us = when_us;
        out->bytes += manifest->shards[i].size;
    }
    buffer_fini(&file);
    return status;
}

static void add_damaged(const char *folder, const inventory *inventory, mr_ps_checkpoints *out) {
    for (uint32_t i = 0; i < inventory->damaged_count; i++) {
        mr_ps_checkpoint_info *checkpoint = &out->list[out->count++];
        *checkpoint =
            (mr_ps_checkpoint_info){.step = -1, .written_us = inventory_written_us(folder, inventory->damaged[i])};
        snprintf(checkpoint->damage, sizeof checkpoint->damage, "%s is damaged", inventory->damaged[i]);
    }
}

mr_status mr_ps_checkpoints_get(const char *folder, mr_ps_checkpoints **out) {
    inventory inventory;
    if (folder == NULL || out == NULL) return error_set(MR_INVALID, "mr_ps_checkpoints_get: folder or out is NULL");
    MR_TRY(inventory_open(folder, &inventory));
    mr_status status = MR_OK;
    mr_ps_checkpoints *made = xcalloc(1, sizeof *made);
    made->list = xcalloc(2 * DEPOT_KEPT, sizeof *made->list);
    for (uint32_t i = 0; i < inventory.count && status == MR_OK; i++) {
        mr_ps_checkpoint_info *checkpoint = &made->list[made->count];
        status = describe(folder, &inventory, &inventory.manifests[i], checkpoint);
        if (checkpoint->damage[0] == '\0' || inventory_keeps(&inventory, checkpoint->number))
            made->count++;
        else
            free(checkpoint->tables);
    }
    add_damaged(folder, &inventory, made);
    inventory_close(&inventory);
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
