/* task_lease.c — see task_internal.h: worker leases of the node: how many are requested, and how task durations are
 * measured. Tested by tests/feeding_test.c. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/mutation.h"
#include "runtime/client/task_internal.h"

enum {
    REQUESTS_MAX = 64,    /* concurrent lease requests of one scheduling class */
    DEPTH_MAX = 128,      /* limit of tasks sent to one worker */
    DEPTH_US = 500,       /* total duration of the tasks sent to one worker */
    IDLE_US = 100 * 1000, /* a lease without tasks is returned after this */
    SERVICE_EVERY = 16,   /* so many short tasks are timed as one */
    FEED_US = 1,          /* approximate cost of a task for its submitter */
};

typedef struct lease_request {
    wire_call call;
    scheduling_class *class;
} lease_request;

/* ---- Grant and return of leases. */

void task_lease_free(lease *lease) {
    MR_ASSERT(lease->in_flight == 0);
    peer_link_leave(&lease->user);
    list_remove(&lease->place);
    map_fini(&lease->bounded);
    free(lease);
}

static void lease_end(lease *lease, wire_after after) {
    uint8_t fields[17];
    writer writer = writer_of(fields, sizeof fields);
    writer_u64(&writer, lease->id);
    writer_u8(&writer, (uint8_t)after);
    writer_u64(&writer, lease->process);
    core_worker_tell_node(lease->class->tasks->worker, NODE_RELEASE, span_of(fields, sizeof fields));
    task_lease_free(lease);
}

/* A worker that is about to end, or whose calls are counted, is not reused by another client. */
void task_lease_give_back(lease *lease) {
    lease_end(lease, lease->ended ? WIRE_KILLED : lease->bounded.count > 0 ? WIRE_LEAVES : WIRE_GOES_ON);
}

/* Fails the queued tasks, unless the class has other leases. Takes over the reference to `refused`. */
static void refuse(scheduling_class *class, failure *refused) {
    if (list_empty(&class->leases)) scheduling_class_fail(class, refused);
    failure_unref(refused);
}

static void lease_opened(peer_link_user *user) { scheduling_class_feed(container_of(user, lease, user)->class); }

/* The link to a worker has closed, and the calls on it have ended. If only the link broke, the worker must end: it may
 * still run tasks that are retried elsewhere. A worker that is alive but cannot be reached is given back, and queued
 * tasks fail: the next worker could not be reached either. */
static void lease_closed(peer_link_user *user, const cause *why) {
    lease *lease = container_of(user, struct lease, user);
    scheduling_class *class = lease->class;
    if (!peer_link_unreachable(lease->link, why)) {
        lease_end(lease, WIRE_KILLED);
        scheduling_class_feed(class);
        return;
    }
    task_lease_give_back(lease);
    refuse(class, failure_create(why->status, why->text, "cannot connect to a worker", NULL));
}

static void lease_answered(wire_call *call, const rpc_call_result *result) {
    lease_request *request = container_of(call, lease_request, call);
    scheduling_class *class = request->class;
    core_worker *worker = class->tasks->worker;
    class->requests--;
    reader reader = reader_of(result->payload.data, result->payload.size);
    uint64_t id = reader_u64(&reader), process = reader_u64(&reader);
    bool granted = result->status == MR_OK && !reader.failed;
    bool lost = result->why != NULL || worker->over != NULL; /* the node is gone: tasks_over follows */
    failure *refused = granted || lost ? NULL : wire_failure(result, "the node");
    wire_call_end(call);
    if (refused != NULL) refuse(class, refused);
    if (!granted || worker->over != NULL) return;
    lease *lease =
        XNEW(struct lease, .class = class, .id = id, .process = process,
             .user = {.opened = lease_opened, .closed = lease_closed}, .idle_since_us = task_now(class->tasks));
    list_init(&lease->running);
    list_init(&lease->user.place);
    list_push_back(&class->leases, &lease->place);
    mr_status status = core_worker_use(worker, process, &lease->user, &lease->link);
    if (status == MR_OK) {
        scheduling_class_feed(class);
        return;
    }
    refused = failure_create(status, mr_last_error(), "cannot connect to a worker", NULL);
    task_lease_give_back(lease);
    refuse(class, refused);
}

/* Number of workers that these tasks justify: as many as this process can keep busy and, if the tasks are too short to
 * wait for anything but a CPU, at most the number of CPUs. A worker with too few tasks sleeps, and is woken for each
 * task. */
static uint32_t worth_feeding(const scheduling_class *class) {
    double count = class->service_us / FEED_US;
    uint32_t cpus = class->tasks->worker->host->cpus;
    if (class->service_us < TASK_SERVICE_US_SHORT && cpus != 0 && count > cpus) count = cpus;
    return count < 1 ? 1 : (uint32_t)count;
}

static bool may_be_fed(const lease *lease) {
    return !lease->reclaimed && !lease->spent && !lease->held_up && !lease->ended;
}

/* Whether enough leases are granted, opening or requested. */
static bool has_enough(const scheduling_class *class) {
    uint32_t worth = worth_feeding(class), count = class->requests;
    list_for_each (at, &class->leases) {
        if (count >= worth) break;
        const lease *lease = container_of(at, struct lease, place);
        count += may_be_fed(lease);
    }
    return count >= worth;
}

/* The first task that waits for a worker: the node names it if it can never have one. */
static void put_first(const scheduling_class *class, writer *writer) {
    const invocation *first = list_empty(&class->queue) ? NULL : &task_at(class->queue.next)->invocation;
    const char *name = first == NULL ? "" : first->name->text;
    writer_u64(writer, first == NULL ? 0 : first->result->ref.word[1]);
    writer_span32(writer, span_of(name, strlen(name)));
}

void scheduling_class_ask(scheduling_class *class) {
    core_worker *worker = class->tasks->worker;
    while (class->requests < class->queued && class->requests < REQUESTS_MAX && class->requests < worker->workers &&
           !has_enough(class)) {
        lease_request *request =
            XNEW(lease_request, .call = {.done = lease_answered, .free = wire_call_free}, .class = class);
        uint8_t fields[RESOURCES_BYTES_MAX + 1 + 8 + 4 + WIRE_NAME_MAX];
        writer writer = writer_of(fields, sizeof fields);
        resources_encode(&class->need, &writer);
        writer_u8(&writer, class->retriable);
        put_first(class, &writer);
        MR_ASSERT(!writer.failed);
        wire_message message = {.fields = span_of(fields, writer_size(&writer))};
        if (core_worker_ask_node(worker, NODE_LEASE, &message, &request->call) != MR_OK) {
            free(request);
            return; /* MR_BUSY: requested again by the next feed */
        }
        class->requests++;
    }
}

/* ---- Choice of a lease. */

uint32_t scheduling_class_depth(const scheduling_class *class) {
    double depth = DEPTH_US / (class->service_us > 0.1 ? class->service_us : 0.1);
    return depth < 1 ? 1 : depth > DEPTH_MAX ? DEPTH_MAX : (uint32_t)depth;
}

static bool is_usable(const lease *lease) { return lease->link != NULL && lease->link->open && may_be_fed(lease); }

/* Returns an idle lease while too few leases are busy; else the busy lease with the fewest tasks, below `depth`. */
lease *task_lease_to_feed(const scheduling_class *class, uint32_t depth) {
    lease *idle = NULL, *best = NULL;
    uint32_t busy = 0;
    list_for_each (at, &class->leases) {
        lease *lease = container_of(at, struct lease, place);
        if (!is_usable(lease)) continue;
        busy += lease->in_flight > 0;
        if (lease->in_flight == 0 && idle == NULL) idle = lease;
        if (lease->in_flight == 0 || lease->in_flight >= depth) continue;
        if (best == NULL || lease->in_flight < best->in_flight) best = lease;
    }
    return idle != NULL && busy < worth_feeding(class) ? idle : best;
}

/* Measures the time for which the worker ran only this task: for every task while tasks are long, and for one of
 * SERVICE_EVERY when they are so short that reading the clock matters. */
void task_lease_note(lease *lease, task *task) {
    scheduling_class *class = task->class;
    uint32_t done = ++lease->done_count;
    if (lease->in_flight == 0) lease->idle_since_us = core_worker_about_now(class->tasks->worker);
    if (class->service_us < TASK_SERVICE_US_SHORT && done % SERVICE_EVERY != 0) return;
    int64_t now_us = task_now(class->tasks);
    uint32_t since_count = done - lease->last_done_count;
    int64_t since = task->sent_us > lease->last_done_us ? task->sent_us : lease->last_done_us;
    double took = since > 0 && now_us > since ? (double)(now_us - since) / since_count : 0;
    class->service_us += (took - class->service_us) / 8;
    lease->last_done_us = now_us;
    lease->last_done_count = done;
}

/* ---- Reclaim, and return of idle leases. */

lease *task_lease_find(const tasks *tasks, uint64_t id) {
    list_for_each (at, &tasks->shapes) {
        list_for_each (item, &container_of(at, scheduling_class, place)->leases) {
            lease *lease = container_of(item, struct lease, place);
            if (lease->id == id) return lease;
        }
    }
    return NULL;
}

static void reclaim(lease *lease) {
    lease->reclaimed = true;
    if (lease->in_flight == 0) task_lease_give_back(lease);
}

void tasks_reclaim(tasks *tasks, uint64_t id) {
    lease *lease = task_lease_find(tasks, id);
    if (lease != NULL) reclaim(lease);
}

void tasks_reclaim_group(tasks *tasks, uint64_t group) {
    list_for_each (at, &tasks->shapes) {
        scheduling_class *class = container_of(at, struct scheduling_class, place);
        if (class->need.group != group) continue;
        list_for_each (item, &class->leases) reclaim(container_of(item, lease, place));
    }
}

int64_t tasks_tick(tasks *tasks, int64_t now_us) {
    int64_t next_us = CLOCK_NEVER_US;
    list_for_each (at, &tasks->shapes) {
        scheduling_class *class = container_of(at, struct scheduling_class, place);
        list_for_each (item, &class->leases) {
            lease *lease = container_of(item, struct lease, place);
            bool unused = list_empty(&class->queue) || is_usable(lease); /* else its link is opening */
            if (lease->in_flight > 0 || !unused || MUTATED("no-release")) continue;
            int64_t due_us = clock_deadline_us(lease->idle_since_us, IDLE_US);
            if (due_us < now_us)
                task_lease_give_back(lease);
            else
                next_us = clock_earlier_us(next_us, due_us + 1);
        }
    }
    return next_us;
}

bool tasks_have_leases(const tasks *tasks) {
    if (!list_empty(&tasks->evicted)) return true;
    list_for_each (at, &tasks->shapes) {
        if (!list_empty(&container_of(at, scheduling_class, place)->leases)) return true;
    }
    return false;
}
