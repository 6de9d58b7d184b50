/* attachment_refs.c — references inside the values of a value pack: found when it is packed, and held by it. See
 * attachment.h. */

#include "base/alloc.h"
#include "base/error.h"
#include "runtime/refs/attachment.h"

/* ---- Finding. */

static mr_status found_one(attachment_found *found, mr_ref ref, uint32_t index, bool is_actor) {
    MR_TRY(alloc_try_grow(&found->items, &found->capacity, found->count + 1, sizeof *found->items));
    found->items[found->count].ref = ref;
    found->items[found->count].is_actor = is_actor;
    found->items[found->count++].index = index;
    return MR_OK;
}

/* Received values are at most VALUE_DEPTH_MAX deep. */
static mr_status find_in_value(const mr_value *value, uint32_t index, attachment_found *found) {
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

mr_status attachment_find_refs(const mr_arg *arg, uint32_t index, int depth, attachment_found *found) {
    if (arg->received) return find_in_value(arg->value, index, found);
    if (arg->kind == MR_KIND_REF) return found_one(found, arg->ref, index, false);
    if (arg->kind == MR_KIND_ACTOR)
        return found_one(found, (mr_ref){{arg->actor.word[0], arg->actor.word[1]}}, index, true);
    bool container = arg->kind == MR_KIND_LIST || arg->kind == MR_KIND_TUPLE || arg->kind == MR_KIND_MAP;
    if (!container || depth > VALUE_DEPTH_MAX || arg->items.first == NULL ||
        arg->items.count > value_count_max(arg->kind))
        return MR_OK; /* value_measure refuses it */
    size_t count = arg->items.count * (arg->kind == MR_KIND_MAP ? 2 : 1);
    for (size_t i = 0; i < count; i++) MR_TRY(attachment_find_refs(&arg->items.first[i], index, depth + 1, found));
    return MR_OK;
}

void attachment_add_ref(attachment *attachment, uint32_t index, object *object) {
    object_enclose(object);
    attachment->refs[attachment->ref_count++] = (attachment_ref){.index = index, .object = object};
}

void attachment_add_handle(attachment *attachment, uint32_t index, actor_handle *handle) {
    actor_handle_enclose(handle);
    attachment->refs[attachment->ref_count++] = (attachment_ref){index, .is_actor = true, .handle = handle};
}

mr_status attachment_room(attachment *attachment, size_t count) {
    return alloc_try((count + 1) * sizeof(attachment_ref), &attachment->refs);
}

mr_status attachment_attach(objects *objects, const attachment_found *found, value_pack *pack) {
    actor_handles *handles = objects == NULL ? NULL : objects->handles; /* NULL: handles are not kept */
    size_t actors = 0;
    for (size_t i = 0; i < found->count; i++) actors += found->items[i].is_actor;
    if (handles == NULL && actors == found->count) return MR_OK;
    if (objects == NULL)
        return error_set(MR_INVALID, "value %u contains a future, which is not allowed here", found->items[0].index);
    attachment *attachment = attachment_of(objects, pack);
    MR_TRY(attachment_room(attachment, found->count));
    for (size_t i = 0; i < found->count; i++) {
        uint32_t index = found->items[i].index;
        mr_ref ref = found->items[i].ref;
        object *object = found->items[i].is_actor ? NULL : object_find(objects, ref);
        if (object != NULL)
            attachment_add_ref(attachment, index, object);
        else if (!found->items[i].is_actor)
            return error_set(MR_INVALID,
                             "argument %u contains object " OBJECT_ID
                             ", which this process does not have: it was released",
                             index, OBJECT_ID_OF(ref));
        else if (handles != NULL)
            attachment_add_handle(attachment, index, actor_handle_meet(handles, attachment_actor(ref)));
    }
    return MR_OK;
}
