/* node_program.c — see node_core.h.
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
#include "runtime/node/node_state.h"

node_program *node_program_of(node_core *core, uint32_t number) { return map_get(&core->programs, number); }

node_program *node_program_add(node_core *core) {
    node_program *program = XNEW(node_program, .number = core->next_program++);
    map_put(&core->programs, program->number, program);
    scheduler_client_add(core->scheduler, node_client_of(program->number), program->number);
    return program;
}

mr_status node_program_native(node_core *core, uint32_t *number) {
    node_program *host = node_program_of(core, *number);
    if (host == NULL || host->ended) return error_set(MR_CLOSED, "the driver of job %u has ended", *number);
    if (host->native == 0) {
        if (core->launcher.ops->program_native == NULL)
            return error_set(MR_INVALID, "this node cannot start native workers (`native` of mr_task_options)");
        node_program *made = node_program_add(core);
        made->host = host->number;
        memcpy(made->name_space, host->name_space, sizeof made->name_space);
        scheduler_program_ended(core->scheduler, made->number); /* none are started ahead */
        core->launcher.ops->program_native(core->launcher.self, made->number);
        host->native = made->number;
    }
    *number = host->native;
    return MR_OK;
}

node_output *node_program_output(node_core *core, uint32_t number) {
    const node_program *program = node_program_of(core, number);
    if (program != NULL && program->host != 0) program = node_program_of(core, program->host);
    return program == NULL ? NULL : program->output;
}

static void forget(node_core *core, node_program *program) {
    scheduler_bar(core->scheduler, program->number, true);
    scheduler_client_gone(core->scheduler, node_client_of(program->number));
    core->launcher.ops->program_end(core->launcher.self, program->number);
    map_remove(&core->programs, program->number);
    free(program);
}

static void doom(node_core *core, node_member *member) {
    if (!MUTATED("no-doom")) {
        member->doomed = true;
        scheduler_client_gone(core->scheduler, member->process);
        scheduler_worker_gone(core->scheduler, member->process);
    }
    core->launcher.ops->kill(core->launcher.self, member->pid);
}

/* Ends all its workers but those that are a (detached) actor, and those that are still on their way. */
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

void node_program_check(node_core *core, uint32_t number) {
    node_program *program = node_program_of(core, number);
    if (program == NULL || !program->ended || program->actors > 0) return;
    end_workers(core, number);
    forget(core, program);
}

static void shown(void *context, call_token token) { node_answer(context, token, (span){0}); }

mr_status node_program_join(node_core *core, node_member *member, reader *reader) {
    span name_space = wire_get_name(reader);
    bool wants_output = reader_u8(reader) != 0;
    if (reader->failed) return error_set(MR_CORRUPT, "malformed join request from driver process %d", member->pid);
    node_program *program = core->own_program;
    if (program == NULL || program->driver != 0) {
        program = node_program_add(core);
        mr_status status = core->launcher.ops->program_add(core->launcher.self, program->number, member->pid, reader);
        if (status != MR_OK) {
            forget(core, program);
            return status;
        }
        snprintf(program->name_space, sizeof program->name_space, "#%u", program->number);
    }
    if (name_space.size > 0) {
        memset(program->name_space, 0, sizeof program->name_space);
        memcpy(program->name_space, name_space.data, name_space.size);
    }
    if (wants_output) program->output = node_output_create(core->calls, member->link, shown, core);
    program->driver = member->process;
    member->program = program->number;
    return MR_OK;
}

void node_program_left(node_core *core, uint32_t number) {
    node_program *program = node_program_of(core, number);
    MR_ASSERT(program != NULL && !program->ended);
    uint32_t native = program->native;
    program->ended = true;
    if (program->output != NULL) node_output_end(program->output);
    program->output = NULL;
    program->actors++; /* stays until we are done */
    scheduler_program_ended(core->scheduler, number);
    node_actors_end_program(&core->actors, number);
    node_groups_end_program(core, number);
    end_workers(core, number);
    program->actors--;
    if (program == core->own_program) core->own_program = NULL;
    node_program_check(core, number);
    if (native != 0) node_program_left(core, native);
}

void node_core_printed(node_core *core, uint32_t number, const node_output_source *source, span line) {
    node_output *output = node_program_output(core, number);
    if (output == NULL) return;
    node_output_line(output, clock_now_us(core->env->clock), source, line);
}

mr_status node_drain(node_core *core, node_member *member, call_token token) {
    core->launcher.ops->drain(core->launcher.self);
    node_program *program = node_program_of(core, member->program);
    if (program == NULL || program->output == NULL || program->driver != member->process)
        node_answer(core, token, (span){0});
    else
        node_output_drain(program->output, token);
    return MR_OK;
}
