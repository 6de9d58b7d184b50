/* tables.c — tables and requests (miniray/ps.h): handles of a connection. Tested by tests/ps_bounds_test.c. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/option_struct.h"
#include "kv/registrar.h"
#include "kv/shelf/own.h"
#include "kv/worker/connection.h"
#include "kv/worker/errand.h"
#include "kv/worker/sheet.h"
#include "kv/worker/splitter.h"

struct mr_ps_table {
    connection_handle handle;
    sheet sheet;
    mr_ps_array *arrays; /* owned: as users see them */
};

/* ---- At the scheduler. */

typedef struct draft { /* what an edit is about */
    const char *name;
    catalogue_table wanted;    /* of a new table */
    catalogue_table found;     /* owned */
    uint32_t id;               /* of one that goes */
    mr_ps_table_list *listing; /* owned */
} draft;

static void find(draft *draft, const catalogue_table *table) {
    catalogue_table_fini(&draft->found);
    catalogue_table_copy(&draft->found, table);
}

static mr_status refuse_other(const catalogue_table *there, const catalogue_table *wanted, const char *field) {
    if (strcmp(field, "arrays") != 0)
        return error_set(MR_EXISTS, "table '%s' exists with another %s", there->name, field);
    if (there->array_count != wanted->array_count)
        return error_set(MR_EXISTS, "table '%s' exists with %u arrays, not %u", there->name, there->array_count,
                         wanted->array_count);
    for (uint32_t i = 0; i < there->array_count; i++)
        if (strcmp(there->arrays[i].name, wanted->arrays[i].name) != 0)
            return error_set(MR_EXISTS, "table '%s' exists with array '%s' in place of '%s'", there->name,
                             there->arrays[i].name, wanted->arrays[i].name);
    return error_set(MR_EXISTS, "table '%s' exists with arrays of other shapes", there->name);
}

static mr_status create_edit(void *argument, catalogue *catalogue, bool *changed) {
    draft *draft = argument;
    const catalogue_table *there = catalogue_find(catalogue, draft->name);
    const char *field = there == NULL ? NULL : catalogue_table_differs(there, &draft->wanted);
    if (field != NULL) return refuse_other(there, &draft->wanted, field);
    if (there == NULL) {
        MR_TRY(catalogue_add(catalogue, &draft->wanted));
        *changed = true;
    }
    find(draft, catalogue_find(catalogue, draft->name));
    return MR_OK;
}

static mr_status open_edit(void *argument, catalogue *catalogue, bool *changed) {
    draft *draft = argument;
    const catalogue_table *there = catalogue_find(catalogue, draft->name);
    if (there == NULL) return error_set(MR_NOT_FOUND, "table '%s' does not exist", draft->name);
    find(draft, there);
    return MR_OK;
}

static mr_status drop_edit(void *argument, catalogue *catalogue, bool *changed) {
    draft *draft = argument;
    *changed = catalogue_remove(catalogue, draft->id); /* else somebody else has dropped it, or it is ours, decided */
    return MR_OK;
}

static mr_status list_edit(void *argument, catalogue *catalogue, bool *changed) {
    draft *draft = argument;
    size_t count = catalogue->count;
    mr_ps_table_list *listing = xcalloc(1, sizeof *listing + count * (sizeof *listing->names + MR_PS_NAME_MAX));
    listing->count = count;
    listing->names = (const char **)(listing + 1);
    char *names = (char *)(listing->names + count);
    for (size_t i = 0; i < count; i++, names += MR_PS_NAME_MAX)
        listing->names[i] = memcpy(names, catalogue->tables[i].name, MR_PS_NAME_MAX);
    free(draft->listing);
    draft->listing = listing;
    return MR_OK;
}

static mr_status is_answered(customer *customer, void *ballot) { return ballot_status(ballot); }

/* Locked. */
static mr_status decide(mr_ps *ps, registrar_edit_fn *edit, draft *draft, int64_t timeout_us) {
    ballot *ballot = registrar_begin(customer_coordinator(connection_customer(ps)), &(registrar_ask){edit, draft});
    mr_status status = connection_await(ps, is_answered, ballot, timeout_us);
    ballot_end(ballot);
    return status;
}

/* ---- Handles. */

static mr_ps_array *arrays_of(const catalogue_table *table) {
    mr_ps_array *arrays = xcalloc(table->array_count + 1, sizeof *arrays);
    for (uint32_t i = 0; i < table->array_count; i++) {
        arrays[i] = (mr_ps_array){.name = table->arrays[i].name, .dims = table->arrays[i].dims};
        memcpy(arrays[i].shape, table->arrays[i].shape, sizeof arrays[i].shape);
    }
    return arrays;
}

/* Locked. */
static mr_status make_handle(mr_ps *ps, const catalogue_table *found, mr_ps_table **out) {
    mr_ps_table *table = xcalloc(1, sizeof *table);
    mr_status status = sheet_init(&table->sheet, found, customer_chart(connection_customer(ps)));
    if (status != MR_OK) {
        free(table);
        return status;
    }
    if (sheet_in_rounds(&table->sheet)) customer_join(connection_customer(ps));
    table->arrays = arrays_of(&table->sheet.table);
    table->handle.ps = ps;
    list_push_back(connection_handles(ps), &table->handle.link);
    *out = table;
    return MR_OK;
}

/* Only a round knows something of all slots. */
static mr_status check_rounds(consistency consistency, const definition *definition) {
    if (consistency.kind == CONSISTENCY_BSP || !definition_needs_norms(definition)) return MR_OK;
    if (definition->clip_norm != 0)
        return error_set(MR_INVALID, "clip_norm is %g, but only bsp tables can clip; clip before pushing",
                         (double)definition->clip_norm);
    return error_set(MR_INVALID, "optimizer '%s' of a dense table needs bsp, for norms of whole arrays",
                     definition->optimizer);
}

/* Of a new table: what the deployment says, where the options say nothing. Locked. */
static mr_status settle_consistency(mr_ps *ps, catalogue_table *wanted) {
    consistency consistency;
    MR_TRY(catalogue_table_consistency(wanted, customer_chart(connection_customer(ps)), &consistency));
    consistency_write(consistency, wanted->consistency);
    return check_rounds(consistency, &wanted->definition);
}

/* Whether it could be opened: one that cannot be would be there for ever. Locked. */
static mr_status check_placement(mr_ps *ps, const catalogue_table *wanted) {
    sheet sheet;
    MR_TRY(sheet_init(&sheet, wanted, customer_chart(connection_customer(ps))));
    sheet_fini(&sheet);
    return MR_OK;
}

static mr_status obtain(mr_ps *ps, registrar_edit_fn *edit, draft *draft, int64_t timeout_us, mr_ps_table **out) {
    connection_lock(ps);
    mr_status status = edit == create_edit ? settle_consistency(ps, &draft->wanted) : MR_OK;
    if (status == MR_OK && edit == create_edit) status = check_placement(ps, &draft->wanted);
    if (status == MR_OK) status = decide(ps, edit, draft, timeout_us);
    if (status == MR_OK) status = make_handle(ps, &draft->found, out);
    connection_unlock(ps);
    catalogue_table_fini(&draft->found);
    return status;
}

/* A codec that is asked for here has to be here. */
static mr_status check_press(press_id id) {
    press *press;
    if (id == PRESS_STORED) return MR_OK;
    if (press_open(id, &press) != MR_OK) return error_set(MR_INVALID, "codec: %s", mr_last_error());
    press_close(press);
    return MR_OK;
}

mr_status mr_ps_table_create(mr_ps *ps, const char *name, const mr_ps_table_options *options, int64_t timeout_us,
                             mr_ps_table **out) {
    static const mr_ps_table_options plain = MR_INIT(mr_ps_table_options);
    draft draft = {.name = name};
    mr_ps_table_options copy;
    OPTION_STRUCT_READ(mr_ps_table_options, admit, options, copy);
    MR_TRY(catalogue_table_init(&draft.wanted, name, options == NULL ? &plain : options));
    mr_status status = check_press(draft.wanted.definition.press);
    if (status == MR_OK) status = own_ask(ps, draft.wanted.optimizer, timeout_us);
    if (status == MR_OK) status = obtain(ps, create_edit, &draft, timeout_us, out);
    catalogue_table_fini(&draft.wanted);
    return status;
}

mr_status mr_ps_table_open(mr_ps *ps, const char *name, int64_t timeout_us, mr_ps_table **out) {
    draft draft = {.name = name};
    if (name == NULL) return error_set(MR_INVALID, "mr_ps_table_open: the table's name is NULL");
    return obtain(ps, open_edit, &draft, timeout_us, out);
}

static mr_status check_open(const mr_ps_table *table) {
    if (table->handle.ps == NULL) return error_set(MR_CLOSED, "the connection was closed (mr_ps_close)");
    return MR_OK;
}

static void mark_dropped(mr_ps *ps, uint32_t id) {
    list_for_each (item, connection_handles(ps)) {
        mr_ps_table *table = container_of(item, mr_ps_table, handle.link);
        if (table->sheet.id == id) table->sheet.dropped = true;
    }
}

mr_status mr_ps_table_drop(mr_ps_table *table, int64_t timeout_us) {
    MR_TRY(check_open(table));
    mr_ps *ps = table->handle.ps;
    draft draft = {.id = table->sheet.id};
    connection_lock(ps);
    mr_status status = table->sheet.dropped ? error_set(MR_NOT_FOUND, "table '%s' was dropped", table->sheet.table.name)
                                            : decide(ps, drop_edit, &draft, timeout_us);
    if (status == MR_OK) {
        mark_dropped(ps, draft.id);
        customer_drop(connection_customer(ps), draft.id);
        connection_leave(ps);
    }
    connection_unlock(ps);
    return status;
}

void mr_ps_table_free(mr_ps_table *table) {
    if (table == NULL) return;
    mr_ps *ps = table->handle.ps;
    if (ps != NULL) connection_lock(ps);
    list_remove(&table->handle.link);
    if (ps != NULL) connection_unlock(ps);
    sheet_fini(&table->sheet);
    free(table->arrays);
    free(table);
}

const char *mr_ps_table_name(const mr_ps_table *table) { return table->sheet.table.name; }

void mr_ps_table_options_get(const mr_ps_table *table, mr_ps_table_options *out) {
    const catalogue_table *t = &table->sheet.table;
    const definition *d = &t->definition;
    mr_ps_table_options all = {.size = out->size,
                               .kind = (mr_ps_kind)d->kind,
                               .dtype = d->dtype,
                               .dim = d->dim,
                               .arrays = table->arrays,
                               .array_count = t->array_count,
                               .block = d->block,
                               .ordered = d->ordered,
                               .first_key = d->first_key,
                               .last_key = d->last_key,
                               .optimizer = t->optimizer,
                               .schedule = t->schedule,
                               .initializer = t->initializer,
                               .compression = t->compression,
                               .consistency = t->consistency,
                               .rate = (float)d->schedule.rate,
                               .seed = d->init.seed,
                               .clip_norm = d->clip_norm,
                               .average = d->average,
                               .refuse_nan = d->refuse_nan,
                               .admit = d->kind == DEFINITION_SPARSE && d->admit == 0 ? 1 : d->admit,
                               .rows_max = d->rows_max,
                               .age_max = d->age_max,
#define X(name, ...) .name = d->settings.name,
                               MR_PS_HYPERPARAMETERS(X)
#undef X
    };
    memcpy(out, &all, out->size < sizeof all ? out->size : sizeof all);
}

mr_status mr_ps_tables(mr_ps *ps, int64_t timeout_us, mr_ps_table_list **out) {
    draft draft = {0};
    connection_lock(ps);
    mr_status status = decide(ps, list_edit, &draft, timeout_us);
    connection_unlock(ps);
    if (status == MR_OK)
        *out = draft.listing;
    else
        free(draft.listing);
    return status;
}

void mr_ps_table_list_free(mr_ps_table_list *listing) { free(listing); }

/* ---- Versions. */

struct mr_ps_version {
    uint32_t table;        /* whose slots they are */
    errand_mark *versions; /* owned */
};

mr_status mr_ps_version_create(const mr_ps_table *table, mr_ps_version **out) {
    uint32_t slots = table->sheet.placement.slots;
    mr_ps_version *mark = xcalloc(1, sizeof *mark);
    mark->table = table->sheet.id;
    mark->versions = xcalloc(1, sizeof *mark->versions + slots * sizeof *mark->versions->versions);
    mark->versions->slots = slots;
    *out = mark;
    return MR_OK;
}

uint64_t mr_ps_version_changed(const mr_ps_version *mark) { return mark->versions->changed; }

void mr_ps_version_free(mr_ps_version *mark) {
    if (mark == NULL) return;
    free(mark->versions);
    free(mark);
}

/* ---- Requests. */

typedef mr_status travel_fn(customer *customer, const errand *errand, uint64_t *ticket);

static int64_t patience_us(int64_t timeout_us) { return timeout_us == 0 ? MR_PS_TIMEOUT_US : timeout_us; }

/* Nobody has its number: what is still under way after that must not need the caller's memory. */
static mr_status wait_for(mr_ps *ps, uint64_t number, int64_t timeout_us) {
    mr_status status = connection_wait(ps, number, patience_us(timeout_us));
    if (status == MR_TIMEOUT || status == MR_NOMEM) MR_TRY(customer_abandon(connection_customer(ps), number));
    return status;
}

static mr_status check_mark(const mr_ps_table *table, const mr_ps_version *mark) {
    if (mark == NULL || mark->table == table->sheet.id) return MR_OK;
    return error_set(MR_INVALID, "the version belongs to another table than '%s'", table->sheet.table.name);
}

static mr_status request(mr_ps_table *table, travel_fn *travel, errand *errand, const mr_ps_request_options *options,
                         mr_ps_ticket *ticket) {
    mr_ps_request_options copy;
    MR_TRY(check_open(table));
    OPTION_STRUCT_READ(mr_ps_request_options, priority, options, copy);
    if (options != NULL) MR_TRY(check_mark(table, options->version));
    mr_ps *ps = table->handle.ps;
    uint64_t number;
    int64_t timeout_us = options == NULL ? 0 : options->timeout_us;
    errand->sheet = &table->sheet;
    if (options != NULL) {
        errand->priority = options->priority;
        errand->set = options->set != 0;
        errand->mark = options->version == NULL ? NULL : options->version->versions;
        errand->done = options->done;
        errand->context = options->context;
    }
    bool waits = ticket == NULL && errand->done == NULL;
    errand->kept = ticket != NULL || waits;
    if (waits) MR_TRY(connection_check_wait());
    connection_lock(ps);
    mr_status status = travel(connection_customer(ps), errand, &number);
    if (status == MR_STALE && connection_admit(ps, errand->values != NULL, patience_us(timeout_us), &status))
        status = travel(connection_customer(ps), errand, &number);
    if (status == MR_OK && waits)
        status = wait_for(ps, number, timeout_us);
    else if (status == MR_OK)
        connection_leave(ps);
    if (status == MR_OK && ticket != NULL) ticket->v = number;
    connection_unlock(ps);
    return status;
}

mr_status mr_ps_push(mr_ps_table *table, const uint64_t *keys, size_t count, const void *values,
                     const uint32_t *lengths, const mr_ps_request_options *options, mr_ps_ticket *ticket) {
    errand errand = {.pushes = true, .keys = keys, .count = count, .values = values, .lengths = lengths};
    return request(table, errand_keys, &errand, options, ticket);
}

mr_status mr_ps_pull(mr_ps_table *table, const uint64_t *keys, size_t count, void *values, const uint32_t *lengths,
                     const mr_ps_request_options *options, mr_ps_ticket *ticket) {
    errand errand = {.pulls = true, .keys = keys, .count = count, .to = values, .lengths = lengths};
    return request(table, errand_keys, &errand, options, ticket);
}

mr_status mr_ps_push_pull(mr_ps_table *table, const uint64_t *keys, size_t count, const void *pushed, void *pulled,
                          const uint32_t *lengths, const mr_ps_request_options *options, mr_ps_ticket *ticket) {
    errand errand = {.pushes = true,
                     .pulls = true,
                     .keys = keys,
                     .count = count,
                     .values = pushed,
                     .to = pulled,
                     .lengths = lengths};
    return request(table, errand_keys, &errand, options, ticket);
}

mr_status mr_ps_pull_range(mr_ps_table *table, uint64_t first, uint64_t last, uint64_t *keys, void *values, size_t room,
                           size_t *count, const mr_ps_request_options *options, mr_ps_ticket *ticket) {
    errand errand = {.first = first, .last = last, .found = keys, .to = values, .count = room, .found_count = count};
    if (options != NULL && options->version != NULL)
        return error_set(MR_INVALID, "mr_ps_pull_range does not take a version");
    return request(table, errand_range, &errand, options, ticket);
}

static mr_status check_range(const mr_ps_table *table, uint64_t first, size_t count) {
    const definition *definition = &table->sheet.table.definition;
    if (definition->kind != DEFINITION_SPARSE || !definition->ordered)
        return error_set(MR_INVALID, "table '%s' has no ranges: only ordered sparse tables have",
                         table->sheet.table.name);
    if (count > SPLITTER_KEYS_MAX)
        return error_set(MR_TOO_LARGE, "%zu keys in one request: the limit is %d", count, SPLITTER_KEYS_MAX);
    if (count != 0 && count - 1 > UINT64_MAX - first)
        return error_set(MR_INVALID, "%zu keys from %llu on: beyond 2^64 - 1", count, (unsigned long long)first);
    return MR_OK;
}

/* Of consecutive keys. */
static mr_status request_range(mr_ps_table *table, uint64_t first, errand *errand, const mr_ps_request_options *options,
                               mr_ps_ticket *ticket) {
    void *memory;
    MR_TRY(check_range(table, first, errand->count));
    MR_TRY(alloc_try(errand->count * sizeof(uint64_t), &memory));
    uint64_t *keys = memory;
    for (size_t i = 0; i < errand->count; i++) keys[i] = first + i;
    errand->keys = keys;
    mr_status status = request(table, errand_keys, errand, options, ticket);
    free(memory);
    return status;
}

mr_status mr_ps_push_range(mr_ps_table *table, uint64_t first, size_t count, const void *values,
                           const mr_ps_request_options *options, mr_ps_ticket *ticket) {
    errand errand = {.pushes = true, .count = count, .values = values};
    return request_range(table, first, &errand, options, ticket);
}

mr_status mr_ps_push_pull_range(mr_ps_table *table, uint64_t first, size_t count, const void *pushed, void *pulled,
                                const mr_ps_request_options *options, mr_ps_ticket *ticket) {
    errand errand = {.pushes = true, .pulls = true, .count = count, .values = pushed, .to = pulled};
    return request_range(table, first, &errand, options, ticket);
}

mr_status mr_ps_push_array(mr_ps_table *table, uint32_t array, const void *values, uint64_t first, size_t count,
                           const mr_ps_request_options *options, mr_ps_ticket *ticket) {
    errand errand = {.pushes = true, .array = array, .first = first, .count = count, .values = values};
    return request(table, errand_array, &errand, options, ticket);
}

mr_status mr_ps_pull_array(mr_ps_table *table, uint32_t array, void *values, uint64_t first, size_t count,
                           const mr_ps_request_options *options, mr_ps_ticket *ticket) {
    errand errand = {.pulls = true, .array = array, .first = first, .count = count, .to = values};
    return request(table, errand_array, &errand, options, ticket);
}

mr_status mr_ps_push_pull_array(mr_ps_table *table, uint32_t array, const void *pushed, void *pulled, uint64_t first,
                                size_t count, const mr_ps_request_options *options, mr_ps_ticket *ticket) {
    errand errand = {
        .pushes = true, .pulls = true, .array = array, .first = first, .count = count, .values = pushed, .to = pulled};
    return request(table, errand_array, &errand, options, ticket);
}
