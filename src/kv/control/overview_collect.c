/* overview_collect.c — see overview_collect.h. */
#include "kv/control/overview_collect.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "cluster/consumer_group.h"
#include "kv/control/overview.h"

static void describe_table(const overview_collect_facts *facts, const table_catalog_entry *entry,
                           mr_ps_table_state *out) {
    const table_catalog_table *table = &entry->table;
    const table_schema *schema = &table->schema;
    table_stats_item item = table_stats_sum(facts->list, facts->stall->map, schema->id);
    *out = (mr_ps_table_state){.kind = (mr_ps_kind)schema->kind,
                               .dtype = schema->dtype,
                               .dim = schema->kind == TABLE_SCHEMA_SPARSE ? schema->dim : 0,
                               .arrays = table->array_count,
                               .rows = item.keys,
                               .bytes = item.bytes,
                               .nonfinite = item.left_out};
    memcpy(out->name, table->name, sizeof out->name);
    memcpy(out->optimizer, table->optimizer, sizeof out->optimizer);
    memcpy(out->compression, table->compression, sizeof out->compression);
    memcpy(out->consistency, table->consistency, sizeof out->consistency);
    if (schema->kind == TABLE_SCHEMA_DENSE) out->rows = entry->items;
}

/* Describes the tables of the page; returns the id of the last one, 0 if none follows. */
static uint32_t describe_tables(const overview_collect_facts *facts, mr_ps_overview *out) {
    const table_catalog *tables = facts->tables;
    size_t at = facts->after == UINT32_MAX ? tables->count : table_catalog_place(tables, facts->after + 1);
    size_t left = tables->count - at, count = left < OVERVIEW_TABLES_MAX ? left : OVERVIEW_TABLES_MAX;
    out->counted = table_stats_reported(facts->list, facts->stall->map);
    out->servers = facts->stall->map->server_count;
    out->tables = xcalloc(count + 1, sizeof *out->tables);
    out->table_count = (uint32_t)count;
    for (size_t i = 0; i < count; i++) describe_table(facts, tables->entries[at + i], &out->tables[i]);
    return left > count ? tables->entries[at + count - 1]->table.schema.id : 0;
}

static mr_ps_data_reader holder_of(const consumer_group *group, const consumer_group_member *member) {
    mr_ps_data_reader holder = {.rank = member->id};
    for (size_t i = 0; i < group->part_count; i++) {
        const consumer_group_part *part = &group->parts[i];
        bool holds = part->holder == member->id && part->incarnation == member->incarnation;
        if (!holds || part->position == part->size) continue;
        holder.shards++;
        holder.items += part->size - part->position;
    }
    return holder;
}

static void describe_group(const consumer_group *group, mr_ps_dataset_state *out) {
    *out = (mr_ps_dataset_state){.shards = (uint32_t)group->part_count,
                                 .epoch = group->epoch,
                                 .workers = (uint32_t)consumer_group_group(group, CONSUMER_GROUP_WORKER),
                                 .readers = xcalloc(OVERVIEW_HOLDERS_MAX, sizeof *out->readers)};
    for (size_t i = 0; i < group->part_count; i++) {
        out->shards_done += group->parts[i].position == group->parts[i].size;
        out->items += group->parts[i].size;
        out->items_given += group->parts[i].position;
    }
    for (size_t i = 0; i < group->claims.back_count; i++)
        out->items_back += group->claims.back[i].to - group->claims.back[i].from;
    for (size_t i = 0; i < group->member_count && out->reader_count < OVERVIEW_HOLDERS_MAX; i++)
        out->readers[out->reader_count++] = holder_of(group, &group->members[i]);
}

static void describe_data(const overview_collect_facts *facts, mr_ps_overview *out) {
    span value = metadata_db_value(facts->db, CONSUMER_GROUP_KEY);
    consumer_group group = {0};
    if (value.size == 0 || consumer_group_decode(value, &group) != MR_OK) return;
    describe_group(&group, &out->data);
    consumer_group_fini(&group);
}

static void describe_stall(const overview_collect_facts *facts, mr_ps_overview *out) {
    const stall_watch *watch = facts->watch;
    if (watch->now.kind == STALL_NOTHING) return;
    out->stall_us = facts->wall_us - (facts->stall->now_us - watch->since_us);
    stall_say(&watch->now, facts->stall, out->stall, sizeof out->stall);
    stall_help(&watch->now, facts->stall, out->stall_hint, sizeof out->stall_hint);
}

uint8_t *overview_collect_make(const overview_collect_facts *facts, size_t *size, uint32_t *last) {
    mr_ps_overview *overview = xcalloc(1, sizeof *overview);
    *overview = (mr_ps_overview){.checkpoint = facts->stall->checkpoint,
                                 .checkpoint_us = facts->checkpoint_us,
                                 .every_us = facts->every_us,
                                 .making = facts->making,
                                 .checkpoint_failed = facts->stall->trouble[0] != '\0',
                                 .checkpoint_error_us = facts->trouble_us};
    snprintf(overview->folder, sizeof overview->folder, "%s", facts->stall->folder);
    if (facts->trouble != NULL)
        snprintf(overview->checkpoint_error, sizeof overview->checkpoint_error, "%s", facts->trouble);
    describe_stall(facts, overview);
    *last = describe_tables(facts, overview);
    describe_data(facts, overview);
    uint8_t *bytes = overview_encode(overview, size);
    mr_ps_overview_free(overview);
    return bytes;
}
