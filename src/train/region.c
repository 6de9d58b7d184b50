/* region.c — see region.h. */
#include "train/region.h"

#include "base/error.h"
#include "runtime/context.h"

enum { MARGIN = 4096 }; /* of an object: what it says of itself as a value is in front */

/* Where it lies in the object that is shown as these bytes: both sides find the same. */
static mr_status find(const shelf *shelf, span shown, size_t bytes, region_place *out) {
    uint64_t offset;
    const arena *arena = shelf_locate(shelf, shown.data, &offset);
    if (arena == NULL) return error_set(MR_CLOSED, "the shared model (%zu bytes) is not in the store", bytes);
    size_t skipped = MARGIN + (size_t)(-(offset + MARGIN) & (REGION_PAGE - 1));
    if (bytes == 0 || shown.size < skipped || shown.size - skipped < bytes)
        return error_set(MR_INVALID, "an object of %zu bytes has no room for a shared model of %zu", shown.size, bytes);
    offset += skipped;
    *out = (region_place){.bytes = arena_at(arena, offset), .offset = offset, .fd = arena->fd};
    return MR_OK;
}

/* ---- Of the owner. */

static mr_status leave_as_it_is(void *user, void *const *places, size_t count) { return MR_OK; }

/* What the object of our reference is in the store. NULL: it does not lie there. */
static shelved *find_shelved(const region *region) {
    client *client = &region->mr->client;
    const object *object = object_find(&client->objects, region->ref);
    object_ref ref;
    bool is_stored = object != NULL && object->value.kind == BUNDLE_STORED;
    return is_stored && cargo_read_name(&object->value, &ref) == MR_OK ? shelf_find(&client->shelf, &ref) : NULL;
}

/* From now on others may have it, by its name. */
static mr_status take_place(region *region, size_t bytes) {
    span shown = {0};
    shelved *shelved = find_shelved(region);
    if (shelved == NULL) return error_set(MR_CLOSED, "the shared model (%zu bytes) is not in the store", bytes);
    MR_TRY(shelf_show(shelved, true, &shown));
    mr_status status = find(&region->mr->client.shelf, shown, bytes, &region->place);
    shelf_hide(shelved); /* the value that is held shows it, too */
    region->name = (region_name){shelved_name(shelved), shelved->size};
    return status;
}

mr_status region_open(mr_context *mr, size_t bytes, region *out) {
    region made = {.mr = mr};
    int64_t size = (int64_t)(bytes + REGION_PAGE + MARGIN);
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
    if (status != MR_OK) region_close(&made);
    return status;
}

void region_close(region *region) {
    if (region->mr != NULL && context_is_ours(region->mr)) { /* what is viewed keeps the context, also after its end */
        if (context_state_of(region->mr) != CONTEXT_CLOSED) mr_release(region->mr, region->ref);
        mr_value_release(&region->held);
    }
    *region = (struct region){0};
}

/* ---- Of others. */

static mr_status hold(shelf *shelf, const region_name *name, size_t bytes, shelved **held, region_place *out) {
    span shown = {0};
    MR_TRY(shelf_expect(shelf, &name->ref, name->size, held));
    mr_status status = shelf_show(*held, true, &shown);
    if (status == MR_OK && (status = find(shelf, shown, bytes, out)) != MR_OK) shelf_hide(*held);
    if (status != MR_OK) shelved_unref(*held);
    return status;
}

mr_status region_hold(mr_context *mr, const region_name *name, size_t bytes, struct shelved **held, region_place *out) {
    context_lock(mr);
    mr_status status = hold(&mr->client.shelf, name, bytes, held, out);
    context_unlock(mr);
    return status;
}

void region_let_go(mr_context *mr, struct shelved *held) {
    context_lock(mr);
    shelf_hide(held);
    shelved_unref(held);
    context_unlock(mr);
}
