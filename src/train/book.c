/* book.c — see book.h. */
#include "train/book.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "runtime/context.h"
#include "runtime/guest.h"

typedef struct entry { /* of one server */
    list place;
    mr_actor server;
    object *sync;  /* held; NULL: none, or it was raised */
    object *cause; /* held: what was owed when it began, NULL: nothing */
} entry;

typedef struct book {
    guest guest;
    list entries;
} book;

static const char kind; /* its address is the book's */

static void let_go(mr_context *mr, object **held) {
    if (*held != NULL) object_drop(&mr->client.objects, *held);
    *held = NULL;
}

static void book_close(mr_context *mr, guest *guest) {
    book *book = container_of(guest, struct book, guest);
    for (list *at; (at = list_pop_front(&book->entries)) != NULL;) {
        entry *entry = container_of(at, struct entry, place);
        let_go(mr, &entry->sync);
        let_go(mr, &entry->cause);
        free(entry);
    }
    free(book);
}

static book *book_of(mr_context *mr) {
    guest *found = guest_find(mr, &kind);
    if (found != NULL) return container_of(found, book, guest);
    book *made = xcalloc(1, sizeof *made);
    made->guest = (guest){.kind = &kind, .close = book_close};
    list_init(&made->entries);
    guest_invite(mr, &made->guest);
    return made;
}

static entry *entry_of(book *book, mr_actor server) {
    list_for_each (at, &book->entries) {
        entry *entry = container_of(at, struct entry, place);
        if (entry->server.word[0] == server.word[0] && entry->server.word[1] == server.word[1]) return entry;
    }
    entry *made = xcalloc(1, sizeof *made);
    made->server = server;
    list_init(&made->place);
    list_push_back(&book->entries, &made->place);
    return made;
}

static bool is_owed(const entry *entry) {
    const object *sync = entry->sync;
    if (sync == NULL || (sync->names | sync->inside) != 0) return false;
    if (sync->state == OBJECT_PENDING) return true;
    bool follows = entry->cause != NULL && entry->cause->state == OBJECT_FAILED;
    return sync->state == OBJECT_FAILED && sync->printed && !follows;
}

bool book_owes(mr_context *mr, mr_actor server, mr_ref *out) {
    context_lock(mr);
    entry *entry = entry_of(book_of(mr), server);
    bool owed = is_owed(entry);
    if (owed) {
        object_name(entry->sync);
        *out = entry->sync->ref;
        let_go(mr, &entry->sync);
        let_go(mr, &entry->cause);
    }
    context_unlock(mr);
    return owed;
}

void book_enter(mr_context *mr, mr_actor server, mr_ref sync, const mr_ref *owed) {
    context_lock(mr);
    entry *entry = entry_of(book_of(mr), server);
    let_go(mr, &entry->sync);
    let_go(mr, &entry->cause);
    object *made = object_find(&mr->client.objects, sync);
    object *cause = owed == NULL ? NULL : object_find(&mr->client.objects, *owed);
    if (made != NULL) entry->sync = object_hold(made);
    if (cause != NULL) entry->cause = object_hold(cause);
    context_unlock(mr);
}

void book_hush(mr_context *mr, const mr_ref *refs, size_t count) {
    context_lock(mr);
    for (size_t i = 0; i < count; i++) {
        object *object = object_find(&mr->client.objects, refs[i]);
        if (object != NULL) object->seen = true;
    }
    context_unlock(mr);
}
