/* barrier_client.c — see barrier_client.h. */
#include "kv/control/barrier_client.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/clock.h"
#include "base/error.h"
#include "kv/control/control_wire.h"

/* ---- Encoding. */

#define WORD_FIELDS(X) X(u64, token) X(u8, group) X(flag, early) X(u64, place) X(u64, generation) X(u64, first)

size_t barrier_client_word_encode(const barrier_client_word *word, uint8_t *out) {
    writer writer = writer_of(out, BARRIER_CLIENT_WORD_MAX);
#define X(type, field) writer_##type(&writer, word->field);
    WORD_FIELDS(X)
#undef X
    writer_text8(&writer, word->name);
    MR_ASSERT(!writer.failed);
    return writer_size(&writer);
}

mr_status barrier_client_word_decode(span bytes, barrier_client_word *out) {
    reader reader = reader_of(bytes.data, bytes.size);
    barrier_client_word word = {0};
#define X(type, field) word.field = reader_##type(&reader);
    WORD_FIELDS(X)
#undef X
    bool is_text = reader_text8(&reader, word.name, sizeof word.name);
    if (!is_text || reader.failed || reader_left(&reader) != 0 || word.name[0] == '\0' || word.group == 0 ||
        word.group > MR_PS_ALL || word.place == 0)
        return error_set(MR_CORRUPT, "malformed barrier request of %zu bytes", bytes.size);
    *out = word;
    return MR_OK;
}

size_t barrier_client_verdict_encode(const barrier_client_verdict *verdict, uint8_t *out) {
    writer writer = writer_of(out, BARRIER_CLIENT_VERDICT_MAX);
    writer_u8(&writer, (uint8_t)verdict->status);
    writer_u32(&writer, verdict->missing);
    writer_u8(&writer, verdict->role);
    writer_u8(&writer, (uint8_t)verdict->named);
    for (uint32_t i = 0; i < verdict->named; i++) writer_u32(&writer, verdict->numbers[i]);
    MR_ASSERT(!writer.failed);
    return writer_size(&writer);
}

mr_status barrier_client_verdict_decode(span bytes, barrier_client_verdict *out) {
    reader reader = reader_of(bytes.data, bytes.size);
    barrier_client_verdict verdict = {.status = (mr_status)reader_u8(&reader), .missing = reader_u32(&reader)};
    verdict.role = reader_u8(&reader);
    verdict.named = reader_u8(&reader);
    bool good = verdict.named <= BARRIER_CLIENT_NAMED && verdict.named <= verdict.missing &&
                verdict.role <= MR_PS_ALL &&
                (verdict.status == MR_OK || verdict.status == MR_BUSY || verdict.status == MR_TOO_LARGE);
    for (uint32_t i = 0; good && i < verdict.named; i++) verdict.numbers[i] = reader_u32(&reader);
    if (!good || reader.failed || reader_left(&reader) != 0)
        return error_set(MR_CORRUPT, "malformed barrier response of %zu bytes", bytes.size);
    *out = verdict;
    return MR_OK;
}

/* ---- Barriers of this process. */

typedef struct barrier_client {
    list link;
    char name[MR_PS_NAME_MAX];
    bool waits;
    uint8_t group;
    barrier_clients_where where;
    uint32_t index; /* rounds that this process has passed at the place */
    uint64_t token;
    bool heard, stale;
    barrier_client_verdict verdict; /* MR_BUSY before the first answer */
    uint64_t map;                   /* cluster map that this process must have before the rank continues */
} barrier_client;

struct barrier_clients {
    process_sender self;
    list list;
    uint32_t count;
    uint64_t tokens;
    int64_t next_us;
};

barrier_clients *barrier_clients_create(const process_sender *self, uint64_t token) {
    barrier_clients *clients = xcalloc(1, sizeof *clients);
    *clients = (struct barrier_clients){.self = *self, .tokens = token, .next_us = CLOCK_NEVER_US};
    list_init(&clients->list);
    return clients;
}

static void forget(barrier_clients *clients, barrier_client *client) {
    list_remove(&client->link);
    free(client);
    clients->count--;
}

void barrier_clients_destroy(barrier_clients *clients) {
    if (clients == NULL) return;
    while (!list_empty(&clients->list)) forget(clients, container_of(clients->list.next, barrier_client, link));
    free(clients);
}

static barrier_client *find(const barrier_clients *clients, const char *name) {
    list_for_each (item, &clients->list) {
        barrier_client *client = container_of(item, struct barrier_client, link);
        if (strcmp(client->name, name) == 0) return client;
    }
    return NULL;
}

static bool is_same(barrier_clients_where a, barrier_clients_where b) {
    return a.early == b.early && (a.early || (a.open == b.open && a.step == b.step));
}

/* Deletes barriers that were passed at another place. */
static void sweep(barrier_clients *clients, barrier_clients_where where) {
    list_for_each (item, &clients->list) {
        barrier_client *client = container_of(item, struct barrier_client, link);
        if (!client->waits && !is_same(client->where, where)) forget(clients, client);
    }
}

mr_status barrier_clients_come(barrier_clients *clients, const char *name, uint8_t group, barrier_clients_where where,
                               int64_t now_us) {
    sweep(clients, where);
    barrier_client *client = find(clients, name);
    if (client != NULL && client->waits && client->group == group && is_same(client->where, where)) return MR_OK;
    if (client == NULL && clients->count == BARRIER_CLIENT_MAX)
        return error_set(MR_TOO_LARGE, "barrier '%s': a process may wait at %d barriers in a step", name,
                         BARRIER_CLIENT_MAX);
    if (client != NULL && client->index == BARRIER_SERVER_INDEX_MAX - 1)
        return error_set(MR_TOO_LARGE, "barrier '%s' was passed %d times in a step, the limit", name,
                         BARRIER_SERVER_INDEX_MAX - 1);
    if (client == NULL) {
        client = xcalloc(1, sizeof *client);
        memcpy(client->name, name, strlen(name) + 1);
        list_push_back(&clients->list, &client->link);
        clients->count++;
    } else if (!is_same(client->where, where)) {
        client->index = 0;
    }
    client->waits = true;
    client->heard = client->stale = false;
    client->verdict.status = MR_BUSY;
    client->group = group;
    client->where = where;
    client->token = ++clients->tokens;
    clients->next_us = now_us;
    return MR_OK;
}

static mr_status not_yet(const barrier_client *client) {
    const barrier_client_verdict *verdict = &client->verdict;
    char text[BARRIER_CLIENT_NAMED * 12] = "";
    size_t size = 0;
    if (!client->heard) return error_set(MR_BUSY, "barrier '%s': the scheduler has not answered", client->name);
    for (uint32_t i = 0; i < verdict->named; i++)
        size += (size_t)snprintf(text + size, sizeof text - size, "%s%u", i == 0 ? "" : ", ", verdict->numbers[i]);
    if (verdict->missing == 0) return error_set(MR_BUSY, "barrier '%s': slots lack replicas", client->name);
    bool servers = verdict->role == MR_PS_SERVERS, one = verdict->missing == 1;
    return error_set(MR_BUSY, "barrier '%s': %s%s %s%s %s", client->name, servers ? "server" : "rank", one ? "" : "s",
                     text, verdict->missing > verdict->named ? " and more" : "",
                     servers ? one ? "is not connected" : "are not connected"
                     : one   ? "has not arrived"
                             : "have not arrived");
}

mr_status barrier_clients_passed(barrier_clients *clients, const char *name) {
    barrier_client *client = find(clients, name);
    if (client == NULL || !client->waits)
        return error_set(MR_STALE, "barrier '%s': another thread of this process has waited for it and passed", name);
    if (client->stale) {
        client->waits = false;
        return error_set(MR_STALE,
                         "barrier '%s': all replicas of a slot were lost during the wait. The tables continue from the "
                         "newest checkpoint, or are empty if there is none",
                         name);
    }
    if (client->verdict.status == MR_BUSY) return not_yet(client);
    if (client->map > clients->self.state->map)
        return error_set(MR_BUSY, "barrier '%s' waits for a newer cluster map", name);
    client->waits = false;
    if (client->verdict.status != MR_OK)
        return error_set(client->verdict.status, "barrier '%s': ranks wait at %d others, the limit", name,
                         BARRIER_SERVER_MAX);
    client->index++;
    return MR_OK;
}

void barrier_clients_restart(barrier_clients *clients) {
    list_for_each (item, &clients->list) {
        barrier_client *client = container_of(item, struct barrier_client, link);
        if (client->waits && !client->where.early) client->stale = true;
        if (!client->where.early) client->index = 0; /* the rank will reach its passed barriers again */
    }
}

/* ---- Messages. */

int64_t barrier_clients_next_us(const barrier_clients *clients) { return clients->next_us; }

static void say(const process_sender *sender, const barrier_client *client) {
    const process_state *self = sender->state;
    uint8_t bytes[BARRIER_CLIENT_WORD_MAX];
    barrier_clients_where where = client->where;
    barrier_client_word word = {.token = client->token,
                                .group = client->group,
                                .early = where.early,
                                .place = where.early ? 1 + (uint64_t)client->index
                                                     : barrier_server_place(where.step, where.open, 1 + client->index),
                                .generation = self->generation,
                                .first = self->first};
    memcpy(word.name, client->name, sizeof word.name);
    control_message message = {.kind = CONTROL_COME,
                               .stamp = {self->map, self->number, self->incarnation},
                               .value = span_of(bytes, barrier_client_word_encode(&word, bytes))};
    sender->send(sender->context, sender->scheduler, &message);
}

void barrier_clients_tick(barrier_clients *clients, int64_t now_us) {
    clients->next_us = CLOCK_NEVER_US;
    list_for_each (item, &clients->list) {
        const barrier_client *client = container_of(item, struct barrier_client, link);
        if (!client->waits || client->stale || client->verdict.status != MR_BUSY) continue;
        if (clients->self.state->ready) say(&clients->self, client);
        clients->next_us = now_us + BARRIER_CLIENT_AGAIN_US;
    }
}

bool barrier_clients_take(barrier_clients *clients, const control_message *message) {
    barrier_client_verdict verdict;
    if (message->kind != CONTROL_PASS) return false;
    if (barrier_client_verdict_decode(message->value, &verdict) != MR_OK) return true;
    list_for_each (item, &clients->list) {
        barrier_client *client = container_of(item, struct barrier_client, link);
        if (!client->waits || client->verdict.status != MR_BUSY || client->token != message->stamp.id) continue;
        client->heard = true;
        client->verdict = verdict;
        client->map = message->stamp.view;
    }
    return true;
}
