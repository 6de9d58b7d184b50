/* node_evict.c — see node_manager.h: workers that the memory monitor may end, and their end. Tested by
 * tests/memory_monitor_test.c and the scenario `memory` of the simulator. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/mutation.h"
#include "runtime/node/node_internal.h"

bool node_manager_has_work(const node_core *core, bool *tasks_run) {
    *tasks_run = scheduler_has_leases(core->scheduler);
    return *tasks_run || !list_empty(&core->actors.list);
}

static oom_worker about(node_core *core, const node_member *member) {
    scheduler_snapshot snapshot = scheduler_see(core->scheduler, member->process);
    const node_actor *actor = node_actor_in(&core->actors, member->process);
    oom_worker worker = {.process = member->process, .pid = member->pid, .since_us = member->given_us};
    if (actor != NULL) {
        worker.role = OOM_ACTOR;
        worker.retriable = actor->restarts > 0;
    } else if (snapshot.client != 0) {
        worker.role = OOM_TASK;
        worker.retriable = member->retriable;
        worker.owner = snapshot.client;
        int64_t begun_us = node_events_now(core, member->process, NULL, 0);
        if (begun_us > 0) worker.since_us = begun_us; /* a lease may cover many tasks: of the one that runs now */
    }
    return worker;
}

bool node_manager_workers(node_core *core, oom_worker **out, size_t *count) {
    oom_worker *workers = xcalloc(core->by_process.count + 1, sizeof *workers);
    size_t used = 0;
    map_for_each (slot, &core->by_process) {
        const node_member *member = slot.value;
        if (!member->joined || member->role != WIRE_WORKER || member->doomed) continue;
        if (member->fate != MR_OK) { /* it still uses its memory, and is about to free it */
            free(workers);
            return false;
        }
        workers[used++] = about(core, member);
    }
    *out = workers;
    *count = used;
    return true;
}

void node_manager_name(node_core *core, int pid, char *out, size_t size) {
    out[0] = '\0';
    map_for_each (slot, &core->by_process) {
        const node_member *member = slot.value;
        if (member->pid != pid || !member->joined) continue;
        const node_actor *actor = node_actor_in(&core->actors, member->process);
        if (member->role == WIRE_DRIVER)
            snprintf(out, size, "driver");
        else if (actor != NULL)
            snprintf(out, size, "actor %s", actor->class_name);
        else if (node_events_now(core, member->process, out, size) == 0)
            snprintf(out, size, "idle worker");
    }
}

void node_manager_evict(node_core *core, uint64_t process, bool retry, const char *why) {
    node_member *member = node_member_by_process(core, process);
    if (member == NULL || member->fate != MR_OK) return;
    char text[ERROR_TEXT_MAX], name[64];
    node_manager_name(core, member->pid, name, sizeof name);
    snprintf(text, sizeof text, "the node ends worker process %d (%s)%s: %s", member->pid, name,
             retry ? " and retries its task" : "", why);
    node_warn(core, member->program, text);
    member->fate = retry ? MR_EVICTED : MR_NOMEM;
    free(member->sentence);
    member->sentence = xstrdup(why);
    /* A task or an actor that came to this worker now, or when its lease is returned, would pay for its end. */
    if (node_actor_in(&core->actors, process) == NULL && !MUTATED("still-idle"))
        scheduler_worker_gone(core->scheduler, process);
    node_end_process(core, process);
}
