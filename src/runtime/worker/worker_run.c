/* worker_run.c — see worker.h: execution of calls, and their answers. Tested by tests/runtime_task_test.c. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/nearest_name.h"
#include "runtime/common/task_registry.h"
#include "runtime/worker/worker_internal.h"

/* ---- Running. */

static mr_status no_such(const char *what, const mr_call *call, void (*list_known)(char *out, size_t size)) {
    char known[512], hint[NEAREST_NAME_HINT_MAX];
    list_known(known, sizeof known);
    return error_set(MR_NOT_FOUND, "unknown %s '%s'; registered in this worker: %s%s", what, call->name->text,
                     known[0] != '\0' ? known : "none", nearest_name_among(call->name->text, known, hint));
}

static mr_status find_task(worker *worker, mr_call *call) {
    interned_name *name = call->name;
    if (worker->is_actor)
        return error_set(MR_INVALID, "task %s was sent to a worker that is an actor of class %s", name->text,
                         worker->class_name);
    if (!name->task_known) name->task = task_registry_task(name->text, name->size);
    name->task_known = true;
    call->body = name->task;
    return call->body != NULL ? MR_OK : no_such("task", call, task_registry_tasks_text);
}

static __attribute__((noinline)) mr_status find_class(worker *worker, mr_call *call) {
    const interned_name *name = call->name;
    if (worker->is_actor)
        return error_set(MR_INVALID, "actor of class %s was sent to a worker that is an actor of class %s", name->text,
                         worker->class_name);
    worker->is_actor = true;
    worker->actor = call->actor;
    worker->threads = call->threads;
    strcpy(worker->class_name, name->text);
    call->self = &worker->self;
    call->body = task_registry_method(name->text, name->size, NULL, 0); /* NULL: the class may have no MR_CREATE */
    return call->body != NULL || task_registry_class(name->text, name->size)
               ? MR_OK
               : no_such("class", call, task_registry_classes_text);
}

static __attribute__((noinline)) mr_status look_up_method(worker *worker, mr_call *call) {
    interned_name *name = call->name;
    if (!worker->is_actor || !wire_same_actor(worker->actor, call->actor))
        return error_set(MR_ACTOR_DIED, "actor a%u:%llu is not in process %d", (unsigned)call->actor.word[0],
                         (unsigned long long)call->actor.word[1], (int)getpid());
    if (!name->method_known)
        name->method = task_registry_method(worker->class_name, strlen(worker->class_name), name->text, name->size);
    name->method_known = true;
    call->body = name->method;
    if (call->body != NULL) return MR_OK;
    char known[512], hint[NEAREST_NAME_HINT_MAX];
    task_registry_methods_text(worker->class_name, strlen(worker->class_name), known, sizeof known);
    return error_set(MR_NOT_FOUND, "unknown method '%s' of class %s; registered: %s%s", name->text, worker->class_name,
                     known[0] != '\0' ? known : "none", nearest_name_among(name->text, known, hint));
}

static inline mr_status find_method(worker *worker, mr_call *call) {
    call->self = &worker->self;
    call->body = call->name->method; /* found before, for this actor's class; or NULL */
    bool known = call->body != NULL && worker->is_actor && wire_same_actor(worker->actor, call->actor);
    return __builtin_expect(known, 1) ? MR_OK : look_up_method(worker, call);
}

static uint64_t note_begin(worker *worker, const mr_call *call) {
    event_kind kind = call->method == WORKER_TASK         ? EVENT_TASK
                      : call->method == WORKER_ACTOR_INIT ? EVENT_CREATE
                                                          : EVENT_METHOD;
    return event_writer_begin(&worker->worker->writer, kind, call->token, call->name->text, call->name->size,
                              call->name->number);
}

/* A task of another name than the last one begins: marks the output since the last mark as that of the last task. */
static __attribute__((noinline)) void change_speaker(worker *worker, interned_name *name) {
    const core_worker_host *host = worker->worker->host;
    const struct interned_name *before = worker->speaker;
    for (std_stream i = 0; i < STD_STREAMS; i++) {
        uint64_t printed = host->printed == NULL ? 0 : host->printed(host->context, i);
        if (before != NULL && printed != worker->printed[i])
            event_ring_mark(&worker->worker->writer.ring, before->text, before->size, i, printed);
        worker->printed[i] = printed;
    }
    interned_name_unref(worker->speaker);
    worker->speaker = interned_name_ref(name);
}

static bool is_held_back(const worker *worker, const mr_call *call) {
    list_for_each (at, &worker->running)
        if (worker_call_at(at)->holds && worker_call_at(at)->token.link.v == call->token.link.v) return true;
    return false;
}

/* Removes the first call that no running call of its caller holds back. NULL: none. */
static list *take_queued(worker *worker) {
    if (__builtin_expect(worker->holding == 0, 1)) return list_pop_front(&worker->queue);
    list_for_each (at, &worker->queue) {
        if (is_held_back(worker, worker_call_at(at))) continue;
        list_remove(at);
        return at;
    }
    return NULL;
}

mr_call *worker_next(worker *worker) {
    list *at = take_queued(worker);
    if (at == NULL) return NULL;
    list_push_back(&worker->running, at);
    worker->running_count++;
    mr_call *call = worker_call_at(at);
    worker->holding += call->holds;
    call->run = worker->threads == 1 ? ++worker->runs : 0;
    worker->worker->run = call->run;
    call->refused = call->method == WORKER_ACTOR_CALL ? find_method(worker, call)
                    : call->method == WORKER_TASK     ? find_task(worker, call)
                                                      : find_class(worker, call);
    if (call->refused != MR_OK) call->message = xstrdup(mr_last_error());
    if (call->method == WORKER_TASK && call->name != worker->speaker) change_speaker(worker, call->name);
    call->event = note_begin(worker, call);
    return call;
}

static __attribute__((noinline, cold)) failure *failure_of(const worker *worker, const mr_call *call,
                                                           mr_status status) {
    char origin[420];
    const char *kind = call->method == WORKER_TASK ? "task" : call->method == WORKER_ACTOR_INIT ? "class" : "method";
    snprintf(origin, sizeof origin, "%s '%s' in %s", kind, call->name->text, worker->worker->origin);
    const char *text = call->message != NULL ? call->message : mr_last_error();
    failure *made = failure_create(status, text[0] != '\0' ? text : mr_status_text(status), origin, NULL);
    failure_attach(made, span_of(call->detail, call->detail_size));
    return made;
}

void worker_show(worker *worker, mr_call *call) {
    if (call->args_owner == NULL) return; /* few and small arguments, without store objects */
    mr_status status = call->refused != MR_OK ? MR_OK : call_show_args(call, &worker->worker->objects);
    if (status != MR_OK) call->failed = failure_of(worker, call, status);
}

mr_status worker_run(mr_call *call) {
    if (call->failed != NULL || call->refused != MR_OK || call->body == NULL) return call->refused;
    error_clear();
    return call->body(call);
}

void worker_conclude(worker *worker, mr_call *call, mr_status status) {
    if (call->failed != NULL) return; /* its arguments could not be shown: the body did not run */
    if (status == MR_OK) status = call_gather(call);
    if (status != MR_OK) call->failed = failure_of(worker, call, status);
}

/* ---- Finishing. */

static void answer_or_keep(worker *worker, mr_call *call) {
    if (!worker_answer(worker, call)) list_push_back(&worker->answers, &call->place);
}

static void parted(borrow_gate *gate) {
    mr_call *call = container_of(gate, mr_call, gate);
    list_remove(&call->place);
    answer_or_keep(call->worker, call);
}

/* Borrows, before the answer, the references of the arguments that this process still has (retained, used by a started
 * task, or in the result): until then the caller keeps them. True: the answer waits for that. */
static bool is_kept(worker *worker, mr_call *call, value_pack *args) {
    call->gate = (borrow_gate){.open = parted};
    list_push_back(&worker->parting, &call->place);
    borrow_rpc_keep_rest(&worker->worker->borrow_rpc, args, &call->gate);
    if (!borrow_rpc_through(&worker->worker->borrow_rpc, &call->gate)) return true;
    list_remove(&call->place);
    return false;
}

void worker_left(worker *worker, const mr_call *call) {
    if (worker->worker->run == call->run) worker->worker->run = 0;
}

/* Sends the usual answer: one small value, and nothing is kept of the arguments. False: another case, or no room. */
static inline bool answer_first(worker *worker, const mr_call *call) {
    if (call->result_size == 0 || call->failed != NULL || call->result != NULL || call->args_owner != NULL ||
        call->yield != NULL || call->token.link.v == 0)
        return false;
    span values = span_of(call->result_small, call->result_size);
    return wire_answer_bytes(worker->worker->rpc, call->token, values, !list_empty(&worker->queue)) == MR_OK;
}

static __attribute__((noinline)) void answer_last(worker *worker, mr_call *call) {
    value_pack *args = call_give_up_args(call);
    if (args == NULL || !is_kept(worker, call, args)) answer_or_keep(worker, call);
}

static __attribute__((noinline)) void end_hold(worker *worker) {
    const core_worker_host *host = worker->worker->host;
    worker->holding--;
    list_for_each (at, &worker->queue) host->called(host->context); /* threads that found only calls held back */
}

/* Work that need not precede the answer is done after sending it. */
void worker_finish(worker *worker, mr_call *call) {
    bool answered = answer_first(worker, call);
    worker->running_count--;
    if (call->holds) end_hold(worker);
    uint64_t event = call->event;
    mr_status outcome = call->failed == NULL ? MR_OK : call->failed->code;
    list_remove(&call->place);
    worker_left(worker, call);
    if (answered)
        worker_call_free(worker, call);
    else
        answer_last(worker, call);
    event_ring_leave(&worker->worker->writer.ring, event, outcome);
}
