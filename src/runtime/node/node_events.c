/* node_events.c — see node_manager.h. Event rings (event_ring.h) that workers and drivers write: allocated on
 * request, read by the node for queries, kept for a while after their process has ended.
 *
 * The memory of a ring is used for rings only until the node closes: a process that writes after its ring was given
 * to another process can damage that ring only, and readers check all they read. All rings together take at most
 * 1/ARENA_PART of the arena: the first are large, later ones small; when the memory is used up, a process gets the
 * ring of an ended one, or none. Tested by tests/inspect_test.c. */
#include "runtime/node/node_events.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/error.h"
#include "runtime/common/event_ring.h"
#include "runtime/node/node_internal.h"

enum { ARENA_PART = 16, BUDGET_MAX = 64 << 20, GONE_KEPT = 16, RUNNING_SEARCHED = 256 };

typedef struct node_ring {
    list place; /* in node_events.living by time of grant, or in .gone by time of death */
    uint64_t process;
    int pid;
    void *memory;
    uint64_t offset;
    size_t bytes;
    int64_t gone_us;
    char why[CAUSE_TEXT_MAX];
} node_ring;

void node_events_init(node_events *events) {
    list_init(&events->living);
    list_init(&events->gone);
}

static void free_all(node_core *core, list *rings) {
    for (list *at; (at = list_pop_front(rings)) != NULL;) {
        node_ring *ring = container_of(at, node_ring, place);
        core->options.memory->take_back(core->launcher.self, ring->offset, ring->bytes);
        free(ring);
    }
}

void node_events_fini(node_core *core) {
    free_all(core, &core->events.living);
    free_all(core, &core->events.gone);
}

/* ---- Allocation. */

static node_ring *lend_new(node_core *core) {
    const node_memory_ops *memory = core->options.memory;
    node_events *events = &core->events;
    size_t part = core->options.arena_bytes / ARENA_PART, budget = part < BUDGET_MAX ? part : BUDGET_MAX;
    size_t bytes = event_ring_bytes(core->options.events_kept);
    if (events->granted + bytes > budget / 2) bytes = event_ring_bytes(EVENT_RING_COUNT_MIN);
    if (events->granted + bytes > budget) return NULL;
    uint64_t offset;
    void *at = memory->lend(core->launcher.self, bytes, &offset);
    if (at == NULL) return NULL;
    node_ring *ring = XNEW(node_ring, .memory = at, .offset = offset, .bytes = bytes);
    events->granted += bytes;
    return ring;
}

/* The ring of the process that ended first, if more than `keep` rings of ended processes are kept. */
static node_ring *reuse(node_events *events, uint32_t keep) {
    if (events->gone_count <= keep) return NULL;
    events->gone_count--;
    return container_of(list_pop_front(&events->gone), node_ring, place);
}

static node_ring *find(const node_core *core, uint64_t process) {
    list_for_each_item (ring, &core->events.living, node_ring, place)
        if (ring->process == process) return ring;
    return NULL;
}

mr_status node_events_lend(node_core *core, node_member *member, rpc_call_token token) {
    node_events *events = &core->events;
    node_ring *ring = NULL;
    if (core->options.memory != NULL && core->options.events_kept > 0 && find(core, member->process) == NULL) {
        ring = reuse(events, GONE_KEPT);
        if (ring == NULL) ring = lend_new(core);
        if (ring == NULL) ring = reuse(events, 0);
    }
    if (ring != NULL) {
        ring->process = member->process;
        ring->pid = member->pid;
        memset(ring->memory, 0, sizeof(uint64_t)); /* clears the magic: no valid ring until its owner opens it */
        list_push_back(&events->living, &ring->place);
    }
    const uint64_t fields[] = {ring == NULL ? 0 : ring->offset, ring == NULL ? 0 : ring->bytes};
    return node_answer(core, token, span_of(fields, sizeof fields));
}

void node_events_gone(node_core *core, uint64_t process, const cause *why) {
    node_ring *ring = find(core, process);
    if (ring == NULL) return;
    list_remove(&ring->place);
    list_push_back(&core->events.gone, &ring->place);
    core->events.gone_count++;
    ring->gone_us = clock_now_us(core->env->clock);
    snprintf(ring->why, sizeof ring->why, "%s", why->text);
}

/* ---- Reports. */

bool node_manager_speaker(const node_core *core, int pid, std_stream std_stream, uint64_t place, char *out,
                          size_t size) {
    const list *lists[] = {&core->events.living, &core->events.gone};
    for (size_t i = 0; i < 2; i++) {
        list_for_each_item (ring, lists[i], const node_ring, place)
            if (ring->pid == pid) return event_ring_printed_by(ring->memory, ring->bytes, std_stream, place, out, size);
    }
    return false;
}

static const char *kind_name(uint8_t kind) {
    static const char *const names[] = {[EVENT_TASK] = "task",
                                        [EVENT_CREATE] = "create",
                                        [EVENT_METHOD] = "method",
                                        [EVENT_WAIT] = "wait",
                                        [EVENT_SUBMIT] = "submit"};
    return kind >= EVENT_TASK && kind <= EVENT_SUBMIT ? names[kind] : "?";
}

int64_t node_events_now(node_core *core, uint64_t process, char *name, size_t size) {
    node_ring *ring = find(core, process);
    event_ring_copy copy;
    int64_t begun_us = 0;
    if (ring == NULL) return 0;
    if (event_ring_read(ring->memory, ring->bytes, RUNNING_SEARCHED, &copy) != MR_OK) {
        error_clear();
        return 0;
    }
    for (uint32_t i = copy.inside > 0 ? copy.count : 0; i > 0 && begun_us == 0; i--) {
        const event *event = &copy.events[i - 1];
        if (event->ended_us != 0 || event->kind == EVENT_WAIT) continue;
        begun_us = event->begun_us;
        span text = event_ring_copy_name(&copy, event->name);
        if (name != NULL) snprintf(name, size, "%.*s", (int)text.size, (const char *)text.data);
    }
    event_ring_copy_fini(&copy);
    return begun_us;
}

mr_arg node_events_running(node_core *core, report *report, uint64_t process) {
    node_ring *ring = find(core, process);
    event_ring_copy copy;
    report_list rows = {0};
    if (ring == NULL) return mr_nil();
    if (event_ring_read(ring->memory, ring->bytes, RUNNING_SEARCHED, &copy) != MR_OK) {
        error_clear();
        return mr_nil();
    }
    int64_t now_us = clock_now_us(core->env->clock);
    for (uint32_t i = copy.count; i > 0 && rows.count < copy.inside; i--) {
        const event *event = &copy.events[i - 1];
        if (event->ended_us != 0) continue;
        report_add(report, &rows,
                   REPORT_MAP(report, {"name", report_copy(report, event_ring_copy_name(&copy, event->name))},
                              {"kind", mr_str(kind_name(event->kind))},
                              {"process", mr_int(REPORT_PROCESS(event->process))},
                              {"call", mr_int((int64_t)event->call)},
                              {"age_us", mr_int(now_us > event->begun_us ? now_us - event->begun_us : 0)}));
    }
    event_ring_copy_fini(&copy);
    return report_list_arg(&rows);
}

/* An event as a list, in the order given in inspect_query.h. */
static mr_arg event_row(report *report, const event_ring_copy *copy, const event *event) {
    mr_arg *items = report_alloc(report, 9 * sizeof *items);
    items[0] = mr_int(event->begun_us);
    items[1] = mr_int(event->ended_us);
    items[2] = mr_str(kind_name(event->kind));
    items[3] = report_copy(report, event_ring_copy_name(copy, event->name));
    items[4] = mr_int(REPORT_PROCESS(event->process));
    items[5] = mr_int((int64_t)event->call);
    items[6] = mr_int(event->count);
    items[7] = mr_int(event->lane);
    items[8] = mr_int(event->outcome);
    return mr_list(items, 9);
}

static void add_ring(node_core *core, report *report, uint32_t limit, const node_ring *ring, report_list *out) {
    event_ring_copy copy;
    if (event_ring_read(ring->memory, ring->bytes, limit, &copy) != MR_OK) {
        error_clear();
        return;
    }
    report_list rows = {0};
    for (uint32_t i = 0; i < copy.count; i++) report_add(report, &rows, event_row(report, &copy, &copy.events[i]));
    node_actor *actor = ring->gone_us == 0 ? node_actor_in(&core->actors, ring->process) : NULL;
    report_add(report, out,
               REPORT_MAP(report, {"process", mr_int(REPORT_PROCESS(ring->process))}, {"pid", mr_int(ring->pid)},
                          {"role", mr_str(copy.role == WIRE_DRIVER ? "driver" : "worker")},
                          {"class", actor == NULL ? mr_nil() : mr_str(actor->class_name)},
                          {"opened_us", mr_int(copy.opened_us)},
                          {"gone_us", ring->gone_us == 0 ? mr_nil() : mr_int(ring->gone_us)},
                          {"why", ring->gone_us == 0 ? mr_nil() : report_text(report, "%s", ring->why)},
                          {"records", mr_int((int64_t)copy.written)}, {"events", report_list_arg(&rows)}));
    event_ring_copy_fini(&copy);
}

mr_arg node_events_rows(node_core *core, report *report, uint32_t limit) {
    report_list rings = {0};
    list_for_each (at, &core->events.gone) add_ring(core, report, limit, container_of(at, node_ring, place), &rings);
    list_for_each (at, &core->events.living) add_ring(core, report, limit, container_of(at, node_ring, place), &rings);
    return report_list_arg(&rings);
}
