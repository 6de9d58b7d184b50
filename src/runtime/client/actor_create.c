/* actor_create.c — see actor.h: creation of actors, until the node has accepted them.
 * Tested by tests/runtime_creation_test.c. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "runtime/client/actor_internal.h"
#include "runtime/refs/attachment.h"

typedef struct creation { /* creation of an actor that the node has not accepted yet */
    wire_call call;
    list place; /* in actors.creations until the request was sent */
    actor *actor;
    arguments arguments;
    actor_birth *birth; /* NULL: no thread waits for the node's response */
    size_t fields_size;
    uint8_t fields[];
} creation;

static void creation_free(wire_call *call) {
    creation *creation = container_of(call, struct creation, call);
    list_remove(&creation->place);
    arguments_fini(&creation->arguments);
    free(creation);
}

/* Failure of an actor that was not created. Takes over the reference to `cause`. */
static failure *death_of(const creation *creation, const char *message, failure *cause) {
    char origin[48];
    mr_actor id = creation->actor->id;
    snprintf(origin, sizeof origin, "actor a%u:%llu", (unsigned)id.word[0], (unsigned long long)id.word[1]);
    return failure_create(MR_ACTOR_DIED, message, origin, cause);
}

/* Ends a creation: the node has accepted the actor (`refused` NULL), or never will. Takes over the reference. */
static void creation_end(creation *creation, failure *refused) {
    actor *actor = creation->actor;
    actor_birth *birth = creation->birth;
    wire_call_end(&creation->call);
    if (birth != NULL) birth->told(birth, refused);
    actor_handle *handle = actor_get_handle(actor);
    actor_handles *handles = &actor->actors->worker->handles;
    if (refused == NULL) actor_handle_take(handles, handle);
    actor_handle_unuse(handles, handle);
    if (refused != NULL) {
        actor_die(actor, refused);
        return;
    }
    if (actor->state == ACTOR_CREATING) actor->state = ACTOR_UNKNOWN;
    actor_feed(actor);
}

static void creation_answered(wire_call *call, const rpc_call_result *result) {
    failure *refused = NULL;
    if (result->why != NULL)
        refused = failure_create(MR_CLOSED, result->why->text, "the node is gone", NULL);
    else if (result->status != MR_OK)
        refused = wire_failure(result, "the node");
    creation_end(container_of(call, creation, call), refused);
}

/* Sends the request. The node keeps the encoded arguments and holds their objects; this process holds them until the
 * node answers. */
static mr_status creation_ask(creation *creation) {
    core_worker *worker = creation->actor->actors->worker;
    wire_message message = {.fields = span_of(creation->fields, creation->fields_size)};
    if (creation->arguments.values == NULL) {
        message.small = arguments_bytes(&creation->arguments);
        return core_worker_ask_node(worker, NODE_ACTOR_CREATE, &message, &creation->call);
    }
    MR_TRY(attachment_dress(creation->arguments.values, &message.pack));
    mr_status status = core_worker_ask_node(worker, NODE_ACTOR_CREATE, &message, &creation->call);
    value_pack_unref(message.pack);
    return status;
}

/* Sends the request if the arguments are ready. A request for which there is no room is repeated when a link has
 * room. */
static void creation_feed(creation *creation) {
    if (!arguments_are_settled(&creation->arguments)) return;
    if (creation->arguments.failed != NULL) {
        failure *cause = failure_ref(creation->arguments.failed);
        creation_end(creation, death_of(creation, "could not be created", cause));
        return;
    }
    mr_status status = creation_ask(creation);
    if (status == MR_OK)
        list_remove(&creation->place);
    else if (status != MR_BUSY)
        creation_end(creation, failure_create(status, mr_last_error(), "", NULL));
}

static void creation_settled(arguments *arguments) { creation_feed(container_of(arguments, creation, arguments)); }

static size_t write_fields(const actor_plan *plan, mr_actor id, uint8_t *out, size_t size) {
    const mr_actor_options *options = plan->options;
    const char *name = options->name == NULL ? "" : options->name; /* "": no name, or the program's space */
    const char *name_space = options->name_space == NULL ? "" : options->name_space;
    writer writer = writer_of(out, size);
    wire_put_actor(&writer, id);
    writer_span32(&writer, span_of(plan->class_name, strlen(plan->class_name)));
    writer_span32(&writer, span_of(name, strlen(name)));
    writer_span32(&writer, span_of(name_space, strlen(name_space)));
    writer_u32(&writer, (uint32_t)options->max_restarts);
    writer_u8(&writer, options->detached != 0);
    writer_u8(&writer, options->native != 0);
    writer_u32(&writer, options->max_concurrency == 0 ? 1 : (uint32_t)options->max_concurrency);
    writer_span32(&writer, span_of(options->about.data, options->about.size));
    resources_encode(&plan->need, &writer);
    MR_ASSERT(!writer.failed);
    return writer_size(&writer);
}

mr_status actors_create(actors *actors, const actor_plan *plan, const mr_arg *args, size_t count, actor_birth *birth,
                        mr_actor *out) {
    if (actors->worker->over != NULL) return failure_raise(actors->worker->over);
    uint8_t fields[1024 + RESOURCES_BYTES_MAX + MR_ABOUT_MAX];
    mr_actor id = {{actors->worker->objects.process, actors->next_serial}};
    size_t size = write_fields(plan, id, fields, sizeof fields);
    creation *creation;
    MR_TRY(alloc_try(sizeof *creation + size, &creation));
    mr_status status = arguments_init(&creation->arguments, &actors->worker->objects, args, count, ARGUMENTS_FAIL, NULL,
                                      creation_settled);
    if (status != MR_OK) {
        free(creation);
        return status;
    }
    actors->next_serial++;
    creation->call = (wire_call){.done = creation_answered, .free = creation_free};
    creation->actor = actor_add(actors, id, ACTOR_CREATING);
    creation->actor->call_retries = (uint32_t)plan->options->max_call_retries;
    actor_handle_name(actor_get_handle(creation->actor)); /* the program's handle */
    actor_handle_use(actor_get_handle(creation->actor));  /* in use until the node has accepted the actor */
    creation->fields_size = size;
    memcpy(creation->fields, fields, size);
    list_push_back(&actors->creations, &creation->place);
    *out = id;
    /* A failed argument fails the actor's calls, whether it failed before or after this call. */
    birth->due = arguments_are_settled(&creation->arguments) && creation->arguments.failed == NULL;
    creation->birth = birth->due ? birth : NULL;
    creation_feed(creation);
    return MR_OK;
}

bool actors_kill_unborn(actors *actors, mr_actor id) {
    list_for_each (at, &actors->creations) {
        creation *creation = container_of(at, struct creation, place);
        if (creation->actor->id.word[0] != id.word[0] || creation->actor->id.word[1] != id.word[1]) continue;
        creation_end(creation, death_of(creation, "was killed before it was created", NULL));
        return true;
    }
    return false;
}

void actors_feed_unborn(actors *actors) {
    list again; /* the end of one creation may end others at any position */
    list_init(&again);
    for (list *at; (at = list_pop_front(&actors->creations)) != NULL;) list_push_back(&again, at);
    for (list *at; (at = list_pop_front(&again)) != NULL;) {
        list_push_back(&actors->creations, at);
        creation_feed(container_of(at, creation, place));
    }
}

void actors_end_unborn(actors *actors, failure *why) {
    while (!list_empty(&actors->creations))
        creation_end(container_of(actors->creations.next, creation, place), failure_ref(why));
}
