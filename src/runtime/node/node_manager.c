/* node_manager.c — see node_manager.h. Tested by tests/standalone_node_test.c. */
#include "runtime/node/node_manager.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"
#include "base/format.h"
#include "runtime/common/session_dir.h"
#include "runtime/node/node_internal.h"

typedef struct unsent { /* a message that waits for room on its link */
    list place;
    wire_method method;   /* of a one-way message; 0: an answer */
    rpc_call_token token; /* of a one-way message only its link is set */
    mr_status status;     /* of an answer */
    size_t size;
    uint8_t fields[]; /* or the zero-terminated text of a refusal */
} unsent;

/* ---- Members. */

static node_member *member_by_link(node_core *core, link_id link) { return map_get(&core->by_link, link.v); }

node_member *node_member_by_process(node_core *core, uint64_t process) { return map_get(&core->by_process, process); }

static void member_free(node_core *core, node_member *member) {
    while (!list_empty(&member->lease_waits))
        node_lease_forget(core, container_of(member->lease_waits.next, node_lease_wait, place));
    for (list *at; (at = list_pop_front(&member->answers)) != NULL;) free(container_of(at, unsent, place));
    for (list *at; (at = list_pop_front(&member->words)) != NULL;) free(container_of(at, unsent, place));
    node_gpus_give(core, member);
    map_remove(&core->gpu_leases, member->gpu_lease);
    map_remove(&core->by_link, member->link.v);
    map_remove(&core->by_process, member->process);
    free(member->sentence);
    free(member);
}

/* ---- Answers, and one-way messages after them. */

static mr_status say(node_core *core, const unsent *head, span fields) {
    if (head->method != 0) return wire_tell(core->rpc, head->token.link, head->method, fields);
    if (head->status == MR_OK) return wire_answer(core->rpc, head->token, fields);
    return rpc_fail(core->rpc, head->token, head->status, (const char *)fields.data);
}

/* Sends a message now if `first` (no other message waits before it) and if the link has room; else queues a copy. */
static void say_or_keep(node_core *core, list *queue, bool first, const unsent *head, span fields) {
    if (first && say(core, head, fields) != MR_BUSY) return;
    unsent *kept = xmalloc(sizeof *kept + fields.size);
    *kept = *head;
    kept->size = fields.size;
    if (fields.size > 0) memcpy(kept->fields, fields.data, fields.size);
    list_push_back(queue, &kept->place);
}

/* Sends the queued messages. False: the link has no room again. */
static bool say_kept(node_core *core, list *queue) {
    while (!list_empty(queue)) {
        unsent *kept = container_of(queue->next, unsent, place);
        if (say(core, kept, span_of(kept->fields, kept->size)) == MR_BUSY) return false;
        list_remove(&kept->place);
        free(kept);
    }
    return true;
}

static void say_in_order(node_core *core, rpc_call_token token, mr_status status, span fields) {
    node_member *member = member_by_link(core, token.link);
    if (member == NULL) return; /* the process left while its request waited */
    const unsent head = {.token = token, .status = status};
    say_or_keep(core, &member->answers, list_empty(&member->answers), &head, fields);
}

mr_status node_answer(node_core *core, rpc_call_token token, span fields) {
    say_in_order(core, token, MR_OK, fields);
    return MR_OK;
}

void node_refuse(node_core *core, rpc_call_token token, mr_status status, const char *text) {
    char own[ERROR_TEXT_MAX]; /* `text` may be the last error's text, which the next error overwrites */
    snprintf(own, sizeof own, "%s", text);
    say_in_order(core, token, status, span_of(own, strlen(own) + 1));
}

/* The message does not overtake the answer that introduces its subject, such as the grant of a lease. */
void node_tell(node_core *core, uint64_t process, wire_method method, uint64_t about) {
    node_member *member = node_member_by_process(core, process);
    if (member == NULL) return;
    bool first = list_empty(&member->answers) && list_empty(&member->words);
    const unsent head = {.method = method, .token.link = member->link};
    say_or_keep(core, &member->words, first, &head, span_of(&about, sizeof about));
}

static void on_room(void *context, link_id link) {
    node_core *core = context;
    reply_queue_room(&core->replies, core->rpc);
    node_member *member = member_by_link(core, link);
    node_job *job = member == NULL ? NULL : node_job_of(core, member->program);
    if (job != NULL && job->output != NULL) node_output_room(job->output);
    if (core->extension != NULL) core->extension->room(core->extension_self);
    if (member == NULL) return;
    if (!say_kept(core, &member->answers)) return;
    (void)say_kept(core, &member->words);
    node_actor_args_feed(core);
    if (member->unborn) node_create_again(core, member);
}

void node_end_process(node_core *core, uint64_t process) {
    node_member *member = node_member_by_process(core, process);
    if (member != NULL && member->role == WIRE_WORKER) core->launcher.ops->kill(core->launcher.self, member->pid);
}

void node_decide(node_core *core) {
    scheduler_decision decision;
    while (!core->stopped && scheduler_next(core->scheduler, &decision)) node_carry_out(core, &decision);
}

/* ---- Requests. Each reads its fields, checks them, and answers now or later. */

/* The session directory is for the error of a driver after the node's end: a standalone node has a log there. */
static mr_status welcome(node_core *core, const node_member *member, rpc_call_token token) {
    uint8_t fields[4 + 4 + 4 + SESSION_DIR_MAX];
    node_facts facts = {.folder = ""};
    if (core->options.lasting && core->options.describe != NULL) core->options.describe(core->launcher.self, &facts);
    writer writer = writer_of(fields, sizeof fields);
    writer_u32(&writer, core->options.workers);
    writer_u32(&writer, member->program);
    writer_span32(&writer, span_of(facts.folder, strlen(facts.folder)));
    MR_ASSERT(!writer.failed);
    return node_answer(core, token, span_of(fields, writer_size(&writer)));
}

static mr_status join(node_core *core, node_member *member, reader *reader, rpc_call_token token) {
    uint32_t version = reader_u32(reader);
    uint8_t role = reader_u8(reader);
    uint32_t pid = reader_u32(reader);
    if (reader->failed || role > WIRE_WATCHER || member->joined)
        return error_set(MR_DENIED, "malformed or repeated join request from process %d (role %u)", member->pid, role);
    if (version != WIRE_VERSION)
        return error_set(MR_DENIED,
                         "this program uses version %u of the runtime's protocol, the node version %u: " FORMAT_USE_SAME
                         ", or stop that node",
                         version, WIRE_VERSION);
    if (member->pid == 0) member->pid = (int)pid; /* the transport does not know the pid */
    if (role == WIRE_WORKER) MR_TRY(node_worker_join(core, member));
    if (role == WIRE_DRIVER) MR_TRY(node_job_join(core, member, reader));
    member->joined = true;
    member->role = (wire_role)role;
    if (role != WIRE_WATCHER) scheduler_client_add(core->scheduler, member->process, member->program);
    return welcome(core, member, token);
}

static mr_status handle(node_core *core, node_member *member, const rpc_call_request *request) {
    reader reader = reader_of(request->payload.data, request->payload.size);
    if (request->method != NODE_ACTOR_CREATE || member->doomed) wire_body_drop(request->body.data);
    if (member->doomed) return error_set(MR_CLOSED, "the driver of job %u has ended", member->program);
    if (!member->joined && request->method != NODE_JOIN)
        return error_set(MR_DENIED, "process %d sent request %u before it joined", member->pid, request->method);
    switch (request->method) {
    case NODE_JOIN: return join(core, member, &reader, request->token);
    case NODE_LEASE: return node_lease(core, member, &reader, request->token);
    case NODE_RELEASE: return node_release(core, member, &reader, request->token);
    case NODE_BLOCKED:
        scheduler_block(core->scheduler, member->process, reader_u8(&reader) != 0);
        return node_answer(core, request->token, (span){0});
    case NODE_ACTOR_CREATE:
    case NODE_ACTOR_STATE:
    case NODE_ACTOR_WHERE:
    case NODE_ACTOR_FIND:
    case NODE_ACTOR_HOLD:
    case NODE_ACTOR_DROP:
    case NODE_ACTOR_RESTART:
    case NODE_ACTOR_LOOK:
    case NODE_ACTOR_KILL: return node_handle_actor(core, member, &reader, request);
    case NODE_GROUP_CREATE:
    case NODE_GROUP_WAIT:
    case NODE_GROUP_REMOVE: return node_handle_group(core, member, &reader, request);
    case NODE_DRAIN: return node_drain(core, member, request->token);
    case NODE_LOOK: return node_look(core, request);
    case NODE_EVENTS: return node_events_lend(core, member, request->token);
    case NODE_OUTPUT_LOST: return node_output_lost(core, member, &reader, request->token);
    default:
        if (core->extension != NULL) return core->extension->request(core->extension_self, member->process, request);
        return error_set(MR_INVALID, "unknown request %u from process %d", request->method, member->pid);
    }
}

/* ---- Events of the rpc. */

static void on_request(void *context, const rpc_call_request *request) {
    node_core *core = context;
    node_member *member = member_by_link(core, request->token.link);
    MR_ASSERT(member != NULL);
    mr_status status = handle(core, member, request);
    if (status != MR_OK) node_refuse(core, request->token, status, mr_last_error());
    node_decide(core);
}

static void on_cancel(void *context, rpc_call_token token) {
    node_core *core = context;
    node_member *member = member_by_link(core, token.link);
    if (member == NULL) return;
    list_for_each_item (wait, &member->lease_waits, node_lease_wait, place)
        if (wait->token.number == token.number) node_lease_cancel(core, wait);
    node_group_cancel(core, token);
}

static void *on_body(void *context, link_id link, uint32_t method, span payload, uint64_t size) {
    return wire_body_room(size);
}

static void on_link_open(void *context, link_id link, const peer *peer) {
    node_core *core = context;
    node_member *member = XNEW(node_member, .link = link, .process = peer->process, .pid = peer->pid);
    list_init(&member->lease_waits);
    list_init(&member->answers);
    list_init(&member->words);
    map_put(&core->by_link, link.v, member);
    map_put(&core->by_process, member->process, member);
}

static void on_link_closed(void *context, link_id link, const cause *why) {
    node_core *core = context;
    node_member *member = member_by_link(core, link);
    if (member == NULL) return;
    scheduler_client_gone(core->scheduler, member->process);
    scheduler_worker_gone(core->scheduler, member->process);
    node_events_gone(core, member->process, why);
    node_state_gone(core, member->process);
    node_actor_process_gone(&core->actors, member->process, why);
    node_actor_args_gone(core, member->process);
    if (core->extension != NULL) core->extension->gone(core->extension_self, member->process);
    node_end_process(core, member->process); /* a worker without a link is useless */
    uint32_t program = member->joined && member->role == WIRE_DRIVER ? member->program : 0;
    member_free(core, member);
    if (program != 0) node_job_left(core, program);
    node_decide(core);
}

static const rpc_call_handlers handlers = {.on_request = on_request,
                                           .on_cancel = on_cancel,
                                           .on_body = on_body,
                                           .on_link_open = on_link_open,
                                           .on_link_closed = on_link_closed,
                                           .on_room = on_room};

/* ---- Creation and destruction. */

node_core *node_manager_create(const env *env, const node_manager_options *options, launcher launcher) {
    node_core *core = XNEW(node_core, .env = env, .options = *options, .launcher = launcher, .next_ticket = 1,
                           .next_program = 1, .retry_us = CLOCK_NEVER_US);
    core->scheduler = scheduler_create(&options->total, options->workers);
    gpus_init(&core->gpus, resources_milli(&options->total, "gpu"), options->gpus_shown);
    if (!options->lasting) core->own_program = node_job_add(core);
    node_actors_init(&core->actors, &node_actor_host_ops, core);
    reply_queue_init(&core->replies);
    node_events_init(&core->events);
    node_actor_args_init(core);
    node_states_init(&core->states);
    core->rpc = rpc_create(env, &handlers, core);
    return core;
}

void node_manager_extension(node_core *core, const node_extension_ops *ops, void *self) {
    core->extension = ops;
    core->extension_self = self;
}

void node_manager_start(node_core *core) { node_decide(core); }

void node_manager_stop(node_core *core) { core->stopped = true; }

void node_manager_destroy(node_core *core) {
    map_entry entry;
    core->stopped = true;
    rpc_destroy(core->rpc);
    while (map_next(&core->by_link, 0, &entry) != 0) member_free(core, entry.value);
    map_for_each (slot, &core->starting) free(slot.value);
    reply_queue_fini(&core->replies);
    node_events_fini(core);
    node_states_fini(core);
    map_for_each (slot, &core->programs) {
        node_job *job = slot.value;
        if (job->output != NULL) node_output_end(job->output);
        free(job);
    }
    node_groups_fini(core);
    node_actors_fini(&core->actors);
    node_actor_args_fini(core);
    scheduler_destroy(core->scheduler);
    map_fini(&core->by_link);
    map_fini(&core->by_process);
    map_fini(&core->lease_waits);
    map_fini(&core->starting);
    map_fini(&core->programs);
    map_fini(&core->gpu_leases);
    free(core);
}

rpc *node_manager_calls(node_core *core) { return core->rpc; }

int64_t node_manager_next_us(const node_core *core) { return clock_earlier_us(core->retry_us, rpc_next_us(core->rpc)); }

void node_manager_tick(node_core *core, int64_t now_us) {
    rpc_tick(core->rpc, now_us);
    node_retry_starts(core, now_us);
}

bool node_manager_is_starting(const node_core *core, int pid) {
    return map_get(&core->starting, (uint64_t)pid) != NULL;
}

void node_manager_write_fate(node_core *core, int pid, char *out, size_t size) {
    out[0] = '\0';
    map_for_each (slot, &core->by_process) {
        const node_member *member = slot.value;
        const node_actor *actor = member->pid == pid ? node_actor_in(&core->actors, member->process) : NULL;
        if (actor == NULL || actor->restarts > 0) continue;
        snprintf(out, size, "; it is not restarted%s: max_restarts is %u", actor->restarts_max > 0 ? " again" : "",
                 actor->restarts_max);
    }
}

const char *node_manager_sentence(const node_core *core, int pid, mr_status *status) {
    *status = MR_PEER_DIED;
    map_for_each (slot, &core->by_process) {
        const node_member *member = slot.value;
        if (member->pid != pid || member->sentence == NULL) continue;
        if (member->fate != MR_OK) *status = member->fate;
        return member->sentence;
    }
    return "";
}
