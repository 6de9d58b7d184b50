/* cargo_refs.c — references inside the values of a bundle: found when it is packed, dressed when it leaves, made
 * objects when it arrives. See cargo.h. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"
#include "runtime/cargo.h"

enum { INLINE_MAX = 1024 }; /* a referred value of up to this many bytes comes along */

typedef struct table_row {
    mr_ref ref;
    uint32_t index, place;
} table_row;
_Static_assert(sizeof(table_row) == 24, "layout");

/* ---- Finding. */

static mr_status found_one(cargo_found *found, mr_ref ref, uint32_t index, bool is_actor) {
    if (found->count == found->capacity) {
        size_t capacity = found->capacity == 0 ? 16 : 2 * found->capacity;
        void *memory = found->items;
        MR_TRY(alloc_try_resize(&memory, capacity * sizeof *found->items));
        found->items = memory;
        found->capacity = capacity;
    }
    found->items[found->count].ref = ref;
    found->items[found->count].is_actor = is_actor;
    found->items[found->count++].index = index;
    return MR_OK;
}

/* What came in is as deep as VALUE_DEPTH_MAX at most. */
static mr_status find_in_value(const mr_value *value, uint32_t index, cargo_found *found) {
    mr_kind kind = mr_value_kind(value);
    if (kind == MR_KIND_REF) {
        mr_ref ref;
        MR_TRY(mr_value_ref(value, &ref));
        return found_one(found, ref, index, false);
    }
    if (kind == MR_KIND_ACTOR) {
        mr_actor actor;
        MR_TRY(mr_value_actor(value, &actor));
        return found_one(found, (mr_ref){{actor.word[0], actor.word[1]}}, index, true);
    }
    if (kind != MR_KIND_LIST && kind != MR_KIND_TUPLE && kind != MR_KIND_MAP) return MR_OK;
    mr_iter iter = mr_value_iter(value);
    for (mr_value item; mr_iter_next(&iter, &item);) MR_TRY(find_in_value(&item, index, found));
    return MR_OK;
}

static mr_status find_in_items(const mr_arg *arg, uint32_t index, int depth, cargo_found *found) {
    if (arg->received) return find_in_value(arg->value, index, found);
    if (arg->kind == MR_KIND_REF) return found_one(found, arg->ref, index, false);
    if (arg->kind == MR_KIND_ACTOR)
        return found_one(found, (mr_ref){{arg->actor.word[0], arg->actor.word[1]}}, index, true);
    bool container = arg->kind == MR_KIND_LIST || arg->kind == MR_KIND_TUPLE || arg->kind == MR_KIND_MAP;
    if (!container || depth > VALUE_DEPTH_MAX || arg->items.first == NULL) return MR_OK; /* refused when measured */
    size_t count = arg->items.count * (arg->kind == MR_KIND_MAP ? 2 : 1);
    for (size_t i = 0; i < count; i++) MR_TRY(find_in_items(&arg->items.first[i], index, depth + 1, found));
    return MR_OK;
}

mr_status cargo_find_refs(const mr_arg *arg, uint32_t index, cargo_found *found) {
    return find_in_items(arg, index, 0, found);
}

static void add_ref(cargo *cargo, uint32_t index, object *object) {
    object_enclose(object);
    cargo->refs[cargo->ref_count++] = (cargo_ref){index, object};
}

static void add_handle(cargo *cargo, uint32_t index, mr_ref words) {
    handle *handle = handle_meet(cargo->objects->handles, (mr_actor){{words.word[0], words.word[1]}});
    handle_enclose(handle);
    cargo->handles[cargo->handle_count++] = (cargo_handle){index, handle};
}

static mr_status room_for(cargo *cargo, size_t refs, size_t handles) {
    void *memory;
    MR_TRY(alloc_try((refs + 1) * sizeof(cargo_ref), &memory));
    cargo->refs = memory;
    MR_TRY(alloc_try((handles + 1) * sizeof(cargo_handle), &memory));
    cargo->handles = memory;
    return MR_OK;
}

static size_t count_actors(const cargo_found *found) {
    size_t actors = 0;
    for (size_t i = 0; i < found->count; i++) actors += found->items[i].is_actor;
    return actors;
}

mr_status cargo_attach(objects *objects, const cargo_found *found, bundle *bundle) {
    size_t actors = count_actors(found);
    if (objects == NULL || objects->handles == NULL) {
        if (actors == found->count) return MR_OK; /* handles may be passed on without being kept */
        if (objects == NULL) return error_set(MR_INVALID, "a future inside a value, where nobody could keep it");
    }
    cargo *cargo = cargo_of(objects, bundle);
    MR_TRY(room_for(cargo, found->count - actors, actors));
    for (size_t i = 0; i < found->count; i++) {
        if (found->items[i].is_actor) {
            if (objects->handles != NULL) add_handle(cargo, found->items[i].index, found->items[i].ref);
            continue;
        }
        object *object = object_find(objects, found->items[i].ref);
        if (object == NULL)
            return error_set(MR_INVALID, "argument %u holds a future that this process does not have (any more)",
                             found->items[i].index);
        add_ref(cargo, found->items[i].index, object);
    }
    return MR_OK;
}

/* ---- Dressing. */

bool cargo_needs_shelf(const object *object) {
    if (object->state != OBJECT_READY || object->stored != NULL || object->value.kind == BUNDLE_STORED) return false;
    if (object->value.kind == BUNDLE_PLAIN && object->value.bytes.size <= INLINE_MAX) return false;
    return object->owner == NULL || !cargo_refers(object->owner, object->index);
}

/* What travels with a reference is not lost with its owner: a small value itself, a larger one by its name in the
 * store, where it is put when it is first needed there. One that refers to others would bring all of them. */
static bool comes_along(objects *objects, object *object, bundle_entry *out) {
    if (object->state != OBJECT_READY) return false;
    if (object->owner != NULL && cargo_refers(object->owner, object->index)) return false;
    if (cargo_needs_shelf(object)) object->stored = cargo_shelve(objects, object);
    *out = object->stored != NULL ? bundle_value(object->stored, 0) : object->value;
    return !cargo_needs_shelf(object); /* else there is no room: whoever wants it asks us */
}

/* Others will have what it names. */
static void show_name(const object *object) {
    const cargo *cargo = object->stored != NULL ? object->stored->cargo : object->owner->cargo;
    uint32_t index = object->stored != NULL ? 0 : object->index;
    for (uint32_t i = 0; cargo != NULL && i < cargo->count; i++)
        if (cargo->items[i].index == index) (void)shelved_name(cargo->items[i].shelved);
}

static mr_status dress(const bundle *bundle, bundle_item *items, table_row *rows, struct bundle **out) {
    const cargo *cargo = bundle->cargo;
    uint32_t hidden = 1, count = bundle->count;
    for (uint32_t i = 0; i < count; i++) items[i].entry = bundle_value(bundle, i);
    for (uint32_t i = 0; i < cargo->ref_count; i++) {
        object *object = cargo->refs[i].object;
        rows[i] = (table_row){.ref = object->ref, .index = cargo->refs[i].index};
        if (!comes_along(cargo->objects, object, &items[count + hidden].entry)) continue;
        if (items[count + hidden].entry.kind == BUNDLE_STORED) show_name(object);
        rows[i].place = hidden++;
    }
    for (uint32_t i = 0; i < cargo->handle_count; i++) {
        mr_actor actor = handle_actor(cargo->handles[i].handle);
        rows[cargo->ref_count + i] =
            (table_row){{{actor.word[0], actor.word[1]}}, cargo->handles[i].index, CARGO_ACTOR};
    }
    items[count].entry = (bundle_entry){
        .kind = BUNDLE_PLAIN, .bytes = span_of(rows, (cargo->ref_count + cargo->handle_count) * sizeof *rows)};
    MR_TRY(bundle_create(items, count + hidden, out));
    bundle_hide(*out, hidden);
    return MR_OK;
}

mr_status cargo_dress(bundle *bundle, struct bundle **out) {
    if (bundle->cargo == NULL || bundle->cargo->ref_count + bundle->cargo->handle_count == 0) {
        *out = bundle_ref(bundle);
        return MR_OK;
    }
    void *items, *rows;
    size_t refs = (size_t)bundle->cargo->ref_count + bundle->cargo->handle_count;
    MR_TRY(alloc_try((bundle->count + 1 + refs) * sizeof(bundle_item), &items));
    mr_status status = alloc_try(refs * sizeof(table_row), &rows);
    if (status == MR_OK) {
        status = dress(bundle, items, rows, out);
        free(rows);
    }
    free(items);
    return status;
}

/* ---- Undressing. */

/* The values that came along, as a bundle of their own: objects hold it, and the bundle that came holds them. */
static mr_status unpack_values(objects *objects, const bundle *from, bundle **out) {
    void *memory;
    MR_TRY(alloc_try(from->hidden * sizeof(bundle_item), &memory));
    bundle_item *items = memory;
    for (uint32_t i = 1; i < from->hidden; i++) items[i - 1].entry = bundle_value(from, from->count + i);
    mr_status status = cargo_repack(objects, items, from->hidden - 1, out);
    free(items);
    return status;
}

static mr_status read_row(const bundle *bundle, span table, size_t at, table_row *out) {
    memcpy(out, table.data + at * sizeof *out, sizeof *out);
    bool fits = out->index < bundle->count && (out->place < bundle->hidden || out->place == CARGO_ACTOR);
    return fits ? MR_OK : error_set(MR_CORRUPT, "a reference that belongs to no value");
}

static mr_status meet_all(objects *objects, bundle *bundle, span table, struct bundle *values) {
    cargo *cargo = cargo_of(objects, bundle);
    size_t count = table.size / sizeof(table_row);
    MR_TRY(room_for(cargo, count, count));
    for (size_t i = 0; i < count; i++) {
        table_row row;
        MR_TRY(read_row(bundle, table, i, &row));
        if (row.place == CARGO_ACTOR) {
            if (objects->handles != NULL) add_handle(cargo, row.index, row.ref);
            continue;
        }
        object *object = object_meet(objects, row.ref);
        if (object == NULL && row.place > 0) object = object_meet_again(objects, row.ref);
        if (object == NULL) continue; /* one of ours that is gone: the reference leads nowhere */
        add_ref(cargo, row.index, object);
        if (row.place > 0 && object->foreign && object->state == OBJECT_PENDING)
            object_fulfil(objects, object, values, row.place - 1);
        object_drop(objects, object); /* the bundle has it */
    }
    return MR_OK;
}

static mr_status find_table(const bundle *bundle, span *out) {
    bundle_entry table = bundle_value(bundle, bundle->count);
    if (table.kind != BUNDLE_PLAIN || table.bytes.size % sizeof(table_row) != 0)
        return error_set(MR_CORRUPT, "values with a table of references that is none");
    *out = table.bytes;
    return MR_OK;
}

mr_status cargo_undress(objects *objects, bundle *bundle) {
    span table = {0};
    struct bundle *values;
    if (objects == NULL) return error_set(MR_CORRUPT, "values that refer to others, where nobody could keep those");
    MR_TRY(find_table(bundle, &table));
    MR_TRY(unpack_values(objects, bundle, &values));
    mr_status status = meet_all(objects, bundle, table, values);
    bundle_unref(values);
    return status;
}

/* ---- Keeping unread. */

static mr_status need_of_row(const table_row *row, cargo_need_fn *fn, void *context) {
    cargo_need need = {.what = row->place == CARGO_ACTOR ? CARGO_NEEDS_ACTOR : CARGO_NEEDS_FUTURE, .ref = row->ref};
    return row->place == 0 || row->place == CARGO_ACTOR ? fn(context, &need) : MR_OK;
}

mr_status cargo_each_need(const bundle *bundle, cargo_need_fn *fn, void *context) {
    for (uint32_t i = 0; i < bundle->count + bundle->hidden; i++) {
        bundle_entry entry = bundle_value(bundle, i);
        cargo_need need = {.what = CARGO_NEEDS_OBJECT};
        if (entry.kind != BUNDLE_STORED) continue;
        MR_TRY(cargo_read_name(&entry, &need.object));
        MR_TRY(fn(context, &need));
    }
    span table = {0};
    if (bundle->hidden > 0) MR_TRY(find_table(bundle, &table));
    for (size_t i = 0; i < table.size / sizeof(table_row); i++) {
        table_row row;
        MR_TRY(read_row(bundle, table, i, &row));
        MR_TRY(need_of_row(&row, fn, context));
    }
    return MR_OK;
}
