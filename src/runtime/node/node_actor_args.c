/* node_actor_args.c — see node_actor_args.h. Tested by tests/runtime_creation_test.c. */
#include "runtime/node/node_actor_args.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/error.h"
#include "runtime/node/node_internal.h"
#include "runtime/refs/attachment.h"
#include "runtime/refs/borrow_message.h"

typedef struct node_loan { /* a borrowed future, shared by all actors that need it */
    borrowed_ref ref;
    uint32_t count;
} node_loan;

struct node_kept {
    list place;
    node_core *core;
    borrow_gate gate;
    rpc_call_token token;  /* request to answer when the gate opens, if `asked` */
    bool asked, dropped;   /* dropped: freed when the gate has opened */
    uint32_t object_count; /* objects held in the store */
    uint32_t ref_count;
    object_ref *objects; /* owned */
    mr_ref *refs;        /* in the same memory, after the objects */
};

/* ---- Borrowed references. */

static map *theirs(const node_actor_args *args, uint64_t owner) { return map_get(&args->owners, owner); }

static borrowed_ref *find_loan(void *host, uint64_t owner, uint64_t serial) {
    const map *map = theirs(&((node_core *)host)->args, owner);
    node_loan *found = map == NULL ? NULL : map_get(map, serial);
    return found == NULL ? NULL : &found->ref;
}

static mr_status say(void *host, borrow_message *message) {
    node_core *core = host;
    const node_member *member = node_member_by_process(core, message->owner);
    if (member == NULL) return MR_CLOSED; /* node_actor_args_gone follows, or the node ends */
    return borrow_message_send(&core->args.borrow, core->rpc, member->link,
                               message->verb == BORROW ? CLIENT_BORROW : CLIENT_RETURN,
                               span_of(message->serials, message->count * sizeof message->serials[0]), message);
}

static const borrow_ops ops = {.send = say, .find = find_loan}; /* the node owns no objects */

static void borrow_one(node_core *core, mr_ref ref, borrow_gate *gate) {
    map *map = theirs(&core->args, ref.word[0]);
    if (map == NULL) {
        map = xcalloc(1, sizeof *map);
        map_put(&core->args.owners, ref.word[0], map);
    }
    node_loan *known = map_get(map, ref.word[1]);
    if (known == NULL) {
        known = XNEW(node_loan, .ref = {.owner = ref.word[0], .serial = ref.word[1]});
        if (node_member_by_process(core, ref.word[0]) == NULL) known->ref.state = BORROWED_REF_LOST;
        map_put(map, ref.word[1], known);
    }
    known->count++;
    borrow_keep(&core->args.borrow, &known->ref, gate);
}

static void return_one(node_core *core, mr_ref ref) {
    map *map = theirs(&core->args, ref.word[0]);
    node_loan *known = map_get(map, ref.word[1]);
    if (--known->count > 0) return;
    borrow_let_go(&core->args.borrow, &known->ref);
    map_remove(map, ref.word[1]);
    free(known);
    if (map->count > 0) return;
    map_remove(&core->args.owners, ref.word[0]);
    map_fini(map);
    free(map);
}

/* ---- Objects and references of one actor. */

static void kept_free(node_kept *kept) {
    list_remove(&kept->place);
    free(kept->objects);
    free(kept);
}

static void opened(borrow_gate *gate) {
    node_kept *kept = container_of(gate, node_kept, gate);
    if (kept->asked) node_answer(kept->core, kept->token, (span){0});
    kept->asked = false;
    if (kept->dropped) kept_free(kept);
}

static mr_status count_one(void *context, const attachment_need *need) {
    ((uint32_t *)context)[need->what]++;
    return MR_OK;
}

static mr_status keep_one(void *context, const attachment_need *need) {
    node_kept *kept = context;
    node_core *core = kept->core;
    if (need->what == ATTACHMENT_NEEDS_FUTURE) {
        kept->refs[kept->ref_count++] = need->ref;
        borrow_one(core, need->ref, &kept->gate);
    }
    if (need->what != ATTACHMENT_NEEDS_OBJECT) return MR_OK;
    if (core->extension == NULL)
        return error_set(MR_OBJECT_LOST, "the node has no object store for argument %u of the actor",
                         (unsigned)kept->object_count + 1);
    MR_TRY(core->extension->keep(core->extension_self, &need->object));
    kept->objects[kept->object_count++] = need->object;
    return MR_OK;
}

/* `needs`: how many the arguments need of each kind. */
static mr_status kept_create(node_core *core, const uint32_t *needs, node_kept **out) {
    object_ref *objects;
    size_t size = needs[ATTACHMENT_NEEDS_OBJECT] * sizeof(object_ref);
    MR_TRY(alloc_try(size + needs[ATTACHMENT_NEEDS_FUTURE] * sizeof(mr_ref), &objects));
    mr_ref *refs = (void *)(objects + needs[ATTACHMENT_NEEDS_OBJECT]);
    node_kept *kept = XNEW(node_kept, .core = core, .gate.open = opened, .objects = objects, .refs = refs);
    list_push_back(&core->args.kept, &kept->place);
    *out = kept;
    return MR_OK;
}

mr_status node_actor_args_args(node_core *core, const value_pack *args, node_kept **out) {
    uint32_t needs[3] = {0};
    node_kept *kept;
    *out = NULL;
    MR_TRY(attachment_each_need(args, count_one, needs));
    if (needs[ATTACHMENT_NEEDS_OBJECT] + needs[ATTACHMENT_NEEDS_FUTURE] == 0) return MR_OK;
    MR_TRY(kept_create(core, needs, &kept));
    mr_status status = attachment_each_need(args, keep_one, kept);
    if (status != MR_OK) {
        node_kept_drop(core, kept);
        return status;
    }
    (void)borrow_through(&core->args.borrow, &kept->gate);
    *out = kept;
    return MR_OK;
}

void node_kept_answer(node_core *core, node_kept *kept, rpc_call_token token) {
    if (kept == NULL || kept->gate.left == 0) {
        node_answer(core, token, (span){0});
        return;
    }
    kept->asked = true;
    kept->token = token;
}

void node_kept_drop(node_core *core, node_kept *kept) {
    if (kept == NULL) return;
    for (uint32_t i = 0; i < kept->object_count; i++) core->extension->let_go(core->extension_self, &kept->objects[i]);
    for (uint32_t i = 0; i < kept->ref_count; i++) return_one(core, kept->refs[i]);
    kept->object_count = kept->ref_count = 0;
    kept->dropped = true;
    bool open = kept->gate.left == 0;
    node_actor_args_feed(core);
    if (open) kept_free(kept);
}

/* ---- Creation and destruction. */

void node_actor_args_feed(node_core *core) { (void)borrow_feed(&core->args.borrow); }

void node_actor_args_gone(node_core *core, uint64_t process) {
    const map *map = theirs(&core->args, process);
    if (map != NULL)
        map_for_each (slot, map) ((node_loan *)slot.value)->ref.state = BORROWED_REF_LOST;
    borrow_owner_gone(&core->args.borrow, process);
}

void node_actor_args_init(node_core *core) {
    borrow_init(&core->args.borrow, &ops, core);
    list_init(&core->args.kept);
}

void node_actor_args_fini(node_core *core) {
    while (!list_empty(&core->args.kept)) kept_free(container_of(core->args.kept.next, node_kept, place));
    map_for_each (owner, &core->args.owners) {
        map_for_each (slot, owner.value) free(slot.value);
        map_fini(owner.value);
        free(owner.value);
    }
    map_fini(&core->args.owners);
    borrow_fini(&core->args.borrow);
}
