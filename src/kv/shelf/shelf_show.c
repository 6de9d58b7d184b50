/* shelf_show.c — engine, answers to queries. See shelf.h.
 *
 * A table that is not here, but whose definition came with the query, is shown as it would begin.
 * Tested by src/kv/shelf/shelf_test.c. */
#include <stdlib.h>

#include "base/alloc.h"
#include "kv/shelf/shelf_core.h"
#include "kv/table/narrow.h"

enum { LISTS_BYTES = 1 << 20 }; /* of the lists of keys that a slot remembers */

typedef struct question {
    const shelf *shelf;
    const parcel_section *section; /* not pressed */
    shelf_table *table;
    shelf_note *note; /* of its keys; NULL: none */
    bool kept;
    uint64_t version;
    parcel_writer *answer;
} question;

static parcel_head head_of(const question *question, parcel_op op, uint32_t count) {
    return (parcel_head){
        .table = question->section->table, .op = op, .dtype = question->table->definition.dtype, .count = count};
}

/* ---- One section. MR_INVALID: it asks for what the table is not; MR_TOO_LARGE, MR_NOMEM. */

static mr_status open_answer(const question *question, parcel_op op, size_t count, size_t value_bytes,
                             parcel_room *room) {
    if (count > UINT32_MAX) return MR_TOO_LARGE;
    MR_TRY(parcel_add(question->answer, head_of(question, op, (uint32_t)count), value_bytes, room));
    *room->version = question->version;
    return MR_OK;
}

static mr_status answer_rows(const question *question) {
    const parcel_section *section = question->section;
    const shelf_table *table = question->table;
    parcel_room room;
    if (table->definition.kind != DEFINITION_SPARSE) return MR_INVALID;
    MR_TRY(
        open_answer(question, PARCEL_ROWS, section->count, section->count * sparse_value_bytes(table->sparse), &room));
    shelf_show_rows(table, section->keys, section->count, question->kept, question->note, room.values);
    return MR_OK;
}

static mr_status answer_range(const question *question) {
    const shelf_table *table = question->table;
    parcel_room room;
    uint64_t *keys;
    size_t count;
    if (table->definition.kind != DEFINITION_SPARSE) return MR_INVALID;
    MR_TRY(shelf_range(table, question->section->first, question->section->last, question->section->count,
                       question->kept, &keys, &count));
    mr_status status = open_answer(question, PARCEL_RANGE, count, count * sparse_value_bytes(table->sparse), &room);
    if (status == MR_OK && count > 0) {
        memcpy(room.keys, keys, count * sizeof *keys);
        shelf_show_rows(table, keys, count, question->kept, NULL, room.values);
    }
    free(keys);
    return status;
}

static mr_status answer_vectors(const question *question) {
    const parcel_section *section = question->section;
    const shelf_table *table = question->table;
    mr_dtype dtype = table->definition.dtype;
    size_t items = 0, from = 0;
    uint32_t length;
    parcel_room room;
    if (table->definition.kind != DEFINITION_VECTORS) return MR_INVALID;
    for (uint32_t i = 0; i < section->count; i++, items += length)
        (void)shelf_vector(table, section->keys[i], question->kept, &from, &length);
    MR_TRY(open_answer(question, PARCEL_VECTORS, section->count, items * mr_dtype_size(dtype), &room));
    uint8_t *to = room.values;
    from = 0;
    for (uint32_t i = 0; i < section->count; i++) {
        const void *values = shelf_vector(table, section->keys[i], question->kept, &from, &room.lengths[i]);
        if (room.lengths[i] > 0) narrow_values(dtype, values, room.lengths[i], to);
        to += room.lengths[i] * mr_dtype_size(dtype);
    }
    return MR_OK;
}

static mr_status answer_block(const question *question) {
    const parcel_section *section = question->section;
    const shelf_table *table = question->table;
    parcel_afar afar;
    parcel_room room;
    if (table->definition.kind != DEFINITION_DENSE || !shelf_block_fits(question->shelf, table, &section->place))
        return MR_INVALID;
    bool looks = section->op == PARCEL_GET_BLOCK && (section->flags & PARCEL_AFAR) != 0;
    if (looks && shelf_look_for_block(question->shelf, table, &section->place, question->kept, &afar)) {
        parcel_head head = head_of(question, PARCEL_BLOCK, section->count);
        head.flags = PARCEL_AFAR;
        MR_TRY(parcel_add(question->answer, head, sizeof afar, &room));
        *room.version = question->version;
        memcpy(room.values, &afar, sizeof afar);
        return MR_OK;
    }
    MR_TRY(open_answer(question, PARCEL_BLOCK, section->count, section->count * mr_dtype_size(table->definition.dtype),
                       &room));
    shelf_show_block(question->shelf, table, &section->place, section->count, question->kept, room.values);
    return MR_OK;
}

static mr_status answer_look(const question *question) {
    parcel_look look = shelf_table_look(question->table);
    parcel_room room;
    MR_TRY(open_answer(question, PARCEL_LOOK, 0, sizeof look, &room));
    memcpy(room.values, &look, sizeof look);
    return MR_OK;
}

static mr_status answer(const question *question) {
    parcel_room room;
    uint64_t known = question->section->version;
    if (known != 0 && known == question->version && question->section->op != PARCEL_GET_LOOK)
        return open_answer(question, PARCEL_SAME, 0, 0, &room);
    switch (question->section->op) {
    case PARCEL_ADD_ROWS:
    case PARCEL_SET_ROWS:
    case PARCEL_GET_ROWS: return answer_rows(question);
    case PARCEL_ADD_VECTORS:
    case PARCEL_SET_VECTORS:
    case PARCEL_GET_VECTORS: return answer_vectors(question);
    case PARCEL_ADD_BLOCK:
    case PARCEL_SET_BLOCK:
    case PARCEL_GET_BLOCK: return answer_block(question);
    case PARCEL_GET_RANGE: return answer_range(question);
    case PARCEL_GET_LOOK: return answer_look(question);
    default: return MR_INVALID;
    }
}

/* ---- Which table. */

/* The last definition of this table in the request. */
static bool find_definition(span request, uint32_t id, definition *out) {
    parcel_reader reader = parcel_open(request);
    bool found = false;
    for (parcel_section section; parcel_next(&reader, &section);)
        if (section.op == PARCEL_DEFINE && section.table == id && definition_decode(section.values, out) == MR_OK)
            found = out->id == id;
    return found;
}

/* The reason why there are no values, or 0. */
static parcel_reason find_table(question *question, span request, shelf_table **own) {
    const shelf *shelf = question->shelf;
    uint32_t id = question->section->table;
    definition definition;
    *own = NULL;
    question->table = shelf_table_find(shelf, id, question->kept);
    if (question->table != NULL) {
        question->version = shelf_version(shelf, question->table, question->kept);
        return 0;
    }
    if (shelf_was_dropped(shelf, id, question->kept)) return PARCEL_DROPPED;
    if (!find_definition(request, id, &definition)) return PARCEL_UNKNOWN;
    mr_status status = shelf_table_create(shelf, &definition, own);
    if (status != MR_OK) return status == MR_NOMEM ? PARCEL_TOO_LARGE : PARCEL_UNKNOWN;
    question->table = *own;
    question->version = 0;
    return 0;
}

static void remember(shelf *shelf, const parcel_section *section) {
    if (shelf->lists == NULL) {
        shelf->lists = xmalloc(sizeof *shelf->lists);
        lists_init(shelf->lists, LISTS_BYTES);
    }
    (void)lists_keep(shelf->lists, lists_name_of(section->keys, section->count), section->keys, section->count);
}

/* The section with its keys, if it has a name for them; NULL: they are forgotten. */
static const parcel_section *recall(shelf *shelf, const parcel_section *section, parcel_section *room,
                                    shelf_note **note) {
    if ((section->flags & PARCEL_LISTED) != 0) remember(shelf, section);
    if ((section->flags & PARCEL_KNOWN) == 0) return section;
    const lists_name name = {section->first, section->last};
    lists_item *item = shelf->lists == NULL ? NULL : lists_find(shelf->lists, name, section->count);
    if (item == NULL) return NULL;
    *room = *section;
    room->keys = item->keys;
    if (section->op == PARCEL_GET_ROWS)
        *note = lists_note(shelf->lists, item, sizeof **note + section->count * sizeof *(*note)->numbers);
    return room;
}

/* MR_NOMEM: there is not even room for a reason. */
static mr_status answer_section(shelf *shelf, const parcel_section *section, span request, bool kept,
                                parcel_writer *out) {
    question question = {.shelf = shelf, .kept = kept, .answer = out};
    shelf_table *own;
    parcel_room room;
    parcel_reason reason = PARCEL_MISFIT;
    size_t before = out->size;
    parcel_section recalled;
    question.section = opener_unfold(&shelf->opener, section);
    if (question.section != NULL) {
        question.section = recall(shelf, question.section, &recalled, &question.note);
        if (question.section == NULL) reason = PARCEL_FORGOTTEN;
    }
    if (question.section != NULL) {
        reason = find_table(&question, request, &own);
        mr_status status = reason != 0 ? MR_OK : answer(&question);
        if (status != MR_OK) reason = status == MR_INVALID ? PARCEL_MISFIT : PARCEL_TOO_LARGE;
        shelf_table_destroy(own);
    }
    if (reason == 0) return MR_OK;
    parcel_cut(out, before);
    return parcel_add(out, (parcel_head){.table = section->table, .op = PARCEL_NONE, .count = reason}, 0, &room);
}

/* ---- The whole. */

/* Room for what will be answered, as far as the request says how much that is: it is not moved then. */
static void make_room(const shelf *shelf, span request, parcel_writer *out) {
    parcel_reader reader = parcel_open(request);
    size_t size = 0;
    for (parcel_section section; parcel_next(&reader, &section);) {
        const shelf_table *table = parcel_asks(&section) ? shelf_table_find(shelf, section.table, false) : NULL;
        if (table == NULL || section.op == PARCEL_GET_RANGE || (section.flags & PARCEL_AFAR) != 0) continue;
        size_t values = section.count * mr_dtype_size(table->definition.dtype);
        if (table->sparse != NULL) values *= table->definition.dim;
        size += parcel_section_size(PARCEL_ROWS, section.count, values);
    }
    if (size > 0) (void)!parcel_reserve(out, size); /* without it each section asks for its own */
}

/* One section asks for its own room anyway. */
static mr_status answer_all(shelf *shelf, span request, bool kept, parcel_writer *out) {
    parcel_section section;
    size_t count;
    MR_TRY(parcel_check_last(request, &count, &section));
    if (count == 1) return parcel_asks(&section) ? answer_section(shelf, &section, request, kept, out) : MR_OK;
    make_room(shelf, request, out);
    parcel_reader reader = parcel_open(request);
    while (parcel_next(&reader, &section))
        if (parcel_asks(&section)) MR_TRY(answer_section(shelf, &section, request, kept, out));
    return MR_OK;
}

bale *shelf_answer(void *self, span request, bool kept) {
    shelf *shelf = self;
    parcel_writer *out = &shelf->answer;
    span bytes;
    parcel_tray tray;
    parcel_empty(out);
    if (parcel_align(request, &tray, &bytes) != MR_OK) return parcel_lend(out);
    if (answer_all(shelf, bytes, kept && shelf->keeps, out) != MR_OK) parcel_fini(out);
    parcel_clear(&tray);
    return parcel_lend(out);
}
