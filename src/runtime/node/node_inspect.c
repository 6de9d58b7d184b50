/* node_inspect.c — see node_manager.h. Answers NODE_LOOK: the node's own state, and the reports of other processes
 * (inspect_query.h).
 *
 *   queried ──► (a call to each queried process) ──► all have answered, or LOOK_US are over ──► answered
 *
 * The node's own part is a map: "facts" and "store" of the machine (node_facts), "resources" (name, total, free, in
 * thousandths), "workers" {total, idle, starting, leases, waiting}, "processes" (id, pid, role, state, for, needs,
 * actor, class, asks_for, running), "groups" (id, handle, name, state, strategy, bundles), "actors" (id, class, name,
 * namespace, state, worker, restarts, starts, needs, failure), "actors_total", "now_us" and "wall_us" (this moment on
 * both clocks), and if events were queried "rings": of each process "process", "pid", "role", "class", "opened_us",
 * "gone_us", "why", "records" and "events", lists of [begun_us, ended_us, kind, name, process, call, count, lane,
 * outcome]. Tested by tests/inspect_test.c. */
#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "runtime/client/inspect_query.h"
#include "runtime/common/report.h"
#include "runtime/node/node_internal.h"

enum { LOOK_US = 1000 * 1000, PARTS_MAX = 4096, ACTORS_SHOWN = 10 * 1000 };

typedef struct part { /* answer of one process */
    wire_call call;
    struct inquiry *look;
    uint64_t process;
    int pid;
    wire_role role;
    value_pack *values; /* NULL: no usable answer */
    char why[256];
} part;

typedef struct inquiry { /* one query in progress */
    node_core *core;
    rpc_call_token token;
    inspect_query_question question;
    part *parts[PARTS_MAX];
    uint32_t count, left;
} inquiry;

/* ---- State of the node. */

static const char *role_name(wire_role role) { return role == WIRE_WORKER ? "worker" : "driver"; }

static mr_arg resource_rows(node_core *core, report *report) {
    scheduler_stats stats = scheduler_stats_now(core->scheduler);
    report_list rows = {.limit = RESOURCES_MAX};
    for (uint32_t i = 0; i < stats.total.count; i++) {
        const resource *total = &stats.total.items[i];
        int64_t free = resources_milli(&stats.free, total->name);
        report_add(report, &rows,
                   REPORT_MAP(report, {"name", report_text(report, "%s", total->name)}, {"total", mr_int(total->milli)},
                              {"free", mr_int(free)}));
    }
    return report_list_arg(&rows);
}

static mr_arg worker_counts(node_core *core, report *report) {
    scheduler_stats stats = scheduler_stats_now(core->scheduler);
    return REPORT_MAP(report, {"total", mr_int(stats.workers)}, {"idle", mr_int(stats.idle)},
                      {"starting", mr_int(stats.starting)}, {"leases", mr_int(stats.leases)},
                      {"waiting", mr_int(stats.waiting)});
}

static mr_arg process_row(node_core *core, report *report, const node_member *member) {
    scheduler_snapshot snapshot = scheduler_see(core->scheduler, member->process);
    node_actor *actor = snapshot.kept ? node_actor_in(&core->actors, member->process) : NULL;
    char needs[RESOURCES_TEXT_MAX] = "";
    const char *state = member->role == WIRE_DRIVER ? "driver"
                        : snapshot.blocked          ? "waits"
                        : snapshot.kept             ? "actor"
                        : snapshot.client != 0      ? "leased"
                                                    : "idle";
    if (snapshot.kept || snapshot.client != 0) resources_text(&snapshot.need, needs, sizeof needs);
    return REPORT_MAP(
        report, {"id", report_id_arg(report, 'p', member->process, 0)}, {"pid", mr_int(member->pid)},
        {"role", mr_str(role_name(member->role))}, {"state", mr_str(state)},
        {"for", snapshot.client != 0 ? report_id_arg(report, 'p', snapshot.client, 0) : mr_nil()},
        {"needs", report_copy(report, span_of(needs, strlen(needs)))},
        {"actor", actor == NULL ? mr_nil() : report_id_arg(report, 'a', actor->id.word[0], actor->id.word[1])},
        {"class", actor == NULL ? mr_nil() : mr_str(actor->class_name)}, {"asks_for", mr_int(snapshot.requests)},
        {"running", node_events_running(core, report, member->process)});
}

static int by_number(const void *a, const void *b) {
    const node_member *const *left = a, *const *right = b;
    return (*left)->process < (*right)->process ? -1 : (*left)->process > (*right)->process;
}

/* All joined drivers and workers, in order of their process numbers. The caller frees the list. */
static node_member **everybody(node_core *core, size_t *count) {
    node_member **members = xcalloc(core->by_process.count + 1, sizeof *members);
    *count = 0;
    map_for_each (slot, &core->by_process) {
        node_member *member = slot.value;
        if (member->joined && member->role != WIRE_WATCHER) members[(*count)++] = member;
    }
    qsort(members, *count, sizeof *members, by_number);
    if (*count > PARTS_MAX) *count = PARTS_MAX;
    return members;
}

static mr_arg process_rows(node_core *core, report *report) {
    report_list rows = {.limit = PARTS_MAX};
    size_t count;
    node_member **members = everybody(core, &count);
    for (size_t i = 0; i < count; i++) report_add(report, &rows, process_row(core, report, members[i]));
    free(members);
    return report_list_arg(&rows);
}

static mr_arg actor_row(report *report, const node_actor *actor) {
    static const char *const states[] = {[NODE_ACTOR_PENDING] = "pending",
                                         [NODE_ACTOR_STARTING] = "starting",
                                         [NODE_ACTOR_ALIVE] = "alive",
                                         [NODE_ACTOR_DEAD] = "dead"};
    char needs[RESOURCES_TEXT_MAX], failure[400] = "";
    bool placed = actor->state == NODE_ACTOR_STARTING || actor->state == NODE_ACTOR_ALIVE;
    resources_text(&actor->need, needs, sizeof needs);
    if (actor->dead != NULL) failure_text(actor->dead, failure, sizeof failure);
    return REPORT_MAP(report, {"id", report_id_arg(report, 'a', actor->id.word[0], actor->id.word[1])},
                      {"class", mr_str(actor->class_name)}, {"name", mr_str(actor->name)},
                      {"namespace", mr_str(actor->name_space)}, {"state", mr_str(states[actor->state])},
                      {"worker", placed ? report_id_arg(report, 'p', actor->process, 0) : mr_nil()},
                      {"restarts", mr_int(actor->restarts)}, {"starts", mr_int(actor->starts)},
                      {"needs", report_copy(report, span_of(needs, strlen(needs)))},
                      {"failure", failure[0] == '\0' ? mr_nil() : report_text(report, "%s", failure)});
}

static void actor_rows(node_core *core, report *report, report_list *rows) {
    const list *lists[] = {&core->actors.list, &core->actors.dead};
    for (size_t i = 0; i < 2; i++) {
        list_for_each_item (actor, lists[i], const node_actor, place)
            if (report_wants(rows)) report_add(report, rows, actor_row(report, actor));
    }
}

static mr_arg fact_map(report *report, const node_facts *facts) {
    return REPORT_MAP(
        report, {"pid", mr_int(facts->pid)}, {"address", report_text(report, "%s", facts->address)},
        {"folder", report_text(report, "%s", facts->folder)}, {"age_us", mr_int(facts->age_us)},
        {"arena_bytes", mr_int((int64_t)facts->arena.size)}, {"arena_backed", mr_int((int64_t)facts->arena.backed)},
        {"arena_rings", mr_int((int64_t)facts->arena.used)}, {"arena_lent", mr_int((int64_t)facts->arena.exported)},
        {"memory_bytes", mr_int((int64_t)facts->memory_bytes)}, {"store_bytes", mr_int((int64_t)facts->store.bytes)},
        {"version", mr_str(mr_version())}, {"id", report_text(report, "%08x", facts->number)},
        {"host", report_text(report, "%s", facts->host)});
}

static mr_arg store_map(report *report, const store_server_stats *store) {
    return REPORT_MAP(report, {"objects", mr_int((int64_t)store->objects)}, {"bytes", mr_int((int64_t)store->bytes)},
                      {"spilled_bytes", mr_int((int64_t)store->spilled_bytes)},
                      {"spilled", mr_int((int64_t)store->spilled)}, {"restored", mr_int((int64_t)store->restored)});
}

static mr_arg node_map(node_core *core, report *report, const inspect_query_question *question) {
    report_list actors = {.limit = ACTORS_SHOWN};
    node_facts facts = {.address = "", .folder = ""};
    if (core->options.describe != NULL) core->options.describe(core->launcher.self, &facts);
    if (question->what == INSPECT_QUERY_MACHINE || question->what == INSPECT_QUERY_DOES)
        return REPORT_MAP(report, {"facts", fact_map(report, &facts)}, {"resources", resource_rows(core, report)});
    actor_rows(core, report, &actors);
    mr_arg rings = question->what == INSPECT_QUERY_EVENTS ? node_events_rows(core, report, question->limit) : mr_nil();
    int64_t now_us = clock_now_us(core->env->clock); /* read after the rings, so no event is later */
    return REPORT_MAP(report, {"facts", fact_map(report, &facts)}, {"store", store_map(report, &facts.store)},
                      {"resources", resource_rows(core, report)}, {"workers", worker_counts(core, report)},
                      {"processes", process_rows(core, report)}, {"actors", report_list_arg(&actors)},
                      {"now_us", mr_int(now_us)}, {"wall_us", mr_int(clock_wall_us(core->env->clock))},
                      {"groups", node_group_rows(core, report)}, {"rings", rings},
                      {"actors_total", mr_int((int64_t)actors.total)});
}

/* ---- Answer. */

static mr_arg silent(report *report, const part *part) {
    return REPORT_MAP(report, {"process", mr_int(REPORT_PROCESS(part->process))}, {"pid", mr_int(part->pid)},
                      {"role", mr_str(role_name(part->role))}, {"silent", report_text(report, "%s", part->why)});
}

static void finish(inquiry *look) {
    node_core *core = look->core;
    report report;
    report_init(&report);
    value_pack_item *items = xcalloc(look->count + 1, sizeof *items);
    mr_arg *args = xcalloc(look->count + 1, sizeof *args);
    args[0] = node_map(core, &report, &look->question);
    items[0].arg = &args[0];
    for (uint32_t i = 0; i < look->count; i++) {
        const part *part = look->parts[i];
        items[i + 1].arg = part->values == NULL ? &args[i + 1] : NULL;
        if (part->values == NULL)
            args[i + 1] = silent(&report, part);
        else
            items[i + 1].entry = value_pack_value(part->values, 0);
    }
    value_pack *values;
    mr_status status = value_pack_create(items, look->count + 1, &values);
    if (status == MR_OK)
        reply_queue_answer(&core->replies, core->rpc, look->token, values);
    else
        wire_refuse(core->rpc, look->token, status, mr_last_error());
    free(items);
    free(args);
    report_fini(&report);
}

static void end(inquiry *look) {
    finish(look);
    for (uint32_t i = 0; i < look->count; i++) {
        value_pack_unref(look->parts[i]->values);
        free(look->parts[i]);
    }
    free(look);
}

/* ---- Queries to processes. */

static void part_answered(wire_call *call, const rpc_call_result *result) {
    part *part = container_of(call, struct part, call);
    failure *failed;
    wire_outcome(call, result, "", &part->values, &failed);
    if (part->values != NULL && part->values->count != 1) {
        value_pack_unref(part->values);
        part->values = NULL;
    }
    if (result->status == MR_TIMEOUT)
        snprintf(part->why, sizeof part->why, "did not answer within %g s", (double)LOOK_US / 1e6);
    else if (failed != NULL)
        failure_text(failed, part->why, sizeof part->why);
    failure_unref(failed);
    wire_call_end(call);
    if (--part->look->left == 0) end(part->look);
}

static void ask(inquiry *look, const node_member *member, int64_t now_us) {
    part *part = XNEW(struct part, .call = {.done = part_answered}, .look = look, .process = member->process,
                      .pid = member->pid, .role = member->role);
    look->parts[look->count++] = part;
    uint8_t fields[INSPECT_QUERY_FIELDS_SIZE];
    inspect_query_encode(&look->question, fields);
    wire_message message = {.fields = span_of(fields, sizeof fields)};
    mr_status status =
        wire_ask_within(look->core->rpc, now_us, LOOK_US, member->link, CLIENT_LOOK, &message, &part->call);
    if (status == MR_OK)
        look->left++;
    else
        strcpy(part->why, "was not asked: its queue of messages is full");
}

static bool is_asked(const inspect_query_question *question, const node_member *member) {
    bool about_processes = question->what == INSPECT_QUERY_TASKS || question->what == INSPECT_QUERY_OBJECTS ||
                           question->what == INSPECT_QUERY_DOES;
    return about_processes && (question->process == 0 || question->process == REPORT_PROCESS(member->process));
}

mr_status node_look(node_core *core, const rpc_call_request *request) {
    inspect_query_question question;
    MR_TRY(inspect_query_decode(request->payload, &question));
    inquiry *look = XNEW(struct inquiry, .core = core, .token = request->token, .question = question);
    int64_t now_us = clock_now_us(core->env->clock);
    size_t count;
    node_member **members = everybody(core, &count);
    for (size_t i = 0; i < count; i++)
        if (is_asked(&question, members[i])) ask(look, members[i], now_us);
    free(members);
    if (look->left == 0) end(look);
    return MR_OK;
}
