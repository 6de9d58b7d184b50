/* node_job.c — see node_manager.h. Tested by tests/standalone_node_test.c.
 *
 *   joins ──► lives ── its driver is gone: its workers, tasks and actors end ──► over ── forgotten
 *                                                              └── detached actors live on ──┘ when the last one died
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"
#include "base/mutation.h"
#include "runtime/node/node_internal.h"

node_job *node_job_of(node_core *core, uint32_t number) { return map_get(&core->programs, number); }

node_job *node_job_add(node_core *core) {
    node_job *job = XNEW(node_job, .number = core->next_program++);
    map_put(&core->programs, job->number, job);
    scheduler_client_add(core->scheduler, node_client_of(job->number), job->number);
    return job;
}

mr_status node_job_native(node_core *core, uint32_t *number) {
    node_job *host = node_job_of(core, *number);
    if (host == NULL || host->ended) return error_set(MR_CLOSED, "the driver of job %u has ended", *number);
    if (host->native == 0) {
        if (core->launcher.ops->program_native == NULL)
            return error_set(MR_INVALID, "this node cannot start native workers (`native` of mr_task_options)");
        node_job *made = node_job_add(core);
        made->host = host->number;
        memcpy(made->name_space, host->name_space, sizeof made->name_space);
        scheduler_program_ended(core->scheduler, made->number); /* native workers are not prestarted */
        core->launcher.ops->program_native(core->launcher.self, made->number);
        host->native = made->number;
    }
    *number = host->native;
    return MR_OK;
}

node_output *node_job_output(node_core *core, uint32_t number) {
    const node_job *job = node_job_of(core, number);
    if (job != NULL && job->host != 0) job = node_job_of(core, job->host);
    return job == NULL ? NULL : job->output;
}

static void forget(node_core *core, node_job *job) {
    scheduler_bar(core->scheduler, job->number, true);
    scheduler_client_gone(core->scheduler, node_client_of(job->number));
    core->launcher.ops->program_end(core->launcher.self, job->number);
    map_remove(&core->programs, job->number);
    free(job);
}

static void doom(node_core *core, node_member *member) {
    if (!MUTATED("no-doom")) {
        member->doomed = true;
        scheduler_client_gone(core->scheduler, member->process);
        scheduler_worker_gone(core->scheduler, member->process);
    }
    core->launcher.ops->kill(core->launcher.self, member->pid);
}

/* Kills all workers of the job, starting ones included, except those of (detached) actors. */
static void end_workers(node_core *core, uint32_t number) {
    map_for_each (slot, &core->by_process) {
        node_member *member = slot.value;
        if (!member->joined || member->role != WIRE_WORKER || member->program != number || member->doomed) continue;
        if (node_actor_in(&core->actors, member->process) == NULL) doom(core, member);
    }
    map_for_each (slot, &core->starting) {
        node_starting *starting = slot.value;
        if (starting->program != number) continue;
        starting->doomed = !MUTATED("no-doom");
        core->launcher.ops->kill(core->launcher.self, starting->pid);
    }
}

void node_job_check(node_core *core, uint32_t number) {
    node_job *job = node_job_of(core, number);
    if (job == NULL || !job->ended || job->actors > 0) return;
    end_workers(core, number);
    forget(core, job);
}

static void shown(void *context, rpc_call_token token) { node_answer(context, token, (span){0}); }

mr_status node_job_join(node_core *core, node_member *member, reader *reader) {
    span name_space = wire_get_name(reader);
    bool wants_output = reader_u8(reader) != 0;
    if (reader->failed) return error_set(MR_CORRUPT, "malformed join request from driver process %d", member->pid);
    node_job *job = core->own_program;
    if (job == NULL || job->driver != 0) {
        job = node_job_add(core);
        mr_status status = core->launcher.ops->program_add(core->launcher.self, job->number, member->pid, reader);
        if (status != MR_OK) {
            forget(core, job);
            return status;
        }
        snprintf(job->name_space, sizeof job->name_space, "#%u", job->number);
    }
    if (name_space.size > 0) {
        memset(job->name_space, 0, sizeof job->name_space);
        memcpy(job->name_space, name_space.data, name_space.size);
    }
    if (wants_output) job->output = node_output_create(core->rpc, member->link, shown, core);
    job->driver = member->process;
    member->program = job->number;
    return MR_OK;
}

void node_job_left(node_core *core, uint32_t number) {
    node_job *job = node_job_of(core, number);
    MR_ASSERT(job != NULL && !job->ended);
    uint32_t native = job->native;
    job->ended = true;
    if (job->output != NULL) node_output_end(job->output);
    job->output = NULL;
    job->actors++; /* keeps the job until the end of this function */
    scheduler_program_ended(core->scheduler, number);
    node_actors_end_program(&core->actors, number);
    node_groups_end_program(core, number);
    end_workers(core, number);
    job->actors--;
    if (job == core->own_program) core->own_program = NULL;
    node_job_check(core, number);
    if (native != 0) node_job_left(core, native);
}

void node_manager_printed(node_core *core, uint32_t number, const node_output_source *source, span line) {
    node_output *output = node_job_output(core, number);
    if (output != NULL) node_output_line(output, clock_now_us(core->env->clock), source, line);
}

mr_status node_drain(node_core *core, node_member *member, rpc_call_token token) {
    core->launcher.ops->drain(core->launcher.self);
    node_job *job = node_job_of(core, member->program);
    if (job == NULL || job->output == NULL || job->driver != member->process)
        return node_answer(core, token, (span){0});
    node_output_drain(job->output, token);
    return MR_OK;
}

/* Handles NODE_OUTPUT_LOST: warns once for each job. */
mr_status node_output_lost(node_core *core, node_member *member, reader *reader, rpc_call_token token) {
    uint32_t error = reader_u32(reader);
    node_job *job = node_job_of(core, member->program);
    if (reader->failed) return error_set(MR_CORRUPT, "malformed report of lost output from process %d", member->pid);
    if (job != NULL && job->host != 0) job = node_job_of(core, job->host);
    if (job != NULL && !job->output_lost) {
        node_facts facts = {.folder = ""};
        char text[512];
        if (core->options.describe != NULL) core->options.describe(core->launcher.self, &facts);
        job->output_lost = true;
        snprintf(
            text, sizeof text,
            "worker process %d cannot write its output to %.256s: %s; tasks go on, and output of this job's workers "
            "is lost until there is room",
            member->pid, facts.folder, strerror((int)error));
        node_warn(core, job->number, text);
    }
    return node_answer(core, token, (span){0});
}
