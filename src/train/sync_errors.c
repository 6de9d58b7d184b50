/* sync_errors.c — see sync_errors.h. */
#include "train/sync_errors.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "runtime/process/context.h"
#include "runtime/process/context_extension.h"

typedef struct entry { /* last sync with one server */
    list place;
    mr_actor server;
    object *sync;  /* future of the sync, held; NULL: none, or its failure was raised */
    object *cause; /* the owed future that was an argument of the sync, held; NULL: none */
} entry;

typedef struct sync_errors {
    context_extension extension;
    list entries;
} sync_errors;

static const char kind; /* the address of `kind` identifies the extension */

static void let_go(mr_context *mr, entry *entry) {
    if (entry->sync != NULL) object_drop(&mr->worker.objects, entry->sync);
    if (entry->cause != NULL) object_drop(&mr->worker.objects, entry->cause);
    entry->sync = entry->cause = NULL;
}

static void sync_errors_close(mr_context *mr, context_extension *extension) {
    sync_errors *errors = container_of(extension, struct sync_errors, extension);
    for (list *at; (at = list_pop_front(&errors->entries)) != NULL;) {
        entry *entry = container_of(at, struct entry, place);
        let_go(mr, entry);
        free(entry);
    }
    free(errors);
}

static sync_errors *sync_errors_of(mr_context *mr) {
    context_extension *found = context_extension_find(mr, &kind);
    if (found != NULL) return container_of(found, sync_errors, extension);
    sync_errors *made = XNEW(sync_errors, .extension = {.kind = &kind, .close = sync_errors_close});
    list_init(&made->entries);
    context_extension_invite(mr, &made->extension);
    return made;
}

static entry *entry_of(sync_errors *errors, mr_actor server) {
    list_for_each (at, &errors->entries) {
        entry *entry = container_of(at, struct entry, place);
        if (entry->server.word[0] == server.word[0] && entry->server.word[1] == server.word[1]) return entry;
    }
    entry *made = XNEW(entry, .server = server);
    list_push_back(&errors->entries, &made->place);
    return made;
}

static bool is_owed(const entry *entry) {
    const object *sync = entry->sync;
    if (sync == NULL || (sync->names | sync->inside) != 0) return false;
    if (sync->state == OBJECT_PENDING) return true;
    bool follows = entry->cause != NULL && entry->cause->state == OBJECT_FAILED;
    return sync->state == OBJECT_FAILED && sync->printed && !follows;
}

bool sync_errors_owes(mr_context *mr, mr_actor server, mr_ref *out) {
    context_lock(mr);
    entry *entry = entry_of(sync_errors_of(mr), server);
    bool owed = is_owed(entry);
    if (owed) {
        object_name(entry->sync);
        *out = entry->sync->ref;
        let_go(mr, entry);
    }
    context_unlock(mr);
    return owed;
}

void sync_errors_enter(mr_context *mr, mr_actor server, mr_ref sync, const mr_ref *owed) {
    context_lock(mr);
    entry *entry = entry_of(sync_errors_of(mr), server);
    let_go(mr, entry);
    object *made = object_find(&mr->worker.objects, sync);
    object *cause = owed == NULL ? NULL : object_find(&mr->worker.objects, *owed);
    if (made != NULL) entry->sync = object_hold(made);
    if (cause != NULL) entry->cause = object_hold(cause);
    context_unlock(mr);
}

void sync_errors_hush(mr_context *mr, const mr_ref *refs, size_t count) {
    context_lock(mr);
    for (size_t i = 0; i < count; i++) {
        object *object = object_find(&mr->worker.objects, refs[i]);
        if (object != NULL) object->seen = true;
    }
    context_unlock(mr);
}
