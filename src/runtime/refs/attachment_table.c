/* attachment_table.c — table of the references of a value pack: written when the pack is sent, and converted to objects
 * when it is received. See attachment.h. Tested by tests/runtime_refs_test.c. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "runtime/refs/attachment.h"

enum {
    INLINE_MAX = 1024, /* a referred value of up to this many bytes is included itself */
    /* Limits of included values that refer to others: their number, and the bytes of values. */
    NESTED_ROWS_MAX = 1024,
    NESTED_BYTES_MAX = 64 * 1024,
};

typedef struct table_row {
    mr_ref ref;
    uint32_t index, place;
} table_row;
_Static_assert(sizeof(table_row) == 24, "layout");

/* ---- Writing the table. */

typedef struct nested {
    object *object;
    uint32_t place;
} nested;

typedef struct dressing {
    const value_pack *pack;
    objects *objects;
    value_pack_item *items; /* owned: the values, the table, the included entries */
    table_row *rows;        /* owned */
    nested *nested;         /* owned: included values that refer to others, in order of inclusion */
    size_t item_count, item_room, row_count, row_room, nested_count, nested_room;
    size_t nested_rows, nested_bytes;
    map met;         /* nested object → its index in `nested`, plus one */
    void **failures; /* owned: encoded failures, until the value pack is created */
    size_t failure_count, failure_room;
} dressing;

bool attachment_needs_provider(const object *object) {
    if (object->state != OBJECT_READY || object->stored != NULL || object->value.kind == VALUE_PACK_STORED)
        return false;
    return object->value.kind != VALUE_PACK_PLAIN || object->value.bytes.size > INLINE_MAX;
}

/* Gives names to the store objects of the value: other processes will have them. */
static void show_name(const object *object) {
    const attachment *attachment = object->stored != NULL ? object->stored->attachment : object->owner->attachment;
    uint32_t index = object->stored != NULL ? 0 : object->index;
    for (uint32_t i = 0; attachment != NULL && i < attachment->count; i++)
        if (attachment->items[i].index == index) (void)stored_object_name(attachment->items[i].object);
}

static size_t count_inside(const object *object) { /* references and handles in its value */
    const attachment *attachment = object->owner == NULL ? NULL : object->owner->attachment;
    size_t inside = 0;
    for (uint32_t i = 0; attachment != NULL && i < attachment->ref_count; i++)
        inside += attachment->refs[i].index == object->index;
    return inside;
}

static mr_status add_item(dressing *dressing, value_pack_entry entry, uint32_t *place) {
    MR_TRY(alloc_try_grow(&dressing->items, &dressing->item_room, dressing->item_count + 1, sizeof *dressing->items));
    *place = (uint32_t)(dressing->item_count - dressing->pack->count);
    dressing->items[dressing->item_count++] = (value_pack_item){.entry = entry};
    return MR_OK;
}

/* Includes the object's value as the next item: a small value itself, a larger one by its name in the store, where it
 * is written first if needed. *place is 0 if the store has no room. */
static mr_status add_value(dressing *dressing, object *object, uint32_t *place) {
    *place = 0;
    if (attachment_needs_provider(object)) object->stored = attachment_store(dressing->objects, object);
    if (attachment_needs_provider(object))
        return MR_OK; /* no room in the store: receivers fetch the value from this process */
    value_pack_entry entry = object->stored != NULL ? value_pack_value(object->stored, 0) : object->value;
    if (entry.kind == VALUE_PACK_STORED) show_name(object);
    return add_item(dressing, entry, place);
}

/* Includes a value with references if their rows fit. */
static mr_status add_nested(dressing *dressing, object *object, size_t inside, uint32_t *place) {
    *place = 0;
    size_t met = (size_t)(uintptr_t)map_get(&dressing->met, (uintptr_t)object);
    if (met > 0) {
        *place = dressing->nested[met - 1].place;
        return MR_OK;
    }
    if (dressing->nested_rows + inside > NESTED_ROWS_MAX) return MR_OK;
    MR_TRY(alloc_try_grow(&dressing->nested, &dressing->nested_room, dressing->nested_count + 1, sizeof(nested)));
    MR_TRY(map_reserve(&dressing->met, 1));
    MR_TRY(add_value(dressing, object, place));
    if (*place == 0) return MR_OK;
    dressing->nested_rows += inside;
    dressing->nested[dressing->nested_count++] = (nested){object, *place};
    map_put(&dressing->met, (uintptr_t)object, (void *)(uintptr_t)dressing->nested_count);
    return MR_OK;
}

/* Includes the object's failure if there is room. */
static mr_status add_failure(dressing *dressing, const object *object, uint32_t *place) {
    size_t size = failure_encoded_size(object->failure);
    void *bytes;
    *place = 0;
    if (dressing->nested_bytes + size > NESTED_BYTES_MAX) return MR_OK;
    MR_TRY(alloc_try_grow(&dressing->failures, &dressing->failure_room, dressing->failure_count + 1, sizeof(void *)));
    MR_TRY(alloc_try(size, &bytes));
    dressing->failures[dressing->failure_count++] = bytes;
    dressing->nested_bytes += size;
    writer writer = writer_of(bytes, size);
    failure_encode(object->failure, &writer);
    MR_TRY(add_item(dressing, (value_pack_entry){.kind = VALUE_PACK_PLAIN, .bytes = span_of(bytes, size)}, place));
    *place |= ATTACHMENT_FAILED;
    return MR_OK;
}

static mr_status put_row(dressing *dressing, table_row row) {
    MR_TRY(alloc_try_grow(&dressing->rows, &dressing->row_room, dressing->row_count + 1, sizeof row));
    dressing->rows[dressing->row_count++] = row;
    return MR_OK;
}

static mr_status add_actor(dressing *dressing, const actor_handle *handle, uint32_t index) {
    mr_actor actor = actor_handle_actor(handle);
    return put_row(dressing, (table_row){{{actor.word[0], actor.word[1]}}, index, ATTACHMENT_ACTOR});
}

/* Adds the row of a reference. A value included with a reference is not lost with its owner. */
static mr_status add_row(dressing *dressing, object *object, uint32_t index) {
    table_row row = {.ref = object->ref, .index = index};
    size_t inside = object->state == OBJECT_READY ? count_inside(object) : 0;
    size_t small = object->value.kind == VALUE_PACK_PLAIN ? object->value.bytes.size : 0;
    bool is_nested = index >= dressing->pack->count || inside > 0;
    if (object->state == OBJECT_FAILED)
        MR_TRY(add_failure(dressing, object, &row.place));
    else if (object->state != OBJECT_READY || (is_nested && dressing->nested_bytes + small > NESTED_BYTES_MAX))
        row.place = 0;
    else if (inside > 0)
        MR_TRY(add_nested(dressing, object, inside, &row.place));
    else
        MR_TRY(add_value(dressing, object, &row.place));
    if (is_nested && row.place > 0 && object->state == OBJECT_READY) dressing->nested_bytes += small;
    return put_row(dressing, row);
}

/* Adds the rows of value `from` of a value pack, which is value `index` of the one being written; UINT32_MAX: the rows
 * of all values, with their own indexes. */
static mr_status add_rows(dressing *dressing, const attachment *attachment, uint32_t from, uint32_t index) {
    for (int actors = 0; actors < 2; actors++) { /* futures come first */
        for (uint32_t i = 0; i < attachment->ref_count; i++) {
            const attachment_ref *ref = &attachment->refs[i];
            bool other = ref->is_actor != (actors != 0) || (from != UINT32_MAX && ref->index != from);
            uint32_t at = from == UINT32_MAX ? ref->index : index;
            if (ref->index == ATTACHMENT_WITHIN || other) continue;
            MR_TRY(ref->is_actor ? add_actor(dressing, ref->handle, at) : add_row(dressing, ref->object, at));
        }
    }
    return MR_OK;
}

static mr_status dress(dressing *dressing, struct value_pack **out) {
    const value_pack *pack = dressing->pack;
    const attachment *attachment = pack->attachment;
    dressing->item_room = pack->count + 1 + (size_t)attachment->ref_count;
    dressing->row_room = attachment->ref_count;
    MR_TRY(alloc_try(dressing->item_room * sizeof *dressing->items, &dressing->items));
    MR_TRY(alloc_try(dressing->row_room * sizeof *dressing->rows, &dressing->rows));
    for (uint32_t i = 0; i < pack->count; i++)
        dressing->items[i] = (value_pack_item){.entry = value_pack_value(pack, i)};
    dressing->item_count = pack->count + 1; /* the table is filled in below */
    MR_TRY(add_rows(dressing, attachment, UINT32_MAX, 0));
    for (size_t i = 0; i < dressing->nested_count; i++) {
        const object *object = dressing->nested[i].object;
        MR_TRY(add_rows(dressing, object->owner->attachment, object->index, pack->count + dressing->nested[i].place));
    }
    dressing->items[pack->count] = (value_pack_item){
        .entry = {.kind = VALUE_PACK_PLAIN, .bytes = span_of(dressing->rows, dressing->row_count * sizeof(table_row))}};
    MR_TRY(value_pack_create(dressing->items, dressing->item_count, out));
    value_pack_hide(*out, (uint32_t)(dressing->item_count - pack->count));
    return MR_OK;
}

mr_status attachment_dress(value_pack *pack, struct value_pack **out) {
    if (pack->attachment == NULL || pack->attachment->ref_count == 0) {
        *out = value_pack_ref(pack);
        return MR_OK;
    }
    dressing dressing = {.pack = pack, .objects = pack->attachment->objects};
    mr_status status = dress(&dressing, out);
    free(dressing.items);
    free(dressing.rows);
    free(dressing.nested);
    for (size_t i = 0; i < dressing.failure_count; i++) free(dressing.failures[i]);
    free(dressing.failures);
    map_fini(&dressing.met);
    return status;
}

/* ---- Reading the table. */

static mr_status read_row(const value_pack *pack, span table, size_t at, table_row *out) {
    memcpy(out, table.data + at * sizeof *out, sizeof *out);
    bool place = (out->place & ~ATTACHMENT_FAILED) < pack->hidden || out->place == ATTACHMENT_ACTOR;
    bool index = out->index < pack->count + pack->hidden && out->index != pack->count;
    return place && index ? MR_OK
                          : error_set(MR_CORRUPT, "malformed references: row %zu refers to value %u of %u", at,
                                      out->index, pack->count + pack->hidden);
}

static mr_status find_table(const value_pack *pack, span *out) {
    value_pack_entry table = value_pack_value(pack, pack->count);
    if (table.kind != VALUE_PACK_PLAIN || table.bytes.size % sizeof(table_row) != 0)
        return error_set(MR_CORRUPT, "malformed references: a table of %zu bytes with rows of %zu", table.bytes.size,
                         sizeof(table_row));
    *out = table.bytes;
    return MR_OK;
}

typedef struct undressing {
    objects *objects;
    value_pack *pack;
    table_row *rows; /* owned, as are the following fields */
    size_t count;
    object **met;       /* object of each row, held; NULL: none */
    uint32_t *inside;   /* number of rows of each hidden value; 0 unless it is nested */
    value_pack **own;   /* nested values: each holds its references, so each has a value pack of its own */
    value_pack *values; /* the other included values */
} undressing;

static mr_status read_table(undressing *undressing) {
    const value_pack *pack = undressing->pack;
    span table = {0};
    MR_TRY(find_table(pack, &table));
    undressing->count = table.size / sizeof(table_row);
    MR_TRY(alloc_try((undressing->count + 1) * sizeof *undressing->rows, &undressing->rows));
    MR_TRY(alloc_try((undressing->count + 1) * sizeof *undressing->met, &undressing->met));
    MR_TRY(alloc_try(pack->hidden * sizeof *undressing->inside, &undressing->inside));
    for (size_t i = 0; i < undressing->count; i++) {
        MR_TRY(read_row(pack, table, i, &undressing->rows[i]));
        if (undressing->rows[i].index > pack->count) undressing->inside[undressing->rows[i].index - pack->count]++;
    }
    return MR_OK;
}

static mr_status unpack_nested(undressing *undressing, uint32_t place) {
    const value_pack *from = undressing->pack;
    const value_pack_item item = {.entry = value_pack_value(from, from->count + place)};
    MR_TRY(attachment_repack(undressing->objects, &item, 1, &undressing->own[place]));
    attachment *attachment = attachment_of(undressing->objects, undressing->own[place]);
    return attachment_room(attachment, undressing->inside[place]);
}

/* Packs the included values: those without references into one value pack, each nested one into its own. */
static mr_status unpack_values(undressing *undressing) {
    static const uint8_t nil = 0xc0;
    const value_pack *from = undressing->pack;
    MR_TRY(alloc_try(from->hidden * sizeof *undressing->own, &undressing->own));
    for (uint32_t i = 1; i < from->hidden; i++)
        if (undressing->inside[i] > 0) MR_TRY(unpack_nested(undressing, i));
    value_pack_item *items;
    MR_TRY(alloc_try(from->hidden * sizeof(value_pack_item), &items));
    for (uint32_t i = 1; i < from->hidden; i++) {
        value_pack_entry entry = {.kind = VALUE_PACK_PLAIN, .bytes = span_of(&nil, 1)};
        items[i - 1] =
            (value_pack_item){.entry = undressing->inside[i] > 0 ? entry : value_pack_value(from, from->count + i)};
    }
    mr_status status = attachment_repack(undressing->objects, items, from->hidden - 1, &undressing->values);
    free(items);
    return status;
}

/* Finds or creates the object of a row; the containing value holds it. */
static void meet(undressing *undressing, size_t at) {
    const table_row *row = &undressing->rows[at];
    const value_pack *pack = undressing->pack;
    bool is_nested = row->index > pack->count;
    attachment *holder = is_nested ? undressing->own[row->index - pack->count]->attachment : pack->attachment;
    uint32_t index = is_nested ? 0 : row->index;
    if (row->place == ATTACHMENT_ACTOR) {
        actor_handles *handles = undressing->objects->handles;
        if (handles == NULL) return;
        actor_handle *handle = actor_handle_meet(handles, attachment_actor(row->ref));
        attachment_add_handle(holder, index, handle);
        if (is_nested) attachment_add_handle(pack->attachment, ATTACHMENT_WITHIN, handle);
        return;
    }
    object *object = object_meet(undressing->objects, row->ref);
    if (object == NULL && row->place > 0) object = object_meet_again(undressing->objects, row->ref);
    if (object == NULL) return; /* an object of this process that is gone: a dangling reference */
    attachment_add_ref(holder, index, object);
    undressing->met[at] = object;
}

/* Fails an object with its included failure. The owner is informed when the program reads the failure (object_see). A
 * failure that cannot be decoded is fetched. */
static void fail(undressing *undressing, object *object, uint32_t place) {
    span bytes = value_pack_value(undressing->pack, undressing->pack->count + place).bytes;
    reader reader = reader_of(bytes.data, bytes.size);
    failure *failed;
    if (failure_decode(&reader, &failed) != MR_OK) {
        error_clear();
        return;
    }
    object->seen = failed->code == MR_OBJECT_LOST;
    object_fail(undressing->objects, object, failed);
    failure_unref(failed);
}

/* Settles the object of a row with its included value; without one the reference stays borrowed. */
static void settle(undressing *undressing, size_t at) {
    const table_row *row = &undressing->rows[at];
    object *object = undressing->met[at];
    if (object == NULL || !object->foreign || object->state != OBJECT_PENDING) return;
    if (row->place & ATTACHMENT_FAILED)
        fail(undressing, object, row->place & ~ATTACHMENT_FAILED);
    else if (row->place == 0 && row->index > undressing->pack->count)
        attachment_add_ref(undressing->pack->attachment, ATTACHMENT_WITHIN, object);
    else if (row->place > 0 && undressing->own[row->place] != NULL)
        object_fulfil(undressing->objects, object, undressing->own[row->place], 0);
    else if (row->place > 0)
        object_fulfil(undressing->objects, object, undressing->values, row->place - 1);
}

static mr_status undress(undressing *undressing) {
    MR_TRY(read_table(undressing));
    MR_TRY(unpack_values(undressing));
    MR_TRY(attachment_room(attachment_of(undressing->objects, undressing->pack), undressing->count));
    for (size_t i = 0; i < undressing->count; i++) meet(undressing, i);
    for (size_t i = 0; i < undressing->count; i++) settle(undressing, i);
    return MR_OK;
}

mr_status attachment_undress(objects *objects, value_pack *pack) {
    if (objects == NULL)
        return error_set(MR_CORRUPT, "malformed request: its %u values must not contain references", pack->count);
    undressing undressing = {.objects = objects, .pack = pack};
    mr_status status = undress(&undressing);
    for (size_t i = 0; undressing.met != NULL && i < undressing.count; i++)
        if (undressing.met[i] != NULL) object_drop(objects, undressing.met[i]); /* the value packs hold it */
    for (uint32_t i = 1; undressing.own != NULL && i < pack->hidden; i++) value_pack_unref(undressing.own[i]);
    value_pack_unref(undressing.values);
    free(undressing.rows);
    free(undressing.met);
    free(undressing.inside);
    free(undressing.own);
    return status;
}

/* ---- Dependencies of an unread value pack. */

mr_status attachment_each_need(const value_pack *pack, attachment_need_fn *fn, void *context) {
    for (uint32_t i = 0; i < pack->count + pack->hidden; i++) {
        value_pack_entry entry = value_pack_value(pack, i);
        attachment_need need = {.what = ATTACHMENT_NEEDS_OBJECT};
        if (entry.kind != VALUE_PACK_STORED) continue;
        MR_TRY(attachment_read_name(&entry, &need.object));
        MR_TRY(fn(context, &need));
    }
    span table = {0};
    if (pack->hidden > 0) MR_TRY(find_table(pack, &table));
    for (size_t i = 0; i < table.size / sizeof(table_row); i++) {
        table_row row;
        MR_TRY(read_row(pack, table, i, &row));
        bool is_actor = row.place == ATTACHMENT_ACTOR;
        attachment_need need = {.what = is_actor ? ATTACHMENT_NEEDS_ACTOR : ATTACHMENT_NEEDS_FUTURE, .ref = row.ref};
        if (is_actor || row.place == 0) MR_TRY(fn(context, &need));
    }
    return MR_OK;
}
