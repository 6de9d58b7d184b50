/* node_actor_create.c — see node_manager.h. Tested by tests/runtime_actor_test.c. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"
#include "miniray/runtime.h"
#include "runtime/common/report.h"
#include "runtime/node/node_internal.h"

enum { LEAVE_US = 5 * 1000 * 1000 }; /* time for an actor's cleanup before it is killed */

/* ---- Operations for the actor table (node_actor_ops; the host is the core). */

static uint64_t request(void *host, node_actor *actor) {
    node_core *core = host;
    uint64_t ticket = core->next_ticket++;
    if (scheduler_impossible(core->scheduler, &actor->need)) {
        char id[REPORT_ID_MAX], who[400], more[REPORT_ID_MAX + 40];
        report_id_write(&(report_id){'a', REPORT_PROCESS(actor->id.word[0]), actor->id.word[1]}, id);
        snprintf(who, sizeof who, "actor %s of class %s", id, actor->class_name);
        snprintf(more, sizeof more, "`miniray why %s` shows more", id);
        node_warn_impossible(core, actor->program, who, &actor->need, NULL, more);
    }
    scheduler_request(core->scheduler, node_client_of(actor->program), ticket, &actor->need);
    return ticket;
}

static void forget(void *host, node_actor *actor, uint64_t ticket) {
    scheduler_cancel(((node_core *)host)->scheduler, node_client_of(actor->program), ticket);
}

typedef struct creation { /* a creation request in flight */
    wire_call call;
    node_core *core;
    mr_actor id;
    uint32_t start;
} creation;

static void creation_done(wire_call *call, const rpc_call_result *result) {
    creation *creation = container_of(call, struct creation, call);
    node_core *core = creation->core;
    if (result->why == NULL) { /* else the worker is gone, which is reported separately */
        value_pack *values;
        failure *failed;
        wire_outcome(call, result, "", &values, &failed);
        node_actor_created(&core->actors, creation->id, creation->start, failed);
        value_pack_unref(values);
        failure_unref(failed);
    }
    wire_call_end(call);
    node_decide(core);
}

/* The worker has the state of its actor, or cannot take it: then another worker gets both. */
static void state_told(wire_call *call, const rpc_call_result *result) {
    creation *creation = container_of(call, struct creation, call);
    if (result->why == NULL && result->status != MR_OK)
        node_actor_not_told(&creation->core->actors, creation->id, creation->start);
    wire_call_end(call);
}

static creation *creation_of(node_core *core, const node_actor *actor,
                             void (*done)(wire_call *call, const rpc_call_result *result)) {
    return XNEW(struct creation, .call = {.done = done, .free = wire_call_free}, .core = core, .id = actor->id,
                .start = actor->starts);
}

/* Sends the state of the actor's last process, if there is one. */
static mr_status tell_state(node_core *core, const node_member *member, const node_actor *actor) {
    if (actor->saved == NULL) return MR_OK;
    creation *telling = creation_of(core, actor, state_told);
    wire_message message = {.pack = actor->saved};
    mr_status status = wire_ask(core->rpc, member->link, WORKER_ACTOR_STATE, &message, &telling->call);
    if (status != MR_OK) free(telling);
    return status;
}

static void start(void *host, node_actor *actor) {
    node_core *core = host;
    node_member *member = node_member_by_process(core, actor->process);
    MR_ASSERT(member != NULL);
    creation *creation = creation_of(core, actor, creation_done);
    uint8_t fields[16 + 4 + 256 + 4];
    writer writer = writer_of(fields, sizeof fields);
    wire_put_actor(&writer, actor->id);
    writer_span32(&writer, span_of(actor->class_name, strlen(actor->class_name)));
    writer_u32(&writer, actor->threads);
    node_gpus_tell(core, member, 0, (rpc_call_token){0});
    core->launcher.ops->label(core->launcher.self, member->pid,
                              actor->name[0] != '\0' ? actor->name : actor->class_name);
    wire_message message = {.fields = span_of(fields, writer_size(&writer)), .pack = actor->args};
    mr_status status = tell_state(core, member, actor);
    if (status == MR_OK) status = wire_ask(core->rpc, member->link, WORKER_ACTOR_INIT, &message, &creation->call);
    if (status == MR_OK) return;
    free(creation);
    if (status == MR_BUSY) {
        member->unborn = true; /* sent again when the link has room */
    } else if (status == MR_CLOSED) {
        node_actor_not_told(&core->actors, actor->id, actor->starts); /* the link to the worker is closed */
    } else {
        failure *failed = failure_create(status, mr_last_error(), "", NULL);
        node_actor_created(&core->actors, actor->id, actor->starts, failed);
        failure_unref(failed);
    }
}

void node_create_again(node_core *core, node_member *member) {
    node_actor *actor = node_actor_in(&core->actors, member->process);
    member->unborn = false;
    if (actor != NULL && actor->state == NODE_ACTOR_STARTING) start(core, actor);
}

static void end(void *host, uint64_t process) { node_end_process(host, process); }

static void dismiss(void *host, uint64_t process) { node_dismiss(host, process, LEAVE_US); }

static void tell(void *host, rpc_call_token token, node_actor *actor) {
    node_core *core = host;
    if (actor->state == NODE_ACTOR_DEAD) {
        char text[512];
        failure_text(actor->dead, text, sizeof text);
        node_refuse(core, token, MR_ACTOR_DIED, text);
        return;
    }
    node_answer(core, token, span_of(&actor->process, sizeof actor->process));
}

static void died(void *host, node_actor *actor) {
    node_core *core = host;
    node_job_of(core, actor->program)->actors--;
    node_job_check(core, actor->program);
}

static void let_go(void *host, node_kept *kept) { node_kept_drop(host, kept); }

const node_actor_ops node_actor_host_ops = {request, forget, start, end, dismiss, tell, died, let_go};

/* ---- Requests about actors. */

/* The given name space, or that of the caller's job. */
static span space_of(node_core *core, const node_member *member, span named) {
    node_job *job = node_job_of(core, member->program);
    if (named.size > 0 || job == NULL) return named;
    return span_of(job->name_space, strlen(job->name_space));
}

static mr_status plant(node_core *core, node_actor_plan *plan, rpc_call_token token) {
    MR_TRY(node_check_hope(core, plan->program));
    if (plan->need.group != 0) MR_TRY(scheduler_group_fits(core->scheduler, &plan->need));
    MR_TRY(node_actor_args_args(core, plan->args, &plan->kept));
    node_job *job = node_job_of(core, plan->program);
    job->actors++;
    mr_status status = node_actor_create(&core->actors, plan);
    if (status == MR_OK) {
        node_kept_answer(core, plan->kept, token);
        return MR_OK;
    }
    job->actors--;
    node_kept_drop(core, plan->kept);
    return status;
}

static mr_status create(node_core *core, node_member *member, reader *reader, const rpc_call_request *request) {
    node_actor_plan plan = {.id = wire_get_actor(reader), .program = member->program};
    plan.class_name = wire_get_name(reader);
    plan.name = wire_get_name(reader);
    plan.name_space = space_of(core, member, wire_get_name(reader));
    plan.restarts = reader_u32(reader);
    plan.detached = reader_u8(reader) != 0;
    bool native = reader_u8(reader) != 0;
    plan.threads = reader_u32(reader);
    plan.about = reader_span32(reader);
    mr_status status = resources_decode(reader, &plan.need);
    if (status == MR_OK && plan.about.size > MR_ABOUT_MAX)
        status = error_set(MR_TOO_LARGE, "the actor's description (about) is %zu bytes; the limit is %d",
                           plan.about.size, MR_ABOUT_MAX);
    if (status == MR_OK && native) status = node_job_native(core, &plan.program);
    if (status != MR_OK) {
        wire_body_drop(request->body.data);
        return status;
    }
    MR_TRY(wire_take_pack(reader, request->payload, request->body, &plan.args));
    status = plant(core, &plan, request->token);
    value_pack_unref(plan.args);
    return status;
}

static mr_status find_actor(node_core *core, reader *reader, node_actor **out) {
    mr_actor id = wire_get_actor(reader);
    *out = reader->failed ? NULL : node_actor_find(&core->actors, id);
    return *out != NULL ? MR_OK
                        : error_set(MR_NOT_FOUND, "unknown actor a%u:%llu: it was never created, or died long ago",
                                    (unsigned)id.word[0], (unsigned long long)id.word[1]);
}

static mr_status by_name(node_core *core, node_member *member, reader *reader, rpc_call_token token) {
    span name = wire_get_name(reader), name_space = space_of(core, member, wire_get_name(reader));
    node_actor *actor = reader->failed ? NULL : node_actor_named(&core->actors, name_space, name);
    char hint[NEAREST_NAME_HINT_MAX];
    if (actor == NULL && name_space.size > 0)
        return error_set(MR_NOT_FOUND, "there is no actor named '%.*s' in namespace '%.*s'%s", (int)name.size,
                         (const char *)name.data, (int)name_space.size, (const char *)name_space.data,
                         node_actor_hint(&core->actors, name_space, name, hint));
    if (actor == NULL)
        return error_set(MR_NOT_FOUND, "there is no actor named '%.*s'%s", (int)name.size,
                         name.data == NULL ? "" : (const char *)name.data,
                         node_actor_hint(&core->actors, name_space, name, hint));
    return node_answer(core, token, span_of(&actor->id, sizeof actor->id));
}

static mr_status look_at(node_core *core, const node_actor *actor, rpc_call_token token) {
    uint8_t fields[3 * (4 + 256) + 8 + MR_ABOUT_MAX];
    writer writer = writer_of(fields, sizeof fields);
    writer_span32(&writer, span_of(actor->class_name, strlen(actor->class_name)));
    writer_span32(&writer, span_of(actor->name, strlen(actor->name)));
    writer_span32(&writer, span_of(actor->name_space, strlen(actor->name_space)));
    writer_u32(&writer, actor->starts);
    writer_span32(&writer, span_of(actor->about, actor->about_size));
    return node_answer(core, token, span_of(fields, writer_size(&writer)));
}

mr_status node_handle_actor(node_core *core, node_member *member, reader *reader, const rpc_call_request *request) {
    rpc_call_token token = request->token;
    if (request->method == NODE_ACTOR_CREATE) return create(core, member, reader, request);
    if (request->method == NODE_ACTOR_STATE) return node_state_lend(core, member, reader, token);
    if (request->method == NODE_ACTOR_FIND) return by_name(core, member, reader, token);
    node_actor *actor;
    MR_TRY(find_actor(core, reader, &actor));
    switch (request->method) {
    case NODE_ACTOR_WHERE: node_actor_where(&core->actors, actor, token); return MR_OK;
    case NODE_ACTOR_LOOK: return look_at(core, actor, token);
    case NODE_ACTOR_KILL: node_actor_kill(&core->actors, actor); break;
    case NODE_ACTOR_RESTART: node_actor_restart(&core->actors, actor); break;
    case NODE_ACTOR_HOLD: node_actor_hold(&core->actors, actor, member->process); break;
    case NODE_ACTOR_DROP: node_actor_drop(&core->actors, actor, member->process); break;
    default: MR_UNREACHABLE();
    }
    return node_answer(core, token, (span){0});
}
