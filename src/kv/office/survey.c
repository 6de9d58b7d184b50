/* survey.c — see survey.h. */
#include "kv/office/survey.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "cluster/roster.h"
#include "kv/catalogue.h"
#include "kv/office/overview.h"

static void describe_table(const catalogue_table *table, const stock *stock, mr_ps_table_state *out) {
    static const struct stock_item nothing = {.keys = 0};
    const definition *definition = &table->definition;
    const stock_item *item = stock_find(stock, definition->id);
    if (item == NULL) item = &nothing;
    *out = (mr_ps_table_state){.kind = (mr_ps_kind)definition->kind,
                               .dtype = definition->dtype,
                               .dim = definition->kind == DEFINITION_SPARSE ? definition->dim : 0,
                               .arrays = table->array_count,
                               .rows = item->keys,
                               .bytes = item->bytes,
                               .nonfinite = item->left_out};
    memcpy(out->name, table->name, sizeof out->name);
    memcpy(out->optimizer, table->optimizer, sizeof out->optimizer);
    memcpy(out->compression, table->compression, sizeof out->compression);
    memcpy(out->consistency, table->consistency, sizeof out->consistency);
    if (definition->kind == DEFINITION_DENSE) out->rows = catalogue_table_items(table);
}

static void describe_tables(const survey_facts *facts, mr_ps_overview *out) {
    const chart *chart = facts->awaited->chart;
    stock stock;
    catalogue catalogue = {0};
    out->counted = stocks_sum(facts->stocks, chart, &stock);
    out->servers = chart->server_count;
    if (catalogue_decode(keeper_value(facts->keeper, CATALOGUE_KEY), &catalogue) != MR_OK) return;
    out->tables = xcalloc(catalogue.count + 1, sizeof *out->tables);
    out->table_count = catalogue.count;
    for (uint32_t i = 0; i < catalogue.count; i++) describe_table(&catalogue.tables[i], &stock, &out->tables[i]);
    catalogue_fini(&catalogue);
}

static mr_ps_data_reader holder_of(const roster *roster, const roster_member *member) {
    mr_ps_data_reader holder = {.rank = member->id};
    for (size_t i = 0; i < roster->part_count; i++) {
        const roster_part *part = &roster->parts[i];
        bool holds = part->holder == member->id && part->incarnation == member->incarnation;
        if (!holds || part->position == part->size) continue;
        holder.shards++;
        holder.items += part->size - part->position;
    }
    return holder;
}

static void describe_roster(const roster *roster, mr_ps_dataset_state *out) {
    *out = (mr_ps_dataset_state){.shards = (uint32_t)roster->part_count,
                                 .epoch = roster->epoch,
                                 .workers = (uint32_t)roster_group(roster, ROSTER_WORKER),
                                 .readers = xcalloc(OVERVIEW_HOLDERS_MAX, sizeof *out->readers)};
    for (size_t i = 0; i < roster->part_count; i++) {
        out->shards_done += roster->parts[i].position == roster->parts[i].size;
        out->items += roster->parts[i].size;
        out->items_given += roster->parts[i].position;
    }
    for (size_t i = 0; i < roster->claims.back_count; i++)
        out->items_back += roster->claims.back[i].to - roster->claims.back[i].from;
    for (size_t i = 0; i < roster->member_count && out->reader_count < OVERVIEW_HOLDERS_MAX; i++)
        out->readers[out->reader_count++] = holder_of(roster, &roster->members[i]);
}

static void describe_data(const survey_facts *facts, mr_ps_overview *out) {
    span value = keeper_value(facts->keeper, ROSTER_KEY);
    roster roster = {0};
    if (value.size == 0 || roster_decode(value, &roster) != MR_OK) return;
    describe_roster(&roster, &out->data);
    roster_fini(&roster);
}

static void describe_awaited(const survey_facts *facts, mr_ps_overview *out) {
    const awaited_watch *watch = facts->watch;
    if (watch->now.kind == AWAITED_NOTHING) return;
    out->stall_us = facts->wall_us - (facts->awaited->now_us - watch->since_us);
    awaited_say(&watch->now, facts->awaited, out->stall, sizeof out->stall);
    awaited_help(&watch->now, facts->awaited, out->stall_hint, sizeof out->stall_hint);
}

uint8_t *survey_make(const survey_facts *facts, size_t *size) {
    mr_ps_overview *overview = xcalloc(1, sizeof *overview);
    *overview = (mr_ps_overview){.checkpoint = facts->awaited->checkpoint,
                                 .checkpoint_us = facts->checkpoint_us,
                                 .every_us = facts->every_us,
                                 .making = facts->making,
                                 .checkpoint_failed = facts->awaited->trouble[0] != '\0',
                                 .checkpoint_error_us = facts->trouble_us};
    snprintf(overview->folder, sizeof overview->folder, "%s", facts->awaited->folder);
    if (facts->trouble != NULL)
        snprintf(overview->checkpoint_error, sizeof overview->checkpoint_error, "%s", facts->trouble);
    describe_awaited(facts, overview);
    describe_tables(facts, overview);
    describe_data(facts, overview);
    uint8_t *bytes = overview_encode(overview, size);
    mr_ps_overview_free(overview);
    return bytes;
}
