/* round_sum.c — see round_sum.h. */
#include "kv/engine/round_sum.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/binary_search.h"
#include "kv/engine/engine_internal.h"
#include "kv/engine/round_sum_keys.h"

typedef struct stretch { /* part of a block */
    payload_place place;
    uint32_t count;
    void *values; /* owned */
} stretch;

typedef struct stretches {
    stretch *list; /* owned; added stretches by array and block, assigned ones in the order of ranks */
    size_t count;
} stretches;

typedef struct table {
    uint32_t id;
    void *schema; /* owned; NULL: not defined in this round */
    size_t schema_size;
    payload_op kind; /* ADD_ROWS, ADD_VECTORS or ADD_BLOCK, set by the first contribution; 0: none yet */
    bool counters;
    uint32_t dim; /* of rows */
    round_sum_keys added, set, erased;
    stretches added_blocks, set_blocks;
    bool dropped;
    bool rated;       /* a rank gave a learning rate: */
    float rate;       /* that of the first such rank */
    uint32_t rate_of; /* its contribution, counted from 1 */
} table;

typedef struct round_sum {
    const engine *engine;   /* borrowed: the tables of the slot */
    uint32_t contributions; /* with those of ranks that are left out */
    uint32_t members;
    bool any;
    table *tables; /* owned, by id */
    size_t count;
    section_decoder decoder;
} round_sum;

void *round_sum_begin(const void *engine) { return XNEW(round_sum, .engine = engine); }

static void free_stretches(stretches *stretches) {
    for (size_t i = 0; i < stretches->count; i++) free(stretches->list[i].values);
    free(stretches->list);
}

void round_sum_end(void *sum) {
    round_sum *round_sum = sum;
    for (size_t i = 0; i < round_sum->count; i++) {
        table *table = &round_sum->tables[i];
        free(table->schema);
        round_sum_keys_fini(&table->added);
        round_sum_keys_fini(&table->set);
        round_sum_keys_fini(&table->erased);
        free_stretches(&table->added_blocks);
        free_stretches(&table->set_blocks);
    }
    free(round_sum->tables);
    section_decoder_fini(&round_sum->decoder);
    free(round_sum);
}

/* The table with this id, created if missing; valid until the next call. */
static table *reach(round_sum *sum, uint32_t id) {
    size_t at = binary_search_first(&id, sum->tables, sum->count, sizeof *sum->tables, binary_search_u32);
    if (at < sum->count && sum->tables[at].id == id) return &sum->tables[at];
    sum->tables = xrealloc(sum->tables, (sum->count + 1) * sizeof *sum->tables);
    memmove(sum->tables + at + 1, sum->tables + at, (sum->count++ - at) * sizeof *sum->tables);
    sum->tables[at] = (table){.id = id};
    return &sum->tables[at];
}

/* ---- Contributions: values by key. */

/* Whether a section fits its table, whose kind the first contribution sets. */
static bool fits(table *table, const payload_section *section, uint32_t dim) {
    bool counters = section->dtype == MR_I64;
    if (table->kind == 0) {
        table->kind = payload_add_of(section->op);
        table->counters = counters;
        table->dim = dim;
    }
    return table->kind == payload_add_of(section->op) && table->counters == counters && table->dim == dim;
}

static size_t items_of(const payload_section *section, uint32_t dim) {
    size_t items = 0;
    if (section->lengths == NULL) return (size_t)section->count * dim;
    for (uint32_t i = 0; i < section->count; i++) items += section->lengths[i];
    return items;
}

static void add_keys(round_sum *sum, table *table, const payload_section *section) {
    size_t dim = section->lengths == NULL ? section_decoder_dim(section) : 0;
    if (section->count == 0 || dim > UINT32_MAX || (section->lengths == NULL && dim == 0)) return;
    const void *values =
        section_decoder_values(&sum->decoder, section, section->dtype, items_of(section, (uint32_t)dim));
    if (values == NULL || !fits(table, section, (uint32_t)dim)) return;
    const round_sum_contribution contribution = {.keys = section->keys,
                                                 .count = section->count,
                                                 .lengths = section->lengths,
                                                 .dim = (uint32_t)dim,
                                                 .values = values,
                                                 .counters = table->counters,
                                                 .sets = payload_is_set(section->op)};
    round_sum_keys_add(contribution.sets ? &table->set : &table->added, &contribution);
}

static void add_erased(table *table, const payload_section *section) {
    const uint8_t *none = (const uint8_t *)section->keys; /* no values, but not NULL */
    const round_sum_contribution erased = {
        .keys = section->keys, .count = section->count, .values = none, .sets = true};
    round_sum_keys_add(&table->erased, &erased);
}

/* ---- Blocks. */

static int compare_block(const void *key, const void *item) {
    const payload_place *place = key, *other = &((const stretch *)item)->place;
    if (place->array != other->array) return place->array < other->array ? -1 : 1;
    return (place->block > other->block) - (place->block < other->block);
}

static stretch *insert(stretches *stretches, size_t at) {
    stretches->list = xrealloc(stretches->list, (stretches->count + 1) * sizeof *stretches->list);
    memmove(stretches->list + at + 1, stretches->list + at, (stretches->count++ - at) * sizeof *stretches->list);
    return &stretches->list[at];
}

static void fill(stretch *stretch, const payload_section *section, const void *values, size_t item) {
    *stretch = (struct stretch){section->place, section->count, NULL};
    section_decoder_must(alloc_try_aligned(64, section->count * item + 1, &stretch->values));
    if (section->count > 0) memcpy(stretch->values, values, section->count * item);
}

/* Extends a stretch to cover the section; new items are 0. */
static void widen(stretch *stretch, const payload_section *section, size_t item) {
    uint32_t first = stretch->place.first, end = first + stretch->count;
    uint32_t new_first = section->place.first < first ? section->place.first : first;
    uint32_t new_end = section->place.first + section->count > end ? section->place.first + section->count : end;
    if (new_first == first && new_end == end) return;
    void *values;
    section_decoder_must(alloc_try((new_end - new_first) * item + 1, &values));
    memcpy((uint8_t *)values + (first - new_first) * item, stretch->values, stretch->count * item);
    free(stretch->values);
    *stretch = (struct stretch){stretch->place, new_end - new_first, values};
    stretch->place.first = new_first;
}

static void add_block(table *table, const payload_section *section, const void *values) {
    stretches *all = &table->added_blocks;
    size_t item = table->counters ? sizeof(int64_t) : sizeof(float);
    size_t at = binary_search_first(&section->place, all->list, all->count, sizeof *all->list, compare_block);
    if (at == all->count || compare_block(&section->place, &all->list[at]) != 0) {
        fill(insert(all, at), section, values, item);
        return;
    }
    stretch *there = &all->list[at];
    if (there->place.items != section->place.items) return;
    widen(there, section, item);
    size_t offset = (section->place.first - there->place.first) * item;
    round_sum_add_up((uint8_t *)there->values + offset, values, section->count, table->counters);
}

/* Appends an assigned stretch in the order of ranks; an earlier one with equal bounds is dropped. */
static void set_block(table *table, const payload_section *section, const void *values) {
    stretches *all = &table->set_blocks;
    for (size_t i = 0; i < all->count; i++) {
        if (memcmp(&all->list[i].place, &section->place, sizeof section->place) != 0) continue;
        if (all->list[i].count != section->count) continue;
        free(all->list[i].values);
        memmove(all->list + i, all->list + i + 1, (--all->count - i) * sizeof *all->list);
        break;
    }
    fill(insert(all, all->count), section, values, table->counters ? sizeof(int64_t) : sizeof(float));
}

static void take_block(round_sum *sum, table *table, const payload_section *section) {
    const void *values = section_decoder_values(&sum->decoder, section, section->dtype, section->count);
    if (values == NULL || !fits(table, section, 0)) return;
    if (section->op == PAYLOAD_SET_BLOCK)
        set_block(table, section, values);
    else
        add_block(table, section, values);
}

/* ---- Sections. */

static void define(table *table, span schema) {
    if (table->schema != NULL) return;
    table->schema = xmalloc(schema.size);
    table->schema_size = schema.size;
    if (schema.size > 0) memcpy(table->schema, schema.data, schema.size);
}

/* Of a rank the last rate counts, of the ranks the lowest one's. A rate alone is no update. */
static void take_rate(round_sum *sum, const payload_section *section) {
    const engine_host *host = sum->engine->host;
    if (!section->rated) return;
    table *table = reach(sum, section->table);
    if (!table->rated || table->rate_of == sum->contributions) {
        table->rated = true;
        table->rate = section->rate;
        table->rate_of = sum->contributions;
    } else if (table->rate != section->rate && host != NULL && host->on_rates != NULL) {
        host->on_rates(host->context, table->id, table->rate, section->rate);
    }
}

static void take(round_sum *sum, const payload_section *section) {
    if (section->op == PAYLOAD_RATE) take_rate(sum, section);
    bool pushes = payload_is_push(section->op), erases = section->op == PAYLOAD_ERASE;
    if (!pushes && !erases && section->op != PAYLOAD_DEFINE && section->op != PAYLOAD_DROP) return;
    table *table = reach(sum, section->table);
    sum->any = true;
    if (section->op == PAYLOAD_DEFINE)
        define(table, section->values);
    else if (section->op == PAYLOAD_DROP)
        table->dropped = true;
    else if (erases)
        add_erased(table, section);
    else if (payload_add_of(section->op) == PAYLOAD_ADD_BLOCK)
        take_block(sum, table, section);
    else
        add_keys(sum, table, section);
}

/* As engine_packs_as; the table may be defined in this round only. */
static bool is_packed_as_agreed(const round_sum *sum, const payload_section *section) {
    if ((section->flags & PAYLOAD_PRESSED) == 0) return true;
    const engine_table *known = engine_table_find(sum->engine, section->table, false);
    if (known != NULL) return engine_packs_as(&known->schema, section);
    size_t at = binary_search_first(&section->table, sum->tables, sum->count, sizeof *sum->tables, binary_search_u32);
    const table *defined = at < sum->count && sum->tables[at].id == section->table ? &sum->tables[at] : NULL;
    table_schema schema;
    bool valid = defined != NULL && defined->schema != NULL &&
                 table_schema_decode(span_of(defined->schema, defined->schema_size), &schema) == MR_OK;
    return engine_packs_as(valid ? &schema : NULL, section);
}

/* Whether the rank is left out of the round. */
static bool is_skip(span bytes) {
    payload_reader reader = payload_open(bytes);
    for (payload_section section; payload_next(&reader, &section);)
        if (section.op == PAYLOAD_SKIP) return true;
    return false;
}

void round_sum_add(void *sum, span payload) {
    round_sum *round_sum = sum;
    span bytes;
    payload_scratch scratch;
    section_decoder_must(payload_align(payload, &scratch, &bytes));
    bool good = bytes.size > 0 && payload_check(bytes) == MR_OK;
    bool skips = good && is_skip(bytes);
    round_sum->contributions++;
    round_sum->members += !skips;
    if (good) {
        payload_reader reader = payload_open(bytes);
        for (payload_section folded; payload_next(&reader, &folded);) {
            if (!is_packed_as_agreed(round_sum, &folded)) continue;
            if (skips && folded.op != PAYLOAD_DEFINE && folded.op != PAYLOAD_DROP) continue;
            const payload_section *section = section_decoder_unfold(&round_sum->decoder, &folded);
            if (section != NULL) take(round_sum, section);
        }
    }
    payload_clear(&scratch);
}

/* ---- The sum as a payload: the size of all sections, then each section in its place. */

typedef void visit_fn(void *context, payload_head head, size_t value_bytes, const void *what);

typedef struct key_run { /* consecutive keys: the content of one section */
    const round_sum_key *index;
    size_t count, items;
    const uint8_t *values;
} key_run;

/* The keys from `at` on whose values fit one section: at least one. */
static key_run cut_run(const round_sum_keys *keys, size_t at, size_t item) {
    key_run run = {.index = keys->index + at, .values = keys->values};
    if (keys->total * item <= ROUND_SUM_SECTION) { /* the usual case: one section has all keys */
        run.count = keys->count;
        run.items = keys->total;
    }
    for (; at + run.count < keys->count && run.count < UINT32_MAX; run.count++) {
        size_t items = run.items + run.index[run.count].length;
        if (run.count > 0 && items * item > ROUND_SUM_SECTION) break;
        run.items = items;
    }
    return run;
}

/* Visits a section of a table, with its RATE before it. */
static void visit_one(const table *table, payload_head head, size_t value_bytes, const void *what, visit_fn *visit,
                      void *context) {
    head.table = table->id;
    if (table->rated && payload_is_add(head.op))
        visit(context, (payload_head){.table = table->id, .op = PAYLOAD_RATE}, sizeof table->rate, table);
    visit(context, head, value_bytes, what);
}

static void visit_keys(const table *table, payload_op op, const round_sum_keys *keys, visit_fn *visit, void *context) {
    size_t item = table->counters ? sizeof(int64_t) : sizeof(float);
    mr_dtype dtype = op == PAYLOAD_ERASE ? 0 : table->counters ? MR_I64 : MR_F32;
    for (size_t at = 0; at < keys->count;) {
        key_run run = cut_run(keys, at, item);
        payload_head head = {.op = op, .dtype = dtype, .count = (uint32_t)run.count};
        visit_one(table, head, run.items * item, &run, visit, context);
        at += run.count;
    }
}

static void visit_blocks(const table *table, payload_op op, const stretches *all, visit_fn *visit, void *context) {
    mr_dtype dtype = table->counters ? MR_I64 : MR_F32;
    for (size_t i = 0; i < all->count; i++) {
        payload_head head = {.op = op, .dtype = dtype, .count = all->list[i].count};
        visit_one(table, head, head.count * mr_dtype_size(dtype), &all->list[i], visit, context);
    }
}

static void visit_all(const round_sum *sum, visit_fn *visit, void *context) {
    visit(context, (payload_head){.op = PAYLOAD_ROUND, .count = sum->members}, 0, NULL);
    for (size_t i = 0; i < sum->count; i++) {
        const table *table = &sum->tables[i];
        if (table->schema == NULL) continue;
        visit(context, (payload_head){.table = table->id, .op = PAYLOAD_DEFINE}, table->schema_size, table);
    }
    for (size_t i = 0; i < sum->count; i++) {
        const table *table = &sum->tables[i];
        visit_keys(table, PAYLOAD_ERASE, &table->erased, visit, context);
        visit_keys(table, table->kind + 1, &table->set, visit, context); /* the SET operation of the table's kind */
        visit_keys(table, table->kind, &table->added, visit, context);
        visit_blocks(table, PAYLOAD_SET_BLOCK, &table->set_blocks, visit, context);
        visit_blocks(table, PAYLOAD_ADD_BLOCK, &table->added_blocks, visit, context);
        if (table->dropped) visit(context, (payload_head){.table = table->id, .op = PAYLOAD_DROP}, 0, NULL);
    }
}

static void measure(void *context, payload_head head, size_t value_bytes, const void *what) {
    *(size_t *)context += payload_section_size(head.op, head.count, value_bytes);
}

size_t round_sum_size(const void *sum) {
    const round_sum *round_sum = sum;
    size_t size = 0;
    if (round_sum->any) visit_all(round_sum, measure, &size);
    return size;
}

/* Copies values in key order; they are stored in the order of arrival, and prefetched. */
static void gather(const key_run *run, size_t item, const payload_room *room) {
    enum { AHEAD = 8 };
    uint8_t *to = room->values;
    for (size_t i = 0; i < run->count; i++) {
        const round_sum_key *key = &run->index[i];
        if (i + AHEAD < run->count) __builtin_prefetch(run->values + run->index[i + AHEAD].at * item);
        room->keys[i] = key->key;
        if (room->lengths != NULL) room->lengths[i] = key->length;
        if (to == NULL || key->length == 0) continue;
        memcpy(to, run->values + key->at * item, key->length * item);
        to += key->length * item;
    }
}

static void write_section(void *context, payload_head head, size_t value_bytes, const void *what) {
    uint8_t **at = context;
    payload_room room;
    payload_lay_out(*at, head, value_bytes, &room);
    if (head.op == PAYLOAD_DEFINE)
        memcpy(room.values, ((const table *)what)->schema, value_bytes);
    else if (head.op == PAYLOAD_RATE)
        memcpy(room.values, &((const table *)what)->rate, value_bytes);
    else if (room.keys != NULL)
        gather(what, head.dtype == MR_I64 ? sizeof(int64_t) : sizeof(float), &room);
    else if (room.place != NULL) {
        *room.place = ((const stretch *)what)->place;
        memcpy(room.values, ((const stretch *)what)->values, value_bytes);
    }
    *at += payload_section_size(head.op, head.count, value_bytes);
}

void round_sum_write(const void *sum, void *out) {
    const round_sum *round_sum = sum;
    size_t size = round_sum_size(sum);
    void *copy = NULL; /* sections are written in place, which needs aligned memory */
    uint8_t *at = out;
    if ((uintptr_t)out % PAYLOAD_ALIGN != 0) at = copy = xmalloc(size);
    uint8_t *begin = at;
    if (round_sum->any) visit_all(round_sum, write_section, &at);
    MR_ASSERT((size_t)(at - begin) == size);
    if (copy != NULL && size > 0) memcpy(out, copy, size);
    free(copy);
}
