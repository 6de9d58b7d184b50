/* describe.c — see describe.h. */
#include "runtime/process/describe.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "runtime/client/inspect_query.h"
#include "runtime/common/task_registry.h"
#include "runtime/process/context.h"

enum { TEXT_MAX = 16 * 1024 };

#define BUSY    "no description: the process still answers an earlier query"
#define NOTHING "no description: the process has no thread or no memory for the answer"

struct description {
    task_registry_hook hook;
    _Atomic int users; /* 2: the context and the thread; 1: one of them */
    _Atomic bool done;
    rpc_call_token token;
    size_t size;
    char text[TEXT_MAX];
};

static void leave(description *description) {
    if (atomic_fetch_sub(&description->users, 1) == 1) free(description);
}

static void *run(void *argument) {
    description *description = argument;
    size_t size = description->hook.fn(description->hook.user, description->text, TEXT_MAX);
    description->size = size < TEXT_MAX ? size : TEXT_MAX;
    atomic_store(&description->done, true);
    leave(description);
    return NULL;
}

static bool start(mr_context *mr, task_registry_hook hook, rpc_call_token token) {
    description *made;
    pthread_t thread;
    if (alloc_try(sizeof *made, &made) != MR_OK) {
        error_clear();
        return false;
    }
    made->hook = hook;
    made->token = token;
    atomic_init(&made->users, 2);
    if (pthread_create(&thread, NULL, run, made) != 0) {
        free(made);
        return false;
    }
    pthread_detach(thread);
    mr->description = made;
    core_worker_stir(&mr->worker); /* the progress thread checks when it is done */
    return true;
}

bool describe_begin(void *context, rpc_call_token token) {
    mr_context *mr = context;
    task_registry_hook hook = task_registry_describe();
    if (hook.fn == NULL) return false;
    if (mr->description != NULL)
        inspect_query_tell(&mr->worker, token, span_of(BUSY, sizeof BUSY - 1));
    else if (!start(mr, hook, token))
        inspect_query_tell(&mr->worker, token, span_of(NOTHING, sizeof NOTHING - 1));
    return true;
}

void describe_look(mr_context *mr) {
    description *description = mr->description;
    if (description == NULL || !atomic_load(&description->done)) return;
    mr->description = NULL;
    inspect_query_tell(&mr->worker, description->token, span_of(description->text, description->size));
    leave(description);
}

void describe_fini(mr_context *mr) {
    if (mr->description != NULL) leave(mr->description);
    mr->description = NULL;
}
