/* node_state.c — see node_state.h. Tested by tests/actor_state_test.c. */
#include "runtime/node/node_state.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/log.h"
#include "runtime/common/saved_state.h"
#include "runtime/node/node_internal.h"
#include "runtime/refs/attachment.h"

typedef struct node_area {
    list place;
    uint64_t process;
    void *memory;
    uint64_t offset;
    size_t bytes;
} node_area;

void node_states_init(node_states *states) { list_init(&states->areas); }

static void area_free(node_core *core, node_area *area) {
    list_remove(&area->place);
    core->options.memory->take_back(core->launcher.self, area->offset, area->bytes);
    free(area);
}

void node_states_fini(node_core *core) {
    while (!list_empty(&core->states.areas)) area_free(core, container_of(core->states.areas.next, node_area, place));
}

static node_area *find(const node_core *core, uint64_t process) {
    list_for_each_item (area, &core->states.areas, node_area, place)
        if (area->process == process) return area;
    return NULL;
}

/* ---- Reading. */

static mr_status is_object(void *context, const attachment_need *need) {
    return need->what == ATTACHMENT_NEEDS_OBJECT
               ? MR_OK
               : error_set(MR_CORRUPT, "malformed state of an actor: it contains a future or a handle");
}

/* Copies the state, and holds its objects. */
static mr_status take(node_core *core, node_actor *actor, span bytes) {
    value_pack *state;
    value_pack_view view;
    node_kept *kept = NULL;
    MR_TRY(value_pack_room(bytes.size, &state));
    memcpy(state->bytes, bytes.data, bytes.size);
    mr_status status = value_pack_check(state, &view);
    if (status == MR_OK) status = attachment_each_need(state, is_object, NULL);
    if (status == MR_OK) status = node_actor_args_args(core, state, &kept);
    if (status == MR_OK) node_actor_set_state(&core->actors, actor, state, kept);
    value_pack_unref(state);
    return status;
}

static void collect(node_core *core, const node_area *area, node_actor *actor) {
    span bytes;
    if (!saved_state_read(area->memory, area->bytes, &bytes)) return;
    if (take(core, actor, bytes) == MR_OK) return;
    log_warn("the last state of an actor of class %s is lost, and an earlier one is used: %s", actor->class_name,
             mr_last_error());
    error_clear();
}

void node_state_gone(node_core *core, uint64_t process) {
    node_area *area = find(core, process);
    node_actor *actor = node_actor_in(&core->actors, process);
    if (area == NULL) return;
    if (actor != NULL && actor->restarts > 0) collect(core, area, actor);
    area_free(core, area);
}

/* ---- Lending. */

static mr_status lend(node_core *core, uint64_t process, uint64_t size, node_area **out) {
    const node_memory_ops *memory = core->options.memory;
    if (memory == NULL || size > NODE_STATE_BYTES_MAX)
        return error_set(MR_TOO_LARGE, "the state of an actor has %llu bytes; the node has room for %d",
                         (unsigned long long)size, memory == NULL ? 0 : NODE_STATE_BYTES_MAX);
    size_t bytes = saved_state_bytes(2 * (size_t)size); /* twice, so that a state that grows asks seldom */
    uint64_t offset;
    void *at = memory->lend(core->launcher.self, bytes, &offset);
    if (at == NULL) return error_set(MR_NOMEM, "no shared memory for the state of an actor: %zu bytes", bytes);
    memset(at, 0, bytes);
    *out = XNEW(node_area, .process = process, .memory = at, .offset = offset, .bytes = bytes);
    list_push_back(&core->states.areas, &(*out)->place);
    return MR_OK;
}

/* The process has written a state into the memory that it has: the state that it began with is not needed. */
static mr_status written(node_core *core, uint64_t process, node_actor *actor, rpc_call_token token) {
    const node_area *area = find(core, process);
    span bytes;
    if (area != NULL && saved_state_read(area->memory, area->bytes, &bytes))
        node_actor_set_state(&core->actors, actor, NULL, NULL);
    return node_answer(core, token, (span){0});
}

mr_status node_state_lend(node_core *core, const node_member *member, reader *reader, rpc_call_token token) {
    mr_actor id = wire_get_actor(reader);
    uint64_t size = reader_u64(reader), fields[2] = {0};
    node_actor *actor = node_actor_in(&core->actors, member->process);
    if (reader->failed || actor == NULL || !wire_same_actor(actor->id, id))
        return error_set(MR_INVALID, "process %d is not the actor a%u:%llu whose state it sets", member->pid,
                         (unsigned)id.word[0], (unsigned long long)id.word[1]);
    if (size == 0) return written(core, member->process, actor, token);
    if (actor->restarts > 0) { /* else no process follows that needs the state */
        node_area *before = find(core, member->process), *area = NULL;
        if (before != NULL) collect(core, before, actor);
        MR_TRY(lend(core, member->process, size, &area));
        if (before != NULL) area_free(core, before);
        fields[0] = area->offset;
        fields[1] = area->bytes;
    }
    return node_answer(core, token, span_of(fields, sizeof fields));
}
