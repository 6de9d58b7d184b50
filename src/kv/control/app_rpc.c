/* app_rpc.c — see app_rpc.h. */
#include "kv/control/app_rpc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/clock.h"
#include "base/error.h"
#include "kv/control/control_wire.h"
#include "kv/control/process_table.h"

typedef struct peer { /* a receiving process */
    list link;
    uint8_t role;
    uint32_t number;
    uint64_t incarnation; /* 0: unknown */
    char address[MR_PS_ADDRESS_MAX];
    bool here;     /* alive, according to the scheduler */
    uint64_t last; /* last number assigned for this incarnation */
    list legs;     /* legs in order: those under way first */
} peer;

typedef struct call call;

typedef struct outcome { /* result of a request */
    mr_status status;
    int32_t head;
    uint8_t *body; /* owned; NULL: no outcome yet */
    size_t size;
} outcome;

typedef struct leg { /* a request to one process */
    list link;       /* in the peer's list; unlinked: ended */
    call *call;
    peer *peer;
    uint64_t number; /* 0: not sent yet */
    int64_t again_us, pause_us;
    outcome outcome;
} leg;

struct call {
    list link;
    uint64_t ticket;
    app_rpc_call asked; /* owns its body, which is allocated behind the call */
    uint8_t unlisted;   /* roles whose processes are unknown */
    leg **legs;         /* owned, with its elements */
    size_t leg_count, over;
    bool told;        /* the callback is queued, or was called */
    mr_status failed; /* instead of the outcomes of the legs */
    list told_link;
    uint8_t body[];
};

typedef struct answer { /* to a received request */
    uint64_t number;
    int32_t app;
    outcome outcome;
} answer;

typedef struct sender { /* a sending process */
    list link;
    uint8_t role;
    uint32_t number;
    uint64_t incarnation, oldest;
    char address[MR_PS_ADDRESS_MAX];
    answer answers[APP_RPC_WINDOW]; /* by number modulo APP_RPC_WINDOW; number 0: none */
} sender;

typedef struct app {
    int32_t number;
    mr_ps_handler_fn *handler;
    void *context;
} app;

struct app_rpc {
    process_sender self;
    void *owner;
    uint64_t tickets;
    int64_t ask_us, next_us;
    list peers, senders, calls, told;
    list deliveries, messages; /* received requests: waiting for their handlers; under a handler */
    uint32_t call_count;
    app *apps; /* owned */
    uint32_t app_count;
};

/* ---- Creation and end. */

app_rpc *app_rpc_create(const process_sender *self) {
    app_rpc *rpc = xcalloc(1, sizeof *rpc);
    rpc->self = *self;
    rpc->next_us = CLOCK_NEVER_US;
    list *const lists[] = {&rpc->peers, &rpc->senders, &rpc->calls, &rpc->told, &rpc->deliveries, &rpc->messages};
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) list_init(lists[i]);
    return rpc;
}

static void free_leg(leg *leg) {
    list_remove(&leg->link);
    free(leg->outcome.body);
    free(leg);
}

static void free_call(app_rpc *rpc, call *call) {
    for (size_t i = 0; i < call->leg_count; i++) free_leg(call->legs[i]);
    list_remove(&call->link);
    list_remove(&call->told_link);
    free(call->legs);
    free(call);
    rpc->call_count--;
}

static void free_sender(sender *sender) {
    list_remove(&sender->link);
    for (size_t i = 0; i < APP_RPC_WINDOW; i++) free(sender->answers[i].outcome.body);
    free(sender);
}

void app_rpc_destroy(app_rpc *rpc) {
    if (rpc == NULL) return;
    while (!list_empty(&rpc->calls)) free_call(rpc, container_of(rpc->calls.next, call, link));
    while (!list_empty(&rpc->senders)) free_sender(container_of(rpc->senders.next, sender, link));
    for (list *item; (item = list_pop_front(&rpc->peers)) != NULL;) free(container_of(item, peer, link));
    for (list *item; (item = list_pop_front(&rpc->deliveries)) != NULL;) free(container_of(item, mr_ps_message, link));
    for (list *item; (item = list_pop_front(&rpc->messages)) != NULL;)
        container_of(item, mr_ps_message, link)->rpc = NULL;
    free(rpc->apps);
    free(rpc);
}

void app_rpc_own(app_rpc *rpc, void *owner) { rpc->owner = owner; }

void app_rpc_begin(app_rpc *rpc, int64_t now_us) { rpc->next_us = now_us; }

/* ---- Apps. */

static app *find_app(const app_rpc *rpc, int32_t number) {
    for (uint32_t i = 0; i < rpc->app_count; i++)
        if (rpc->apps[i].number == number) return &rpc->apps[i];
    return NULL;
}

mr_status app_rpc_check_app(int32_t app) {
    return app < 0 ? error_set(MR_INVALID, "app %d: the number of an app is at least 0", app) : MR_OK;
}

mr_status app_rpc_handle(app_rpc *rpc, int32_t number, mr_ps_handler_fn *handler, void *context) {
    app *app = find_app(rpc, number);
    if (handler == NULL) {
        if (app != NULL) *app = rpc->apps[--rpc->app_count];
        return MR_OK;
    }
    if (app == NULL) {
        if (rpc->app_count == APP_RPC_APPS_MAX)
            return error_set(MR_TOO_LARGE, "cannot add app %d: the limit is %d apps", number, APP_RPC_APPS_MAX);
        rpc->apps = xrealloc(rpc->apps, (rpc->app_count + 1) * sizeof *rpc->apps);
        app = &rpc->apps[rpc->app_count++];
    }
    *app = (struct app){number, handler, context};
    return MR_OK;
}

/* ---- Sending. */

static void say(app_rpc *rpc, const char *address, app_message *message) {
    control_message control_message = {.kind = CONTROL_NOTE};
    const process_state *self = rpc->self.state;
    message->from_role = self->role;
    message->from = self->number;
    message->from_incarnation = self->incarnation;
    message->map = self->map;
    memcpy(message->address, self->address, sizeof message->address);
    uint8_t *bytes = app_message_write(message, &control_message);
    rpc->self.send(rpc->self.context, address, &control_message);
    free(bytes);
}

/* Lowest unanswered number. Requests that are not sent have higher numbers. */
static uint64_t oldest_of(const peer *peer) {
    const leg *first = list_empty(&peer->legs) ? NULL : container_of(peer->legs.next, leg, link);
    return first == NULL || first->number == 0 ? peer->last + 1 : first->number;
}

static void send_leg(app_rpc *rpc, peer *peer, leg *leg, int64_t now_us) {
    const call *call = leg->call;
    leg->again_us = now_us + leg->pause_us;
    if (leg->pause_us < APP_RPC_AGAIN_MAX_US) leg->pause_us *= 2;
    say(rpc, peer->address,
        &(app_message){.kind = APP_MESSAGE_REQUEST,
                       .to_role = peer->role,
                       .to = peer->number,
                       .to_incarnation = peer->incarnation,
                       .number = leg->number,
                       .oldest = oldest_of(peer),
                       .app = call->asked.app,
                       .head = call->asked.head,
                       .body = call->asked.body});
}

static void sooner(app_rpc *rpc, int64_t us) {
    if (us < rpc->next_us) rpc->next_us = us;
}

/* Assigns numbers to waiting requests within the window, and sends those that are due. */
static void pump_peer(app_rpc *rpc, peer *peer, int64_t now_us) {
    if (!peer->here) return;
    for (list *item = peer->legs.next; item != &peer->legs; item = item->next) {
        leg *leg = container_of(item, struct leg, link);
        if (leg->number == 0) {
            if (peer->last + 1 - oldest_of(peer) >= APP_RPC_WINDOW) return;
            leg->number = ++peer->last;
        }
        if (now_us >= leg->again_us) send_leg(rpc, peer, leg, now_us);
        sooner(rpc, leg->again_us);
    }
}

static void ask_who(app_rpc *rpc, uint8_t role, uint32_t number) {
    control_message message = {.kind = CONTROL_WHO,
                               .stamp = {.view = role, .id = number, .incarnation = rpc->self.state->incarnation}};
    rpc->self.send(rpc->self.context, rpc->self.scheduler, &message);
}

/* Asks the scheduler for the addresses of the peers of pending calls, and whether these peers are alive. */
static void ask(app_rpc *rpc, int64_t now_us) {
    uint8_t roles = 0;
    bool any = false, due = now_us >= rpc->ask_us;
    list_for_each (item, &rpc->calls) roles |= container_of(item, call, link)->unlisted;
    for (uint8_t role = MR_PS_SCHEDULER; due && role <= MR_PS_WORKERS; role <<= 1)
        if ((roles & role) != 0) ask_who(rpc, role, APP_RPC_EVERY);
    list_for_each (item, &rpc->peers) {
        const peer *peer = container_of(item, struct peer, link);
        if (list_empty(&peer->legs)) continue;
        if (due) ask_who(rpc, peer->role, peer->number);
        any = true;
    }
    if (!any && roles == 0) return;
    if (due) rpc->ask_us = now_us + APP_RPC_ASK_US;
    sooner(rpc, rpc->ask_us);
}

int64_t app_rpc_next_us(const app_rpc *rpc) { return rpc->next_us; }

void app_rpc_tick(app_rpc *rpc, int64_t now_us) {
    rpc->next_us = CLOCK_NEVER_US;
    if (rpc->self.state->incarnation == 0) return;
    ask(rpc, now_us);
    list_for_each (item, &rpc->peers) pump_peer(rpc, container_of(item, peer, link), now_us);
}

/* ---- Outcome of a call. */

static void look_over(app_rpc *rpc, call *call) {
    if (call->told || call->unlisted != 0 || call->over != call->leg_count) return;
    call->told = true;
    if (call->asked.done != NULL)
        list_push_back(&rpc->told, &call->told_link);
    else if (!call->asked.kept)
        free_call(rpc, call);
}

static outcome outcome_of(mr_status status, int32_t head, span body) {
    outcome outcome = {status, head, xmalloc(body.size + 1), body.size};
    if (body.size != 0) memcpy(outcome.body, body.data, body.size);
    return outcome;
}

static void end_leg(app_rpc *rpc, leg *leg, mr_status status, int32_t head, span body) {
    list_remove(&leg->link);
    leg->outcome = outcome_of(status, head, body);
    leg->call->over++;
    look_over(rpc, leg->call);
}

static void fail_call(app_rpc *rpc, call *call, mr_status status, span why) {
    call->failed = status;
    call->unlisted = 0;
    for (size_t i = 0; i < call->leg_count; i++)
        if (call->legs[i]->outcome.body == NULL) end_leg(rpc, call->legs[i], status, 0, why);
    look_over(rpc, call);
}

void app_rpc_fail_callbacks(app_rpc *rpc, mr_status status, const char *why) {
    list_for_each (item, &rpc->calls) {
        call *call = container_of(item, struct call, link);
        if (call->asked.done != NULL && !call->told) fail_call(rpc, call, status, span_of(why, strlen(why)));
    }
}

static peer *find_peer(const app_rpc *rpc, uint8_t role, uint32_t number) {
    list_for_each (item, &rpc->peers) {
        peer *peer = container_of(item, struct peer, link);
        if (peer->role == role && peer->number == number) return peer;
    }
    return NULL;
}

static peer *need_peer(app_rpc *rpc, uint8_t role, uint32_t number) {
    peer *peer = find_peer(rpc, role, number);
    if (peer != NULL) return peer;
    peer = XNEW(struct peer, .role = role, .number = number);
    list_init(&peer->legs);
    list_push_back(&rpc->peers, &peer->link);
    return peer;
}

static void add_leg(app_rpc *rpc, call *call, uint8_t role, uint32_t number) {
    peer *peer = need_peer(rpc, role, number);
    leg *leg = XNEW(struct leg, .call = call, .peer = peer, .pause_us = APP_RPC_AGAIN_US);
    list_push_back(&peer->legs, &leg->link);
    call->legs = xrealloc(call->legs, (call->leg_count + 1) * sizeof *call->legs);
    call->legs[call->leg_count++] = leg;
}

mr_status app_rpc_send(app_rpc *rpc, const app_rpc_call *asked, int64_t now_us, uint64_t *ticket) {
    if (rpc->call_count == APP_RPC_CALLS_MAX)
        return error_set(MR_BUSY, "%d messages are open, which is the limit; wait for some", APP_RPC_CALLS_MAX);
    call *call = xcalloc(1, sizeof *call + asked->body.size + 1);
    call->ticket = ++rpc->tickets;
    call->asked = *asked;
    if (asked->body.size != 0) memcpy(call->body, asked->body.data, asked->body.size);
    call->asked.body = span_of(call->body, asked->body.size);
    list_init(&call->told_link);
    list_push_back(&rpc->calls, &call->link);
    rpc->call_count++;
    *ticket = call->ticket;
    if (asked->number == APP_RPC_EVERY)
        call->unlisted = asked->roles;
    else
        add_leg(rpc, call, asked->roles, asked->number);
    const peer *peer = asked->number == APP_RPC_EVERY ? NULL : find_peer(rpc, asked->roles, asked->number);
    if (peer == NULL || !peer->here) rpc->ask_us = now_us;
    if (rpc->self.state->incarnation != 0) app_rpc_tick(rpc, now_us);
    return MR_OK;
}

static call *find_call(const app_rpc *rpc, uint64_t ticket) {
    list_for_each (item, &rpc->calls) {
        call *call = container_of(item, struct call, link);
        if (call->ticket == ticket && call->asked.kept) return call;
    }
    return NULL;
}

static mr_status not_yet(const call *call) {
    if (call->unlisted != 0) return error_set(MR_BUSY, "the scheduler has not sent its list of processes");
    for (size_t i = 0; i < call->leg_count; i++) {
        const peer *peer = call->legs[i]->peer;
        if (call->legs[i]->outcome.body != NULL) continue;
        const char *why = peer->here ? "has not answered" : "is not connected";
        if (peer->role == MR_PS_SCHEDULER) return error_set(MR_BUSY, "the scheduler %s", why);
        return error_set(MR_BUSY, "%s %u %s",
                         peer->role == MR_PS_SERVERS   ? "server"
                         : peer->role == MR_PS_READERS ? "reader"
                                                       : "worker",
                         peer->number, why);
    }
    return MR_OK;
}

mr_status app_rpc_status(const app_rpc *rpc, uint64_t ticket) {
    const call *call = find_call(rpc, ticket);
    if (call == NULL) return error_set(MR_NOT_FOUND, "no message %llu is open", (unsigned long long)ticket);
    return call->told ? MR_OK : not_yet(call);
}

static size_t round_up(size_t size) { return (size + 15) & ~(size_t)15; }

mr_ps_responses *app_rpc_collect(app_rpc *rpc, uint64_t ticket) {
    call *call = find_call(rpc, ticket);
    MR_ASSERT(call != NULL && call->told);
    size_t room = sizeof(mr_ps_responses) + call->leg_count * sizeof(mr_ps_response);
    for (size_t i = 0; i < call->leg_count; i++) room += round_up(call->legs[i]->outcome.size + 1);
    mr_ps_responses *all = xcalloc(1, room);
    mr_ps_response *list = (mr_ps_response *)(all + 1);
    uint8_t *at = (uint8_t *)(list + call->leg_count);
    for (size_t i = 0; i < call->leg_count; at += round_up(call->legs[i++]->outcome.size + 1)) {
        const peer *from = call->legs[i]->peer;
        const outcome *outcome = &call->legs[i]->outcome;
        memcpy(at, outcome->body, outcome->size);
        list[i] = (mr_ps_response){{from->role, from->number}, outcome->status, outcome->head, at, outcome->size};
    }
    all->count = call->leg_count;
    all->list = list;
    call->asked.kept = false;
    if (list_empty(&call->told_link)) free_call(rpc, call);
    return all;
}

/* ---- Scheduler's answers about other processes. */

static void lose(app_rpc *rpc, peer *peer, const char *why) {
    for (list *item; (item = peer->legs.next) != &peer->legs;) {
        leg *leg = container_of(item, struct leg, link);
        if (leg->number == 0) break; /* no request behind this one was sent to a process */
        end_leg(rpc, leg, MR_PEER_DIED, 0, span_of(why, strlen(why)));
    }
}

static void meet(app_rpc *rpc, uint8_t role, const process_table_entry *entry, int64_t now_us) {
    static const char died[] = "it died before it answered", replaced[] = "another process has replaced it";
    peer *peer = find_peer(rpc, role, entry->number);
    if (peer == NULL || entry->incarnation < peer->incarnation) return;
    if (entry->incarnation > peer->incarnation) {
        lose(rpc, peer, replaced);
        peer->last = 0;
    }
    peer->incarnation = entry->incarnation;
    peer->here = entry->here;
    memcpy(peer->address, entry->address, sizeof peer->address);
    if (!peer->here) lose(rpc, peer, died); /* unsent requests wait for the next process with this number */
    pump_peer(rpc, peer, now_us);
}

/* Adds the present processes of a role as receivers of the calls to that role. */
static void list_role(app_rpc *rpc, uint8_t role, const process_table_entry *entries, uint32_t count) {
    list_for_each (item, &rpc->calls) {
        call *call = container_of(item, struct call, link);
        if ((call->unlisted & role) == 0) continue;
        call->unlisted &= (uint8_t)~role;
        for (uint32_t i = 0; i < count; i++) add_leg(rpc, call, role, entries[i].number);
        look_over(rpc, call);
    }
}

static void take_those(app_rpc *rpc, const control_message *message, int64_t now_us) {
    uint8_t role = (uint8_t)message->stamp.view;
    reader reader;
    uint32_t count;
    if (message->stamp.incarnation != rpc->self.state->incarnation || message->stamp.incarnation == 0) return;
    if (process_table_list_read(message->value, &reader, &count) != MR_OK || count > CONTROL_MESSAGE_VALUE_MAX) return;
    process_table_entry *entries = xcalloc((size_t)count + 1, sizeof *entries);
    bool good = true;
    for (uint32_t i = 0; good && i < count; i++) good = process_table_list_next(&reader, &entries[i]) == MR_OK;
    if (good && message->stamp.id == APP_RPC_EVERY) list_role(rpc, role, entries, count);
    for (uint32_t i = 0; good && i < count; i++) meet(rpc, role, &entries[i], now_us);
    free(entries);
    app_rpc_tick(rpc, now_us);
}

/* ---- Received messages. */

static void take_response(app_rpc *rpc, const app_message *message, int64_t now_us) {
    peer *peer = find_peer(rpc, message->from_role, message->from);
    if (peer == NULL || peer->incarnation != message->from_incarnation) return;
    list_for_each (item, &peer->legs) {
        leg *leg = container_of(item, struct leg, link);
        if (leg->number != message->number) continue;
        end_leg(rpc, leg, message->status, message->head, message->body);
        break;
    }
    pump_peer(rpc, peer, now_us);
}

static sender *sender_of(app_rpc *rpc, const app_message *message) {
    sender *found = NULL;
    list_for_each (item, &rpc->senders) {
        sender *sender = container_of(item, struct sender, link);
        if (sender->role == message->from_role && sender->number == message->from) found = sender;
    }
    if (found != NULL && found->incarnation > message->from_incarnation) return NULL;
    if (found != NULL && found->incarnation < message->from_incarnation) {
        free_sender(found);
        found = NULL;
    }
    if (found != NULL) return found;
    found = XNEW(sender, .role = message->from_role, .number = message->from, .oldest = 1,
                 .incarnation = message->from_incarnation);
    list_push_back(&rpc->senders, &found->link);
    return found;
}

static void forget_below(sender *sender, uint64_t oldest) {
    for (size_t i = 0; i < APP_RPC_WINDOW; i++) {
        answer *answer = &sender->answers[i];
        if (answer->number == 0 || answer->number >= oldest || answer->outcome.body == NULL) continue;
        free(answer->outcome.body);
        *answer = (struct answer){0};
    }
    if (oldest > sender->oldest) sender->oldest = oldest;
}

static void say_answer(app_rpc *rpc, const sender *sender, const answer *answer) {
    say(rpc, sender->address,
        &(app_message){.kind = APP_MESSAGE_RESPONSE,
                       .to_role = sender->role,
                       .to = sender->number,
                       .to_incarnation = sender->incarnation,
                       .number = answer->number,
                       .oldest = answer->number,
                       .app = answer->app,
                       .head = answer->outcome.head,
                       .status = answer->outcome.status,
                       .body = span_of(answer->outcome.body, answer->outcome.size)});
}

static void settle(app_rpc *rpc, sender *sender, answer *answer, mr_status status, int32_t head, span body) {
    answer->outcome = outcome_of(status, head, body);
    say_answer(rpc, sender, answer);
}

static void deliver(app_rpc *rpc, const app *app, const app_message *app_message) {
    mr_ps_message *message = xcalloc(1, sizeof *message + app_message->body.size + 1);
    *message = (mr_ps_message){.rpc = rpc,
                               .owner = rpc->owner,
                               .handler = app->handler,
                               .context = app->context,
                               .role = app_message->from_role,
                               .from = app_message->from,
                               .incarnation = app_message->from_incarnation,
                               .number = app_message->number,
                               .app = app_message->app,
                               .head = app_message->head,
                               .size = app_message->body.size};
    if (app_message->body.size != 0) memcpy(message->body, app_message->body.data, app_message->body.size);
    list_push_back(&rpc->deliveries, &message->link);
}

static void take_request(app_rpc *rpc, const app_message *message) {
    static const char unknown[] = "nobody there handles this app";
    sender *sender = sender_of(rpc, message);
    if (sender == NULL) return;
    memcpy(sender->address, message->address, sizeof sender->address);
    forget_below(sender, message->oldest);
    answer *answer = &sender->answers[message->number % APP_RPC_WINDOW];
    if (message->number < sender->oldest) return;
    if (answer->number == message->number) {
        if (answer->outcome.body != NULL) say_answer(rpc, sender, answer);
        return;
    }
    /* beyond the sender's window, or the earlier request in this place is still being handled */
    if (answer->number != 0) return;
    *answer = (struct answer){.number = message->number, .app = message->app};
    const app *app = find_app(rpc, message->app);
    if (app != NULL)
        deliver(rpc, app, message);
    else
        settle(rpc, sender, answer, MR_NOT_FOUND, 0, span_of(unknown, strlen(unknown)));
}

mr_status app_rpc_report(app_rpc *rpc, const char *key, double value) {
    return process_state_report_set(rpc->self.state, key, value);
}

void app_rpc_answer(app_rpc *rpc, mr_ps_message *message, mr_status status, int32_t head, span body) {
    list_for_each (item, &rpc->senders) {
        sender *sender = container_of(item, struct sender, link);
        answer *answer = &sender->answers[message->number % APP_RPC_WINDOW];
        if (sender->role != message->role || sender->number != message->from) continue;
        if (sender->incarnation != message->incarnation || answer->number != message->number) continue;
        if (answer->outcome.body == NULL) settle(rpc, sender, answer, status, head, body);
        break;
    }
    list_remove(&message->link);
    free(message);
}

bool app_rpc_take(app_rpc *rpc, const control_message *message, int64_t now_us) {
    app_message app_message;
    const process_state *self = rpc->self.state;
    if (message->kind == CONTROL_THOSE) take_those(rpc, message, now_us);
    if (message->kind != CONTROL_NOTE) return message->kind == CONTROL_THOSE;
    if (self->incarnation == 0 || app_message_read(message, &app_message) != MR_OK || app_message.map > self->map)
        return true;
    if (app_message.to_role != self->role || app_message.to != self->number) return true;
    if (app_message.to_incarnation != self->incarnation) return true; /* the scheduler informs the sender */
    if (app_message.kind == APP_MESSAGE_REQUEST)
        take_request(rpc, &app_message);
    else
        take_response(rpc, &app_message, now_us);
    return true;
}

/* ---- Handlers and callbacks. */

static void handle(void *context, mr_status status) {
    mr_ps_message *message = context;
    message->handler(message->context, message);
}

bool app_rpc_has_told(const app_rpc *rpc) { return !list_empty(&rpc->deliveries) || !list_empty(&rpc->told); }

bool app_rpc_tell(app_rpc *rpc, void (**function)(void *context, mr_status status), void **context, mr_status *status) {
    list *item = list_pop_front(&rpc->deliveries);
    if (item != NULL) {
        list_push_back(&rpc->messages, item);
        *function = handle;
        *context = container_of(item, mr_ps_message, link);
        *status = MR_OK;
        return true;
    }
    item = list_pop_front(&rpc->told);
    if (item == NULL) return false;
    call *call = container_of(item, struct call, told_link);
    *function = call->asked.done;
    *context = call->asked.context;
    *status = call->failed;
    for (size_t i = 0; i < call->leg_count; i++)
        if (*status == MR_OK) *status = call->legs[i]->outcome.status;
    if (!call->asked.kept) free_call(rpc, call);
    return true;
}

void app_rpc_call_handlers(app_rpc *rpc) {
    void (*function)(void *context, mr_status status);
    void *context;
    mr_status status;
    while (app_rpc_tell(rpc, &function, &context, &status)) function(context, status);
}
