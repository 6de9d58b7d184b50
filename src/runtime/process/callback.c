/* callback.c — see callback.h, and miniray/runtime.h. */
#include "runtime/process/callback.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/error.h"
#include "runtime/process/context.h"

void callback_post(mr_context *mr, callback *callback) {
    list_push_back(&mr->notices, &callback->place);
    progress_thread_nudge(mr);
}

bool callbacks_deliver(mr_context *mr) {
    bool any = !list_empty(&mr->notices);
    for (list *at; (at = list_pop_front(&mr->notices)) != NULL;) {
        callback *callback = container_of(at, struct callback, place);
        context_unlock(mr);
        callback->tell(callback);
        context_lock(mr);
    }
    return any;
}

/* ---- A ready future. */

typedef struct watch {
    callback callback;
    object_waiter waiter;
    list place; /* in mr->watches while the future is pending */
    mr_context *mr;
    object *object; /* held while the future is pending */
    mr_ref ref;
    mr_ready_fn *fn;
    void *user;
} watch;

static void tell_ready(callback *callback) {
    watch *watch = container_of(callback, struct watch, callback);
    mr_ready_fn *fn = watch->fn;
    void *user = watch->user;
    mr_ref ref = watch->ref;
    free(watch);
    fn(user, ref);
}

static void came(object_waiter *waiter, object *object) {
    watch *watch = container_of(waiter, struct watch, waiter);
    list_remove(&watch->place);
    callback_post(watch->mr, &watch->callback);
    object_drop(&watch->mr->worker.objects, object);
}

void callbacks_end(mr_context *mr) {
    while (!list_empty(&mr->watches)) {
        watch *watch = container_of(mr->watches.next, struct watch, place);
        object_unwait(&watch->waiter);
        came(&watch->waiter, watch->object);
    }
    (void)callbacks_deliver(mr);
}

/* Watches a pending object: the watch (moved) is called when it is ready. */
static void watch_for(mr_context *mr, object *object, watch *watch) {
    *watch = (struct watch){.callback.tell = tell_ready,
                            .waiter.fn = came,
                            .mr = mr,
                            .object = object_hold(object),
                            .ref = object->ref,
                            .fn = watch->fn,
                            .user = watch->user};
    list_push_back(&mr->watches, &watch->place);
    object_wait(&mr->worker.objects, object, &watch->waiter);
    progress_thread_nudge(mr); /* no thread may be driving */
}

mr_status mr_on_ready(mr_context *mr, mr_ref ref, mr_ready_fn *fn, void *user) {
    MR_TRY(context_check(mr, mr));
    if (fn == NULL) return error_set(MR_INVALID, "mr_on_ready: `fn` is NULL");
    watch *watch;
    MR_TRY(alloc_try(sizeof *watch, &watch));
    watch->fn = fn;
    watch->user = user;
    context_lock(mr);
    object *object = object_find(&mr->worker.objects, ref);
    bool pending = object != NULL && object->state == OBJECT_PENDING;
    if (pending) watch_for(mr, object, watch);
    context_unlock(mr);
    if (pending) return MR_OK;
    free(watch);
    if (object == NULL)
        return error_set(MR_NOT_FOUND, "this process does not have object " OBJECT_ID ": it was released",
                         OBJECT_ID_OF(ref));
    fn(user, ref);
    return MR_OK;
}

/* ---- A cancelled body. */

typedef struct cancel_notice {
    callback callback;
    cancel_wish wish;
} cancel_notice;

static void tell_cancelled(callback *callback) {
    cancel_notice *told = container_of(callback, cancel_notice, callback);
    told->wish.fn(told->wish.user, true);
    free(told);
}

cancel_wish callback_spared(mr_call *call) {
    cancel_wish wish = call->on_cancel;
    call->on_cancel = (cancel_wish){0};
    return wish;
}

void callback_cancelled(void *context, mr_call *call) {
    /* the call may have ended when the callback runs */
    cancel_notice *made = XNEW(cancel_notice, .callback.tell = tell_cancelled, .wish = callback_spared(call));
    callback_post(context, &made->callback);
}

mr_status mr_on_cancel(mr_call *call, mr_cancel_fn *fn, void *user) {
    if (fn == NULL) return error_set(MR_INVALID, "mr_on_cancel: `fn` is NULL");
    context_lock(call->mr);
    bool taken = call->asked_cancel;
    if (!taken) {
        call->asked_cancel = true;
        call->on_cancel = (cancel_wish){fn, user};
        if (call->cancelled) callback_cancelled(call->mr, call);
    }
    context_unlock(call->mr);
    if (!taken) return MR_OK;
    return error_set(MR_INVALID, "mr_on_cancel: %s has a callback already; a call takes one", call->name->text);
}
