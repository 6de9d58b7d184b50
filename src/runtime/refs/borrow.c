/* borrow.c — see borrow.h. */
#include "runtime/refs/borrow.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/assert.h"

void borrow_init(borrow *borrow, const borrow_ops *ops, void *host) {
    *borrow = (struct borrow){.ops = ops, .host = host, .batch = BORROW_BATCH};
}

/* ---- Messages to owners. */

static list *messages_to(borrow *borrow, uint64_t process) {
    list *messages = map_get(&borrow->owners, process);
    if (messages == NULL) {
        messages = xmalloc(sizeof *messages);
        list_init(messages);
        map_put(&borrow->owners, process, messages);
    }
    return messages;
}

static void say(borrow *borrow, uint64_t process, borrow_verb verb, uint64_t serial, borrow_gate *gate) {
    list *messages = messages_to(borrow, process);
    borrow_message *last = list_empty(messages) ? NULL : container_of(messages->prev, borrow_message, place);
    if (last == NULL || last->sent || last->verb != verb || last->gate != gate || last->count >= borrow->batch) {
        last = XNEW(borrow_message, .owner = process, .verb = verb, .gate = gate);
        list_push_back(messages, &last->place);
        if (gate != NULL) gate->left++;
    }
    last->serials[last->count++] = serial;
}

/* Ends a message. Its gate may open: the message is freed before the gate's callback runs. */
static void message_end(borrow_message *message) {
    borrow_gate *gate = message->gate;
    list_remove(&message->place);
    free(message);
    if (gate == NULL) return;
    MR_ASSERT(gate->left > 0);
    if (--gate->left == 0) gate->open(gate);
}

static bool feed(borrow *borrow, const list *messages) {
    list_for_each (at, messages) {
        borrow_message *message = container_of(at, borrow_message, place);
        if (message->sent) continue;
        if (borrow->ops->send(borrow->host, message) != MR_OK) return false; /* or borrow_owner_gone follows */
        message->sent = true;
    }
    return true;
}

bool borrow_feed(borrow *borrow) {
    bool all = true;
    map_for_each (slot, &borrow->owners) all &= feed(borrow, slot.value);
    return all;
}

void borrow_answered(borrow *borrow, borrow_message *message) {
    for (uint32_t i = 0; message->verb == BORROW && i < message->count; i++) {
        borrowed_ref *ref = borrow->ops->find(borrow->host, message->owner, message->serials[i]);
        if (ref != NULL && ref->state == BORROWED_REF_ASKED) ref->state = BORROWED_REF_HELD;
    }
    message_end(message);
}

void borrow_owner_gone(borrow *borrow, uint64_t process) {
    list *messages = map_remove(&borrow->owners, process); /* a gate's callback may send to the same process again */
    if (messages == NULL) return;
    while (!list_empty(messages)) message_end(container_of(messages->next, borrow_message, place));
    free(messages);
}

/* ---- Borrowed references. */

void borrow_keep(borrow *borrow, borrowed_ref *ref, borrow_gate *gate) {
    if (ref->state == BORROWED_REF_HELD || ref->state == BORROWED_REF_LOST) return;
    ref->state = BORROWED_REF_ASKED; /* also if ASKED already: this gate needs its own answer */
    say(borrow, ref->owner, BORROW, ref->serial, gate);
}

bool borrow_through(borrow *borrow, borrow_gate *gate) {
    if (gate->left == 0) return true;
    (void)borrow_feed(borrow);
    return false;
}

void borrow_let_go(borrow *borrow, borrowed_ref *ref) {
    if (ref->state == BORROWED_REF_ASKED || ref->state == BORROWED_REF_HELD)
        say(borrow, ref->owner, RETURN, ref->serial, NULL);
}

/* ---- Borrowers. */

void borrow_lend(borrow *borrow, uint64_t link, const uint64_t *serials, uint32_t count) {
    map *lent = map_get(&borrow->borrowers, link);
    if (lent == NULL) {
        lent = XNEW(map, 0);
        map_put(&borrow->borrowers, link, lent);
    }
    for (uint32_t i = 0; i < count; i++) {
        if (map_get(lent, serials[i]) != NULL) continue;
        void *object = borrow->ops->hold(borrow->host, serials[i]);
        if (object == NULL) continue;
        map_put(lent, serials[i], object);
        borrow->borrowed++;
    }
}

void borrow_take_back(borrow *borrow, uint64_t link, const uint64_t *serials, uint32_t count) {
    map *lent = map_get(&borrow->borrowers, link);
    for (uint32_t i = 0; lent != NULL && i < count; i++) {
        void *object = map_remove(lent, serials[i]);
        if (object == NULL) continue;
        borrow->borrowed--;
        borrow->ops->drop(borrow->host, object);
    }
}

void borrow_borrower_gone(borrow *borrow, uint64_t link) {
    map *lent = map_remove(&borrow->borrowers, link);
    if (lent == NULL) return;
    map_for_each (slot, lent) {
        borrow->borrowed--;
        borrow->ops->drop(borrow->host, slot.value);
    }
    map_fini(lent);
    free(lent);
}

void borrow_fini(borrow *borrow) {
    map_entry entry;
    while (map_next(&borrow->borrowers, 0, &entry) != 0) borrow_borrower_gone(borrow, entry.key);
    while (map_next(&borrow->owners, 0, &entry) != 0) {
        list *messages = map_remove(&borrow->owners, entry.key);
        for (list *at; (at = list_pop_front(messages)) != NULL;) free(container_of(at, borrow_message, place));
        free(messages);
    }
    map_fini(&borrow->borrowers);
    map_fini(&borrow->owners);
}
