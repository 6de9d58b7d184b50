/* shelf.c — storage engine: pushes applied to the tables of a slot. See shelf.h. */
#include "kv/shelf/shelf.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "kv/shelf/shelf_core.h"
#include "kv/shelf/tally.h"

static void *create(void *context, uint32_t slot, bool keeps) {
    shelf *shelf = xcalloc(1, sizeof *shelf);
    shelf->host = context;
    shelf->keeps = keeps;
    return shelf;
}

static void destroy(void *self) {
    shelf *shelf = self;
    for (size_t i = 0; i < shelf->count; i++) shelf_table_destroy(shelf->tables[i]);
    free(shelf->tables);
    free(shelf->dropped);
    opener_fini(&shelf->opener);
    lengths_fini(&shelf->lengths);
    parcel_fini(&shelf->answer);
    if (shelf->lists != NULL) lists_fini(shelf->lists);
    free(shelf->lists);
    free(shelf);
}

/* ---- Tables come and go. */

/* What is there stays as it is; what cannot be here is not made. */
static void define(shelf *shelf, span bytes) {
    definition definition;
    shelf_table *table;
    if (definition_decode(bytes, &definition) != MR_OK || shelf_was_dropped(shelf, definition.id, false)) return;
    table = shelf_table_find(shelf, definition.id, false);
    if (table != NULL) {
        table->refused += definition_differs(&table->definition, &definition) != NULL;
        return;
    }
    mr_status status = shelf_table_create(shelf, &definition, &table);
    if (status == MR_INVALID) return;
    opener_must(status);
    table->made = shelf->applies;
    shelf_insert(shelf, table);
}

static void take_out(shelf *shelf, size_t at) {
    shelf_table_destroy(shelf->tables[at]);
    memmove(shelf->tables + at, shelf->tables + at + 1, (--shelf->count - at) * sizeof *shelf->tables);
}

/* Where the version before is kept, the table stays until the next apply; but not one that this apply has made. */
static void drop(shelf *shelf, uint32_t id) {
    size_t at = shelf_place(shelf, id);
    bool there = at < shelf->count && shelf->tables[at]->definition.id == id;
    shelf_forget(shelf, id);
    if (!there || shelf->tables[at]->gone != 0) return;
    if (shelf->keeps && shelf->tables[at]->made != shelf->applies)
        shelf->tables[at]->gone = shelf->applies;
    else
        take_out(shelf, at);
}

/* ---- Sections. */

static bool is_of(parcel_op op, definition_kind kind) {
    switch (kind) {
    case DEFINITION_SPARSE: return op == PARCEL_ADD_ROWS || op == PARCEL_SET_ROWS || op == PARCEL_ERASE;
    case DEFINITION_VECTORS: return op == PARCEL_ADD_VECTORS || op == PARCEL_SET_VECTORS || op == PARCEL_ERASE;
    case DEFINITION_DENSE: return op == PARCEL_ADD_BLOCK || op == PARCEL_SET_BLOCK;
    }
    return false;
}

static bool change(const shelf_push *push) {
    const parcel_section *section = push->section;
    if (!is_of(section->op, push->table->definition.kind)) return false;
    if (section->op == PARCEL_ERASE) {
        shelf_erase(push->shelf, push->table, section->keys, section->count);
        return true;
    }
    switch (push->table->definition.kind) {
    case DEFINITION_SPARSE: return shelf_push_rows(push);
    case DEFINITION_VECTORS: return shelf_push_vectors(push);
    case DEFINITION_DENSE: return shelf_push_block(push);
    }
    return false;
}

/* Rows that are many are evicted in the order in which they were pushed to, also within a step; ages are of steps. */
static uint64_t time_of(const shelf_table *table, uint64_t moment) {
    const definition *definition = &table->definition;
    if (definition->rows_max != 0 && definition->age_max == 0) return table->now + 1;
    return moment > table->now ? moment : table->now;
}

static void push_section(shelf *shelf, const parcel_section *section, uint64_t moment, uint32_t members) {
    shelf_table *table = shelf_table_find(shelf, section->table, false);
    if (table == NULL) return;
    uint64_t before = table->now;
    table->now = time_of(table, moment);
    shelf_scale scale = shelf_scale_of(table, members, &shelf->lengths);
    shelf_push push = {.shelf = shelf,
                       .table = table,
                       .section = opener_unfold(&shelf->opener, section),
                       .moment = moment,
                       .scale = scale.factor,
                       .sets = parcel_is_set(section->op)};
    bool left_out = scale.none && parcel_is_push(section->op) && !push.sets;
    if (left_out) {
        table->left_out++;
    } else if (push.section == NULL || !change(&push)) {
        table->now = before;
        table->refused++;
        return;
    }
    if (table->touched != shelf->applies) table->version++;
    table->touched = shelf->applies;
}

/* `members` are those of the round, as a section before the others says. */
static void apply_section(shelf *shelf, const parcel_section *section, uint64_t moment, uint32_t *members) {
    if (section->op == PARCEL_DEFINE)
        define(shelf, section->values);
    else if (section->op == PARCEL_DROP)
        drop(shelf, section->table);
    else if (section->op == PARCEL_ROUND)
        *members = section->count == 0 ? 1 : section->count;
    else if (parcel_is_push(section->op) || section->op == PARCEL_ERASE)
        push_section(shelf, section, moment, *members);
}

/* ---- What a push speaks of. */

/* Copies of a slot read bytes: only a push that is settled for the very next apply is read where it lies. */
static bool settle(void *context, span payload, bool now, bale **own) {
    shelf_host *host = context;
    if (host == NULL) return false;
    if (!now) return afar_fetch(host->sight, payload, own) == MR_OK;
    host->lit = afar_is_there(host->sight, payload);
    return host->lit;
}

static void light(shelf *shelf) {
    bool lit = shelf->host != NULL && shelf->host->lit;
    shelf->opener.sight = lit ? shelf->host->sight : NULL;
    if (lit) shelf->host->lit = false;
}

/* ---- One apply. */

/* What was kept is the version before the last; what is here now will be kept. */
static void begin(shelf *shelf) {
    shelf->applies++;
    for (size_t i = 0; shelf->keeps && i < shelf->count;) {
        undo_clear(&shelf->tables[i]->undo);
        if (shelf->tables[i]->gone != 0)
            take_out(shelf, i);
        else
            i++;
    }
}

static void end(shelf *shelf) {
    for (size_t i = 0; i < shelf->count; i++) {
        shelf_table *table = shelf->tables[i];
        if (table->touched != shelf->applies) continue;
        if (table->sparse != NULL && table->gone == 0) shelf_evict(shelf, table);
        undo_end(&table->undo);
    }
}

static void apply_parcel(shelf *shelf, span bytes, uint64_t moment) {
    parcel_section section;
    size_t count;
    uint32_t members = 1;
    if (bytes.size == 0 || parcel_check_last(bytes, &count, &section) != MR_OK) return;
    if (count == 1) {
        apply_section(shelf, &section, moment, &members);
    } else {
        parcel_reader reader = parcel_open(bytes);
        while (parcel_next(&reader, &section)) apply_section(shelf, &section, moment, &members);
    }
    end(shelf);
}

static void apply(void *self, span payload, uint64_t moment) {
    shelf *shelf = self;
    span bytes;
    parcel_tray tray;
    begin(shelf);
    light(shelf);
    opener_must(parcel_align(payload, &tray, &bytes));
    apply_parcel(shelf, bytes, moment);
    shelf->opener.sight = NULL;
    parcel_clear(&tray);
}

/* The same, with what is known of all slots. */
static void apply_normed(void *self, span sum, span norms, uint64_t moment) {
    shelf *shelf = self;
    (void)lengths_read(&shelf->lengths, norms); /* what makes no sense is not known */
    apply(self, sum, moment);
    lengths_fini(&shelf->lengths);
}

/* ---- For those who look on. */

size_t shelf_look_at(const void *self, shelf_look *out, size_t room) {
    const shelf *shelf = self;
    size_t count = 0;
    for (size_t i = 0; i < shelf->count; i++) {
        const shelf_table *table = shelf->tables[i];
        if (table->gone != 0) continue;
        if (count < room)
            out[count] = (shelf_look){.table = table->definition.id,
                                      .kind = table->definition.kind,
                                      .version = table->version,
                                      .now = shelf_table_look(table)};
        count++;
    }
    return count;
}

const values_ops shelf_ops = {"shelf",    create,        destroy,       apply,        tally_begin, tally_add,
                              tally_size, tally_write,   tally_end,     shelf_answer, shelf_size,  shelf_write,
                              shelf_read, shelf_measure, shelf_combine, apply_normed, settle};
