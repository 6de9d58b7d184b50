/* notes.c — see notes.h. */
#include "kv/office/notes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/clock.h"
#include "base/error.h"
#include "kv/office/board.h"
#include "kv/office/desk.h"

typedef struct peer { /* a process that is written to */
    list link;
    uint8_t role;
    uint32_t number;
    uint64_t incarnation; /* 0: not known */
    char address[MR_PS_ADDRESS_MAX];
    bool here;     /* as the scheduler says */
    uint64_t last; /* number that was given last, to this incarnation */
    list legs;     /* of leg, in order: those under way first */
} peer;

typedef struct call call;

typedef struct leg { /* a request to one process */
    list link;       /* of the peer's; alone: it is over */
    call *call;
    uint8_t role;
    uint32_t to;
    uint64_t number; /* 0: not sent yet */
    int64_t again_us, pause_us;
    mr_status status; /* MR_BUSY: not over */
    int32_t head;
    uint8_t *body; /* owned */
    size_t size;
} leg;

struct call {
    list link;
    uint64_t ticket;
    notes_call asked; /* its body is owned, behind the call */
    uint8_t unlisted; /* roles of which it is not known who they are */
    leg **legs;       /* owned, each too */
    size_t leg_count, over;
    bool told; /* it is in the line of those to be told, or was */
    list told_link;
    uint8_t body[];
};

typedef struct answer { /* to a request that came */
    uint64_t number;
    bool answered;
    mr_status status;
    int32_t app, head;
    uint8_t *body; /* owned */
    size_t size;
} answer;

typedef struct sender { /* a process that writes */
    list link;
    uint8_t role;
    uint32_t number;
    uint64_t incarnation, oldest;
    char address[MR_PS_ADDRESS_MAX];
    answer answers[NOTES_WINDOW]; /* by number modulo that; number 0: none */
} sender;

typedef struct app {
    int32_t number;
    mr_ps_handler_fn *handler;
    void *context;
} app;

typedef struct delivery { /* a message and who handles it */
    list link;
    app app;
    mr_ps_message *message;
} delivery;

struct notes {
    notes_options options;
    void *owner;
    uint32_t number;
    uint64_t incarnation, chart;
    uint64_t tickets;
    int64_t ask_us, next_us;
    list peers, senders, calls, told, deliveries, messages;
    uint32_t call_count;
    app *apps; /* owned */
    uint32_t app_count;
};

/* ---- Life. */

notes *notes_create(const notes_options *options) {
    notes *notes = xcalloc(1, sizeof *notes);
    notes->options = *options;
    notes->next_us = CLOCK_NEVER_US;
    list *const lists[] = {&notes->peers, &notes->senders,    &notes->calls,
                           &notes->told,  &notes->deliveries, &notes->messages};
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) list_init(lists[i]);
    return notes;
}

static void free_leg(leg *leg) {
    list_remove(&leg->link);
    free(leg->body);
    free(leg);
}

static void free_call(notes *notes, call *call) {
    for (size_t i = 0; i < call->leg_count; i++) free_leg(call->legs[i]);
    list_remove(&call->link);
    list_remove(&call->told_link);
    free(call->legs);
    free(call);
    notes->call_count--;
}

static void free_sender(sender *sender) {
    list_remove(&sender->link);
    for (size_t i = 0; i < NOTES_WINDOW; i++) free(sender->answers[i].body);
    free(sender);
}

void notes_destroy(notes *notes) {
    if (notes == NULL) return;
    while (!list_empty(&notes->calls)) free_call(notes, container_of(notes->calls.next, call, link));
    while (!list_empty(&notes->senders)) free_sender(container_of(notes->senders.next, sender, link));
    for (list *item; (item = list_pop_front(&notes->peers)) != NULL;) free(container_of(item, peer, link));
    for (list *item; (item = list_pop_front(&notes->deliveries)) != NULL;) {
        delivery *delivery = container_of(item, struct delivery, link);
        free(delivery->message);
        free(delivery);
    }
    for (list *item; (item = list_pop_front(&notes->messages)) != NULL;)
        container_of(item, mr_ps_message, link)->notes = NULL;
    free(notes->apps);
    free(notes);
}

void notes_own(notes *notes, void *owner) { notes->owner = owner; }

void notes_begin(notes *notes, uint32_t number, uint64_t incarnation, int64_t now_us) {
    notes->number = number;
    notes->incarnation = incarnation;
    notes->next_us = now_us;
}

void notes_chart(notes *notes, uint64_t number) { notes->chart = number; }

/* ---- Apps. */

static app *find_app(const notes *notes, int32_t number) {
    for (uint32_t i = 0; i < notes->app_count; i++)
        if (notes->apps[i].number == number) return &notes->apps[i];
    return NULL;
}

mr_status notes_check_app(int32_t app) {
    return app < 0 ? error_set(MR_INVALID, "app %d: the number of an app is at least 0", app) : MR_OK;
}

mr_status notes_handle(notes *notes, int32_t number, mr_ps_handler_fn *handler, void *context) {
    app *app = find_app(notes, number);
    if (handler == NULL) {
        if (app != NULL) *app = notes->apps[--notes->app_count];
        return MR_OK;
    }
    if (app == NULL) {
        if (notes->app_count == NOTES_APPS_MAX)
            return error_set(MR_TOO_LARGE, "cannot add app %d: the limit is %d apps", number, NOTES_APPS_MAX);
        notes->apps = xrealloc(notes->apps, (notes->app_count + 1) * sizeof *notes->apps);
        app = &notes->apps[notes->app_count++];
    }
    *app = (struct app){number, handler, context};
    return MR_OK;
}

/* ---- Saying. */

static void say(notes *notes, const char *address, note *note) {
    letter letter = {.kind = DESK_NOTE};
    note->from_role = notes->options.role;
    note->from = notes->number;
    note->from_incarnation = notes->incarnation;
    note->chart = notes->chart;
    snprintf(note->address, sizeof note->address, "%s", notes->options.address);
    uint8_t *bytes = note_write(note, &letter);
    notes->options.send(notes->options.context, address, &letter);
    free(bytes);
}

/* The lowest number that it waits for: all below are answered. Those that wait to be sent have higher ones. */
static uint64_t oldest_of(const peer *peer) {
    const leg *first = list_empty(&peer->legs) ? NULL : container_of(peer->legs.next, leg, link);
    return first == NULL || first->number == 0 ? peer->last + 1 : first->number;
}

static void send_leg(notes *notes, peer *peer, leg *leg, int64_t now_us) {
    const call *call = leg->call;
    leg->again_us = now_us + leg->pause_us;
    if (leg->pause_us < NOTES_AGAIN_MAX_US) leg->pause_us *= 2;
    say(notes, peer->address,
        &(note){.kind = NOTE_REQUEST,
                .to_role = peer->role,
                .to = peer->number,
                .to_incarnation = peer->incarnation,
                .number = leg->number,
                .oldest = oldest_of(peer),
                .app = call->asked.app,
                .head = call->asked.head,
                .body = call->asked.body});
}

static void sooner(notes *notes, int64_t us) {
    if (us < notes->next_us) notes->next_us = us;
}

/* Gives numbers to those that wait, as far as the window goes, and sends what is due. */
static void pump_peer(notes *notes, peer *peer, int64_t now_us) {
    if (!peer->here) return;
    for (list *item = peer->legs.next; item != &peer->legs; item = item->next) {
        leg *leg = container_of(item, struct leg, link);
        if (leg->number == 0) {
            if (peer->last + 1 - oldest_of(peer) >= NOTES_WINDOW) return;
            leg->number = ++peer->last;
        }
        if (now_us >= leg->again_us) send_leg(notes, peer, leg, now_us);
        sooner(notes, leg->again_us);
    }
}

static void ask_who(notes *notes, uint8_t role, uint32_t number) {
    letter letter = {.kind = DESK_WHO, .stamp = {.view = role, .id = number, .incarnation = notes->incarnation}};
    notes->options.send(notes->options.context, notes->options.scheduler, &letter);
}

/* Where those are who are waited for, and whether they live. */
static void ask(notes *notes, int64_t now_us) {
    uint8_t roles = 0;
    bool any = false, due = now_us >= notes->ask_us;
    list_for_each (item, &notes->calls) roles |= container_of(item, call, link)->unlisted;
    for (uint8_t role = MR_PS_SCHEDULER; due && role <= MR_PS_WORKERS; role <<= 1)
        if ((roles & role) != 0) ask_who(notes, role, NOTES_EVERY);
    list_for_each (item, &notes->peers) {
        const peer *peer = container_of(item, struct peer, link);
        if (list_empty(&peer->legs)) continue;
        if (due) ask_who(notes, peer->role, peer->number);
        any = true;
    }
    if (!any && roles == 0) return;
    if (due) notes->ask_us = now_us + NOTES_ASK_US;
    sooner(notes, notes->ask_us);
}

int64_t notes_next_us(const notes *notes) { return notes->next_us; }

void notes_tick(notes *notes, int64_t now_us) {
    notes->next_us = CLOCK_NEVER_US;
    if (notes->incarnation == 0) return;
    ask(notes, now_us);
    list_for_each (item, &notes->peers) pump_peer(notes, container_of(item, peer, link), now_us);
}

/* ---- What becomes of a call. */

static void look_over(notes *notes, call *call) {
    if (call->told || call->unlisted != 0 || call->over != call->leg_count) return;
    call->told = true;
    if (call->asked.done != NULL)
        list_push_back(&notes->told, &call->told_link);
    else if (!call->asked.kept)
        free_call(notes, call);
}

static void end_leg(notes *notes, leg *leg, mr_status status, int32_t head, span body) {
    call *call = leg->call;
    list_remove(&leg->link);
    leg->status = status;
    leg->head = head;
    leg->size = body.size;
    leg->body = xmalloc(body.size + 1);
    if (body.size != 0) memcpy(leg->body, body.data, body.size);
    call->over++;
    look_over(notes, call);
}

static peer *find_peer(const notes *notes, uint8_t role, uint32_t number) {
    list_for_each (item, &notes->peers) {
        peer *peer = container_of(item, struct peer, link);
        if (peer->role == role && peer->number == number) return peer;
    }
    return NULL;
}

static peer *need_peer(notes *notes, uint8_t role, uint32_t number) {
    peer *peer = find_peer(notes, role, number);
    if (peer != NULL) return peer;
    peer = xcalloc(1, sizeof *peer);
    peer->role = role;
    peer->number = number;
    list_init(&peer->legs);
    list_push_back(&notes->peers, &peer->link);
    return peer;
}

static void add_leg(notes *notes, call *call, uint8_t role, uint32_t number) {
    leg *leg = xcalloc(1, sizeof *leg);
    *leg = (struct leg){.call = call, .role = role, .to = number, .pause_us = NOTES_AGAIN_US, .status = MR_BUSY};
    list_push_back(&need_peer(notes, role, number)->legs, &leg->link);
    call->legs = xrealloc(call->legs, (call->leg_count + 1) * sizeof *call->legs);
    call->legs[call->leg_count++] = leg;
}

mr_status notes_send(notes *notes, const notes_call *asked, int64_t now_us, uint64_t *ticket) {
    if (notes->call_count == NOTES_CALLS_MAX)
        return error_set(MR_BUSY, "%d messages are open, which is the limit; wait for some", NOTES_CALLS_MAX);
    call *call = xcalloc(1, sizeof *call + asked->body.size + 1);
    call->ticket = ++notes->tickets;
    call->asked = *asked;
    if (asked->body.size != 0) memcpy(call->body, asked->body.data, asked->body.size);
    call->asked.body = span_of(call->body, asked->body.size);
    list_init(&call->told_link);
    list_push_back(&notes->calls, &call->link);
    notes->call_count++;
    *ticket = call->ticket;
    if (asked->number == NOTES_EVERY)
        call->unlisted = asked->roles;
    else
        add_leg(notes, call, asked->roles, asked->number);
    const peer *peer = asked->number == NOTES_EVERY ? NULL : find_peer(notes, asked->roles, asked->number);
    if (peer == NULL || !peer->here) notes->ask_us = now_us;
    if (notes->incarnation != 0) notes_tick(notes, now_us);
    return MR_OK;
}

static call *find_call(const notes *notes, uint64_t ticket) {
    list_for_each (item, &notes->calls) {
        call *call = container_of(item, struct call, link);
        if (call->ticket == ticket && call->asked.kept) return call;
    }
    return NULL;
}

static const char *role_name(uint8_t role) {
    return role == MR_PS_SCHEDULER ? "the scheduler" : role == MR_PS_SERVERS ? "server" : "worker";
}

static mr_status not_yet(const notes *notes, const call *call) {
    if (call->unlisted != 0) return error_set(MR_BUSY, "the scheduler has not sent its list of processes");
    for (size_t i = 0; i < call->leg_count; i++) {
        const leg *leg = call->legs[i];
        if (leg->status != MR_BUSY) continue;
        const peer *peer = find_peer(notes, leg->role, leg->to);
        const char *why = peer == NULL || !peer->here ? "is not connected" : "has not answered";
        if (leg->role == MR_PS_SCHEDULER) return error_set(MR_BUSY, "the scheduler %s", why);
        return error_set(MR_BUSY, "%s %u %s", role_name(leg->role), leg->to, why);
    }
    return MR_OK;
}

mr_status notes_status(const notes *notes, uint64_t ticket) {
    const call *call = find_call(notes, ticket);
    if (call == NULL) return error_set(MR_NOT_FOUND, "no message %llu is open", (unsigned long long)ticket);
    return call->told ? MR_OK : not_yet(notes, call);
}

static size_t round_up(size_t size) { return (size + 15) & ~(size_t)15; }

mr_ps_responses *notes_collect(notes *notes, uint64_t ticket) {
    call *call = find_call(notes, ticket);
    MR_ASSERT(call != NULL && call->told);
    size_t room = sizeof(mr_ps_responses) + call->leg_count * sizeof(mr_ps_response);
    for (size_t i = 0; i < call->leg_count; i++) room += round_up(call->legs[i]->size + 1);
    mr_ps_responses *all = xcalloc(1, room);
    mr_ps_response *list = (mr_ps_response *)(all + 1);
    uint8_t *at = (uint8_t *)(list + call->leg_count);
    for (size_t i = 0; i < call->leg_count; at += round_up(call->legs[i++]->size + 1)) {
        const leg *leg = call->legs[i];
        if (leg->size != 0) memcpy(at, leg->body, leg->size);
        list[i] = (mr_ps_response){{leg->role, leg->to}, leg->status, leg->head, at, leg->size};
    }
    all->count = call->leg_count;
    all->list = list;
    call->asked.kept = false;
    if (list_empty(&call->told_link)) free_call(notes, call);
    return all;
}

/* ---- What the scheduler says of others. */

static void lose(notes *notes, peer *peer, const char *why) {
    for (list *item; (item = peer->legs.next) != &peer->legs;) {
        leg *leg = container_of(item, struct leg, link);
        if (leg->number == 0) break; /* it was not said to anybody yet */
        end_leg(notes, leg, MR_PEER_DIED, 0, span_of(why, strlen(why)));
    }
}

static void meet(notes *notes, uint8_t role, const board_entry *entry, int64_t now_us) {
    static const char died[] = "it died before it answered", replaced[] = "another process has replaced it";
    peer *peer = find_peer(notes, role, entry->number);
    if (peer == NULL || entry->incarnation < peer->incarnation) return;
    if (entry->incarnation > peer->incarnation) {
        lose(notes, peer, replaced);
        peer->last = 0;
    }
    peer->incarnation = entry->incarnation;
    peer->here = entry->here;
    memcpy(peer->address, entry->address, sizeof peer->address);
    if (!peer->here) lose(notes, peer, died); /* what was not said waits for the next one of its number */
    pump_peer(notes, peer, now_us);
}

/* Calls to all of a role begin with those that are here now. */
static void list_role(notes *notes, uint8_t role, const board_entry *entries, uint32_t count) {
    list_for_each (item, &notes->calls) {
        call *call = container_of(item, struct call, link);
        if ((call->unlisted & role) == 0) continue;
        call->unlisted &= (uint8_t)~role;
        for (uint32_t i = 0; i < count; i++) add_leg(notes, call, role, entries[i].number);
        look_over(notes, call);
    }
}

static void take_those(notes *notes, const letter *letter, int64_t now_us) {
    uint8_t role = (uint8_t)letter->stamp.view;
    reader reader;
    uint32_t count;
    if (letter->stamp.incarnation != notes->incarnation || notes->incarnation == 0) return;
    if (board_list_read(letter->value, &reader, &count) != MR_OK || count > LETTER_VALUE_MAX) return;
    board_entry *entries = xcalloc((size_t)count + 1, sizeof *entries);
    bool good = true;
    for (uint32_t i = 0; good && i < count; i++) good = board_list_next(&reader, &entries[i]) == MR_OK;
    if (good && letter->stamp.id == NOTES_EVERY) list_role(notes, role, entries, count);
    for (uint32_t i = 0; good && i < count; i++) meet(notes, role, &entries[i], now_us);
    free(entries);
    notes_tick(notes, now_us);
}

/* ---- What others say. */

static void take_response(notes *notes, const note *note, int64_t now_us) {
    peer *peer = find_peer(notes, note->from_role, note->from);
    if (peer == NULL || peer->incarnation != note->from_incarnation) return;
    list_for_each (item, &peer->legs) {
        leg *leg = container_of(item, struct leg, link);
        if (leg->number != note->number) continue;
        end_leg(notes, leg, note->status, note->head, note->body);
        break;
    }
    pump_peer(notes, peer, now_us);
}

static sender *sender_of(notes *notes, const note *note) {
    sender *found = NULL;
    list_for_each (item, &notes->senders) {
        sender *sender = container_of(item, struct sender, link);
        if (sender->role == note->from_role && sender->number == note->from) found = sender;
    }
    if (found != NULL && found->incarnation > note->from_incarnation) return NULL;
    if (found != NULL && found->incarnation < note->from_incarnation) {
        free_sender(found);
        found = NULL;
    }
    if (found != NULL) return found;
    found = xcalloc(1, sizeof *found);
    *found = (sender){.role = note->from_role, .number = note->from, .incarnation = note->from_incarnation};
    found->oldest = 1;
    list_push_back(&notes->senders, &found->link);
    return found;
}

static void forget_below(sender *sender, uint64_t oldest) {
    for (size_t i = 0; i < NOTES_WINDOW; i++) {
        answer *answer = &sender->answers[i];
        if (answer->number == 0 || answer->number >= oldest || !answer->answered) continue;
        free(answer->body);
        *answer = (struct answer){0};
    }
    if (oldest > sender->oldest) sender->oldest = oldest;
}

static void say_answer(notes *notes, const sender *sender, const answer *answer) {
    say(notes, sender->address,
        &(note){.kind = NOTE_RESPONSE,
                .to_role = sender->role,
                .to = sender->number,
                .to_incarnation = sender->incarnation,
                .number = answer->number,
                .oldest = answer->number,
                .app = answer->app,
                .head = answer->head,
                .status = answer->status,
                .body = span_of(answer->body, answer->size)});
}

static void settle(notes *notes, sender *sender, answer *answer, mr_status status, int32_t head, span body) {
    answer->answered = true;
    answer->status = status;
    answer->head = head;
    answer->size = body.size;
    answer->body = xmalloc(body.size + 1);
    if (body.size != 0) memcpy(answer->body, body.data, body.size);
    say_answer(notes, sender, answer);
}

static void deliver(notes *notes, const app *app, const note *note) {
    mr_ps_message *message = xcalloc(1, sizeof *message + note->body.size + 1);
    *message = (mr_ps_message){.notes = notes,
                               .owner = notes->owner,
                               .role = note->from_role,
                               .from = note->from,
                               .incarnation = note->from_incarnation,
                               .number = note->number,
                               .app = note->app,
                               .head = note->head,
                               .size = note->body.size};
    if (note->body.size != 0) memcpy(message->body, note->body.data, note->body.size);
    delivery *delivery = xcalloc(1, sizeof *delivery);
    *delivery = (struct delivery){.app = *app, .message = message};
    list_push_back(&notes->deliveries, &delivery->link);
}

static void take_request(notes *notes, const note *note) {
    static const char unknown[] = "nobody there handles this app";
    sender *sender = sender_of(notes, note);
    if (sender == NULL) return;
    memcpy(sender->address, note->address, sizeof sender->address);
    forget_below(sender, note->oldest);
    answer *answer = &sender->answers[note->number % NOTES_WINDOW];
    if (note->number < sender->oldest) return;
    if (answer->number == note->number) {
        if (answer->answered) say_answer(notes, sender, answer);
        return;
    }
    if (answer->number != 0) return; /* beyond its window, or what is in its place is still handled */
    *answer = (struct answer){.number = note->number, .app = note->app};
    const app *app = find_app(notes, note->app);
    if (app != NULL)
        deliver(notes, app, note);
    else
        settle(notes, sender, answer, MR_NOT_FOUND, 0, span_of(unknown, strlen(unknown)));
}

mr_status notes_report(notes *notes, const char *key, double value) {
    return standing_report_set(notes->options.standing, key, value);
}

void notes_answer(notes *notes, mr_ps_message *message, mr_status status, int32_t head, span body) {
    list_for_each (item, &notes->senders) {
        sender *sender = container_of(item, struct sender, link);
        answer *answer = &sender->answers[message->number % NOTES_WINDOW];
        if (sender->role != message->role || sender->number != message->from) continue;
        if (sender->incarnation != message->incarnation || answer->number != message->number) continue;
        if (!answer->answered) settle(notes, sender, answer, status, head, body);
        break;
    }
    list_remove(&message->link);
    free(message);
}

bool notes_take(notes *notes, const letter *letter, int64_t now_us) {
    note note;
    if (letter->kind == DESK_THOSE) take_those(notes, letter, now_us);
    if (letter->kind != DESK_NOTE) return letter->kind == DESK_THOSE;
    if (notes->incarnation == 0 || note_read(letter, &note) != MR_OK || note.chart > notes->chart) return true;
    if (note.to_role != notes->options.role || note.to != notes->number) return true;
    if (note.to_incarnation != notes->incarnation) return true; /* the scheduler tells its sender */
    if (note.kind == NOTE_REQUEST)
        take_request(notes, &note);
    else
        take_response(notes, &note, now_us);
    return true;
}

/* ---- Calling. */

static void handle(void *context, mr_status status) {
    delivery *delivery = context;
    app app = delivery->app;
    mr_ps_message *message = delivery->message;
    free(delivery);
    app.handler(app.context, message);
}

bool notes_has_told(const notes *notes) { return !list_empty(&notes->deliveries) || !list_empty(&notes->told); }

bool notes_tell(notes *notes, void (**function)(void *context, mr_status status), void **context, mr_status *status) {
    list *item = list_pop_front(&notes->deliveries);
    if (item != NULL) {
        delivery *delivery = container_of(item, struct delivery, link);
        list_push_back(&notes->messages, &delivery->message->link);
        *function = handle;
        *context = delivery;
        *status = MR_OK;
        return true;
    }
    item = list_pop_front(&notes->told);
    if (item == NULL) return false;
    call *call = container_of(item, struct call, told_link);
    *function = call->asked.done;
    *context = call->asked.context;
    *status = MR_OK;
    for (size_t i = 0; i < call->leg_count; i++)
        if (*status == MR_OK) *status = call->legs[i]->status;
    if (!call->asked.kept) free_call(notes, call);
    return true;
}

void notes_call_handlers(notes *notes) {
    void (*function)(void *context, mr_status status);
    void *context;
    mr_status status;
    while (notes_tell(notes, &function, &context, &status)) function(context, status);
}
