/* hold_process.c — see hold_process.h. */
#include "sim/runtime/hold_process.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/mutation.h"

enum { WAY_US = 60, DEATH_SEEN_US = 200, JOIN_US = 100 };

typedef enum note_kind { NOTE_REF, NOTE_TOOK, NOTE_ANSWER, NOTE_JOIN, NOTE_BURIAL } note_kind;

typedef struct note { /* a message in flight */
    list place;
    hold_processes *all;
    note_kind kind;
    size_t to;
    uint64_t to_process;
    size_t from; /* NOTE_REF: process that keeps a hold for it; from_process 0: none */
    uint64_t from_process;
    hold_object *object;
    store_client_request request; /* NOTE_ANSWER */
    mr_status status;
    extent extent;
    int64_t retry_us;
} note;

static rng *rng_of(hold_processes *all) { return sim_rng(all->sim); }

static void arrive(void *context, uint64_t unused);

static void send_after(hold_processes *all, int64_t delay_us, note what) {
    note *sent = xmalloc(sizeof *sent);
    *sent = what;
    sent->all = all;
    list_push_back(&all->notes, &sent->place);
    sim_after(all->sim, rng_between(rng_of(all), 1, delay_us), arrive, sent, 0);
}

static bool is_alive(const hold_processes *all, size_t place, uint64_t process) {
    return all->places[place].state == PLACE_ALIVE && all->places[place].process == process;
}

/* ---- Hands: the holds and views that a process has of an object. */

static hand *find_hand(hold_place *place, const hold_object *object) {
    for (size_t i = 0; i < HOLD_HANDS_MAX; i++)
        if (place->hands[i].state != HAND_NONE && place->hands[i].object == object) return &place->hands[i];
    return NULL;
}

static hand *free_hand(hold_place *place) {
    for (size_t i = 0; i < HOLD_HANDS_MAX; i++)
        if (place->hands[i].state == HAND_NONE) return &place->hands[i];
    return NULL;
}

static void count_holds(hold_place *place, hand *hand, int by) {
    hand->holds = (uint32_t)((int)hand->holds + by);
    hand->object->at[place->index].holds = hand->holds;
}

/* Drops one hold; the hand ends with the last. */
static void let_go(hold_place *place, hand *hand) {
    count_holds(place, hand, -1);
    if (!place->bare)
        store_client_drop(place->store, hand->stored);
    else if (hand->holds == 0)
        hold_table_remove(&place->holds, hand->entry);
    if (hand->holds == 0) *hand = (struct hand){0};
}

/* ---- Creating. */

static uint64_t draw_size(hold_processes *all) {
    rng *rng = rng_of(all);
    if (rng_below(rng, 10) < all->small) return rng_below(rng, 3000);
    return rng_chance(rng, 0.3) ? (uint64_t)rng_between(rng, STORE_CLIENT_SMALL + 1, 60000)
                                : (uint64_t)rng_between(rng, 65536, 150000); /* large enough to be spilled */
}

static void create(hold_place *place) {
    hold_processes *all = place->all;
    hand *hand = free_hand(place);
    if (place->bare || hand == NULL || all->checker->count == HOLD_OBJECTS_MAX) return;
    uint64_t size = place->wants = place->wants != 0 ? place->wants : draw_size(all);
    store_client_object *made;
    void *data;
    mr_status status = store_client_create(place->store, size, &made, &data);
    sim_count(all->sim, status == MR_OK ? "made" : status == MR_BUSY ? "busy" : "refused", 1);
    if (status != MR_BUSY) place->wants = 0;
    if (status == MR_OK)
        *hand = (struct hand){HAND_CREATING, hold_checker_add(all->checker, size), made, .data = data};
    else if (status != MR_BUSY && status != MR_NOMEM)
        sim_violation(all->sim, "an object of %" PRIu64 " bytes cannot be made: %s", size, mr_status_name(status));
}

static void finish(hold_place *place, hand *hand) {
    hold_processes *all = place->all;
    if (rng_chance(rng_of(all), 0.15)) {
        store_client_abort(place->store, hand->stored);
        *hand = (struct hand){0};
        return;
    }
    hold_checker_write(all->checker, hand->object, hand->data);
    store_client_seal(place->store, hand->stored);
    hand->state = HAND_HELD;
    hand->object->ref.id = store_client_peek(hand->stored).id;
    count_holds(place, hand, 1);
}

/* ---- Passing references on. */

static void remember(hold_place *place, hold_object *object) {
    place->known[rng_below(rng_of(place->all), HOLD_KNOWN_MAX)] = object;
}

/* Takes one more hold of an object that this process holds. */
static void take_again(hold_place *place, hand *hand) {
    store_client_object *same;
    mr_status status = store_client_take(place->store, &hand->object->ref, &same);
    MR_ASSERT(status == MR_OK && same == hand->stored);
}

static void send_ref(hold_place *place, hand *hand) {
    hold_processes *all = place->all;
    size_t to = rng_below(rng_of(all), all->place_count);
    if (to == place->index || all->places[to].state != PLACE_ALIVE) return;
    if (!place->bare) store_client_ref(place->store, hand->stored, &hand->object->ref);
    hand->object->shown = true;
    remember(place, hand->object);
    sim_count(all->sim, "sent", 1);
    if (!MUTATED("drop-at-send")) {
        if (!place->bare) take_again(place, hand);
        count_holds(place, hand, 1);
        hand->in_messages++;
    }
    send_after(all, WAY_US,
               (note){.kind = NOTE_REF,
                      .to = to,
                      .to_process = all->places[to].process,
                      .from = place->index,
                      .from_process = place->process,
                      .object = hand->object});
}

static void tell_sender(hold_processes *all, size_t from, uint64_t from_process, hold_object *object) {
    if (from_process != 0)
        send_after(all, WAY_US, (note){.kind = NOTE_TOOK, .to = from, .to_process = from_process, .object = object});
}

/* Called when the object does not exist, which is correct only if the sender of the reference is dead, and its hold
 * with it. */
static void missed(hold_processes *all, size_t from, uint64_t from_process) {
    sim_count(all->sim, "missed", 1);
    if (from_process != 0 && is_alive(all, from, from_process))
        sim_violation(all->sim, "process %" PRIu64 " gave a reference to an object that is gone", from_process);
}

/* The receiver has its own hold, or is dead. */
static void took(hold_processes *all, const note *note) {
    hold_place *place = &all->places[note->to];
    hand *hand = find_hand(place, note->object);
    if (hand == NULL || hand->in_messages == 0) return;
    hand->in_messages--;
    let_go(place, hand);
}

/* A store process takes the hold at once. False: no room for the entry; the caller tries again. */
static bool take(hold_place *place, const note *note) {
    hold_processes *all = place->all;
    hand *hand = find_hand(place, note->object);
    if (hand == NULL) hand = free_hand(place);
    if (hand == NULL) { /* the reference is dropped: the message is answered in any case */
        tell_sender(all, note->from, note->from_process, note->object);
        return true;
    }
    store_client_object *object;
    mr_status status = store_client_take(place->store, &note->object->ref, &object);
    if (status == MR_BUSY) return false;
    if (status != MR_OK) {
        missed(all, note->from, note->from_process);
        return true;
    }
    if (hand->state == HAND_NONE) *hand = (struct hand){HAND_HELD, note->object, object};
    count_holds(place, hand, 1);
    remember(place, note->object);
    tell_sender(all, note->from, note->from_process, note->object);
    return true;
}

/* A bare process writes its entry, and confirms it later. */
static void add(hold_place *place, const note *note) {
    hand *hand = free_hand(place);
    if (hand == NULL || find_hand(place, note->object) != NULL) {
        tell_sender(place->all, note->from, note->from_process, note->object);
        return;
    }
    *hand = (struct hand){.state = HAND_ADDED,
                          .object = note->object,
                          .entry = hold_table_add(&place->holds, note->object->ref.slot),
                          .from = note->from,
                          .from_process = note->from_process};
}

static object_header *slot_of(const hold_place *place, const hold_object *object) {
    return arena_at(&place->all->server->arena, object->ref.slot);
}

static bool is_named(const object_header *header, const object_ref *ref) {
    return atomic_load(&header->owner) == ref->id.owner && atomic_load(&header->number) == ref->id.number;
}

/* Does the part of store_client_take after the entry is written. */
static void confirm_hold(hold_place *place, hand *hand) {
    hold_processes *all = place->all;
    const object_ref *ref = &hand->object->ref;
    object_header *header = slot_of(place, hand->object);
    uint64_t word = object_header_read(header);
    bool valid = is_named(header, ref);
    if (valid && MUTATED("no-objection"))
        valid = object_word_sequence(word) == ref->sequence && object_word_holdable(word);
    else if (valid)
        valid = object_header_confirm_hold(header, ref->sequence);
    if (valid && object_word_condemned(word)) sim_count(all->sim, "objections", 1);
    if (!valid) {
        hold_table_remove(&place->holds, hand->entry);
        missed(all, hand->from, hand->from_process);
        *hand = (struct hand){0};
        return;
    }
    hand->state = HAND_HELD;
    count_holds(place, hand, 1);
    remember(place, hand->object);
    tell_sender(all, hand->from, hand->from_process, hand->object);
}

/* ---- Viewing. */

static void ask_restore(hold_place *place, hand *hand) {
    store_client_request request = {.ask = STORE_CLIENT_RESTORE, .ref = hand->object->ref};
    hand->state = HAND_RESTORING;
    hold_server_ask(place->all->server, place->process, &request);
}

/* Does the part of store_client_view after the entry is pinned. */
static void confirm_pin(hold_place *place, hand *hand) {
    hold_processes *all = place->all;
    object_header *header = slot_of(place, hand->object);
    bool leaves = object_word_state(object_header_read(header)) == OBJECT_HEADER_SPILLING;
    if (leaves) sim_count(all->sim, "spills stopped", 1);
    object_header_state state =
        leaves && MUTATED("no-put-back") ? OBJECT_HEADER_SEALED : object_header_confirm_pin(header);
    if (state == OBJECT_HEADER_SPILLED) {
        ask_restore(place, hand);
        return;
    }
    hand->state = state == OBJECT_HEADER_SEALED ? HAND_VIEWED : HAND_HELD;
    if (state == OBJECT_HEADER_SEALED)
        hold_checker_viewed(all->checker, hand->object, place->index,
                            arena_at(&all->server->arena, atomic_load(&header->offset)));
    else
        hold_table_unpin(&place->holds, hand->entry);
}

static void view(hold_place *place, hand *hand) {
    hold_processes *all = place->all;
    if (place->bare) {
        hold_table_pin(hand->entry);
        hand->state = HAND_PINNING;
        return;
    }
    uint64_t size;
    mr_status status = store_client_view(place->store, hand->stored, &hand->data, &size);
    sim_count(all->sim,
              status == MR_OK      ? "views"
              : status == MR_BUSY  ? "views that wait"
              : status == MR_NOMEM ? "views without room"
                                   : "views lost",
              1);
    if (status == MR_OK) {
        hand->state = HAND_VIEWED;
        hold_checker_viewed(all->checker, hand->object, place->index, hand->data);
        if (size != hand->object->size) sim_violation(all->sim, "an object has another size than it was made with");
    } else if (status == MR_OBJECT_LOST ? !hand->object->may_be_lost : status != MR_BUSY && status != MR_NOMEM) {
        sim_violation(all->sim, "an object that is held cannot be viewed: %s", mr_status_name(status));
    }
}

static void unview(hold_place *place, hand *hand) {
    hold_checker_unview(place->all->checker, hand->object, place->index);
    hand->state = HAND_HELD;
    if (place->bare)
        hold_table_unpin(&place->holds, hand->entry);
    else
        store_client_unview(place->store, hand->stored);
}

/* ---- Random actions. */

static void act_held(hold_place *place, hand *hand) {
    hold_processes *all = place->all;
    bool own = hand->holds > hand->in_messages;
    uint64_t what = rng_below(rng_of(all), 100);
    if (all->draining || what < 35) {
        if (own) let_go(place, hand);
    } else if (what < 65) {
        send_ref(place, hand);
    } else if (what < 99) {
        if (own) view(place, hand);
    } else if (!place->bare) {
        hand->object->may_be_lost = true;
        store_client_delete(place->store, hand->stored);
    }
}

static void act_on(hold_place *place, hand *hand) {
    switch (hand->state) {
    case HAND_CREATING: finish(place, hand); break;
    case HAND_ADDED: confirm_hold(place, hand); break;
    case HAND_HELD: act_held(place, hand); break;
    case HAND_PINNING: confirm_pin(place, hand); break;
    case HAND_VIEWED:
        if (place->all->draining || rng_chance(rng_of(place->all), 0.25)) unview(place, hand);
        break;
    case HAND_NONE:
    case HAND_RESTORING: break;
    }
}

/* Tries an old reference again, for which no process keeps the object. */
static void try_again(hold_place *place) {
    hold_object *object = place->known[rng_below(rng_of(place->all), HOLD_KNOWN_MAX)];
    note note = {.kind = NOTE_REF, .object = object};
    if (object == NULL) return;
    if (place->bare)
        add(place, &note);
    else
        (void)take(place, &note);
}

static void act(hold_place *place) {
    hold_processes *all = place->all;
    uint64_t what = rng_below(rng_of(all), 100);
    hand *hand = &place->hands[rng_below(rng_of(all), HOLD_HANDS_MAX)];
    for (size_t i = 0; hand->state == HAND_NONE && i < HOLD_HANDS_MAX; i++) hand = &place->hands[i];
    if (!all->draining && what < (place->wants != 0 ? 30 : 20))
        create(place);
    else if (!all->draining && what < (place->bare ? 45 : 36))
        try_again(place);
    else if (!place->bare && what < 42)
        store_client_poll(place->store);
    else
        act_on(place, hand);
}

void hold_place_act(hold_place *place) {
    hold_processes *all = place->all;
    if (setjmp(all->die) == 0)
        act(place);
    else
        hold_place_kill(all->dying);
    hold_checker_check(all->checker);
}

/* ---- Receiving. */

static void opened(hold_place *place, mr_status status, extent lease_page) {
    hold_processes *all = place->all;
    if (status != MR_OK) { /* no room for a process page: retried later */
        place->state = PLACE_EMPTY;
        send_after(all, JOIN_US, (note){.kind = NOTE_JOIN, .to = place->index});
        return;
    }
    place->state = PLACE_ALIVE;
    if (place->bare) {
        hold_table_init(&place->holds, arena_at(&all->server->arena, lease_page.offset));
        return;
    }
    store_client_options options = {place->process, clock_virtual(&all->server->clock)};
    status = store_client_open(&all->server->arena, lease_page, &place->ops, place, &options, &place->store);
    MR_ASSERT(status == MR_OK);
}

static void answered(hold_place *place, const note *note) {
    if (note->request.ask == STORE_CLIENT_LEASE && note->request.kind == LEASE_PAGE) {
        opened(place, note->status, note->extent);
        return;
    }
    if (!place->bare) {
        store_client_answer(place->store, &note->request, note->status, note->extent, note->retry_us);
        return;
    }
    for (size_t i = 0; i < HOLD_HANDS_MAX; i++) {
        hand *hand = &place->hands[i];
        if (hand->state != HAND_RESTORING || hand->object->ref.slot != note->request.ref.slot) continue;
        hand->state = note->status == MR_OK ? HAND_PINNING : HAND_HELD;
        if (note->status != MR_OK) hold_table_unpin(&place->holds, hand->entry);
    }
}

static void ref_came(hold_processes *all, const note *note) {
    hold_place *place = &all->places[note->to];
    if (!is_alive(all, note->to, note->to_process)) {
        tell_sender(all, note->from, note->from_process, note->object);
        return;
    }
    if (place->bare)
        add(place, note);
    else if (!take(place, note))
        send_after(all, WAY_US, *note);
}

static void deliver(hold_place *place, const note *note) {
    hold_processes *all = place->all;
    bool here = place->process == note->to_process && (place->state == PLACE_ALIVE || place->state == PLACE_JOINING);
    switch (note->kind) {
    case NOTE_REF: ref_came(all, note); break;
    case NOTE_TOOK:
        if (here) took(all, note);
        break;
    case NOTE_ANSWER:
        if (here) answered(place, note);
        break;
    case NOTE_JOIN: hold_place_join(place); break;
    case NOTE_BURIAL:
        hold_server_leave(all->server, note->to_process);
        place->state = PLACE_EMPTY;
        if (!all->draining) send_after(all, JOIN_US, (struct note){.kind = NOTE_JOIN, .to = note->to});
        break;
    }
}

static void arrive(void *context, uint64_t unused) {
    note *note = context;
    hold_processes *all = note->all;
    hold_place *place = &all->places[note->to];
    list_remove(&note->place);
    sim_trace_record(sim_get_trace(all->sim), sim_now_us(all->sim), (uint32_t)note->to, SIM_TRACE_NOTE, note->kind,
                     note->object == NULL ? 0 : (uint64_t)(note->object - all->checker->objects));
    if (setjmp(all->die) == 0) {
        deliver(place, note);
    } else {
        hold_place_kill(all->dying);
        if (note->kind == NOTE_REF) tell_sender(all, note->from, note->from_process, note->object);
    }
    hold_checker_check(all->checker);
    free(note);
}

void hold_processes_answered(hold_processes *all, uint64_t process, const store_client_request *request,
                             mr_status status, extent extent, int64_t retry_us) {
    for (size_t i = 0; i < all->place_count; i++)
        if (all->places[i].process == process && all->places[i].state != PLACE_EMPTY)
            send_after(all, WAY_US,
                       (note){.kind = NOTE_ANSWER,
                              .to = i,
                              .to_process = process,
                              .request = *request,
                              .status = status,
                              .extent = extent,
                              .retry_us = retry_us});
}

/* ---- Joining and leaving. */

static mr_status ask(void *context, const store_client_request *request) {
    hold_place *place = context;
    hold_server_ask(place->all->server, place->process, request);
    return MR_OK;
}

enum {
    OTHERS_GO_ON = 5,  /* the store server runs after one step in this many */
    ROUND_STEPS = 8,   /* steps of the store server then: up to two whole rounds */
    DEATHS_INSIDE = 3, /* divisor of `deaths` for each step inside an operation */
};

/* Called between two steps of an operation of a store process. */
static void step(void *context) {
    hold_place *place = context;
    hold_processes *all = place->all;
    rng *rng = rng_of(all);
    if (all->draining) return;
    if (rng_chance(rng, all->deaths / DEATHS_INSIDE)) {
        sim_count(all->sim, "killed inside", 1);
        all->dying = place;
        longjmp(all->die, 1);
    }
    if (rng_below(rng, OTHERS_GO_ON) != 0) return;
    for (uint64_t left = 1 + rng_below(rng, ROUND_STEPS); left > 0; left--) hold_server_step(all->server);
}

void hold_place_join(hold_place *place) {
    hold_processes *all = place->all;
    size_t index = place->index;
    if (place->state != PLACE_EMPTY) return;
    *place = (hold_place){.all = all, .index = index, .state = PLACE_JOINING, .process = all->next_process++};
    place->ops = (store_client_ops){.ask = ask, .step = step};
    place->bare = index > 0 && rng_chance(rng_of(all), all->bare);
    hold_server_join(all->server, place->process);
}

static void close_place(hold_place *place) {
    hold_checker_gone(place->all->checker, place->index);
    for (size_t i = 0; i < HOLD_HANDS_MAX; i++) { /* processes that wait for this one see its death */
        const hand *hand = &place->hands[i];
        if (hand->state == HAND_ADDED) tell_sender(place->all, hand->from, hand->from_process, hand->object);
    }
    memset(place->hands, 0, sizeof place->hands);
    if (place->bare) hold_table_fini(&place->holds);
    place->store = NULL;
    place->state = PLACE_DEAD;
}

void hold_place_kill(hold_place *place) {
    sim_count(place->all->sim, "killed", 1);
    sim_note(place->all->sim, NULL, "process %" PRIu64 " dies", place->process);
    if (!place->bare) store_client_abandon(place->store);
    close_place(place);
    send_after(place->all, DEATH_SEEN_US,
               (note){.kind = NOTE_BURIAL, .to = place->index, .to_process = place->process});
}

void hold_place_leave(hold_place *place) {
    if (setjmp(place->all->die) != 0) {
        hold_place_kill(place);
        return;
    }
    hold_checker_gone(place->all->checker, place->index); /* other processes run during the close */
    if (place->bare) {
        for (size_t i = 0; i < HOLD_HANDS_MAX; i++)
            if (place->hands[i].state != HAND_NONE) hold_table_remove(&place->holds, place->hands[i].entry);
    } else {
        store_client_close(place->store);
    }
    close_place(place);
    send_after(place->all, DEATH_SEEN_US,
               (note){.kind = NOTE_BURIAL, .to = place->index, .to_process = place->process});
}

bool hold_processes_are_done(const hold_processes *all) {
    if (!list_empty(&all->notes)) return false;
    for (size_t i = 0; i < all->place_count; i++) {
        const hold_place *place = &all->places[i];
        for (size_t k = 0; k < HOLD_HANDS_MAX; k++)
            if (place->hands[k].state != HAND_NONE) return false;
    }
    return true;
}

void hold_processes_complain(const hold_processes *all) {
    for (size_t i = 0; i < all->place_count; i++)
        for (size_t k = 0; k < HOLD_HANDS_MAX; k++) {
            const hand *hand = &all->places[i].hands[k];
            if (hand->state == HAND_NONE) continue;
            sim_violation(all->sim, "process %" PRIu64 " cannot let go of object %zu: %d, %u holds, %u in messages",
                          all->places[i].process, (size_t)(hand->object - all->checker->objects), (int)hand->state,
                          hand->holds, hand->in_messages);
        }
}

void hold_processes_init(hold_processes *all, sim *sim, hold_server *server, hold_checker *checker,
                         size_t place_count) {
    *all = (hold_processes){.sim = sim, .server = server, .checker = checker, .place_count = place_count};
    all->next_process = 1000;
    list_init(&all->notes);
    for (size_t i = 0; i < place_count; i++) all->places[i] = (hold_place){.all = all, .index = i};
}

void hold_processes_fini(hold_processes *all) {
    for (size_t i = 0; i < all->place_count; i++) {
        hold_place *place = &all->places[i];
        if (place->state != PLACE_ALIVE) continue;
        if (!place->bare) store_client_abandon(place->store);
        close_place(place);
    }
    for (list *at; (at = list_pop_front(&all->notes)) != NULL;) free(container_of(at, note, place));
}
