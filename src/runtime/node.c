/* node.c — see node.h. */
#include "runtime/node.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"
#include "base/log.h"
#include "net/shm/hub.h"
#include "net/shm/port.h"
#include "runtime/boot.h"
#include "runtime/child.h"
#include "runtime/node_actor.h"
#include "runtime/scheduler.h"
#include "runtime/wire.h"

enum {
    PROGRAM = 1,       /* of a private node there is one */
    NODE_CLIENT = 0,   /* the scheduler's name for the node itself, which asks for the workers of actors */
    FAILED_STARTS = 5, /* workers in a row that end before they join: then no more are started */
};

typedef struct member { /* a process that has a link to the node */
    list place;
    link_id link;
    uint64_t process;
    int pid;
    bool joined;
    wire_role role;
} member;

typedef struct lease_wait { /* a client that waits for a worker */
    list place;
    uint64_t ticket, client;
    call_token token;
} lease_wait;

typedef struct answer { /* one that found no room */
    list place;
    call_token token;
    size_t size;
    uint8_t fields[32];
} answer;

typedef struct node {
    loop *loop;
    hub *hub;
    port *port;
    calls *calls;
    env env;
    rng rng;
    scheduler *scheduler;
    children children;
    node_actors actors;
    list members, lease_waits, answers;
    uint64_t next_ticket;
    uint32_t failed_starts;
    bool has_started; /* a worker has joined */
    bool closing;     /* nothing new is started */
    boot_node told;
    const char *hub_path;
} node;

/* ---- Members and answers. */

static member *member_by_link(node *node, link_id link) {
    list_for_each (at, &node->members) {
        member *member = container_of(at, struct member, place);
        if (member->link.v == link.v) return member;
    }
    return NULL;
}

static member *member_by_process(node *node, uint64_t process) {
    list_for_each (at, &node->members) {
        member *member = container_of(at, struct member, place);
        if (member->process == process) return member;
    }
    return NULL;
}

static void send_answer(node *node, call_token token, span fields) {
    if (list_empty(&node->answers) && wire_answer(node->calls, token, fields) != MR_BUSY) return;
    answer *kept = xcalloc(1, sizeof *kept);
    MR_ASSERT(fields.size <= sizeof kept->fields);
    kept->token = token;
    kept->size = fields.size;
    if (fields.size > 0) memcpy(kept->fields, fields.data, fields.size);
    list_push_back(&node->answers, &kept->place);
}

static void on_room(void *context, link_id link) {
    node *node = context;
    while (!list_empty(&node->answers)) {
        answer *answer = container_of(node->answers.next, struct answer, place);
        if (wire_answer(node->calls, answer->token, span_of(answer->fields, answer->size)) == MR_BUSY) return;
        list_remove(&answer->place);
        free(answer);
    }
}

/* ---- What the scheduler decides. */

#define NO_WORKERS \
    "workers cannot be started, or end before they can join: see the log, and what this program does before mr_init"

/* Workers cannot be started, and there is none that runs tasks. */
static bool is_hopeless(const node *node) {
    if (node->failed_starts < FAILED_STARTS) return false;
    scheduler_stats stats = scheduler_stats_now(node->scheduler);
    return stats.idle + stats.leases == 0;
}

/* A program whose workers did start once is out of something (descriptors, processes) that may have come back: every
 * request is one more try. */
static void try_again(node *node) {
    if (node->has_started && node->failed_starts >= FAILED_STARTS) node->failed_starts = FAILED_STARTS - 1;
}

/* A worker that was started will not come. After FAILED_STARTS in a row none will: nobody waits for a new one. */
static void start_failed(node *node) {
    scheduler_spawn_failed(node->scheduler, PROGRAM);
    if (++node->failed_starts != FAILED_STARTS) return;
    node_actors_give_up(&node->actors, NO_WORKERS);
    if (!is_hopeless(node)) return;
    for (list *at; (at = list_pop_front(&node->lease_waits)) != NULL;) {
        lease_wait *wait = container_of(at, lease_wait, place);
        scheduler_cancel(node->scheduler, wait->client, wait->ticket);
        wire_refuse(node->calls, wait->token, MR_WORKER_DIED, NO_WORKERS);
        free(wait);
    }
}

static void spawn(node *node) {
    pid_t pid;
    mr_status status = boot_start_worker(node->hub_path, &pid);
    if (status == MR_OK) status = children_add(&node->children, pid);
    if (status == MR_OK) return;
    log_error("no worker could be started: %s", mr_last_error());
    start_failed(node);
}

static void grant_lease(node *node, const scheduler_decision *decision) {
    list_for_each (at, &node->lease_waits) {
        lease_wait *wait = container_of(at, lease_wait, place);
        if (wait->ticket != decision->ticket) continue;
        uint8_t fields[16];
        writer writer = writer_of(fields, sizeof fields);
        writer_u64(&writer, decision->lease);
        writer_u64(&writer, decision->worker);
        send_answer(node, wait->token, span_of(fields, sizeof fields));
        list_remove(&wait->place);
        free(wait);
        return;
    }
    MR_UNREACHABLE();
}

static void grant(node *node, const scheduler_decision *decision) {
    if (decision->client != NODE_CLIENT) {
        grant_lease(node, decision);
        return;
    }
    node_actor *actor = node_actor_ticket(&node->actors, decision->ticket);
    MR_ASSERT(actor != NULL);
    mr_status status = scheduler_keep(node->scheduler, NODE_CLIENT, decision->lease, &actor->need);
    MR_ASSERT(status == MR_OK);
    node_actor_granted(&node->actors, actor, decision->worker);
}

static void done_quietly(wire_call *call, const call_result *result) { wire_call_end(call); }
static void free_quietly(wire_call *call) { free(call); }

static void reclaim(node *node, const scheduler_decision *decision) {
    member *member = member_by_process(node, decision->client);
    if (member == NULL) return;
    uint8_t fields[8];
    writer writer = writer_of(fields, sizeof fields);
    writer_u64(&writer, decision->lease);
    wire_call *call = xcalloc(1, sizeof *call);
    *call = (wire_call){.done = done_quietly, .free = free_quietly};
    wire_message message = {.fields = span_of(fields, sizeof fields)};
    if (wire_ask(node->calls, member->link, CLIENT_RECLAIM, &message, call) != MR_OK) free(call);
}

static void decide(node *node) {
    scheduler_decision decision;
    while (!node->closing && scheduler_next(node->scheduler, &decision)) {
        switch (decision.verb) {
        case SCHEDULER_GRANT: grant(node, &decision); break;
        case SCHEDULER_RECLAIM: reclaim(node, &decision); break;
        case SCHEDULER_SPAWN:
            if (node->failed_starts >= FAILED_STARTS) {
                scheduler_spawn_failed(node->scheduler, PROGRAM);
                return;
            }
            spawn(node);
            break;
        }
    }
}

/* ---- What actors need. */

static uint64_t actor_request(void *host, node_actor *actor) {
    node *node = host;
    uint64_t ticket = node->next_ticket++;
    if (scheduler_impossible(node->scheduler, &actor->need)) {
        char text[256];
        resources_text(&actor->need, text, sizeof text);
        log_warn("actor of class %s waits for what this machine does not have: %s", actor->class_name, text);
    }
    scheduler_request(node->scheduler, NODE_CLIENT, ticket, &actor->need);
    return ticket;
}

static void actor_forget(void *host, uint64_t ticket) {
    scheduler_cancel(((node *)host)->scheduler, NODE_CLIENT, ticket);
}

typedef struct creation { /* an actor being made */
    wire_call call;
    node *node;
    mr_actor id;
    uint32_t start;
} creation;

static void creation_free(wire_call *call) { free(container_of(call, creation, call)); }

static void creation_done(wire_call *call, const call_result *result) {
    creation *creation = container_of(call, struct creation, call);
    node *node = creation->node;
    if (result->why == NULL) { /* else its process is gone, and that is told apart */
        bundle *values;
        failure *failed;
        wire_outcome(call, result, "", &values, &failed);
        node_actor_created(&node->actors, creation->id, creation->start, failed);
        bundle_unref(values);
        failure_unref(failed);
    }
    wire_call_end(call);
    decide(node);
}

static void actor_start(void *host, node_actor *actor) {
    node *node = host;
    member *member = member_by_process(node, actor->process);
    MR_ASSERT(member != NULL);
    creation *creation = xcalloc(1, sizeof *creation);
    *creation = (struct creation){
        .call = {.done = creation_done, .free = creation_free}, .node = node, .id = actor->id, .start = actor->starts};
    uint8_t fields[16 + 4 + 256];
    writer writer = writer_of(fields, sizeof fields);
    wire_put_actor(&writer, actor->id);
    writer_span32(&writer, span_of(actor->class_name, strlen(actor->class_name)));
    wire_message message = {.fields = span_of(fields, writer_size(&writer)), .bundle = actor->args};
    mr_status status = wire_ask(node->calls, member->link, WORKER_ACTOR_INIT, &message, &creation->call);
    if (status == MR_OK) return;
    failure *failed = failure_create(status, mr_last_error(), "", NULL);
    node_actor_created(&node->actors, creation->id, creation->start, failed);
    failure_unref(failed);
    free(creation);
}

static void actor_end(void *host, uint64_t process) {
    node *node = host;
    member *member = member_by_process(node, process);
    if (member != NULL) children_kill(&node->children, member->pid);
}

static void actor_tell(void *host, call_token token, node_actor *actor) {
    node *node = host;
    if (actor->state == NODE_ACTOR_DEAD) {
        char text[512];
        failure_text(actor->dead, text, sizeof text);
        wire_refuse(node->calls, token, MR_ACTOR_DIED, text);
        return;
    }
    uint8_t fields[8];
    writer writer = writer_of(fields, sizeof fields);
    writer_u64(&writer, actor->process);
    send_answer(node, token, span_of(fields, sizeof fields));
}

static const node_actor_ops actor_ops = {actor_request, actor_forget, actor_start, actor_end, actor_tell};

/* ---- Requests. Each reads its fields, checks them, and answers now or later. */

static mr_status join(node *node, member *member, reader *reader, call_token token) {
    uint32_t version = reader_u32(reader);
    uint8_t role = reader_u8(reader);
    reader_u32(reader);
    if (reader->failed || version != WIRE_VERSION || role > WIRE_WORKER || member->joined)
        return error_set(MR_DENIED, "a process of another version, or one that is here already");
    member->joined = true;
    member->role = (wire_role)role;
    scheduler_client_add(node->scheduler, member->process, PROGRAM);
    if (role == WIRE_WORKER) {
        scheduler_worker_add(node->scheduler, member->process, PROGRAM);
        children_joined(&node->children, member->pid);
        node->failed_starts = 0;
        node->has_started = true;
    }
    uint8_t fields[4];
    writer writer = writer_of(fields, sizeof fields);
    writer_u32(&writer, node->told.workers);
    send_answer(node, token, span_of(fields, sizeof fields));
    return MR_OK;
}

static mr_status lease(node *node, member *member, reader *reader, call_token token) {
    resources need;
    MR_TRY(resources_decode(reader, &need));
    try_again(node);
    if (is_hopeless(node)) return error_set(MR_WORKER_DIED, NO_WORKERS);
    if (scheduler_impossible(node->scheduler, &need)) {
        char wanted[256], total[256];
        resources_text(&need, wanted, sizeof wanted);
        resources_text(&node->told.total, total, sizeof total);
        log_warn("a task waits for %s; this machine has %s", wanted, total);
    }
    lease_wait *wait = xcalloc(1, sizeof *wait);
    *wait = (lease_wait){.ticket = node->next_ticket++, .client = member->process, .token = token};
    list_push_back(&node->lease_waits, &wait->place);
    scheduler_request(node->scheduler, member->process, wait->ticket, &need);
    return MR_OK;
}

static mr_status release(node *node, member *member, reader *reader, call_token token) {
    uint64_t id = reader_u64(reader);
    bool keep = reader_u8(reader) != 0;
    if (reader->failed) return error_set(MR_CORRUPT, "a lease that cannot be read");
    MR_TRY(scheduler_release(node->scheduler, member->process, id, keep));
    send_answer(node, token, (span){0});
    return MR_OK;
}

static mr_status actor_create(node *node, reader *reader, const call_request *request) {
    node_actor_plan plan = {.id = wire_get_actor(reader)};
    plan.class_name = wire_get_name(reader);
    plan.name = wire_get_name(reader);
    plan.restarts = reader_u32(reader);
    mr_status status = resources_decode(reader, &plan.need);
    if (status != MR_OK) {
        wire_body_drop(request->body.data);
        return status;
    }
    MR_TRY(wire_take_bundle(reader, request->payload, request->body, &plan.args));
    try_again(node);
    status = is_hopeless(node) ? error_set(MR_WORKER_DIED, NO_WORKERS) : node_actor_create(&node->actors, &plan);
    bundle_unref(plan.args);
    if (status == MR_OK) send_answer(node, request->token, (span){0});
    return status;
}

static mr_status find_actor(node *node, reader *reader, node_actor **out) {
    mr_actor id = wire_get_actor(reader);
    *out = reader->failed ? NULL : node_actor_find(&node->actors, id);
    return *out != NULL ? MR_OK : error_set(MR_NOT_FOUND, "there is no such actor");
}

static mr_status actor_where(node *node, reader *reader, call_token token) {
    node_actor *actor;
    MR_TRY(find_actor(node, reader, &actor));
    node_actor_where(&node->actors, actor, token);
    return MR_OK;
}

static mr_status actor_by_name(node *node, reader *reader, call_token token) {
    span name = wire_get_name(reader);
    node_actor *actor = reader->failed ? NULL : node_actor_named(&node->actors, name);
    if (actor == NULL)
        return error_set(MR_NOT_FOUND, "no actor is called '%.*s'", (int)name.size,
                         name.data == NULL ? (const uint8_t *)"" : name.data);
    uint8_t fields[16];
    writer writer = writer_of(fields, sizeof fields);
    wire_put_actor(&writer, actor->id);
    send_answer(node, token, span_of(fields, sizeof fields));
    return MR_OK;
}

static mr_status actor_kill(node *node, reader *reader, call_token token) {
    node_actor *actor;
    MR_TRY(find_actor(node, reader, &actor));
    node_actor_kill(&node->actors, actor);
    send_answer(node, token, (span){0});
    return MR_OK;
}

static mr_status handle(node *node, member *member, const call_request *request) {
    reader reader = reader_of(request->payload.data, request->payload.size);
    if (request->method != NODE_ACTOR_CREATE) wire_body_drop(request->body.data);
    if (!member->joined && request->method != NODE_JOIN) return error_set(MR_DENIED, "a greeting comes first");
    switch (request->method) {
    case NODE_JOIN: return join(node, member, &reader, request->token);
    case NODE_LEASE: return lease(node, member, &reader, request->token);
    case NODE_RELEASE: return release(node, member, &reader, request->token);
    case NODE_BLOCKED:
        scheduler_block(node->scheduler, member->process, reader_u8(&reader) != 0);
        send_answer(node, request->token, (span){0});
        return MR_OK;
    case NODE_ACTOR_CREATE: return actor_create(node, &reader, request);
    case NODE_ACTOR_WHERE: return actor_where(node, &reader, request->token);
    case NODE_ACTOR_FIND: return actor_by_name(node, &reader, request->token);
    case NODE_ACTOR_KILL: return actor_kill(node, &reader, request->token);
    default: return error_set(MR_INVALID, "the node does not know method %u", request->method);
    }
}

static void on_request(void *context, const call_request *request) {
    node *node = context;
    member *member = member_by_link(node, request->token.link);
    MR_ASSERT(member != NULL);
    mr_status status = handle(node, member, request);
    if (status != MR_OK) wire_refuse(node->calls, request->token, status, mr_last_error());
    decide(node);
}

static void on_cancel(void *context, call_token token) {
    node *node = context;
    list_for_each (at, &node->lease_waits) {
        lease_wait *wait = container_of(at, lease_wait, place);
        if (wait->token.link.v != token.link.v || wait->token.number != token.number) continue;
        scheduler_cancel(node->scheduler, wait->client, wait->ticket);
        list_remove(&wait->place);
        free(wait);
    }
}

static void *on_body(void *context, link_id link, uint32_t method, span payload, uint64_t size) {
    return wire_body_room(size);
}

static void on_link_open(void *context, link_id link, const peer *peer) {
    node *node = context;
    member *member = xcalloc(1, sizeof *member);
    *member = (struct member){.link = link, .process = peer->process, .pid = peer->pid};
    list_push_back(&node->members, &member->place);
}

static void on_link_closed(void *context, link_id link, const cause *why) {
    node *node = context;
    member *member = member_by_link(node, link);
    if (member == NULL) return;
    list_for_each (at, &node->lease_waits) {
        lease_wait *wait = container_of(at, lease_wait, place);
        if (wait->client != member->process) continue;
        list_remove(&wait->place);
        free(wait);
    }
    scheduler_client_gone(node->scheduler, member->process);
    scheduler_worker_gone(node->scheduler, member->process);
    node_actor_process_gone(&node->actors, member->process, why);
    if (member->role == WIRE_WORKER) children_kill(&node->children, member->pid); /* no link, no use */
    list_remove(&member->place);
    free(member);
    decide(node);
}

static const call_handlers handlers = {.on_request = on_request,
                                       .on_cancel = on_cancel,
                                       .on_body = on_body,
                                       .on_link_open = on_link_open,
                                       .on_link_closed = on_link_closed,
                                       .on_room = on_room};

static void child_exited(void *context, pid_t pid, int wait_status, bool joined) {
    node *node = context;
    hub_note_exit(node->hub, pid, wait_status);
    if (joined) return; /* its link says the rest */
    log_warn("a worker (process %d) ended before it could join", (int)pid);
    start_failed(node);
    decide(node);
}

/* ---- Life. */

typedef struct joining { /* the port joins the hub of this same thread's loop, so it does so from another thread */
    node *node;
    mr_status status;
    char text[ERROR_TEXT_MAX];
    _Atomic bool done;
} joining;

static void *join_hub(void *argument) {
    joining *joining = argument;
    node *node = joining->node;
    joining->status =
        port_open(&(port_options){.hub = node->hub_path, .name = "node"}, &calls_events, node->calls, &node->port);
    if (joining->status != MR_OK) snprintf(joining->text, sizeof joining->text, "%s", mr_last_error());
    atomic_store(&joining->done, true);
    loop_wake(node->loop);
    return NULL;
}

static mr_status open_port(node *node) {
    joining joining = {.node = node};
    pthread_t thread;
    if (pthread_create(&thread, NULL, join_hub, &joining) != 0)
        return error_set(MR_IO, "no thread for the node's start");
    while (!atomic_load(&joining.done)) loop_run_once(node->loop, 100 * 1000);
    pthread_join(thread, NULL);
    if (joining.status != MR_OK) return error_set(joining.status, "%s", joining.text);
    node->env.transport = port_transport(node->port);
    return port_attach(node->port, node->loop);
}

static mr_status node_open(node *node) {
    MR_TRY(boot_read_node(&node->told));
    node->hub_path = boot_hub();
    list_init(&node->members);
    list_init(&node->lease_waits);
    list_init(&node->answers);
    node->next_ticket = 1;
    rng_init(&node->rng, rng_system_seed());
    node->env = (env){.clock = clock_real(), .rng = &node->rng};
    MR_TRY(loop_create(&node->loop));
    MR_TRY(hub_open(node->loop, &(hub_options){.path = node->hub_path, .arena_bytes = node->told.arena_bytes},
                    &node->hub));
    node->scheduler = scheduler_create(&node->told.total, node->told.workers);
    scheduler_client_add(node->scheduler, NODE_CLIENT, PROGRAM);
    children_init(&node->children, node->loop, child_exited, node);
    node_actors_init(&node->actors, &actor_ops, node);
    node->calls = calls_create(&node->env, &handlers, node);
    return open_port(node);
}

static void lifeline_ended(void *context) { loop_stop(((node *)context)->loop); }

static void node_close(node *node) {
    node->closing = true;
    children_fini(&node->children);
    port_close(node->port);
    calls_destroy(node->calls);
    hub_close(node->hub);
    loop_destroy(node->loop);
}

/* The folder of the hub's socket was made for this node. The program removes it too, unless it was killed. */
static void remove_folder(const char *hub_path) {
    const char *slash = strrchr(hub_path, '/');
    char folder[128];
    if (slash == NULL || (size_t)(slash - hub_path) >= sizeof folder) return;
    memcpy(folder, hub_path, (size_t)(slash - hub_path));
    folder[slash - hub_path] = '\0';
    rmdir(folder);
}

int node_main(void) {
    node *node = xcalloc(1, sizeof *node);
    signal(SIGPIPE, SIG_IGN);
    loop_watch *lifeline;
    mr_status status = node_open(node);
    if (status == MR_OK) status = loop_watch_add(node->loop, BOOT_LIFELINE_FD, lifeline_ended, node, &lifeline);
    if (status != MR_OK) {
        boot_node_ready(mr_last_error());
        return 1;
    }
    decide(node); /* workers start while the program goes on */
    boot_node_ready(NULL);
    loop_run(node->loop);
    loop_watch_remove(lifeline);
    node_close(node);
    remove_folder(boot_hub());
    return 0;
}
