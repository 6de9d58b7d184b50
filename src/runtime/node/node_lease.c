/* node_lease.c — see node_manager.h. Tested by tests/feeding_test.c. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"
#include "base/log.h"
#include "base/plural.h"
#include "runtime/common/report.h"
#include "runtime/node/node_internal.h"

/* ---- Starts of workers, and their failures.
 *
 * A failed start bars its job from starts for a while, four times as long after each failure in a row: 5 ms, 20 ms, …
 * 5 s. Then one worker is started, and more when it has joined, which ends the row. From the FAILED_STARTS-th failure
 * on, 1.7 s or more after the first, those that wait for a worker learn the cause. Each failure then costs a waiting
 * actor one restart; an actor without a limit of restarts waits on, since what killed the workers (the kernel, for lack
 * of memory) may end. A job of which no worker has ever joined is different: its program cannot start, and the node
 * does not try again. */

enum {
    FAILED_STARTS = 6,
    BACK_OFF_MIN_US = 5 * 1000,
    BACK_OFF_FACTOR = 4,
    BACK_OFF_MAX_US = 5 * 1000 * 1000,
    NO_WORKERS_MAX = 768,
};

static const char *no_workers(const node_job *job, char text[NO_WORKERS_MAX]) {
    int size = snprintf(
        text, NO_WORKERS_MAX,
        "%u workers in a row could not start or ended before they joined (the last one: %s): see `miniray logs` and ",
        job->failed_starts, job->start_failure);
    snprintf(text + size, (size_t)(NO_WORKERS_MAX - size), "%s",
             job->has_started ? "the memory and processes of this machine"
                              : "the code that the program runs before it starts Miniray");
    return text;
}

/* Workers cannot be started, and no worker for tasks is left. */
static bool is_hopeless(const node_core *core, const node_job *job) {
    return job->failed_starts >= FAILED_STARTS && !scheduler_program_runs(core->scheduler, job->number);
}

mr_status node_check_hope(node_core *core, uint32_t number) {
    const node_job *job = node_job_of(core, number);
    if (job == NULL) return error_set(MR_CLOSED, "the driver of job %u has ended", number);
    char why[NO_WORKERS_MAX];
    bool refused = !job->has_started && is_hopeless(core, job);
    return refused ? error_set(MR_WORKER_DIED, "%s", no_workers(job, why)) : MR_OK;
}

static void back_off(node_core *core, node_job *job, int64_t now_us) {
    int64_t delay_us = BACK_OFF_MIN_US;
    for (uint32_t i = 1; i < job->failed_starts && delay_us < BACK_OFF_MAX_US; i++) delay_us *= BACK_OFF_FACTOR;
    if (delay_us > BACK_OFF_MAX_US) delay_us = BACK_OFF_MAX_US;
    bool ends = !job->has_started && job->failed_starts >= FAILED_STARTS;
    job->failed_us = now_us;
    job->retry_us = ends ? CLOCK_NEVER_US : now_us + delay_us;
    core->retry_us = clock_earlier_us(core->retry_us, job->retry_us);
    scheduler_bar(core->scheduler, job->number, true);
}

static void allow_starts(node_core *core, node_job *job) {
    job->retry_us = 0;
    scheduler_bar(core->scheduler, job->number, false);
}

void node_retry_starts(node_core *core, int64_t now_us) {
    if (now_us < core->retry_us) return;
    core->retry_us = CLOCK_NEVER_US;
    map_for_each (slot, &core->programs) {
        node_job *job = slot.value;
        if (job->retry_us > now_us)
            core->retry_us = clock_earlier_us(core->retry_us, job->retry_us);
        else if (job->retry_us != 0)
            allow_starts(core, job);
    }
    node_decide(core);
}

void node_warn(node_core *core, uint32_t number, const char *text) {
    node_output *output = node_job_output(core, number);
    log_warn("%s", text);
    if (core->options.lasting && output != NULL) /* a standalone node's stderr is not the driver's */
        node_output_line(output, clock_now_us(core->env->clock),
                         &(node_output_source){.label = "node", .std_stream = STD_STREAM_ERR},
                         span_of(text, strlen(text)));
}

/* Fails the program's requests; `blocked`: only those of workers and actors that wait themselves. */
static void refuse_leases(node_core *core, uint32_t program, bool blocked, const char *why) {
    map_for_each (slot, &core->by_process) {
        node_member *member = slot.value;
        if (member->program != program) continue;
        if (blocked && !scheduler_see(core->scheduler, member->process).blocked) continue;
        while (!list_empty(&member->lease_waits)) {
            node_lease_wait *wait = container_of(member->lease_waits.next, node_lease_wait, place);
            node_refuse(core, wait->token, MR_WORKER_DIED, why);
            node_lease_cancel(core, wait);
        }
    }
}

/* Those that wait for a worker of the job learn that none can be started: all, if it has no worker for tasks; those of
 * its workers that wait themselves, if all its workers wait for others, since none of them may ever end. May free the
 * job. */
static void report_failures(node_core *core, node_job *job) {
    char why[NO_WORKERS_MAX], text[NO_WORKERS_MAX + 128];
    uint32_t number = job->number, failed_starts = job->failed_starts;
    bool has_started = job->has_started;
    no_workers(job, why);
    if (is_hopeless(core, job))
        refuse_leases(core, number, false, why);
    else if (scheduler_program_blocked(core->scheduler, number))
        refuse_leases(core, number, true, why);
    uint32_t waiting = node_actors_give_up(&core->actors, number, has_started, why);
    if (waiting == 0 || failed_starts > FAILED_STARTS) return;
    snprintf(text, sizeof text, "%s; %u actor%s with restarts left wait%s, and the node tries again every %d s", why,
             waiting, plural(waiting), waiting == 1 ? "s" : "", BACK_OFF_MAX_US / 1000000);
    node_warn(core, number, text);
}

/* A worker counted as starting has failed to start; `doomed`: it was killed with its job. Failures of starts that began
 * before the last failure are part of that one. */
static void start_failed(node_core *core, uint32_t number, int64_t begun_us, bool doomed) {
    node_job *job = node_job_of(core, number);
    scheduler_spawn_failed(core->scheduler, number);
    if (job == NULL || job->retry_us != 0) return;
    if (doomed || begun_us < job->failed_us) {
        allow_starts(core, job); /* it may have been the only one allowed */
        return;
    }
    job->failed_starts++;
    back_off(core, job, clock_now_us(core->env->clock));
    if (job->failed_starts >= FAILED_STARTS) report_failures(core, job);
}

void node_manager_child_ended(node_core *core, int pid, const char *how) {
    node_starting *starting = core->stopped ? NULL : map_remove(&core->starting, (uint64_t)pid);
    if (starting == NULL) return; /* the worker had joined: on_link_closed handles its end */
    node_job *job = node_job_of(core, starting->program);
    if (job != NULL && !starting->doomed) {
        snprintf(job->start_failure, sizeof job->start_failure, "process %d %s", pid, how);
        log_warn("worker process %d ended before it joined: %s", pid, how);
    }
    start_failed(core, starting->program, starting->begun_us, starting->doomed);
    free(starting);
    node_decide(core);
}

static void refuse_start(node_core *core, uint32_t number, const char *why) {
    node_job *job = node_job_of(core, number);
    if (job != NULL && strncmp(job->start_failure, why, sizeof job->start_failure - 1) != 0) {
        log_error("cannot start a worker of job %u: %s", number, why);
        snprintf(job->start_failure, sizeof job->start_failure, "%s", why);
    }
    start_failed(core, number, clock_now_us(core->env->clock), false);
}

void node_manager_start_failed(node_core *core, uint32_t program, const char *why) {
    if (core->stopped) return;
    refuse_start(core, program, why);
    node_decide(core);
}

void node_manager_child_started(node_core *core, uint32_t program, int pid) {
    if (core->stopped) return;
    node_starting *starting =
        XNEW(node_starting, .pid = pid, .program = program, .begun_us = clock_now_us(core->env->clock));
    map_put(&core->starting, (uint64_t)pid, starting);
    if (node_job_of(core, program) == NULL) core->launcher.ops->kill(core->launcher.self, pid);
}

static void spawn(node_core *core, uint32_t program) {
    int pid = 0;
    if (node_job_of(core, program)->failed_starts > 0) scheduler_bar(core->scheduler, program, true); /* one only */
    if (core->launcher.ops->start(core->launcher.self, program, &pid) != MR_OK)
        refuse_start(core, program, mr_last_error());
    else if (pid != 0)
        node_manager_child_started(core, program, pid);
}

mr_status node_worker_join(node_core *core, node_member *member) {
    if (map_get(&core->starting, (uint64_t)member->pid) == NULL && core->launcher.ops->settle != NULL)
        core->launcher.ops->settle(core->launcher.self);
    node_starting *starting = map_remove(&core->starting, (uint64_t)member->pid);
    if (starting == NULL && member->pid == (int)getpid())
        return error_set(
            MR_DENIED,
            "this system reports the node itself (process %d) as the peer of its sockets (SO_PEERCRED), as "
            "gVisor does: workers cannot be told apart; use a container of runc or crun instead",
            member->pid);
    if (starting == NULL) return error_set(MR_DENIED, "process %d is not a worker that this node started", member->pid);
    node_job *job = starting->doomed ? NULL : node_job_of(core, starting->program);
    member->program = starting->program;
    free(starting);
    if (job == NULL) {
        start_failed(core, member->program, 0, true);
        core->launcher.ops->kill(core->launcher.self, member->pid);
        return error_set(MR_CLOSED, "the driver of job %u has ended", member->program);
    }
    scheduler_worker_add(core->scheduler, member->process, member->program);
    job->failed_starts = 0;
    allow_starts(core, job);
    job->has_started = true;
    job->start_failure[0] = '\0';
    return MR_OK;
}

/* ---- Decisions of the scheduler. */

static void grant_lease(node_core *core, const scheduler_decision *decision) {
    node_lease_wait *wait = map_get(&core->lease_waits, decision->ticket);
    MR_ASSERT(wait != NULL);
    node_member *worker = node_member_by_process(core, decision->worker);
    if (!node_gpus_tell(core, worker, decision->lease, wait->token))
        node_lease_answer(core, wait->token, decision->lease, decision->worker);
    if (worker != NULL) {
        worker->retriable = wait->retriable;
        worker->given_us = clock_now_us(core->env->clock);
    }
    if (worker != NULL && worker->gpus.devices != 0) {
        worker->gpu_lease = decision->lease;
        map_put(&core->gpu_leases, decision->lease, worker);
    }
    node_lease_forget(core, wait);
}

static void grant(node_core *core, const scheduler_decision *decision) {
    if (decision->client != node_client_of(decision->program)) {
        grant_lease(core, decision);
        return;
    }
    node_actor *actor = node_actor_ticket(&core->actors, decision->ticket);
    MR_ASSERT(actor != NULL);
    mr_status status = scheduler_keep(core->scheduler, decision->client, decision->lease, &actor->need);
    MR_ASSERT(status == MR_OK);
    node_member *worker = node_member_by_process(core, decision->worker);
    if (worker != NULL) worker->given_us = clock_now_us(core->env->clock);
    node_actor_granted(&core->actors, actor, decision->worker);
}

/* The request's group was removed. Actors of the group have died already (node_actors_evict). */
static void refuse(node_core *core, uint64_t ticket) {
    node_lease_wait *wait = map_get(&core->lease_waits, ticket);
    if (wait == NULL) return;
    node_refuse(core, wait->token, MR_NOT_FOUND, NODE_GROUP_GONE);
    node_lease_forget(core, wait);
}

static void end(node_core *core, const scheduler_decision *decision) {
    node_member *member = node_member_by_process(core, decision->worker);
    if (member != NULL && decision->evicted && member->sentence == NULL) member->sentence = xstrdup(NODE_GROUP_GONE);
    if (member != NULL && member->leaves)
        node_dismiss(core, decision->worker, 0);
    else
        node_end_process(core, decision->worker);
}

typedef struct dismissal { /* WORKER_LEAVE in flight */
    wire_call call;
    node_core *core;
    uint64_t process;
} dismissal;

/* Kills the worker after its answer or the timeout, unless its link has closed. */
static void dismissal_done(wire_call *call, const rpc_call_result *result) {
    const dismissal *dismissal = container_of(call, struct dismissal, call);
    if (result->why == NULL) node_end_process(dismissal->core, dismissal->process);
    wire_call_end(call);
}

void node_dismiss(node_core *core, uint64_t process, int64_t timeout_us) {
    node_member *member = node_member_by_process(core, process);
    if (member == NULL) return;
    dismissal *made =
        XNEW(dismissal, .call = {.done = dismissal_done, .free = wire_call_free}, .core = core, .process = process);
    mr_status status = wire_ask_within(core->rpc, clock_now_us(core->env->clock), timeout_us, member->link,
                                       WORKER_LEAVE, &(wire_message){0}, &made->call);
    if (status == MR_OK) return;
    free(made);
    node_end_process(core, process);
}

void node_carry_out(node_core *core, const scheduler_decision *decision) {
    switch (decision->verb) {
    case SCHEDULER_GRANT: grant(core, decision); break;
    case SCHEDULER_RECLAIM: node_tell(core, decision->client, CLIENT_RECLAIM, decision->lease); break;
    case SCHEDULER_SPAWN: spawn(core, decision->program); break;
    case SCHEDULER_PLACED: node_group_placed(core, decision->ticket); break;
    case SCHEDULER_REFUSE: refuse(core, decision->ticket); break;
    case SCHEDULER_END: end(core, decision); break;
    }
}

/* ---- Requests. */

void node_warn_impossible(node_core *core, uint32_t number, const char *who, const resources *need, const char *advice,
                          const char *more) {
    char wanted[256], total[256], text[1536];
    if (advice == NULL && core->options.lasting)
        advice = "cancel it, or start the node with more (miniray start --num-cpus, --num-gpus, --resources)";
    else if (advice == NULL)
        advice = "cancel it, or pass more to init (num_workers or num_cpus, num_gpus, resources)";
    resources_text(need, wanted, sizeof wanted);
    resources_text(&core->options.total, total, sizeof total);
    snprintf(text, sizeof text, "%s waits for %s, but this machine has %s: %s; %s", who, wanted, total, advice, more);
    node_warn(core, number, text);
}

static void warn_task(node_core *core, const node_member *member, uint64_t serial, span name, const resources *need) {
    char id[REPORT_ID_MAX], who[WIRE_NAME_MAX + 80], more[REPORT_ID_MAX + 40];
    const report_id task = {.letter = 't', .process = REPORT_PROCESS(member->process), .serial = serial};
    report_id_write(&task, id);
    snprintf(who, sizeof who, "task '%.*s' (%s)", (int)name.size, name.size == 0 ? "" : (const char *)name.data, id);
    snprintf(more, sizeof more, "`miniray why %s` shows more", id);
    node_warn_impossible(core, member->program, who, need, NULL, more);
}

mr_status node_lease(node_core *core, node_member *member, reader *reader, rpc_call_token token) {
    resources need;
    MR_TRY(resources_decode(reader, &need));
    bool retriable = reader_u8(reader) != 0;
    uint64_t serial = reader_u64(reader);
    span name = wire_get_name(reader);
    if (reader->failed) return error_set(MR_CORRUPT, "malformed lease request from process %d", member->pid);
    MR_TRY(node_check_hope(core, member->program));
    if (need.group != 0) MR_TRY(scheduler_group_fits(core->scheduler, &need));
    if (scheduler_impossible(core->scheduler, &need)) warn_task(core, member, serial, name, &need);
    node_lease_wait *wait =
        XNEW(node_lease_wait, .ticket = core->next_ticket++, .member = member, .token = token, .retriable = retriable);
    list_push_back(&member->lease_waits, &wait->place);
    map_put(&core->lease_waits, wait->ticket, wait);
    scheduler_request(core->scheduler, member->process, wait->ticket, &need);
    return MR_OK;
}

mr_status node_release(node_core *core, node_member *member, reader *reader, rpc_call_token token) {
    uint64_t id = reader_u64(reader);
    uint8_t after = reader_u8(reader);
    uint64_t process = reader_u64(reader);
    if (reader->failed || after >= WIRE_AFTER_COUNT)
        return error_set(MR_CORRUPT, "malformed release of lease %llu from process %d", (unsigned long long)id,
                         member->pid);
    node_member *leaver = after == WIRE_LEAVES ? node_member_by_process(core, process) : NULL;
    if (leaver != NULL && scheduler_see(core->scheduler, process).client == member->process) leaver->leaves = true;
    MR_TRY(scheduler_release(core->scheduler, member->process, id, after == WIRE_GOES_ON));
    node_member *worker = map_remove(&core->gpu_leases, id);
    if (worker != NULL) {
        worker->gpu_lease = 0;
        node_gpus_give(core, worker);
    }
    return node_answer(core, token, (span){0});
}

void node_lease_forget(node_core *core, node_lease_wait *wait) {
    map_remove(&core->lease_waits, wait->ticket);
    list_remove(&wait->place);
    free(wait);
}

void node_lease_cancel(node_core *core, node_lease_wait *wait) {
    scheduler_cancel(core->scheduler, wait->member->process, wait->ticket);
    node_lease_forget(core, wait);
}
