/* state_api.c — state of an actor that survives its process: mr_state_set, mr_state_get, mr_call_number.
 *
 * A state is a value pack: large parts are objects of the store, and a part that lies in an object already is named
 * again. The pack is written into memory that the node has lent to this process (saved_state.h). This process holds the
 * objects; after its death the node holds them and reads the state (node_state.h). So mr_state_set costs a copy of the
 * small parts and no message, but for the first state of a process and one that needs more memory. Tested by
 * tests/actor_state_test.c. */
#include "base/error.h"
#include "base/failpoint.h"
#include "base/plural.h"
#include "runtime/common/saved_state.h"
#include "runtime/process/context.h"
#include "runtime/worker/worker.h"

typedef struct parts { /* of a state that is being made */
    value_pack_item items[MR_STATE_PARTS_MAX];
    value_pack *packs[MR_STATE_PARTS_MAX]; /* owned; of new parts; NULL: the part lies in an object */
    size_t count;
} parts;

static mr_status check(const mr_call *call, size_t count) {
    if (call->self == NULL)
        return error_set(MR_INVALID, "mr_state_set: %s is not a method of an actor, and only actors have a state",
                         call->name->text);
    if (count == 0 || count > MR_STATE_PARTS_MAX)
        return error_set(MR_INVALID, "mr_state_set: %zu part%s; a state has 1 to %d", count, plural(count),
                         MR_STATE_PARTS_MAX);
    return call_check_process(call);
}

/* Packs the parts that do not lie in an object, without the lock. */
static mr_status gather(mr_call *call, const mr_arg *args, size_t count, parts *parts) {
    for (size_t i = 0; i < count; i++, parts->count++) {
        const object *object = args[i].received ? context_object_of(args[i].value) : NULL;
        if (object != NULL) {
            parts->items[i] = attachment_item_of_object(object);
            continue;
        }
        attachment_packer packer = call_packer(call);
        mr_status status = attachment_pack(&packer, &(value_pack_item){.arg = &args[i]}, 1, &parts->packs[i]);
        if (status != MR_OK) return error_wrap(status, "mr_state_set: part %zu", i);
        parts->items[i] = attachment_item_of(parts->packs[i], 0);
    }
    return MR_OK;
}

typedef struct state_query { /* NODE_ACTOR_STATE */
    mr_actor actor;
    uint64_t bytes;
} state_query;

/* Asks the node for memory for states of this size. */
static mr_status ask_for_room(mr_call *call, worker_state_area *area, size_t size) {
    const state_query query = {call->actor, size};
    const arena *arena = call->mr->worker.provider.arena;
    uint64_t fields[2];
    size_t answered;
    MR_TRY(context_call_node(call->mr, NODE_ACTOR_STATE, span_of(&query, sizeof query), -1, fields, sizeof fields,
                             &answered));
    extent extent = {.offset = fields[0], .size = fields[1]};
    area->is_needless = answered == sizeof fields && extent.size == 0;
    if (area->is_needless) return MR_OK;
    if (answered != sizeof fields || arena == NULL || !arena_holds(arena, extent))
        return error_set(MR_CORRUPT, "malformed answer to mr_state_set: %zu bytes, memory of %llu bytes at %llu",
                         answered, (unsigned long long)extent.size, (unsigned long long)extent.offset);
    arena_allow(arena, extent);
    area->memory = arena_at(arena, extent.offset);
    area->bytes = (size_t)extent.size;
    return MR_OK;
}

/* Writes the state to where the node reads it after the death of this process. */
static mr_status save(mr_call *call, const value_pack *state) {
    worker_state_area *area = worker_state_area_of(call->worker);
    const span bytes = span_of(state->bytes, state->size);
    if (area->is_needless || (area->memory != NULL && saved_state_write(area->memory, area->bytes, bytes)))
        return MR_OK;
    MR_TRY(ask_for_room(call, area, state->size));
    FAILPOINT("runtime.state_lent");
    if (area->is_needless) return MR_OK;
    if (!saved_state_write(area->memory, area->bytes, bytes)) MR_UNREACHABLE();
    const state_query query = {.actor = call->actor};
    core_worker_tell_node(&call->mr->worker, NODE_ACTOR_STATE, span_of(&query, sizeof query));
    return MR_OK;
}

/* Makes the pack the state. This process holds its objects until the next state is saved. */
static mr_status set(mr_call *call, value_pack *state) {
    if (state->attachment != NULL && state->attachment->ref_count > 0)
        return error_set(
            MR_INVALID,
            "mr_state_set: %u futures or handles in the state that %s sets: they may end before the actor; "
            "keep their values",
            state->attachment->ref_count, call->name->text);
    FAILPOINT("runtime.state_made");
    MR_TRY(save(call, state));
    FAILPOINT("runtime.state_saved");
    worker_set_state(call->worker, state);
    return MR_OK;
}

mr_status mr_state_set(mr_call *call, const mr_arg *args, size_t count) {
    MR_TRY(check(call, count));
    parts parts = {.count = 0};
    value_pack *state;
    mr_status status = gather(call, args, count, &parts);
    context_lock(call->mr);
    if (status == MR_OK) status = attachment_repack(&call->mr->worker.objects, parts.items, count, &state);
    if (status == MR_OK) {
        status = set(call, state);
        value_pack_unref(state);
    }
    for (size_t i = 0; i < parts.count; i++) value_pack_unref(parts.packs[i]);
    return context_done(call->mr, status);
}

mr_status mr_state_get(mr_call *call, size_t index, mr_value *out) {
    context_lock(call->mr);
    value_pack *state = worker_state(call->worker);
    uint32_t count = state == NULL ? 0 : state->count;
    mr_status status = index < count
                           ? context_keep(call->mr, state, (uint32_t)index, out)
                           : error_set(MR_NOT_FOUND, "mr_state_get in %s: no part %zu, the actor's state has %u part%s",
                                       call->name->text, index, count, plural(count));
    return context_done(call->mr, status);
}

uint64_t mr_call_number(const mr_call *call, uint64_t *caller) {
    if (caller != NULL) *caller = call->repeat.caller;
    return call->repeat.number;
}
