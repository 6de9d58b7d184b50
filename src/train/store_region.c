/* store_region.c — see store_region.h. */
#include "train/store_region.h"

#include "base/error.h"
#include "runtime/process/context.h"

enum { MARGIN = 4096 }; /* at the start of an object, for the header of its value */

/* The place of the region in the bytes of its object. Owner and users compute the same place. */
static mr_status find(const store_provider *provider, span shown, size_t bytes, store_region_place *out) {
    uint64_t offset;
    const arena *arena = store_provider_locate(provider, shown.data, &offset);
    if (arena == NULL) return error_set(MR_CLOSED, "the shared model (%zu bytes) is not in the store", bytes);
    size_t skipped = MARGIN + (size_t)(-(offset + MARGIN) & (STORE_REGION_PAGE - 1));
    if (bytes == 0 || shown.size < skipped || shown.size - skipped < bytes)
        return error_set(MR_INVALID, "an object of %zu bytes has no room for a shared model of %zu", shown.size, bytes);
    offset += skipped;
    arena_allow(arena, (extent){offset, bytes}); /* owner and users write the region in place */
    *out = (store_region_place){.bytes = arena_at(arena, offset), .offset = offset, .fd = arena->fd};
    return MR_OK;
}

/* ---- Owner. */

static mr_status leave_as_it_is(void *user, void *const *places, size_t count) { return MR_OK; }

/* The store object of the region's reference. NULL: the value is not in the store. */
static stored_object *find_stored(const store_region *region) {
    core_worker *worker = &region->mr->worker;
    const object *object = object_find(&worker->objects, region->ref);
    object_ref ref;
    bool is_stored = object != NULL && object->value.kind == VALUE_PACK_STORED;
    return is_stored && attachment_read_name(&object->value, &ref) == MR_OK
               ? store_provider_find(&worker->provider, &ref)
               : NULL;
}

/* Sets place and name of the region; by its name other processes can hold it. */
static mr_status take_place(store_region *region, size_t bytes) {
    span shown = {0};
    stored_object *object = find_stored(region);
    if (object == NULL) return error_set(MR_CLOSED, "the shared model (%zu bytes) is not in the store", bytes);
    MR_TRY(store_provider_show(object, true, &shown));
    mr_status status = find(&region->mr->worker.provider, shown, bytes, &region->place);
    store_provider_hide(object); /* region->held keeps a view */
    region->name = (store_region_name){stored_object_name(object), object->size};
    return status;
}

mr_status store_region_open(mr_context *mr, size_t bytes, store_region *out) {
    store_region made = {.mr = mr};
    int64_t size = (int64_t)(bytes + STORE_REGION_PAGE + MARGIN);
    mr_arg tensor = mr_tensor_of(MR_U8, NULL, 1, &size);
    MR_TRY(mr_put_filled(mr, tensor, leave_as_it_is, NULL, &made.ref));
    mr_status status = mr_get(mr, made.ref, -1, &made.held);
    if (status != MR_OK) {
        mr_release(mr, made.ref);
        return status;
    }
    context_lock(mr);
    status = take_place(&made, bytes);
    context_unlock(mr);
    if (status == MR_OK) *out = made;
    if (status != MR_OK) store_region_close(&made);
    return status;
}

void store_region_close(store_region *region) {
    if (region->mr != NULL &&
        context_is_ours(region->mr)) { /* the view keeps the context's memory, also after mr_shutdown */
        if (context_state_of(region->mr) != CONTEXT_CLOSED) mr_release(region->mr, region->ref);
        mr_value_release(&region->held);
    }
    *region = (struct store_region){0};
}

/* ---- Other processes. */

static mr_status hold(store_provider *provider, const store_region_name *name, size_t bytes, stored_object **held,
                      store_region_place *out) {
    span shown = {0};
    MR_TRY(store_provider_expect(provider, &name->ref, name->size, held));
    mr_status status = store_provider_show(*held, true, &shown);
    if (status == MR_OK && (status = find(provider, shown, bytes, out)) != MR_OK) store_provider_hide(*held);
    if (status != MR_OK) stored_object_unref(*held);
    return status;
}

mr_status store_region_hold(mr_context *mr, const store_region_name *name, size_t bytes, struct stored_object **held,
                            store_region_place *out) {
    context_lock(mr);
    mr_status status = hold(&mr->worker.provider, name, bytes, held, out);
    context_unlock(mr);
    return status;
}

void store_region_let_go(mr_context *mr, struct stored_object *held) {
    context_lock(mr);
    store_provider_hide(held);
    stored_object_unref(held);
    context_unlock(mr);
}
