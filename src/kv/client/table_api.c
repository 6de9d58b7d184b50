/* table_api.c — tables and requests (miniray/ps.h): handles of a connection. Tested by tests/ps_bounds_test.c. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/nearest_name.h"
#include "base/option_struct.h"
#include "base/plural.h"
#include "kv/client/kv_request.h"
#include "kv/client/ps_connection.h"
#include "kv/client/server_query.h"
#include "kv/client/splitter.h"
#include "kv/client/table_info.h"
#include "kv/control/catalog_client.h"

struct mr_ps_table {
    ps_connection_handle handle;
    table_info table;
    mr_ps_array *arrays; /* owned: as shown to the user */
};

/* ---- The table catalog. */

static mr_status refuse_other(const table_catalog_table *there, const table_catalog_table *wanted, const char *field) {
    if (strcmp(field, "dim") == 0)
        return error_set(MR_EXISTS, "table '%s' exists with dim %u, not %u", there->name, there->schema.dim,
                         wanted->schema.dim);
#define X(text)                                                                                              \
    if (strcmp(field, #text) == 0)                                                                           \
        return error_set(MR_EXISTS, "table '%s' exists with another %s: '%s', not '%s'", there->name, field, \
                         there->text, wanted->text);
    TABLE_CATALOG_TEXTS(X)
#undef X
    if (strcmp(field, "arrays") != 0)
        return error_set(MR_EXISTS,
                         "table '%s' exists with another %s; open it by its name alone, or choose another name",
                         there->name, field);
    if (there->array_count != wanted->array_count)
        return error_set(MR_EXISTS, "table '%s' exists with %u array%s, not %u", there->name, there->array_count,
                         plural(there->array_count), wanted->array_count);
    for (uint32_t i = 0; i < there->array_count; i++)
        if (strcmp(there->arrays[i].name, wanted->arrays[i].name) != 0)
            return error_set(MR_EXISTS, "table '%s' exists with array '%s' in place of '%s'", there->name,
                             there->arrays[i].name, wanted->arrays[i].name);
    return error_set(MR_EXISTS, "table '%s' exists with arrays of other shapes", there->name);
}

static mr_status is_answered(kv_worker *worker, void *query) { return catalog_query_status(query); }

/* Waits for the scheduler; the lock is held. `what` is done with the table of this name, or NULL. */
static mr_status await(mr_ps *ps, const char *what, const char *name, catalog_query *query, int64_t timeout_us) {
    char text[MR_PS_NAME_MAX + 40];
    snprintf(text, sizeof text, "%s%s%s%s", what, name == NULL ? "" : " table '", name == NULL ? "" : name,
             name == NULL ? "" : "'");
    return ps_connection_await(ps, text, PS_CONNECTION_SCHEDULER, is_answered, query, timeout_us);
}

static catalog_client *catalog_of(mr_ps *ps) { return kv_worker_catalog(ps_connection_worker(ps)); }

/* ---- Handles. */

static mr_ps_array *arrays_of(const table_catalog_table *table) {
    mr_ps_array *arrays = xcalloc(table->array_count + 1, sizeof *arrays);
    for (uint32_t i = 0; i < table->array_count; i++) {
        arrays[i] = (mr_ps_array){.name = table->arrays[i].name, .dims = table->arrays[i].dims};
        memcpy(arrays[i].shape, table->arrays[i].shape, sizeof arrays[i].shape);
    }
    return arrays;
}

/* The lock is held. */
static mr_status make_handle(mr_ps *ps, const table_catalog_table *found, mr_ps_table **out) {
    mr_ps_table *table = xcalloc(1, sizeof *table);
    mr_status status = table_info_init(&table->table, found, kv_worker_map(ps_connection_worker(ps)));
    if (status != MR_OK) {
        free(table);
        return status;
    }
    if (table_info_in_rounds(&table->table)) kv_worker_join(ps_connection_worker(ps));
    table->arrays = arrays_of(&table->table.table);
    table->handle.ps = ps;
    table->handle.table = table->table.id;
    table->handle.name = table->table.table.name;
    list_push_back(ps_connection_handles(ps), &table->handle.link);
    *out = table;
    return MR_OK;
}

/* Rejects, for tables without rounds, means and limits on norms: only a round has all ranks and the norms of all
 * slots. */
static mr_status check_rounds(consistency consistency, const char *name, const table_schema *schema) {
    if (consistency.kind == CONSISTENCY_BSP) return MR_OK;
    if (schema->average)
        return error_set(MR_INVALID,
                         "average: only bsp tables can average over the ranks, and table '%s' is %s; divide the "
                         "gradients by the number of ranks before pushing, or leave average out",
                         name, consistency.kind == CONSISTENCY_SSP ? "ssp" : "asp");
    if (!table_schema_needs_norms(schema)) return MR_OK;
    if (schema->clip_norm != 0)
        return error_set(MR_INVALID, "clip_norm is %g, but only bsp tables can clip; clip before pushing",
                         (double)schema->clip_norm);
    return error_set(MR_INVALID, "optimizer '%s' of a dense table needs bsp, for norms of whole arrays",
                     schema->optimizer);
}

/* Completes the options of a new table with the deployment's defaults. Rejects a table that could not be opened, since
 * it could not be removed either. The lock is held. */
static mr_status settle(mr_ps *ps, table_catalog_table *wanted) {
    const cluster_map *map = kv_worker_map(ps_connection_worker(ps));
    consistency consistency;
    table_info table;
    MR_TRY(table_catalog_table_consistency(wanted, map, &consistency));
    consistency_write(consistency, wanted->consistency);
    MR_TRY(check_rounds(consistency, wanted->name, &wanted->schema));
    MR_TRY(table_info_init(&table, wanted, map));
    table_info_fini(&table);
    return MR_OK;
}

/* Opens the table that a query finds, if it is as wanted (NULL: as it is); the lock is held. */
static mr_status open_found(mr_ps *ps, const char *name, catalog_query *query, const table_catalog_table *wanted,
                            int64_t timeout_us, mr_ps_table **out) {
    mr_status status = await(ps, wanted == NULL ? "opening" : "creating", name, query, timeout_us);
    if (status == MR_OK) {
        const table_catalog_table *found = catalog_query_table(query);
        const char *field = wanted == NULL ? NULL : table_catalog_table_differs(found, wanted);
        status = field != NULL ? refuse_other(found, wanted, field) : make_handle(ps, found, out);
    }
    catalog_query_end(query);
    return status;
}

static mr_status obtain(mr_ps *ps, table_catalog_table *wanted, int64_t timeout_us, mr_ps_table **out) {
    ps_connection_lock(ps);
    mr_status status = settle(ps, wanted);
    if (status == MR_OK)
        status = open_found(ps, wanted->name, catalog_client_obtain(catalog_of(ps), wanted), wanted, timeout_us, out);
    ps_connection_unlock(ps);
    return status;
}

/* Rejects a codec that is not available in this process. */
static mr_status check_press(compressor_id id) {
    compressor *compressor;
    if (id == COMPRESSOR_STORED) return MR_OK;
    if (compressor_open(id, &compressor) != MR_OK) return error_set(MR_INVALID, "codec: %s", mr_last_error());
    compressor_close(compressor);
    return MR_OK;
}

mr_status mr_ps_table_create(mr_ps *ps, const char *name, const mr_ps_table_options *options, int64_t timeout_us,
                             mr_ps_table **out) {
    static const mr_ps_table_options plain = MR_INIT(mr_ps_table_options);
    table_catalog_table wanted;
    mr_ps_table_options copy;
    OPTION_STRUCT_READ(mr_ps_table_options, admit, options, copy);
    MR_TRY(ps_connection_check_rank(ps, "create a table"));
    MR_TRY(table_catalog_table_init(&wanted, name, options == NULL ? &plain : options));
    mr_status status = check_press(wanted.schema.press);
    if (status == MR_OK) status = server_query_optimizer(ps, wanted.optimizer, timeout_us);
    if (status == MR_OK) status = obtain(ps, &wanted, timeout_us, out);
    table_catalog_table_fini(&wanted);
    return status;
}

/* Adds a table of a similar name to the last error, of an open; the lock is held. */
static mr_status suggest(mr_ps *ps, const char *name, int64_t timeout_us, mr_status status) {
    char text[ERROR_TEXT_MAX], hint[NEAREST_NAME_HINT_MAX];
    const char(*names)[MR_PS_NAME_MAX];
    snprintf(text, sizeof text, "%s", mr_last_error());
    nearest_name nearest = nearest_name_of(span_of(name, strlen(name)));
    catalog_query *query = catalog_client_list(catalog_of(ps));
    size_t count =
        await(ps, "listing tables", NULL, query, timeout_us) == MR_OK ? catalog_query_names(query, &names) : 0;
    for (size_t i = 0; i < count; i++) nearest_name_offer_text(&nearest, names[i]);
    status = error_set(status, "%s%s", text, nearest_name_hint(&nearest, hint));
    catalog_query_end(query);
    return status;
}

mr_status mr_ps_table_open(mr_ps *ps, const char *name, int64_t timeout_us, mr_ps_table **out) {
    if (name == NULL) return error_set(MR_INVALID, "mr_ps_table_open: the table's name is NULL");
    ps_connection_lock(ps);
    mr_status status = open_found(ps, name, catalog_client_open(catalog_of(ps), name), NULL, timeout_us, out);
    if (status == MR_NOT_FOUND) status = suggest(ps, name, timeout_us, status);
    ps_connection_unlock(ps);
    return status;
}

static mr_status check_open(const mr_ps_table *table) {
    if (table->handle.ps == NULL) return error_set(MR_CLOSED, "the connection was closed (mr_ps_close)");
    return MR_OK;
}

static void mark_dropped(mr_ps *ps, uint32_t id) {
    list_for_each (item, ps_connection_handles(ps)) {
        mr_ps_table *table = container_of(item, mr_ps_table, handle.link);
        if (table->table.id == id) table->table.dropped = true;
    }
}

static mr_status decide_drop(mr_ps *ps, const table_info *table, int64_t timeout_us) {
    catalog_query *query = catalog_client_drop(catalog_of(ps), table->id);
    mr_status status = await(ps, "dropping", table->table.name, query, timeout_us);
    catalog_query_end(query);
    return status;
}

mr_status mr_ps_table_drop(mr_ps_table *table, int64_t timeout_us) {
    MR_TRY(check_open(table));
    mr_ps *ps = table->handle.ps;
    MR_TRY(ps_connection_check_rank(ps, "drop a table"));
    uint32_t id = table->table.id;
    ps_connection_lock(ps);
    mr_status status = table->table.dropped ? error_set(MR_NOT_FOUND, "table '%s' was dropped", table->table.table.name)
                                            : decide_drop(ps, &table->table, timeout_us);
    if (status == MR_OK) {
        mark_dropped(ps, id);
        kv_worker_drop(ps_connection_worker(ps), id);
        ps_connection_leave(ps);
    }
    ps_connection_unlock(ps);
    return status;
}

void mr_ps_table_free(mr_ps_table *table) {
    if (table == NULL) return;
    mr_ps *ps = table->handle.ps;
    if (ps != NULL) ps_connection_lock(ps);
    list_remove(&table->handle.link);
    if (ps != NULL) ps_connection_unlock(ps);
    table_info_fini(&table->table);
    free(table->arrays);
    free(table);
}

const char *mr_ps_table_name(const mr_ps_table *table) { return table->table.table.name; }

void mr_ps_table_options_get(const mr_ps_table *table, mr_ps_table_options *out) {
    const table_catalog_table *t = &table->table.table;
    const table_schema *d = &t->schema;
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
                               .admit = d->kind == TABLE_SCHEMA_SPARSE && d->admit == 0 ? 1 : d->admit,
                               .rows_max = d->rows_max,
                               .age_max = d->age_max,
                               .precision = table_schema_precision_name(d),
#define X(name, ...) .name = d->settings.name,
                               MR_PS_HYPERPARAMETERS(X)
#undef X
    };
    memcpy(out, &all, out->size < sizeof all ? out->size : sizeof all);
}

static mr_ps_table_list *listing_of(const catalog_query *query) {
    const char(*names)[MR_PS_NAME_MAX];
    size_t count = catalog_query_names(query, &names);
    mr_ps_table_list *listing = xcalloc(1, sizeof *listing + count * (sizeof *listing->names + MR_PS_NAME_MAX));
    listing->count = count;
    listing->names = (const char **)(listing + 1);
    char *copies = (char *)(listing->names + count);
    for (size_t i = 0; i < count; i++, copies += MR_PS_NAME_MAX)
        listing->names[i] = memcpy(copies, names[i], MR_PS_NAME_MAX);
    return listing;
}

mr_status mr_ps_tables(mr_ps *ps, int64_t timeout_us, mr_ps_table_list **out) {
    ps_connection_lock(ps);
    catalog_query *query = catalog_client_list(catalog_of(ps));
    mr_status status = await(ps, "listing tables", NULL, query, timeout_us);
    if (status == MR_OK) *out = listing_of(query);
    catalog_query_end(query);
    ps_connection_unlock(ps);
    return status;
}

void mr_ps_table_list_free(mr_ps_table_list *listing) { free(listing); }

/* ---- Versions. */

mr_status mr_ps_version_create(const mr_ps_table *table, mr_ps_version **out) {
    uint32_t slots = table->table.placement.slots;
    mr_ps_version *mark = xcalloc(1, sizeof *mark + slots * sizeof *mark->versions);
    mark->table = table->table.id;
    mark->slots = slots;
    *out = mark;
    return MR_OK;
}

uint64_t mr_ps_version_changed(const mr_ps_version *mark) { return mark->changed; }
void mr_ps_version_free(mr_ps_version *mark) { free(mark); }

/* ---- Requests. */

typedef mr_status travel_fn(kv_worker *worker, const kv_request *request, uint64_t *ticket);

static int64_t patience_us(int64_t timeout_us) { return timeout_us == 0 ? MR_PS_TIMEOUT_US : timeout_us; }

/* Waits for a request whose number the caller does not have: after the call the request must not use the caller's
 * memory. */
static mr_status wait_for(mr_ps *ps, uint64_t number, int64_t timeout_us) {
    mr_status status = ps_connection_wait(ps, number, patience_us(timeout_us));
    if (status == MR_TIMEOUT || status == MR_NOMEM) MR_TRY(kv_worker_abandon(ps_connection_worker(ps), number));
    return status;
}

static mr_status check_mark(const mr_ps_table *table, const mr_ps_version *mark) {
    if (mark == NULL || mark->table == table->table.id) return MR_OK;
    return error_set(MR_INVALID, "the version belongs to another table than '%s'", table->table.table.name);
}

/* Rejects a learning rate that would have no effect. */
static mr_status check_rate(const mr_ps_table *table, const kv_request *request, const mr_ps_request_options *options) {
    const char *name = table->table.table.name, *optimizer = table->table.table.schema.optimizer;
    const optim_ops *ops;
    char users[128];
    if (options->rate == 0) return MR_OK;
    if (!isfinite(options->rate))
        return error_set(MR_INVALID, "a push to table '%s' with the learning rate %g: it must be finite", name,
                         (double)options->rate);
    if (!request->pushes)
        return error_set(MR_INVALID, "a pull from table '%s' with the learning rate %g: only pushes have one", name,
                         (double)options->rate);
    if (options->set != 0)
        return error_set(MR_INVALID,
                         "a push to table '%s' with the learning rate %g and set: values are assigned without one",
                         name, (double)options->rate);
    if (strncmp(optimizer, TABLE_SCHEMA_OWN, strlen(TABLE_SCHEMA_OWN)) == 0) return MR_OK;
    MR_TRY(optim_find(optimizer, &ops));
    if ((ops->uses & OPTIM_HAS_RATE) != 0) return MR_OK;
    optim_users(OPTIM_HAS_RATE, users, sizeof users);
    return error_set(MR_INVALID,
                     "a push to table '%s' with the learning rate %g: its optimizer '%s' has none; these have one: %s",
                     name, (double)options->rate, optimizer, users);
}

static mr_status request(mr_ps_table *table, travel_fn *travel, kv_request *kv_request,
                         const mr_ps_request_options *options, mr_ps_ticket *ticket) {
    static const mr_ps_request_options plain = MR_INIT(mr_ps_request_options);
    mr_ps_request_options copy;
    MR_TRY(check_open(table));
    if (options == NULL) options = &plain;
    OPTION_STRUCT_READ(mr_ps_request_options, priority, options, copy);
    MR_TRY(check_mark(table, options->version));
    MR_TRY(check_rate(table, kv_request, options));
    mr_ps *ps = table->handle.ps;
    if (kv_request->pushes) MR_TRY(ps_connection_check_rank(ps, "push"));
    uint64_t number;
    kv_request->table = &table->table;
    kv_request->dtype = options->dtype != 0 ? options->dtype : table->table.table.schema.dtype;
    kv_request->priority = options->priority;
    kv_request->set = options->set != 0;
    kv_request->skip_nonfinite = options->skip_nonfinite != 0;
    kv_request->rated = options->rate != 0;
    kv_request->rate = options->rate < 0 ? 0 : options->rate;
    kv_request->mark = options->version;
    kv_request->done = options->done;
    kv_request->context = options->context;
    bool waits = ticket == NULL && kv_request->done == NULL;
    kv_request->kept = ticket != NULL || waits;
    if (waits) MR_TRY(ps_connection_check_wait());
    ps_connection_lock(ps);
    mr_status status = travel(ps_connection_worker(ps), kv_request, &number);
    if (status == MR_STALE &&
        ps_connection_admit(ps, kv_request->values != NULL, patience_us(options->timeout_us), &status))
        status = travel(ps_connection_worker(ps), kv_request, &number);
    if (status == MR_OK && waits)
        status = wait_for(ps, number, options->timeout_us);
    else if (status == MR_OK)
        ps_connection_leave(ps);
    if (status == MR_OK && ticket != NULL) ticket->v = number;
    ps_connection_unlock(ps);
    return status;
}

mr_status mr_ps_push(mr_ps_table *table, const uint64_t *keys, size_t count, const void *values,
                     const uint32_t *lengths, const mr_ps_request_options *options, mr_ps_ticket *ticket) {
    kv_request kv_request = {.pushes = true, .keys = keys, .count = count, .values = values, .lengths = lengths};
    return request(table, kv_request_keys, &kv_request, options, ticket);
}

mr_status mr_ps_pull(mr_ps_table *table, const uint64_t *keys, size_t count, void *values, const uint32_t *lengths,
                     const mr_ps_request_options *options, mr_ps_ticket *ticket) {
    kv_request kv_request = {.pulls = true, .keys = keys, .count = count, .to = values, .lengths = lengths};
    return request(table, kv_request_keys, &kv_request, options, ticket);
}

mr_status mr_ps_pull_vectors(mr_ps_table *table, const uint64_t *keys, size_t count, mr_ps_vectors **out,
                             const mr_ps_request_options *options, mr_ps_ticket *ticket) {
    kv_request kv_request = {.pulls = true, .keys = keys, .count = count, .vectors = out};
    if (out == NULL) return error_set(MR_INVALID, "mr_ps_pull_vectors: the destination of %zu vectors is NULL", count);
    if (options != NULL && options->version != NULL)
        return error_set(MR_INVALID, "mr_ps_pull_vectors of %zu keys does not take a version", count);
    return request(table, kv_request_keys, &kv_request, options, ticket);
}

void mr_ps_vectors_free(mr_ps_vectors *vectors) { free(vectors); }

mr_status mr_ps_push_pull(mr_ps_table *table, const uint64_t *keys, size_t count, const void *pushed, void *pulled,
                          const uint32_t *lengths, const mr_ps_request_options *options, mr_ps_ticket *ticket) {
    kv_request kv_request = {.pushes = true,
                             .pulls = true,
                             .keys = keys,
                             .count = count,
                             .values = pushed,
                             .to = pulled,
                             .lengths = lengths};
    return request(table, kv_request_keys, &kv_request, options, ticket);
}

mr_status mr_ps_pull_range(mr_ps_table *table, uint64_t first, uint64_t last, uint64_t *keys, void *values, size_t room,
                           size_t *count, const mr_ps_request_options *options, mr_ps_ticket *ticket) {
    kv_request kv_request = {
        .first = first, .last = last, .found = keys, .to = values, .count = room, .found_count = count};
    if (options != NULL && options->version != NULL)
        return error_set(MR_INVALID, "mr_ps_pull_range does not take a version");
    return request(table, kv_request_range, &kv_request, options, ticket);
}

static mr_status check_range(const mr_ps_table *table, uint64_t first, size_t count) {
    const table_schema *schema = &table->table.table.schema;
    if (schema->kind != TABLE_SCHEMA_SPARSE || !schema->ordered)
        return error_set(MR_INVALID, "table '%s' has no ranges: only ordered sparse tables have",
                         table->table.table.name);
    if (count > SPLITTER_KEYS_MAX)
        return error_set(MR_TOO_LARGE, "%zu keys in one request: the limit is %d", count, SPLITTER_KEYS_MAX);
    if (count != 0 && count - 1 > UINT64_MAX - first)
        return error_set(MR_INVALID, "%zu keys from %llu on: beyond 2^64 - 1", count, (unsigned long long)first);
    return MR_OK;
}

/* A request about consecutive keys. */
static mr_status request_range(mr_ps_table *table, uint64_t first, kv_request *kv_request,
                               const mr_ps_request_options *options, mr_ps_ticket *ticket) {
    uint64_t *keys;
    MR_TRY(check_range(table, first, kv_request->count));
    MR_TRY(alloc_try(kv_request->count * sizeof *keys, &keys));
    for (size_t i = 0; i < kv_request->count; i++) keys[i] = first + i;
    kv_request->keys = keys;
    mr_status status = request(table, kv_request_keys, kv_request, options, ticket);
    free(keys);
    return status;
}

mr_status mr_ps_push_range(mr_ps_table *table, uint64_t first, size_t count, const void *values,
                           const mr_ps_request_options *options, mr_ps_ticket *ticket) {
    kv_request request = {.pushes = true, .count = count, .values = values};
    return request_range(table, first, &request, options, ticket);
}

mr_status mr_ps_push_pull_range(mr_ps_table *table, uint64_t first, size_t count, const void *pushed, void *pulled,
                                const mr_ps_request_options *options, mr_ps_ticket *ticket) {
    kv_request request = {.pushes = true, .pulls = true, .count = count, .values = pushed, .to = pulled};
    return request_range(table, first, &request, options, ticket);
}

mr_status mr_ps_push_array(mr_ps_table *table, uint32_t array, const void *values, uint64_t first, size_t count,
                           const mr_ps_request_options *options, mr_ps_ticket *ticket) {
    kv_request kv_request = {.pushes = true, .array = array, .first = first, .count = count, .values = values};
    return request(table, kv_request_array, &kv_request, options, ticket);
}

mr_status mr_ps_pull_array(mr_ps_table *table, uint32_t array, void *values, uint64_t first, size_t count,
                           const mr_ps_request_options *options, mr_ps_ticket *ticket) {
    kv_request kv_request = {.pulls = true, .array = array, .first = first, .count = count, .to = values};
    return request(table, kv_request_array, &kv_request, options, ticket);
}

mr_status mr_ps_push_pull_array(mr_ps_table *table, uint32_t array, const void *pushed, void *pulled, uint64_t first,
                                size_t count, const mr_ps_request_options *options, mr_ps_ticket *ticket) {
    kv_request kv_request = {
        .pushes = true, .pulls = true, .array = array, .first = first, .count = count, .values = pushed, .to = pulled};
    return request(table, kv_request_array, &kv_request, options, ticket);
}
