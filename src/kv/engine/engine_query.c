/* engine_query.c — engine, answers to queries. See engine.h.
 *
 * An unknown table whose schema came with the query is answered with its initial values.
 * Tested by src/kv/engine/engine_test.c. */
#include <stdlib.h>

#include "base/alloc.h"
#include "kv/engine/engine_internal.h"
#include "net/dtype_convert.h"
#include "ps/slot_server.h"

enum { LISTS_BYTES = 1 << 20 }; /* bytes of the key lists that a slot caches */
/* A section without values has at most twice the bytes of the query's section. */
_Static_assert(PAYLOAD_ANSWER_MAX + 2 * SLOT_SERVER_QUERY_MAX <= SLOT_MESSAGE_PAYLOAD_MAX, "an answer fits a packet");

typedef struct question {
    const engine *engine;
    const payload_section *section; /* decompressed */
    engine_table *table;
    engine_note *note; /* row numbers of the key list; NULL: none */
    bool kept;
    uint64_t version;
    mr_dtype dtype; /* of the answer's values */
    payload_writer *answer;
} question;

/* ---- One section. MR_INVALID: the section does not fit the kind of the table; MR_TOO_LARGE, MR_NOMEM. */

static mr_status open_answer(const question *question, payload_op op, size_t count, uint8_t flags, size_t value_bytes,
                             payload_room *room) {
    if (count > UINT32_MAX || value_bytes > PAYLOAD_ANSWER_MAX) return MR_TOO_LARGE;
    size_t size = payload_section_size(op, (uint32_t)count, value_bytes);
    if (value_bytes > 0 && question->answer->size + size > PAYLOAD_ANSWER_MAX) return MR_TOO_LARGE;
    bool afar = (flags & PAYLOAD_AFAR) != 0;
    mr_dtype dtype = afar ? dtype_convert_stored(question->table->schema.dtype) : question->dtype;
    payload_head head = {question->section->table, op, flags, dtype, (uint32_t)count};
    MR_TRY(payload_add(question->answer, head, value_bytes, room));
    *room->version = question->version;
    return MR_OK;
}

static mr_status answer_rows(const question *question) {
    const payload_section *section = question->section;
    const engine_table *table = question->table;
    payload_room room;
    if (table->schema.kind != TABLE_SCHEMA_SPARSE) return MR_INVALID;
    size_t bytes = section->count * sparse_table_value_bytes(table->sparse, question->dtype);
    MR_TRY(open_answer(question, PAYLOAD_ROWS, section->count, 0, bytes, &room));
    engine_show_rows(table, section->keys, section->count, question->kept, question->note, question->dtype,
                     room.values);
    return MR_OK;
}

static mr_status answer_range(const question *question) {
    engine_table *table = question->table;
    payload_room room;
    uint64_t *keys;
    size_t count;
    if (table->schema.kind != TABLE_SCHEMA_SPARSE) return MR_INVALID;
    MR_TRY(engine_range(table, question->section->first, question->section->last, question->section->count,
                        question->kept, &keys, &count));
    size_t bytes = count * sparse_table_value_bytes(table->sparse, question->dtype);
    mr_status status = open_answer(question, PAYLOAD_RANGE, count, 0, bytes, &room);
    if (status == MR_OK && count > 0) {
        memcpy(room.keys, keys, count * sizeof *keys);
        engine_show_rows(table, keys, count, question->kept, NULL, question->dtype, room.values);
    }
    free(keys);
    return status;
}

static mr_status answer_vectors(const question *question) {
    const payload_section *section = question->section;
    const engine_table *table = question->table;
    mr_dtype dtype = question->dtype, stored = dtype_convert_stored(table->schema.dtype);
    size_t items = 0, from = 0;
    uint32_t length;
    payload_room room;
    if (table->schema.kind != TABLE_SCHEMA_VECTORS) return MR_INVALID;
    for (uint32_t i = 0; i < section->count; i++, items += length)
        (void)engine_vector(table, section->keys[i], question->kept, &from, &length);
    MR_TRY(open_answer(question, PAYLOAD_VECTORS, section->count, 0, items * mr_dtype_size(dtype), &room));
    uint8_t *to = room.values;
    from = 0;
    for (uint32_t i = 0; i < section->count; i++) {
        const void *values = engine_vector(table, section->keys[i], question->kept, &from, &room.lengths[i]);
        dtype_convert(stored, values, dtype, room.lengths[i], to);
        to += room.lengths[i] * mr_dtype_size(dtype);
    }
    return MR_OK;
}

static mr_status answer_block(const question *question) {
    const payload_section *section = question->section;
    const engine_table *table = question->table;
    payload_afar afar;
    payload_room room;
    if (table->schema.kind != TABLE_SCHEMA_DENSE || !engine_block_fits(question->engine, table, &section->place))
        return MR_INVALID;
    bool looks = section->op == PAYLOAD_GET_BLOCK && (section->flags & PAYLOAD_AFAR) != 0;
    if (looks && engine_look_for_block(question->engine, table, &section->place, question->kept, &afar)) {
        MR_TRY(open_answer(question, PAYLOAD_BLOCK, section->count, PAYLOAD_AFAR, sizeof afar, &room));
        memcpy(room.values, &afar, sizeof afar);
        return MR_OK;
    }
    size_t bytes = section->count * mr_dtype_size(question->dtype);
    MR_TRY(open_answer(question, PAYLOAD_BLOCK, section->count, 0, bytes, &room));
    engine_show_block(question->engine, table, &section->place, section->count, question->kept, question->dtype,
                      room.values);
    return MR_OK;
}

static mr_status answer_look(const question *question) {
    payload_look look = engine_table_look(question->table);
    payload_room room;
    MR_TRY(open_answer(question, PAYLOAD_LOOK, 0, 0, sizeof look, &room));
    memcpy(room.values, &look, sizeof look);
    return MR_OK;
}

/* The dtype that a query asks for; a push gets its answer in the table's dtype. False: it does not fit the table. */
static bool find_dtype(question *question) {
    const payload_section *section = question->section;
    mr_dtype own = question->table->schema.dtype;
    question->dtype = payload_is_query(section->op) && section->dtype != 0 ? section->dtype : own;
    return dtype_convert_fits(own, question->dtype);
}

static mr_status answer(question *question) {
    payload_room room;
    if (!find_dtype(question)) return MR_INVALID;
    uint64_t known = question->section->version;
    if (known != 0 && known == question->version && question->section->op != PAYLOAD_GET_LOOK)
        return open_answer(question, PAYLOAD_SAME, 0, 0, 0, &room);
    switch (question->section->op) {
    case PAYLOAD_ADD_ROWS:
    case PAYLOAD_SET_ROWS:
    case PAYLOAD_GET_ROWS: return answer_rows(question);
    case PAYLOAD_ADD_VECTORS:
    case PAYLOAD_SET_VECTORS:
    case PAYLOAD_GET_VECTORS: return answer_vectors(question);
    case PAYLOAD_ADD_BLOCK:
    case PAYLOAD_SET_BLOCK:
    case PAYLOAD_GET_BLOCK: return answer_block(question);
    case PAYLOAD_GET_RANGE: return answer_range(question);
    case PAYLOAD_GET_LOOK: return answer_look(question);
    default: return MR_INVALID;
    }
}

/* ---- Table of a section. */

/* Finds the last schema of this table in the request. */
static bool find_schema(span request, uint32_t id, table_schema *out) {
    payload_reader reader = payload_open(request);
    bool found = false;
    for (payload_section section; payload_next(&reader, &section);)
        if (section.op == PAYLOAD_DEFINE && section.table == id && table_schema_decode(section.values, out) == MR_OK)
            found = out->id == id;
    return found;
}

/* Sets the table of the question. Returns the reason why there are no values, or 0. */
static payload_reason find_table(question *question, span request, engine_table **own) {
    const engine *engine = question->engine;
    uint32_t id = question->section->table;
    table_schema schema;
    *own = NULL;
    question->table = engine_table_find(engine, id, question->kept);
    if (question->table != NULL) {
        question->version = engine_version(engine, question->table, question->kept);
        return 0;
    }
    if (engine_was_dropped(engine, id, question->kept)) return PAYLOAD_DROPPED;
    if (!find_schema(request, id, &schema)) return PAYLOAD_UNKNOWN;
    mr_status status = engine_table_create(engine, &schema, own);
    if (status != MR_OK) return status == MR_NOMEM ? PAYLOAD_TOO_LARGE : PAYLOAD_UNKNOWN;
    question->table = *own;
    question->version = 0;
    return 0;
}

static void remember(engine *engine, const payload_section *section) {
    if (engine->cache == NULL) {
        engine->cache = xmalloc(sizeof *engine->cache);
        key_list_cache_init(engine->cache, LISTS_BYTES);
    }
    (void)key_list_cache_keep(engine->cache, key_list_cache_name_of(section->keys, section->count), section->keys,
                              section->count);
}

/* The section with its keys, which come from the cache if only their hash was sent; NULL: they are not cached. */
static const payload_section *recall(engine *engine, const payload_section *section, payload_section *room,
                                     engine_note **note) {
    if ((section->flags & PAYLOAD_LISTED) != 0) remember(engine, section);
    if ((section->flags & PAYLOAD_KNOWN) == 0) return section;
    const key_list_cache_name name = {section->first, section->last};
    key_list_cache_item *item = engine->cache == NULL ? NULL : key_list_cache_find(engine->cache, name, section->count);
    if (item == NULL) return NULL;
    *room = *section;
    room->keys = item->keys;
    if (section->op == PAYLOAD_GET_ROWS)
        *note = key_list_cache_note(engine->cache, item, sizeof **note + section->count * sizeof *(*note)->numbers);
    return room;
}

/* MR_NOMEM: no memory even for a reason. */
static mr_status answer_section(engine *engine, const payload_section *section, span request, bool kept,
                                payload_writer *out) {
    question question = {.engine = engine, .kept = kept, .answer = out};
    engine_table *own;
    payload_room room;
    payload_reason reason = PAYLOAD_MISFIT;
    size_t before = out->size;
    payload_section recalled;
    bool opens = section_decoder_opens(&engine->decoder, section);
    question.section = opens ? section_decoder_unfold(&engine->decoder, section) : NULL;
    if (question.section != NULL) {
        question.section = recall(engine, question.section, &recalled, &question.note);
        if (question.section == NULL) reason = PAYLOAD_FORGOTTEN;
    }
    if (question.section != NULL) {
        reason = find_table(&question, request, &own);
        mr_status status = reason != 0 ? MR_OK : answer(&question);
        if (status != MR_OK) reason = status == MR_INVALID ? PAYLOAD_MISFIT : PAYLOAD_TOO_LARGE;
        engine_table_destroy(own);
    }
    if (reason == 0) return MR_OK;
    payload_cut(out, before);
    return payload_add(out, (payload_head){.table = section->table, .op = PAYLOAD_NONE, .count = reason}, 0, &room);
}

/* ---- The whole request. */

/* Reserves the size of the answer as far as the request determines it, so that the answer is not moved. */
static void make_room(const engine *engine, span request, payload_writer *out) {
    payload_reader reader = payload_open(request);
    size_t size = 0;
    for (payload_section section; payload_next(&reader, &section);) {
        const engine_table *table = payload_asks(&section) ? engine_table_find(engine, section.table, false) : NULL;
        if (table == NULL || section.op == PAYLOAD_GET_RANGE || (section.flags & PAYLOAD_AFAR) != 0) continue;
        bool plain = payload_is_push(section.op) || section.dtype == 0 || section.op == PAYLOAD_GET_LOOK;
        size_t values = section.count * mr_dtype_size(plain ? table->schema.dtype : section.dtype);
        if (table->sparse != NULL) values *= table->schema.dim;
        size += payload_section_size(PAYLOAD_ROWS, section.count, values);
    }
    if (size > 0) (void)!payload_reserve(out, size); /* without memory here, each section reserves its own */
}

/* A single section reserves its own memory. */
static mr_status answer_all(engine *engine, span request, bool kept, payload_writer *out) {
    payload_section section;
    size_t count;
    MR_TRY(payload_check_last(request, &count, &section));
    if (count == 1) return payload_asks(&section) ? answer_section(engine, &section, request, kept, out) : MR_OK;
    make_room(engine, request, out);
    payload_reader reader = payload_open(request);
    while (payload_next(&reader, &section))
        if (payload_asks(&section)) MR_TRY(answer_section(engine, &section, request, kept, out));
    return MR_OK;
}

shared_bytes *engine_answer(void *self, span request, bool kept) {
    engine *engine = self;
    payload_writer *out = &engine->answer;
    span bytes;
    payload_scratch scratch;
    payload_empty(out);
    if (payload_align(request, &scratch, &bytes) != MR_OK) return payload_lend(out);
    if (answer_all(engine, bytes, (kept || engine->behind) && engine->keeps, out) != MR_OK) payload_fini(out);
    payload_clear(&scratch);
    return payload_lend(out);
}
