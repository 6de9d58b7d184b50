/* cargo.c — see cargo.h. Tested by tests/runtime_store_test.c. */
#include "runtime/refs/cargo.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/failpoint.h"
#include "net/value_payload.h"

enum { SHELVE_PAUSES = 10, SHELVE_PAUSE_US = 1000, SHELVE_ERRANDS = 64 };

typedef struct cargo_name { /* of an object, in a STORED entry */
    object_ref ref;
    uint64_t size;
} cargo_name;
_Static_assert(sizeof(cargo_name) == 40, "layout");

/* ---- The list of what is held. */

void cargo_free(cargo *cargo) {
    if (cargo == NULL) return;
    for (uint32_t i = 0; i < cargo->count; i++) shelved_unref(cargo->items[i].shelved);
    for (uint32_t i = 0; i < cargo->ref_count; i++) object_disclose(cargo->objects, cargo->refs[i].object);
    for (uint32_t i = 0; i < cargo->handle_count; i++)
        handle_disclose(cargo->objects->handles, cargo->handles[i].handle);
    free(cargo->refs);
    free(cargo->handles);
    free(cargo);
}

static shelved *find(const bundle *bundle, uint32_t index) {
    const cargo *cargo = bundle->cargo;
    uint32_t low = 0, high = cargo == NULL ? 0 : cargo->count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (cargo->items[middle].index < index)
            low = middle + 1;
        else
            high = middle;
    }
    return cargo != NULL && low < cargo->count && cargo->items[low].index == index ? cargo->items[low].shelved : NULL;
}

static mr_status room_for(objects *objects, size_t count, cargo **out) {
    MR_TRY(alloc_try(sizeof(cargo) + count * sizeof(struct cargo_item), out));
    **out = (cargo){.objects = objects};
    return MR_OK;
}

cargo *cargo_of(objects *objects, bundle *bundle) {
    if (bundle->cargo == NULL) {
        bundle->cargo = xcalloc(1, sizeof *bundle->cargo);
        bundle->cargo->objects = objects;
    }
    return bundle->cargo;
}

static void add(cargo *cargo, uint32_t index, shelved *shelved) { /* the reference is taken over */
    cargo->items[cargo->count].index = index;
    cargo->items[cargo->count++].shelved = shelved;
}

/* ---- How much a value weighs: at least what its large parts have; exact enough to decide where it goes. */

static size_t tensor_bytes(const mr_arg *arg) {
    uint64_t items = arg->array.shape == NULL ? (uint64_t)arg->array.length : 1;
    for (int i = 0; arg->array.shape != NULL && i < arg->dims && i < MR_TENSOR_DIMS_MAX; i++)
        if (__builtin_mul_overflow(items, (uint64_t)arg->array.shape[i], &items)) return 0; /* refused when measured */
    return items > SIZE_MAX / 16 ? 0 : (size_t)items * mr_dtype_size((mr_dtype)arg->dtype);
}

static size_t custom_bytes(const mr_custom *custom) {
    size_t sum = custom->data.size;
    for (size_t i = 0; custom->buffers != NULL && i < custom->buffer_count && sum < SHELF_VALUE_MIN; i++)
        sum += custom->buffers[i].size;
    return sum;
}

static size_t weight(const mr_arg *arg, int depth) {
    if (arg->received) {
        const value_doc *doc = value_view_doc(arg->value);
        return doc == NULL ? 0 : doc->bytes.size + doc->region.size;
    }
    switch (arg->kind) {
    case MR_KIND_STR:
    case MR_KIND_BYTES: return arg->bytes.size;
    case MR_KIND_TENSOR: return tensor_bytes(arg);
    case MR_KIND_CUSTOM: return custom_bytes(arg->custom);
    case MR_KIND_LIST:
    case MR_KIND_TUPLE:
    case MR_KIND_MAP: break;
    default: return 9;
    }
    size_t count = arg->items.count * (arg->kind == MR_KIND_MAP ? 2 : 1), sum = 5;
    if (arg->items.first == NULL || arg->items.count > value_count_max(arg->kind))
        return sum; /* refused when measured, if it should have any */
    for (size_t i = 0; i < count && sum < SHELF_VALUE_MIN && depth < VALUE_DEPTH_MAX; i++)
        sum += weight(&arg->items.first[i], depth + 1);
    return sum;
}

bool cargo_is_large(const mr_arg *arg) { return weight(arg, 0) >= SHELF_VALUE_MIN; }

/* ---- Packing. */

typedef struct making { /* one value on its way into the store */
    const cargo_packer *packer;
    shelved *shelved; /* NULL: nothing was made */
} making;

static mr_status room_in_store(void *context, size_t size, uint8_t **out) {
    making *making = context;
    const cargo_packer *packer = making->packer;
    void *data;
    if (packer->lock != NULL) packer->lock(packer->context);
    mr_status status = shelf_make(packer->objects->shelf, size, packer->may_wait, &making->shelved, &data);
    if (packer->lock != NULL) packer->unlock(packer->context);
    if (status == MR_OK) *out = data;
    return status;
}

/* Puts one value into the store. *out is NULL where it has to stay in the bundle. */
static mr_status store_value(const cargo_packer *packer, const bundle_item *item, shelved **out) {
    making making = {.packer = packer};
    mr_status status = bundle_write(item, 1, room_in_store, &making);
    *out = making.shelved;
    if (making.shelved == NULL) return status == MR_BUSY || status == MR_CLOSED ? MR_OK : status;
    if (packer->lock != NULL) packer->lock(packer->context);
    FAILPOINT("runtime.cargo_written");
    if (status == MR_OK)
        shelf_seal(making.shelved);
    else
        shelf_abort(making.shelved);
    if (packer->lock != NULL) packer->unlock(packer->context);
    return status;
}

/* The large ones among the items get names; `names` and `cargo` have room for all. */
static mr_status store_large(const cargo_packer *packer, bundle_item *items, size_t count, cargo_name *names,
                             cargo *cargo) {
    for (size_t i = 0; i < count; i++) {
        if (items[i].arg == NULL || !cargo_is_large(items[i].arg)) continue;
        shelved *shelved;
        mr_status status = store_value(packer, &items[i], &shelved);
        if (status != MR_OK) return error_wrap(status, "argument %zu", i);
        if (shelved == NULL) continue;
        add(cargo, (uint32_t)i, shelved);
        names[i] = (cargo_name){.ref = packer->leaves ? shelved_name(shelved) : shelved->ref, .size = shelved->size};
        items[i] = (bundle_item){.entry = {.kind = BUNDLE_STORED, .bytes = span_of(&names[i], sizeof names[i])}};
    }
    return MR_OK;
}

static void free_locked(const cargo_packer *packer, cargo *cargo) {
    if (packer->lock != NULL) packer->lock(packer->context);
    cargo_free(cargo);
    if (packer->lock != NULL) packer->unlock(packer->context);
}

static mr_status pack_with_large(const cargo_packer *packer, bundle_item *items, size_t count, bundle **out) {
    void *names;
    cargo *cargo;
    MR_TRY(alloc_try(count * sizeof(cargo_name), &names));
    mr_status status = room_for(packer->objects, count, &cargo);
    if (status != MR_OK) {
        free(names);
        return status;
    }
    status = store_large(packer, items, count, names, cargo);
    if (status == MR_OK) status = bundle_create(items, count, out);
    free(names);
    if (status == MR_OK && cargo->count > 0) /* else all stayed in the bundle, of which nobody has to say anything */
        (*out)->cargo = cargo;
    else
        free_locked(packer, cargo);
    return status;
}

typedef struct errand { /* a value whose references are to be looked at */
    const cargo *cargo;
    uint32_t index; /* CARGO_WITHIN: all of the cargo's */
} errand;

/* False: there is no memory for it now. */
static bool shelve_one(const cargo_packer *packer, object *object, int *pauses) {
    const shelf_host *host = &packer->objects->shelf->host;
    while (cargo_needs_shelf(object)) {
        object->stored = cargo_shelve(packer->objects, object);
        if (object->stored == NULL && ((*pauses)-- <= 0 || host->wait(host->context, SHELVE_PAUSE_US) != MR_OK))
            return false;
    }
    return true;
}

/* What the values refer to and others will want goes to the store while we can wait: for a moment, if it has to be
 * asked for memory; and what that refers to, some way down. What does not get there is fetched from us. */
static void shelve_referred(const cargo_packer *packer, const bundle *made) {
    int pauses = packer->may_wait && packer->objects->shelf->host.wait != NULL ? SHELVE_PAUSES : 0;
    errand errands[SHELVE_ERRANDS] = {{made->cargo, CARGO_WITHIN}};
    size_t count = made->cargo != NULL;
    for (size_t at = 0; at < count; at++) {
        const cargo *cargo = errands[at].cargo;
        for (uint32_t i = 0; i < cargo->ref_count; i++) {
            object *object = cargo->refs[i].object;
            if (errands[at].index != CARGO_WITHIN && cargo->refs[i].index != errands[at].index) continue;
            if (!shelve_one(packer, object, &pauses)) return;
            if (object->owner != NULL && object->owner->cargo != NULL && count < SHELVE_ERRANDS)
                errands[count++] = (errand){object->owner->cargo, object->index};
        }
    }
}

static mr_status attach_locked(const cargo_packer *packer, const cargo_found *found, bundle *made) {
    if (packer->lock != NULL) packer->lock(packer->context);
    mr_status status = cargo_attach(packer->objects, found, made);
    if (status == MR_OK && packer->leaves && packer->objects->shelf != NULL) shelve_referred(packer, made);
    if (status != MR_OK) bundle_unref(made);
    if (packer->lock != NULL) packer->unlock(packer->context);
    return status;
}

mr_status cargo_pack(const cargo_packer *packer, bundle_item *items, size_t count, bundle **out) {
    bool large = false, shelf = packer->objects != NULL && packer->objects->shelf != NULL;
    cargo_found found = {0};
    bundle *made = NULL;
    mr_status status = MR_OK;
    for (size_t i = 0; i < count && status == MR_OK; i++) {
        if (items[i].arg == NULL) continue;
        status = cargo_find_refs(items[i].arg, (uint32_t)i, &found);
        large = large || (shelf && cargo_is_large(items[i].arg));
    }
    if (status == MR_OK)
        status = large ? pack_with_large(packer, items, count, &made) : bundle_create(items, count, &made);
    if (status == MR_OK && found.count > 0) status = attach_locked(packer, &found, made);
    free(found.items);
    if (status == MR_OK) *out = made;
    return status;
}

bundle *cargo_shelve(objects *objects, const object *object) {
    const cargo_packer packer = {.objects = objects, .leaves = true};
    const bundle_item item = cargo_item_of_object(object);
    shelved *shelved = NULL;
    cargo *cargo = NULL;
    bundle *made = NULL;
    if (objects->shelf == NULL || room_for(objects, 1, &cargo) != MR_OK) return NULL;
    if (store_value(&packer, &item, &shelved) == MR_OK && shelved != NULL) {
        add(cargo, 0, shelved);
        const cargo_name name = {.ref = shelved_name(shelved), .size = shelved->size};
        const bundle_item named = {.entry = {.kind = BUNDLE_STORED, .bytes = span_of(&name, sizeof name)}};
        if (bundle_create(&named, 1, &made) == MR_OK) made->cargo = cargo;
    }
    if (made == NULL) {
        error_clear();
        cargo_free(cargo);
    }
    return made;
}

/* ---- Taking what is named. */

static mr_status read_name(const bundle_entry *entry, cargo_name *out) {
    if (entry->bytes.size != sizeof *out)
        return error_set(MR_CORRUPT, "malformed reference to an object: %zu bytes instead of %zu", entry->bytes.size,
                         sizeof *out);
    memcpy(out, entry->bytes.data, sizeof *out);
    return MR_OK;
}

static uint32_t count_stored(const bundle *bundle) {
    uint32_t stored = 0;
    for (uint32_t i = 0; i < bundle->count; i++) stored += bundle_value(bundle, i).kind == BUNDLE_STORED;
    return stored;
}

static mr_status receive_stored(objects *objects, bundle *bundle) {
    uint32_t stored = count_stored(bundle);
    if (stored == 0) return MR_OK;
    if (objects == NULL || objects->shelf == NULL)
        return error_set(MR_OBJECT_LOST, "cannot read %u values: this process has no object store", stored);
    cargo *cargo;
    MR_TRY(room_for(objects, stored, &cargo));
    mr_status status = MR_OK;
    for (uint32_t i = 0; i < bundle->count && status == MR_OK; i++) {
        bundle_entry entry = bundle_value(bundle, i);
        cargo_name name;
        shelved *shelved;
        if (entry.kind != BUNDLE_STORED) continue;
        status = read_name(&entry, &name);
        if (status == MR_OK) status = shelf_expect(objects->shelf, &name.ref, name.size, &shelved);
        if (status == MR_OK) add(cargo, i, shelved);
    }
    FAILPOINT("runtime.cargo_taken");
    if (status == MR_OK)
        bundle->cargo = cargo;
    else
        cargo_free(cargo);
    return status;
}

mr_status cargo_receive(objects *objects, bundle *bundle) {
    if (bundle->cargo != NULL) return MR_OK;
    MR_TRY(receive_stored(objects, bundle));
    return bundle->hidden == 0 ? MR_OK : cargo_undress(objects, bundle);
}

bundle_item cargo_item_of(const bundle *from, uint32_t index) {
    return (bundle_item){.entry = bundle_value(from, index), .from = from, .index = index};
}

bundle_item cargo_item_of_object(const object *object) {
    return object->owner != NULL ? cargo_item_of(object->owner, object->index) : (bundle_item){.entry = object->value};
}

bool cargo_refers(const bundle *bundle, uint32_t index) {
    const cargo *cargo = bundle->cargo;
    for (uint32_t i = 0; cargo != NULL && i < cargo->ref_count; i++)
        if (cargo->refs[i].index == index) return true;
    for (uint32_t i = 0; cargo != NULL && i < cargo->handle_count; i++)
        if (cargo->handles[i].index == index) return true;
    return false;
}

static void count_refs(const bundle_item *items, size_t count, size_t *refs, size_t *handles) {
    for (size_t i = 0; i < count; i++) {
        const cargo *from = items[i].from == NULL ? NULL : items[i].from->cargo;
        if (from == NULL) continue;
        *refs += from->ref_count;
        *handles += from->handle_count;
    }
}

static void copy_refs_of(const bundle_item *item, uint32_t index, cargo *cargo) {
    const struct cargo *from = item->from == NULL ? NULL : item->from->cargo;
    for (uint32_t j = 0; from != NULL && j < from->ref_count; j++)
        if (from->refs[j].index == item->index) cargo_add_ref(cargo, index, from->refs[j].object);
    for (uint32_t j = 0; from != NULL && j < from->handle_count; j++) {
        if (from->handles[j].index != item->index) continue;
        handle_enclose(from->handles[j].handle);
        cargo->handles[cargo->handle_count++] = (cargo_handle){index, from->handles[j].handle};
    }
}

/* What the items refer to comes along. */
static mr_status copy_refs(objects *objects, const bundle_item *items, size_t count, bundle *made) {
    size_t refs = 0, handles = 0;
    count_refs(items, count, &refs, &handles);
    if (refs + handles == 0) return MR_OK;
    cargo *cargo = cargo_of(objects, made);
    MR_TRY(cargo_room(cargo, refs, handles));
    for (size_t i = 0; i < count; i++) copy_refs_of(&items[i], (uint32_t)i, cargo);
    return MR_OK;
}

mr_status cargo_repack(objects *objects, const bundle_item *items, size_t count, bundle **out) {
    bundle *made;
    MR_TRY(bundle_create(items, count, &made));
    mr_status status = receive_stored(objects, made);
    if (status == MR_OK) status = copy_refs(objects, items, count, made);
    if (status != MR_OK) {
        bundle_unref(made);
        return status;
    }
    *out = made;
    return MR_OK;
}

bool cargo_is_taken(const bundle *bundle) {
    const cargo *cargo = bundle->cargo;
    for (uint32_t i = 0; cargo != NULL && i < cargo->count; i++)
        if (!shelved_is_taken(cargo->items[i].shelved)) return false;
    return true;
}

/* ---- Showing. */

mr_status cargo_show(const bundle *bundle, uint32_t index, bool may_wait, bundle_entry *out) {
    bundle_entry entry = bundle_value(bundle, index);
    if (entry.kind != BUNDLE_STORED) {
        *out = entry;
        return MR_OK;
    }
    shelved *shelved = find(bundle, index);
    if (shelved == NULL)
        return error_set(MR_OBJECT_LOST, "value %u is in the object store and not held by this process", index);
    span bytes;
    bundle_view view;
    MR_TRY(shelf_show(shelved, may_wait, &bytes));
    mr_status status = bundle_open(bytes, &view);
    if (status == MR_OK && view.count == 1) {
        *out = bundle_view_entry(&view, 0);
        if (out->kind != BUNDLE_STORED) return MR_OK;
    }
    shelf_hide(shelved);
    return status != MR_OK
               ? status
               : error_set(MR_CORRUPT, "malformed object of %zu bytes: %u values instead of 1", bytes.size, view.count);
}

void cargo_hide(const bundle *bundle, uint32_t index) {
    shelved *shelved = find(bundle, index);
    if (shelved != NULL) shelf_hide(shelved);
}

mr_status cargo_read_name(const bundle_entry *entry, object_ref *out) {
    cargo_name name;
    MR_TRY(read_name(entry, &name));
    *out = name.ref;
    return MR_OK;
}

uint64_t cargo_bytes(const bundle *bundle, uint32_t index) {
    bundle_entry entry = bundle_value(bundle, index);
    if (entry.kind != BUNDLE_STORED) return entry.bytes.size + entry.region.size;
    cargo_name name = {0};
    if (entry.bytes.size == sizeof name) memcpy(&name, entry.bytes.data, sizeof name);
    return name.size;
}
