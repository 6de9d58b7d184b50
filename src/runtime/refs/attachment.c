/* attachment.c — see attachment.h. Tested by tests/runtime_store_test.c. */
#include "runtime/refs/attachment.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/binary_search.h"
#include "base/error.h"
#include "base/failpoint.h"
#include "net/value_extension.h"

enum { SHELVE_PAUSES = 10, SHELVE_PAUSE_US = 1000, SHELVE_REQUESTS = 64 };

typedef struct attachment_name { /* name of an object, in a STORED entry */
    object_ref ref;
    uint64_t size;
} attachment_name;
_Static_assert(sizeof(attachment_name) == 40, "layout");

/* ---- Held objects and references. */

void attachment_free(attachment *attachment) {
    if (attachment == NULL) return;
    for (uint32_t i = 0; i < attachment->count; i++) stored_object_unref(attachment->items[i].object);
    for (uint32_t i = 0; i < attachment->ref_count; i++) {
        const attachment_ref *ref = &attachment->refs[i];
        if (ref->is_actor)
            actor_handle_disclose(attachment->objects->handles, ref->handle);
        else
            object_disclose(attachment->objects, ref->object);
    }
    free(attachment->refs);
    free(attachment);
}

static stored_object *find(const value_pack *pack, uint32_t index) {
    const attachment *attachment = pack->attachment;
    if (attachment == NULL) return NULL;
    const struct attachment_item *items = attachment->items;
    size_t at = binary_search_first(&index, items, attachment->count, sizeof *items, binary_search_u32);
    return at < attachment->count && items[at].index == index ? items[at].object : NULL;
}

static mr_status room_for(objects *objects, size_t count, attachment **out) {
    MR_TRY(alloc_try(sizeof(attachment) + count * sizeof(struct attachment_item), out));
    **out = (attachment){.objects = objects};
    return MR_OK;
}

attachment *attachment_of(objects *objects, value_pack *pack) {
    if (pack->attachment == NULL) pack->attachment = XNEW(attachment, .objects = objects);
    return pack->attachment;
}

static void add(attachment *attachment, uint32_t index, stored_object *object) { /* takes over the reference */
    attachment->items[attachment->count].index = index;
    attachment->items[attachment->count++].object = object;
}

/* ---- Estimated size of a value: that of its large parts at least, exact enough to choose between pack and store. */

static size_t tensor_bytes(const mr_arg *arg) {
    uint64_t items = arg->array.shape == NULL ? (uint64_t)arg->array.length : 1;
    for (int i = 0; arg->array.shape != NULL && i < arg->dims && i < MR_TENSOR_DIMS_MAX; i++)
        if (__builtin_mul_overflow(items, (uint64_t)arg->array.shape[i], &items)) return 0; /* refused when measured */
    return items > SIZE_MAX / 16 ? 0 : (size_t)items * mr_dtype_size((mr_dtype)arg->dtype);
}

static size_t custom_bytes(const mr_custom *custom) {
    size_t sum = custom->data.size;
    for (size_t i = 0; custom->buffers != NULL && i < custom->buffer_count && sum < STORE_PROVIDER_VALUE_MIN; i++)
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
        return sum; /* value_measure refuses missing items */
    for (size_t i = 0; i < count && sum < STORE_PROVIDER_VALUE_MIN && depth < VALUE_DEPTH_MAX; i++)
        sum += weight(&arg->items.first[i], depth + 1);
    return sum;
}

bool attachment_is_large(const mr_arg *arg) { return weight(arg, 0) >= STORE_PROVIDER_VALUE_MIN; }

/* ---- Packing. */

typedef struct making { /* one value being written into the store */
    const attachment_packer *packer;
    stored_object *object; /* NULL: not created */
} making;

static mr_status room_in_store(void *context, size_t size, uint8_t **out) {
    making *making = context;
    const attachment_packer *packer = making->packer;
    void *data;
    if (packer->lock != NULL) packer->lock(packer->context);
    mr_status status = store_provider_make(packer->objects->provider, size, packer->may_wait, &making->object, &data);
    if (packer->lock != NULL) packer->unlock(packer->context);
    if (status == MR_OK) *out = data;
    return status;
}

/* Writes one value into the store. *out is NULL if the value has to stay in the value pack. */
static mr_status store_value(const attachment_packer *packer, const value_pack_item *item, stored_object **out) {
    making making = {.packer = packer};
    mr_status status = value_pack_write(item, 1, room_in_store, &making);
    *out = making.object;
    if (making.object == NULL) return status == MR_BUSY || status == MR_CLOSED ? MR_OK : status;
    if (packer->lock != NULL) packer->lock(packer->context);
    FAILPOINT("runtime.cargo_written");
    if (status == MR_OK)
        store_provider_seal(making.object);
    else
        store_provider_abort(making.object);
    if (packer->lock != NULL) packer->unlock(packer->context);
    return status;
}

/* Writes the large items into the store and replaces them by names; `names` and `attachment` have room for all
 * items. */
static mr_status store_large(const attachment_packer *packer, value_pack_item *items, size_t count,
                             attachment_name *names, attachment *attachment) {
    for (size_t i = 0; i < count; i++) {
        if (items[i].arg == NULL || !attachment_is_large(items[i].arg)) continue;
        stored_object *object;
        mr_status status = store_value(packer, &items[i], &object);
        if (status != MR_OK) return error_wrap(status, "argument %zu", i);
        if (object == NULL) continue;
        add(attachment, (uint32_t)i, object);
        names[i] =
            (attachment_name){.ref = packer->leaves ? stored_object_name(object) : object->ref, .size = object->size};
        items[i] =
            (value_pack_item){.entry = {.kind = VALUE_PACK_STORED, .bytes = span_of(&names[i], sizeof names[i])}};
    }
    return MR_OK;
}

static void free_locked(const attachment_packer *packer, attachment *attachment) {
    if (packer->lock != NULL) packer->lock(packer->context);
    attachment_free(attachment);
    if (packer->lock != NULL) packer->unlock(packer->context);
}

static mr_status pack_with_large(const attachment_packer *packer, value_pack_item *items, size_t count,
                                 value_pack **out) {
    void *names;
    attachment *attachment;
    MR_TRY(alloc_try(count * sizeof(attachment_name), &names));
    mr_status status = room_for(packer->objects, count, &attachment);
    if (status != MR_OK) {
        free(names);
        return status;
    }
    status = store_large(packer, items, count, names, attachment);
    if (status == MR_OK) status = value_pack_create(items, count, out);
    free(names);
    /* a value pack without stored objects needs no attachment */
    if (status == MR_OK && attachment->count > 0)
        (*out)->attachment = attachment;
    else
        free_locked(packer, attachment);
    return status;
}

typedef struct request { /* a value whose references are to be visited */
    const attachment *attachment;
    uint32_t index; /* index of the value; ATTACHMENT_WITHIN: all values */
} request;

/* Writes the value of one object into the store, if it needs that. False: there is no memory now. */
static bool shelve_one(const attachment_packer *packer, object *object, int *pauses) {
    const store_provider_host *host = &packer->objects->provider->host;
    while (attachment_needs_provider(object)) {
        object->stored = attachment_store(packer->objects, object);
        if (object->stored == NULL && ((*pauses)-- <= 0 || host->wait(host->context, SHELVE_PAUSE_US) != MR_OK))
            return false;
    }
    return true;
}

/* Writes large values behind the references of `made` into the store while this thread may wait, briefly, for memory;
 * then values behind their references, up to SHELVE_REQUESTS of them. Receivers fetch the other values from this
 * process. */
static void store_referred(const attachment_packer *packer, const value_pack *made) {
    int pauses = packer->may_wait && packer->objects->provider->host.wait != NULL ? SHELVE_PAUSES : 0;
    request requests[SHELVE_REQUESTS] = {{made->attachment, ATTACHMENT_WITHIN}};
    size_t count = made->attachment != NULL;
    for (size_t at = 0; at < count; at++) {
        const attachment *attachment = requests[at].attachment;
        for (uint32_t i = 0; i < attachment->ref_count; i++) {
            object *object = attachment->refs[i].object;
            if (attachment->refs[i].is_actor) continue;
            if (requests[at].index != ATTACHMENT_WITHIN && attachment->refs[i].index != requests[at].index) continue;
            if (!shelve_one(packer, object, &pauses)) return;
            if (object->owner != NULL && object->owner->attachment != NULL && count < SHELVE_REQUESTS)
                requests[count++] = (request){object->owner->attachment, object->index};
        }
    }
}

static mr_status attach_locked(const attachment_packer *packer, const attachment_found *found, value_pack *made) {
    if (packer->lock != NULL) packer->lock(packer->context);
    mr_status status = attachment_attach(packer->objects, found, made);
    if (status == MR_OK && packer->leaves && packer->objects->provider != NULL) store_referred(packer, made);
    if (status != MR_OK) value_pack_unref(made);
    if (packer->lock != NULL) packer->unlock(packer->context);
    return status;
}

mr_status attachment_pack(const attachment_packer *packer, value_pack_item *items, size_t count, value_pack **out) {
    bool large = false, has_store = packer->objects != NULL && packer->objects->provider != NULL;
    attachment_found found = {0};
    value_pack *made = NULL;
    mr_status status = MR_OK;
    for (size_t i = 0; i < count && status == MR_OK; i++) {
        if (items[i].arg == NULL) continue;
        status = attachment_find_refs(items[i].arg, (uint32_t)i, 0, &found);
        large = large || (has_store && attachment_is_large(items[i].arg));
    }
    if (status == MR_OK)
        status = large ? pack_with_large(packer, items, count, &made) : value_pack_create(items, count, &made);
    if (status == MR_OK && found.count > 0) status = attach_locked(packer, &found, made);
    free(found.items);
    if (status == MR_OK) *out = made;
    return status;
}

value_pack *attachment_store(objects *objects, const object *object) {
    const attachment_packer packer = {.objects = objects, .leaves = true};
    const value_pack_item item = attachment_item_of_object(object);
    stored_object *stored_object = NULL;
    attachment *attachment = NULL;
    value_pack *made = NULL;
    if (objects->provider == NULL || room_for(objects, 1, &attachment) != MR_OK) return NULL;
    if (store_value(&packer, &item, &stored_object) == MR_OK && stored_object != NULL) {
        add(attachment, 0, stored_object);
        const attachment_name name = {.ref = stored_object_name(stored_object), .size = stored_object->size};
        const value_pack_item named = {.entry = {.kind = VALUE_PACK_STORED, .bytes = span_of(&name, sizeof name)}};
        if (value_pack_create(&named, 1, &made) == MR_OK) made->attachment = attachment;
    }
    if (made == NULL) {
        error_clear();
        attachment_free(attachment);
    }
    return made;
}

/* ---- Receiving. */

static mr_status read_name(const value_pack_entry *entry, attachment_name *out) {
    if (entry->bytes.size != sizeof *out)
        return error_set(MR_CORRUPT, "malformed reference to an object: %zu bytes instead of %zu", entry->bytes.size,
                         sizeof *out);
    memcpy(out, entry->bytes.data, sizeof *out);
    return MR_OK;
}

static uint32_t count_stored(const value_pack *pack) {
    uint32_t stored = 0;
    for (uint32_t i = 0; i < pack->count; i++) stored += value_pack_value(pack, i).kind == VALUE_PACK_STORED;
    return stored;
}

static mr_status receive_stored(objects *objects, value_pack *pack) {
    uint32_t stored = count_stored(pack);
    if (stored == 0) return MR_OK;
    if (objects == NULL || objects->provider == NULL)
        return error_set(MR_OBJECT_LOST, "cannot read %u values: this process has no object store", stored);
    attachment *attachment;
    MR_TRY(room_for(objects, stored, &attachment));
    mr_status status = MR_OK;
    for (uint32_t i = 0; i < pack->count && status == MR_OK; i++) {
        value_pack_entry entry = value_pack_value(pack, i);
        attachment_name name;
        stored_object *object;
        if (entry.kind != VALUE_PACK_STORED) continue;
        status = read_name(&entry, &name);
        if (status == MR_OK) status = store_provider_expect(objects->provider, &name.ref, name.size, &object);
        if (status == MR_OK) add(attachment, i, object);
    }
    FAILPOINT("runtime.cargo_taken");
    if (status == MR_OK)
        pack->attachment = attachment;
    else
        attachment_free(attachment);
    return status;
}

mr_status attachment_receive(objects *objects, value_pack *pack) {
    if (pack->attachment != NULL) return MR_OK;
    MR_TRY(receive_stored(objects, pack));
    return pack->hidden == 0 ? MR_OK : attachment_undress(objects, pack);
}

value_pack_item attachment_item_of(const value_pack *from, uint32_t index) {
    return (value_pack_item){.entry = value_pack_value(from, index), .from = from, .index = index};
}

value_pack_item attachment_item_of_object(const object *object) {
    return object->owner != NULL ? attachment_item_of(object->owner, object->index)
                                 : (value_pack_item){.entry = object->value};
}

bool attachment_refers(const value_pack *pack, uint32_t index) {
    const attachment *attachment = pack->attachment;
    for (uint32_t i = 0; attachment != NULL && i < attachment->ref_count; i++)
        if (attachment->refs[i].index == index) return true;
    return false;
}

static void copy_refs_of(const value_pack_item *item, uint32_t index, attachment *attachment) {
    const struct attachment *from = item->from == NULL ? NULL : item->from->attachment;
    for (uint32_t i = 0; from != NULL && i < from->ref_count; i++) {
        const attachment_ref *ref = &from->refs[i];
        if (ref->index != item->index) continue;
        if (ref->is_actor)
            attachment_add_handle(attachment, index, ref->handle);
        else
            attachment_add_ref(attachment, index, ref->object);
    }
}

/* Copies the references of the items to the new value pack. */
static mr_status copy_refs(objects *objects, const value_pack_item *items, size_t count, value_pack *made) {
    size_t refs = 0;
    for (size_t i = 0; i < count; i++)
        if (items[i].from != NULL && items[i].from->attachment != NULL) refs += items[i].from->attachment->ref_count;
    if (refs == 0) return MR_OK;
    attachment *attachment = attachment_of(objects, made);
    MR_TRY(attachment_room(attachment, refs));
    for (size_t i = 0; i < count; i++) copy_refs_of(&items[i], (uint32_t)i, attachment);
    return MR_OK;
}

mr_status attachment_repack(objects *objects, const value_pack_item *items, size_t count, value_pack **out) {
    value_pack *made;
    MR_TRY(value_pack_create(items, count, &made));
    mr_status status = receive_stored(objects, made);
    if (status == MR_OK) status = copy_refs(objects, items, count, made);
    if (status != MR_OK) {
        value_pack_unref(made);
        return status;
    }
    *out = made;
    return MR_OK;
}

bool attachment_is_taken(const value_pack *pack) {
    const attachment *attachment = pack->attachment;
    for (uint32_t i = 0; attachment != NULL && i < attachment->count; i++)
        if (!stored_object_is_taken(attachment->items[i].object)) return false;
    return true;
}

/* ---- Showing. */

mr_status attachment_show(const value_pack *pack, uint32_t index, bool may_wait, value_pack_entry *out) {
    value_pack_entry entry = value_pack_value(pack, index);
    if (entry.kind != VALUE_PACK_STORED) {
        *out = entry;
        return MR_OK;
    }
    stored_object *object = find(pack, index);
    if (object == NULL)
        return error_set(MR_OBJECT_LOST, "value %u is in the object store and not held by this process", index);
    span bytes;
    value_pack_view view;
    MR_TRY(store_provider_show(object, may_wait, &bytes));
    mr_status status = value_pack_open(bytes, &view);
    if (status == MR_OK && view.count == 1) {
        *out = value_pack_view_entry(&view, 0);
        if (out->kind != VALUE_PACK_STORED) return MR_OK;
    }
    store_provider_hide(object);
    return status != MR_OK
               ? status
               : error_set(MR_CORRUPT, "malformed object of %zu bytes: %u values instead of 1", bytes.size, view.count);
}

void attachment_hide(const value_pack *pack, uint32_t index) {
    stored_object *object = find(pack, index);
    if (object != NULL) store_provider_hide(object);
}

mr_status attachment_read_name(const value_pack_entry *entry, object_ref *out) {
    attachment_name name;
    MR_TRY(read_name(entry, &name));
    *out = name.ref;
    return MR_OK;
}

uint64_t attachment_bytes(const value_pack *pack, uint32_t index) {
    value_pack_entry entry = value_pack_value(pack, index);
    if (entry.kind != VALUE_PACK_STORED) return entry.bytes.size + entry.region.size;
    attachment_name name = {0};
    if (entry.bytes.size == sizeof name) memcpy(&name, entry.bytes.data, sizeof name);
    return name.size;
}
